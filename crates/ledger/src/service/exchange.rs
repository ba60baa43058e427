//! Credits between shards: the debit's shard decides, the credit's shard applies.
//!
//! ```text
//!   shard A (debit)                          shard B (credit)
//!                        ◀── Pull(after 6) ─   watermark 6, durable: the pull is the acknowledgement
//!   confirms 6, reads 7..9 ── Credits ──────▶  takes the next number and no other; journals each
//! ```

use std::collections::VecDeque;

use hashbrown::HashMap;
use tidegate_disk::Disk;
use tidegate_journal::{JournalError, LogStore, Position, Sequence};
use tidegate_machines::ledger::{Command, Event, Ledger, Outcome};
use tidegate_machines::{OutboundNumber, ShardIndex, TimeMs};
use tidegate_planted::{Bug, is_planted};
use tidegate_shard::{JobId, Jobs, Unsolicited};

use super::records::{Halt, Record, Records, RecordsJob};
use super::{Job, LedgerService, LedgerTurn, Note, Output, ShardError, Ticket, may_append};
use crate::limits::{CREDITS_PER_PULL_MAX, DAMAGE_RETRY_MS, PULL_RETRY_MS};
use crate::operation::Credit;

/// The two sides of credits between this shard and one other.
#[derive(Debug, Default)]
struct Peer {
    /// The other asked for credits after this number and was not answered yet.
    asked_after: Option<OutboundNumber>,
    /// The job that reads the debits of these credits.
    reading: Option<JobId>,
    /// Records that it read.
    records: Records,
    /// The debit of the next credit is damaged, and when that was found. The other must not lose or pass over it, so
    /// it waits, and the read is tried again from time to time.
    stuck_at: Option<TimeMs>,
    /// The other has durably applied up to here; noted, perhaps not journaled yet.
    confirmed: OutboundNumber,
    /// When we last asked the other and got no answer yet; a question that got lost is asked again.
    pulled_at: Option<TimeMs>,
    /// Credits of the other up to this number are applied, durably once the log is durable up to this sequence.
    applied: (Sequence, OutboundNumber),
}

/// A read of debits, by job: for whom, and which.
type Reading = (ShardIndex, Vec<Position>);

/// Credits in progress between this shard and the others.
#[derive(Debug)]
pub(super) struct Exchange {
    peers: Vec<Peer>,
    received: VecDeque<(ShardIndex, Vec<Credit>)>,
    readings: HashMap<JobId, Reading>,
    failed: Option<JournalError>,
}

impl Exchange {
    pub fn new(ledger: &Ledger, appended: Sequence) -> Exchange {
        let peer = |other| Peer { applied: (appended, ledger.watermark(ShardIndex(other))), ..Peer::default() };
        Exchange {
            peers: (0..ledger.shard_count()).map(peer).collect(),
            received: VecDeque::new(),
            readings: HashMap::new(),
            failed: None,
        }
    }

    pub fn note(&mut self, note: Note) {
        match note {
            Note::Pull { by, after } => {
                assert!(usize::from(by.0) < self.peers.len(), "a shard that there is asks");
                let peer = &mut self.peers[by.0 as usize];
                peer.asked_after = Some(after);
                peer.confirmed = peer.confirmed.max(after);
            }
            Note::Credits { from, credits } => {
                assert!(usize::from(from.0) < self.peers.len(), "a shard that there is gives");
                let is_next = |one: &Credit, next: &Credit| one.number.0 + 1 == next.number.0;
                assert!(credits.is_sorted_by(is_next), "credits are numbered without a gap");
                assert!(credits.len() <= CREDITS_PER_PULL_MAX, "no more credits come than were asked for");
                self.received.push_back((from, credits));
            }
        }
    }

    pub fn is_idle(&self) -> bool {
        self.received.is_empty()
    }

    /// Other shards that wait for a credit whose debit is damaged.
    pub fn stuck(&self) -> u64 {
        self.peers.iter().filter(|peer| peer.stuck_at.is_some()).count() as u64
    }

    pub fn fetched(&mut self, job: JobId, records: Result<Vec<Record>, JournalError>) {
        let (to, positions) = self.readings.remove(&job).expect("a job comes back once");
        let peer = &mut self.peers[to.0 as usize];
        assert_eq!(peer.reading.take(), Some(job), "one read at a time for each other shard");
        match records {
            Ok(records) => {
                assert_eq!(records.len(), positions.len(), "a record for each position");
                peer.records.extend(positions.into_iter().zip(records));
            }
            Err(error) => self.failed = Some(error),
        }
    }
}

impl<D: Disk> LedgerService<D> {
    pub(super) fn apply_received<L: LogStore>(&mut self, turn: &mut LedgerTurn<'_, L>) -> Result<bool, ShardError> {
        let mut worked = false;
        while let Some((from, credits)) = self.exchange.received.pop_front() {
            assert!(from != self.index, "no shard gives itself credits");
            worked = true;
            let reached = turn.state().watermark(from);
            // They begin behind what was asked for, or behind what this shard is said to have confirmed.
            if let Some(first) = credits.first().filter(|first| first.number.0 > reached.0 + 1) {
                return Err(ShardError::PeerAhead { peer: from, number: first.number.0 - 1, reached: reached.0 });
            }
            for credit in &credits {
                // With a full group or disk the rest is dropped here and pulled again.
                if !may_append(turn) {
                    break;
                }
                if let Outcome::Refused(refusal) =
                    self.decide_one(turn, &credit.command(from), None).map_err(Halt::into_stop)?
                {
                    let (number, account) = (credit.number.0, credit.credit.clone());
                    return Err(ShardError::CreditRefused { from, number, account, code: refusal.code() });
                }
            }
            let peer = &mut self.exchange.peers[from.0 as usize];
            let watermark = turn.state().watermark(from);
            assert!(watermark >= peer.applied.1, "a watermark never goes back");
            assert!(turn.appended() >= peer.applied.0, "what is applied is appended behind what was");
            peer.pulled_at = None;
            peer.applied = (turn.appended(), watermark);
        }
        Ok(worked)
    }

    /// Both directions: hand out what others asked for, journal what they confirmed, ask for more.
    pub(super) fn exchange_credits<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        out: &mut Unsolicited<Self>,
        jobs: &mut Jobs<Self>,
    ) -> Result<(), ShardError> {
        if self.shard_count == 1 {
            return Ok(());
        }
        if let Some(error) = self.exchange.failed.take() {
            return Err(error.into());
        }
        for other in (0..self.shard_count).map(ShardIndex) {
            if other != self.index {
                self.hand_out_credits(turn, other, out, jobs);
                self.journal_confirmation(turn, other)?;
                self.pull_credits(turn, other, out);
            }
        }
        Ok(())
    }

    fn hand_out_credits<L: LogStore>(
        &mut self,
        turn: &LedgerTurn<'_, L>,
        to: ShardIndex,
        out: &mut Unsolicited<Self>,
        jobs: &mut Jobs<Self>,
    ) {
        let peer = &mut self.exchange.peers[to.0 as usize];
        let Some(after) = peer.asked_after.filter(|_| peer.reading.is_none()) else { return };
        if peer.stuck_at.is_some_and(|at| turn.now().0.abs_diff(at.0) < DAMAGE_RETRY_MS) {
            return;
        }
        if peer.stuck_at.take().is_some() {
            peer.records.retain(|_, record| record.is_ok());
        }
        let mut damaged = false;
        let mut credits = Vec::new();
        let mut missing = Vec::new();
        let mut last = after;
        for outbound in turn.state().outbound(to, after, CREDITS_PER_PULL_MAX) {
            assert!(outbound.number > last, "credits are given in order");
            last = outbound.number;
            let at = Position(outbound.position.0);
            let read = || peer.records.get(&at).map(|record| record.as_deref());
            let record = match turn.peek(at).map(Ok).or_else(read) {
                Some(Ok(record)) => record,
                // What is before it can be given; nothing behind it is, because credits are applied in order.
                Some(Err(_)) => {
                    damaged = true;
                    break;
                }
                None => {
                    missing.push(at);
                    continue;
                }
            };
            let event = Event::decode(record).expect("this shard encoded the event");
            let credit = turn.state().credit_of(&outbound, &event).expect("the outbound queue names its own records");
            credits.push(Credit {
                number: credit.number,
                posted: credit.posted,
                id: credit.id.into(),
                debit: credit.debit.into(),
                credit: credit.credit.into(),
                memo: credit.memo.into(),
                code: credit.label.code,
                user_data: credit.label.user_data.into(),
                amount: credit.amount,
                debit_position: credit.debit_position,
                time_ms: credit.decided_at.0,
            });
        }
        assert!(last <= turn.state().outbound_last(to) || last == after, "no credit is given that was not sent");
        assert!(credits.len() + missing.len() <= CREDITS_PER_PULL_MAX, "no more credits are given than fit an answer");
        if !missing.is_empty() {
            let job = jobs.start(Job::Records(RecordsJob::new(missing.clone(), self.log, &self.damages)));
            peer.reading = Some(job);
            assert!(peer.asked_after.is_some(), "records are read for who asks");
            self.exchange.readings.insert(job, (to, missing));
            return;
        }
        peer.stuck_at = (damaged && credits.is_empty()).then(|| turn.now());
        if !credits.is_empty() {
            peer.asked_after = None;
            peer.records = HashMap::new();
            out.push(Ticket::Credits { to }, Output::Credits(credits));
        }
    }

    fn journal_confirmation<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        to: ShardIndex,
    ) -> Result<(), ShardError> {
        let mut confirmed = self.exchange.peers[to.0 as usize].confirmed;
        if is_planted(Bug::WatermarkOffByOne) && confirmed > OutboundNumber(0) {
            confirmed = OutboundNumber(confirmed.0 + 1).min(turn.state().outbound_last(to));
        }
        if confirmed <= turn.state().outbound_confirmed(to) || !may_append(turn) {
            return Ok(());
        }
        let reached = turn.state().outbound_last(to);
        if confirmed > reached {
            return Err(ShardError::PeerAhead { peer: to, number: confirmed.0, reached: reached.0 });
        }
        assert!(to != self.index, "no shard confirms to itself");
        self.decide_one(turn, &Command::ConfirmCredits { to, number: confirmed }, None).map_err(Halt::into_stop)?;
        Ok(())
    }

    /// Asks `from` for credits after our watermark once that is durable, and again when the question seems lost. The
    /// question leaves like every answer: when all that was appended, the watermark included, is durable.
    fn pull_credits<L: LogStore>(&mut self, turn: &LedgerTurn<'_, L>, from: ShardIndex, out: &mut Unsolicited<Self>) {
        let peer = &mut self.exchange.peers[from.0 as usize];
        let (sequence, watermark) = peer.applied;
        assert!(from != self.index && sequence <= turn.appended(), "what was applied was appended");
        let unanswered = peer.pulled_at.is_some_and(|at| turn.now().0.abs_diff(at.0) < PULL_RETRY_MS);
        if unanswered || sequence > turn.durable().sequence() {
            return;
        }
        peer.pulled_at = Some(turn.now());
        out.push(Ticket::Pull { from }, Output::Watermark(watermark));
    }
}
