//! How calls to a shard of the ledger are served.
//!
//! ```text
//!   before  credits that other shards sent ─▶ decide
//!   serve   a call ─▶ ids: what does this id stand for? ─▶ decide ─▶ append ─▶ ids, announcer, counts
//!   after   holds whose time is over; credits asked for, confirmed, pulled; new figures
//! ```
//!
//! Promise: only `LedgerService::append` appends events, and it inserts every id that it journals into the id index.

mod batch;
mod change;
mod decide;
mod derived;
mod exchange;
mod expiry;
mod history;
mod linked;
mod open_holds;
mod output;
mod progress;
mod read;
mod records;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_disk::Disk;
use tidegate_journal::{
    Cursor, Durability, DurableMark, JournalError, LogId, LogReader, LogStore, NoRoom, Position, Sequence,
};
use tidegate_machines::ledger::{AccountOrder, EVENT_BYTES_MAX, Event, Ledger, Outcome, Refusal};
use tidegate_machines::{DamagedPlace, ShardIndex};
use tidegate_runtime::Damages;
use tidegate_runtime::damage::Owner;
use tidegate_shard::{Caller, JobId, Jobs, Pause, Room, Served, Service, Turn, Unavailable, Unsolicited};

use crate::announcer::{AnnounceRules, Announcer};
use crate::family::{LEDGER, LedgerFamily};
use crate::ids::{IdHash, IdIndex, IdsError};
use crate::limits::{
    ACCOUNTS_SORTED_AT_START, ACCOUNTS_SORTED_PER_STEP, DECISIONS_PER_STEP, ENDPOINT_REQUEST_BYTES_MAX,
    ENDPOINT_REQUESTS_MAX, OPENS_PER_STEP,
};
use crate::message::AuditReport;
use crate::operation::{Answer, Operation};

use derived::seconds;
use exchange::Exchange;
use expiry::Expiry;
use history::HistoryJob;
pub use history::HistoryRecords;
pub use output::{Note, Output, Ticket};
use records::{AtHand, Halt, Reads};
pub use records::{FoundForIds, Record, RecordsJob, Wanted};

/// Why a shard of the ledger stops for good.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// The journal failed or gave damaged bytes.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Another shard's credit cannot be applied, though its debit is decided: the two disagree on what an account is.
    #[error("credit {number} of shard {from} for account {account} cannot be applied: {code}")]
    CreditRefused {
        /// The debiting shard.
        from: ShardIndex,
        /// Its number.
        number: u64,
        /// Account to credit.
        account: Box<str>,
        /// Why, as a refusal's code.
        code: &'static str,
    },
    /// Another shard knows of credits between us that this shard's log does not have. Seen at a start, before anything
    /// is served; while a shard serves, only if the other one was exchanged meanwhile.
    #[error(
        "shard {peer} knows of credits up to {number}, and the log of this shard of credits up to {reached}: one of \
         the two logs was put back from an older copy, or has lost its end"
    )]
    PeerAhead {
        /// The other shard.
        peer: ShardIndex,
        /// The number that it names.
        number: u64,
        /// The last number here.
        reached: u64,
    },
}

/// A read that may wait for the disk.
#[derive(Debug)]
pub enum Job<D: Disk> {
    /// Rows of a history.
    History(HistoryJob),
    /// Pages of the id index, and the records that ids stand for.
    Ids(Wanted<D>),
    /// The records at these positions: debits whose credits another shard asked for.
    Records(RecordsJob),
}

/// What a [`Job`] found.
#[derive(Debug)]
pub enum Fetched {
    /// To `History`.
    History(HistoryRecords),
    /// To `Ids`.
    Ids(Result<FoundForIds, JournalError>),
    /// To `Records`: in the order asked.
    Records(Result<Vec<Record>, JournalError>),
}

/// What a shard of the ledger counted since it started, beside what all shards count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerFacts {
    /// Transfers, holds, posts and voids applied.
    pub applied: u64,
    /// Answered as duplicates.
    pub duplicates: u64,
    /// Refused.
    pub refused: u64,
}

/// What a shard of the ledger keeps beside its machine.
pub struct LedgerService<D: Disk> {
    index: ShardIndex,
    shard_count: u16,
    ids: IdIndex<D>,
    reads: Reads,
    /// Pages and records that were read for what is being decided.
    at_hand: AtHand,
    expiry: Expiry,
    exchange: Exchange,
    histories: HashMap<JobId, HistoryRecords>,
    order: AccountOrder,
    /// How far memory for accounts to come was asked for.
    pages_asked: u32,
    /// Accounts of batches that may still be opened in this step.
    opens_left: usize,
    /// Decisions of batches that may still be made in this step.
    decisions_left: usize,
    decisions_per_step: usize,
    /// Why what is served now may append no record: it gets what can be said without one.
    unwritable: Option<Unavailable>,
    announcer: Option<Announcer>,
    /// Where readers of changes look how far the log is durable.
    durable_mark: Option<Arc<DurableMark>>,
    last_audit: AuditReport,
    facts: LedgerFacts,
    refusals: BTreeMap<&'static str, u64>,
    scratch: Vec<u8>,
    log: LogId,
    damages: Arc<Damages>,
}

/// A turn of a shard of the ledger.
type LedgerTurn<'a, L> = Turn<'a, Ledger, L>;

impl<D: Disk> LedgerService<D> {
    /// The service of a recovered shard: `ledger` and `ids` hold everything that its log has up to `appended`, which is
    /// all that it has.
    pub fn new(ledger: &Ledger, ids: IdIndex<D>, appended: Sequence) -> LedgerService<D> {
        let (index, shard_count) = (ledger.shard(), ledger.shard_count());
        assert!(index.0 < shard_count, "a shard is one of all");
        // A list that is asked right after the start is answered, but for ledgers of many millions of accounts.
        let mut order = AccountOrder::default();
        order.catch_up(ledger, ACCOUNTS_SORTED_AT_START);
        LedgerService {
            index,
            shard_count,
            ids,
            reads: Reads::default(),
            at_hand: AtHand::default(),
            expiry: Expiry::default(),
            exchange: Exchange::new(ledger, appended),
            histories: HashMap::new(),
            order,
            pages_asked: 0,
            opens_left: OPENS_PER_STEP,
            decisions_left: DECISIONS_PER_STEP,
            decisions_per_step: DECISIONS_PER_STEP,
            unwritable: None,
            announcer: None,
            durable_mark: None,
            last_audit: AuditReport { shard: index.0, ..AuditReport::default() },
            facts: LedgerFacts::default(),
            refusals: BTreeMap::new(),
            scratch: Vec::new(),
            log: LogId { directory: 0, family: LEDGER.number, shard: index.0 },
            damages: Arc::default(),
        }
    }

    /// Ends a step after so many decisions on items of batches, in a world whose batches are small.
    pub fn set_decisions_per_step(&mut self, count: usize) {
        assert!(count > 0, "each step decides something");
        self.decisions_per_step = count;
    }

    /// Announces accounts that `rules` allow, once somebody wants them.
    pub fn announce(&mut self, rules: AnnounceRules) {
        self.announcer = Some(Announcer::new(rules));
    }

    /// Says in `mark`, from now on, how far the log is durable.
    pub fn show_durable(&mut self, mark: Arc<DurableMark>) {
        self.durable_mark = Some(mark);
    }

    /// Has `damages` told of everything damaged that is met from now on; `log` is the shard's.
    pub fn tell_damage_to(&mut self, damages: Arc<Damages>, log: LogId) {
        assert!(log.shard == self.index.0, "a shard has a log of its number");
        (self.damages, self.log) = (damages, log);
    }

    /// What was found damaged.
    pub fn damages(&self) -> &Arc<Damages> {
        &self.damages
    }

    /// The id index (facts).
    pub fn ids(&self) -> &IdIndex<D> {
        &self.ids
    }

    /// What was counted.
    pub fn facts(&self) -> LedgerFacts {
        self.facts
    }

    /// Refusals by code since the start.
    pub fn refusals(&self) -> &BTreeMap<&'static str, u64> {
        &self.refusals
    }

    /// What the auditor last reported.
    pub fn last_audit(&self) -> &AuditReport {
        &self.last_audit
    }

    /// Everything that a record changes beside the machine. The caller has asked for room.
    #[inline]
    fn append<L: LogStore>(&mut self, turn: &mut LedgerTurn<'_, L>, event: &Event<'_>, hash: Option<IdHash>) {
        let at = match turn.append(event) {
            Ok(at) => at,
            Err(NoRoom::Here | NoRoom::Ever) => unreachable!("room was asked for, and events have bounds"),
        };
        if let Some(announcer) = &mut self.announcer {
            announcer.note(event, turn.state());
        }
        if event.id().is_some() {
            let hash = hash.expect("an event with an id answers a command with that id");
            assert!(at.sequence.0 == turn.appended().0, "an id names the record that was just appended");
            self.ids.insert(hash, Position(at.position.0), seconds(event.time()));
        }
    }

    /// What to refuse those with whose ids cannot be looked up because of `error`. Told once for each place.
    fn ids_damaged(&self, error: &IdsError) -> &'static DamagedPlace {
        self.damages.note(Owner::Ids(self.log), self.index.0, error.place())
    }

    /// What of its index of ids is damaged.
    pub fn ids_damage(&self) -> Vec<&'static DamagedPlace> {
        self.damages.of(Owner::Ids(self.log))
    }

    /// Holds whose time is over and whose records are damaged, so that they stay.
    pub fn holds_stuck(&self) -> u64 {
        self.expiry.stuck()
    }

    /// Credits that other shards wait for and whose debits are damaged, by how many shards wait.
    pub fn credits_stuck(&self) -> u64 {
        self.exchange.stuck()
    }

    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Applied => self.facts.applied += 1,
            Outcome::Duplicate => self.facts.duplicates += 1,
            Outcome::Refused(refusal) | Outcome::RefusedBefore { refusal, .. } => {
                self.facts.refused += 1;
                *self.refusals.entry(refusal.code()).or_default() += 1;
            }
        }
    }

    /// Figures wait for the records that made them, like every other answer.
    fn announce_figures<L: LogStore>(&mut self, turn: &LedgerTurn<'_, L>, out: &mut Unsolicited<Self>) -> bool {
        let Some(announcer) = &mut self.announcer else { return false };
        let accounts = announcer.take(turn.now(), turn.state());
        if accounts.is_empty() {
            return announcer.is_behind(turn.state());
        }
        out.push(Ticket::Figures, Output::Figures(accounts));
        true
    }
}

impl<D: Disk> Service for LedgerService<D> {
    type Family = LedgerFamily;
    type Call = Operation;
    type Answer = Output;
    type Ticket = Ticket;
    type Note = Note;
    type Progress = progress::Progress;
    type Job = Job<D>;
    type Fetched = Fetched;
    type Stop = ShardError;

    // Endpoints have fewer requests in progress than this; their router bounds them.
    const CALLS_WAITING_MAX: usize = ENDPOINT_REQUESTS_MAX;
    const CALL_BYTES_WAITING_MAX: usize = ENDPOINT_REQUEST_BYTES_MAX;

    #[inline]
    fn weight(call: &Operation) -> usize {
        size_of::<Operation>() + call.text_bytes()
    }

    fn caller(_call: &Operation, ticket: &Ticket) -> Caller {
        match ticket {
            Ticket::Call { caller, .. } => *caller,
            Ticket::Credits { .. } | Ticket::Pull { .. } | Ticket::Figures => Caller::SERVER,
        }
    }

    fn work(call: &Operation) -> usize {
        call.items()
    }

    fn admit(&self, call: &Operation, is_stuck: bool) -> Result<progress::Progress, Unavailable> {
        match call.writes() {
            true if is_stuck => Err(Unavailable::DiskFull),
            // The index cannot write ids to its disk as fast as they come.
            true if self.ids.is_behind() => Ok(progress::Progress::of_what_is_known()),
            _ => Ok(progress::Progress::default()),
        }
    }

    fn note(&mut self, note: Note) {
        self.exchange.note(note);
    }

    fn is_idle(&self) -> bool {
        self.exchange.is_idle()
    }

    fn before<L: LogStore>(&mut self, turn: &mut LedgerTurn<'_, L>) -> Result<bool, ShardError> {
        self.opens_left = OPENS_PER_STEP;
        self.decisions_left = self.decisions_per_step;
        self.apply_received(turn)
    }

    #[inline]
    fn serve<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        call: &Operation,
        progress: &mut progress::Progress,
        jobs: &mut Jobs<Self>,
    ) -> Result<Served<Output>, ShardError> {
        if let Some(job) = progress.reading {
            let Some(records) = self.reads.take(job) else { return Ok(Served::Paused(Pause::Fetch(job))) };
            progress.reading = None;
            progress.at_hand.get_or_insert_default().extend(records?);
        }
        if call.writes() {
            if turn.state().is_outbound_full() {
                return Ok(Served::Paused(Pause::Room));
            }
            // A full group waits for the log. How long a disk stays full is unknown, and what is decided on a wrong
            // state is wrong for ever, so the client gets an error, unless nothing needs to be written for the answer:
            // a retry of what was done.
            self.unwritable = match turn.room(EVENT_BYTES_MAX) {
                Room::Available if self.last_audit.is_state_wrong() => Some(Unavailable::StateDiffers),
                Room::Available => progress.is_of_what_is_known().then_some(Unavailable::Busy),
                Room::NextGroup => return Ok(Served::Paused(Pause::Room)),
                Room::DiskFull => Some(Unavailable::DiskFull),
                Room::TooLarge => unreachable!("an empty group has room for an event"),
            }
        }
        assert!(self.at_hand.is_empty(), "one call after the other");
        if let Some(at_hand) = progress.at_hand.take() {
            self.at_hand = *at_hand;
        }
        let served = self.serve_call(turn, call, progress, jobs);
        let unwritable = self.unwritable.take();
        if !self.at_hand.is_empty() {
            progress.at_hand = Some(Box::new(std::mem::take(&mut self.at_hand)));
        }
        match served {
            Ok(served) => Ok(served),
            Err(Halt::Stop(stop)) => Err(stop),
            Err(Halt::NoRoom) => Ok(Served::TurnedAway(unwritable.expect("else there was room for a record"))),
            Err(Halt::Damaged(place)) => Ok(Served::Done(Output::Answer(Answer::Refused(Refusal::Damaged(place))))),
            Err(Halt::Unread) => {
                let (nothing, at_hand) = (AtHand::default(), progress.at_hand.as_deref());
                let at_hand = at_hand.unwrap_or(&nothing);
                let (unread, pause): (_, fn(JobId) -> Pause) = match call {
                    Operation::ListHolds { account, after, limit } => {
                        (self.unread_holds(turn, (account, *after, *limit), at_hand), Pause::Aside)
                    }
                    _ => (self.unread_by(turn, call, progress), Pause::Fetch),
                };
                let job = self.start_read(unread, jobs);
                progress.reading = Some(job);
                Ok(Served::Paused(pause(job)))
            }
        }
    }

    fn prepare<L: LogStore>(
        &mut self,
        turn: &LedgerTurn<'_, L>,
        call: &Operation,
        progress: &mut progress::Progress,
        jobs: &mut Jobs<Self>,
    ) {
        if progress.reading.is_some() {
            return;
        }
        let unread = self.unread_by(turn, call, progress);
        if !unread.is_empty() {
            progress.reading = Some(self.start_read(unread, jobs));
        }
    }

    fn after<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        out: &mut Unsolicited<Self>,
        jobs: &mut Jobs<Self>,
    ) -> Result<bool, ShardError> {
        self.expire_holds(turn, jobs)?;
        self.exchange_credits(turn, out, jobs)?;
        if let Some(pages) = turn.state().pages_ahead(&mut self.pages_asked) {
            self.ids.touch(pages);
        }
        let unsorted = self.order.catch_up(turn.state(), ACCOUNTS_SORTED_PER_STEP);
        let has_more = unsorted > 0 || self.opens_left == 0 || self.decisions_left == 0;
        Ok(self.announce_figures(turn, out) || has_more)
    }

    fn fetched(&mut self, job: JobId, found: Fetched) {
        match found {
            Fetched::History(records) => {
                assert!(self.histories.insert(job, records).is_none(), "a job comes back once")
            }
            Fetched::Ids(found) => {
                let pages = self.reads.fetched(job, found);
                self.ids.note_pages_read(pages);
            }
            Fetched::Records(records) => self.exchange.fetched(job, records),
        }
    }

    fn durable(&mut self, up_to: &Durability) -> Result<(), ShardError> {
        if let Some(mark) = &self.durable_mark {
            mark.advance(up_to);
        }
        // The index goes on with what it has: look-ups that need what is damaged are refused, one by one.
        // A place without its chain hash could not be told from one of another history; none is newer than what it has.
        if let Err(error) = self.ids.maintain(up_to.cursor().unwrap_or(Cursor::START)) {
            self.ids_damaged(&error);
        }
        Ok(())
    }

    fn run<Reader: LogReader>(job: Job<D>, reader: &Reader) -> Fetched {
        match job {
            Job::History(job) => Fetched::History(job.run(reader)),
            Job::Ids(wanted) => Fetched::Ids(wanted.run(reader)),
            Job::Records(job) => job.run(reader),
        }
    }
}

/// Whether another record may be appended now.
#[inline]
fn may_append<L: LogStore>(turn: &LedgerTurn<'_, L>) -> bool {
    turn.room(EVENT_BYTES_MAX) == Room::Available
}
