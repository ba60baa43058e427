//! How calls to a shard of the ledger are served.
//!
//! ```text
//!   before  credits that other shards sent ─▶ decide
//!   serve   a call ─▶ ids: what does this id stand for? ─▶ decide ─▶ append ─▶ ids, announcer, counts
//!   after   holds whose time is over; credits asked for, confirmed, pulled; new figures
//! ```
//!
//! Promise: only `LedgerService::append` appends events, and it inserts every id that it journals into the id index.

mod decide;
mod exchange;
mod history;
mod read;
mod records;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use tidegate_disk::Disk;
use tidegate_journal::{Durability, JournalError, LogReader, LogStore, NoRoom, Position, Sequence};
use tidegate_machines::ledger::{AccountView, Command, EVENT_BYTES_MAX, Event, Ledger, Outcome};
use tidegate_machines::{Machine, OutboundNumber, Place, ShardIndex, TimeMs};
use tidegate_planted::{Bug, is_planted};
use tidegate_runtime::Address;
use tidegate_shard::{Derived, JobId, Jobs, Pause, Room, Served, Service, Turn, Unavailable, Unsolicited};

use crate::announcer::{AnnounceRules, Announcer};
use crate::family::LedgerFamily;
use crate::ids::{IdHash, IdIndex, IdsError};
use crate::limits::{ENDPOINT_REQUEST_BYTES_MAX, ENDPOINT_REQUESTS_MAX, EXPIRIES_PER_STEP};
use crate::message::AuditReport;
use crate::operation::{Answer, Credit, Operation};

use exchange::Exchange;
use history::HistoryJob;
pub use history::HistoryRecords;
use records::{AtHand, FoundForIds, Halt, Reads, Wanted, ids_of};

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
    /// The id index failed, so no id can be told to be new.
    #[error(transparent)]
    Ids(#[from] IdsError),
}

/// What leaves a shard of the ledger, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// The answer to a call.
    Call {
        /// The caller.
        from: Address,
        /// The asker's own number for it.
        ticket: u64,
    },
    /// Credits for another shard.
    Credits {
        /// The crediting shard.
        to: ShardIndex,
    },
    /// A question to another shard for its credits.
    Pull {
        /// The debiting shard.
        from: ShardIndex,
    },
    /// New balances, for the announcer.
    Figures,
}

/// What leaves with a [`Ticket`] of the same name.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// The answer.
    Answer(Answer),
    /// The credits, in order of their numbers.
    Credits(Vec<Credit>),
    /// The watermark: all credits up to this number are applied here.
    Watermark(OutboundNumber),
    /// The figures.
    Figures(Vec<AccountView>),
}

impl Output {
    pub(crate) fn into_answer(self) -> Answer {
        match self {
            Output::Answer(answer) => answer,
            other => unreachable!("{other:?} leaves with a call's ticket"),
        }
    }

    pub(crate) fn into_credits(self) -> Vec<Credit> {
        match self {
            Output::Credits(credits) => credits,
            other => unreachable!("{other:?} leaves as credits"),
        }
    }

    pub(crate) fn into_watermark(self) -> OutboundNumber {
        match self {
            Output::Watermark(number) => number,
            other => unreachable!("{other:?} leaves as a pull"),
        }
    }

    pub(crate) fn into_figures(self) -> Vec<AccountView> {
        match self {
            Output::Figures(figures) => figures,
            other => unreachable!("{other:?} leaves as figures"),
        }
    }
}

/// Messages of other shards to this one. They are not answered.
#[derive(Clone, Debug)]
pub enum Note {
    /// `by` has durably applied our credits up to `after` and wants those beyond.
    Pull {
        /// The crediting shard.
        by: ShardIndex,
        /// Its watermark.
        after: OutboundNumber,
    },
    /// Credits of `from`.
    Credits {
        /// The debiting shard.
        from: ShardIndex,
        /// In order of their numbers.
        credits: Vec<Credit>,
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
    Records(Vec<Position>),
}

/// What a [`Job`] found.
#[derive(Debug)]
pub enum Fetched {
    /// To `History`.
    History(HistoryRecords),
    /// To `Ids`.
    Ids(Result<FoundForIds, ShardError>),
    /// To `Records`: in the order asked.
    Records(Result<Vec<Box<[u8]>>, JournalError>),
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
    announcer: Option<Announcer>,
    last_audit: AuditReport,
    facts: LedgerFacts,
    refusals: BTreeMap<&'static str, u64>,
    scratch: Vec<u8>,
}

/// The holds whose time is over: what was read for them, and the read of more.
#[derive(Debug, Default)]
struct Expiry {
    reading: Option<JobId>,
    at_hand: AtHand,
}

/// A turn of a shard of the ledger.
type LedgerTurn<'a, L> = Turn<'a, Ledger, L>;

impl<D: Disk> LedgerService<D> {
    /// The service of a recovered shard: `ledger` and `ids` hold everything that its log has up to `appended`, which is
    /// all that it has.
    pub fn new(ledger: &Ledger, ids: IdIndex<D>, appended: Sequence) -> LedgerService<D> {
        let (index, shard_count) = (ledger.shard(), ledger.shard_count());
        assert!(index.0 < shard_count, "a shard is one of all");
        LedgerService {
            index,
            shard_count,
            ids,
            reads: Reads::default(),
            at_hand: AtHand::default(),
            expiry: Expiry::default(),
            exchange: Exchange::new(ledger, appended),
            histories: HashMap::new(),
            announcer: None,
            last_audit: AuditReport { shard: index.0, ..AuditReport::default() },
            facts: LedgerFacts::default(),
            refusals: BTreeMap::new(),
            scratch: Vec::new(),
        }
    }

    /// Announces accounts from now on, beginning with all that match.
    pub fn announce(&mut self, rules: AnnounceRules, ledger: &Ledger) {
        self.announcer = Some(Announcer::new(rules, ledger));
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

    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Applied => self.facts.applied += 1,
            Outcome::Duplicate => self.facts.duplicates += 1,
            Outcome::Refused(refusal) => {
                self.facts.refused += 1;
                *self.refusals.entry(refusal.code()).or_default() += 1;
            }
        }
    }

    fn expire_holds<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        jobs: &mut Jobs<Self>,
    ) -> Result<(), ShardError> {
        if let Some(job) = self.expiry.reading {
            let Some(records) = self.reads.take(job) else { return Ok(()) };
            self.expiry = Expiry { reading: None, at_hand: records? };
        }
        assert!(self.at_hand.is_empty(), "one call after the other");
        self.at_hand = std::mem::take(&mut self.expiry.at_hand);
        let expired = self.expire_some(turn);
        let at_hand = std::mem::take(&mut self.at_hand);
        match expired {
            Ok(()) => Ok(()),
            Err(Halt::Stop(stop)) => Err(stop),
            Err(Halt::Unread) => {
                let holds = turn.state().expired_holds(turn.now()).take(EXPIRIES_PER_STEP);
                let unread = self.unread(turn, holds, &at_hand);
                self.expiry = Expiry { reading: Some(self.start_read(unread, jobs)), at_hand };
                Ok(())
            }
        }
    }

    fn expire_some<L: LogStore>(&mut self, turn: &mut LedgerTurn<'_, L>) -> Result<(), Halt> {
        for _ in 0..EXPIRIES_PER_STEP {
            let Some(id) = turn.state().expired_holds(turn.now()).next().map(Box::<str>::from) else { return Ok(()) };
            if !may_append(turn) || is_planted(Bug::HoldNotReleased) {
                return Ok(());
            }
            self.decide_one(turn, &Command::ExpireHold { id: &id }, Some(&id))?;
        }
        Ok(())
    }

    /// Figures wait for the records that made them, like every other answer.
    fn announce_figures<L: LogStore>(&mut self, turn: &LedgerTurn<'_, L>, out: &mut Unsolicited<Self>) -> bool {
        let Some(announcer) = &mut self.announcer else { return false };
        let accounts = announcer.take(turn.now(), turn.state());
        if accounts.is_empty() {
            return false;
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
    type Progress = decide::Progress;
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

    fn admit(&self, call: &Operation, disk_full: bool) -> Result<(), Unavailable> {
        match call.writes() {
            true if self.ids.is_behind() => Err(Unavailable::Busy),
            true if disk_full => Err(Unavailable::DiskFull),
            _ => Ok(()),
        }
    }

    fn note(&mut self, note: Note) {
        self.exchange.note(note);
    }

    fn is_idle(&self) -> bool {
        self.exchange.is_idle()
    }

    fn before<L: LogStore>(&mut self, turn: &mut LedgerTurn<'_, L>) -> Result<bool, ShardError> {
        self.apply_received(turn)
    }

    #[inline]
    fn serve<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        call: &Operation,
        progress: &mut decide::Progress,
        jobs: &mut Jobs<Self>,
    ) -> Result<Served<Output>, ShardError> {
        if let Some(job) = progress.reading {
            let Some(records) = self.reads.take(job) else { return Ok(Served::Paused(Pause::Fetch(job))) };
            progress.reading = None;
            progress.at_hand.extend(records?);
        }
        if call.writes() {
            if turn.state().is_outbound_full() {
                return Ok(Served::Paused(Pause::Room));
            }
            // A full group waits for the log. How long a disk stays full is unknown, so the client gets an error.
            match turn.room(EVENT_BYTES_MAX) {
                Room::Available => {}
                Room::NextGroup => return Ok(Served::Paused(Pause::Room)),
                Room::DiskFull => return Ok(Served::TurnedAway(Unavailable::DiskFull)),
                Room::TooLarge => unreachable!("an empty group has room for an event"),
            }
        }
        assert!(self.at_hand.is_empty(), "one call after the other");
        self.at_hand = std::mem::take(&mut progress.at_hand);
        let served = self.serve_call(turn, call, progress, jobs);
        progress.at_hand = std::mem::take(&mut self.at_hand);
        match served {
            Ok(served) => Ok(served),
            Err(Halt::Stop(stop)) => Err(stop),
            Err(Halt::Unread) => {
                let unread = self.unread(turn, ids_of(call, progress.decided()), &progress.at_hand);
                let job = self.start_read(unread, jobs);
                progress.reading = Some(job);
                Ok(Served::Paused(Pause::Fetch(job)))
            }
        }
    }

    fn prepare<L: LogStore>(
        &mut self,
        turn: &LedgerTurn<'_, L>,
        call: &Operation,
        progress: &mut decide::Progress,
        jobs: &mut Jobs<Self>,
    ) {
        if progress.reading.is_some() {
            return;
        }
        let unread = self.unread(turn, ids_of(call, progress.decided()), &progress.at_hand);
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
        Ok(self.announce_figures(turn, out))
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
        Ok(self.ids.maintain(up_to.position())?)
    }

    fn run<Reader: LogReader>(job: Job<D>, reader: &Reader) -> Fetched {
        match job {
            Job::History(job) => Fetched::History(job.run(reader)),
            Job::Ids(wanted) => Fetched::Ids(wanted.read(reader)),
            Job::Records(positions) => records::run(&positions, reader),
        }
    }
}

/// Whether another record may be appended now.
#[inline]
fn may_append<L: LogStore>(turn: &LedgerTurn<'_, L>) -> bool {
    turn.room(EVENT_BYTES_MAX) == Room::Available
}

/// Whole seconds, as the id index takes them.
#[inline]
fn seconds(time: TimeMs) -> u32 {
    u32::try_from(time.0 / 1000).unwrap_or(u32::MAX)
}

/// The id index is made from the ledger's records.
impl<D: Disk> Derived<Ledger> for IdIndex<D> {
    type Error = IdsError;

    fn covered(&self) -> Position {
        IdIndex::covered(self)
    }

    #[inline]
    fn note(&mut self, event: &<Ledger as Machine>::Event<'_>, at: Place) {
        let position = Position(at.position.0);
        if position > IdIndex::covered(self)
            && !is_planted(Bug::IdsLostOverRestart)
            && let Some(id) = event.id()
        {
            self.insert(self.hash(id.as_bytes()), position, seconds(event.time()));
        }
    }

    fn catch_up(&mut self, reached: Position) -> Result<(), IdsError> {
        IdIndex::catch_up(self, reached)
    }
}
