//! All groups in order, verified: what replay and the auditor fold.

use std::ops::Range;

use crate::builder::record_in;
use crate::damage::bad_cursor;
use crate::group::{GroupFault, GroupHeader, RECORD_HEADER_BYTES};
use crate::verify_ahead::VerifiedAhead;
use crate::{Cursor, Durability, JournalError, Notice, Position, Sequence};

/// Where a kind of log store has its groups. One call a group, so that a [`GroupReader`] need not know which kind it
/// is.
pub(crate) trait GroupSource: Send {
    /// Verifies the group that follows `before`, which it returned last unless `is_first`; reads nothing at or behind
    /// `up_to`, which is the end of a group.
    fn find(&mut self, before: &Cursor, up_to: Position, is_first: bool) -> Result<Found, JournalError>;

    /// The bytes that the last [`Found`] speaks of.
    fn bytes(&self, range: Range<usize>) -> &[u8];

    /// Reads so many bytes ahead of what is asked for at most, from now on.
    fn read_ahead(&mut self, bytes: usize);

    /// Has what it reads ahead read by a thread of its own, from now on.
    fn prefetch(&mut self);

    /// Gives the memory back of what it has read. It is read again if it is asked for.
    fn forget_ahead(&mut self);

    /// Bytes of memory that what it has read takes.
    fn held_bytes(&self) -> usize;

    /// The error for the group behind `before`, which is not what it should be.
    fn damaged(&mut self, before: &Cursor, fault: GroupFault) -> JournalError;

    /// The error for a good group behind `before` that is not the one from which the log went on.
    fn exchanged(&mut self, before: &Cursor, what: String) -> JournalError;
}

/// A verified group whose records are `body` of [`GroupSource::bytes`].
pub(crate) struct Found {
    pub header: GroupHeader,
    pub body: Range<usize>,
    /// The place behind it, as its kind of log counts positions.
    pub end: Cursor,
}

/// Iterates over groups in order, verifying checksums and the chain. Lives on any thread, beside the writer.
pub struct GroupReader {
    source: Box<dyn GroupSource>,
    cursor: Cursor,
    up_to: Durability,
    is_first: bool,
    checks_every_record: bool,
}

impl GroupReader {
    pub(crate) fn new(
        source: Box<dyn GroupSource>,
        from: Cursor,
        up_to: Durability,
    ) -> Result<GroupReader, JournalError> {
        if from.position > up_to.position() {
            return Err(bad_cursor(&from, format!("the log ends at position {}", up_to.position())));
        }
        // A cursor at the end has no group behind it that could show that it is from another history.
        if from.position == up_to.position() && !up_to.agrees_with(&from) {
            return Err(bad_cursor(&from, format!("the log ends there with {}", up_to.describe())));
        }
        Ok(GroupReader { source, cursor: from, up_to, is_first: true, checks_every_record: false })
    }

    /// Looks at the checksum of each record as well. The chain hash covers it, so that it only shows a writer that was
    /// wrong.
    pub(crate) fn checking_every_record(mut self) -> GroupReader {
        self.checks_every_record = true;
        self
    }

    /// Reads and verifies on a thread of its own, ahead of what is asked for.
    pub fn verifying_ahead(mut self) -> GroupReader {
        self.source = Box::new(VerifiedAhead::new(self.source));
        self
    }

    /// Reads so many bytes ahead at most. Why fewer than usual: one of many readers has less memory.
    pub fn reading_ahead(mut self, bytes: usize) -> GroupReader {
        self.source.read_ahead(bytes);
        self
    }

    /// Gives the memory back of what was read ahead; the next group is read again.
    pub fn forget_ahead(&mut self) {
        self.source.forget_ahead();
    }

    /// Bytes of memory that what was read takes.
    pub fn held_bytes(&self) -> usize {
        self.source.held_bytes()
    }

    /// The next group; `None` at the durable end.
    pub fn next_group(&mut self) -> Result<Option<Group<'_>>, JournalError> {
        let (before, up_to) = (self.cursor, self.up_to.position());
        if before.position >= up_to {
            return Ok(None);
        }
        let Found { header, body, end } = self.source.find(&before, up_to, self.is_first)?;
        assert!(header.base >= before.position, "groups follow each other");
        assert_eq!(header.first_sequence.0, before.sequence.0 + 1, "records are numbered without gaps");
        let has_records = end.sequence > before.sequence;
        assert!(
            end.position > before.position && has_records != header.is_notice(),
            "a group has records, or a notice"
        );
        if end.position > up_to {
            return Err(bad_cursor(&before, format!("position {up_to} is within a group")));
        }
        if end.position == up_to && !self.up_to.agrees_with(&end) {
            let (sequence, chain) = (end.sequence, end.chain);
            let went_on = self.up_to.describe();
            let what = format!("it ends with sequence {sequence}, chain {chain}, and the log went on from {went_on}");
            return Err(self.source.exchanged(&before, what));
        }
        assert_eq!(body.len(), header.body_bytes as usize, "all of the group, and nothing else");
        if self.checks_every_record
            && let Some(fault) = header.first_bad_record(self.source.bytes(body.clone()))
        {
            return Err(self.source.damaged(&before, fault));
        }
        let records = self.source.bytes(body);
        self.cursor = end;
        self.is_first = false;
        Ok(Some(Group {
            first_sequence: header.first_sequence,
            base: header.base,
            record_count: header.record_count,
            bytes: header.total_bytes(),
            notice: header.notice(records),
            records: header.records(records),
        }))
    }

    /// The place behind the last group that was returned: what a snapshot stores.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Lets the iteration go on to `up_to`, which has become durable since. One that says less changes nothing.
    pub fn extend_to(&mut self, up_to: &Durability) {
        if up_to.position() > self.up_to.position() {
            assert!(up_to.sequence() >= self.up_to.sequence(), "what is durable is never taken back");
            self.up_to = *up_to;
        }
    }
}

/// One verified group.
#[derive(Debug)]
pub struct Group<'a> {
    /// Sequence of its first record.
    pub first_sequence: Sequence,
    /// Where its header stands.
    pub base: Position,
    /// Records in it.
    pub record_count: u32,
    /// Its bytes, headers included.
    pub bytes: usize,
    /// What it holds instead of records: with the place behind it a new timeline begins.
    pub notice: Option<Notice>,
    records: Records<'a>,
}

impl<'a> Group<'a> {
    /// Its records in order.
    pub fn records(&self) -> Records<'a> {
        self.records.clone()
    }
}

/// The records of one group, in order, each with its sequence and position.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    sequence: Sequence,
    at: Position,
}

impl<'a> Records<'a> {
    pub(crate) fn new(body: &'a [u8], sequence: Sequence, at: Position) -> Records<'a> {
        Records { rest: body, sequence, at }
    }

    /// Whether every byte belonged to a record.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.rest.is_empty()
    }

    /// Sequence and position of the record that comes next.
    pub(crate) fn place(&self) -> (Sequence, Position) {
        (self.sequence, self.at)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = (Sequence, Position, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let payload = record_in(self.rest, 0)?;
        let whole = RECORD_HEADER_BYTES + payload.len();
        let record = (self.sequence, self.at, payload);
        self.rest = &self.rest[whole..];
        self.sequence.0 += 1;
        self.at.0 += whole as u64;
        Some(record)
    }
}
