//! Memory for whole blocks, which a file system can take past its cache.
//!
//! ```text
//!   memory   │ lead │ block │ block │ blo…
//!                   └ its address is a multiple of a block
//! ```
//!
//! Why no allocator with an alignment: that needs `unsafe`. A block more than is needed has room for the lead.

use std::ops::Deref;

/// Bytes of a block. Drives and file systems that take writes past the cache take those of this size, at offsets and
/// addresses that are multiples of it; only few need less.
pub const BLOCK_BYTES: usize = 4096;

/// Bytes that begin at an address that is a multiple of [`BLOCK_BYTES`]. Dereferences to them.
#[derive(Debug, Default)]
pub struct Blocks {
    memory: Vec<u8>,
    lead: usize,
}

impl Blocks {
    /// So many zeros. They take memory only once they are written to.
    pub fn zeros(bytes: usize) -> Blocks {
        let mut memory = vec![0; bytes + BLOCK_BYTES];
        let lead = lead_of(&memory);
        memory.truncate(lead + bytes);
        Blocks { memory, lead }
    }

    /// Lets `write` append up to `bytes` bytes.
    ///
    /// Panics when it appends more, or takes bytes away.
    pub fn append<T>(&mut self, bytes: usize, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.reserve(bytes);
        let (before, address) = (self.memory.len(), self.memory.as_ptr());
        let written = write(&mut self.memory);
        let appended = self.memory.len().checked_sub(before);
        assert!(appended.is_some_and(|appended| appended <= bytes), "what is appended is what was said, at most");
        assert_eq!(self.memory.as_ptr(), address, "there was room for it");
        written
    }

    /// Appends zeros up to the end of the last block.
    pub fn pad(&mut self) {
        let bytes = self.len().next_multiple_of(BLOCK_BYTES) - self.len();
        self.append(bytes, |memory| memory.resize(memory.len() + bytes, 0));
    }

    /// Keeps the first `bytes` bytes.
    pub fn truncate(&mut self, bytes: usize) {
        self.memory.truncate(self.lead + bytes);
    }

    /// Forgets the blocks that are full; returns how many bytes those were.
    pub fn forget_full(&mut self) -> usize {
        let full = self.len() / BLOCK_BYTES * BLOCK_BYTES;
        self.memory.copy_within(self.lead + full.., self.lead);
        self.memory.truncate(self.memory.len() - full);
        assert!(self.len() < BLOCK_BYTES, "a part of a block is left");
        full
    }

    fn reserve(&mut self, bytes: usize) {
        if self.memory.capacity() - self.memory.len() >= bytes {
            return;
        }
        let wanted = (self.len() + bytes).max(2 * self.len()).next_multiple_of(BLOCK_BYTES);
        let mut memory = Vec::with_capacity(wanted + BLOCK_BYTES);
        let lead = lead_of(&memory);
        memory.resize(lead, 0);
        memory.extend_from_slice(self);
        *self = Blocks { memory, lead };
    }
}

impl Deref for Blocks {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.lead..]
    }
}

/// Bytes from the start of `memory` to the first address that is a multiple of a block.
fn lead_of(memory: &[u8]) -> usize {
    let address = memory.as_ptr().addr();
    address.next_multiple_of(BLOCK_BYTES) - address
}

/// Whether these are whole blocks, in memory and in a file.
pub(crate) fn are_blocks(bytes: &[u8], offset: u64) -> bool {
    let block = BLOCK_BYTES as u64;
    bytes.as_ptr().addr().is_multiple_of(BLOCK_BYTES)
        && bytes.len().is_multiple_of(BLOCK_BYTES)
        && offset.is_multiple_of(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(blocks: &mut Blocks, bytes: &[u8]) {
        blocks.append(bytes.len(), |memory| memory.extend_from_slice(bytes));
    }

    #[test]
    fn blocks_keep_their_bytes_and_their_place_while_they_grow() {
        let mut blocks = Blocks::default();
        let mut expected = Vec::new();
        for n in 0..200_u32 {
            let piece = vec![n as u8; (n * 37 % 1_000) as usize];
            append(&mut blocks, &piece);
            expected.extend_from_slice(&piece);
            assert_eq!(*blocks, *expected);
            assert!(blocks.is_empty() || blocks.as_ptr().addr().is_multiple_of(BLOCK_BYTES));
        }
    }

    #[test]
    fn what_is_padded_is_whole_blocks() {
        let mut blocks = Blocks::default();
        append(&mut blocks, &[7; 5_000]);
        blocks.pad();
        assert!(are_blocks(&blocks, 8_192) && !are_blocks(&blocks, 100) && !are_blocks(&blocks[..100], 0));
        assert_eq!((blocks.len(), &blocks[4_999..5_002]), (8_192, &[7, 0, 0][..]));
        blocks.pad();
        assert_eq!(blocks.len(), 8_192, "nothing is missing any more");
    }

    #[test]
    fn full_blocks_are_forgotten_and_the_rest_moves_to_the_front() {
        let mut blocks = Blocks::default();
        append(&mut blocks, &[1; 4_096]);
        append(&mut blocks, &[2; 10]);
        assert_eq!((blocks.forget_full(), &*blocks), (4_096, &[2; 10][..]));
        assert_eq!((blocks.forget_full(), &*blocks), (0, &[2; 10][..]));
        assert!(blocks.as_ptr().addr().is_multiple_of(BLOCK_BYTES));
    }

    #[test]
    fn zeros_are_as_many_as_asked_for() {
        let zeros = Blocks::zeros(3 * BLOCK_BYTES);
        assert!(are_blocks(&zeros, 0) && zeros.len() == 3 * BLOCK_BYTES && zeros.iter().all(|byte| *byte == 0));
    }

    #[test]
    #[should_panic(expected = "what is appended is what was said")]
    fn nobody_appends_more_than_was_said() {
        Blocks::default().append(1, |memory| memory.extend_from_slice(&[0; 100_000]));
    }
}
