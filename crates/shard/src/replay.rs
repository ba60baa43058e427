//! Start-up: from files to the state with which a shard continues.
//!
//! ```text
//!   newest good snapshot ──▶ state   ◀── records behind it ──┐
//!                                                            ├── log
//!   other files of the service ──▶ derived ◀── records behind it ──┘      (an index; it may lag behind the snapshot)
//! ```
//!
//! What is derived is of this log if the log has the place that it names, with its chain hash; else it is made anew.
//!
//! Promise: every record that is replayed was verified (checksum, chain) and fits the state. A snapshot is used only if
//! the log has its position. A damaged snapshot, or one of another history, is skipped in favour of an older one and
//! reported; one of another history is also renamed.

use std::error::Error;

use tidegate_disk::Disk;
use tidegate_journal::limits::VERIFIED_AHEAD_FROM_BYTES;
use tidegate_journal::{
    Cursor, Durability, JournalError, LogReader, LogStore, Logs, Notice, Opened, Options, Position, RecoveryReport,
    Retention, Sequence, Timeline, Timelines,
};
use tidegate_machines::{Machine, Place, ShardIndex};
use tidegate_planted::{Bug, is_planted};

use crate::fold::{Fold, FoldError, check_place, stands_at};
use crate::loss::{self, Claim, LossProven};
use crate::service::ShardFamily;
use crate::snapshot::{Snapshots, Stand, of_another_history, unread_place};

/// Why a shard cannot be brought back.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError<E: Error> {
    /// The log cannot be folded.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// What is kept beside the machine cannot be written.
    #[error("{0}")]
    Derived(E),
}

impl<E: Error> From<JournalError> for ReplayError<E> {
    fn from(error: JournalError) -> ReplayError<E> {
        ReplayError::Fold(error.into())
    }
}

/// Why the log of a shard cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log itself.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Something proves that the log has lost records.
    #[error(transparent)]
    Loss(#[from] Box<LossProven>),
    /// A log that has forgotten its beginning, and no snapshot that holds it.
    #[error(
        "no snapshot can be used, and the log alone does not have everything ({error}). \
         Restore one of these from a copy: {}",
        passed_over.join("; ")
    )]
    NoSnapshot {
        /// What is missing of the log.
        error: JournalError,
        /// The snapshots, and what is wrong with them.
        passed_over: Vec<String>,
    },
}

impl OpenError {
    /// The log cannot be opened with any snapshot but those that were `passed_over`.
    pub(crate) fn of(error: JournalError, passed_over: Vec<String>) -> OpenError {
        match passed_over.is_empty() {
            true => OpenError::Journal(error),
            false => OpenError::NoSnapshot { error, passed_over },
        }
    }
}

/// What a replay did.
#[derive(Clone, Debug, Default)]
pub struct ReplayReport {
    /// Sequence of the snapshot it began from; zero for none.
    pub snapshot_sequence: u64,
    /// Snapshots that could not be used, in words.
    pub snapshots_passed_over: Vec<String>,
    /// Records applied to the machine.
    pub events: u64,
    /// Records read only for what is derived from them.
    pub derived_only: u64,
    /// The timelines of the log.
    pub timelines: Timelines,
    /// Notices that were read, oldest first: those behind the snapshot.
    pub notices: Vec<Notice>,
}

/// What a service keeps on disk beside its machine, made from the same records.
pub trait Derived<M: Machine> {
    /// Why it cannot be brought up to date.
    type Error: Error;
    /// Up to here it has every record.
    fn covered(&self) -> Position;
    /// A place of the log that it was made from, at or behind the end of what is covered. If the log has no such place,
    /// with this chain hash, then it is of another history. [`Cursor::START`] stands on every log.
    fn stands_on(&self) -> Cursor;
    /// Gives up what it has, because it is of another history: it needs every record.
    fn give_up(&mut self) -> Result<(), Self::Error>;
    /// Takes a record, in order, perhaps one that it has already.
    fn note(&mut self, event: &M::Event<'_>, at: Place);
    /// Hears that a group has ended, at `reached`.
    fn catch_up(&mut self, reached: Cursor) -> Result<(), Self::Error>;
    /// Hears in which timeline the log is, when it has every record. False if what it had before the replay is of
    /// another one: it has given that up, and needs every record again.
    fn belong_to(&mut self, timeline: Timeline) -> Result<bool, Self::Error>;
}

/// Nothing is kept beside the machine.
pub struct NothingDerived;

impl<M: Machine> Derived<M> for NothingDerived {
    type Error = std::convert::Infallible;

    fn covered(&self) -> Position {
        Position(u64::MAX)
    }

    fn stands_on(&self) -> Cursor {
        Cursor::START
    }

    fn give_up(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    #[inline]
    fn note(&mut self, _event: &M::Event<'_>, _at: Place) {}

    fn catch_up(&mut self, _reached: Cursor) -> Result<(), Self::Error> {
        Ok(())
    }

    fn belong_to(&mut self, _timeline: Timeline) -> Result<bool, Self::Error> {
        Ok(true)
    }
}

/// A shard's log, open, with what of its files a replay begins from.
pub struct OpenShard<F: ShardFamily, D: Disk, L: LogStore> {
    snapshots: Snapshots<F, D>,
    log: L,
    report: RecoveryReport,
    /// A log that forgets can be opened only with the snapshot that holds what it has forgotten.
    start: Option<(Stand, F::Machine)>,
    passed_over: PassedOver,
    verifies_ahead: bool,
}

/// Snapshots that are not used.
#[derive(Default)]
struct PassedOver {
    /// Damaged ones, and those whose place cannot be read now, in words.
    damaged: Vec<String>,
    /// Those whose place the log does not have, and what it has there. Whether they or the log are wrong shows when the
    /// log was read.
    elsewhere: Vec<(Cursor, String)>,
}

impl PassedOver {
    fn words(self) -> Vec<String> {
        self.damaged.into_iter().chain(self.elsewhere.into_iter().map(|(_, why)| why)).collect()
    }

    /// The log is good: what does not stand on it is out of place.
    fn set_aside<F: ShardFamily, D: Disk>(self, snapshots: &Snapshots<F, D>) -> Vec<String> {
        let set_aside = self.elsewhere.into_iter().map(|(cursor, why)| snapshots.set_aside_at(cursor, why));
        self.damaged.into_iter().chain(set_aside).collect()
    }
}

/// A shard as it was, to be served on.
pub struct Replayed<M, L> {
    /// The machine's state.
    pub state: M,
    /// Its log, at the end of which the state stands.
    pub log: L,
    /// What was done.
    pub report: ReplayReport,
}

impl<F: ShardFamily, D: Disk, L: LogStore> OpenShard<F, D, L> {
    /// Opens (or begins) the log of a shard, cuts a torn tail, and says what was found.
    ///
    /// A log that forgets must reach back to the newest good snapshot. One that is whole for ever is opened from its
    /// first record, whatever snapshots there are. Neither may end before a snapshot of its timeline: see
    /// [`crate::loss`].
    pub fn open<G: Logs<Log = L>>(logs: &G, snapshots: Snapshots<F, D>, options: Options) -> Result<Self, OpenError> {
        OpenShard::open_with(logs, snapshots, options, &[])
    }

    /// The same, when more than the snapshots names places of the log: what `others` claim is checked, too.
    pub fn open_with<G: Logs<Log = L>>(
        logs: &G,
        snapshots: Snapshots<F, D>,
        options: Options,
        others: &[Claim],
    ) -> Result<Self, OpenError> {
        loss::check(logs, &snapshots, others)?;
        let mut passed_over = PassedOver::default();
        if F::FAMILY.retention == Retention::SinceSnapshot {
            match snapshots.newest_first() {
                Err(error) => passed_over.damaged.push(error.to_string()),
                Ok(found) => {
                    for snapshot in found {
                        let (stand, state) = match snapshot {
                            Ok(good) => good,
                            Err(error) => {
                                passed_over.damaged.push(error.to_string());
                                continue;
                            }
                        };
                        let cursor = stand.cursor;
                        let Opened { log, report } = match logs.open(snapshots.log(), cursor, options) {
                            Ok(opened) => opened,
                            // The log has left its timeline: else it would prove a loss.
                            Err(JournalError::BadCursor { .. }) => {
                                passed_over.elsewhere.push((cursor, of_another_history(cursor)));
                                continue;
                            }
                            Err(other) => return Err(OpenError::Journal(other)),
                        };
                        match stands_at(&log.reader()?, cursor, &report.durability()) {
                            Ok(true) => {
                                let start = Some((stand, state));
                                let snapshots = snapshots.clone();
                                return Ok(OpenShard::of(snapshots, log, report, start, passed_over));
                            }
                            Ok(false) => passed_over.elsewhere.push((cursor, of_another_history(cursor))),
                            Err(error) => passed_over.damaged.push(unread_place(cursor, &error)),
                        }
                    }
                }
            }
        }
        match logs.open(snapshots.log(), Cursor::START, options) {
            Ok(Opened { log, report }) => Ok(OpenShard::of(snapshots, log, report, None, passed_over)),
            Err(error) => Err(OpenError::of(error, passed_over.words())),
        }
    }

    fn of(
        snapshots: Snapshots<F, D>,
        log: L,
        report: RecoveryReport,
        start: Option<(Stand, F::Machine)>,
        passed_over: PassedOver,
    ) -> Self {
        OpenShard { snapshots, log, report, start, passed_over, verifies_ahead: false }
    }

    /// A replay of much reads and verifies on a thread of its own.
    pub fn verifying_ahead(self) -> Self {
        OpenShard { verifies_ahead: true, ..self }
    }

    /// What opening the log found and did.
    pub fn recovered(&self) -> &RecoveryReport {
        &self.report
    }

    /// The log, to wake its owner.
    pub fn log_mut(&mut self) -> &mut L {
        &mut self.log
    }

    /// Folds what is behind the newest snapshot that can be used into the state, and what is behind `derived` into
    /// that. `progress` is called with the sequence reached, from time to time.
    pub fn replay<X: Derived<F::Machine>>(
        mut self,
        shards: u16,
        derived: &mut X,
        mut progress: impl FnMut(Sequence),
    ) -> Result<Replayed<F::Machine, L>, ReplayError<X::Error>> {
        let (reader, end, place) = (self.log.reader()?, self.report.durability(), derived.stands_on());
        // Of damage behind the place the replay will tell.
        if check_place(&reader, place, &end).is_err() && !reader.has_place(place, &end)? {
            derived.give_up().map_err(ReplayError::Derived)?;
        }
        let mut replayed = self.replay_once(shards, derived, &mut progress)?;
        while !derived.belong_to(replayed.1.timelines.current()).map_err(ReplayError::Derived)? {
            assert!(
                F::FAMILY.retention != Retention::SinceSnapshot,
                "what is derived needs a log that forgets nothing"
            );
            self.passed_over = PassedOver::default();
            replayed = self.replay_once(shards, derived, &mut progress)?;
        }
        let (state, mut report) = replayed;
        state.assert_sound();
        report.snapshots_passed_over = self.passed_over.set_aside(&self.snapshots);
        Ok(Replayed { state, log: self.log, report })
    }

    fn replay_once<X: Derived<F::Machine>>(
        &mut self,
        shards: u16,
        derived: &mut X,
        progress: &mut impl FnMut(Sequence),
    ) -> Result<(F::Machine, ReplayReport), ReplayError<X::Error>> {
        let (reader, end, id) = (self.log.reader()?, self.report.durability(), self.snapshots.log());
        let (at, state, from) = match self.start.take() {
            Some((at, state)) => {
                let from = at.cursor;
                (at, state, from)
            }
            None => {
                let found = begin(&self.snapshots, &reader, &end, derived.covered(), &mut self.passed_over);
                found
                    .unwrap_or_else(|| (Stand::default(), F::Machine::new(ShardIndex(id.shard), shards), Cursor::START))
            }
        };
        let mut report = ReplayReport { snapshot_sequence: at.cursor.sequence.0, ..ReplayReport::default() };
        let mut fold = Fold::new(id, from, at, state);
        let mut groups = reader.groups(from, &end)?;
        if self.verifies_ahead && reader.bytes_between(from.position, end.position()) >= VERIFIED_AHEAD_FROM_BYTES {
            groups = groups.verifying_ahead();
        }
        while let Some(records) = fold.next_group(&mut groups, |event, at| derived.note(event, at))? {
            report.derived_only += records;
            // An error of the disk ends the start with words, where trying again would end in silence.
            derived.catch_up(groups.cursor()).map_err(ReplayError::Derived)?;
            progress(groups.cursor().sequence);
        }
        report.events = fold.records();
        report.derived_only -= report.events;
        assert_eq!(fold.sequence(), self.log.last_sequence(), "the state stands at the end of its log");
        report.timelines = fold.stand().timelines.clone();
        report.notices = fold.notices().to_vec();
        Ok((fold.into_state()?, report))
    }
}

/// The newest snapshot that stands on the log, and the place from which both it and what is derived miss nothing.
fn begin<F: ShardFamily, D: Disk, R: LogReader>(
    snapshots: &Snapshots<F, D>,
    reader: &R,
    up_to: &Durability,
    covered: Position,
    passed_over: &mut PassedOver,
) -> Option<(Stand, F::Machine, Cursor)> {
    if F::FAMILY.retention == Retention::SinceSnapshot {
        return None;
    }
    let found = snapshots.newest_first().map_err(|error| passed_over.damaged.push(error.to_string())).ok()?;
    let mut best = None;
    for snapshot in found {
        match snapshot {
            Err(error) => passed_over.damaged.push(error.to_string()),
            Ok((Stand { cursor, .. }, _)) if cursor.position > up_to.position() => {
                if is_planted(Bug::AbandonedSnapshotUsed) {
                    continue;
                }
                let (at, end) = (cursor.position, up_to.position());
                let sequence = cursor.sequence;
                let why = format!("snapshot at sequence {sequence} is ahead of the log's end: at byte {at}, not {end}");
                passed_over.elsewhere.push((cursor, why));
            }
            Ok((stand, state)) => match stands_at(reader, stand.cursor, up_to) {
                Ok(false) => passed_over.elsewhere.push((stand.cursor, of_another_history(stand.cursor))),
                Err(error) => passed_over.damaged.push(unread_place(stand.cursor, &error)),
                Ok(true) => {
                    let cursor = stand.cursor;
                    let (at, state) = best.take().unwrap_or((stand, state));
                    // Nothing is missing before the snapshot.
                    if cursor.position.0 <= covered.0.saturating_add(1) {
                        return Some((at, state, cursor));
                    }
                    best = Some((at, state));
                }
            },
        }
    }
    best.map(|(at, state)| (at, state, Cursor::START))
}

#[cfg(test)]
mod tests;
