//! Requests that change balances: transfers, holds, posts and voids, split over the shards that decide them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::{
    ContentDigest, Outcome, Refusal, TRANSFERS_PER_REQUEST_MAX, check_hold, check_transfer, content_digest, shard_of,
};

use super::stage::Next;
use crate::message::{HoldRequest, OpenBatch, Reply, TransferBatch};
use crate::operation::{AccountFact, Answer, Operation, Selection};

/// What is asked, item by item.
enum Items {
    Transfers { batch: Arc<TransferBatch>, linked: bool },
    Holds { holds: Arc<Vec<HoldRequest>>, linked: bool },
    Posts(Arc<Vec<(Box<str>, Option<u64>)>>),
    Voids(Arc<Vec<Box<str>>>),
    Opens(Arc<OpenBatch>),
}

/// The purpose of the current calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Ids whose home is another shard than the deciding one are claimed there.
    Claiming,
    /// The shard that placed a hold is asked for at the home of the hold's id.
    Locating,
    /// The shards decide.
    Deciding,
    /// Credit accounts that a shard did not know are asked for at their homes.
    Describing,
}

/// A deciding request in progress.
pub(super) struct Deciding {
    items: Items,
    phase: Phase,
    /// Which items each shard was asked for; `None` stands for all of them, in order.
    asked: Vec<(ShardIndex, Option<Vec<u32>>)>,
    outcomes: Vec<Option<Outcome>>,
    owners: Vec<Option<ShardIndex>>,
    undecided: Vec<u32>,
    facts: Vec<AccountFact>,
    refused: Option<Refusal>,
    /// A member of the linked group was refused before any shard decided.
    failed: bool,
}

impl Deciding {
    pub(super) fn transfers(batch: TransferBatch, linked: bool) -> Deciding {
        Deciding::new(Items::Transfers { batch: Arc::new(batch), linked })
    }

    pub(super) fn holds(holds: Vec<HoldRequest>, linked: bool) -> Deciding {
        Deciding::new(Items::Holds { holds: Arc::new(holds), linked })
    }

    pub(super) fn posts(posts: Vec<(Box<str>, Option<u64>)>) -> Deciding {
        Deciding::new(Items::Posts(Arc::new(posts)))
    }

    pub(super) fn voids(ids: Vec<Box<str>>) -> Deciding {
        Deciding::new(Items::Voids(Arc::new(ids)))
    }

    pub(super) fn opens(batch: OpenBatch) -> Deciding {
        Deciding::new(Items::Opens(Arc::new(batch)))
    }

    fn new(items: Items) -> Deciding {
        Deciding {
            items,
            phase: Phase::Deciding,
            asked: Vec::new(),
            outcomes: Vec::new(),
            owners: Vec::new(),
            undecided: Vec::new(),
            facts: Vec::new(),
            refused: None,
            failed: false,
        }
    }

    /// The first calls.
    pub(super) fn begin(&mut self, shard_count: u16) -> Next {
        let count = self.items.len();
        if count == 0 || count > TRANSFERS_PER_REQUEST_MAX {
            return Next::Reply(Reply::Refused(Refusal::BatchSizeInvalid));
        }
        if shard_count == 1 {
            self.asked = vec![(ShardIndex(0), None)];
            return Next::Calls(vec![(ShardIndex(0), self.items.operation(Selection::All, false, Vec::new()))]);
        }
        self.outcomes = vec![None; count];
        self.owners = (0..count).map(|index| self.items.deciding_shard(index, shard_count)).collect();
        assert!(self.outcomes.len() == self.owners.len(), "an outcome and a shard for each item");
        if self.items.is_linked() && self.owners.iter().any(|owner| *owner != self.owners[0]) {
            let refusal = Outcome::Refused(Refusal::LinkedAcrossShards);
            return Next::Reply(Reply::Outcomes(vec![refusal; count]));
        }
        match &self.items {
            Items::Transfers { .. } | Items::Holds { .. } => self.claim(shard_count),
            Items::Posts(_) | Items::Voids(_) => self.locate(shard_count),
            // An account's id belongs to its home, which decides.
            Items::Opens(_) => self.decide(),
        }
    }

    pub(super) fn collect(&mut self, shard: ShardIndex, answer: Answer) {
        let asked = self.asked.iter().position(|(asked, _)| *asked == shard).expect("only asked shards answer");
        let (_, selection) = self.asked.swap_remove(asked);
        assert!(self.asked.iter().all(|(asked, _)| *asked != shard), "a shard is asked once");
        match (self.phase, answer) {
            (_, Answer::Refused(refusal)) => self.refused = Some(refusal),
            (Phase::Deciding, Answer::Outcomes { outcomes, need_credit }) => {
                self.decided(selection, outcomes, &need_credit)
            }
            (Phase::Claiming, Answer::Outcomes { outcomes, .. }) => {
                assert!(
                    selection.as_ref().is_some_and(|selection| selection.len() == outcomes.len()),
                    "an outcome for each item asked"
                );
                for (index, outcome) in selection.into_iter().flatten().zip(outcomes) {
                    if let Outcome::Refused(_) = outcome {
                        self.outcomes[index as usize] = Some(outcome);
                    }
                }
            }
            (Phase::Locating, Answer::Owners(owners)) => {
                assert!(
                    selection.as_ref().is_some_and(|selection| selection.len() == owners.len()),
                    "an owner for each item asked"
                );
                for (index, owner) in selection.into_iter().flatten().zip(owners) {
                    match owner {
                        Ok(owner @ Some(_)) => self.owners[index as usize] = owner,
                        Err(refusal) => self.outcomes[index as usize] = Some(Outcome::Refused(refusal)),
                        Ok(None) => self.outcomes[index as usize] = Some(Outcome::Refused(Refusal::HoldNotFound)),
                    }
                }
            }
            (Phase::Describing, Answer::Facts(facts)) => {
                self.facts.extend(facts);
                self.facts.sort_unstable_by(|a, b| a.id.cmp(&b.id));
            }
            (phase, other) => unreachable!("{other:?} while {phase:?}"),
        }
    }

    /// What comes after the answers of this phase.
    pub(super) fn complete(&mut self, shard_count: u16) -> Next {
        assert!(self.asked.is_empty(), "all shards that were asked have answered");
        if let Some(refusal) = self.refused {
            return Next::Reply(Reply::Refused(refusal));
        }
        match self.phase {
            Phase::Claiming => self.after_claims(),
            Phase::Locating | Phase::Describing => self.decide(),
            Phase::Deciding if self.undecided.is_empty() => self.reply(),
            Phase::Deciding => self.describe(shard_count),
        }
    }

    fn decided(&mut self, selection: Option<Vec<u32>>, outcomes: Vec<Outcome>, need_credit: &[u32]) {
        let Some(selection) = selection else {
            assert!(outcomes.len() == self.items.len(), "an outcome for each item");
            self.outcomes = outcomes.into_iter().map(Some).collect();
            return;
        };
        assert!(outcomes.len() == selection.len(), "an outcome for each item asked");
        assert!(need_credit.is_sorted_by(|one, next| one < next), "an item is named once");
        let mut undecided = need_credit.iter().map(|n| selection[*n as usize]).collect::<Vec<_>>();
        if self.items.is_linked() && !undecided.is_empty() {
            self.undecided.append(&mut undecided);
            return;
        }
        for (index, outcome) in selection.into_iter().zip(outcomes) {
            self.outcomes[index as usize] = Some(outcome);
        }
        for index in &undecided {
            self.outcomes[*index as usize] = None;
        }
        self.undecided.append(&mut undecided);
    }

    fn claim(&mut self, shard_count: u16) -> Next {
        let mut claims: Vec<Vec<(Box<str>, ShardIndex, ContentDigest)>> = vec![Vec::new(); shard_count as usize];
        let mut selection: Vec<Vec<u32>> = vec![Vec::new(); shard_count as usize];
        for index in 0..self.items.len() {
            let home = shard_of(self.items.id(index), shard_count);
            let owner = self.owners[index].expect("a debit account has a shard");
            if let Err(refusal) = self.items.validate(index) {
                self.outcomes[index] = Some(Outcome::Refused(refusal));
            } else if home != owner {
                claims[home.0 as usize].push((self.items.id(index).into(), owner, self.items.digest(index)));
                selection[home.0 as usize].push(index as u32);
            }
        }
        self.phase = Phase::Claiming;
        let mut calls = Vec::new();
        for (shard, (claims, selection)) in claims.into_iter().zip(selection).enumerate() {
            if !claims.is_empty() {
                self.asked.push((ShardIndex(shard as u16), Some(selection)));
                calls.push((ShardIndex(shard as u16), Operation::ClaimIds(claims)));
            }
        }
        assert!(calls.len() == self.asked.len(), "who is called is awaited");
        if calls.is_empty() { self.after_claims() } else { Next::Calls(calls) }
    }

    /// A linked group with an id that may not be used, or with an item that is malformed, fails as a whole. The shard
    /// is asked all the same: it journals the refusal of the others, so that they get it at every retry, in this group
    /// or alone.
    ///
    /// But nobody is asked if a claim met damage: no refusal is remembered for that, of any of them.
    fn after_claims(&mut self) -> Next {
        if self.outcomes.iter().any(is_damaged) && self.items.is_linked() {
            return self.reply_damaged();
        }
        self.failed = self.items.is_linked() && self.outcomes.iter().any(Option::is_some);
        self.decide()
    }

    fn locate(&mut self, shard_count: u16) -> Next {
        let mut ids: Vec<Vec<Box<str>>> = vec![Vec::new(); shard_count as usize];
        let mut selection: Vec<Vec<u32>> = vec![Vec::new(); shard_count as usize];
        for index in 0..self.items.len() {
            let home = shard_of(self.items.id(index), shard_count).0 as usize;
            ids[home].push(self.items.id(index).into());
            selection[home].push(index as u32);
        }
        self.phase = Phase::Locating;
        let mut calls = Vec::new();
        for (shard, (ids, selection)) in ids.into_iter().zip(selection).enumerate() {
            if !ids.is_empty() {
                self.asked.push((ShardIndex(shard as u16), Some(selection)));
                calls.push((ShardIndex(shard as u16), Operation::FindOwners(ids)));
            }
        }
        Next::Calls(calls)
    }

    /// Asks each deciding shard for the items that have no outcome yet.
    fn decide(&mut self) -> Next {
        let mut selection: BTreeMap<ShardIndex, Vec<u32>> = BTreeMap::new();
        for (index, owner) in self.owners.iter().enumerate().filter(|(index, _)| self.outcomes[*index].is_none()) {
            selection.entry(owner.expect("located or known by its debit")).or_default().push(index as u32);
        }
        if selection.is_empty() {
            return self.reply();
        }
        assert!(self.owners.len() == self.items.len(), "a shard for each item");
        self.phase = Phase::Deciding;
        self.undecided.clear();
        let mut calls = Vec::with_capacity(selection.len());
        for (shard, selection) in selection {
            calls.push((
                shard,
                self.items.operation(Selection::Some(selection.clone()), self.failed, self.facts.clone()),
            ));
            self.asked.push((shard, Some(selection)));
        }
        Next::Calls(calls)
    }

    fn describe(&mut self, shard_count: u16) -> Next {
        assert!(shard_count > 1, "the only shard knows all accounts");
        assert!(self.undecided.len() <= self.items.len(), "an item waits for its account once");
        let credits = self.undecided.iter().map(|index| self.items.credit(*index as usize));
        let mut ids: BTreeMap<ShardIndex, Vec<Box<str>>> = BTreeMap::new();
        for credit in credits.collect::<BTreeSet<&str>>() {
            ids.entry(shard_of(credit, shard_count)).or_default().push(credit.into());
        }
        self.phase = Phase::Describing;
        self.asked = ids.keys().map(|shard| (*shard, None)).collect();
        Next::Calls(ids.into_iter().map(|(shard, ids)| (shard, Operation::Describe(ids))).collect())
    }

    /// Of a linked group, one id is damaged, so nothing is journaled for any of them: all of the group is asked again.
    fn reply_damaged(&mut self) -> Next {
        let damaged = self.outcomes.iter().copied().find(is_damaged).flatten().expect("one is damaged");
        Next::Reply(Reply::Outcomes(vec![damaged; self.items.len()]))
    }

    fn reply(&mut self) -> Next {
        // One id may be refused by its home, and another one be damaged where the rest is decided.
        if self.items.is_linked() && self.outcomes.iter().any(is_damaged) {
            return self.reply_damaged();
        }
        let outcomes = std::mem::take(&mut self.outcomes);
        assert!(outcomes.len() == self.items.len(), "an outcome for each item");
        // Of a linked group, some may have failed at the homes of their ids before others met damage.
        let is_damaged = |outcome: &&Outcome| matches!(outcome, Outcome::Refused(Refusal::Damaged(_)));
        if let Some(damaged) = outcomes.iter().flatten().find(is_damaged).filter(|_| self.items.is_linked()) {
            return Next::Reply(Reply::Outcomes(vec![*damaged; outcomes.len()]));
        }
        Next::Reply(Reply::Outcomes(outcomes.into_iter().map(|outcome| outcome.expect("all are decided")).collect()))
    }
}

fn is_damaged(outcome: &Option<Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Refused(Refusal::Damaged(_))))
}

impl Items {
    fn len(&self) -> usize {
        match self {
            Items::Transfers { batch, .. } => batch.len(),
            Items::Holds { holds, .. } => holds.len(),
            Items::Posts(posts) => posts.len(),
            Items::Voids(ids) => ids.len(),
            Items::Opens(batch) => batch.len(),
        }
    }

    fn is_linked(&self) -> bool {
        matches!(self, Items::Transfers { linked: true, .. } | Items::Holds { linked: true, .. })
    }

    fn id(&self, index: usize) -> &str {
        match self {
            Items::Transfers { batch, .. } => batch.get(index).id,
            Items::Holds { holds, .. } => &holds[index].id,
            Items::Posts(posts) => &posts[index].0,
            Items::Voids(ids) => &ids[index],
            Items::Opens(batch) => batch.get(index).0,
        }
    }

    fn credit(&self, index: usize) -> &str {
        match self {
            Items::Transfers { batch, .. } => batch.get(index).credit,
            Items::Holds { holds, .. } => &holds[index].credit,
            Items::Posts(_) | Items::Voids(_) => unreachable!("a post's credit account is known since its hold"),
            Items::Opens(_) => unreachable!("who opens an account credits none"),
        }
    }

    /// The shard of the debit account decides; that of a hold must be located first.
    fn deciding_shard(&self, index: usize, shard_count: u16) -> Option<ShardIndex> {
        match self {
            Items::Transfers { batch, .. } => Some(shard_of(batch.get(index).debit, shard_count)),
            Items::Holds { holds, .. } => Some(shard_of(&holds[index].debit, shard_count)),
            Items::Posts(_) | Items::Voids(_) => None,
            Items::Opens(batch) => Some(shard_of(batch.get(index).0, shard_count)),
        }
    }

    /// What can be refused without looking at any state, so that nothing malformed claims an id.
    fn validate(&self, index: usize) -> Result<(), Refusal> {
        match self {
            Items::Transfers { batch, .. } => check_transfer(&batch.get(index)),
            Items::Holds { holds, .. } => check_hold(&holds[index].borrow()),
            Items::Posts(_) | Items::Voids(_) | Items::Opens(_) => Ok(()),
        }
    }

    fn digest(&self, index: usize) -> ContentDigest {
        match self {
            Items::Transfers { batch, .. } => content_digest(&batch.get(index)),
            Items::Holds { holds, .. } => content_digest(&holds[index].borrow()),
            Items::Posts(_) | Items::Voids(_) | Items::Opens(_) => unreachable!("only transfers and holds claim ids"),
        }
    }

    fn operation(&self, selection: Selection, failed: bool, facts: Vec<AccountFact>) -> Operation {
        match self {
            Items::Transfers { batch, linked } => {
                Operation::Transfers { batch: batch.clone(), selection, linked: *linked, failed, facts }
            }
            Items::Holds { holds, linked: true } => {
                Operation::LinkedHolds { holds: holds.clone(), selection, failed, facts }
            }
            Items::Holds { holds, linked: false } => Operation::PlaceHolds { holds: holds.clone(), selection, facts },
            Items::Posts(posts) => Operation::PostHolds { posts: posts.clone(), selection },
            Items::Voids(ids) => Operation::VoidHolds { ids: ids.clone(), selection },
            Items::Opens(batch) => Operation::OpenAccounts { batch: batch.clone(), selection },
        }
    }
}
