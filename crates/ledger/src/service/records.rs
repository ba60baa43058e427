//! Old records that a decision needs and that are not in memory: read by a job, for all ids of a call at once.
//!
//! ```text
//!   decide ─▶ was this id used? ─▶ its record: in memory, or already read ─▶ continue
//!                                                └─ neither ─▶ Unread ─▶ one job for all ids of the call ─▶ item again
//! ```
//!
//! A record that the disk has lost refuses the calls that need it, as `damaged`, and no others.
//!
//! Promise: nothing is decided without the record of its id. A call that waits keeps its place: later calls have their
//! own records read meanwhile and are decided after it, so two calls with one id are decided in the order in which they
//! came. The index is asked again each time, because ids may have been inserted while the disk was read.

use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_disk::Disk;
use tidegate_journal::{JournalError, LogId, LogReader, LogStore, Position};
use tidegate_machines::DamagedPlace;
use tidegate_machines::ledger::Event;
use tidegate_runtime::{Damages, Unreadable};
use tidegate_shard::{JobId, Jobs};

use super::{Fetched, Job, LedgerService, LedgerTurn, ShardError};
use crate::family::LEDGER;
use crate::ids::IdsError;
use crate::limits::RECORDS_PER_JOB_MAX;
use crate::operation::Operation;

/// A record as it was read, or the damage at its place.
pub type Record = Result<Box<[u8]>, &'static DamagedPlace>;

/// Records by their positions.
pub(super) type Records = HashMap<Position, Record>;

/// Which records a job reads, and who is told of damage.
#[derive(Debug)]
pub struct RecordsJob {
    positions: Vec<Position>,
    log: LogId,
    damages: Arc<Damages>,
}

/// Why a call is not served further now.
#[derive(Debug)]
pub(super) enum Halt {
    /// The shard stops.
    Stop(ShardError),
    /// A record must be read first; the item at hand was not touched.
    Unread,
    /// What the item needs is damaged, and it was not touched: it is refused.
    Damaged(&'static DamagedPlace),
}

impl Halt {
    /// For commands without an id, which need no record.
    pub fn into_stop(self) -> ShardError {
        match self {
            Halt::Stop(stop) => stop,
            Halt::Unread | Halt::Damaged(_) => unreachable!("a command without an id needs no record"),
        }
    }
}

impl<E: Into<ShardError>> From<E> for Halt {
    fn from(error: E) -> Halt {
        Halt::Stop(error.into())
    }
}

/// Why the look-up of an id ended without an answer.
pub(super) enum LookUp {
    /// A candidate's record is not there.
    Halt(Halt),
    /// The index cannot be read there.
    Ids(IdsError),
}

impl From<IdsError> for LookUp {
    fn from(error: IdsError) -> LookUp {
        LookUp::Ids(error)
    }
}

/// Results of reads, until they are taken.
#[derive(Debug, Default)]
pub(super) struct Reads {
    under_way: HashMap<JobId, Vec<Position>>,
    arrived: HashMap<JobId, Result<Records, JournalError>>,
}

impl Reads {
    /// Whether this is one of its jobs.
    pub fn owns(&self, job: JobId) -> bool {
        self.under_way.contains_key(&job)
    }

    pub fn fetched(&mut self, job: JobId, found: Result<Vec<Record>, JournalError>) {
        let positions = self.under_way.remove(&job).expect("a job comes back once");
        let records = found.map(|records| {
            assert_eq!(records.len(), positions.len(), "a record for each position");
            positions.into_iter().zip(records).collect()
        });
        assert!(!self.arrived.contains_key(&job), "a job comes back once");
        self.arrived.insert(job, records);
    }

    /// What a job found; `None` while it is running.
    pub fn take(&mut self, job: JobId) -> Option<Result<Records, JournalError>> {
        self.arrived.remove(&job)
    }
}

impl RecordsJob {
    /// A read of the records at `positions` of `log`.
    pub(super) fn new(positions: Vec<Position>, log: LogId, damages: &Arc<Damages>) -> RecordsJob {
        RecordsJob { positions, log, damages: damages.clone() }
    }

    /// Reads the records, in the order asked. Damage at one place keeps none of the others from being read.
    pub(super) fn run<R: LogReader>(&self, reader: &R) -> Fetched {
        Fetched::Records(self.positions.iter().map(|at| self.read(*at, reader)).collect())
    }

    fn read<R: LogReader>(&self, at: Position, reader: &R) -> Result<Record, JournalError> {
        let mut record = Vec::new();
        let error = match reader.read(at, &mut record) {
            Ok(()) if Event::decode(&record).is_ok() => return Ok(Ok(record.into_boxed_slice())),
            // Its checksum is right, so it was written so.
            Ok(()) => {
                return Ok(Err(self.damages.note_record(LEDGER.name, self.log, at, "it is no event of a ledger")));
            }
            Err(error) => error,
        };
        match self.damages.judge(reader, (LEDGER.name, self.log), at, error) {
            // Only the index names such a place, and an index that does so may name no other for the same id.
            Unreadable::Damaged(place) | Unreadable::Nothing(place) => Ok(Err(place)),
            Unreadable::Failed(error) => Err(error),
        }
    }
}

impl<D: Disk> LedgerService<D> {
    /// Begins to read the records at these positions.
    pub(super) fn start_read(&mut self, positions: Vec<Position>, jobs: &mut Jobs<Self>) -> JobId {
        assert!(!positions.is_empty(), "whoever met an unread record finds it again");
        let job = jobs.start(Job::Records(RecordsJob::new(positions.clone(), self.log, &self.damages)));
        assert!(!self.reads.under_way.contains_key(&job), "a job is started once");
        self.reads.under_way.insert(job, positions);
        job
    }

    /// Positions of the records that decisions on `ids` will look at and that are neither in memory nor among
    /// `at_hand`: each candidate of each id, at most as many as one job reads.
    pub(super) fn unread<'i, L: LogStore>(
        &self,
        turn: &LedgerTurn<'_, L>,
        ids: impl Iterator<Item = &'i str>,
        at_hand: &Records,
    ) -> Vec<Position> {
        let mut unread = Vec::new();
        for id in ids {
            // An index that fails says so when the id is decided on.
            let _ = self.ids.find_newest(self.ids.hash(id.as_bytes()), |at| -> Result<bool, IdsError> {
                let read = || at_hand.get(&at).map(|record| record.as_deref());
                match turn.peek(at).map(Ok).or_else(read) {
                    Some(Ok(record)) => Ok(Event::decode(record).is_ok_and(|event| event.id() == Some(id))),
                    // Nothing older can answer for it.
                    Some(Err(_)) => Ok(true),
                    None => {
                        unread.push(at);
                        Ok(false)
                    }
                }
            });
            if unread.len() >= RECORDS_PER_JOB_MAX {
                break;
            }
        }
        unread.sort_unstable();
        unread.dedup();
        unread
    }
}

/// The ids that the items of a call name, from item `from` on; none for calls that are not about ids.
pub(super) fn ids_of<'c>(call: &'c Operation, from: usize) -> Box<dyn Iterator<Item = &'c str> + 'c> {
    match call {
        // Of a linked group, all are looked at before any is decided.
        Operation::Transfers { batch, selection, linked: true, .. } => {
            Box::new((0..selection.len(batch.len())).map(|n| batch.get(selection.index(n)).id))
        }
        Operation::Transfers { batch, selection, .. } => {
            Box::new((from..selection.len(batch.len())).map(|n| batch.get(selection.index(n)).id))
        }
        Operation::PlaceHolds { holds, selection, .. } => {
            Box::new((from..selection.len(holds.len())).map(|n| &*holds[selection.index(n)].id))
        }
        Operation::PostHolds { posts, selection } => {
            Box::new((from..selection.len(posts.len())).map(|n| &*posts[selection.index(n)].0))
        }
        Operation::VoidHolds { ids, selection } => {
            Box::new((from..selection.len(ids.len())).map(|n| &*ids[selection.index(n)]))
        }
        Operation::ClaimIds(claims) => Box::new(claims[from..].iter().map(|(id, ..)| &**id)),
        Operation::LinkedHolds { holds, selection, .. } => {
            Box::new((0..selection.len(holds.len())).map(|n| &*holds[selection.index(n)].id))
        }
        Operation::ReadId { id } => Box::new(std::iter::once(&**id)),
        Operation::FindOwners(ids) => Box::new(ids.iter().map(|id| &**id)),
        _ => Box::new(std::iter::empty()),
    }
}
