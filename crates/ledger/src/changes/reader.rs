//! Reads the journals of all shards in turn and makes changes of their records.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_journal::{Cursor, DurableMark, GroupReader, JournalError, LogReader, Position, Sequence};
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::{AccountSlot, AccountStep, CreditStep, Event, HoldFacts, LossSide};

use super::ChangesError;
use super::change::{Change, ChangeKind, ChangedAccount, ChangedSettings};
use super::cursor::{ChangeCursor, ShardPlace};
use super::logs::SeenEnd;
use crate::limits::{CHANGE_NAMES_MAX, CHANGE_RECORDS_PER_STEP};
use crate::router::CursorKey;

/// Where to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// Before the first record.
    Start,
    /// Behind the last durable record of now.
    Now,
    /// Where a cursor says.
    Cursor(Box<str>),
}

/// What a reader may see of an account, and whether they want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Whether they may see its balance.
    pub visible: bool,
    /// Whether changes of it are wanted. What is not visible is not given, wanted or not.
    pub wanted: bool,
}

/// Which changes a reader gets.
pub struct ChangeFilter {
    /// About an account.
    pub interest: Box<dyn Fn(&str) -> Interest + Send>,
    /// Whether they get changes whose record names no account: refusals, and a mended time.
    pub without_account: bool,
    /// Of these kinds.
    pub kinds: Vec<ChangeKind>,
}

/// What one step found.
#[derive(Debug)]
pub enum Step {
    /// The shard has to say what these slots are called ([`ChangeReader::name`]); then the step is taken again.
    Names(ShardIndex, Vec<AccountSlot>),
    /// Some records were read; perhaps none of them is for this reader.
    Rows {
        /// Those that are.
        rows: Vec<Change>,
        /// Bytes of journal that were read for it.
        bytes: usize,
    },
    /// All that is durable was read.
    AtEnd,
}

/// What a slot is called.
#[derive(Clone, Debug)]
struct Name {
    id: Arc<str>,
    asset: Arc<str>,
    interest: Interest,
}

/// The records of some groups, one behind the other, of which the first ones were passed.
#[derive(Default)]
struct AtHand {
    /// Their bytes.
    bytes: Vec<u8>,
    /// Where each ends in `bytes`.
    ends: Vec<u32>,
    /// Of each group that was not passed whole: the records that are at hand up to its end, and the place behind it.
    groups: VecDeque<(usize, Cursor)>,
    /// Records that were passed.
    passed: usize,
}

/// Says whether a log has a certain place: [`LogReader::has_place`].
type HasPlace = Box<dyn Fn() -> Result<bool, JournalError> + Send>;

/// One shard's journal, for one reader.
pub(super) struct OwnLog<R> {
    /// Reads it.
    pub log: R,
    /// How far it is durable.
    pub mark: Arc<DurableMark>,
    /// How far anybody has read it.
    pub seen: Arc<SeenEnd>,
}

/// One shard's journal.
struct ShardReader {
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
    names: HashMap<AccountSlot, Name>,
}

/// Reads changes. One reader has at most [`CHANGE_NAMES_MAX`] names of each shard in memory, [`CHANGE_RECORDS_PER_STEP`]
/// records, and one group besides.
pub struct ChangeReader {
    shards: Vec<ShardReader>,
    /// The shard that is next.
    turn: usize,
    filter: ChangeFilter,
    key: CursorKey,
}

impl ChangeReader {
    pub(super) fn open<R: LogReader + 'static>(
        logs: Vec<OwnLog<R>>,
        key: CursorKey,
        after: After,
        filter: ChangeFilter,
    ) -> Result<ChangeReader, ChangesError> {
        let places = match &after {
            After::Start => vec![ShardPlace::START; logs.len()],
            After::Cursor(text) => {
                ChangeCursor::parse(text, logs.len(), key).ok_or(ChangesError::CursorInvalid)?.places
            }
            After::Now => (0..logs.len())
                .zip(&logs)
                .map(|(shard, own)| own.end().map_err(|cause| unreadable(shard, cause)))
                .collect::<Result<_, _>>()?,
        };
        let mut shards = Vec::with_capacity(logs.len());
        for (index, (own, place)) in logs.into_iter().zip(places).enumerate() {
            own.check_end(index, &place)?;
            let OwnLog { log, mark, seen } = own;
            let durable = mark.get();
            let groups = log
                .groups(place.group, &durable)
                .map_err(|cause| of_cursor(index, cause, &|| log.has_place(place.group, &durable)))?;
            let has_place = Box::new(move || log.has_place(place.group, &durable));
            shards.push(ShardReader {
                shard: ShardIndex(index as u16),
                mark,
                seen,
                groups,
                before: place.group,
                passed: place.passed,
                failed: None,
                resumes: Some(has_place),
                at_hand: AtHand::default(),
                names: HashMap::new(),
            });
        }
        Ok(ChangeReader { shards, turn: 0, filter, key })
    }

    /// Reads on: at most [`CHANGE_RECORDS_PER_STEP`] records of one shard, and fewer only where no more are durable, or
    /// a large group ends. May wait for the disk.
    pub fn step(&mut self) -> Result<Step, ChangesError> {
        for _ in 0..self.shards.len() {
            let at = self.turn;
            if !self.shards[at].load()? {
                self.turn = (at + 1) % self.shards.len();
                continue;
            }
            let unnamed = self.shards[at].unnamed(&self.filter)?;
            if !unnamed.is_empty() {
                return Ok(Step::Names(self.shards[at].shard, unnamed));
            }
            let (rows, bytes) = self.rows(at)?;
            self.turn = (at + 1) % self.shards.len();
            return Ok(Step::Rows { rows, bytes });
        }
        Ok(Step::AtEnd)
    }

    /// Takes what a shard calls the slots that it was asked for: id and asset of each.
    pub fn name(&mut self, shard: ShardIndex, named: impl IntoIterator<Item = (AccountSlot, Box<str>, Box<str>)>) {
        let reader = &mut self.shards[usize::from(shard.0)];
        for (slot, id, asset) in named {
            reader.remember(slot, &id, &asset, &self.filter);
        }
    }

    /// Where to read on, as text.
    pub fn cursor(&self) -> Box<str> {
        let place = |shard: &ShardReader| ShardPlace { group: shard.before, passed: shard.passed };
        ChangeCursor { places: self.shards.iter().map(place).collect() }.text(self.key)
    }

    /// Up to where each shard's groups were read.
    pub(super) fn ends(&self) -> impl Iterator<Item = Position> {
        self.shards.iter().map(|shard| shard.groups.cursor().position)
    }

    fn rows(&mut self, at: usize) -> Result<(Vec<Change>, usize), ChangesError> {
        let mut places: Vec<ShardPlace> =
            self.shards.iter().map(|shard| ShardPlace { group: shard.before, passed: shard.passed }).collect();
        let shard = &mut self.shards[at];
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for _ in 0..CHANGE_RECORDS_PER_STEP {
            shard.pass_ended_groups();
            let Some(record) = shard.at_hand.record(0) else { break };
            let sequence = shard.before.sequence.0 + u64::from(shard.passed) + 1;
            let change = match shard.change(sequence, record, &self.filter) {
                // What is before it is good: the next step says what is wrong.
                Err(_) if bytes > 0 => break,
                change => change?,
            };
            bytes += record.len();
            shard.pass_one();
            if let Some(mut change) = change {
                places[at] = ShardPlace { group: shard.before, passed: shard.passed };
                let cursor = ChangeCursor { places };
                change.cursor = cursor.text(self.key);
                places = cursor.places;
                rows.push(change);
            }
        }
        assert!(bytes > 0, "what is at hand has records");
        Ok((rows, bytes))
    }
}

impl ShardReader {
    /// Brings the next groups to hand unless there are some, as many as one step makes rows of. Returns whether there
    /// are some now. Why several: where requests come one by one, a group is one record.
    fn load(&mut self) -> Result<bool, ChangesError> {
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
        let passed = if self.at_hand.groups.is_empty() { self.passed } else { 0 };
        if passed > count {
            return Err(ChangesError::CursorInvalid);
        }
        self.at_hand.add(group.records().map(|(_, _, record)| record), passed);
        self.at_hand.groups.push_back((self.at_hand.ends.len(), self.groups.cursor()));
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

    fn pass_one(&mut self) {
        self.passed += 1;
        self.at_hand.passed += 1;
        let end = self.at_hand.groups.front().expect("what is at hand is of a group").0;
        assert!(self.at_hand.passed <= end, "only what is at hand is passed");
        if self.at_hand.passed == end {
            self.end_group();
        }
    }

    /// Goes behind groups of which nothing is left, such as those without records.
    fn pass_ended_groups(&mut self) {
        while self.at_hand.groups.front().is_some_and(|(end, _)| *end == self.at_hand.passed) {
            self.end_group();
        }
    }

    fn end_group(&mut self) {
        let (_, behind) = self.at_hand.groups.pop_front().expect("a group ends once");
        self.before = behind;
        self.passed = 0;
    }

    /// The slots of the next records that have no name yet; those that these records open are named by them.
    fn unnamed(&mut self, filter: &ChangeFilter) -> Result<Vec<AccountSlot>, ChangesError> {
        if self.names.len() > CHANGE_NAMES_MAX {
            self.names.clear();
        }
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
                    self.remember(slot, &id, &asset, filter);
                }
                _ => unnamed.extend(slots(&event).into_iter().flatten().filter(|slot| !self.names.contains_key(slot))),
            }
        }
        unnamed.sort_unstable();
        unnamed.dedup();
        unnamed.retain(|slot| !self.names.contains_key(slot));
        Ok(unnamed)
    }

    fn remember(&mut self, slot: AccountSlot, id: &str, asset: &str, filter: &ChangeFilter) {
        // Few assets have many accounts: most names share one text.
        let shared = self.names.values().next().filter(|name| *name.asset == *asset).map(|name| name.asset.clone());
        let asset = shared.unwrap_or_else(|| asset.into());
        self.names.insert(slot, Name { id: id.into(), asset, interest: (filter.interest)(id) });
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

    /// The change that a record is, if it is one that the reader gets.
    fn change(&self, sequence: u64, record: &[u8], filter: &ChangeFilter) -> Result<Option<Change>, ChangesError> {
        let event = self.decode(record)?;
        let Some(kind) = kind_of(&event, self.shard) else { return Ok(None) };
        if !filter.kinds.contains(&kind) {
            return Ok(None);
        }
        let name =
            |slot: AccountSlot| self.names.get(&slot).ok_or(ChangesError::Nameless { shard: self.shard.0, sequence });
        let mut is_wanted = false;
        for slot in slots(&event).into_iter().flatten() {
            let interest = name(slot)?.interest;
            is_wanted |= interest.visible && interest.wanted;
        }
        if let Event::CreditReceived { debit, .. } = &event {
            let interest = (filter.interest)(debit);
            is_wanted |= interest.visible && interest.wanted;
        }
        let names_none =
            matches!(event, Event::Refused { .. } | Event::TimeMended { .. } | Event::AssetDeclared { .. });
        if !(is_wanted || names_none && filter.without_account) {
            return Ok(None);
        }
        let mut change = Change {
            cursor: Box::default(),
            shard: self.shard.0,
            sequence,
            time_ms: event.time().0,
            kind,
            id: event.id().map(Into::into),
            account: None,
            opened_kind: None,
            settings: None,
            decimals: None,
            debit: None,
            credit: None,
            asset: None,
            amount: None,
            held: None,
            expires_at_ms: None,
            memo: Box::default(),
            code: 0,
            user_data: Box::default(),
            refusal: None,
        };
        let step = |step: AccountStep| -> Result<ChangedAccount, ChangesError> {
            let name = name(step.slot)?;
            Ok(ChangedAccount { id: name.id.clone(), balance_after: name.interest.visible.then_some(step.after) })
        };
        let only_named = |slot: AccountSlot| -> Result<ChangedAccount, ChangesError> {
            Ok(ChangedAccount { id: name(slot)?.id.clone(), balance_after: None })
        };
        let credited = |credit: CreditStep| match credit {
            CreditStep::Here(at) => step(at),
            CreditStep::Outbound { slot, .. } => only_named(slot),
        };
        let held = |change: &mut Change, hold: &HoldFacts<'_>, debit: AccountStep| -> Result<(), ChangesError> {
            change.debit = Some(step(debit)?);
            change.credit = Some(only_named(hold.credit)?);
            change.asset = Some(name(debit.slot)?.asset.clone());
            change.amount = Some(hold.amount.get());
            change.memo = hold.memo.into();
            change.code = hold.label.code;
            change.user_data = hold.label.user_data.into();
            Ok(())
        };
        match event {
            Event::AccountOpened { slot, kind, .. } => {
                let name = name(slot)?;
                change.account = Some(name.id.clone());
                change.opened_kind = Some(kind);
                change.asset = Some(name.asset.clone());
            }
            Event::AccountChanged { slot, revision, rules, metadata, .. } => {
                let name = name(slot)?;
                change.account = Some(name.id.clone());
                change.asset = Some(name.asset.clone());
                let metadata = metadata.iter().map(|(key, value)| (key.into(), value.map(Into::into))).collect();
                change.settings = Some(ChangedSettings { revision, rules, metadata });
            }
            Event::AssetDeclared { asset, decimals, .. } => {
                change.asset = Some(asset.into());
                change.decimals = Some(decimals);
            }
            Event::Transferred { debit, credit, amount, memo, label, .. } => {
                change.debit = Some(step(debit)?);
                change.credit = Some(credited(credit)?);
                change.asset = Some(name(debit.slot)?.asset.clone());
                change.amount = Some(amount.get());
                change.memo = memo.into();
                change.code = label.code;
                change.user_data = label.user_data.into();
            }
            Event::HoldPlaced { time, hold, debit } => {
                held(&mut change, &hold, debit)?;
                change.expires_at_ms = Some(time.0.saturating_add(hold.expires_in_ms));
            }
            Event::HoldPosted { hold, posted, debit, credit, .. } => {
                held(&mut change, &hold, debit)?;
                change.credit = Some(credited(credit)?);
                change.amount = Some(posted.get());
                change.held = Some(hold.amount.get());
            }
            Event::HoldVoided { hold, debit, .. } | Event::HoldExpired { hold, debit, .. } => {
                held(&mut change, &hold, debit)?;
            }
            Event::CreditReceived { id, debit, credit, amount, memo, label, .. } => {
                change.id = Some(id.into());
                change.debit = Some(ChangedAccount { id: debit.into(), balance_after: None });
                change.credit = Some(step(credit)?);
                change.asset = Some(name(credit.slot)?.asset.clone());
                change.amount = Some(amount.get());
                change.memo = memo.into();
                change.code = label.code;
                change.user_data = label.user_data.into();
            }
            Event::Refused { refusal, .. } => change.refusal = Some(refusal),
            Event::LossBooked { peer, side, number, account, amount, .. } => {
                change.id = Some(format!("accepted-loss:{peer}:{}", number.0).into());
                let source = Some(step(account)?);
                match side {
                    LossSide::Sent => change.debit = source,
                    LossSide::Received => change.credit = source,
                }
                change.asset = Some(name(account.slot)?.asset.clone());
                change.amount = Some(amount.get());
            }
            Event::TimeMended { memo, .. } => change.memo = memo.into(),
            Event::AccountAdopted { .. } | Event::IdClaimed { .. } | Event::CreditsConfirmed { .. } => {
                unreachable!("they have no kind")
            }
        }
        Ok(Some(change))
    }
}

impl AtHand {
    /// Adds the records of a group, of which so many were passed before.
    fn add<'a>(&mut self, records: impl Iterator<Item = &'a [u8]>, passed: u32) {
        for record in records {
            self.bytes.extend_from_slice(record);
            self.ends.push(self.bytes.len() as u32);
        }
        self.passed += passed as usize;
        assert!(self.passed <= self.ends.len(), "what was passed is at hand");
    }

    /// Records that were not passed.
    fn rest(&self) -> usize {
        self.ends.len() - self.passed
    }

    /// The record so many behind the next one.
    fn record(&self, ahead: usize) -> Option<&[u8]> {
        let number = self.passed + ahead;
        let end = *self.ends.get(number)? as usize;
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some(&self.bytes[begin..end])
    }

    fn clear(&mut self) {
        assert!(self.rest() == 0 && self.groups.is_empty(), "only what was passed is forgotten");
        self.bytes.clear();
        self.ends.clear();
        self.passed = 0;
    }
}

/// The kind of change that an event is; `None` for what concerns shards among themselves only.
fn kind_of(event: &Event<'_>, shard: ShardIndex) -> Option<ChangeKind> {
    Some(match event {
        Event::AccountOpened { .. } => ChangeKind::AccountOpened,
        Event::Transferred { .. } => ChangeKind::Transfer,
        Event::HoldPlaced { .. } => ChangeKind::HoldPlaced,
        Event::HoldPosted { .. } => ChangeKind::HoldPosted,
        Event::HoldVoided { .. } => ChangeKind::HoldVoided,
        Event::HoldExpired { .. } => ChangeKind::HoldExpired,
        Event::CreditReceived { .. } => ChangeKind::CreditReceived,
        Event::Refused { .. } => ChangeKind::Refused,
        Event::LossBooked { .. } => ChangeKind::LossBooked,
        Event::TimeMended { .. } => ChangeKind::TimeMended,
        Event::AccountChanged { home, .. } if *home == shard => ChangeKind::AccountChanged,
        Event::AssetDeclared { .. } => ChangeKind::AssetDeclared,
        // The home of the account has told this shard of a change.
        Event::AccountChanged { .. } => return None,
        Event::AccountAdopted { .. } | Event::IdClaimed { .. } | Event::CreditsConfirmed { .. } => return None,
    })
}

/// The slots of the accounts that a row of this event names.
fn slots(event: &Event<'_>) -> [Option<AccountSlot>; 2] {
    match *event {
        Event::AccountOpened { slot, .. } | Event::AccountChanged { slot, .. } => [Some(slot), None],
        Event::Transferred { debit, credit, .. } | Event::HoldPosted { debit, credit, .. } => {
            [Some(debit.slot), Some(credit.slot())]
        }
        Event::HoldPlaced { hold, debit, .. }
        | Event::HoldVoided { hold, debit, .. }
        | Event::HoldExpired { hold, debit, .. } => [Some(debit.slot), Some(hold.credit)],
        Event::CreditReceived { credit, .. } => [Some(credit.slot), None],
        Event::LossBooked { account, .. } => [Some(account.slot), None],
        Event::AccountAdopted { .. }
        | Event::Refused { .. }
        | Event::IdClaimed { .. }
        | Event::CreditsConfirmed { .. }
        | Event::AssetDeclared { .. }
        | Event::TimeMended { .. } => [None, None],
    }
}

impl<R: LogReader> OwnLog<R> {
    /// The durable end of the log: found from the furthest place that a reader has seen, or from the beginning of the
    /// last segment.
    fn end(&self) -> Result<ShardPlace, JournalError> {
        let settled = self.log.settled_end()?.cursor().expect("a reader has seen the group that it says ends there");
        let near = self.seen.get().filter(|seen| seen.position > settled.position).unwrap_or(settled);
        let end = self.mark.get();
        if near.position >= end.position() {
            return Ok(ShardPlace { group: near, passed: 0 });
        }
        let mut groups = self.log.groups(near, &end)?;
        while groups.next_group()?.is_some() {}
        self.seen.note(groups.cursor());
        Ok(ShardPlace { group: groups.cursor(), passed: 0 })
    }

    /// Behind a cursor at the end there is no group that could show that it is of another history. So the chain at the
    /// end is compared.
    fn check_end(&self, shard: usize, place: &ShardPlace) -> Result<(), ChangesError> {
        if place.group.position != self.mark.get().position() {
            return Ok(());
        }
        let end = self.end().map_err(|cause| unreadable(shard, cause))?.group;
        if end.position > place.group.position || end == place.group {
            return Ok(());
        }
        let what = format!("the journal ends there with sequence {}, chain {}", end.sequence, end.chain);
        Err(ChangesError::OtherHistory { shard: shard as u16, what })
    }
}

fn unreadable(shard: usize, cause: JournalError) -> ChangesError {
    ChangesError::Unreadable { shard: shard as u16, cause }
}

/// What a cursor meets at whose place no group can be read. Where another history has the middle of a group, what
/// stands there looks like damage. So the log is read up to the place: if a group ends there that is the cursor's, the
/// cursor is right, and whoever asked is not told to begin again.
fn of_cursor(shard: usize, cause: JournalError, has_place: &dyn Fn() -> Result<bool, JournalError>) -> ChangesError {
    let other = |what| ChangesError::OtherHistory { shard: shard as u16, what };
    match cause {
        JournalError::BadCursor { what, .. } => other(what),
        JournalError::Damaged { .. } => match has_place() {
            Ok(true) => unreadable(shard, cause),
            Ok(false) => other("no group of the journal ends at the cursor".into()),
            // What stands before the cursor is damaged, too: nobody can tell of which history the cursor is.
            Err(cause) => unreadable(shard, cause),
        },
        cause => unreadable(shard, cause),
    }
}
