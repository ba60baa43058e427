//! The ledger's rules written down a second time, as plainly as possible: shards only say where money is, no records,
//! no slots, unbounded integers. The properties compare the real one with it.

use std::collections::BTreeMap;

use crate::ledger::{AccountChange, AccountKind, AccountStatus, Content, Hold, Outcome, Refusal, Transfer};

#[derive(Clone, Debug)]
pub struct ModelAccount {
    pub asset: String,
    pub kind: AccountKind,
    pub home: usize,
    pub balance: i128,
    pub held: i128,
    pub status: AccountStatus,
    pub min: Option<i64>,
    pub max: Option<i64>,
}

/// What was asked under an id: debit, credit, amount, memo, the lifetime of a hold, code and user data.
type Asked = (String, String, u64, String, Option<u64>, (u32, String));

#[derive(Clone, Debug, PartialEq)]
enum Fate {
    Transferred,
    Refused(Refusal),
    Open { expires_at: u64 },
    Posted(u64),
    Voided,
    Expired,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    shard_count: usize,
    pub accounts: BTreeMap<String, ModelAccount>,
    ids: BTreeMap<String, (Asked, Fate)>,
    /// Credits that were decided and not taken in yet, in order.
    pub under_way: BTreeMap<(usize, usize), Vec<(String, i128)>>,
}

fn refused(refusal: Refusal) -> Outcome {
    Outcome::Refused(refusal)
}

impl Model {
    pub fn new(shard_count: usize) -> Model {
        Model { shard_count, ..Model::default() }
    }

    pub fn open(&mut self, id: &str, asset: &str, kind: AccountKind, home: usize) -> Outcome {
        let account = ModelAccount {
            asset: asset.into(),
            kind,
            home,
            balance: 0,
            held: 0,
            status: AccountStatus::Open,
            min: None,
            max: None,
        };
        match self.accounts.get(id) {
            Some(there) if there.asset == asset && there.kind == kind => Outcome::Duplicate,
            Some(_) => refused(Refusal::AccountExists),
            None => {
                self.accounts.insert(id.into(), account);
                Outcome::Applied
            }
        }
    }

    pub fn transfer(&mut self, t: Transfer<'_>) -> Outcome {
        let content = asked(&Content::Transfer(t));
        if let Err(refusal) = form(t.id, &content) {
            return refused(refusal);
        }
        if let Some((known, fate)) = self.ids.get(t.id) {
            return match fate {
                _ if *known != content => refused(Refusal::IdReused),
                Fate::Refused(refusal) => refused(*refusal),
                _ => Outcome::Duplicate,
            };
        }
        let verdict = self.rules(t.debit, t.credit, t.amount);
        if verdict.is_ok() {
            self.move_money(t.debit, t.credit, t.amount);
        }
        self.remember(t.id, content, verdict.map(|()| Fate::Transferred))
    }

    pub fn place(&mut self, h: Hold<'_>, now: u64) -> Outcome {
        let content = asked(&Content::Hold(h));
        if let Err(refusal) = form(h.id, &content) {
            return refused(refusal);
        }
        if let Some((known, fate)) = self.ids.get(h.id) {
            return match fate {
                _ if *known != content => refused(Refusal::IdReused),
                Fate::Refused(refusal) => refused(*refusal),
                _ => Outcome::Duplicate,
            };
        }
        let verdict = self.rules(h.debit, h.credit, h.amount);
        if verdict.is_ok() {
            self.account(h.debit).held += i128::from(h.amount);
        }
        self.remember(h.id, content, verdict.map(|()| Fate::Open { expires_at: now + h.expires_in_ms }))
    }

    pub fn post(&mut self, id: &str, amount: Option<u64>, now: u64) -> Outcome {
        if amount.is_some_and(|amount| amount == 0 || amount > i64::MAX as u64) {
            return refused(Refusal::AmountInvalid);
        }
        let Some((content, fate)) = self.ids.get(id).cloned() else { return refused(Refusal::HoldNotFound) };
        let (debit, credit, held, ..) = content;
        let posted = amount.unwrap_or(held);
        match fate {
            Fate::Transferred | Fate::Refused(_) => refused(Refusal::HoldNotFound),
            Fate::Posted(before) if before == posted => Outcome::Duplicate,
            Fate::Posted(_) => refused(Refusal::HoldPosted),
            Fate::Voided => refused(Refusal::HoldVoided),
            Fate::Expired => refused(Refusal::HoldExpired),
            Fate::Open { expires_at } if now >= expires_at => {
                self.close(id, Fate::Expired);
                refused(Refusal::HoldExpired)
            }
            Fate::Open { .. } if posted > held => refused(Refusal::PostExceedsHold),
            Fate::Open { .. } if self.settings(&debit, &credit, None, posted).is_err() => {
                refused(self.settings(&debit, &credit, None, posted).expect_err("it was looked at"))
            }
            Fate::Open { .. } => {
                self.close(id, Fate::Posted(posted));
                self.move_money(&debit, &credit, posted);
                Outcome::Applied
            }
        }
    }

    pub fn void(&mut self, id: &str, now: u64) -> Outcome {
        match self.ids.get(id).map(|(_, fate)| fate.clone()) {
            None | Some(Fate::Transferred | Fate::Refused(_)) => refused(Refusal::HoldNotFound),
            Some(Fate::Posted(_)) => refused(Refusal::HoldPosted),
            Some(Fate::Voided) => Outcome::Duplicate,
            Some(Fate::Expired) => refused(Refusal::HoldExpired),
            Some(Fate::Open { expires_at }) if now >= expires_at => {
                self.close(id, Fate::Expired);
                refused(Refusal::HoldExpired)
            }
            Some(Fate::Open { .. }) => {
                self.close(id, Fate::Voided);
                Outcome::Applied
            }
        }
    }

    /// All or nothing. Ids are new and distinct.
    pub fn linked(&mut self, items: &[Content<'_>], now: u64) -> Vec<Outcome> {
        let mut trial = self.clone();
        let mut decide = |item: &Content<'_>| match *item {
            Content::Transfer(transfer) => trial.transfer(transfer),
            Content::Hold(hold) => trial.place(hold, now),
        };
        let culprit = items.iter().enumerate().find_map(|(index, item)| match decide(item) {
            Outcome::Refused(refusal) => Some((index, refusal)),
            _ => None,
        });
        let Some((culprit, refusal)) = culprit else {
            *self = trial;
            return vec![Outcome::Applied; items.len()];
        };
        let each = |(index, item): (usize, &Content<'_>)| {
            let refusal = if index == culprit { refusal } else { Refusal::LinkedFailed };
            let content = asked(item);
            if form(item.id(), &content).is_ok() {
                self.remember(item.id(), content, Err(refusal));
            }
            refused(refusal)
        };
        items.iter().enumerate().map(each).collect()
    }

    pub fn tick(&mut self, now: &[u64]) {
        let over = |(id, (content, fate)): (&String, &(Asked, Fate))| {
            let home = self.accounts.get(&content.0)?.home;
            matches!(fate, Fate::Open { expires_at } if now[home] >= *expires_at).then(|| id.clone())
        };
        let over: Vec<String> = self.ids.iter().filter_map(over).collect();
        for id in over {
            self.close(&id, Fate::Expired);
        }
    }

    pub fn arrive(&mut self, from: usize, to: usize, count: usize) {
        let credits: Vec<_> = self.under_way.entry((from, to)).or_default().drain(..count).collect();
        for (account, amount) in credits {
            self.account(&account).balance += amount;
        }
    }

    pub fn is_new(&self, id: &str) -> bool {
        !self.ids.contains_key(id)
    }

    fn rules(&self, debit: &str, credit: &str, amount: u64) -> Result<(), Refusal> {
        let from = self.accounts.get(debit).ok_or(Refusal::DebitAccountNotFound)?;
        let to = self.accounts.get(credit).ok_or(Refusal::CreditAccountNotFound)?;
        if from.asset != to.asset {
            return Err(Refusal::AssetMismatch);
        }
        self.status(debit, credit)?;
        let available = from.balance - from.held;
        self.funds(debit, from, available, amount)?;
        self.settings(debit, credit, Some(available), amount)
    }

    fn status(&self, debit: &str, credit: &str) -> Result<(), Refusal> {
        match (self.accounts[debit].status, self.accounts[credit].status) {
            (AccountStatus::Closed, _) => Err(Refusal::DebitAccountClosed),
            (AccountStatus::DebitsFrozen | AccountStatus::Frozen, _) => Err(Refusal::DebitAccountFrozen),
            (_, AccountStatus::Closed) => Err(Refusal::CreditAccountClosed),
            (_, AccountStatus::Frozen) => Err(Refusal::CreditAccountFrozen),
            _ => Ok(()),
        }
    }

    /// Status and limits; the lower limit only where something is available to be left.
    fn settings(&self, debit: &str, credit: &str, available: Option<i128>, amount: u64) -> Result<(), Refusal> {
        self.status(debit, credit)?;
        let (from, to, amount) = (&self.accounts[debit], &self.accounts[credit], i128::from(amount));
        if let (Some(min), Some(available)) = (from.min, available)
            && available - amount < i128::from(min)
        {
            return Err(Refusal::BalanceBelowMin);
        }
        match to.max {
            Some(_) if to.home != from.home => Err(Refusal::LimitAcrossShards),
            Some(max) if to.balance + amount > i128::from(max) => Err(Refusal::BalanceAboveMax),
            _ => Ok(()),
        }
    }

    /// Only what the account says when nothing is under way to it counts as empty.
    pub fn change(&mut self, id: &str, change: &AccountChange<'_>) -> Outcome {
        if !is_account(id) {
            return refused(Refusal::AccountIdInvalid);
        }
        let Some(before) = self.accounts.get(id).cloned() else { return refused(Refusal::AccountNotFound) };
        let is_loosened = matches!(change.status, Some(AccountStatus::DebitsFrozen | AccountStatus::Frozen));
        if before.status == AccountStatus::Closed && is_loosened {
            return refused(Refusal::SettingNotAllowed);
        }
        let mut after = before.clone();
        after.status = change.status.unwrap_or(before.status);
        after.min = change.balance_min.unwrap_or(before.min);
        after.max = change.balance_max.unwrap_or(before.max);
        let closes = after.status == AccountStatus::Closed && before.status != AccountStatus::Closed;
        if closes && after.kind == AccountKind::Collector {
            return refused(Refusal::SettingNotAllowed);
        }
        if closes && (before.balance != 0 || before.held != 0) {
            return refused(Refusal::AccountNotEmpty);
        }
        if after.kind == AccountKind::Collector && (after.min.is_some() || after.max.is_some()) {
            return refused(Refusal::SettingNotAllowed);
        }
        let below_zero = |limit: Option<i64>| limit.is_some_and(|limit| limit < 0);
        let wallet_below_zero = after.kind == AccountKind::Wallet && (below_zero(after.min) || below_zero(after.max));
        if wallet_below_zero || matches!((after.min, after.max), (Some(min), Some(max)) if min > max) {
            return refused(Refusal::LimitsInvalid);
        }
        let coming = |((_, to), credits): (&(usize, usize), &Vec<(String, i128)>)| {
            *to == before.home && credits.iter().any(|(account, _)| account == id)
        };
        if closes && self.under_way.iter().any(coming) {
            after.status = AccountStatus::Frozen;
            self.accounts.insert(id.into(), after);
            return refused(Refusal::AccountInTransit);
        }
        let same = (before.status, before.min, before.max) == (after.status, after.min, after.max);
        self.accounts.insert(id.into(), after);
        if same { Outcome::Duplicate } else { Outcome::Applied }
    }

    pub fn open_holds(&self, account: &str) -> usize {
        let is_open = |(asked, fate): &&(Asked, Fate)| asked.0 == account && matches!(fate, Fate::Open { .. });
        self.ids.values().filter(is_open).count()
    }

    fn funds(&self, debit: &str, from: &ModelAccount, available: i128, amount: u64) -> Result<(), Refusal> {
        match from.kind {
            AccountKind::Collector => Err(Refusal::CollectorCreditOnly),
            AccountKind::Wallet if available < i128::from(amount) => {
                Err(Refusal::InsufficientFunds { available: available as u64 })
            }
            AccountKind::Wallet => Ok(()),
            AccountKind::Source => {
                let mates = self.accounts.iter().filter(|(id, other)| {
                    other.kind == AccountKind::Source
                        && other.asset == from.asset
                        && other.home == from.home
                        && *id != debit
                });
                let others: i128 = mates.map(|(_, other)| (other.held - other.balance).max(0)).sum();
                let issued = others + (i128::from(amount) - available).max(0);
                if issued > i128::from(i64::MAX) / self.shard_count as i128 { Err(Refusal::Overflow) } else { Ok(()) }
            }
        }
    }

    fn move_money(&mut self, debit: &str, credit: &str, amount: u64) {
        self.account(debit).balance -= i128::from(amount);
        let from = self.accounts[debit].home;
        let to = &self.accounts[credit];
        if to.home == from || to.kind == AccountKind::Collector {
            self.account(credit).balance += i128::from(amount);
        } else {
            let to = to.home;
            self.under_way.entry((from, to)).or_default().push((credit.into(), i128::from(amount)));
        }
    }

    fn close(&mut self, id: &str, how: Fate) {
        let (content, fate) = self.ids.get_mut(id).expect("an open hold");
        *fate = how;
        let (debit, held) = (content.0.clone(), i128::from(content.2));
        self.account(&debit).held -= held;
    }

    fn remember(&mut self, id: &str, content: Asked, verdict: Result<Fate, Refusal>) -> Outcome {
        let (fate, outcome) = match verdict {
            Ok(fate) => (fate, Outcome::Applied),
            Err(refusal) => (Fate::Refused(refusal), refused(refusal)),
        };
        self.ids.insert(id.into(), (content, fate));
        outcome
    }

    fn account(&mut self, id: &str) -> &mut ModelAccount {
        self.accounts.get_mut(id).expect("an account")
    }
}

fn asked(content: &Content<'_>) -> Asked {
    let (debit, credit, amount, memo, lifetime, label) = match *content {
        Content::Transfer(t) => (t.debit, t.credit, t.amount, t.memo, None, t.label),
        Content::Hold(h) => (h.debit, h.credit, h.amount, h.memo, Some(h.expires_in_ms), h.label),
    };
    (debit.into(), credit.into(), amount, memo.into(), lifetime, (label.code, label.user_data.into()))
}

/// Whether a person sees every character, and a client can ask for it: of those that nobody sees, the ones that the
/// properties draw.
fn is_id(id: &str) -> bool {
    let unseen = ['\u{3164}', '\u{2800}', '\u{fe0f}', '\u{e0041}', '\u{a0}', '\u{ad}'];
    !id.is_empty() && !id.contains(unseen) && id.trim() == id && id != "." && id != ".."
}

fn form(id: &str, (debit, credit, amount, memo, expires_in_ms, _): &Asked) -> Result<(), Refusal> {
    if !is_id(id) {
        return Err(Refusal::IdInvalid);
    }
    if *amount == 0 || *amount > i64::MAX as u64 {
        return Err(Refusal::AmountInvalid);
    }
    if memo.len() > 256 {
        return Err(Refusal::MemoTooLong);
    }
    if debit == credit {
        return Err(Refusal::SameAccount);
    }
    if expires_in_ms.is_some_and(|ms| ms == 0) {
        return Err(Refusal::ExpiryInvalid);
    }
    if !is_account(debit) || !is_account(credit) { Err(Refusal::AccountIdInvalid) } else { Ok(()) }
}

fn is_account(id: &str) -> bool {
    is_id(id) && !id.contains(['/', '*'])
}
