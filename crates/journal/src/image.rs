//! What is written next to a segment: whole blocks of its file.
//!
//! ```text
//!   file   │ block                │ block                │ block                │
//!          │ written ▏ group ───────────── group, group ▏ zeros                 │
//!          └ kept ───┘ put ────────────────────────────┘ └ claimed room, or a mark whose time is over
//! ```
//!
//! Invariant: a byte that was written is written again only with the same value. A crash leaves each sector of a block
//! old or new, so it leaves those bytes as they were.
//!
//! Why blocks: they go to the drive past the page cache. Through it a byte costs three to ten times as much processor
//! time, and a sync waits for more threads of the kernel; see `docs/decisions/0002-journal-io.md`.

use std::io;

use crate::disk::{BLOCK_BYTES, Blocks, DiskFile};

/// Bytes of a file that are to be written, in front of them those that share their first block.
#[derive(Debug)]
pub(crate) struct Image {
    blocks: Blocks,
    /// File offset of the first block.
    from: u64,
    /// Bytes of the first block that were written before.
    kept: usize,
}

impl Image {
    /// What is written to `file` behind `offset`. Reads what is before it in its block.
    pub fn behind(file: &impl DiskFile, offset: u64) -> io::Result<Image> {
        let mut image = Image { blocks: Blocks::default(), from: offset / BLOCK * BLOCK, kept: 0 };
        let mut kept = vec![0; (offset - image.from) as usize];
        file.read_exact_at(&mut kept, image.from)?;
        image.put(kept.len(), |memory| memory.extend_from_slice(&kept));
        image.kept = kept.len();
        Ok(image)
    }

    /// Goes on in another file, at `offset`, where a block begins.
    pub fn move_to(&mut self, offset: u64) {
        assert!(self.is_empty(), "all is written");
        assert!(offset.is_multiple_of(BLOCK), "nothing of its block is to be kept");
        self.blocks.truncate(0);
        (self.from, self.kept) = (offset, 0);
    }

    /// Lets `write` append up to `bytes` bytes.
    pub fn put<T>(&mut self, bytes: usize, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.blocks.append(bytes, write)
    }

    /// Whether nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Bytes that are to be written.
    pub fn bytes(&self) -> usize {
        self.blocks.len() - self.kept
    }

    /// File offset of the first byte that is to be written.
    pub fn offset(&self) -> u64 {
        self.from + self.kept as u64
    }

    /// Writes what was put, which counts as written then, and zeros behind it to the end of its block.
    pub fn write_to(&mut self, file: &impl DiskFile) -> io::Result<()> {
        let bytes = self.blocks.len();
        let written = self.write_padded(file);
        self.blocks.truncate(bytes);
        self.from += self.blocks.forget_full() as u64;
        self.kept = self.blocks.len();
        written
    }

    /// Writes `mark` behind all, where the next bytes will be put.
    pub fn write_mark_to(&mut self, file: &impl DiskFile, mark: &[u8]) -> io::Result<()> {
        assert!(self.is_empty(), "a mark stands behind what is durable");
        let bytes = self.blocks.len();
        self.put(mark.len(), |memory| memory.extend_from_slice(mark));
        let written = self.write_padded(file);
        self.blocks.truncate(bytes);
        written
    }

    fn write_padded(&mut self, file: &impl DiskFile) -> io::Result<()> {
        self.blocks.pad();
        file.write_blocks_at(&self.blocks, self.from)
    }
}

/// [`BLOCK_BYTES`], for offsets.
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;

#[cfg(test)]
mod tests;
