//! Received bytes, and the whole replies among them. No I/O.
//!
//! ```text
//!   bytes:  │ given out │ whole frames, half a frame │ room │
//!           0         start                         end    len
//! ```

use crate::error::ClientError;
use tidegate_wire::{ReplyRef, Split, decode_reply, limits, split};

/// What [`Inbox::room`] offers at least.
const ROOM_BYTES: usize = 16 << 10;

/// Collects bytes into replies. Its memory is bounded by the longest frame and what one read adds.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Inbox {
    /// An empty inbox.
    pub fn new() -> Inbox {
        Inbox::default()
    }

    /// Where to read the next bytes into, 16 KiB or more, and enough for the rest of a frame that has begun. Tell
    /// [`Inbox::filled`] how many came.
    pub fn room(&mut self) -> &mut [u8] {
        let wanted = match split(self.unread(), limits::FRAME_BYTES_MAX) {
            Ok(Split::NeedMore { bytes }) => bytes.max(ROOM_BYTES),
            _ => ROOM_BYTES,
        };
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.bytes.len() - self.end < wanted {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.bytes.len() - self.end < wanted {
                self.bytes.resize(self.end + wanted, 0);
            }
        }
        &mut self.bytes[self.end..]
    }

    /// `count` bytes were read into [`Inbox::room`].
    ///
    /// # Panics
    /// When that is more than there was room for.
    pub fn filled(&mut self, count: usize) {
        assert!(count <= self.bytes.len() - self.end, "{count} bytes were read into less room");
        self.end += count;
    }

    /// The next reply, if it is whole. After an error the stream makes no sense any more; drop the connection.
    pub fn next_reply(&mut self) -> Result<Option<ReplyRef<'_>>, ClientError> {
        // As a frame, it would have a field that none has.
        if self.unread().starts_with(b"HTTP/") {
            return Err(ClientError::Http);
        }
        match split(self.unread(), limits::FRAME_BYTES_MAX)? {
            Split::NeedMore { .. } => Ok(None),
            Split::Frame(range) => {
                let frame = self.start + range.start..self.start + range.end;
                self.start = frame.end;
                Ok(Some(decode_reply(&self.bytes[frame])?))
            }
        }
    }

    fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tidegate_wire::OutcomesEncoder;

    proptest! {
        /// However the network cuts the stream, the same replies come out.
        #[test]
        fn replies_survive_any_cut(batches in prop::collection::vec(0usize..20_000, 1..6), cut in 1usize..50_000) {
            let mut stream = Vec::new();
            for (correlation, &outcomes) in batches.iter().enumerate() {
                let mut frame = OutcomesEncoder::begin(&mut stream, correlation as u64, outcomes);
                (0..outcomes).for_each(|_| frame.applied());
                frame.finish();
            }
            let (mut inbox, mut seen, mut rest) = (Inbox::new(), vec![], &stream[..]);
            while !rest.is_empty() {
                let room = inbox.room();
                prop_assert!(room.len() >= ROOM_BYTES);
                let count = room.len().min(rest.len()).min(cut);
                room[..count].copy_from_slice(&rest[..count]);
                inbox.filled(count);
                rest = &rest[count..];
                while let Some(reply) = inbox.next_reply().unwrap() {
                    let tidegate_wire::ReplyBodyRef::Outcomes(outcomes) = reply.body else { panic!("{reply:?}") };
                    prop_assert_eq!(reply.correlation, seen.len() as u64);
                    seen.push(outcomes.count());
                }
            }
            prop_assert_eq!(seen, batches);
        }
    }

    #[test]
    fn another_protocol_is_an_error_and_not_a_wait() {
        let mut inbox = Inbox::new();
        let greeting = b"\xff\xff\xff\xff\xff HTTP/1.1 400 Bad Request";
        inbox.room()[..greeting.len()].copy_from_slice(greeting);
        inbox.filled(greeting.len());
        assert!(matches!(inbox.next_reply(), Err(ClientError::Frame(_))));
    }

    #[test]
    fn an_http_server_is_named() {
        let (mut inbox, answer) = (Inbox::new(), b"HTTP/1.1 400 Bad Request\r\n");
        inbox.room()[..answer.len()].copy_from_slice(answer);
        inbox.filled(answer.len());
        assert!(matches!(inbox.next_reply(), Err(ClientError::Http)));
    }
}
