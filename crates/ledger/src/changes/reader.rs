//! Reads the journals of all shards in turn and makes changes of their records.

use tidegate_journal::{LogReader, Position};
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::AccountSlot;
use tidegate_planted::{Bug, is_planted};

use super::ChangesError;
use super::change::{Change, ChangeKind};
use super::cursor::{ChangeCursor, ShardPlace};
use super::own_log::{OwnLog, unreadable};
use super::shard_reader::ShardReader;
use crate::limits::CHANGE_ROW_BYTES_PER_STEP;
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
        /// Bytes of memory that these take, about.
        row_bytes: usize,
        /// Bytes of journal that were read for it.
        bytes: usize,
    },
    /// All that is durable was read.
    AtEnd,
}

/// Reads changes. Of each shard, one reader has at most
/// [`CHANGE_RECORDS_PER_STEP`](crate::limits::CHANGE_RECORDS_PER_STEP) records and one group besides in memory, and
/// [`CHANGE_NAMES_MAX`](crate::limits::CHANGE_NAMES_MAX) names; nothing but names where it has read all, and nothing at
/// all after [`ChangeReader::release`].
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
            shards.push(ShardReader::open(ShardIndex(index as u16), own, place)?);
        }
        Ok(ChangeReader { shards, turn: 0, filter, key })
    }

    /// Reads on: at most [`CHANGE_RECORDS_PER_STEP`](crate::limits::CHANGE_RECORDS_PER_STEP) records of one shard, and
    /// fewer only where no more are durable, a large group ends, or their rows take [`CHANGE_ROW_BYTES_PER_STEP`]. May
    /// wait for the disk.
    pub fn step(&mut self) -> Result<Step, ChangesError> {
        for _ in 0..self.shards.len() {
            let at = self.turn;
            if !self.shards[at].load()? {
                self.turn = (at + 1) % self.shards.len();
                continue;
            }
            let unnamed = self.shards[at].unnamed(&self.filter)?;
            if !unnamed.is_empty() {
                return Ok(Step::Names(ShardIndex(at as u16), unnamed));
            }
            let step = self.rows(at)?;
            self.turn = (at + 1) % self.shards.len();
            return Ok(step);
        }
        self.shards.iter_mut().for_each(ShardReader::forget_passed);
        Ok(Step::AtEnd)
    }

    /// Gives back the memory of all that was read and not given: it is read again, and names are asked for again. For a
    /// reader that has to wait.
    pub fn release(&mut self) {
        self.shards.iter_mut().for_each(ShardReader::release);
    }

    /// Bytes of memory that it holds, about.
    pub fn held_bytes(&self) -> usize {
        self.shards.iter().map(ShardReader::held_bytes).sum()
    }

    /// Takes what a shard calls the slots that it was asked for: id and asset of each.
    pub fn name(&mut self, shard: ShardIndex, named: impl IntoIterator<Item = (AccountSlot, Box<str>, Box<str>)>) {
        let reader = &mut self.shards[usize::from(shard.0)];
        for (slot, id, asset) in named {
            reader.names.remember(slot, &id, &asset, &self.filter);
        }
    }

    /// Where to read on, as text.
    pub fn cursor(&self) -> Box<str> {
        ChangeCursor { places: self.places() }.text(self.key)
    }

    fn places(&self) -> Vec<ShardPlace> {
        self.shards.iter().map(ShardReader::place).collect()
    }

    /// Up to where each shard's groups were read.
    pub(super) fn ends(&self) -> impl Iterator<Item = Position> {
        self.shards.iter().map(ShardReader::end)
    }

    fn rows(&mut self, at: usize) -> Result<Step, ChangesError> {
        let mut places = self.places();
        let shard = &mut self.shards[at];
        let (mut rows, mut row_bytes, mut bytes) = (Vec::new(), 0, 0);
        while shard.is_named() && row_bytes < CHANGE_ROW_BYTES_PER_STEP {
            let (change, record_bytes) = match shard.next_change(&self.filter) {
                None => break,
                // What is before it is good: the next step says what is wrong.
                Some(Err(_)) if bytes > 0 => break,
                Some(change) => change?,
            };
            bytes += record_bytes;
            let own = shard.place();
            shard.pass_one();
            if let Some(mut change) = change {
                places[at] = shard.place();
                // Within a group, that is: behind its last record the cursor stands before the next group.
                if places[at].passed > 0 && is_planted(Bug::ChangeSkipped) {
                    places[at].passed += 1;
                }
                if places[at].passed > 0 && is_planted(Bug::ChangeRepeated) {
                    places[at] = own;
                }
                let cursor = ChangeCursor { places };
                change.cursor = cursor.text(self.key);
                places = cursor.places;
                row_bytes += change.held_bytes();
                rows.push(change);
            }
        }
        assert!(bytes > 0, "what is at hand has records");
        Ok(Step::Rows { rows, row_bytes, bytes: bytes + shard.take_read_again() })
    }
}
