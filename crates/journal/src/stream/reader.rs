//! Reading a log in a stream, on a thread that may wait. Every message is verified when it is read.

use super::groups::StreamGroups;
use super::message::MessageKind;
use super::stored::StoredMessages;
use super::tail::{begins_at, find_tail};
use super::{NUMBER_MAX, Stream, message_name, number_of, offset_in_group, place_of, unavailable};
use crate::group::{GROUP_HEADER_BYTES, GroupHeader, RECORD_HEADER_BYTES, record_checksum, u32_at};
use crate::limits::RECORD_BYTES_MAX;
use crate::scrub::scrub;
use crate::{Cursor, Durability, Forgotten, GroupReader, JournalError, LogReader, Position, Scrubbed, Sequence};

/// Reads one log in a stream, while another thread or another process writes it.
pub struct StreamReader<T: Stream> {
    messages: StoredMessages<T>,
}

impl<T: Stream> StreamReader<T> {
    pub(crate) fn new(messages: StoredMessages<T>) -> StreamReader<T> {
        StreamReader { messages }
    }

    /// `place`, or where the log begins if it has forgotten that.
    fn first_at_or_after(&self, place: Cursor) -> Result<Cursor, JournalError> {
        let first = self.messages.extent()?.first;
        if !self.messages.may_forget() || begins_at(first) <= place.position {
            return Ok(place);
        }
        let head = self.messages.get(first)?;
        let header =
            GroupHeader::decode(head.payload()).map_err(|fault| self.messages.damaged(first, 0, fault.to_string()))?;
        let sequence = Sequence(header.first_sequence.0 - 1);
        Ok(Cursor { position: place_of(first), sequence, chain: header.previous })
    }

    /// Fills `into` with the bytes of a group from `offset` on, given its first message's payload; less if the group
    /// ends before.
    fn fill(&self, first: u64, head: &[u8], parts: u16, offset: usize, into: &mut [u8]) -> Result<usize, JournalError> {
        let mut filled = 0;
        while filled < into.len() {
            // All parts but the last are as long as the first.
            let (part, at) = ((offset + filled) / head.len(), (offset + filled) % head.len());
            if part >= usize::from(parts) {
                break;
            }
            let stored = if part > 0 { Some(self.messages.get(first + part as u64)?) } else { None };
            let bytes = stored.as_ref().map_or(head, |stored| stored.payload());
            let Some(bytes) = bytes.get(at..).filter(|bytes| !bytes.is_empty()) else { break };
            let count = bytes.len().min(into.len() - filled);
            into[filled..filled + count].copy_from_slice(&bytes[..count]);
            filled += count;
        }
        Ok(filled)
    }
}

impl<T: Stream> LogReader for StreamReader<T> {
    fn another(&self) -> Result<StreamReader<T>, JournalError> {
        Ok(StreamReader { messages: self.messages.another() })
    }

    fn read(&self, at: Position, into: &mut Vec<u8>) -> Result<(), JournalError> {
        let (first, offset) = (number_of(at), offset_in_group(at));
        let no_record = |what: &str| JournalError::NoRecord {
            at,
            segment: message_name(first),
            offset: offset as u64,
            what: what.into(),
        };
        if first == 0 || first >= NUMBER_MAX || offset < GROUP_HEADER_BYTES {
            return Err(no_record("no record can stand there"));
        }
        let Some(head) = self.messages.find(first)? else {
            return Err(match self.messages.missing(first)? {
                forgotten @ JournalError::Forgotten { .. } => forgotten,
                _ => no_record("there is no message of this number"),
            });
        };
        let MessageKind::Part { part: 0, parts, .. } = head.header.kind else {
            return Err(no_record("no group begins with this message"));
        };
        let mut header = [0; RECORD_HEADER_BYTES];
        if self.fill(first, head.payload(), parts, offset, &mut header)? < RECORD_HEADER_BYTES {
            return Err(no_record("the group ends there"));
        }
        let bytes = u32_at(&header, 0) as usize;
        if bytes == 0 || bytes > RECORD_BYTES_MAX {
            return Err(no_record("no record begins there"));
        }
        into.clear();
        into.resize(bytes, 0);
        if self.fill(first, head.payload(), parts, offset + RECORD_HEADER_BYTES, into)? < bytes {
            return Err(no_record("the group ends within the record"));
        }
        if record_checksum(at, into) == u32_at(&header, 4) {
            Ok(())
        } else {
            Err(no_record("its checksum does not match"))
        }
    }

    /// A stream has no parts: it is read from its beginning.
    fn begins_at_or_before(&self, at: Position) -> Result<Cursor, JournalError> {
        let begins = self.first_at_or_after(Cursor::START)?;
        if begins.position > at {
            return Err(JournalError::Forgotten { at, begins: begins.position });
        }
        Ok(begins)
    }

    fn groups(&self, from: Cursor, up_to: &Durability) -> Result<GroupReader, JournalError> {
        GroupReader::new(Box::new(StreamGroups::new(self.messages.another())), from, *up_to)
    }

    /// Behind the last group that is stored: what is stored stays.
    fn settled_end(&self) -> Result<Durability, JournalError> {
        let last = self.messages.extent()?.last;
        Ok(Durability::at(find_tail(&self.messages, last)?.end))
    }

    /// By the average size of a message; zero while the stream cannot be asked.
    fn bytes_between(&self, from: Position, to: Position) -> u64 {
        let Ok(extent) = self.messages.extent() else { return 0 };
        let messages = number_of(to).saturating_sub(number_of(from));
        let stored = (extent.last + 1 - extent.first).max(1);
        (u128::from(messages) * u128::from(extent.bytes) / u128::from(stored)) as u64
    }

    /// Purges what stands before the last group before `before`. That group stays, because it shows whose run goes on
    /// there.
    fn forget_before(&self, before: Position) -> Result<Forgotten, JournalError> {
        assert!(self.messages.may_forget(), "{}: it is whole for ever and forgets nothing", self.messages.log);
        let (first, behind) = (self.messages.extent()?.first, number_of(before));
        let last = match behind.checked_sub(1).filter(|last| *last >= first) {
            Some(last) => self.messages.get(last)?,
            None => return Ok(Forgotten::default()),
        };
        let MessageKind::Part { first: keep, .. } = last.header.kind else { return Ok(Forgotten::default()) };
        if keep <= first {
            return Ok(Forgotten::default());
        }
        self.messages.stream.purge_below(keep).map_err(unavailable(self.messages.log, "purge old messages"))?;
        Ok(Forgotten { segments: (keep - first) as usize, positions: place_of(keep).0 - begins_at(first).0 })
    }

    fn scrub(&self, from: Cursor, bytes: u64) -> Result<Scrubbed, JournalError> {
        scrub(self, self.first_at_or_after(from)?, bytes)
    }
}
