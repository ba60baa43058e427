//! The oracle: what clients asked, what they were told, and so what must be true from now on.
//!
//! ```text
//!   Ask, Reply ─▶ Model ─▶ per id: at most one content, one verdict for ever, applied at most once
//!                      └─▶ per account: figures that only grow, rows that never change or vanish
//!   Census (everything read through the door while all is quiet) ─▶ compare: nothing lost, nothing twice, all adds up
//! ```
//!
//! Why it is not a second ledger: it never decides. It knows only promises, so it cannot share a mistake with the code
//! that decides, and an answer that was never seen binds it to nothing: the request was done once or not at all.

mod account;
mod census;
mod changes;
mod hold;
mod id;
mod lookup;
mod moments;
mod page;
mod remembered;
mod settings;

use std::collections::BTreeMap;

use tidegate_ledger::message::{ChangeRequest, Reply};
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::{AccountKind, AccountStatus, AccountView, Outcome, Refusal};

use crate::ledger::ask::{Ask, Content, Item};
use crate::violation::{Violation, must};
use account::{AccountStory, Floor};
pub use census::Census;
pub use changes::SeenChanges;
use hold::Close;
use id::IdStory;
use moments::Moments;
use remembered::Times;

/// The asset whose amounts are so large that sources meet the bound on what they may issue.
pub const HUGE_ASSET: &str = "gem";

/// A moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Requests and answers until then.
    count: u64,
    /// How old anything may have become by then since the beginning, at most, in milliseconds.
    aged_ms: u64,
    /// The time of the process, and a time that no shard's is beyond.
    now_ms: u64,
    latest_ms: u64,
}

/// One sending of a request: what was known when it left.
#[derive(Clone, Debug)]
pub struct Sent {
    stamp: Stamp,
    floor: Option<Floor>,
}

/// What an answer means to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It is the answer.
    Settled,
    /// Nobody knows; ask again.
    AskAgain,
    /// What it rests on is damaged; ask again once it is put right.
    Damaged,
}

/// Everything that clients know.
#[derive(Clone, Default)]
pub struct Model {
    stamp: Stamp,
    shard_count: u16,
    accounts: BTreeMap<String, AccountStory>,
    ids: BTreeMap<String, IdStory>,
    /// Linked groups that were asked.
    groups: Vec<Vec<Item>>,
    times: Times,
    moments: Moments,
    refusals_checked: u64,
}

impl Model {
    /// Nothing is known of a node with `shard_count` shards.
    pub fn new(shard_count: u16) -> Model {
        Model { shard_count, ..Model::default() }
    }

    /// Hears how old anything may have become since the beginning, at most, and the time of the process, both in
    /// milliseconds.
    pub fn time_passes(&mut self, aged_ms: u64, now_ms: u64) {
        self.times.pass(self.stamp, now_ms, aged_ms - self.stamp.aged_ms);
        self.stamp.aged_ms = aged_ms;
        (self.stamp.now_ms, self.stamp.latest_ms) = self.times.now();
    }

    /// Refusals for want of funds that the last census has shown to be right.
    pub fn refusals_checked(&self) -> u64 {
        self.refusals_checked
    }

    /// Notes that `ask` is sent, once more or for the first time.
    pub fn sent(&mut self, ask: &Ask) -> Sent {
        self.stamp.count += 1;
        let stamp = self.stamp;
        let mut floor = None;
        match ask {
            Ask::Open { id, asset, kind } => self.account(id).sent(asset, *kind),
            Ask::Transfers { linked, items } | Ask::Holds { linked, items } => {
                let linked = *linked;
                for Item { id, content } in items {
                    self.ids.entry(id.clone()).or_default().sent(content, linked, stamp);
                }
                if linked && !self.groups.contains(items) {
                    self.groups.push(items.clone());
                }
            }
            Ask::Posts(posts) => {
                for (id, amount) in posts {
                    self.ids.entry(id.clone()).or_default().hold.sent(Close::Post(*amount));
                }
            }
            Ask::Voids(ids) => {
                for id in ids {
                    self.ids.entry(id.clone()).or_default().hold.sent(Close::Void);
                }
            }
            Ask::Change { id, change } => self.account(id).settings.sent(change, stamp),
            Ask::Read { id } => floor = Some(self.account(id).floor()),
            ask => assert!(!ask.decides(), "{ask:?} is a promise to hear of"),
        }
        Sent { stamp, floor }
    }

    /// Takes the answer to a sending of `ask`.
    pub fn answered(&mut self, ask: &Ask, sent: &Sent, reply: &Reply) -> Result<Heard, Violation> {
        self.stamp.count += 1;
        if let Reply::Unavailable(_) = reply {
            return Ok(Heard::AskAgain);
        }
        if let Reply::Refused(Refusal::Damaged(_)) = reply {
            return Ok(Heard::Damaged);
        }
        match (ask, reply) {
            (Ask::Open { id, asset, kind }, Reply::AccountOpened { created, account }) => {
                self.check_view(account, None)?;
                let now = self.stamp;
                self.account(id).opened(asset, *kind, *created, account, sent.stamp, now)?;
            }
            (Ask::Open { id, asset, kind }, Reply::Refused(Refusal::AccountExists)) => {
                self.account(id).exists_otherwise(id, asset, *kind)?;
            }
            (Ask::Transfers { linked, items } | Ask::Holds { linked, items }, Reply::Outcomes(outcomes)) => {
                self.items_answered(items, outcomes, *linked, sent)?;
            }
            (Ask::ReadTransfer { id }, Reply::Transfer { transfer, .. }) => self.transfer_read(id, transfer)?,
            (Ask::ReadHold { id }, Reply::Hold { hold, .. }) => self.hold_read(id, hold, sent)?,
            (Ask::ReadTransfer { id }, Reply::Refused(Refusal::TransferNotFound)) => self.not_found(id, false, sent)?,
            (Ask::ReadHold { id }, Reply::Refused(Refusal::HoldNotFound)) => self.not_found(id, true, sent)?,
            (Ask::Posts(posts), Reply::Outcomes(outcomes)) => {
                count(posts.len(), outcomes)?;
                for ((id, amount), outcome) in posts.iter().zip(outcomes).filter(|(_, outcome)| !is_damaged(outcome)) {
                    self.closed(id, Close::Post(*amount), *outcome, sent)?;
                }
            }
            (Ask::Voids(ids), Reply::Outcomes(outcomes)) => {
                count(ids.len(), outcomes)?;
                for (id, outcome) in ids.iter().zip(outcomes).filter(|(_, outcome)| !is_damaged(outcome)) {
                    self.closed(id, Close::Void, *outcome, sent)?;
                }
            }
            (Ask::Change { id, change }, Reply::AccountChanged { account, .. }) => {
                must(*account.id == **id, "a change is of what was asked", || format!("asked {id}, got {account:?}"))?;
                self.check_view(account, None)?;
                let now = self.stamp;
                self.account(id).settings.answered(change, account, now)?;
            }
            (Ask::Change { id, change }, Reply::Refused(refusal)) => self.change_refused(id, change, *refusal)?,
            (Ask::Read { id }, Reply::Account(view)) => {
                must(*view.id == **id, "a read is about what was asked", || format!("asked {id}, got {view:?}"))?;
                self.check_view(view, sent.floor.as_ref())?;
            }
            (Ask::ReadAt { id, at_ms, .. }, Reply::BalanceAt { found, .. }) => {
                self.balance_at_answered(id, *at_ms, found)?;
            }
            (
                Ask::Read { id } | Ask::ReadAt { id, .. } | Ask::History { id, .. },
                Reply::Refused(Refusal::AccountNotFound),
            ) => {
                let known = self.accounts.get(id).is_some_and(|account| account.was_open_at(sent.stamp));
                must(!known, "no acknowledged account is lost", || format!("{id} is not found"))?;
            }
            (Ask::History { id, limit, .. }, Reply::History { rows, next, .. }) => {
                self.page_answered(id, *limit, rows, next.is_some())?;
            }
            (Ask::List { prefix, after, limit }, Reply::Accounts(views)) => {
                page::check_list(prefix, after.as_deref(), *limit, views)?;
                views.iter().try_for_each(|view| self.check_view(view, None))?;
            }
            (Ask::Audit, Reply::Audit(reports)) => {
                let complete = reports.len() == self.shard_count as usize;
                must(complete, "every shard reports its audit", || format!("{reports:?}"))?;
                let agree = reports.iter().all(|report| report.differences.is_empty());
                must(agree, "the auditor agrees with the live state", || format!("{reports:?}"))?;
            }
            (ask, reply) => {
                return Err(Violation::of("an answer fits its request", format!("{ask:?} was answered {reply:?}")));
            }
        }
        match reply {
            Reply::Outcomes(outcomes) if outcomes.iter().any(is_damaged) => Ok(Heard::Damaged),
            _ => Ok(Heard::Settled),
        }
    }

    /// Changes are made of accounts that are open, and name a revision.
    fn change_refused(&mut self, id: &str, change: &ChangeRequest, refusal: Refusal) -> Result<(), Violation> {
        let told = || format!("{id}: {change:?} was answered {refusal:?}");
        let revision = match refusal {
            Refusal::RevisionStale { revision } => {
                must(Some(revision) != change.if_revision, "a refusal has its reason", told)?;
                Some(revision)
            }
            Refusal::AccountNotEmpty | Refusal::AccountInTransit => {
                must(change.status == Some(AccountStatus::Closed), "a refusal has its reason", told)?;
                None
            }
            Refusal::SettingNotAllowed => {
                let was_closed = self.account(id).settings.may_have_been(|status| status == AccountStatus::Closed);
                must(was_closed, "a refusal has its reason", told)?;
                None
            }
            _ => return Err(Violation::of("a refusal has its reason", told())),
        };
        self.account(id).settings.refused(change, revision);
        Ok(())
    }

    /// The revision of an account that somebody may change, and its last status that was certain.
    pub fn changeable(&self, id: &str) -> Option<(u64, AccountStatus)> {
        let account = self.accounts.get(id).filter(|account| account.is_open())?;
        Some((account.settings.next_revision()?, account.settings.last_status()))
    }

    /// Whether all shards know that an account is open: nothing was set, or a change to that was answered.
    pub fn is_surely_open(&self, id: &str) -> bool {
        let settings = self.accounts.get(id).map(|account| &account.settings);
        settings.and_then(|settings| settings.in_force(self.stamp, self.stamp)) == Some(AccountStatus::Open)
    }

    /// What was sent at `sent` and is known now to be done kept to what was set on both accounts.
    fn check_status(&self, debit: &str, credit: &str, sent: Stamp, told: impl Fn() -> String) -> Result<(), Violation> {
        let status = |id: &str| {
            let settings = self.accounts.get(id).map(|account| &account.settings);
            settings.and_then(|settings| settings.in_force(sent, self.stamp)).unwrap_or_default()
        };
        must(status(debit).forbids_debit().is_none(), "nothing leaves a frozen account", &told)?;
        must(status(credit).forbids_credit().is_none(), "nothing enters a frozen account", &told)
    }

    /// Whether the status of the two accounts may have been the reason, at some moment since `sent`.
    fn may_be_frozen(&self, content: &Content, refusal: Refusal, sent: Option<Stamp>) -> bool {
        let may = |id: &str, forbids: fn(AccountStatus) -> Option<Refusal>| {
            let Some(account) = self.accounts.get(id) else { return false };
            let in_force = sent.and_then(|sent| account.settings.in_force(sent, self.stamp));
            match in_force {
                Some(status) => forbids(status) == Some(refusal),
                None => account.settings.may_have_been(|status| forbids(status) == Some(refusal)),
            }
        };
        may(&content.debit, AccountStatus::forbids_debit) || may(&content.credit, AccountStatus::forbids_credit)
    }

    fn account(&mut self, id: &str) -> &mut AccountStory {
        self.accounts.entry(id.to_owned()).or_default()
    }

    fn items_answered(
        &mut self,
        items: &[Item],
        outcomes: &[Outcome],
        linked: bool,
        sent: &Sent,
    ) -> Result<(), Violation> {
        count(items.len(), outcomes)?;
        if linked {
            let damaged = outcomes.iter().filter(|outcome| is_damaged(outcome)).count();
            must(damaged == 0 || damaged == outcomes.len(), "damage refuses all of a linked group", || {
                format!("{items:?}: {outcomes:?}")
            })?;
        }
        for (item, outcome) in items.iter().zip(outcomes).filter(|(_, outcome)| !is_damaged(outcome)) {
            self.item_answered(item, *outcome, linked, sent)?;
        }
        if linked {
            self.check_group(items).map_err(|violation| Violation {
                detail: format!("answered {outcomes:?}: {}", violation.detail),
                ..violation
            })?;
        }
        Ok(())
    }

    /// No member of a linked group is known to be applied while another is known not to be, unless it was sent alone,
    /// too.
    fn check_group(&self, items: &[Item]) -> Result<(), Violation> {
        let member = |Item { id, content }: &Item| self.ids.get(id).and_then(|story| story.fate_in_group(content));
        let fates: Vec<Option<bool>> = items.iter().map(member).collect();
        let split = fates.contains(&Some(true)) && fates.contains(&Some(false));
        must(!split, "a linked group is all or nothing", || format!("{items:?}: applied {fates:?}"))
    }

    fn item_answered(&mut self, item: &Item, outcome: Outcome, linked: bool, sent: &Sent) -> Result<(), Violation> {
        let Item { id, content } = item;
        if let Some(expected) = form_refusal(content) {
            return must(
                outcome.as_if_new() == Outcome::Refused(expected),
                "what is malformed is refused as that",
                || format!("{item:?} was answered {outcome:?}"),
            );
        }
        if let Some(refusal) = outcome.refusal() {
            let grouped = linked || self.ids.get(id).is_some_and(|story| story.was_sent_linked(content));
            // What was refused before was refused at any time since it was sent first.
            let newly = matches!(outcome, Outcome::Refused(_)).then_some(sent.stamp);
            let plausible = self.may_refuse(content, refusal, grouped, self.first_sent(id, content))
                || self.may_be_frozen(content, refusal, newly);
            must(plausible, "a refusal has its reason", || format!("{item:?} was answered {outcome:?}"))?;
            if refusal == Refusal::LinkedAcrossShards {
                return Ok(());
            }
        } else {
            self.may_apply(item)?;
        }
        if outcome == Outcome::Applied {
            let told = || format!("{item:?} was applied");
            self.check_status(&content.debit, &content.credit, sent.stamp, told)?;
        }
        if let Outcome::RefusedBefore { decided_at, .. } = outcome {
            let known = self.ids.get(id).and_then(|story| story.known_since(content));
            let told = || format!("{item:?} was answered {outcome:?}");
            self.check_decided_at(decided_at.0, self.first_sent(id, content), known, told)?;
        }
        let now = self.stamp;
        let story = self.ids.get_mut(id).expect("only what was sent is answered");
        let newly_applied = story.answered(id, content, outcome, sent.stamp, now)?;
        if newly_applied && content.expires_in_ms.is_none() {
            self.account(&content.debit).note_debit(content.amount);
        }
        Ok(())
    }

    fn first_sent(&self, id: &str, content: &Content) -> Stamp {
        self.ids.get(id).and_then(|story| story.first_sent(content)).unwrap_or_default()
    }

    /// Whether this refusal can be right for this content, whose first sending was at `first_sent`.
    fn may_refuse(&self, content: &Content, refusal: Refusal, linked: bool, first_sent: Stamp) -> bool {
        let (debit, credit) = (self.accounts.get(&content.debit), self.accounts.get(&content.credit));
        let (debit_kind, credit_kind) = (debit.and_then(AccountStory::content), credit.and_then(AccountStory::content));
        let was_open = |account: Option<&AccountStory>| account.is_some_and(|account| account.was_open_at(first_sent));
        match refusal {
            Refusal::IdReused => true,
            Refusal::InsufficientFunds { available } => {
                debit_kind.is_none_or(|(_, kind)| kind == AccountKind::Wallet) && (linked || available < content.amount)
            }
            Refusal::DebitAccountNotFound => !was_open(debit),
            Refusal::CreditAccountNotFound => !was_open(credit),
            Refusal::AssetMismatch => match (debit_kind, credit_kind) {
                (Some((debit, _)), Some((credit, _))) => debit != credit,
                _ => true,
            },
            Refusal::CollectorCreditOnly => debit_kind.is_none_or(|(_, kind)| kind == AccountKind::Collector),
            Refusal::Overflow => {
                debit_kind.is_none_or(|(asset, kind)| asset == HUGE_ASSET && kind == AccountKind::Source)
            }
            Refusal::BalanceBelowMin => debit.is_some_and(|account| account.settings.was_limited()),
            Refusal::BalanceAboveMax => credit.is_some_and(|account| account.settings.was_limited()),
            Refusal::LimitAcrossShards => {
                self.shard_count > 1 && credit.is_some_and(|account| account.settings.was_limited())
            }
            Refusal::LinkedFailed => linked,
            Refusal::LinkedAcrossShards => linked && self.shard_count > 1,
            _ => false,
        }
    }

    /// Whether this may ever be applied, whatever the balances.
    fn may_apply(&self, item: &Item) -> Result<(), Violation> {
        let content = &item.content;
        let asked = |id: &str| self.accounts.get(id).is_some_and(AccountStory::was_asked_for);
        must(asked(&content.debit) && asked(&content.credit), "money moves between accounts that exist", || {
            format!("{item:?} was applied")
        })?;
        let of = |id: &str| self.accounts.get(id).and_then(AccountStory::content);
        if let (Some((from, kind)), Some((to, _))) = (of(&content.debit), of(&content.credit)) {
            must(from == to, "a transfer keeps to one asset", || format!("{item:?} was applied"))?;
            must(kind != AccountKind::Collector, "a collector is only credited", || format!("{item:?} was applied"))?;
        }
        Ok(())
    }

    fn closed(&mut self, id: &str, close: Close, outcome: Outcome, sent: &Sent) -> Result<(), Violation> {
        let now = self.stamp;
        let placed = self.ids.get(id).and_then(IdStory::only_hold).cloned();
        if let (Some(content), Close::Post(_)) = (&placed, close) {
            let told = || format!("{close:?} of {id}, {content:?}, was answered {outcome:?}");
            if outcome == Outcome::Applied {
                self.check_status(&content.debit, &content.credit, sent.stamp, told)?;
            }
            // It is not remembered: who asks again is decided on again.
            let of_settings = |refusal: Refusal| {
                let limited = |id: &str| self.accounts.get(id).is_some_and(|account| account.settings.was_limited());
                match refusal {
                    Refusal::BalanceAboveMax => limited(&content.credit),
                    Refusal::LimitAcrossShards => self.shard_count > 1 && limited(&content.credit),
                    _ => self.may_be_frozen(content, refusal, Some(sent.stamp)),
                }
            };
            if outcome.refusal().is_some_and(of_settings) {
                return Ok(());
            }
        }
        let story = self.ids.get_mut(id).expect("only what was sent is answered");
        if let Some((debit, amount)) = story.closed(id, close, outcome, sent.stamp, now)? {
            self.account(&debit).note_debit(amount);
        }
        Ok(())
    }

    /// The figures of one account make sense, and are not older than what was known when the question left.
    fn check_view(&mut self, view: &AccountView, floor: Option<&Floor>) -> Result<(), Violation> {
        let asked = self.accounts.get(&*view.id).is_some_and(AccountStory::was_asked_for);
        must(asked, "only accounts that were asked for exist", || format!("{view:?}"))?;
        self.account(&view.id).viewed(view, floor)
    }

    /// Whether the hold `id` was placed with this one content, as far as any client knows, and how much it reserves.
    pub fn hold_amount(&self, id: &str) -> Option<u64> {
        self.ids.get(id)?.only_hold().map(|content| content.amount)
    }

    /// The transfer that is known to be applied under `id`.
    pub fn applied_transfer(&self, id: &str) -> Option<Item> {
        let content = self.ids.get(id)?.applied().filter(|content| content.expires_in_ms.is_none())?;
        Some(Item { id: id.to_owned(), content: content.clone() })
    }

    /// Whether some client knows what became of `id`.
    pub fn is_settled(&self, id: &str) -> bool {
        self.ids.get(id).is_some_and(IdStory::is_settled)
    }

    /// Ids that were ever sent.
    pub fn ids(&self) -> usize {
        self.ids.len()
    }

    /// Ids, as clients write them, under which something was applied in more than one id space.
    pub fn ids_of_several_spaces(&self) -> usize {
        let mut applied: BTreeMap<&str, u32> = BTreeMap::new();
        for (id, _) in self.ids.iter().filter(|(_, story)| story.applied().is_some()) {
            *applied.entry(IdSpace::split(id).1).or_default() += 1;
        }
        applied.values().filter(|spaces| **spaces > 1).count()
    }
}

fn count(asked: usize, outcomes: &[Outcome]) -> Result<(), Violation> {
    must(asked == outcomes.len(), "one outcome per item", || format!("{asked} asked, answered {outcomes:?}"))
}

/// It says nothing about the id: whoever has it asks again.
fn is_damaged(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused(Refusal::Damaged(_)))
}

/// What is wrong with a content whatever the state; the workload makes at most one mistake at a time.
fn form_refusal(content: &Content) -> Option<Refusal> {
    if content.amount == 0 || content.amount > i64::MAX as u64 {
        Some(Refusal::AmountInvalid)
    } else if content.memo.len() > 256 {
        Some(Refusal::MemoTooLong)
    } else if content.debit == content.credit {
        Some(Refusal::SameAccount)
    } else if content.expires_in_ms == Some(0) {
        Some(Refusal::ExpiryInvalid)
    } else if content.debit.contains(['/', '*']) || content.credit.contains(['/', '*']) {
        Some(Refusal::AccountIdInvalid)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
