//! Pages of the id index and old records that a decision needs and that are not in memory: read by a job, for all ids
//! of a call at once.
//!
//! ```text
//!   decide ─▶ was this id used? ─▶ filters, tables, its record: in memory, or already read ─▶ continue
//!                                     └─ neither ─▶ Unread ─▶ one job for all ids of the call ─▶ item again
//!   job: pages ─▶ candidates ─▶ their records
//! ```
//!
//! A record that the disk has lost refuses the calls that need it, as `damaged`, and no others.
//!
//! Promise: nothing is decided without the record of its id. A call that waits keeps its place among those of its
//! caller: later ones have their own records read meanwhile and are decided after it, so two calls of one caller with
//! one id are decided in the order in which they came. Other callers go on. The index is asked again each time, because
//! they may have inserted ids while the disk was read.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use hashbrown::{HashMap, HashSet};
use tidegate_disk::Disk;
use tidegate_journal::{JournalError, LogId, LogReader, LogStore, Position};
use tidegate_machines::DamagedPlace;
use tidegate_machines::ledger::Event;
use tidegate_runtime::{Damages, Unreadable};
use tidegate_shard::{JobId, Jobs};

use super::progress::{NewIds, Progress};
use super::{Fetched, Job, LedgerService, LedgerTurn, ShardError};
use crate::family::LEDGER;
use crate::ids::{IdHash, IdsError, Looked, PageLookup, Unsettled};
use crate::limits::RECORDS_PER_JOB_MAX;
use crate::operation::Operation;

/// Ids whose cache lines are loaded ahead.
const PREFETCH_AHEAD: usize = 12;

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
    /// Nothing is read that was archived: such a record is [`archived`].
    only_here: bool,
}

/// Stands for a record that was archived, where none of these is read.
pub(super) fn archived() -> &'static DamagedPlace {
    static ARCHIVED: LazyLock<DamagedPlace> = LazyLock::new(|| DamagedPlace {
        file: "the archive".into(),
        offset: 0,
        what: "it was not read".into(),
        lost: "what was asked for".into(),
        is_away: true,
    });
    &ARCHIVED
}

/// What was read for decisions to come.
#[derive(Debug, Default)]
pub(super) struct AtHand {
    pub(super) records: Records,
    /// What the pages of the id index have.
    pub(super) looked: Looked,
}

impl AtHand {
    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.looked.is_empty()
    }

    /// Adds what another job found.
    pub fn extend(&mut self, other: AtHand) {
        self.records.extend(other.records);
        self.looked.merge(other.looked);
    }
}

/// What is to be read for decisions to come.
pub struct Wanted<D: Disk> {
    lookup: PageLookup<D>,
    records: RecordsJob,
}

impl<D: Disk> std::fmt::Debug for Wanted<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ids to look for, and {:?}", self.lookup.len(), self.records)
    }
}

impl<D: Disk> Wanted<D> {
    /// Whether there is nothing to read.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Has it read nothing that was archived.
    pub(super) fn only_here(mut self) -> Wanted<D> {
        self.records.only_here = true;
        self
    }

    /// Whether pages of the id index must be read for it.
    pub fn reads_pages(&self) -> bool {
        !self.lookup.is_empty()
    }

    fn len(&self) -> usize {
        self.lookup.len() + self.records.positions.len()
    }

    /// Reads it: pages first, then the records that they and the caller name. Damage at one place keeps none of the
    /// others from being read.
    pub(super) fn run<R: LogReader>(self, reader: &R) -> Result<FoundForIds, JournalError> {
        let (looked, pages_read) = if self.lookup.is_empty() { (Looked::default(), 0) } else { self.lookup.run() };
        let mut records = Records::new();
        for at in self.records.positions.iter().copied().chain(looked.positions()) {
            records.insert(at, self.records.read(at, reader)?);
        }
        Ok(FoundForIds { at_hand: AtHand { records, looked }, pages_read })
    }
}

/// What a job for the ids of a call found.
#[derive(Debug)]
pub struct FoundForIds {
    at_hand: AtHand,
    pages_read: u64,
}

/// Why a call is not served further now.
#[derive(Debug)]
pub(super) enum Halt {
    /// The shard stops.
    Stop(ShardError),
    /// A page or record must be read first; the item at hand was not touched.
    Unread,
    /// A record would have to be written and the disk is full; the item at hand was not touched.
    NoRoom,
    /// What the item needs is damaged, and it was not touched: it is refused.
    Damaged(&'static DamagedPlace),
}

impl Halt {
    /// For commands without an id, which need no record.
    pub fn into_stop(self) -> ShardError {
        match self {
            Halt::Stop(stop) => stop,
            Halt::Unread | Halt::NoRoom | Halt::Damaged(_) => {
                unreachable!("a command without an id needs no record, and room was asked for")
            }
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
    /// A candidate's record is not there, or pages were not read.
    Halt(Halt),
    /// The index cannot be read there.
    Ids(Arc<IdsError>),
}

impl From<Unsettled> for LookUp {
    fn from(unsettled: Unsettled) -> LookUp {
        match unsettled {
            Unsettled::PagesUnread => LookUp::Halt(Halt::Unread),
            Unsettled::PagesDamaged(error) => LookUp::Ids(error),
        }
    }
}

/// Results of reads, until they are taken.
#[derive(Debug, Default)]
pub(super) struct Reads {
    under_way: HashSet<JobId>,
    arrived: HashMap<JobId, Result<AtHand, JournalError>>,
}

impl Reads {
    /// Takes what a job found. Returns how many pages of the id index it read.
    pub fn fetched(&mut self, job: JobId, found: Result<FoundForIds, JournalError>) -> u64 {
        assert!(self.under_way.remove(&job) && !self.arrived.contains_key(&job), "a job comes back once");
        let pages_read = found.as_ref().map_or(0, |found| found.pages_read);
        self.arrived.insert(job, found.map(|found| found.at_hand));
        pages_read
    }

    /// What a job found; `None` while it is running.
    pub fn take(&mut self, job: JobId) -> Option<Result<AtHand, JournalError>> {
        self.arrived.remove(&job)
    }
}

impl RecordsJob {
    /// A read of the records at `positions` of `log`.
    pub(super) fn new(positions: Vec<Position>, log: LogId, damages: &Arc<Damages>) -> RecordsJob {
        RecordsJob { positions, log, damages: damages.clone(), only_here: false }
    }

    /// Reads the records, in the order asked. Damage at one place keeps none of the others from being read.
    pub(super) fn run<R: LogReader>(&self, reader: &R) -> Fetched {
        Fetched::Records(self.positions.iter().map(|at| self.read(*at, reader)).collect())
    }

    fn read<R: LogReader>(&self, at: Position, reader: &R) -> Result<Record, JournalError> {
        if self.only_here && !reader.is_here(at)? {
            return Ok(Err(archived()));
        }
        let mut record = Vec::new();
        match self.damages.read(reader, (LEDGER.name, self.log), at, &mut record) {
            Ok(()) if Event::decode(&record).is_ok() => Ok(Ok(record.into_boxed_slice())),
            // Its checksum is right, so it was written so.
            Ok(()) => Ok(Err(self.damages.note_record(LEDGER.name, self.log, at, "it is no event of a ledger"))),
            // Only the index names such a place, and an index that does so may name no other for the same id.
            Err(Unreadable::Damaged(place) | Unreadable::Nothing(place)) => Ok(Err(place)),
            Err(Unreadable::Failed(error)) => Err(error),
        }
    }
}

impl<D: Disk> LedgerService<D> {
    /// Begins to read.
    pub(super) fn start_read(&mut self, wanted: Wanted<D>, jobs: &mut Jobs<Self>) -> JobId {
        assert!(!wanted.is_empty(), "whoever met something unread finds it again");
        let job = jobs.start(Job::Ids(wanted));
        assert!(self.reads.under_way.insert(job), "a job is started once");
        job
    }

    /// What the rest of a call will look at and is neither in memory nor at hand. Notes in `progress` which of its ids
    /// need none of it.
    pub(super) fn unread_by<L: LogStore>(
        &self,
        turn: &LedgerTurn<'_, L>,
        call: &Operation,
        progress: &mut Progress,
    ) -> Wanted<D> {
        let (decided, nothing) = (progress.decided(), AtHand::default());
        let at_hand = progress.at_hand.as_deref().unwrap_or(&nothing);
        let mut new = NewIds::none(decided, self.ids.newest());
        let unread = self.look_for(turn, ids_of(call, decided), at_hand, |at| new.add(at));
        if matches!(call, Operation::Transfers { linked: false, .. }) {
            progress.new_ids = Some(Box::new(new));
        }
        if matches!(call, Operation::FindSeeds(_)) { unread.only_here() } else { unread }
    }

    /// What decisions on `ids` will look at and is neither in memory nor at hand: pages of the id index, and the record
    /// of each candidate; at most as many as one job reads.
    pub(super) fn unread<'i, L: LogStore>(
        &self,
        turn: &LedgerTurn<'_, L>,
        ids: impl Iterator<Item = &'i str>,
        at_hand: &AtHand,
    ) -> Wanted<D> {
        self.look_for(turn, ids, at_hand, |_| ())
    }

    /// As [`LedgerService::unread`]; tells which of the ids are new.
    fn look_for<'i, L: LogStore>(
        &self,
        turn: &LedgerTurn<'_, L>,
        ids: impl Iterator<Item = &'i str>,
        at_hand: &AtHand,
        mut is_new: impl FnMut(usize),
    ) -> Wanted<D> {
        let mut wanted =
            Wanted { lookup: self.ids.lookup(), records: RecordsJob::new(Vec::new(), self.log, &self.damages) };
        let mut ahead: VecDeque<(&str, IdHash)> = VecDeque::with_capacity(PREFETCH_AHEAD);
        let mut hashed = ids.map(|id| {
            let hash = self.ids.hash(id.as_bytes());
            self.ids.prefetch(hash);
            (id, hash)
        });
        ahead.extend(hashed.by_ref().take(PREFETCH_AHEAD));
        let mut count = 0;
        while let Some((id, hash)) = ahead.pop_front() {
            ahead.extend(hashed.next());
            match self.ids.is_new(hash) {
                true => is_new(count),
                false => self.add_unread(turn, (id, hash), at_hand, &mut wanted),
            }
            count += 1;
            if wanted.len() >= RECORDS_PER_JOB_MAX {
                break;
            }
        }
        wanted.records.positions.sort_unstable();
        wanted.records.positions.dedup();
        wanted
    }

    /// Those of the records at `positions` that are neither in memory nor at hand.
    pub(super) fn unread_records<L: LogStore>(
        &self,
        turn: &LedgerTurn<'_, L>,
        positions: impl Iterator<Item = Position>,
        at_hand: &AtHand,
    ) -> Wanted<D> {
        let is_unread = |at: &Position| turn.peek(*at).is_none() && !at_hand.records.contains_key(at);
        let mut positions: Vec<Position> = positions.filter(is_unread).collect();
        positions.sort_unstable();
        Wanted { lookup: self.ids.lookup(), records: RecordsJob::new(positions, self.log, &self.damages) }
    }

    fn add_unread<L: LogStore>(
        &self,
        turn: &LedgerTurn<'_, L>,
        (id, hash): (&str, IdHash),
        at_hand: &AtHand,
        wanted: &mut Wanted<D>,
    ) {
        let positions = &mut wanted.records.positions;
        let settled = self.ids.find_newest(hash, &at_hand.looked, |at| -> Result<bool, Unsettled> {
            let read = || at_hand.records.get(&at).map(|record| record.as_deref());
            match turn.peek(at).map(Ok).or_else(read) {
                Some(Ok(record)) => Ok(Event::decode(record).is_ok_and(|event| event.id() == Some(id))),
                // Nothing older can answer for it.
                Some(Err(_)) => Ok(true),
                None => {
                    positions.push(at);
                    Ok(false)
                }
            }
        });
        // An index that fails says so when the id is decided on.
        if let Err(Unsettled::PagesUnread) = settled {
            self.ids.look_for(hash, &mut wanted.lookup);
        }
    }
}

/// The ids that the items of a call name, from item `from` on; none for calls that are not about ids.
fn ids_of<'c>(call: &'c Operation, from: usize) -> Box<dyn Iterator<Item = &'c str> + 'c> {
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
        Operation::FindOwners(ids) | Operation::FindSeeds(ids) => Box::new(ids.iter().map(|id| &**id)),
        _ => Box::new(std::iter::empty()),
    }
}

#[cfg(test)]
mod tests;
