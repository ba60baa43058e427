//! Messages as they are stored: fetched, verified, and put together to groups.

use super::message::{self, MESSAGE_FORMAT_VERSION, MessageFault, MessageHeader, MessageKind};
use super::{Extent, Message, Stream, message_name, place_of, unavailable};
use crate::damage::LOST_UNKNOWN;
use crate::group::{GROUP_HEADER_BYTES, GroupFault, GroupHeader};
use crate::{Cursor, Family, JournalError, LogId, Retention};

/// The messages of one log, for a thread that may wait.
pub(crate) struct StoredMessages<T: Stream> {
    pub stream: T,
    pub log: LogId,
    pub retention: Retention,
}

/// One that passed its checks.
pub(crate) struct Stored {
    pub header: MessageHeader,
    bytes: Message,
}

impl Stored {
    pub fn payload(&self) -> &[u8] {
        &self.bytes[message::MESSAGE_HEADER_BYTES..]
    }

    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub fn epoch(&self) -> u64 {
        self.header.epoch()
    }

    pub fn is_epoch(&self) -> bool {
        matches!(self.header.kind, MessageKind::Epoch { .. })
    }
}

/// How the messages from a place on make a group.
pub(crate) enum Gathered {
    /// Its bytes, and the number behind its last message.
    Whole { image: Vec<u8>, next: u64 },
    /// Its writer's run ends before its last message: it is void. The number of the first message that is not of that
    /// run.
    Void { next: u64 },
}

impl<T: Stream> StoredMessages<T> {
    pub fn new(stream: T, log: LogId, family: &Family) -> StoredMessages<T> {
        StoredMessages { stream, log, retention: family.retention }
    }

    pub fn another(&self) -> StoredMessages<T> {
        StoredMessages { stream: self.stream.another(), log: self.log, retention: self.retention }
    }

    pub fn may_forget(&self) -> bool {
        self.retention == Retention::SinceSnapshot
    }

    pub fn extent(&self) -> Result<Extent, JournalError> {
        let extent = self.stream.extent().map_err(unavailable(self.log, "ask how far its stream goes"))?;
        assert!(extent.first >= 1 && extent.first <= extent.last + 1, "a stream ends behind its beginning");
        Ok(extent)
    }

    /// The message under `number`, verified; `None` if there is none.
    pub fn find(&self, number: u64) -> Result<Option<Stored>, JournalError> {
        let found = self.stream.get(number).map_err(unavailable(self.log, "read a message"))?;
        let Some(bytes) = found else { return Ok(None) };
        let header = match message::decode(&bytes) {
            Ok((header, _)) => header,
            Err(MessageFault::UnknownVersion(found)) => {
                let path = message_name(number).into();
                return Err(JournalError::UnknownVersion {
                    path,
                    found: found.into(),
                    known: MESSAGE_FORMAT_VERSION.into(),
                });
            }
            Err(fault) => return Err(self.damaged(number, 0, fault.to_string())),
        };
        if header.log != self.log {
            return Err(self.damaged(number, 0, format!("a message of {}", header.log)));
        }
        if header.number != number {
            return Err(self.damaged(number, 0, format!("a message that belongs to number {}", header.number)));
        }
        Ok(Some(Stored { header, bytes }))
    }

    /// The same, where there must be one.
    pub fn get(&self, number: u64) -> Result<Stored, JournalError> {
        match self.find(number)? {
            Some(stored) => Ok(stored),
            None => Err(self.missing(number)?),
        }
    }

    /// The error for a number under which there is nothing: forgotten, if such a log may forget.
    pub fn missing(&self, number: u64) -> Result<JournalError, JournalError> {
        let first = self.extent()?.first;
        if number < first && self.may_forget() {
            return Ok(JournalError::Forgotten { at: place_of(number), begins: place_of(first) });
        }
        Ok(self.damaged(number, 0, "the message is missing".into()))
    }

    pub fn damaged(&self, number: u64, offset: usize, what: String) -> JournalError {
        JournalError::Damaged { segment: message_name(number), offset: offset as u64, what, lost: LOST_UNKNOWN.into() }
    }

    /// Puts the group together whose first message is `head`, at its place; reads nothing at or behind number `limit`.
    pub fn gather(&self, head: &Stored, limit: u64) -> Result<Gathered, JournalError> {
        let MessageKind::Part { epoch, first, part, parts, chain, .. } = head.header.kind else {
            return Err(self.damaged(head.header.number, 0, "an epoch message, where a group must begin".into()));
        };
        if part != 0 {
            return Err(self.damaged(head.header.number, 0, "a group's later part, where a group must begin".into()));
        }
        let mut image = head.payload().to_vec();
        for next in 1..parts {
            let number = first + u64::from(next);
            if number >= limit {
                return Ok(Gathered::Void { next: limit });
            }
            let stored = self.get(number)?;
            if stored.is_epoch() || stored.epoch() != epoch {
                return Ok(Gathered::Void { next: number });
            }
            let belongs = matches!(stored.header.kind, MessageKind::Part { first: f, part: p, parts: of, chain: c, .. }
                if (f, p, of, c) == (first, next, parts, chain));
            if !belongs {
                return Err(self.damaged(number, 0, format!("not part {next} of the group at number {first}")));
            }
            image.extend_from_slice(stored.payload());
        }
        Ok(Gathered::Whole { image, next: first + u64::from(parts) })
    }

    /// Reads and verifies the header and the body of the group at `first`, whatever stands before it.
    pub fn verify(&self, first: u64, image: &[u8]) -> Result<GroupHeader, GroupFault> {
        let header = GroupHeader::decode(image)?;
        let body = image.get(GROUP_HEADER_BYTES..).filter(|_| image.len() == header.total_bytes());
        let body = body.ok_or(GroupFault::Truncated)?;
        if header.log != self.log {
            return Err(GroupFault::ForeignLog(header.log));
        }
        if header.base != place_of(first) {
            return Err(GroupFault::WrongPlace(header.base));
        }
        header.check_body(image, body)?;
        Ok(header)
    }

    /// The place behind a group that was put together.
    pub fn end_of(&self, header: &GroupHeader, next: u64) -> Cursor {
        Cursor { position: place_of(next), ..header.end() }
    }
}
