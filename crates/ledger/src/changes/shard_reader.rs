//! Reads one shard's journal for one reader: groups, as many as a step makes rows of, and the names of their accounts.

use std::sync::Arc;

use tidegate_journal::{Cursor, DurableMark, GroupReader, JournalError, LogReader, Position, Sequence};
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
use crate::limits::CHANGE_RECORDS_PER_STEP;

/// Says whether a log has a certain place: [`LogReader::has_place`].
type HasPlace = Box<dyn Fn() -> Result<bool, JournalError> + Send>;

/// One shard's journal.
pub(super) struct ShardReader {
    shard: ShardIndex,
    mark: Arc<DurableMark>,
    seen: Arc<SeenEnd>,
    groups: GroupReader,
    /// Before the first group at hand, or before the next one.
    before: Cursor,
    /// Records of it that were passed.
    passed: u32,
    /// Why nothing can be read behind what is at hand.
    failed: Option<ChangesError>,
    /// While `passed` is of a client's cursor whose group was not read yet: whether the log has the place of the
    /// cursor.
    resumes: Option<HasPlace>,
    at_hand: AtHand,
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
        if is_planted(Bug::ForeignCursorFollowed) && log.groups(place.group, &durable).is_err() {
            place = ShardPlace::START;
        }
        let groups = log
            .groups(place.group, &durable)
            .map_err(|cause| of_cursor(index, cause, &|| log.has_place(place.group, &durable)))?;
        Ok(ShardReader {
            shard,
            mark,
            seen,
            groups,
            before: place.group,
            passed: place.passed,
            failed: None,
            resumes: Some(Box::new(move || log.has_place(place.group, &durable))),
            at_hand: AtHand::default(),
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
        self.groups.extend_to(&self.mark.get());
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
            Some(has_place) => of_cursor(shard, cause, has_place),
            None => unreadable(shard, cause),
        };
        let Some(group) = self.groups.next_group().map_err(failed)? else { return Ok(false) };
        let count = group.record_count;
        // A client's cursor may be within the first group.
        let passed = if self.at_hand.is_empty() { self.passed } else { 0 };
        if passed > count {
            return Err(ChangesError::CursorInvalid);
        }
        let records = group.records().map(|(_, _, record)| record);
        self.at_hand.add(records, passed);
        self.at_hand.end_with(self.groups.cursor());
        // A group without records is a notice of an operator, such as that of a restore.
        if count > 0 {
            self.seen.note(self.groups.cursor());
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
        self.at_hand.pass_one();
        self.pass_group();
    }

    /// Up to where its groups were read.
    pub fn end(&self) -> Position {
        self.groups.cursor().position
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
        self.names.bound();
        let mut unnamed = Vec::new();
        for ahead in 0..CHANGE_RECORDS_PER_STEP {
            let Some(record) = self.at_hand.record(ahead) else { break };
            let event = match self.decode(record) {
                // What is before it is good, and is given first.
                Err(_) if ahead > 0 => break,
                event => event?,
            };
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
