//! Reads one shard's journal for one reader: groups, as many as a step makes rows of, and the names of their accounts.

use std::sync::Arc;

use tidegate_journal::{Cursor, Durability, DurableMark, GroupReader, JournalError, LogReader, Position, Sequence};
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::{AccountSlot, Event};
use tidegate_planted::{Bug, is_planted};

use super::ChangesError;
use super::at_hand::AtHand;
use super::change::Change;
use super::cursor::ShardPlace;
use super::logs::SeenEnd;
use super::names::Names;
use super::own_log::{OwnLog, of_cursor, unreadable};
use super::reader::ChangeFilter;
use super::row::{RowMaker, slots};
use crate::limits::{CHANGE_READ_AHEAD_BYTES, CHANGE_RECORDS_PER_STEP};

/// The log of one reader, of whichever kind.
trait OneLog: Send {
    fn groups(&self, from: Cursor, up_to: &Durability) -> Result<GroupReader, JournalError>;
    fn has_place(&self, place: Cursor, up_to: &Durability) -> Result<bool, JournalError>;
}

impl<R: LogReader> OneLog for R {
    fn groups(&self, from: Cursor, up_to: &Durability) -> Result<GroupReader, JournalError> {
        Ok(LogReader::groups(self, from, up_to)?.reading_ahead(CHANGE_READ_AHEAD_BYTES))
    }

    fn has_place(&self, place: Cursor, up_to: &Durability) -> Result<bool, JournalError> {
        LogReader::has_place(self, place, up_to)
    }
}

/// One shard's journal.
pub(super) struct ShardReader {
    shard: ShardIndex,
    log: Box<dyn OneLog>,
    mark: Arc<DurableMark>,
    seen: Arc<SeenEnd>,
    /// Reads its groups; `None` once its memory was given back, until it reads on.
    groups: Option<GroupReader>,
    /// Before the first group at hand, or before the next one.
    before: Cursor,
    /// Records of it that were passed.
    passed: u32,
    /// Why nothing can be read behind what is at hand.
    failed: Option<ChangesError>,
    /// While `passed` is of a client's cursor whose group was not read yet: that place, and how far the log was durable
    /// then.
    resumes: Option<(Cursor, Durability)>,
    at_hand: AtHand,
    /// Of the records at hand, how many from the next one on have all their names.
    named: usize,
    /// Bytes of records that were given back, to be read again.
    read_again: usize,
    /// What its accounts are called.
    pub names: Names,
}

impl ShardReader {
    /// Begins at `place`, which may be one of another history.
    pub fn open<R: LogReader + 'static>(
        shard: ShardIndex,
        own: OwnLog<R>,
        mut place: ShardPlace,
    ) -> Result<ShardReader, ChangesError> {
        let index = usize::from(shard.0);
        own.check_end(index, &place)?;
        let OwnLog { log, mark, seen } = own;
        let durable = mark.get();
        let log: Box<dyn OneLog> = Box::new(log);
        if is_planted(Bug::ForeignCursorFollowed) && log.groups(place.group, &durable).is_err() {
            place = ShardPlace::START;
        }
        let groups = log
            .groups(place.group, &durable)
            .map_err(|cause| of_cursor(index, cause, &|| log.has_place(place.group, &durable)))?;
        Ok(ShardReader {
            shard,
            log,
            mark,
            seen,
            groups: Some(groups),
            before: place.group,
            passed: place.passed,
            failed: None,
            resumes: Some((place.group, durable)),
            at_hand: AtHand::default(),
            named: 0,
            read_again: 0,
            names: Names::default(),
        })
    }

    /// Brings the next groups to hand unless there are some, as many as one step makes rows of. Returns whether there
    /// are some now. Why several: where requests come one by one, a group is one record.
    pub fn load(&mut self) -> Result<bool, ChangesError> {
        if self.at_hand.rest() > 0 {
            return Ok(true);
        }
        self.pass_ended_groups();
        self.at_hand.clear();
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let durable = self.mark.get();
        let mut groups = match self.groups.take() {
            Some(groups) => groups,
            None => {
                self.log.groups(self.before, &durable).map_err(|cause| unreadable(usize::from(self.shard.0), cause))?
            }
        };
        groups.extend_to(&durable);
        self.groups = Some(groups);
        while self.at_hand.rest() < CHANGE_RECORDS_PER_STEP {
            match self.load_one() {
                Ok(true) => {}
                Ok(false) => break,
                // What is before it is good, and is given first.
                Err(error) if self.at_hand.rest() > 0 => {
                    self.failed = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.at_hand.rest() > 0)
    }

    /// Brings one more group to hand; whether there was one.
    fn load_one(&mut self) -> Result<bool, ChangesError> {
        let shard = usize::from(self.shard.0);
        let failed = |cause| match &self.resumes {
            Some((place, durable)) => of_cursor(shard, cause, &|| self.log.has_place(*place, durable)),
            None => unreadable(shard, cause),
        };
        let groups = self.groups.as_mut().expect("it was opened to read on");
        let Some(group) = groups.next_group().map_err(failed)? else { return Ok(false) };
        let count = group.record_count;
        // A client's cursor may be within the first group.
        let passed = if self.at_hand.is_empty() { self.passed } else { 0 };
        if passed > count {
            return Err(ChangesError::CursorInvalid);
        }
        let records = group.records().map(|(_, _, record)| record);
        self.at_hand.add(records, passed);
        let behind = groups.cursor();
        self.at_hand.end_with(behind);
        // A group without records is a notice of an operator, such as that of a restore.
        if count > 0 {
            self.seen.note(behind);
            self.resumes = None;
        }
        if self.at_hand.rest() == 0 {
            self.pass_ended_groups();
        }
        Ok(true)
    }

    /// The change that the next record is, if it is one that the reader gets, and the record's bytes; `None` if no
    /// record is at hand.
    pub fn next_change(&mut self, filter: &ChangeFilter) -> Option<Result<(Option<Change>, usize), ChangesError>> {
        self.pass_ended_groups();
        let record = self.at_hand.record(0)?;
        let sequence = self.before.sequence.0 + u64::from(self.passed) + 1;
        let row = RowMaker { shard: self.shard, sequence, names: &self.names, filter };
        Some(self.decode(record).and_then(|event| row.change(&event)).map(|change| (change, record.len())))
    }

    /// Passes the next record.
    pub fn pass_one(&mut self) {
        self.passed += 1;
        self.named = self.named.checked_sub(1).expect("only what has its names is passed");
        self.at_hand.pass_one();
        self.pass_group();
    }

    /// Whether the next record has all its names.
    pub fn is_named(&self) -> bool {
        self.named > 0
    }

    /// Gives back what memory holds of groups that were passed. Only while nothing is at hand is there any.
    pub fn forget_passed(&mut self) {
        if self.at_hand.rest() == 0 {
            self.pass_ended_groups();
            self.at_hand = AtHand::default();
            self.groups.iter_mut().for_each(GroupReader::forget_ahead);
        }
    }

    /// Gives back all memory: what is at hand is read again, and names are asked for again.
    pub fn release(&mut self) {
        self.forget_passed();
        self.names = Names::default();
        self.named = 0;
        if self.at_hand.rest() > 0 {
            self.read_again += self.at_hand.record_bytes();
            (self.at_hand, self.groups, self.failed) = (AtHand::default(), None, None);
        }
    }

    /// Bytes of memory that it holds, about.
    pub fn held_bytes(&self) -> usize {
        let groups = self.groups.as_ref().map_or(0, GroupReader::held_bytes);
        groups + self.at_hand.held_bytes() + self.names.held_bytes()
    }

    /// Bytes of records that had to be read again since it was asked last.
    pub fn take_read_again(&mut self) -> usize {
        std::mem::take(&mut self.read_again)
    }

    /// Up to where its groups were read.
    pub fn end(&self) -> Position {
        self.groups.as_ref().map_or(self.before, GroupReader::cursor).position
    }

    /// Where it is.
    pub fn place(&self) -> ShardPlace {
        ShardPlace { group: self.before, passed: self.passed }
    }

    /// Goes behind groups of which nothing is left, such as those without records.
    fn pass_ended_groups(&mut self) {
        while self.pass_group() {}
    }

    /// Goes behind the first group if nothing of it is left; whether it did.
    fn pass_group(&mut self) -> bool {
        let Some(behind) = self.at_hand.end_group() else { return false };
        (self.before, self.passed) = (behind, 0);
        true
    }

    /// The slots of the next records that have no name yet; those that these records open are named by them.
    pub fn unnamed(&mut self, filter: &ChangeFilter) -> Result<Vec<AccountSlot>, ChangesError> {
        if self.is_named() {
            return Ok(Vec::new());
        }
        self.names.bound();
        let (mut unnamed, mut looked_at) = (Vec::new(), 0);
        for ahead in 0..CHANGE_RECORDS_PER_STEP {
            let Some(record) = self.at_hand.record(ahead) else { break };
            let event = match self.decode(record) {
                // What is before it is good, and is given first.
                Err(_) if ahead > 0 => break,
                event => event?,
            };
            looked_at += 1;
            match event {
                Event::AccountOpened { slot, id, asset, .. } | Event::AccountAdopted { slot, id, asset, .. } => {
                    let (id, asset): (Box<str>, Box<str>) = (id.into(), asset.into());
                    self.names.remember(slot, &id, &asset, filter);
                }
                _ => unnamed.extend(slots(&event).into_iter().flatten().filter(|slot| self.names.get(*slot).is_none())),
            }
        }
        unnamed.sort_unstable();
        unnamed.dedup();
        unnamed.retain(|slot| self.names.get(*slot).is_none());
        if unnamed.is_empty() {
            self.named = looked_at;
        }
        Ok(unnamed)
    }

    fn decode<'a>(&self, record: &'a [u8]) -> Result<Event<'a>, ChangesError> {
        // A good checksum and a good chain around what is no event: written by a newer program.
        Event::decode(record).map_err(|error| ChangesError::Unreadable {
            shard: self.shard.0,
            cause: JournalError::BadCursor {
                position: self.before.position,
                sequence: Sequence(self.before.sequence.0),
                what: error.to_string(),
            },
        })
    }
}
