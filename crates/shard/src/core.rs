//! A shard: decides what is asked of it, appends what it decided, and answers when that is durable.
//!
//! ```text
//!   Call ─▶ inbox ─▶ decide ─▶ append to the filling group ─▶ apply ─▶ answer waits in the CommitQueue
//!                                     │ submit, when the log is ready            │
//!                                     ▼                                          ▼
//!                               one group syncs, the next one fills      durable: answer leaves
//! ```
//!
//! Promise: nothing leaves that a crash could take back. State runs ahead of the disk by at most the groups in flight, and all
//! that was computed from it waits for them.
//!
//! Invariant: no thread, clock or socket here; a worker steps it with the time of its loop, the simulator with its own.

mod decide;
mod read;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tidegate_journal::disk::Disk;
use tidegate_journal::{JournalError, LogStore, NotReady, Sequence};
use tidegate_machines::ledger::{AccountView, Command, EVENT_BYTES_MAX, Ledger, Outcome};
use tidegate_machines::{OutboundNumber, ShardIndex, TimeMs};

use crate::announcer::{AnnounceRules, Announcer};
use crate::commit::CommitQueue;
use crate::ids::{IdIndex, IdsError};
use crate::limits::{CREDITS_PER_PULL_MAX, EXPIRIES_PER_STEP, PULL_RETRY_MS};
use crate::log_writer::LogWriter;
use crate::message::{AuditReport, Unavailable};
use crate::operation::{Answer, Credit, EndpointIndex, Message, Operation};
use crate::planted::{Bug, is_planted};

/// Where messages go that a shard or a router sends: a worker moves them to rings, the simulator to its queue of delays.
pub type Outgoing = Vec<(EndpointIndex, Message)>;

/// Who hears [`Message::Figures`] of all shards: one worker, because the parts of a collector are added up there.
const ANNOUNCING_WORKER: EndpointIndex = EndpointIndex(0);

/// Why a shard stops for good.
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

/// Who is waiting for an answer.
#[derive(Clone, Copy, Debug)]
struct Caller {
    from: EndpointIndex,
    ticket: u64,
}

/// What waits for its records to be durable.
#[derive(Debug)]
enum Departure {
    Answer(Caller, Answer),
    Credits { to: ShardIndex, credits: Vec<Credit> },
    Figures(Vec<AccountView>),
}

impl Departure {
    fn into_answer(self) -> Answer {
        match self {
            Departure::Answer(_, answer) => answer,
            Departure::Credits { .. } | Departure::Figures(_) => unreachable!("asked of an answer only"),
        }
    }

    fn into_credits(self) -> Vec<Credit> {
        match self {
            Departure::Credits { credits, .. } => credits,
            Departure::Answer(..) | Departure::Figures(_) => unreachable!("asked of credits only"),
        }
    }

    fn into_figures(self) -> Vec<AccountView> {
        match self {
            Departure::Figures(accounts) => accounts,
            Departure::Answer(..) | Departure::Credits { .. } => unreachable!("asked of figures only"),
        }
    }
}

/// A call under way: decided up to `done`, because a group was full or a history is read in steps.
#[derive(Debug)]
struct Work {
    caller: Caller,
    operation: Operation,
    progress: decide::Progress,
}

/// What a shard counted since it started; the gateway turns it into metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShardFacts {
    /// Records appended.
    pub records: u64,
    /// Groups submitted.
    pub groups: u64,
    /// Transfers, holds, posts and voids applied.
    pub applied: u64,
    /// Answered as duplicates.
    pub duplicates: u64,
    /// Refused.
    pub refused: u64,
    /// Calls refused as unavailable.
    pub unavailable: u64,
    /// Calls waiting in the inbox now.
    pub inbox: u64,
    /// Answers waiting for durability now.
    pub waiting: u64,
}

/// One shard: its machine, its id index, its log, and what waits between them.
pub struct Shard<D: Disk, L: LogStore> {
    index: ShardIndex,
    shard_count: u16,
    /// Endpoint of the worker that owns each shard: where pulls and credits go.
    workers: u16,
    ledger: Ledger,
    ids: IdIndex<D>,
    writer: LogWriter<L>,
    inbox: VecDeque<Work>,
    received: VecDeque<(ShardIndex, Vec<Credit>)>,
    reading: VecDeque<Work>,
    commits: CommitQueue<Departure>,
    pulls: Vec<PullState>,
    announcer: Option<Announcer>,
    last_audit: AuditReport,
    facts: ShardFacts,
    refusals: BTreeMap<&'static str, u64>,
    scratch: Vec<u8>,
    failed: Option<Arc<ShardError>>,
}

/// The two sides of credits between this shard and one other.
#[derive(Clone, Copy, Debug, Default)]
struct PullState {
    /// The other asked for credits after this number and was not answered yet.
    asked_after: Option<OutboundNumber>,
    /// Confirmation to journal: the other has durably applied up to here.
    confirmed: OutboundNumber,
    /// When we last asked the other and got no answer yet; a question that got lost is asked again.
    pulled_at: Option<TimeMs>,
    /// Credits of the other up to this number are applied, durably once the journal is durable up to this sequence.
    applied: (Sequence, OutboundNumber),
}

impl<D: Disk, L: LogStore> Shard<D, L> {
    /// A shard over recovered state: `ledger` and `ids` hold everything that `log` has. `workers` is how many workers own
    /// shards, shard n by worker n modulo `workers`.
    pub fn new(
        index: ShardIndex,
        shard_count: u16,
        workers: u16,
        ledger: Ledger,
        ids: IdIndex<D>,
        log: L,
    ) -> Shard<D, L> {
        let writer = LogWriter::new(log);
        let appended = writer.appended();
        let pulls = (0..shard_count)
            .map(|other| PullState { applied: (appended, ledger.watermark(ShardIndex(other))), ..PullState::default() })
            .collect();
        Shard {
            index,
            shard_count,
            workers,
            ledger,
            ids,
            writer,
            inbox: VecDeque::new(),
            received: VecDeque::new(),
            reading: VecDeque::new(),
            commits: CommitQueue::new(appended),
            pulls,
            announcer: None,
            last_audit: AuditReport { shard: index.0, ..AuditReport::default() },
            facts: ShardFacts::default(),
            refusals: BTreeMap::new(),
            scratch: Vec::new(),
            failed: None,
        }
    }

    /// Announces accounts from now on, beginning with all that match: see [`Message::Figures`].
    pub fn announce(&mut self, rules: AnnounceRules) {
        self.announcer = Some(Announcer::new(rules, &self.ledger));
    }

    /// Takes a call. It is answered through `out` of a later [`Shard::step`], or at once when it cannot be served.
    pub fn call(&mut self, from: EndpointIndex, ticket: u64, operation: Operation, out: &mut Outgoing) {
        let caller = Caller { from, ticket };
        if let Some(reason) = self.refuses_at_the_door(&operation) {
            return self.turn_away(caller, reason, out);
        }
        self.inbox.push_back(Work { caller, operation, progress: decide::Progress::default() });
    }

    /// Another shard has applied our credits up to `after` and wants those beyond.
    pub fn pulled(&mut self, by: ShardIndex, after: OutboundNumber) {
        let pull = &mut self.pulls[by.0 as usize];
        pull.asked_after = Some(after);
        let confirmed = match is_planted(Bug::WatermarkOffByOne) {
            true => OutboundNumber(after.0 + 1).min(self.ledger.outbound_last(by)),
            false => after,
        };
        pull.confirmed = pull.confirmed.max(confirmed);
    }

    /// Credits from another shard; they are applied, in order, by the next [`Shard::step`].
    pub fn receive(&mut self, from: ShardIndex, credits: Vec<Credit>) {
        self.received.push_back((from, credits));
    }

    fn apply_received(&mut self, now: TimeMs) -> Result<bool, ShardError> {
        let mut worked = false;
        while let Some((from, credits)) = self.received.pop_front() {
            worked = true;
            for credit in &credits {
                // With a full group or disk the rest is dropped here and pulled again.
                if !self.may_append() {
                    break;
                }
                if let Outcome::Refused(refusal) = self.decide_one(&credit.command(from), None, now)? {
                    let (number, account) = (credit.number.0, credit.credit.clone());
                    return Err(ShardError::CreditRefused { from, number, account, code: refusal.code() });
                }
            }
            let pull = &mut self.pulls[from.0 as usize];
            pull.pulled_at = None;
            pull.applied = (self.writer.appended(), self.ledger.watermark(from));
        }
        Ok(worked)
    }

    /// Does what can be done now: serves the inbox, submits a group, releases what became durable. Returns whether anything
    /// happened. A journal failure stops the shard for good: all that waits is told so, and nothing is answered any more.
    pub fn step(&mut self, now: TimeMs, out: &mut Outgoing) -> bool {
        if self.failed.is_some() {
            return false;
        }
        match self.try_step(now, out) {
            Ok(worked) => worked,
            Err(error) => {
                self.fail(error, out);
                true
            }
        }
    }

    fn try_step(&mut self, now: TimeMs, out: &mut Outgoing) -> Result<bool, ShardError> {
        let released_before = self.release(out)?;
        let mut worked = self.apply_received(now)?;
        worked |= self.serve_inbox(now, out)?;
        worked |= self.serve_reading()?;
        self.expire_holds(now)?;
        self.exchange_credits(now, out)?;
        worked |= self.announce_figures(now);
        worked |= self.writer.submit()?;
        let released = self.release(out)?;
        self.ids.maintain(self.writer.durable().position())?;
        Ok(worked || released || released_before)
    }

    /// Stops for good. What waits is told that nobody knows: its records may or may not be on the disk.
    fn fail(&mut self, error: ShardError, out: &mut Outgoing) {
        self.failed = Some(Arc::new(error));
        let waiting: Vec<Caller> = self
            .commits
            .abandon()
            .filter_map(|departure| match departure {
                Departure::Answer(caller, _) => Some(caller),
                Departure::Credits { .. } | Departure::Figures(_) => None,
            })
            .collect();
        let undone: Vec<Caller> = self.inbox.drain(..).chain(self.reading.drain(..)).map(|work| work.caller).collect();
        for caller in waiting.into_iter().chain(undone) {
            self.turn_away(caller, Unavailable::ShardFailed, out);
        }
    }

    fn refuses_at_the_door(&self, operation: &Operation) -> Option<Unavailable> {
        if self.failed.is_some() {
            return Some(Unavailable::ShardFailed);
        }
        if self.ids.is_behind() && operation.writes() {
            return Some(Unavailable::Busy);
        }
        match self.writer.log().ready() {
            Err(NotReady::Failed(_)) => Some(Unavailable::ShardFailed),
            Err(NotReady::DiskFull) if operation.writes() => Some(Unavailable::DiskFull),
            _ => None,
        }
    }

    fn turn_away(&mut self, caller: Caller, reason: Unavailable, out: &mut Outgoing) {
        self.facts.unavailable += 1;
        out.push((caller.from, Message::Answer { ticket: caller.ticket, shard: self.index, answer: Err(reason) }));
    }

    fn release(&mut self, out: &mut Outgoing) -> Result<bool, ShardError> {
        self.commits.advance(self.writer.poll_durable()?);
        let mut released = false;
        while let Some(departure) = self.commits.release() {
            released = true;
            out.push(match *departure.get() {
                Departure::Answer(Caller { from, ticket }, _) => {
                    let answer = Ok(departure.map(Departure::into_answer));
                    (from, Message::Answer { ticket, shard: self.index, answer })
                }
                Departure::Credits { to, .. } => {
                    let credits = departure.map(Departure::into_credits);
                    (self.worker_of(to), Message::Credits { shard: to, from: self.index, credits })
                }
                Departure::Figures(_) => {
                    let accounts = departure.map(Departure::into_figures);
                    (ANNOUNCING_WORKER, Message::Figures { shard: self.index, accounts })
                }
            });
        }
        Ok(released)
    }

    /// Figures wait for the records that made them, like every other answer.
    fn announce_figures(&mut self, now: TimeMs) -> bool {
        let Some(announcer) = &mut self.announcer else { return false };
        let accounts = announcer.take(now, &self.ledger);
        if accounts.is_empty() {
            return false;
        }
        self.commits.wait_for(self.writer.appended(), Departure::Figures(accounts));
        true
    }

    fn worker_of(&self, shard: ShardIndex) -> EndpointIndex {
        EndpointIndex(shard.0 % self.workers)
    }

    fn expire_holds(&mut self, now: TimeMs) -> Result<(), ShardError> {
        for _ in 0..EXPIRIES_PER_STEP {
            let Some(id) = self.ledger.expired_hold(now).map(Box::<str>::from) else { return Ok(()) };
            if !self.may_append() || is_planted(Bug::HoldNotReleased) {
                return Ok(());
            }
            self.decide_one(&Command::ExpireHold { id: &id }, Some(&id), now)?;
        }
        Ok(())
    }

    /// Both directions of credits between shards: hand out what others asked for, journal what they confirmed, ask for more.
    fn exchange_credits(&mut self, now: TimeMs, out: &mut Outgoing) -> Result<(), ShardError> {
        if self.shard_count == 1 {
            return Ok(());
        }
        for other in (0..self.shard_count).map(ShardIndex) {
            if other == self.index {
                continue;
            }
            self.hand_out_credits(other)?;
            self.journal_confirmation(other, now)?;
            self.pull_credits(other, now, out);
        }
        Ok(())
    }

    fn hand_out_credits(&mut self, to: ShardIndex) -> Result<(), ShardError> {
        let Some(after) = self.pulls[to.0 as usize].asked_after else { return Ok(()) };
        let credits = self.outbound_credits(to, after, CREDITS_PER_PULL_MAX)?;
        if credits.is_empty() {
            return Ok(());
        }
        self.pulls[to.0 as usize].asked_after = None;
        self.commits.wait_for(self.writer.appended(), Departure::Credits { to, credits });
        Ok(())
    }

    fn journal_confirmation(&mut self, to: ShardIndex, now: TimeMs) -> Result<(), ShardError> {
        let confirmed = self.pulls[to.0 as usize].confirmed;
        if confirmed <= self.ledger.outbound_confirmed(to) || !self.may_append() {
            return Ok(());
        }
        self.decide_one(&Command::ConfirmCredits { to, number: confirmed }, None, now)?;
        Ok(())
    }

    /// Asks `from` for credits after our watermark once that is durable, and again when the question seems lost.
    fn pull_credits(&mut self, from: ShardIndex, now: TimeMs, out: &mut Outgoing) {
        let pull = &mut self.pulls[from.0 as usize];
        let (sequence, watermark) = pull.applied;
        let unanswered = pull.pulled_at.is_some_and(|at| now.0.abs_diff(at.0) < PULL_RETRY_MS);
        if unanswered || sequence > self.commits.durable() {
            return;
        }
        pull.pulled_at = Some(now);
        out.push((self.worker_of(from), Message::Pull { shard: from, by: self.index, after: watermark }));
    }

    /// Whether another record may be appended now.
    fn may_append(&self) -> bool {
        self.writer.may_append(EVENT_BYTES_MAX)
    }

    /// Whether the log became durable further since the last step. A worker asks this after it announced sleep: news that came
    /// before the announcement wake nobody.
    pub fn has_news(&self) -> bool {
        self.failed.is_none() && self.writer.log().has_news()
    }

    /// Which shard this is.
    pub fn index(&self) -> ShardIndex {
        self.index
    }

    /// The machine's state, ahead of the disk by the groups in flight (tests, facts, the final check of the simulator).
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The machine's state for planted faults.
    #[cfg(feature = "fault-injection")]
    pub fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// The id index (facts).
    pub fn ids(&self) -> &IdIndex<D> {
        &self.ids
    }

    /// The log (facts; the simulator steps it).
    pub fn log_mut(&mut self) -> &mut L {
        self.writer.log_mut()
    }

    /// Why the shard stopped, if it did.
    pub fn failure(&self) -> Option<&Arc<ShardError>> {
        self.failed.as_ref()
    }

    /// Whether everything accepted was decided, synced and answered.
    pub fn is_idle(&self) -> bool {
        self.failed.is_some()
            || (self.inbox.is_empty()
                && self.received.is_empty()
                && self.reading.is_empty()
                && self.writer.group().is_empty()
                && self.commits.is_empty())
    }

    /// What was counted.
    pub fn facts(&self) -> ShardFacts {
        ShardFacts {
            groups: self.writer.groups(),
            inbox: self.inbox.len() as u64,
            waiting: self.commits.len() as u64,
            ..self.facts
        }
    }

    /// Refusals by code since the start.
    pub fn refusals(&self) -> &BTreeMap<&'static str, u64> {
        &self.refusals
    }

    /// What the auditor last reported.
    pub fn last_audit(&self) -> &AuditReport {
        &self.last_audit
    }

    /// Sequence of the last record appended.
    pub fn appended(&self) -> Sequence {
        self.writer.appended()
    }

    /// Gives the log back, to close it; what waits unanswered is dropped.
    pub fn into_log(self) -> L {
        self.writer.into_log()
    }
}
