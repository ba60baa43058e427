//! Serving the inbox: one decision after the other, each against the state that the last one left.

use tidegate_journal::LogStore;
use tidegate_journal::disk::Disk;
use tidegate_machines::ledger::{Command, Decision, Event, Outcome, Refusal, Transfer, check_transfer, shard_of};
use tidegate_machines::{RecordPosition, ShardIndex, TimeMs};

use super::{Departure, Shard, ShardError, Work};
use crate::ids::{IdHash, IdIndex};
use crate::limits::RECORD_OVERHEAD_BYTES;
use crate::log_writer::LogWriter;
use crate::message::{HoldRequest, TransferBatch, Unavailable};
use crate::operation::{AccountFact, Answer, Operation, Picks};

/// Transfers whose id hashes are prefetched ahead of their decision; hides the cache misses of the id index.
const PREFETCH_AHEAD: usize = 12;

/// How far a call was served.
#[derive(Debug, Default)]
pub(super) struct Progress {
    outcomes: Vec<Outcome>,
    need_credit: Vec<u32>,
    pub(super) rows: super::read::RowsRead,
}

/// An id with its hash, computed once.
#[derive(Clone, Copy)]
struct Named<'a> {
    id: &'a str,
    hash: IdHash,
}

/// Hashes of the ids that come next in a batch.
#[derive(Default)]
struct Coming {
    hashes: [IdHash; PREFETCH_AHEAD],
}

impl Coming {
    fn put(&mut self, n: usize, hash: IdHash) {
        self.hashes[n % PREFETCH_AHEAD] = hash;
    }

    fn take(&self, n: usize) -> IdHash {
        self.hashes[n % PREFETCH_AHEAD]
    }
}

/// Whether a call could be finished in this step.
enum Served {
    /// Its answer waits for durability.
    Done(Answer),
    /// The group is full; the rest comes in a later step.
    Paused,
}

impl Operation {
    /// Whether it appends records, and so needs room on the disk.
    pub(super) fn writes(&self) -> bool {
        matches!(
            self,
            Operation::OpenAccount { .. }
                | Operation::Transfers { .. }
                | Operation::PlaceHolds { .. }
                | Operation::PostHolds { .. }
                | Operation::VoidHolds { .. }
                | Operation::ClaimIds(_)
        )
    }
}

impl<D: Disk, L: LogStore> Shard<D, L> {
    /// Serves calls in order until the inbox is empty or the group is full.
    pub(super) fn serve_inbox(&mut self, now: TimeMs, out: &mut super::Outgoing) -> Result<bool, ShardError> {
        let mut worked = false;
        while let Some(mut work) = self.inbox.pop_front() {
            if work.operation.writes() && self.ledger.is_outbound_full() {
                self.inbox.push_front(work);
                break;
            }
            if work.operation.writes() && !self.may_append() {
                // A full group waits for the log; a full disk has an end that nobody knows, so the client is told.
                if self.writer.group().is_empty() {
                    self.turn_away(work.caller, Unavailable::DiskFull, out);
                    continue;
                }
                self.inbox.push_front(work);
                break;
            }
            match self.serve(&mut work, now) {
                Ok(Some(Served::Done(answer))) => {
                    self.commits.wait_for(self.writer.appended(), Departure::Answer(work.caller, answer));
                }
                Ok(Some(Served::Paused)) => {
                    self.inbox.push_front(work);
                    break;
                }
                Ok(None) => self.reading.push_back(work),
                // Its caller is told, with all others, that the shard failed.
                Err(error) => {
                    self.inbox.push_front(work);
                    return Err(error);
                }
            }
            worked = true;
        }
        Ok(worked)
    }

    /// `None` for operations that are served in steps beside the inbox.
    fn serve(&mut self, work: &mut Work, now: TimeMs) -> Result<Option<Served>, ShardError> {
        let progress = &mut work.progress;
        let served = match &work.operation {
            Operation::OpenAccount { id, asset, kind } => {
                let outcome = self.decide_one(&Command::OpenAccount { id, asset, kind: *kind }, None, now)?;
                Served::Done(self.opened(id, outcome))
            }
            Operation::Transfers { batch, picks, linked: false, facts, .. } => {
                self.serve_transfers(batch, picks, facts, progress, now)?
            }
            Operation::Transfers { batch, picks, linked: true, failed, facts } => {
                self.serve_linked(batch, picks, facts, *failed, now)?
            }
            Operation::PlaceHolds { holds, picks, facts } => self.serve_holds(holds, picks, facts, progress, now)?,
            Operation::PostHolds { posts, picks } => self.serve_each(picks, posts.len(), progress, now, |index| {
                let (id, amount) = &posts[index];
                (Command::PostHold { id, amount: *amount }, id)
            })?,
            Operation::VoidHolds { ids, picks } => self.serve_each(picks, ids.len(), progress, now, |index| {
                (Command::VoidHold { id: &ids[index] }, &ids[index])
            })?,
            Operation::ClaimIds(claims) => self.serve_each(&Picks::All, claims.len(), progress, now, |index| {
                let (id, owner, digest) = &claims[index];
                (Command::ClaimId { id, owner: *owner, digest: *digest }, id)
            })?,
            Operation::ReadHistory { .. } => return Ok(None),
            read => Served::Done(self.read(read)?),
        };
        Ok(Some(served))
    }

    fn opened(&self, id: &str, outcome: Outcome) -> Answer {
        match (outcome, self.ledger.account(id)) {
            (Outcome::Applied, Some(account)) => Answer::Opened { created: true, account },
            (Outcome::Duplicate, Some(account)) => Answer::Opened { created: false, account },
            (Outcome::Refused(refusal), _) => Answer::Refused(refusal),
            (_, None) => unreachable!("an open account is there"),
        }
    }

    fn serve_transfers(
        &mut self,
        batch: &TransferBatch,
        picks: &Picks,
        facts: &[AccountFact],
        progress: &mut Progress,
        now: TimeMs,
    ) -> Result<Served, ShardError> {
        if !self.adopt(facts, now)? {
            return Ok(Served::Paused);
        }
        let count = picks.len(batch.len());
        progress.outcomes.reserve(count - progress.outcomes.len());
        let mut coming = Coming::default();
        for ahead in progress.outcomes.len()..count.min(progress.outcomes.len() + PREFETCH_AHEAD) {
            coming.put(ahead, self.prefetch(&batch.get(picks.index(ahead))));
        }
        while progress.outcomes.len() < count {
            if !self.may_append() {
                return Ok(Served::Paused);
            }
            let n = progress.outcomes.len();
            let transfer = batch.get(picks.index(n));
            let id = Named { id: transfer.id, hash: coming.take(n) };
            if n + PREFETCH_AHEAD < count {
                coming.put(n + PREFETCH_AHEAD, self.prefetch(&batch.get(picks.index(n + PREFETCH_AHEAD))));
            }
            if self.needs_credit(transfer.credit, facts) {
                progress.need_credit.push(n as u32);
                progress.outcomes.push(Outcome::Refused(Refusal::CreditAccountNotFound));
                continue;
            }
            let credit_missing = is_missing(transfer.credit, facts);
            let outcome = self.decide_named(&Command::Transfer { transfer, credit_missing }, Some(id), now)?;
            progress.outcomes.push(outcome);
        }
        Ok(Served::Done(progress.answer()))
    }

    fn serve_holds(
        &mut self,
        holds: &[HoldRequest],
        picks: &Picks,
        facts: &[AccountFact],
        progress: &mut Progress,
        now: TimeMs,
    ) -> Result<Served, ShardError> {
        if !self.adopt(facts, now)? {
            return Ok(Served::Paused);
        }
        let count = picks.len(holds.len());
        while progress.outcomes.len() < count {
            if !self.may_append() {
                return Ok(Served::Paused);
            }
            let n = progress.outcomes.len();
            let hold = holds[picks.index(n)].borrow();
            if self.needs_credit(hold.credit, facts) {
                progress.need_credit.push(n as u32);
                progress.outcomes.push(Outcome::Refused(Refusal::CreditAccountNotFound));
                continue;
            }
            let credit_missing = is_missing(hold.credit, facts);
            let outcome = self.decide_one(&Command::PlaceHold { hold, credit_missing }, Some(hold.id), now)?;
            progress.outcomes.push(outcome);
        }
        Ok(Served::Done(progress.answer()))
    }

    fn serve_each<'a>(
        &mut self,
        picks: &Picks,
        total: usize,
        progress: &mut Progress,
        now: TimeMs,
        command_at: impl Fn(usize) -> (Command<'a>, &'a str),
    ) -> Result<Served, ShardError> {
        while progress.outcomes.len() < picks.len(total) {
            if !self.may_append() {
                return Ok(Served::Paused);
            }
            let (command, id) = command_at(picks.index(progress.outcomes.len()));
            let outcome = self.decide_one(&command, Some(id), now)?;
            progress.outcomes.push(outcome);
        }
        Ok(Served::Done(progress.answer()))
    }

    /// All or nothing. The whole group stands in one commit group, which a crash keeps or loses as one.
    fn serve_linked(
        &mut self,
        batch: &TransferBatch,
        picks: &Picks,
        facts: &[AccountFact],
        failed: bool,
        now: TimeMs,
    ) -> Result<Served, ShardError> {
        if !self.adopt(facts, now)? {
            return Ok(Served::Paused);
        }
        let count = picks.len(batch.len());
        if !self.writer.group().has_room(batch.text_bytes() + count * RECORD_OVERHEAD_BYTES) {
            return Ok(match self.writer.group().is_empty() {
                true => Served::Done(Answer::Refused(Refusal::BatchSizeInvalid)),
                false => Served::Paused,
            });
        }
        let transfers = (0..count).map(|n| batch.get(picks.index(n)));
        let need_credit: Vec<u32> = transfers
            .clone()
            .enumerate()
            .filter(|(_, transfer)| self.needs_credit(transfer.credit, facts))
            .map(|(n, _)| n as u32)
            .collect();
        if !failed && !need_credit.is_empty() {
            let outcomes = vec![Outcome::Refused(Refusal::LinkedFailed); count];
            return Ok(Served::Done(Answer::Outcomes { outcomes, need_credit }));
        }

        // A member that was decided before, alone or in another group, keeps its answer, so the group cannot be applied any more.
        let mut in_vain = failed || has_repeated_id(transfers.clone());
        for transfer in transfers.clone() {
            in_vain |= self.has_prior(transfer.id)?;
        }
        let culprit = match in_vain {
            true => None,
            false => match self.ledger.check_linked(transfers.clone(), now) {
                Ok(()) => return self.decide_all(transfers, facts, now),
                Err(culprit) => Some(culprit),
            },
        };
        let mut outcomes = Vec::with_capacity(count);
        for (n, transfer) in transfers.enumerate() {
            outcomes.push(match culprit {
                Some((index, refusal)) if index == n => self.refuse_one(&transfer, refusal, now)?,
                _ => self.refuse_one(&transfer, Refusal::LinkedFailed, now)?,
            });
        }
        Ok(Served::Done(Answer::Outcomes { outcomes, need_credit: Vec::new() }))
    }

    fn decide_all<'a>(
        &mut self,
        transfers: impl Iterator<Item = Transfer<'a>>,
        facts: &[AccountFact],
        now: TimeMs,
    ) -> Result<Served, ShardError> {
        let mut outcomes = Vec::new();
        for transfer in transfers {
            let credit_missing = is_missing(transfer.credit, facts);
            outcomes.push(self.decide_one(&Command::Transfer { transfer, credit_missing }, Some(transfer.id), now)?);
        }
        Ok(Served::Done(Answer::Outcomes { outcomes, need_credit: Vec::new() }))
    }

    /// [`Shard::decide_named`] for commands whose id was not hashed ahead.
    pub(super) fn decide_one(
        &mut self,
        command: &Command<'_>,
        id: Option<&str>,
        now: TimeMs,
    ) -> Result<Outcome, ShardError> {
        let id = id.map(|id| self.named(id));
        self.decide_named(command, id, now)
    }

    /// The one way by which anything changes: find what the id stands for, decide, append, apply, index.
    fn decide_named(
        &mut self,
        command: &Command<'_>,
        id: Option<Named<'_>>,
        now: TimeMs,
    ) -> Result<Outcome, ShardError> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let outcome = self.decide_with(command, id, now, &mut scratch);
        self.scratch = scratch;
        outcome
    }

    fn decide_with(
        &mut self,
        command: &Command<'_>,
        id: Option<Named<'_>>,
        now: TimeMs,
        scratch: &mut Vec<u8>,
    ) -> Result<Outcome, ShardError> {
        let prior = match id {
            Some(id) => find_prior(&self.ids, &self.writer, id, scratch)?,
            None => None,
        };
        match self.ledger.decide(command, prior.as_ref(), now) {
            Decision::Append { event, outcome } => {
                self.append(&event, id.map(|id| id.hash));
                self.count(outcome);
                Ok(outcome)
            }
            Decision::Answer(outcome) => {
                self.count(outcome);
                Ok(outcome)
            }
            // A credit that came again, or ahead of a lost one: it is pulled again from the watermark.
            Decision::Nothing | Decision::Gap { .. } => Ok(Outcome::Duplicate),
            Decision::NeedAccount => unreachable!("needs_credit asks first"),
        }
    }

    fn named<'a>(&self, id: &'a str) -> Named<'a> {
        Named { id, hash: self.ids.hash(id.as_bytes()) }
    }

    /// Starts to load what the decision on `transfer` will look at; returns the hash of its id.
    fn prefetch(&self, transfer: &Transfer<'_>) -> IdHash {
        let hash = self.ids.hash(transfer.id.as_bytes());
        self.ids.prefetch(hash);
        self.ledger.touch(transfer);
        hash
    }

    fn refuse_one(&mut self, transfer: &Transfer<'_>, refusal: Refusal, now: TimeMs) -> Result<Outcome, ShardError> {
        if self.has_prior(transfer.id)? {
            let again = Command::Transfer { transfer: *transfer, credit_missing: true };
            return self.decide_one(&again, Some(transfer.id), now);
        }
        if let Err(malformed) = check_transfer(transfer) {
            return Ok(Outcome::Refused(malformed));
        }
        if let Some(event) = self.ledger.decide_refused(transfer, refusal, now) {
            let hash = self.named(transfer.id).hash;
            self.append(&event, Some(hash));
            self.count(Outcome::Refused(refusal));
        }
        Ok(Outcome::Refused(refusal))
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

    fn append(&mut self, event: &Event<'_>, hash: Option<IdHash>) {
        let position = self.writer.append(|buffer| event.encode(buffer));
        self.ledger.apply(event, RecordPosition(position.0));
        if let Some(announcer) = &mut self.announcer {
            announcer.note(event, &self.ledger);
        }
        if event.id().is_some() {
            self.ids.insert(hash.expect("an event with an id answers a command with that id"), position);
        }
        self.facts.records += 1;
    }

    pub(super) fn has_prior(&mut self, id: &str) -> Result<bool, ShardError> {
        Ok(find_prior(&self.ids, &self.writer, self.named(id), &mut self.scratch)?.is_some())
    }

    /// The shard that decided on `id`, as far as this shard, the home of the id, knows.
    pub(super) fn owner_of(&mut self, id: &str) -> Result<Option<ShardIndex>, ShardError> {
        let prior = find_prior(&self.ids, &self.writer, self.named(id), &mut self.scratch)?;
        Ok(prior.map(|event| match event {
            Event::IdClaimed { owner, .. } => owner,
            _ => self.index,
        }))
    }

    /// Journals what other shards said about accounts that this one did not know. False when the group is full: what was adopted is
    /// known then, and a later step goes on with the rest.
    fn adopt(&mut self, facts: &[AccountFact], now: TimeMs) -> Result<bool, ShardError> {
        for fact in facts {
            let Some((asset, kind)) = &fact.found else { continue };
            if self.ledger.slot(&fact.id).is_some() {
                continue;
            }
            if !self.may_append() {
                return Ok(false);
            }
            let home = shard_of(&fact.id, self.shard_count);
            self.decide_one(&Command::AdoptAccount { id: &fact.id, asset, kind: *kind, home }, None, now)?;
        }
        Ok(true)
    }

    /// Whether another shard must be asked about this credit account before a decision.
    fn needs_credit(&self, credit: &str, facts: &[AccountFact]) -> bool {
        self.shard_count > 1
            && shard_of(credit, self.shard_count) != self.index
            && self.ledger.slot(credit).is_none()
            && !is_missing(credit, facts)
    }
}

impl Progress {
    fn answer(&mut self) -> Answer {
        Answer::Outcomes {
            outcomes: std::mem::take(&mut self.outcomes),
            need_credit: std::mem::take(&mut self.need_credit),
        }
    }
}

/// The latest event about `id`: among the index's candidates (nearly always none, or one) the newest whose record names it.
/// Leaves that record in `scratch`.
fn find_prior<'s, D: Disk, L: LogStore>(
    ids: &IdIndex<D>,
    writer: &LogWriter<L>,
    Named { id, hash }: Named<'_>,
    scratch: &'s mut Vec<u8>,
) -> Result<Option<Event<'s>>, ShardError> {
    let found = ids.find_newest(hash, |at| -> Result<bool, ShardError> {
        writer.read_record(at, scratch)?;
        Ok(Event::decode(scratch).is_ok_and(|event| event.id() == Some(id)))
    })?;
    Ok(found.and_then(|_| Event::decode(scratch).ok()))
}

/// Facts are sorted by id.
fn is_missing(credit: &str, facts: &[AccountFact]) -> bool {
    let found = facts.binary_search_by(|fact| (*fact.id).cmp(credit));
    found.is_ok_and(|index| facts[index].found.is_none())
}

fn has_repeated_id<'a>(mut transfers: impl Iterator<Item = Transfer<'a>>) -> bool {
    let mut seen = hashbrown::HashSet::new();
    !transfers.all(|transfer| seen.insert(transfer.id))
}
