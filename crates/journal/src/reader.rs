//! Reading: one record by position, or all groups in order.

use std::path::Path;

use crate::disk::Disk;
use crate::{Cursor, JournalError, LogId, Position, Sequence};

/// Reads one log, on any thread, while another writes it.
pub struct Reader<D: Disk> {
    disk: D,
}

impl<D: Disk> Reader<D> {
    /// A reader of the log `log` in the data directory `data`.
    pub fn open(disk: D, data: &Path, log: LogId) -> Result<Reader<D>, JournalError> {
        let _ = (data, log);
        Ok(Reader { disk })
    }

    /// Replaces `into` with the record at `at`, after checking its checksum.
    pub fn read_record(&self, at: Position, into: &mut Vec<u8>) -> Result<(), JournalError> {
        let _ = (at, into, &self.disk);
        todo!()
    }

    /// Iterates over the groups from `at` to `up_to`, which the caller knows to be durable.
    pub fn read_from(&self, at: Cursor, up_to: Position) -> Result<GroupReader, JournalError> {
        let _ = (at, up_to);
        todo!()
    }
}

/// Iterates over groups in order, verifying checksums and the chain.
pub struct GroupReader {}

impl GroupReader {
    /// The next group; `None` at the durable end.
    pub fn next_group(&mut self) -> Result<Option<Group<'_>>, JournalError> {
        todo!()
    }

    /// The place behind the last group that was returned: what a snapshot stores.
    pub fn cursor(&self) -> Cursor {
        todo!()
    }

    /// Lets the iteration go on to `up_to`, which has become durable since.
    pub fn extend_to(&mut self, up_to: Position) {
        let _ = up_to;
        todo!()
    }
}

/// One verified group.
pub struct Group<'a> {
    /// Sequence of its first record.
    pub first_sequence: Sequence,
    /// Where its header stands.
    pub base: Position,
    /// Records in it.
    pub record_count: u32,
    body: &'a [u8],
}

impl<'a> Group<'a> {
    /// Its records in order.
    pub fn records(&self) -> Records<'a> {
        Records { rest: self.body }
    }
}

/// The records of one group, in order, each with its sequence and position.
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Records<'a> {
    type Item = (Sequence, Position, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let _ = self.rest;
        todo!()
    }
}
