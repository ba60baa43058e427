//! Random commands on one to three shards, with late and repeated credits and with restarts: after every step the
//! ledger agrees with the model, and every promise of the module holds.

use proptest::prelude::*;

use super::cluster::Cluster;
use super::model::Model;
use crate::ledger::{AccountChange, AccountKind, AccountStatus, Content, Hold, Label, RowKind, Transfer};
use crate::machine::tests::{restore, snapshot};
use crate::{Machine, RecordPosition, ShardIndex};

/// The last ones cannot be opened: one is no id, and one looks like another.
const ACCOUNTS: [&str; 11] = [
    "shop",
    "press",
    "wallet:a",
    "wallet:b",
    "wallet:c",
    "candidate:1",
    "candidate:2",
    "euro:a",
    "not/valid",
    "wallet:a\u{fe0f}",
    "..",
];
/// How many of them can be opened.
const OPENED: usize = 8;
const IDS: [&str; 24] = [
    "t0",
    "t1",
    "t2",
    "t3",
    "t4",
    "t5",
    "t6",
    "t7",
    "t8",
    "t9",
    "t10",
    "t11",
    "t12",
    "t13",
    "t14",
    "t15",
    "t16",
    "t17",
    "t18",
    "t19",
    "t20",
    ".",
    "t1\u{3164}",
    "t2 ",
];

#[derive(Clone, Debug)]
enum Step {
    Open { account: usize, other: bool },
    Transfer(Move),
    Place(Move, u64),
    Post { id: usize, amount: Option<u64> },
    Void { id: usize },
    Linked(Vec<(Move, bool)>),
    Change { account: usize, change: Change },
    Deliver { from: usize, to: usize, back: u64, max: usize },
    DeliverTooEarly { from: usize, to: usize },
    Confirm { from: usize, to: usize },
    Clock { shard: usize, by: i64 },
    Tick,
    Replay { shard: usize },
    Restore { shard: usize },
}

#[derive(Clone, Copy, Debug)]
pub struct Change {
    status: Option<AccountStatus>,
    balance_min: Option<Option<i64>>,
    balance_max: Option<Option<i64>>,
}

#[derive(Clone, Copy, Debug)]
struct Move {
    id: usize,
    debit: usize,
    credit: usize,
    amount: u64,
    memo: bool,
    label: u32,
}

impl Move {
    fn transfer(&self) -> Transfer<'static> {
        let memo = if self.memo { "for the show" } else { "" };
        let (debit, credit) = (ACCOUNTS[self.debit], ACCOUNTS[self.credit]);
        let label = match self.label {
            0..4 => Label::NONE,
            4 => Label { code: 7, user_data: "" },
            5 => Label { code: 0, user_data: "order-7" },
            _ => Label { code: u32::MAX, user_data: "order-7" },
        };
        Transfer { id: IDS[self.id], debit, credit, amount: self.amount, memo, label }
    }

    fn hold(&self, expires_in_ms: u64) -> Hold<'static> {
        let Transfer { id, debit, credit, amount, memo, label } = self.transfer();
        Hold { id, debit, credit, amount, expires_in_ms, memo, label }
    }
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![
        12 => 1..30u64,
        1 => Just(0),
        1 => Just(i64::MAX as u64),
        1 => Just(i64::MAX as u64 / 2),
        1 => Just(i64::MAX as u64 / 3),
        1 => Just(1 << 63),
        1 => Just(u64::MAX),
    ]
}

fn one_move() -> impl Strategy<Value = Move> {
    // Money mostly comes from the shop, or little would ever move.
    let debit = prop_oneof![2 => 0..ACCOUNTS.len(), 3 => 0..1usize, 4 => 2..5usize];
    let credit = prop_oneof![1 => 0..ACCOUNTS.len(), 3 => 2..7usize];
    let parts = (0..IDS.len(), debit, credit, amount(), any::<bool>(), 0..7u32);
    parts.prop_map(|(id, debit, credit, amount, memo, label)| Move { id, debit, credit, amount, memo, label })
}

fn change() -> impl Strategy<Value = Change> {
    let status = prop_oneof![
        // Mostly open, or soon nothing would move.
        3 => Just(AccountStatus::Open),
        1 => Just(AccountStatus::DebitsFrozen),
        1 => Just(AccountStatus::Frozen),
        1 => Just(AccountStatus::Closed),
    ];
    let limit = |range| proptest::option::of(prop_oneof![2 => Just(None), 1 => range]);
    let min = limit((-40..10i64).prop_map(Some).boxed());
    let max = limit((-5..60i64).prop_map(Some).boxed());
    (proptest::option::of(status), min, max).prop_map(|(status, balance_min, balance_max)| Change {
        status,
        balance_min,
        balance_max,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let shards = || (0..3usize, 0..3usize);
    prop_oneof![
        1 => (0..OPENED, any::<bool>()).prop_map(|(account, other)| Step::Open { account, other }),
        12 => one_move().prop_map(Step::Transfer),
        6 => (one_move(), prop_oneof![1..50u64, Just(0)]).prop_map(|(m, ms)| Step::Place(m, ms)),
        4 => (0..IDS.len(), proptest::option::of(amount())).prop_map(|(id, amount)| Step::Post { id, amount }),
        2 => (0..IDS.len()).prop_map(|id| Step::Void { id }),
        2 => proptest::collection::vec((one_move(), any::<bool>()), 1..5).prop_map(Step::Linked),
        3 => (0..ACCOUNTS.len(), change()).prop_map(|(account, change)| Step::Change { account, change }),
        6 => (shards(), 0..3u64, 1..5usize).prop_map(|((from, to), back, max)| Step::Deliver { from, to, back, max }),
        1 => shards().prop_map(|(from, to)| Step::DeliverTooEarly { from, to }),
        2 => shards().prop_map(|(from, to)| Step::Confirm { from, to }),
        2 => (0..3usize, -30..30i64).prop_map(|(shard, by)| Step::Clock { shard, by }),
        1 => Just(Step::Tick),
        1 => (0..3usize).prop_map(|shard| Step::Replay { shard }),
        1 => (0..3usize).prop_map(|shard| Step::Restore { shard }),
    ]
}

fn kind_of(account: usize) -> (AccountKind, &'static str) {
    match account {
        0 | 1 => (AccountKind::Source, "credit"),
        5 | 6 => (AccountKind::Collector, "credit"),
        7 => (AccountKind::Wallet, "euro"),
        _ => (AccountKind::Wallet, "credit"),
    }
}

/// The real thing beside the model.
struct Twins {
    real: Cluster,
    model: Model,
}

impl Twins {
    fn new(shard_count: usize) -> Twins {
        Twins { real: Cluster::new(shard_count as u16), model: Model::new(shard_count) }
    }

    fn open(&mut self, account: usize, other: bool) {
        let (kind, asset) = kind_of(account);
        let asset = if other { "points" } else { asset };
        let id = ACCOUNTS[account];
        let home = self.real.home(id);
        assert_eq!(self.real.open(id, asset, kind), self.model.open(id, asset, kind, home));
    }

    /// The time at which a shard decides.
    fn times(&self) -> Vec<u64> {
        self.real.nodes.iter().map(|node| node.now.max(node.ledger.time().0)).collect()
    }

    fn step(&mut self, step: &Step) {
        let shards = self.real.nodes.len();
        let apart = |from: usize, to: usize| (from % shards != to % shards).then_some((from % shards, to % shards));
        match *step {
            Step::Open { account, other } => self.open(account, other),
            Step::Transfer(m) => assert_eq!(self.real.transfer(m.transfer()), self.model.transfer(m.transfer())),
            Step::Place(m, expires_in_ms) => self.place(m, expires_in_ms),
            Step::Post { id, amount } => {
                let now = self.time_of_hold(IDS[id]);
                assert_eq!(self.real.post(IDS[id], amount), self.model.post(IDS[id], amount, now));
            }
            Step::Void { id } => {
                let now = self.time_of_hold(IDS[id]);
                assert_eq!(self.real.void(IDS[id]), self.model.void(IDS[id], now));
            }
            Step::Linked(ref moves) => self.linked(moves),
            Step::Change { account, change: Change { status, balance_min, balance_max } } => {
                let change = AccountChange { status, balance_min, balance_max, ..AccountChange::default() };
                let id = ACCOUNTS[account];
                assert_eq!(self.real.change(id, change), self.model.change(id, &change), "{id} {change:?}");
            }
            Step::Deliver { from, to, back, max } => {
                let Some((from, to)) = apart(from, to) else { return };
                let taken = self.real.deliver(from, to, back, max);
                self.model.arrive(from, to, taken);
            }
            Step::DeliverTooEarly { from, to } => {
                let Some((from, to)) = apart(from, to) else { return };
                self.real.deliver_too_early(from, to);
            }
            Step::Confirm { from, to } => {
                let Some((from, to)) = apart(from, to) else { return };
                self.real.confirm(from, to);
            }
            Step::Clock { shard, by } => {
                let node = &mut self.real.nodes[shard % shards];
                node.now = node.now.saturating_add_signed(by);
            }
            Step::Tick => {
                self.model.tick(&self.times());
                self.real.tick();
            }
            Step::Replay { shard } => {
                let node = &mut self.real.nodes[shard % shards];
                node.ledger = node.replay();
            }
            Step::Restore { shard } => {
                let node = &mut self.real.nodes[shard % shards];
                node.ledger = restore(&snapshot(&node.ledger));
            }
        }
    }

    fn place(&mut self, m: Move, expires_in_ms: u64) {
        let hold = m.hold(expires_in_ms);
        let now = self.times()[self.real.home(hold.debit)];
        assert_eq!(self.real.place(hold), self.model.place(hold, now));
    }

    fn linked(&mut self, moves: &[(Move, bool)]) {
        let transfers: Vec<Transfer<'_>> = moves.iter().map(|(one, _)| one.transfer()).collect();
        let item = |&(one, is_hold): &(Move, bool)| {
            if is_hold { Content::Hold(one.hold(20)) } else { Content::Transfer(one.transfer()) }
        };
        let items: Vec<Content<'_>> = moves.iter().map(item).collect();
        let one_shard = transfers.iter().all(|t| self.real.home(t.debit) == self.real.home(transfers[0].debit));
        let new = transfers.iter().all(|t| self.model.is_new(t.id));
        let distinct = (1..transfers.len()).all(|n| transfers[..n].iter().all(|t| t.id != transfers[n].id));
        if one_shard && new && distinct {
            let now = self.times()[self.real.home(transfers[0].debit)];
            assert_eq!(self.real.linked(&items), self.model.linked(&items, now));
        }
    }

    fn time_of_hold(&self, id: &str) -> u64 {
        let is_claim = |event: &crate::ledger::Event<'_>| matches!(event, crate::ledger::Event::IdClaimed { .. });
        let holder = |node: &&super::node::Node| node.prior(id).is_some_and(|event| !is_claim(&event));
        self.real.nodes.iter().find(holder).map_or(0, |node| node.now.max(node.ledger.time().0))
    }

    /// What the module promises, at this very record of every shard.
    fn check(&self) {
        for node in &self.real.nodes {
            node.ledger.assert_sound();
            for totals in node.ledger.totals() {
                assert_eq!(totals.imbalance(), 0, "{totals:?}");
            }
            for account in node.ledger.figures(0, u32::MAX) {
                assert_eq!(i128::from(account.balance), account.credited as i128 - account.debited as i128);
                assert!(account.kind != AccountKind::Wallet || account.available() >= 0, "{account:?}");
                assert!(account.kind != AccountKind::Collector || account.debited == 0, "{account:?}");
            }
        }
        for (id, account) in &self.model.accounts {
            let home = &self.real.nodes[self.real.home(id)].ledger;
            let open: Vec<_> = home.holds_of(id, RecordPosition::NONE).expect("an account").map(|h| h.id).collect();
            assert_eq!(open.len(), self.model.open_holds(id), "open holds of {id}: {open:?}");
            let status = home.account(id).expect("an account").status();
            assert_eq!(status, account.status, "status of {id}");
            assert_eq!(self.real.figures(id), (account.balance, account.held as u128), "of {id}");
        }
        for (&(from, to), under_way) in &self.model.under_way {
            let watermark = self.real.nodes[to].ledger.watermark(ShardIndex(from as u16));
            let last = self.real.nodes[from].ledger.outbound_last(ShardIndex(to as u16));
            assert_eq!(last.0 - watermark.0, under_way.len() as u64);
            let sums =
                |here: usize, there: usize| self.real.nodes[here].ledger.exchanged_sums(ShardIndex(there as u16));
            assert_eq!(sums(from, to).differences(watermark, &sums(to, from)), []);
        }
    }

    /// What must hold of the records as a whole.
    fn check_records(&self) {
        for node in &self.real.nodes {
            node.check();
            for account in node.ledger.figures(0, u32::MAX) {
                self.check_history(node, &account);
            }
        }
    }

    fn check_history(&self, node: &super::node::Node, account: &crate::ledger::AccountView) {
        let (mut balance, mut credited, mut debited) = (0i64, 0u128, 0u128);
        for row in node.history(&account.id).into_iter().rev() {
            let moves = matches!(row.kind, RowKind::Transfer | RowKind::Post);
            if moves && row.debit == account.id {
                balance -= row.amount as i64;
                debited += u128::from(row.amount);
            }
            if moves && row.credit == account.id {
                balance += row.amount as i64;
                credited += u128::from(row.amount);
            }
            assert_eq!(row.balance_after, balance, "{row:?}");
        }
        assert_eq!((balance, credited, debited), (account.balance, account.credited, account.debited));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_does_what_the_model_does(
        shards in 1..4usize,
        missing in 0..ACCOUNTS.len(),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut twins = Twins::new(shards);
        for account in (0..OPENED).filter(|account| *account != missing) {
            twins.open(account, false);
        }
        for step in &steps {
            twins.step(step);
            twins.check();
        }
        twins.check_records();
    }
}
