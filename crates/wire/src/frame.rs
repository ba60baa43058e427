//! Cuts a stream into frames, and puts frames around bodies that are still growing.
//!
//! ```text
//!   ┌────────────┬───────────────────────────────────────────────┐
//!   │ length     │ 08 correlation │ tag │ body length │ body ...  │   length = bytes after itself
//!   └────────────┴───────────────────────────────────────────────┘
//! ```
//!
//! A writer does not know a body's length before the body is written. It leaves four bytes for each length and fills
//! them in afterwards. In a short frame the gap is closed, so that a vote has no extra bytes. In a long frame the
//! length is a padded varint (`85 80 80 00` is 5), because moving half a megabyte costs more than six bytes do. All
//! protobuf decoders read padded varints.

use crate::error::{DecodeError, FrameError};
use crate::limits::{COMPACT_BYTES_MAX, LENGTH_PREFIX_BYTES_MAX, PADDED_BYTES};
use crate::varint;
use std::ops::Range;

/// What stands at the beginning of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Split {
    /// No whole frame yet. `bytes` more are needed at least: to the end of the frame once its length is known,
    /// otherwise one.
    NeedMore {
        /// How many bytes more, at least.
        bytes: usize,
    },
    /// A frame, without its length prefix; the next one begins at the range's end.
    Frame(Range<usize>),
}

/// Looks for a frame at the beginning of `buffer`. Looks at five bytes at most, whatever the frame's length, and
/// refuses a frame above `frame_bytes_max` as soon as its length is there, so that nobody waits for, or buffers, what
/// will be refused.
#[inline]
pub fn split(buffer: &[u8], frame_bytes_max: usize) -> Result<Split, FrameError> {
    let prefix = &buffer[..buffer.len().min(LENGTH_PREFIX_BYTES_MAX)];
    let mut at = 0;
    let length = match varint::read(prefix, &mut at) {
        Ok(length) => length,
        Err(DecodeError::Truncated) if prefix.len() < LENGTH_PREFIX_BYTES_MAX => {
            return Ok(Split::NeedMore { bytes: 1 });
        }
        Err(_) => return Err(FrameError::LengthMalformed),
    };
    if length > frame_bytes_max as u64 {
        return Err(FrameError::TooLarge { bytes: length, bytes_max: frame_bytes_max });
    }
    let end = at + length as usize;
    if end > buffer.len() { Ok(Split::NeedMore { bytes: end - buffer.len() }) } else { Ok(Split::Frame(at..end)) }
}

/// A frame whose body is being appended to a buffer. Finish it with [`OpenFrame::close`]; until then the buffer ends in
/// half a frame.
#[derive(Debug)]
pub(crate) struct OpenFrame {
    start: usize,
    body: usize,
}

impl OpenFrame {
    /// Appends the head of a frame with a body of field number `body_number`.
    #[inline]
    pub(crate) fn open(out: &mut Vec<u8>, correlation: u64, body_number: u8) -> OpenFrame {
        debug_assert!(body_number < 16, "the tag has one byte");
        let start = out.len();
        out.extend_from_slice(&[0; PADDED_BYTES]);
        if correlation != 0 {
            out.push(0x08);
            varint::write(out, correlation);
        }
        out.push(body_number << 3 | 2);
        out.extend_from_slice(&[0; PADDED_BYTES]);
        OpenFrame { start, body: out.len() }
    }

    /// Writes both lengths. `out` must be the buffer that the frame was opened in, with nothing but its body appended.
    ///
    /// # Panics
    /// When the body is longer than a padded length can say, 256 MiB: sixty times [`crate::limits::FRAME_BYTES_MAX`].
    #[inline]
    pub(crate) fn close(self, out: &mut Vec<u8>) {
        if out.len() - self.body <= COMPACT_BYTES_MAX {
            // The inner gap first: closing it changes the outer length.
            close_gap(out, self.body);
            close_gap(out, self.start + PADDED_BYTES);
        } else {
            fill_gap(out, self.body);
            fill_gap(out, self.start + PADDED_BYTES);
        }
    }
}

/// The gap before `content` becomes the length of what follows, in the fewest bytes.
fn close_gap(out: &mut Vec<u8>, content: usize) {
    let (length, width) = varint::encoded((out.len() - content) as u64);
    let gap = content - PADDED_BYTES;
    out[gap..gap + width].copy_from_slice(&length[..width]);
    out.copy_within(content.., gap + width);
    out.truncate(out.len() - (PADDED_BYTES - width));
}

/// The gap before `content` becomes the length of what follows, padded.
fn fill_gap(out: &mut [u8], content: usize) {
    let length = out.len() - content;
    assert!(length < 1 << (7 * PADDED_BYTES), "a frame of {length} bytes");
    for (index, byte) in out[content - PADDED_BYTES..content].iter_mut().enumerate() {
        let more = if index < PADDED_BYTES - 1 { 0x80 } else { 0 };
        *byte = (length >> (7 * index)) as u8 & 0x7f | more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FRAME_BYTES_MAX;

    fn check(buffer: &[u8], expected: Result<Split, FrameError>) {
        assert_eq!(split(buffer, FRAME_BYTES_MAX), expected, "{buffer:02x?}");
    }

    #[test]
    fn a_frame_is_found_when_it_is_whole() {
        check(&[], Ok(Split::NeedMore { bytes: 1 }));
        check(&[0], Ok(Split::Frame(1..1)));
        check(&[3, 1], Ok(Split::NeedMore { bytes: 2 }));
        check(&[3, 1, 2, 3, 9], Ok(Split::Frame(1..4)));
        check(&[0x80], Ok(Split::NeedMore { bytes: 1 }));
        check(&[0x81, 0x80, 0x80, 0x00, 7], Ok(Split::Frame(4..5)));
    }

    #[test]
    fn a_frame_that_will_be_refused_is_not_waited_for() {
        check(
            &[0x81, 0x80, 0x80, 0x02],
            Err(FrameError::TooLarge { bytes: (4 << 20) + 1, bytes_max: FRAME_BYTES_MAX }),
        );
        check(&[0xff; 4], Ok(Split::NeedMore { bytes: 1 }));
        check(&[0xff; 5], Err(FrameError::LengthMalformed));
        check(&[0xff; 20], Err(FrameError::LengthMalformed));
    }

    #[test]
    #[cfg_attr(miri, ignore = "about sizes; nothing new for Miri, and slow there")]
    fn lengths_are_right_on_both_sides_of_the_bound_between_closing_and_filling_the_gap() {
        for body_bytes in [0, 1, 127, 128, COMPACT_BYTES_MAX, COMPACT_BYTES_MAX + 1, 1 << 20] {
            let mut out = b"before".to_vec();
            let frame = OpenFrame::open(&mut out, 300, 4);
            out.resize(out.len() + body_bytes, 0xab);
            frame.close(&mut out);
            let Ok(Split::Frame(range)) = split(&out[6..], FRAME_BYTES_MAX) else { panic!("{body_bytes}") };
            assert_eq!(range.end, out.len() - 6);
            let frame = &out[6..][range];
            assert_eq!(frame[..4], [0x08, 0xac, 0x02, 0x22]);
            let mut at = 4;
            assert_eq!(varint::read(frame, &mut at), Ok(body_bytes as u64));
            assert_eq!(frame.len() - at, body_bytes);
        }
    }
}
