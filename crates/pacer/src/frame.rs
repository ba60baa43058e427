//! Payloads of a file that is no journal, each with its length and a checksum, as records of journals have them.
//!
//! ```text
//!   file    head, 16 bytes │ frame │ frame │ …
//!   frame   len u32 │ checksum u32 │ payload       checksum: of length, place and payload
//! ```
//!
//! Promise: what is read was written so, at this place. Reading ends before the first frame that is not whole.

use tidegate_journal::Position;
use tidegate_journal::group::record_checksum;
use tidegate_shard::form::Malformed;

/// Bytes that a file begins with.
pub(crate) const HEAD_BYTES: usize = 16;
/// Bytes before a payload.
const FRAME_HEAD_BYTES: usize = 8;
/// Bytes of a payload at most: a plan has some thousands.
const PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// What a file of this name and layout begins with.
pub(crate) const fn head(name: [u8; 8], layout: u8) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    let mut at = 0;
    while at < name.len() {
        head[at] = name[at];
        at += 1;
    }
    head[8] = layout;
    head
}

/// Appends a payload to bytes of which the first one has this place in the file.
pub(crate) fn append(into: &mut Vec<u8>, place: u64, encode: impl FnOnce(&mut Vec<u8>)) {
    let begins = into.len();
    into.extend_from_slice(&[0; FRAME_HEAD_BYTES]);
    encode(into);
    let payload = &into[begins + FRAME_HEAD_BYTES..];
    let (length, checksum) = (payload.len() as u32, record_checksum(Position(place + begins as u64), payload));
    into[begins..begins + 4].copy_from_slice(&length.to_le_bytes());
    into[begins + 4..begins + FRAME_HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

/// The payloads of a file, one after the other.
pub(crate) struct Payloads<'a> {
    file: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Payloads<'a> {
    /// Of a file that begins with `head`; `None` if it does not.
    pub fn of(file: &'a [u8], head: &[u8; HEAD_BYTES]) -> Option<Payloads<'a>> {
        // A crash may have torn the head, too.
        let rest = if head.starts_with(file) { &[] } else { file.strip_prefix(head)? };
        Some(Payloads { file, rest })
    }

    /// Bytes that are not read. Behind the last payload, how many bytes of the file nobody can read.
    pub fn unread_bytes(&self) -> usize {
        self.rest.len()
    }

    /// Whether what is not read is the beginning of a frame, as a kill leaves it: it has no whole frame.
    pub fn is_torn(&self) -> bool {
        let is_cut = match self.rest.split_first_chunk::<FRAME_HEAD_BYTES>() {
            None => true,
            Some((&[a, b, c, d, ..], behind)) => {
                let length = u32::from_le_bytes([a, b, c, d]) as usize;
                behind.len() < length && length <= PAYLOAD_BYTES_MAX
            }
        };
        is_cut && (0..self.rest.len()).all(|at| self.whole_at(at).is_none())
    }

    /// The payload of the frame that begins so many bytes behind what was read, and what follows it; `None` if there is
    /// no whole one.
    fn whole_at(&self, at: usize) -> Option<(&'a [u8], &'a [u8])> {
        let place = self.file.len() - self.rest.len() + at;
        let (head, behind) = self.rest[at..].split_first_chunk::<FRAME_HEAD_BYTES>()?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let checksum = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let (payload, behind) = behind.split_at_checked(length).filter(|_| length <= PAYLOAD_BYTES_MAX)?;
        (record_checksum(Position(place as u64), payload) == checksum).then_some((payload, behind))
    }

    /// Reads the next payload; `None` at the end, and if it is not whole or `read` finds no sense in it.
    pub fn next<T>(&mut self, read: impl FnOnce(&'a [u8]) -> Result<T, Malformed>) -> Option<T> {
        let (payload, behind) = self.whole_at(0)?;
        let read = read(payload).ok()?;
        self.rest = behind;
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [u8; HEAD_BYTES] = head(*b"tgtest\0\0", 1);

    /// Reads what can be read. How many payloads there are, and whether the rest is torn.
    fn read(file: &[u8]) -> (usize, bool) {
        let mut payloads = Payloads::of(file, &HEAD).expect("a file of this kind");
        let read = std::iter::from_fn(|| payloads.next(|payload| Ok(payload.len()))).count();
        (read, payloads.is_torn())
    }

    #[test]
    fn a_kill_tears_the_last_frame_and_all_else_is_damage() {
        let mut file = HEAD.to_vec();
        let mut begins = Vec::new();
        for length in [100, 50, 70] {
            begins.push(file.len());
            append(&mut file, 0, |into| into.extend((0..length).map(|byte| byte as u8)));
        }
        assert_eq!(read(&file), (3, true), "nothing is left");
        for cut in begins[2]..file.len() {
            assert_eq!(read(&file[..cut]), (2, true), "{cut}");
        }
        let changed = |at: usize, byte: u8| {
            let mut bytes = file.clone();
            bytes[at] ^= byte;
            read(&bytes)
        };
        assert_eq!(changed(begins[2] + 20, 1), (2, false), "a payload");
        assert_eq!(
            changed(begins[1] + 1, 0x40),
            (1, false),
            "a length that reaches beyond the file, before a whole frame"
        );
        assert_eq!(changed(begins[1] + 3, 0x40), (1, false), "a length that no frame has");
    }
}
