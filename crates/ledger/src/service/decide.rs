//! Serves calls: one decision after the other, each on the state that the one before left.

use tidegate_disk::Disk;
use tidegate_journal::{LogStore, Position};
use tidegate_machines::ledger::{Command, Content, Event, Ledger, Outcome, Refusal, Ruling, shard_of};
use tidegate_machines::{Decision, Machine, ShardIndex};
use tidegate_shard::{Jobs, Pause, Served};

use super::progress::Progress;
use super::records::{Halt, LookUp};
use super::{LedgerService, LedgerTurn, Output, may_append};
use crate::ids::IdHash;
use crate::message::HoldRequest;
use crate::operation::{AccountFact, Answer, Operation, Selection};

/// An id with its hash, computed once.
#[derive(Clone, Copy)]
pub(super) struct HashedId<'a> {
    pub(super) id: &'a str,
    pub(super) hash: IdHash,
    /// The newest record of any id when this one was new, if that was found out before.
    pub(super) new_since: Option<Position>,
}

/// The group is full; the rest comes in a later step.
pub(super) const PAUSED: Served<Output> = Served::Paused(Pause::Room);
/// This step has decided enough; the rest comes in a later one, behind the turns of other callers.
pub(super) const STEP_OVER: Served<Output> = Served::Paused(Pause::Step);

impl Operation {
    /// Whether it appends records, and so needs room on the disk.
    pub fn writes(&self) -> bool {
        matches!(
            self,
            Operation::OpenAccount { .. }
                | Operation::OpenAccounts { .. }
                | Operation::Transfers { .. }
                | Operation::PlaceHolds { .. }
                | Operation::PostHolds { .. }
                | Operation::VoidHolds { .. }
                | Operation::ClaimIds(_)
                | Operation::LinkedHolds { .. }
                | Operation::ChangeAccount { .. }
                | Operation::AdoptRules { .. }
                | Operation::DeclareAsset { .. }
        )
    }
}

impl<D: Disk> LedgerService<D> {
    #[inline]
    pub(super) fn serve_call<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        call: &Operation,
        progress: &mut Progress,
        jobs: &mut Jobs<Self>,
    ) -> Result<Served<Output>, Halt> {
        match call {
            Operation::OpenAccount { id, asset, kind } => {
                let outcome = self.decide_one(turn, &Command::OpenAccount { id, asset, kind: *kind }, None)?;
                Ok(done(opened(turn.state(), id, outcome)))
            }
            Operation::OpenAccounts { batch, selection } => self.serve_opens(turn, batch, selection, progress),
            Operation::Transfers { batch, selection, linked: false, facts, .. } => {
                self.serve_transfers(turn, batch, selection, facts, progress)
            }
            Operation::Transfers { batch, selection, linked: true, failed, facts } => {
                let count = selection.len(batch.len());
                let items = (0..count).map(|n| Content::Transfer(batch.get(selection.index(n))));
                self.serve_linked(turn, items, (batch.text_bytes(), u32::MAX), facts, *failed)
            }
            Operation::LinkedHolds { holds, selection, failed, facts } => {
                let items = (0..selection.len(holds.len())).map(|n| Content::Hold(holds[selection.index(n)].borrow()));
                let text_bytes = holds.iter().map(HoldRequest::text_bytes).sum();
                // One caller's door set the same bound for all.
                let open_holds_max = holds.iter().map(|hold| hold.open_holds_max).min().unwrap_or(u32::MAX);
                self.serve_linked(turn, items, (text_bytes, open_holds_max), facts, *failed)
            }
            Operation::ChangeAccount { id, change, is_settled } => self.serve_change(turn, id, change, *is_settled),
            Operation::AdoptRules { id, asset, kind, revision, rules } => {
                self.serve_adopt(turn, id, (asset, *kind), *revision, **rules)
            }
            Operation::DeclareAsset { asset, decimals } => {
                let declared = self.decide_one(turn, &Command::DeclareAsset { asset, decimals: *decimals }, None)?;
                Ok(done(match declared {
                    Outcome::Refused(refusal) => Answer::Refused(refusal),
                    outcome => Answer::Declared { created: outcome == Outcome::Applied },
                }))
            }
            Operation::PlaceHolds { holds, selection, facts } => {
                self.serve_holds(turn, holds, selection, facts, progress)
            }
            Operation::PostHolds { posts, selection } => {
                self.serve_each(turn, selection, posts.len(), progress, |index| {
                    let (id, amount) = &posts[index];
                    (Command::PostHold { id, amount: *amount }, id)
                })
            }
            Operation::VoidHolds { ids, selection } => self.serve_each(turn, selection, ids.len(), progress, |index| {
                (Command::VoidHold { id: &ids[index] }, &ids[index])
            }),
            Operation::ClaimIds(claims) => self.serve_each(turn, &Selection::All, claims.len(), progress, |index| {
                let (id, owner, digest) = &claims[index];
                (Command::ClaimId { id, owner: *owner, digest: *digest }, id)
            }),
            Operation::ReadHistory { id, from, limit } => {
                self.serve_history(turn, (id, *from, *limit), progress.rows.get_or_insert_default(), jobs)
            }
            Operation::Announce(want) => {
                if let Some(announcer) = &mut self.announcer {
                    announcer.want(want, turn.state());
                }
                Ok(done(Answer::Announced))
            }
            Operation::ListAccounts { prefix, after, limit } => {
                Ok(self.list(turn.state(), prefix, after.as_deref(), *limit))
            }
            read => Ok(done(self.read(turn, read)?)),
        }
    }

    /// Whether the next item may be decided: there is room for its record, or only what needs none will be.
    #[inline]
    pub(super) fn may_decide<L: LogStore>(&self, turn: &LedgerTurn<'_, L>) -> bool {
        self.unwritable.is_some() || may_append(turn)
    }

    /// [`LedgerService::decide_named`] for commands whose id was not hashed ahead.
    pub(super) fn decide_one<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        command: &Command<'_>,
        id: Option<&str>,
    ) -> Result<Outcome, Halt> {
        let id = id.map(|id| self.named(id));
        self.decide_named(turn, command, id)
    }

    /// The one way by which anything changes: find what the id stands for, decide, append, apply, index.
    #[inline]
    pub(super) fn decide_named<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        command: &Command<'_>,
        id: Option<HashedId<'_>>,
    ) -> Result<Outcome, Halt> {
        self.decisions_left = self.decisions_left.saturating_sub(1);
        let mut scratch = std::mem::take(&mut self.scratch);
        let outcome = self.decide_with(turn, command, id, &mut scratch);
        self.scratch = scratch;
        match outcome {
            Err(Halt::Damaged(place)) => {
                let refused = Outcome::Refused(Refusal::Damaged(place));
                self.count(refused);
                Ok(refused)
            }
            decided => decided,
        }
    }

    #[inline]
    fn decide_with<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        command: &Command<'_>,
        id: Option<HashedId<'_>>,
        scratch: &mut Vec<u8>,
    ) -> Result<Outcome, Halt> {
        let prior = match id {
            Some(id) if !self.is_new(id) => self.find_prior(turn, id, scratch)?,
            _ => None,
        };
        self.rule(turn, command, prior.as_ref(), id.map(|id| id.hash))
    }

    /// [`LedgerService::decide_named`] for an id of this hash on which nothing was decided, as the caller knows. It is
    /// not looked up again: an id that was just inserted can make the filter say that another one may be in a run.
    pub(super) fn decide_new<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        command: &Command<'_>,
        hash: IdHash,
    ) -> Result<Outcome, Halt> {
        self.decisions_left = self.decisions_left.saturating_sub(1);
        self.rule(turn, command, None, Some(hash))
    }

    #[inline]
    fn rule<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        command: &Command<'_>,
        prior: Option<&Event<'_>>,
        hash: Option<IdHash>,
    ) -> Result<Outcome, Halt> {
        let ruling = match &Machine::decide(turn.state(), command, prior, turn.now()) {
            Decision::Append { .. } if self.unwritable.is_some() => return Err(Halt::NoRoom),
            Decision::Append { event, outcome } => {
                self.append(turn, event, hash);
                *outcome
            }
            Decision::Answer(outcome) => *outcome,
        };
        match ruling {
            Ruling::Outcome(outcome) => {
                self.count(outcome);
                Ok(outcome)
            }
            // A credit that came again, or ahead of a lost one: it is pulled again from the watermark.
            Ruling::AppliedBefore | Ruling::Gap { .. } => Ok(Outcome::Duplicate),
            Ruling::NeedAccount => unreachable!("needs_credit asks first"),
        }
    }

    #[inline]
    pub(super) fn named<'a>(&self, id: &'a str) -> HashedId<'a> {
        HashedId { id, hash: self.ids.hash(id.as_bytes()), new_since: None }
    }

    /// Whether nothing was decided on an id, as filters alone know.
    #[inline]
    fn is_new(&self, id: HashedId<'_>) -> bool {
        id.new_since.is_some_and(|since| self.ids.is_new_still(id.hash, since)) || self.ids.is_new(id.hash)
    }

    /// The shard that decided on `id`, as far as this shard, the home of the id, knows.
    pub(super) fn owner_of<L: LogStore>(
        &mut self,
        turn: &LedgerTurn<'_, L>,
        id: &str,
    ) -> Result<Option<ShardIndex>, Halt> {
        let here = self.index;
        self.with_prior(turn, id, |prior| {
            prior.map(|event| match event {
                Event::IdClaimed { owner, .. } => owner,
                _ => here,
            })
        })
    }

    /// What `of` makes of the latest event about `id`, if there is one.
    pub(super) fn with_prior<L: LogStore, T>(
        &mut self,
        turn: &LedgerTurn<'_, L>,
        id: &str,
        of: impl FnOnce(Option<Event<'_>>) -> T,
    ) -> Result<T, Halt> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let found = self.find_prior(turn, self.named(id), &mut scratch).map(of);
        self.scratch = scratch;
        found
    }

    /// The latest event about `id`: among the index's candidates (nearly always none, or one) the newest whose record
    /// names it. Leaves that record in `scratch`.
    #[cold]
    fn find_prior<'s, L: LogStore>(
        &self,
        turn: &LedgerTurn<'_, L>,
        id: HashedId<'_>,
        scratch: &'s mut Vec<u8>,
    ) -> Result<Option<Event<'s>>, Halt> {
        Ok(self.find_prior_at(turn, id, scratch)?.map(|(event, _)| event))
    }

    /// As [`LedgerService::find_prior`], with the place of the event.
    pub(super) fn find_prior_at<'s, L: LogStore>(
        &self,
        turn: &LedgerTurn<'_, L>,
        HashedId { id, hash, .. }: HashedId<'_>,
        scratch: &'s mut Vec<u8>,
    ) -> Result<Option<(Event<'s>, Position)>, Halt> {
        let found = self.ids.find_newest(hash, &self.at_hand.looked, |at| -> Result<bool, LookUp> {
            let at_hand = || self.at_hand.records.get(&at).map(|record| record.as_deref());
            let record = turn.peek(at).map(Ok).or_else(at_hand).ok_or(LookUp::Halt(Halt::Unread))?;
            // Whose record it was cannot be told any more; that it was this id's is all but certain.
            let record = record.map_err(|place| LookUp::Halt(Halt::Damaged(place)))?;
            scratch.clear();
            scratch.extend_from_slice(record);
            Ok(Event::decode(scratch).is_ok_and(|event| event.id() == Some(id)))
        });
        let found = found.map_err(|ended| match ended {
            LookUp::Halt(halt) => halt,
            LookUp::Ids(error) => Halt::Damaged(self.ids_damaged(&error)),
        })?;
        Ok(found.and_then(|at| Some((Event::decode(scratch).ok()?, at))))
    }

    /// Journals what other shards said about accounts that this one did not know. False when the group is full: what
    /// was adopted is known then, and a later step goes on with the rest.
    pub(super) fn adopt<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        facts: &[AccountFact],
    ) -> Result<bool, Halt> {
        assert!(facts.is_sorted_by(|one, next| one.id <= next.id), "facts are looked up by their order");
        for fact in facts {
            let Some((asset, kind)) = &fact.found else { continue };
            if turn.state().slot(&fact.id).is_some() {
                continue;
            }
            if !self.may_decide(turn) {
                return Ok(false);
            }
            let home = shard_of(&fact.id, self.shard_count);
            assert!(home != self.index, "an account of this shard's own is known here");
            self.decide_one(turn, &Command::AdoptAccount { id: &fact.id, asset, kind: *kind, home }, None)?;
        }
        Ok(true)
    }

    /// Whether another shard must be asked about this credit account before a decision.
    pub(super) fn needs_credit(&self, ledger: &Ledger, credit: &str, facts: &[AccountFact]) -> bool {
        self.shard_count > 1
            && shard_of(credit, self.shard_count) != self.index
            && ledger.slot(credit).is_none()
            && !is_missing(credit, facts)
    }
}

fn opened(ledger: &Ledger, id: &str, outcome: Outcome) -> Answer {
    match (outcome, ledger.account(id)) {
        (Outcome::Applied, Some(account)) => Answer::Opened { created: true, account },
        (Outcome::Duplicate, Some(account)) => Answer::Opened { created: false, account },
        (Outcome::Refused(refusal) | Outcome::RefusedBefore { refusal, .. }, _) => Answer::Refused(refusal),
        (_, None) => unreachable!("an open account is there"),
    }
}

pub(super) fn done(answer: Answer) -> Served<Output> {
    Served::Done(Output::Answer(answer))
}

/// Facts are sorted by id.
pub(super) fn is_missing(credit: &str, facts: &[AccountFact]) -> bool {
    let found = facts.binary_search_by(|fact| (*fact.id).cmp(credit));
    found.is_ok_and(|index| facts[index].found.is_none())
}
