//! A fake ledger in a map. It answers every request of the HTTP door, and tests can make it fail.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use tidegate_ledger::changes::{After, Change, ChangeFilter, ChangeKind, ChangedAccount, ChangesError};
use tidegate_ledger::message::{AuditReport, ChangeRequest, HoldRequest, Reply, Request, TimeSpan, Unavailable};
use tidegate_machines::ledger::{
    self as ledger, AccountKind, AccountView, AssetView, HistoryRow, HoldView, IdSpace, Outcome, Refusal, RowKind,
    Transfer, TransferState, TransferView, check_hold, check_transfer, is_account_id,
};
use tidegate_machines::{DamagedPlace, RecordPosition};
use tidegate_telemetry::{Registry, render_prometheus};
use tokio::sync::oneshot;

use crate::http::{DrainStatus, Health, Operations};
use crate::ledger_http::{Backend, ChangePart, Changes, ChangesEnded, Replies};

/// A [`Backend`] over a map.
#[derive(Clone)]
pub struct FakeBackend {
    registry: Registry,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    accounts: BTreeMap<Box<str>, Account>,
    moves: HashMap<String, (Moved, Outcome)>,
    holds: BTreeMap<Box<str>, (HoldRequest, HoldState)>,
    assets: BTreeMap<Box<str>, u8>,
    unavailable: Option<Unavailable>,
    silent: Vec<oneshot::Sender<Reply>>,
    is_silent: bool,
    damaged: Option<&'static DamagedPlace>,
    health: Option<Health>,
    drain: DrainStatus,
    asked: usize,
    streams: usize,
    parts: usize,
    /// Debit, credit and amount of each transfer that the changes have, beside what was really done.
    changes: Vec<(Box<str>, Box<str>, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HoldState {
    Open,
    Posted(u64),
    Voided,
}

#[derive(PartialEq, Eq)]
struct Moved {
    debit: String,
    credit: String,
    amount: u64,
    memo: String,
}

struct Account {
    view: AccountView,
    rows: Vec<HistoryRow>,
}

impl FakeBackend {
    /// An empty ledger; `/metrics` shows the registry.
    pub fn new(registry: Registry) -> FakeBackend {
        FakeBackend { registry, state: Arc::default() }
    }

    /// From now on every request is answered so.
    pub fn unavailable(&self, why: Option<Unavailable>) {
        self.state.lock().unwrap().unavailable = why;
    }

    /// From now on no history can be read, because of this place.
    pub fn set_damaged(&self, place: DamagedPlace) {
        self.state.lock().unwrap().damaged = Some(Box::leak(Box::new(place)));
    }

    /// From now on no request is answered.
    pub fn silent(&self) {
        self.state.lock().unwrap().is_silent = true;
    }

    /// From now on the server is so.
    pub fn set_health(&self, health: Health) {
        self.state.lock().unwrap().health = Some(health);
    }

    /// From now on so many clients are connected.
    pub fn set_clients(&self, clients: u64) {
        self.state.lock().unwrap().drain.clients = clients;
    }

    /// How many requests came through the door.
    pub fn asked(&self) -> usize {
        self.state.lock().unwrap().asked
    }

    /// How many streams are read.
    pub fn streams(&self) -> usize {
        self.state.lock().unwrap().streams
    }

    /// How many parts of streams were read.
    pub fn parts(&self) -> usize {
        self.state.lock().unwrap().parts
    }

    /// Adds a transfer to the changes.
    pub fn change(&self, debit: &str, credit: &str, amount: u64) {
        self.state.lock().unwrap().changes.push((debit.into(), credit.into(), amount));
    }

    /// Dates the rows of `account`: the first one at a thousand seconds, each a thousand seconds later.
    pub fn date(&self, account: &str) {
        let mut state = self.state.lock().unwrap();
        let rows = &mut state.accounts.get_mut(account).unwrap().rows;
        rows.iter_mut().zip(1..).for_each(|(row, number)| row.time_ms = number * 1_000_000);
    }

    /// Dates the newest row of `account`.
    pub fn redate(&self, account: &str, time_ms: u64) {
        let mut state = self.state.lock().unwrap();
        state.accounts.get_mut(account).unwrap().rows.last_mut().unwrap().time_ms = time_ms;
    }

    /// Adds so many long rows to the history of `account`.
    pub fn lengthen(&self, account: &str, rows: usize) {
        let mut state = self.state.lock().unwrap();
        for number in 0..rows {
            state.move_money(&format!("row-{number}"), RowKind::Transfer, "source:shop", account, 1);
        }
        let rows = &mut state.accounts.get_mut(account).unwrap().rows;
        rows.iter_mut().for_each(|row| row.memo = "m".repeat(256).into());
    }

    /// Opens the accounts of the show and gives each wallet ten credits.
    pub fn seed(&self) {
        let mut state = self.state.lock().unwrap();
        state.open("source:shop", "credit", AccountKind::Source);
        for viewer in ["dave", "carol"] {
            let wallet = format!("wallet:{viewer}");
            state.open(&wallet, "credit", AccountKind::Wallet);
            let id = format!("seed:{viewer}");
            state.transfer(&Transfer {
                id: &id,
                debit: "source:shop",
                credit: &wallet,
                amount: 10,
                memo: "",
                label: Default::default(),
            });
        }
        for number in 1..=7 {
            state.open(&format!("candidate:{number}"), "credit", AccountKind::Collector);
        }
    }
}

impl Backend for FakeBackend {
    fn call(&self, request: Request) -> impl Future<Output = Reply> + Send + 'static {
        let mut state = self.state.lock().unwrap();
        state.asked += 1;
        let (answer, reply) = oneshot::channel();
        if state.is_silent {
            state.silent.push(answer);
        } else {
            if let Some(Health::Recovering { .. }) = state.health {
                state.unavailable = Some(Unavailable::Recovering);
            }
            let decided = state.unavailable.map(Reply::Unavailable).unwrap_or_else(|| state.decide(request));
            answer.send(decided).unwrap();
        }
        async move { reply.await.unwrap_or(Reply::Unavailable(Unavailable::Stopping)) }
    }

    type Replies = FakeReplies;

    fn open(&self, request: Request, _window: usize) -> Result<FakeReplies, Unavailable> {
        let Request::StreamHistory { id, before, rows_max } = request else { panic!("{request:?} has one reply") };
        let mut state = self.state.lock().unwrap();
        state.streams += 1;
        Ok(FakeReplies { state: self.state.clone(), id, before, rows_left: rows_max.unwrap_or(u64::MAX) })
    }

    type Changes = FakeChanges;

    fn changes(&self, after: After, filter: ChangeFilter) -> Result<FakeChanges, Unavailable> {
        let mut state = self.state.lock().unwrap();
        state.streams += 1;
        let passed = match after {
            After::Start => 0,
            After::Now => state.changes.len(),
            After::Cursor(text) => text.parse().unwrap_or(usize::MAX),
        };
        Ok(FakeChanges { state: self.state.clone(), filter, passed, is_at_end: false })
    }
}

/// Changes, two at a time. A cursor is the number of those before it.
pub struct FakeChanges {
    state: Arc<Mutex<State>>,
    filter: ChangeFilter,
    passed: usize,
    is_at_end: bool,
}

impl FakeChanges {
    fn decide(&mut self) -> Option<Result<ChangePart, ChangesEnded>> {
        let mut state = self.state.lock().unwrap();
        if let Some(why) = state.unavailable {
            return Some(Err(ChangesEnded::Unavailable(why)));
        }
        if self.passed > state.changes.len() {
            return Some(Err(ChangesEnded::Unreadable(ChangesError::CursorInvalid)));
        }
        let some: Vec<_> = state.changes[self.passed..].iter().take(2).cloned().collect();
        if some.is_empty() && self.is_at_end || state.is_silent {
            return None;
        }
        self.is_at_end = some.is_empty();
        let mut rows = Vec::new();
        for (debit, credit, amount) in some {
            self.passed += 1;
            let interests = [&debit, &credit].map(|account| (self.filter.interest)(account));
            if self.filter.kinds.contains(&ChangeKind::Transfer) && interests.iter().any(|i| i.visible && i.wanted) {
                rows.push(change(self.passed, [debit, credit], interests.map(|interest| interest.visible), amount));
            }
        }
        state.parts += 1;
        Some(Ok(ChangePart { rows, cursor: self.passed.to_string().into(), is_at_end: self.is_at_end }))
    }
}

fn change(number: usize, accounts: [Box<str>; 2], visible: [bool; 2], amount: u64) -> Change {
    let [debit, credit] = [0, 1].map(|side: usize| ChangedAccount {
        id: (&*accounts[side]).into(),
        balance_after: visible[side].then_some(number as i64),
    });
    Change {
        cursor: number.to_string().into(),
        shard: 0,
        sequence: number as u64,
        time_ms: 1,
        kind: ChangeKind::Transfer,
        id: Some(format!("space\u{1f}t{number}").into()),
        account: None,
        opened_kind: None,
        settings: None,
        decimals: None,
        code: 0,
        user_data: "".into(),
        debit: Some(debit),
        credit: Some(credit),
        asset: Some("credit".into()),
        amount: Some(amount),
        held: None,
        expires_at_ms: None,
        memo: "m".repeat(256).into(),
        refusal: None,
    }
}

impl Changes for FakeChanges {
    async fn next(&mut self) -> Result<ChangePart, ChangesEnded> {
        loop {
            if let Some(part) = self.decide() {
                return part;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

impl Drop for FakeChanges {
    fn drop(&mut self) {
        self.state.lock().unwrap().streams -= 1;
    }
}

/// A history, page by page.
pub struct FakeReplies {
    state: Arc<Mutex<State>>,
    id: Box<str>,
    before: Option<Box<str>>,
    rows_left: u64,
}

impl FakeReplies {
    /// The next part; `None` if nobody answers.
    fn decide(&mut self) -> Option<Reply> {
        let mut state = self.state.lock().unwrap();
        if state.is_silent {
            return None;
        }
        if let Some(why) = state.unavailable {
            return Some(Reply::Unavailable(why));
        }
        let limit = self.rows_left.min(1_000) as u32;
        let before = self.before.take();
        let page = Request::ReadHistory { id: self.id.clone(), before, limit, times: TimeSpan::ALL };
        let Reply::History { rows, next, .. } = state.decide(page) else {
            return Some(Reply::Refused(Refusal::AccountNotFound));
        };
        state.parts += 1;
        self.rows_left -= rows.len() as u64;
        let is_last = next.is_none() || self.rows_left == 0;
        self.before = next;
        Some(Reply::HistoryPart { rows, is_last })
    }
}

impl Replies for FakeReplies {
    async fn next(&mut self) -> Option<Reply> {
        match self.decide() {
            Some(reply) => Some(reply),
            None => std::future::pending().await,
        }
    }
}

impl Drop for FakeReplies {
    fn drop(&mut self) {
        self.state.lock().unwrap().streams -= 1;
    }
}

impl Operations for FakeBackend {
    fn health(&self) -> Health {
        self.state.lock().unwrap().health.clone().unwrap_or(Health::Serving)
    }

    fn metrics(&self) -> String {
        format!("tidegate_fake 1\n{}", render_prometheus(&self.registry.snapshot()))
    }

    fn drain(&self, per_second: u32) {
        self.state.lock().unwrap().drain.per_second = Some(per_second);
    }

    fn drain_status(&self) -> DrainStatus {
        self.state.lock().unwrap().drain
    }
}

impl State {
    fn decide(&mut self, request: Request) -> Reply {
        match request {
            Request::OpenAccount { id, asset, kind } => match self.accounts.get(&id) {
                _ if !is_account_id(&id) => Reply::Refused(Refusal::AccountIdInvalid),
                _ if asset.is_empty() || asset.len() > 32 || asset.contains(char::is_control) => {
                    Reply::Refused(Refusal::AssetInvalid)
                }
                Some(account) if account.view.asset == asset && account.view.kind == kind => {
                    Reply::AccountOpened { created: false, account: account.view.clone() }
                }
                Some(_) => Reply::Refused(Refusal::AccountExists),
                None => {
                    self.open(&id, &asset, kind);
                    Reply::AccountOpened { created: true, account: self.accounts[&id].view.clone() }
                }
            },
            Request::OpenAccounts(batch) => {
                let opened = (0..batch.len()).map(|index| {
                    let (id, asset, kind) = batch.get(index);
                    match self.decide(Request::OpenAccount { id: id.into(), asset: asset.into(), kind }) {
                        Reply::AccountOpened { created: true, .. } => Outcome::Applied,
                        Reply::AccountOpened { created: false, .. } => Outcome::Duplicate,
                        Reply::Refused(refusal) => Outcome::Refused(refusal),
                        other => unreachable!("{other:?} answers no opening"),
                    }
                });
                Reply::Outcomes(opened.collect())
            }
            Request::Transfers { batch, .. } => Reply::Outcomes(batch.iter().map(|t| self.transfer(&t)).collect()),
            Request::PlaceHolds(holds) | Request::PlaceLinkedHolds(holds) => {
                Reply::Outcomes(holds.into_iter().map(|hold| self.hold(hold)).collect())
            }
            Request::ReadTransfer { id } => match self.moves.get(&*id) {
                Some((moved, outcome)) => Reply::Transfer { shard: 0, transfer: Box::new(moved.view(&id, *outcome)) },
                None => Reply::Refused(Refusal::TransferNotFound),
            },
            Request::ReadHold { id } => match self.holds.get(&*id) {
                Some((hold, state)) => Reply::Hold { shard: 0, hold: Box::new(hold_view(hold, *state)) },
                None => Reply::Refused(Refusal::HoldNotFound),
            },
            Request::ListHolds { account, after, limit } => {
                if !self.accounts.contains_key(&account) {
                    return Reply::Refused(Refusal::AccountNotFound);
                }
                let of_account = |(hold, state): &&(HoldRequest, HoldState)| {
                    hold.debit == account && matches!(state, HoldState::Open)
                };
                let open: Vec<_> = self.holds.values().filter(of_account).collect();
                let first = after.unwrap_or(0) as usize;
                let end = open.len().min(first + limit as usize);
                let holds = open[first..end].iter().map(|(hold, state)| hold_view(hold, *state)).collect();
                Reply::Holds { holds, next: (end < open.len()).then_some(end as u64) }
            }
            Request::ChangeAccount { id, change } => match self.accounts.get_mut(&id) {
                None => Reply::Refused(Refusal::AccountNotFound),
                Some(account) => change_view(&mut account.view, &change),
            },
            Request::DeclareAsset { asset, decimals } => match self.assets.get(&asset) {
                Some(before) if *before != decimals => Reply::Refused(Refusal::AssetExists),
                before => {
                    let created = before.is_none();
                    self.assets.insert(asset, decimals);
                    Reply::AssetDeclared { created }
                }
            },
            Request::ListAssets => {
                let (issued, held) = (20, 3);
                let assets = self.assets.iter();
                Reply::Assets(
                    assets
                        .map(|(name, decimals)| AssetView {
                            name: name.clone(),
                            decimals: Some(*decimals),
                            issued,
                            held,
                        })
                        .collect(),
                )
            }
            Request::PostHolds(posts) => {
                Reply::Outcomes(posts.into_iter().map(|(id, amount)| self.post(&id, amount)).collect())
            }
            Request::VoidHolds(ids) => Reply::Outcomes(ids.into_iter().map(|id| self.void(&id)).collect()),
            Request::Announce(_) => Reply::Announced,
            Request::ReadAccount { id } => match self.accounts.get(&id) {
                Some(account) => Reply::Account(account.view.clone()),
                None => Reply::Refused(Refusal::AccountNotFound),
            },
            Request::ListAccounts { prefix, after, limit } => {
                let views = self.accounts.values().map(|account| &account.view);
                let after = after.unwrap_or_default();
                let page = views.filter(|view| view.id.starts_with(&*prefix) && *view.id > *after);
                Reply::Accounts(page.take(limit as usize).cloned().collect())
            }
            Request::ReadHistory { .. } if self.damaged.is_some() => {
                Reply::Refused(Refusal::Damaged(self.damaged.expect("it is there")))
            }
            Request::ReadHistory { id, before, limit, times } => match self.accounts.get(&id) {
                None => Reply::Refused(Refusal::AccountNotFound),
                Some(account) => match before.map_or(Ok(account.rows.len()), |before| before.parse()) {
                    Ok(end) if end <= account.rows.len() => {
                        let looked_at = if times.is_all() { limit as usize } else { 1_000 };
                        let (mut rows, mut at, mut is_end) = (Vec::new(), end, false);
                        while at > 0 && end - at < looked_at && rows.len() < limit as usize && !is_end {
                            at -= 1;
                            let row = &account.rows[at];
                            is_end = times.ends_before(row.time_ms);
                            rows.extend(times.contains(row.time_ms).then(|| row.clone()));
                        }
                        let next = (at > 0 && !is_end).then(|| at.to_string().into());
                        Reply::History { rows, next, held: Some(account.view.held) }
                    }
                    _ => Reply::Refused(Refusal::CursorInvalid),
                },
            },
            Request::StreamHistory { .. } => panic!("a stream has several replies"),
            Request::ReadAudit => Reply::Audit(vec![AuditReport {
                finished_at_ms: 1,
                sequence: 9,
                accounts_compared: self.accounts.len() as u64,
                ..AuditReport::default()
            }]),
        }
    }

    fn open(&mut self, id: &str, asset: &str, kind: AccountKind) {
        let view = AccountView {
            id: id.into(),
            asset: asset.into(),
            kind,
            balance: 0,
            held: 0,
            credited: 0,
            debited: 0,
            settings: None,
        };
        self.accounts.insert(id.into(), Account { view, rows: Vec::new() });
    }

    fn transfer(&mut self, transfer: &Transfer<'_>) -> Outcome {
        if let Err(refusal) = check_transfer(transfer) {
            return Outcome::Refused(refusal);
        }
        let moved = Moved {
            debit: transfer.debit.to_owned(),
            credit: transfer.credit.to_owned(),
            amount: transfer.amount,
            memo: transfer.memo.to_owned(),
        };
        match self.moves.get(transfer.id) {
            Some((before, _)) if *before != moved => return Outcome::Refused(Refusal::IdReused),
            Some((_, Outcome::Refused(refusal))) => return Outcome::Refused(*refusal),
            Some(_) => return Outcome::Duplicate,
            None => {}
        }
        let outcome = match self.refuse(transfer.debit, transfer.credit, transfer.amount) {
            Some(refusal) => Outcome::Refused(refusal),
            None => {
                self.move_money(transfer.id, RowKind::Transfer, transfer.debit, transfer.credit, transfer.amount);
                Outcome::Applied
            }
        };
        self.moves.insert(transfer.id.to_owned(), (moved, outcome));
        outcome
    }

    fn refuse(&self, debit: &str, credit: &str, amount: u64) -> Option<Refusal> {
        let Some(from) = self.accounts.get(debit) else { return Some(Refusal::DebitAccountNotFound) };
        let Some(to) = self.accounts.get(credit) else { return Some(Refusal::CreditAccountNotFound) };
        let available = from.view.available().max(0) as u64;
        match from.view.kind {
            _ if from.view.asset != to.view.asset => Some(Refusal::AssetMismatch),
            AccountKind::Collector => Some(Refusal::CollectorCreditOnly),
            AccountKind::Wallet if available < amount => Some(Refusal::InsufficientFunds { available }),
            AccountKind::Source if from.view.debited + u128::from(amount) > i64::MAX as u128 => Some(Refusal::Overflow),
            _ => None,
        }
    }

    fn move_money(&mut self, id: &str, kind: RowKind, debit: &str, credit: &str, amount: u64) {
        for (account, sign) in [(debit, -1), (credit, 1)] {
            let Account { view, rows } = self.accounts.get_mut(account).unwrap();
            view.balance += sign * amount as i64;
            if sign < 0 {
                view.debited += u128::from(amount);
            } else {
                view.credited += u128::from(amount);
            }
            let (id_space, id) = IdSpace::split(id);
            rows.push(HistoryRow {
                id: id.into(),
                id_space: id_space.into(),
                kind,
                debit: debit.into(),
                credit: credit.into(),
                amount,
                memo: "".into(),
                code: 0,
                user_data: "".into(),
                time_ms: 1,
                balance_after: view.balance,
            });
        }
    }

    fn hold(&mut self, hold: HoldRequest) -> Outcome {
        let HoldRequest { id, debit, credit, amount, .. } = &hold;
        let amount = *amount;
        if let Err(refusal) = check_hold(&hold.borrow()) {
            return Outcome::Refused(refusal);
        }
        match self.holds.get(id) {
            Some((before, _)) if *before == hold => return Outcome::Duplicate,
            Some(_) => return Outcome::Refused(Refusal::IdReused),
            None => {}
        }
        if let Some(refusal) = self.refuse(debit, credit, amount) {
            return Outcome::Refused(refusal);
        }
        self.accounts.get_mut(debit).unwrap().view.held += amount;
        self.holds.insert(id.clone(), (hold, HoldState::Open));
        Outcome::Applied
    }

    fn post(&mut self, id: &str, amount: Option<u64>) -> Outcome {
        if id.is_empty() {
            return Outcome::Refused(Refusal::IdInvalid);
        }
        let Some((hold, state)) = self.holds.get_mut(id) else { return Outcome::Refused(Refusal::HoldNotFound) };
        let posted = amount.unwrap_or(hold.amount);
        match *state {
            _ if posted == 0 => return Outcome::Refused(Refusal::AmountInvalid),
            HoldState::Posted(before) if before == posted => return Outcome::Duplicate,
            HoldState::Posted(_) => return Outcome::Refused(Refusal::HoldPosted),
            HoldState::Voided => return Outcome::Refused(Refusal::HoldVoided),
            HoldState::Open if posted > hold.amount => return Outcome::Refused(Refusal::PostExceedsHold),
            HoldState::Open => *state = HoldState::Posted(posted),
        }
        let hold = hold.clone();
        self.accounts.get_mut(&hold.debit).unwrap().view.held -= hold.amount;
        self.move_money(id, RowKind::Post, &hold.debit, &hold.credit, posted);
        Outcome::Applied
    }

    fn void(&mut self, id: &str) -> Outcome {
        let Some((hold, state)) = self.holds.get_mut(id) else { return Outcome::Refused(Refusal::HoldNotFound) };
        match *state {
            HoldState::Posted(_) => Outcome::Refused(Refusal::HoldPosted),
            HoldState::Voided => Outcome::Duplicate,
            HoldState::Open => {
                *state = HoldState::Voided;
                self.accounts.get_mut(&hold.debit).unwrap().view.held -= hold.amount;
                Outcome::Applied
            }
        }
    }
}

impl Moved {
    fn view(&self, id: &str, outcome: Outcome) -> TransferView {
        let refused = match outcome {
            Outcome::Refused(refusal) => Some(refusal),
            _ => None,
        };
        let content = |text: &str| if refused.is_some() { "".into() } else { text.into() };
        TransferView {
            id: id.into(),
            state: refused.map_or(TransferState::Applied, TransferState::Refused),
            debit: content(&self.debit),
            credit: content(&self.credit),
            amount: if refused.is_some() { 0 } else { self.amount },
            memo: content(&self.memo),
            code: 0,
            user_data: "".into(),
            time_ms: 5,
            at: RecordPosition(77),
        }
    }
}

fn hold_view(hold: &HoldRequest, state: HoldState) -> HoldView {
    HoldView {
        id: hold.id.clone(),
        state: match state {
            HoldState::Open => ledger::HoldState::Open { expires_at_ms: 5 + hold.expires_in_ms },
            HoldState::Posted(amount) => ledger::HoldState::Posted { amount },
            HoldState::Voided => ledger::HoldState::Voided,
        },
        debit: hold.debit.clone(),
        credit: hold.credit.clone(),
        amount: hold.amount,
        expires_in_ms: hold.expires_in_ms,
        memo: hold.memo.clone(),
        code: hold.code,
        user_data: hold.user_data.clone(),
        time_ms: 5,
        at: RecordPosition(78),
    }
}

/// As the ledger does it, without its rules.
fn change_view(view: &mut AccountView, change: &ChangeRequest) -> Reply {
    let before = view.settings.as_deref().cloned().unwrap_or_default();
    if change.if_revision.is_some_and(|revision| revision != before.revision) {
        return Reply::Refused(Refusal::RevisionStale { revision: before.revision });
    }
    let change = change.borrow();
    let mut after = before.clone();
    after.rules.status = change.status.unwrap_or(before.status);
    after.rules.balance_min = change.balance_min.unwrap_or(before.balance_min);
    after.rules.balance_max = change.balance_max.unwrap_or(before.balance_max);
    for (key, value) in change.metadata.iter() {
        match value {
            Some(value) => after.metadata.insert(key.into(), value.into()),
            None => after.metadata.remove(key),
        };
    }
    let changed = after != before;
    after.revision += u64::from(changed);
    if changed {
        view.settings = Some(std::sync::Arc::new(after));
    }
    Reply::AccountChanged { changed, account: view.clone() }
}
