//! Folds a log into a state: used by replay, compaction and audits.
//!
//! ```text
//!   groups of the log:   │ 1 2 3 │ 4 5 │ 6 7 8 9 │ …
//!                                  ▲ state's cursor: position, sequence, chain
//!   reading may begin anywhere before the cursor: records that the state has are only shown,
//!   and a group must end exactly at the cursor
//! ```
//!
//! Promise: every record was verified (checksum, chain) and follows from the state before it. A state is continued only
//! if the log has the state's position with the same chain hash, so a state of another history is detected.

use std::collections::VecDeque;

use tidegate_journal::{
    Cursor, Durability, GroupReader, JournalError, LogId, LogReader, Notice, Position, Records, Sequence,
};
use tidegate_machines::{Machine, Place, RecordPosition, RecordSequence};
use tidegate_planted::{Bug, is_planted};

use crate::snapshot::Stand;

/// So many records ahead, the memory is asked for that a record will look at.
const AHEAD: usize = 8;

/// Why a log cannot be folded.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// The log cannot be read, or is damaged.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A verified record does not fit what came before it: it was written by a faulty program, or forged.
    #[error("{log}: record {sequence} at position {position} does not fit what came before it: {what}")]
    Misfit {
        /// Which log.
        log: LogId,
        /// Its sequence.
        sequence: Sequence,
        /// Its position.
        position: Position,
        /// What is wrong.
        what: String,
    },
    /// The state stands on a place that the log does not have.
    #[error(
        "{log}: the snapshot at sequence {}, position {} is of another history: \
         the log has a group that ends at sequence {}, position {}, chain {}",
        snapshot.sequence, snapshot.position, found.sequence, found.position, found.chain
    )]
    AnotherHistory {
        /// Which log.
        log: LogId,
        /// Where the state says that it stands.
        snapshot: Cursor,
        /// What the log has there, or next behind it.
        found: Cursor,
    },
    /// The log ends before a record that was read earlier.
    #[error("{log}: the log ends at sequence {reached}, before {wanted}")]
    EndsBefore {
        /// Which log.
        log: LogId,
        /// Last record folded.
        reached: Sequence,
        /// The one that was asked for.
        wanted: Sequence,
    },
}

/// A state, and how far the log was folded into it. Can stop at any record.
pub struct Fold<M: Machine> {
    log: LogId,
    state: M,
    /// Last record that the state has.
    sequence: Sequence,
    /// Where the state says that it stands, until the reading has passed it.
    expected: Option<Cursor>,
    /// Where the state stands, at the end of the last group that was read.
    stand: Stand,
    /// The notices that were read, oldest first.
    notices: Vec<Notice>,
    /// Records of the group inside of which the fold stopped.
    rest: VecDeque<(Sequence, Position, Box<[u8]>)>,
    records: u64,
}

impl<M: Machine> Fold<M> {
    /// Goes on from `state`, which is the fold of `log` up to `at`. Groups are read from `from` on, which is `at` or
    /// before it: what begins at `at` is compared by the reader, which is given that cursor.
    pub fn new(log: LogId, from: Cursor, at: Stand, state: M) -> Fold<M> {
        assert!(
            from.position <= at.cursor.position && from.sequence <= at.cursor.sequence,
            "nothing is left out between reading and state"
        );
        let expected = (at.cursor != from).then_some(at.cursor);
        let (sequence, notices) = (at.cursor.sequence, Vec::new());
        Fold { log, state, sequence, expected, stand: at, notices, rest: VecDeque::new(), records: 0 }
    }

    /// Folds the next group of `groups`; `None` at the end, else how many records it has. `each` sees every record that
    /// is read, also those that the state has already.
    pub fn next_group(
        &mut self,
        groups: &mut GroupReader,
        mut each: impl FnMut(&M::Event<'_>, Place),
    ) -> Result<Option<u64>, FoldError> {
        assert!(self.rest.is_empty(), "the group before this one is folded whole");
        let Some(group) = groups.next_group()? else { return Ok(None) };
        let (count, notice) = (u64::from(group.record_count), group.notice.clone());
        self.fold_records(group.records(), Sequence(u64::MAX), &mut each)?;
        self.passed(groups.cursor(), notice)?;
        Ok(Some(count))
    }

    /// Folds up to and including `target`; the rest of its group is kept for the next time.
    pub fn advance(&mut self, groups: &mut GroupReader, target: Sequence) -> Result<(), FoldError> {
        self.fold_rest(target)?;
        while self.sequence < target {
            assert!(self.rest.is_empty(), "what is left of a group lies behind the target");
            let Some(group) = groups.next_group()? else {
                return Err(FoldError::EndsBefore { log: self.log, reached: self.sequence, wanted: target });
            };
            let notice = group.notice.clone();
            self.fold_records(group.records(), target, &mut |_, _| ())?;
            self.passed(groups.cursor(), notice)?;
        }
        Ok(())
    }

    /// Folds what is left of the group inside of which the fold stopped.
    pub fn finish_group(&mut self) -> Result<(), FoldError> {
        self.fold_rest(Sequence(u64::MAX))
    }

    fn fold_rest(&mut self, target: Sequence) -> Result<(), FoldError> {
        while let Some((sequence, position, bytes)) = self.rest.pop_front() {
            if sequence > target {
                self.rest.push_front((sequence, position, bytes));
                break;
            }
            let event = decode::<M>(self.log, sequence, position, &bytes)?;
            self.apply(&event, place(sequence, position))?;
        }
        Ok(())
    }

    /// Folds the records of a group up to and including `target`, each with the memory of those to come on its way.
    /// What is behind `target` is kept.
    fn fold_records(
        &mut self,
        records: Records<'_>,
        target: Sequence,
        each: &mut impl FnMut(&M::Event<'_>, Place),
    ) -> Result<(), FoldError> {
        let mut coming: [Option<(M::Event<'_>, Place)>; AHEAD] = std::array::from_fn(|_| None);
        let (mut count, mut ended) = (0, Ok(()));
        for (sequence, position, bytes) in records {
            if sequence > target {
                self.rest.push_back((sequence, position, bytes.into()));
                continue;
            }
            let event = match decode::<M>(self.log, sequence, position, bytes) {
                Ok(event) => event,
                // Said when all before it are folded.
                Err(misfit) => {
                    ended = Err(misfit);
                    break;
                }
            };
            self.state.expect(&event);
            if let Some(next) = coming[count % AHEAD].replace((event, place(sequence, position))) {
                self.fold_one(next, each)?;
            }
            count += 1;
        }
        for at in count..count + AHEAD {
            if let Some(next) = coming[at % AHEAD].take() {
                self.fold_one(next, each)?;
            }
        }
        ended
    }

    #[inline]
    fn fold_one(
        &mut self,
        (event, at): (M::Event<'_>, Place),
        each: &mut impl FnMut(&M::Event<'_>, Place),
    ) -> Result<(), FoldError> {
        if at.sequence.0 > self.sequence.0 {
            self.apply(&event, at)?;
        }
        each(&event, at);
        Ok(())
    }

    #[inline]
    fn apply(&mut self, event: &M::Event<'_>, at: Place) -> Result<(), FoldError> {
        let (log, sequence, position) = (self.log, Sequence(at.sequence.0), Position(at.position.0));
        assert_eq!(sequence.0, self.sequence.0 + 1, "records are folded without a gap");
        self.state.apply_checked(event, at).map_err(|mismatch| FoldError::Misfit {
            log,
            sequence,
            position,
            what: mismatch.to_string(),
        })?;
        self.sequence = sequence;
        self.records += 1;
        Ok(())
    }

    /// A group ends at `reached`. One must end exactly where the state stands.
    fn passed(&mut self, reached: Cursor, notice: Option<Notice>) -> Result<(), FoldError> {
        match self.expected {
            Some(snapshot) if reached == snapshot => self.expected = None,
            Some(snapshot) if reached.position >= snapshot.position => {
                return Err(FoldError::AnotherHistory { log: self.log, snapshot, found: reached });
            }
            _ => {}
        }
        if reached.position > self.stand.cursor.position {
            if notice.is_some() {
                self.stand.timelines.begin(&reached);
            }
            self.stand.cursor = reached;
        }
        self.notices.extend(notice);
        Ok(())
    }

    /// Where the state stands when [`Fold::is_between_groups`]: what a snapshot of it says.
    pub fn stand(&self) -> &Stand {
        &self.stand
    }

    /// The notices that were read, oldest first.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Last record that the state has.
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Records folded in.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The state so far.
    pub fn state(&self) -> &M {
        &self.state
    }

    /// Whether the fold stands behind a whole group, so that the reader's cursor is its place.
    pub fn is_between_groups(&self) -> bool {
        self.rest.is_empty()
    }

    /// The state, at the end of a log that was read whole. Refuses one whose place was not met.
    pub fn into_state(self) -> Result<M, FoldError> {
        assert!(self.rest.is_empty(), "the log was read whole");
        match self.expected {
            Some(snapshot) => {
                Err(FoldError::EndsBefore { log: self.log, reached: self.sequence, wanted: snapshot.sequence })
            }
            None => Ok(self.state),
        }
    }
}

fn decode<M: Machine>(
    log: LogId,
    sequence: Sequence,
    position: Position,
    bytes: &[u8],
) -> Result<M::Event<'_>, FoldError> {
    M::decode(bytes).map_err(|error| FoldError::Misfit { log, sequence, position, what: error.to_string() })
}

fn place(sequence: Sequence, position: Position) -> Place {
    Place { position: RecordPosition(position.0), sequence: RecordSequence(sequence.0) }
}

/// Whether `at` is a place of the log that `reader` reads, up to which it is known to be durable: the group behind it
/// continues its chain, or the log ends there with that chain.
pub fn check_place<R: LogReader>(reader: &R, at: Cursor, up_to: &Durability) -> Result<(), JournalError> {
    if at == Cursor::START || is_planted(Bug::AbandonedSnapshotUsed) {
        return Ok(());
    }
    reader.groups(at, up_to)?.next_group().map(|_| ())
}

/// Whether the log that `reader` reads has the place `at`, as far as it is known to be durable: false only if what the
/// log has there was read and is something else. `Err`: it cannot be read now, so that nobody can tell.
pub fn stands_at<R: LogReader>(reader: &R, at: Cursor, up_to: &Durability) -> Result<bool, JournalError> {
    match check_place(reader, at, up_to) {
        Ok(()) => Ok(true),
        Err(JournalError::BadCursor { .. }) => Ok(false),
        // No group begins there: because it is damaged, or because others end before it and behind it.
        Err(JournalError::Damaged { .. }) => reader.has_place(at, up_to),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
