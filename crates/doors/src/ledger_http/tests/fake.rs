//! A fake ledger in a map. It answers every request of the HTTP door, and tests can make it fail.

mod changes;
mod replies;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use tidegate_ledger::changes::{After, Change, ChangeFilter, ChangeKind, ChangedAccount, ChangesError};
use tidegate_ledger::message::{
    AuditReport, BalanceAt, CallerRequest, ChangeRequest, HoldRequest, Reply, Request, TimeSpan, Unavailable,
};
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::{
    self as ledger, AccountKind, AccountView, AssetView, HistoryRow, HoldView, Mend, Outcome, Refusal, RowKind,
    Transfer, TransferState, TransferView, check_hold, check_transfer, is_account_id,
};
use tidegate_machines::{DamagedPlace, RecordPosition, TimeMs};
use tidegate_telemetry::{Registry, render_prometheus};
use tokio::sync::oneshot;

use crate::http::{DrainStatus, Health, Operations};
use crate::ledger_http::{Backend, ChangePart, Changes, ChangesEnded, Replies};
use crate::turns::CallerName;
use changes::FakeChanges;
use replies::FakeReplies;

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
    mend: Option<(Mend, Option<TimeMs>)>,
    mended_by: Option<u64>,
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

    /// From now on nobody can tell the balance of a time: because of this mend, until then.
    pub fn set_mend(&self, mend: Mend, until: Option<TimeMs>) {
        self.state.lock().unwrap().mend = Some((mend, until));
    }

    /// From now on all rows of later times were written by `time_ms`, as a mend says.
    pub fn mended_by(&self, time_ms: u64) {
        self.state.lock().unwrap().mended_by = Some(time_ms);
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
    fn call(&self, CallerRequest { request, .. }: CallerRequest) -> impl Future<Output = Reply> + Send + 'static {
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

    fn open(&self, CallerRequest { request, .. }: CallerRequest, _window: usize) -> Result<FakeReplies, Unavailable> {
        let Request::StreamHistory { id, before, rows_max } = request else { panic!("{request:?} has one reply") };
        let mut state = self.state.lock().unwrap();
        state.streams += 1;
        Ok(FakeReplies { state: self.state.clone(), id, before, rows_left: rows_max.unwrap_or(u64::MAX) })
    }

    type Changes = FakeChanges;

    fn changes(&self, _: CallerName, after: After, filter: ChangeFilter) -> Result<FakeChanges, Unavailable> {
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

impl Operations for FakeBackend {
    fn health(&self) -> Health {
        self.state.lock().unwrap().health.clone().unwrap_or(Health::Serving)
    }

    fn metrics(&self, _: tidegate_telemetry::Exposition) -> String {
        format!("tidegate_fake 1\n{}", render_prometheus(&self.registry.snapshot()))
    }

    fn drain(&self, per_second: u32) {
        self.state.lock().unwrap().drain.per_second = Some(per_second);
    }

    fn end_drain(&self) {
        self.state.lock().unwrap().drain.per_second = None;
    }

    fn run_audit(&self) -> u64 {
        1_700_000_000_000
    }

    fn drain_status(&self) -> DrainStatus {
        self.state.lock().unwrap().drain
    }
}
