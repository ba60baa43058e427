//! All groups in order, verified: what replay and the auditor fold.

use std::sync::Arc;

use crate::aftermath::Aftermath;
use crate::builder::record_in;
use crate::disk::DiskFile;
use crate::folder::Segments;
use crate::group::{FORMAT_VERSION, GroupFault, RECORD_HEADER_BYTES};
use crate::scan::{Found, SegmentScan};
use crate::segment::{offset_of, segment_name};
use crate::{Cursor, Durability, JournalError, Position, Sequence};

/// Iterates over groups in order, verifying checksums and the chain. Lives on any thread, beside the writer.
pub struct GroupReader {
    source: Box<dyn Segments>,
    segments: Vec<Position>,
    scan: Option<SegmentScan>,
    cursor: Cursor,
    up_to: Durability,
    started: bool,
    checks_every_record: bool,
}

impl GroupReader {
    pub(crate) fn new(source: Box<dyn Segments>, at: Cursor, up_to: Durability) -> Result<GroupReader, JournalError> {
        if at.position > up_to.position() {
            return Err(bad_cursor(&at, format!("the log ends at position {}", up_to.position())));
        }
        // A cursor at the end has no group behind it that could show that it is from another history.
        if at.position == up_to.position() && !up_to.agrees_with(&at) {
            return Err(bad_cursor(&at, format!("the log ends there with {}", up_to.describe())));
        }
        let segments = source.list()?;
        Ok(GroupReader { source, segments, scan: None, cursor: at, up_to, started: false, checks_every_record: false })
    }

    /// Looks at the checksum of each record as well. The chain hash covers it, so that it only shows a writer that was wrong.
    pub(crate) fn checking_every_record(mut self) -> GroupReader {
        self.checks_every_record = true;
        self
    }

    /// The next group; `None` at the durable end.
    pub fn next_group(&mut self) -> Result<Option<Group<'_>>, JournalError> {
        let up_to = self.up_to.position();
        if self.cursor.position >= up_to {
            return Ok(None);
        }
        let found = self.find_next()?;
        let end = found.header.end();
        assert!(end.position > self.cursor.position && end.sequence > self.cursor.sequence, "a group has records");
        if end.position > up_to {
            return Err(bad_cursor(&self.cursor, format!("position {up_to} is within a group")));
        }
        if end.position == up_to && !self.up_to.agrees_with(&end) {
            return Err(self.judge_end(end));
        }
        let base = self.cursor.position;
        let body = self.scan.as_ref().map(|scan| scan.bytes(found.body)).unwrap_or_default();
        if self.checks_every_record
            && let Some(fault) = found.header.first_bad_record(body)
        {
            return Err(self.judge(fault));
        }
        self.cursor = end;
        self.started = true;
        Ok(Some(Group {
            first_sequence: found.header.first_sequence,
            base,
            record_count: found.header.record_count,
            records: found.header.records(body),
        }))
    }

    /// The place behind the last group that was returned: what a snapshot stores.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Lets the iteration go on to `up_to`, which has become durable since. One that says less changes nothing.
    pub fn extend_to(&mut self, up_to: &Durability) {
        if up_to.position() > self.up_to.position() {
            assert!(up_to.sequence() > self.up_to.sequence(), "what became durable since has records");
            self.up_to = *up_to;
        }
    }

    fn find_next(&mut self) -> Result<Found, JournalError> {
        self.enter_segment()?;
        match self.try_scan()? {
            Ok(found) => Ok(found),
            // The writer may have gone on in a new segment since the folder was listed.
            Err(GroupFault::NoGroup) if self.at_last_segment() => {
                self.segments = self.source.list()?;
                self.enter_segment()?;
                self.try_scan()?.map_err(|fault| self.judge(fault))
            }
            Err(fault) => Err(self.judge(fault)),
        }
    }

    fn try_scan(&mut self) -> Result<Result<Found, GroupFault>, JournalError> {
        let scan = self.scan.as_mut().expect("a segment was entered");
        let limit = offset_of(scan.first(), self.up_to.position());
        let first = scan.first();
        scan.group_after(&self.cursor, limit).map_err(|cause| JournalError::io("read", &self.source.path(first), cause))
    }

    fn at_last_segment(&self) -> bool {
        self.scan.as_ref().map(SegmentScan::first) == self.segments.last().copied()
    }

    /// Goes to the segment that holds the cursor.
    fn enter_segment(&mut self) -> Result<(), JournalError> {
        let index = self.segments.partition_point(|first| *first <= self.cursor.position);
        let Some(first) = index.checked_sub(1).map(|index| self.segments[index]) else {
            return Err(before_the_first(&*self.source, &self.cursor, self.segments.first().copied()));
        };
        if self.scan.as_ref().is_some_and(|scan| scan.first() == first) {
            return Ok(());
        }
        let (file, begins) = self.source.open(first).or_else(|error| Err(self.judge_open(first, error)?))?;
        if begins.position == self.cursor.position && begins != self.cursor {
            return Err(self.judge_chain(first, begins));
        }
        self.scan = Some(SegmentScan::new(file, self.source.log(), first));
        Ok(())
    }

    /// The segment may have been forgotten since the folder was listed.
    fn judge_open(&mut self, first: Position, error: JournalError) -> Result<JournalError, JournalError> {
        self.segments = self.source.list()?;
        let is_forgotten = self.source.may_forget() && self.segments.first().is_some_and(|now| *now > first);
        Ok(match is_forgotten {
            true => before_the_first(&*self.source, &self.cursor, self.segments.first().copied()),
            false => error,
        })
    }

    /// The last group ends where it should, but not as the log went on from there: it is not the group that was there.
    fn judge_end(&self, end: Cursor) -> JournalError {
        JournalError::Damaged {
            segment: segment_name(self.scan.as_ref().map_or(end.position, SegmentScan::first)),
            offset: self.scan.as_ref().map_or(0, |scan| offset_of(scan.first(), self.cursor.position)),
            what: format!(
                "the group there ends with sequence {}, chain {}, and the log went on from {}",
                end.sequence,
                end.chain,
                self.up_to.describe()
            ),
            lost: "unknown: groups or records were removed or exchanged".into(),
        }
    }

    /// The first group after a cursor that came from elsewhere may show that the cursor is wrong, and not the log.
    fn judge_chain(&self, first: Position, begins: Cursor) -> JournalError {
        if !self.started {
            return bad_cursor(
                &self.cursor,
                format!("the log has sequence {}, chain {} there", begins.sequence, begins.chain),
            );
        }
        JournalError::Damaged {
            segment: segment_name(first),
            offset: 0,
            what: format!(
                "it does not continue the chain of the segment before it, which ends with sequence {}",
                self.cursor.sequence
            ),
            lost: "unknown: groups or records were removed or exchanged".into(),
        }
    }

    fn judge(&self, fault: GroupFault) -> JournalError {
        let scan = self.scan.as_ref().expect("a segment was entered");
        let foreign = !self.started && self.cursor != Cursor::START;
        if let (GroupFault::BrokenChain { first_sequence }, true) = (fault, foreign) {
            return bad_cursor(
                &self.cursor,
                format!("the group there, from sequence {first_sequence}, follows another history"),
            );
        }
        let next = self.segments.get(self.segments.partition_point(|first| *first <= scan.first())).copied();
        damage(&*self.source, scan.file(), scan.first(), next, &self.cursor, fault)
    }
}

/// The error for a group that is not what it should be behind `before`, with what can be said about the loss.
pub(crate) fn damage(
    source: &dyn Segments,
    file: &Arc<dyn DiskFile>,
    first: Position,
    next: Option<Position>,
    before: &Cursor,
    fault: GroupFault,
) -> JournalError {
    if let GroupFault::UnknownVersion(found) = fault {
        return JournalError::UnknownVersion {
            path: source.path(first),
            found: found.into(),
            known: FORMAT_VERSION.into(),
        };
    }
    let segment = segment_name(first);
    let behind = Position(before.position.0 + 1);
    let aftermath = match Aftermath::examine(&**file, source.log(), first, behind) {
        Ok(aftermath) => aftermath,
        Err(cause) => return JournalError::io("read", &source.path(first), cause),
    };
    let next = next.and_then(|next| source.open(next).ok()).map(|(_, begins)| begins);
    let at = if let GroupFault::Record { at, .. } = fault { at } else { before.position };
    let lost = aftermath.lost(before, next.as_ref());
    JournalError::Damaged { segment, offset: offset_of(first, at), what: fault.to_string(), lost }
}

/// The error for a place before the first segment that is there: forgotten, if such a log may forget.
pub(crate) fn before_the_first(source: &dyn Segments, cursor: &Cursor, begins: Option<Position>) -> JournalError {
    match begins {
        Some(begins) if source.may_forget() => JournalError::Forgotten { at: cursor.position, begins },
        _ => missing_segment(cursor, begins),
    }
}

/// The error for a segment file that should hold `cursor`.
pub(crate) fn missing_segment(cursor: &Cursor, next: Option<Position>) -> JournalError {
    let until = next.map_or("on".into(), |next| format!("to position {next}"));
    JournalError::Damaged {
        segment: segment_name(cursor.position),
        offset: 0,
        what: "the segment file is missing".into(),
        lost: format!("records from {} (position {}) {until}", cursor.sequence.0 + 1, cursor.position),
    }
}

pub(crate) fn bad_cursor(cursor: &Cursor, what: String) -> JournalError {
    JournalError::BadCursor { position: cursor.position, sequence: cursor.sequence, what }
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
