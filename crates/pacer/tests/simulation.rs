//! Days of campaigns from a seed, on one thread: the real machine, control, keeper and bidders of one or three nodes,
//! over a ledger that is a model, with answers that are lost, processes that are killed, wins and losses that are late,
//! come twice or come for the same bid, answers that come later than others that were asked for behind them, clocks
//! that differ and jump, budgets, caps of days and zones that change, and backups of the campaigns that are restored
//! beside a ledger that goes on.
//!
//! ```text
//!   bids, notices ─▶ Bidder, Campaigns ◀─▶ Keeper ┐
//!   bids, notices ─▶ Bidder, Campaigns ◀─▶ Keeper ┴─▶ Bank: accounts and holds, the oracle of money
//! ```
//!
//! Nodes know nothing of each other: each has campaigns of its own, which spend the money of accounts that are the same
//! for all: one for each, or one for all of them. Their plans may have more than the accounts have.
//!
//! What must hold in every seed, after every step: no account is below zero; a win that was answered as taken is paid,
//! once, out of the account of its campaign, and nothing else is; a plan's budget is never overspent, whatever it was
//! lowered to, by more than was spent and reserved at that moment, nor is the cap of a day of its zone; what a bid that
//! may still win reserves is exposed, and held in the ledger; what became of a bid that was won or lost, it stays; what
//! the ledger holds and was paid is within the budgets, also while it settles nothing. At the end nothing is held, and
//! the records make the same state again. A restore takes back what was known of bids since its backup: they are
//! unknown again, or of a lease that is there no more; what the ledger has paid of a lease by then is all that it pays,
//! and counts against the budget.

#[path = "simulation/bank.rs"]
mod bank;
#[path = "simulation/days.rs"]
mod days;
#[path = "simulation/notices.rs"]
mod notices;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::{Future, poll_fn};
use std::iter::Sum;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};
use tidegate_pacer::bidder::{BidRequest, Bidder, Report, Update, mixed};
use tidegate_pacer::control::{Control, ControlSettings, Money, Paid, Settlement};
use tidegate_pacer::frequency::FrequencyTable;
use tidegate_pacer::keeper::{
    Bidders, Held, Keeper, LedgerSeen, LiveTable, PaidPage, Pieces, Settled, Shards, Treasury,
};
use tidegate_pacer::machine::{
    Allowed, Campaigns, Command, Event, Given, LeaseId, LeaseView, Outcome, PaidLease, Regained, Spending, What,
};
use tidegate_pacer::plan::{Flight, Plan, StrategyChoice};
use tidegate_pacer::token::{Opening, TokenKey};
use tidegate_pacer::units::{BudgetMicros, PriceMicros};
use tidegate_planted::{Bug, plant};

use bank::Bank;
use days::{DayCap, Seen, ZONES};
use notices::{Fate, Made, Said, may_win};

const WORKERS: u16 = 2;
const SHARDS: u16 = 2;
const CAMPAIGNS: usize = 3;
const DEADLINE_MS: u64 = 2_000;
const SETTINGS: ControlSettings = ControlSettings { workers: WORKERS, lease_ms: 500, win_deadline_ms: DEADLINE_MS };
const ALLOWED: Allowed = Allowed { campaigns_max: 100, campaigns_of_owner_max: 100, win_deadline_ms: DEADLINE_MS };
/// Few leases are opened at once here, and some pieces are to be under way.
const PIECES: Pieces = Pieces { leases: 1, under_way: 3 };
const BEGIN: u64 = 1_795_000_000_000;
const STEPS: u64 = 600;
const PAYMENTS_OF_PAGE: usize = 3;
const ACCOUNTS: usize = 20;

/// Chance from a seed.
struct Chance(Cell<u64>);

impl Chance {
    fn below(&self, bound: u64) -> u64 {
        self.0.set(mixed(self.0.get()));
        self.0.get() % bound
    }

    fn in_100(&self, share: u64) -> bool {
        self.below(100) < share
    }
}

/// What of a node outlives a kill, and what it reaches.
struct World {
    /// Its number.
    node: usize,
    chance: Rc<Chance>,
    now: Cell<u64>,
    /// By how much the time of records is ahead of that: a start had a clock that was.
    ahead: Cell<u64>,
    /// Each with its log.
    shards: RefCell<Vec<(Campaigns, Vec<Event>)>>,
    /// That of all nodes.
    bank: Rc<RefCell<Bank>>,
    bidders: RefCell<Vec<Bidder>>,
    /// Of a hundred answers, so many are lost.
    lost: Cell<u64>,
    /// Of a hundred, so many come later.
    late: u64,
    /// Its campaigns spend the money of one account.
    shares: bool,
}

#[derive(Clone)]
struct Reach(Rc<World>);

impl World {
    /// Much may happen until an answer comes.
    fn until_answered(&self) -> impl Future<Output = ()> + use<> {
        let mut turns = if self.chance.in_100(self.late) { 1 + self.chance.below(4) } else { 0 };
        poll_fn(move |context| {
            context.waker().wake_by_ref();
            let is_now = turns == 0;
            turns = turns.saturating_sub(1);
            if is_now { Poll::Ready(()) } else { Poll::Pending }
        })
    }

    fn decide(&self, shard: ShardIndex, command: &Command) -> Outcome {
        let mut shards = self.shards.borrow_mut();
        let (state, log) = &mut shards[usize::from(shard.0)];
        let given = Given { allowed: ALLOWED, clock: TimeMs(self.now.get()) };
        match state.decide(command, given, TimeMs(self.now.get() + self.ahead.get())) {
            Decision::Answer(outcome) => outcome,
            Decision::Append { event, outcome } => {
                log.push(event.clone());
                state.apply(&event, place(log.len()));
                outcome
            }
        }
    }

    fn plan(&self, campaign: usize, version: u64, budget: u64, daily: Option<u64>) -> Plan {
        Plan { account: self.account(campaign), ..plan(campaign, version, budget, daily) }
    }

    /// Out of which a campaign's money comes.
    fn account(&self, campaign: usize) -> Box<str> {
        account(if self.shares { 0 } else { campaign })
    }

    fn new_bidders(&self) {
        let users = Arc::new(FrequencyTable::new(1_024));
        let new = |_| Bidder::new(self.key(), users.clone());
        *self.bidders.borrow_mut() = (0..WORKERS).map(new).collect();
        self.set_time();
    }

    /// Each node has a directory with a key of its own.
    fn key(&self) -> TokenKey {
        TokenKey::derive(&[self.node as u8])
    }

    fn spending(&self, number: u32) -> Spending {
        let command = Command::Spending { campaigns: vec![(number, 0)] };
        match self.decide(shard_of(number), &command) {
            Outcome::Spending(all) => all[0].1,
            other => panic!("{other:?}"),
        }
    }

    fn set_time(&self) {
        self.bidders.borrow_mut().iter_mut().for_each(|bidder| bidder.set_time(TimeMs(self.now.get())));
    }
}

/// Where a record stands.
fn place(number: usize) -> Place {
    Place { position: RecordPosition(number as u64), sequence: RecordSequence(number as u64) }
}

/// A state from its snapshot.
fn restarted(state: &Campaigns) -> Campaigns {
    let mut body = Vec::new();
    state.write_snapshot(&mut |part| body.extend_from_slice(part));
    Campaigns::read_snapshot(&body).expect("it was written just now")
}

/// A state from its records.
fn replayed(shard: u16, log: &[Event]) -> Result<Campaigns, String> {
    let mut state = Campaigns::new(ShardIndex(shard), SHARDS);
    for (event, number) in log.iter().zip(1..) {
        let mut bytes = Vec::new();
        Campaigns::encode(event, &mut bytes);
        let read = Campaigns::decode(&bytes).map_err(|error| format!("{event:?}: {error:?}"))?;
        state.apply_checked(&read, place(number)).map_err(|mismatch| mismatch.to_string())?;
    }
    Ok(state)
}

impl Shards for Reach {
    fn count(&self) -> u16 {
        SHARDS
    }

    fn ask(&self, shard: ShardIndex, command: Command) -> impl Future<Output = Result<Outcome, String>> + use<> {
        let is_done = !self.0.chance.in_100(self.0.lost.get() / 2);
        let is_heard = is_done && !self.0.chance.in_100(self.0.lost.get() / 2);
        let outcome = is_done.then(|| self.0.decide(shard, &command));
        let answered = self.0.until_answered();
        async move {
            answered.await;
            outcome.filter(|_| is_heard).ok_or_else(|| "no answer".to_owned())
        }
    }
}

impl Bidders for Reach {
    fn exchange(&self, worker: u16, update: Update) -> impl Future<Output = Result<Report, Update>> + use<> {
        let is_lost = self.0.chance.in_100(self.0.lost.get());
        let report = if is_lost {
            Err(update)
        } else {
            let bidder = &mut self.0.bidders.borrow_mut()[usize::from(worker)];
            bidder.update(&update);
            Ok(bidder.report())
        };
        let answered = self.0.until_answered();
        async move {
            answered.await;
            report
        }
    }
}

impl Treasury for Reach {
    async fn hold(&self, money: Vec<Money>) -> Vec<Held> {
        let hold = |money: &Money| {
            let (is_done, is_heard) = self.fate();
            let held = if is_done { Some(self.0.bank.borrow_mut().hold(self.0.node, money)) } else { None };
            held.filter(|_| is_heard).unwrap_or(Held::Unknown("no answer".to_owned()))
        };
        self.0.until_answered().await;
        let all = money.iter().map(hold).collect();
        self.0.until_answered().await;
        all
    }

    async fn held_of(&self, account: &str) -> Result<Vec<Money>, String> {
        let (is_done, is_heard) = self.fate();
        let held = self.0.bank.borrow().held_of(self.0.node, account);
        // Much happens until this is heard.
        let mut is_polled = false;
        poll_fn(|_| if std::mem::replace(&mut is_polled, true) { Poll::Ready(()) } else { Poll::Pending }).await;
        self.0.until_answered().await;
        (is_done && is_heard).then_some(held).ok_or_else(|| "no answer".to_owned())
    }

    async fn paid_of(&self, account: &str, before: Option<Box<str>>) -> Result<PaidPage, String> {
        let (is_done, is_heard) = self.fate();
        let all = self.0.bank.borrow().payments(self.0.node, account);
        // Others come meanwhile: so many of the oldest are left.
        let left: usize = before.map_or(all.len(), |before| before.parse().expect("it was given"));
        let from = all.len() - left;
        let to = (from + PAYMENTS_OF_PAGE).min(all.len());
        let next = (to < all.len()).then(|| (all.len() - to).to_string().into());
        let page = PaidPage { paid: all[from..to].to_vec(), rows: to - from, next };
        self.0.until_answered().await;
        (is_done && is_heard).then_some(page).ok_or_else(|| "no answer".to_owned())
    }

    async fn look(&self) -> LedgerSeen {
        LedgerSeen::Untold
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Settled> {
        let settle = |settlement: &Settlement| {
            let (is_done, is_heard) = self.fate();
            let settled = if is_done { Some(self.0.bank.borrow_mut().settle(self.0.node, settlement)) } else { None };
            settled.filter(|_| is_heard).unwrap_or(Settled::Unknown("no answer".to_owned()))
        };
        self.0.until_answered().await;
        let all = settlements.iter().map(settle).collect();
        self.0.until_answered().await;
        all
    }
}

impl Reach {
    /// Whether a request is done, and whether its answer comes.
    fn fate(&self) -> (bool, bool) {
        let lost = self.0.lost.get();
        (!self.0.chance.in_100(lost / 2), !self.0.chance.in_100(lost / 2))
    }
}

type Kept = Keeper<Reach, Reach, Reach>;

/// What of a campaign's money is spent, and what the ledger is asked to hold for what is not.
fn held(spending: Spending) -> BudgetMicros {
    spending.spent + spending.exposed + spending.unreleased
}

/// Money that is held for unknown leases is looked for, and leases are opened and settled meanwhile.
fn look_for_unknown(keeper: &Kept) {
    let mut looking = pin!(keeper.give_back_unknown());
    while looking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        run(keeper.round());
        run(keeper.move_money());
    }
}

/// To its end, while nothing else happens.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    for _ in 0..1_000_000 {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
    panic!("it never ends")
}

/// What a keeper does beside other things, and how far it is.
type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The tasks of a process: as those of a real one, each begins again when it has ended.
#[derive(Default)]
struct Tasks {
    round: Option<Task>,
    money: Option<Task>,
    look: Option<Task>,
    count: Option<Task>,
}

impl Tasks {
    /// Begins those that have ended; looking only now and then.
    fn begin(&mut self, keeper: &Rc<Kept>, looks: bool) {
        let of = || keeper.clone();
        let Tasks { round, money, look, count } = self;
        round.get_or_insert_with(|| with(of(), async |keeper| keeper.round().await));
        money.get_or_insert_with(|| with(of(), async |keeper| keeper.move_money().await));
        if looks {
            look.get_or_insert_with(|| with(of(), async |keeper| keeper.give_back_unknown().await));
            count.get_or_insert_with(|| with(of(), async |keeper| _ = keeper.count_paid().await));
        }
    }

    /// Each goes on until it waits. Returns whether one waits.
    fn go_on(&mut self) -> bool {
        let Tasks { round, money, look, count } = self;
        let mut waits = false;
        for task in [round, money, look, count] {
            let context = &mut Context::from_waker(Waker::noop());
            if task.as_mut().is_some_and(|task| task.as_mut().poll(context).is_ready()) {
                *task = None;
            }
            waits |= task.is_some();
        }
        waits
    }
}

fn with(keeper: Rc<Kept>, work: impl AsyncFnOnce(&Kept) + 'static) -> Task {
    Box::pin(async move { work(&keeper).await })
}

fn start(world: &Rc<World>) -> Rc<Kept> {
    world.new_bidders();
    let reach = Reach(world.clone());
    let parts = (reach.clone(), reach.clone(), reach);
    let keeper = Keeper::new(Control::new(SETTINGS), parts, PIECES, LiveTable::default());
    while run(keeper.recover()).is_err() {}
    Rc::new(keeper)
}

fn shard_of(number: u32) -> ShardIndex {
    ShardIndex((number % u32::from(SHARDS)) as u16)
}

fn id(campaign: usize) -> Box<str> {
    format!("c{campaign}").into()
}

fn account(campaign: usize) -> Box<str> {
    format!("campaign:{campaign}").into()
}

fn spend(campaign: usize) -> Box<str> {
    format!("spend:{campaign}").into()
}

fn plan(campaign: usize, version: u64, budget: u64, daily: Option<u64>) -> Plan {
    Plan {
        version,
        account: account(campaign),
        spend: spend(campaign),
        budget_micros: BudgetMicros(budget),
        daily_micros: daily.map(BudgetMicros),
        zone: "Europe/Berlin".into(),
        flights: vec![Flight { starts_ms: BEGIN, ends_ms: BEGIN + 4 * 86_400_000 }],
        price_micros: PriceMicros(100),
        strategy: StrategyChoice { name: "as_fast_as_possible".into(), parameters: BTreeMap::new() },
        paused: false,
        keys: Vec::new(),
        frequency: None,
        openrtb: None,
    }
}

/// What a day came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Told {
    bids: u64,
    taken: u64,
    late: u64,
    duplicate: u64,
    lost: u64,
    /// Wins of lost bids, and losses of won ones.
    contrary: u64,
    /// Leases that were settled while a bid of theirs had not passed its deadline.
    early: u64,
    kills: u64,
    restores: u64,
    /// Bids whose lease a restore has taken back.
    foreign: u64,
    /// Campaigns that got another zone.
    zones: u64,
    /// Times at which something else happened while the keeper waited.
    waits: u64,
}

impl Sum for Told {
    fn sum<I: Iterator<Item = Told>>(all: I) -> Told {
        all.fold(Told::default(), |sum, told| Told {
            bids: sum.bids + told.bids,
            taken: sum.taken + told.taken,
            late: sum.late + told.late,
            duplicate: sum.duplicate + told.duplicate,
            lost: sum.lost + told.lost,
            contrary: sum.contrary + told.contrary,
            early: sum.early + told.early,
            kills: sum.kills + told.kills,
            restores: sum.restores + told.restores,
            foreign: sum.foreign + told.foreign,
            zones: sum.zones + told.zones,
            waits: sum.waits + told.waits,
        })
    }
}

/// What a backup of a node's campaigns has, and what was known when it was taken.
struct Backup {
    /// Records of each shard.
    records: Vec<usize>,
    versions: [u64; CAMPAIGNS],
    bounds: [u64; CAMPAIGNS],
    days: [DayCap; CAMPAIGNS],
    held_bounds: [u64; CAMPAIGNS],
    paid: [u64; CAMPAIGNS],
    /// Of the bids that were made.
    fates: Vec<(Fate, u64)>,
    /// How many holds the ledger had settled.
    settled: usize,
}

/// A node: its processes, one after the other, and what its clients know.
struct Node {
    world: Rc<World>,
    keeper: Rc<Kept>,
    tasks: Tasks,
    key: TokenKey,
    /// Of its campaigns.
    numbers: [u32; CAMPAIGNS],
    versions: [u64; CAMPAIGNS],
    /// The most that each may have spent: raised by a plan, and never lowered below what was spent and exposed then.
    bounds: [u64; CAMPAIGNS],
    days: [DayCap; CAMPAIGNS],
    /// When leases were opened, by what their bids say.
    opened: HashMap<(LeaseId, Opening), TimeMs>,
    /// The same of what is spent and what the ledger is asked to hold.
    held_bounds: [u64; CAMPAIGNS],
    /// What the ledger may hold besides, because of a restore.
    beside: [u64; CAMPAIGNS],
    /// What it has paid for leases that a restore has taken back, and that does not count yet.
    uncounted: [u64; CAMPAIGNS],
    /// How many records of each shard were looked at.
    seen: [usize; SHARDS as usize],
    /// Now and then, a start has a clock that is ahead.
    has_wrong_clocks: bool,
    backup: Option<Backup>,
    /// Which of the holds that the ledger has settled it settled between a backup and its restore.
    taken_back: Range<usize>,
    /// What wins of each have cost that were answered as taken.
    paid: [u64; CAMPAIGNS],
    made: Vec<Made>,
    told: Told,
}

impl Node {
    fn new(node: usize, seed: u64, chance: Rc<Chance>, bank: Rc<RefCell<Bank>>) -> Node {
        let new = |shard| (Campaigns::new(ShardIndex(shard), SHARDS), vec![]);
        let world = Rc::new(World {
            node,
            // Clocks differ.
            now: Cell::new(BEGIN + 1_000 + node as u64 * 777),
            ahead: Cell::new(0),
            shards: RefCell::new((0..SHARDS).map(new).collect()),
            bank,
            bidders: RefCell::default(),
            lost: Cell::new(mixed(seed ^ 1) % 30),
            late: mixed(seed ^ 3) % 3 * 25,
            shares: shares(seed),
            chance,
        });
        let (mut numbers, mut bounds) = ([0; CAMPAIGNS], [0; CAMPAIGNS]);
        for campaign in 0..CAMPAIGNS {
            bounds[campaign] = 10_000 + world.chance.below(60_000);
            let put = Command::Put {
                id: id(campaign),
                plan: Box::new(world.plan(campaign, 1, bounds[campaign], None)),
                by: "".into(),
            };
            let shard = ShardIndex((campaign % usize::from(SHARDS)) as u16);
            let Outcome::Put { number, .. } = world.decide(shard, &put) else { panic!("it was put") };
            numbers[campaign] = number;
        }
        let (keeper, key) = (start(&world), world.key());
        let (versions, paid, made, told) = ([1; CAMPAIGNS], [0; CAMPAIGNS], Vec::new(), Told::default());
        let has_wrong_clocks = mixed(seed ^ 2).is_multiple_of(4);
        let (held_bounds, beside, backup, taken_back) = (bounds, [0; CAMPAIGNS], None, 0..0);
        Node {
            world,
            keeper,
            tasks: Tasks::default(),
            key,
            numbers,
            versions,
            bounds,
            days: [DayCap::none(BEGIN); CAMPAIGNS],
            opened: HashMap::new(),
            held_bounds,
            beside,
            uncounted: [0; CAMPAIGNS],
            seen: [0; SHARDS as usize],
            has_wrong_clocks,
            backup,
            taken_back,
            paid,
            made,
            told,
        }
    }

    /// Some milliseconds.
    fn step(&mut self, step: u64) -> Result<(), String> {
        let chance = self.world.chance.clone();
        self.pass(5 + chance.below(40));
        if chance.in_100(1) {
            // Over midnight of the zone, or a pause.
            self.pass(chance.below(40_000_000) * u64::from(step.is_multiple_of(7)) + 3_000);
        }
        (0..chance.below(30)).for_each(|_| self.ask());
        for _ in 0..chance.below(15) {
            self.notify()?;
        }
        if chance.in_100(2) {
            self.replan();
        }
        if chance.in_100(2) {
            self.kill();
        }
        if self.taken_back.is_empty() && chance.below(STEPS) < 3 {
            match self.backup.take() {
                None => self.backup = Some(self.back_up()),
                Some(backup) => self.restore(&backup),
            }
        }
        let settled = self.world.bank.borrow().settled().len();
        self.tasks.begin(&self.keeper, chance.in_100(30));
        for _ in 0..1 + chance.below(20) {
            let waits = self.tasks.go_on();
            self.follow()?;
            if !waits {
                break;
            }
            self.told.waits += 1;
            self.meanwhile()?;
        }
        // It looks at every bid.
        if step.is_multiple_of(8) {
            (0..CAMPAIGNS).try_for_each(|campaign| self.of_day(campaign, |day, seen| day.check(seen)))?;
        }
        self.check(settled)
    }

    /// Asks the oracle of a campaign's days.
    fn of_day<T>(&mut self, campaign: usize, ask: impl FnOnce(&mut DayCap, &Seen) -> T) -> T {
        let (number, now) = (self.numbers[campaign], self.world.now.get());
        let leases = self.leases(shard_of(number));
        ask(&mut self.days[campaign], &Seen { made: &self.made, leases: &leases, campaign, number, now })
    }

    /// What comes while the keeper waits for answers.
    fn meanwhile(&mut self) -> Result<(), String> {
        let chance = self.world.chance.clone();
        self.pass(chance.below(3));
        (0..chance.below(4)).for_each(|_| self.ask());
        (0..chance.below(2)).try_for_each(|_| self.notify())?;
        if chance.in_100(1) {
            self.replan();
        }
        Ok(())
    }

    /// Leases are opened. What the ledger has paid and no win says counts, and counts once.
    fn follow(&mut self) -> Result<(), String> {
        let mut events: Vec<(ShardIndex, Event)> = Vec::new();
        for (shard, ((_, log), seen)) in
            (0..).map(ShardIndex).zip(self.world.shards.borrow().iter().zip(&mut self.seen))
        {
            events.extend(log[*seen..].iter().map(|event| (shard, event.clone())));
            *seen = log.len();
        }
        for (shard, event) in events {
            match event.what {
                What::Opened { first, leases } => {
                    for (counter, lease) in (first..).zip(leases) {
                        let opened = lease.life.expect("records of now say it").opened;
                        self.opened.insert((LeaseId::new(shard, counter), Opening::of(opened)), opened);
                    }
                }
                What::Regained(Regained { campaign, days, .. }) => {
                    let paid: u64 = days.iter().map(|day| day.paid.0).sum();
                    let of = self.numbers.iter().position(|number| *number == campaign).expect("it is one of them");
                    let left = self.uncounted[of].checked_sub(paid);
                    self.uncounted[of] = left.ok_or(format!("campaign {of}: {paid} was paid, and counts twice"))?;
                    self.paid[of] += paid;
                }
                What::Corrected { leases } => leases.iter().for_each(|lease| self.follow_corrected(lease)),
                _ => {}
            }
        }
        for (number, uncounted) in self.numbers.iter().zip(self.uncounted) {
            if uncounted > 0 && !self.keeper.control().borrow().is_uncounted(*number) {
                return Err(format!(
                    "{uncounted} was paid for leases of {number} that are not known, and does not count"
                ));
            }
        }
        Ok(())
    }

    /// The ledger has paid more of a lease, before a restore, than its wins have cost since.
    fn follow_corrected(&mut self, PaidLease { lease, paid }: &PaidLease) {
        let bank = self.world.bank.borrow();
        let is_it = |settled: &&bank::Paid| {
            settled.node == self.world.node && settled.lease == *lease && settled.amount == paid.0
        };
        let opened = bank.settled()[self.taken_back.clone()].iter().find(is_it).expect("it was paid before").opened;
        let is_of_it = |made: &&Made| made.bid.lease == *lease && made.bid.opened == Opening::of(opened);
        let won: u64 = self.made.iter().filter(is_of_it).map(|made| made.paid).sum();
        let campaign = self.made.iter().find(is_of_it).expect("something was bid").campaign;
        drop(bank);
        self.paid[campaign] += paid.0 - won;
        // What was freed by losses of bids that had been won.
        let Spending { spent, exposed, .. } = self.world.spending(self.numbers[campaign]);
        self.bounds[campaign] = self.bounds[campaign].max((spent + exposed).0 + self.uncounted[campaign]);
    }

    fn pass(&self, ms: u64) {
        self.world.now.set(self.world.now.get() + ms);
        self.world.set_time();
    }

    /// A bid request.
    fn ask(&mut self) {
        let chance = &self.world.chance;
        let campaign = chance.below(CAMPAIGNS as u64) as usize;
        let worker = chance.below(WORKERS.into()) as usize;
        let request = BidRequest {
            id: chance.below(u64::MAX),
            campaign: self.numbers[campaign],
            price: PriceMicros(chance.below(101) as u32),
            ..BidRequest::default()
        };
        if let Ok(offer) = self.world.bidders.borrow_mut()[worker].bid(&request) {
            self.told.bids += 1;
            let bid = self.key.open(&offer.token).expect("it was signed");
            let leased = self.opened[&(bid.lease, bid.opened)];
            self.made.push(Made { bid, campaign, leased, fate: Fate::Unknown, paid: 0, is_restored: false });
        }
    }

    /// A win or a loss: mostly of a bid of late; some come again, or too late.
    fn notify(&mut self) -> Result<(), String> {
        let (world, told) = (&self.world, &mut self.told);
        let Some(newest) = self.made.len().checked_sub(1) else { return Ok(()) };
        let back = if world.chance.in_100(80) { world.chance.below(60) } else { world.chance.below(2_000) };
        let bid = &mut self.made[newest - (back as usize).min(newest)];
        let price = PriceMicros(world.chance.below(u64::from(bid.bid.price.0) + 1) as u32);
        let win = world.chance.in_100(50).then_some(price);
        // A notice may come twice at once; one whose answer is lost is sent again.
        let times = 1 + usize::from(world.chance.in_100(10));
        for _ in 0..1 + usize::from(world.chance.in_100(world.lost.get() / 2)) {
            for said in bid.tell(world, win, times) {
                bid.check(win.is_some(), said, world.now.get())?;
                match (said, win) {
                    (Said::Taken, Some(price)) => {
                        (told.taken, bid.fate, bid.paid) = (told.taken + 1, Fate::Won, price.0.into());
                        self.paid[bid.campaign] += bid.paid;
                    }
                    (Said::Taken, None) => (told.lost, bid.fate) = (told.lost + 1, Fate::Lost),
                    (Said::Duplicate, _) => told.duplicate += 1,
                    (Said::Contrary, _) => told.contrary += 1,
                    (Said::Late, _) => told.late += 1,
                    (Said::Unfunded, _) => told.foreign += 1,
                }
            }
        }
        Ok(())
    }

    fn replan(&mut self) {
        let chance = &self.world.chance;
        let campaign = chance.below(CAMPAIGNS as u64) as usize;
        let now = self.world.spending(self.numbers[campaign]);
        self.versions[campaign] += 1;
        let budget = 1_000 + chance.below(60_000);
        let daily = chance.in_100(50).then(|| 500 + chance.below(20_000));
        let uncounted = self.uncounted[campaign];
        self.bounds[campaign] = budget.max(now.spent.0 + now.exposed.0 + uncounted);
        self.held_bounds[campaign] = budget.max((held(now) + self.unsettled(campaign)).0 + uncounted);
        let moves = chance.in_100(50).then(|| ZONES[chance.below(ZONES.len() as u64) as usize]);
        let zone = moves.unwrap_or(self.days[campaign].zone);
        let plan = self.world.plan(campaign, self.versions[campaign], budget, daily);
        let plan = Box::new(Plan { zone: zone.into(), ..plan });
        self.world.decide(shard_of(self.numbers[campaign]), &Command::Put { id: id(campaign), plan, by: "ann".into() });
        self.told.zones += u64::from(moves.is_some());
        self.of_day(campaign, |day, seen| day.put(zone, daily, seen));
    }

    /// What the ledger holds of closed leases, or has paid of them, that was not spent so far as is known.
    fn unsettled(&self, campaign: usize) -> BudgetMicros {
        let (number, bank) = (self.numbers[campaign], self.world.bank.borrow());
        let held = bank.leases(self.world.node);
        let paid = bank.payments(self.world.node, &self.world.account(campaign));
        let leases = self.leases(shard_of(number));
        let beside = |lease: &LeaseView| {
            let is_it = |paid: &&Paid| (paid.lease, paid.opened) == (lease.id, lease.life.opened);
            let paid = paid.iter().find(is_it).map_or(BudgetMicros::ZERO, |paid| paid.amount);
            if held.contains(&lease.id) { lease.amount - lease.spent } else { paid.left_behind(lease.spent) }
        };
        let is_of_it = |lease: &&LeaseView| lease.campaign == number && lease.is_closed;
        leases.iter().filter(is_of_it).map(beside).sum()
    }

    /// All leases of a shard.
    fn leases(&self, shard: ShardIndex) -> Vec<LeaseView> {
        match self.world.decide(shard, &Command::Leases { after: LeaseId::new(shard, 0), limit: usize::MAX }) {
            Outcome::Leases { leases, .. } => leases,
            other => panic!("of leases: {other:?}"),
        }
    }

    /// Bids that were made stay made; what the keeper and the bidders knew is gone.
    fn kill(&mut self) {
        self.told.kills += 1;
        if self.has_wrong_clocks {
            self.world.ahead.set(self.world.chance.below(100_000));
        }
        for (state, _) in self.world.shards.borrow_mut().iter_mut() {
            let read = restarted(state);
            assert_eq!(read, *state, "a snapshot holds all");
            *state = read;
        }
        self.start();
    }

    /// What the process before has asked for, and not heard, nobody hears.
    fn start(&mut self) {
        self.tasks = Tasks::default();
        self.keeper = start(&self.world);
    }

    /// Copies the records of all shards.
    fn back_up(&self) -> Backup {
        Backup {
            records: self.world.shards.borrow().iter().map(|(_, log)| log.len()).collect(),
            versions: self.versions,
            bounds: self.bounds,
            days: self.days,
            held_bounds: self.held_bounds,
            paid: self.paid,
            fates: self.made.iter().map(|made| (made.fate, made.paid)).collect(),
            settled: self.world.bank.borrow().settled().len(),
        }
    }

    /// The node goes on with the records of a backup. The ledger has all.
    fn restore(&mut self, backup: &Backup) {
        self.told.restores += 1;
        for (shard, (state, log)) in (0..).zip(self.world.shards.borrow_mut().iter_mut()) {
            log.truncate(backup.records[usize::from(shard)]);
            *state = replayed(shard, log).expect("they were written");
        }
        // A restore takes time.
        self.pass(1_000);
        let all = (0..SHARDS).flat_map(|shard| self.leases(ShardIndex(shard)));
        let known: BTreeSet<(LeaseId, TimeMs)> = all.map(|lease| (lease.id, lease.life.opened)).collect();
        let leases: HashMap<LeaseId, Opening> = known.iter().map(|(id, at)| (*id, Opening::of(*at))).collect();
        let before = backup.fates.iter().map(Some).chain(std::iter::repeat(None));
        for (bid, before) in self.made.iter_mut().zip(before) {
            // Bids of before whose leases are forgotten are what they were.
            let is_known = leases.get(&bid.bid.lease) == Some(&bid.bid.opened);
            match before {
                Some((fate, paid)) => {
                    bid.is_restored = bid.fate != *fate;
                    (bid.fate, bid.paid) = (*fate, *paid);
                }
                None if is_known => {
                    bid.is_restored = bid.fate != Fate::Unknown;
                    (bid.fate, bid.paid) = (Fate::Unknown, 0);
                }
                None => (bid.fate, bid.paid) = (Fate::Foreign, 0),
            }
        }
        let bank = self.world.bank.borrow();
        for campaign in 0..CAMPAIGNS {
            let spend = spend(campaign);
            self.beside[campaign] = bank.held_beside(self.world.node, &spend, &known);
            self.uncounted[campaign] = bank.paid_beside(self.world.node, &spend, backup.settled, &known);
        }
        self.taken_back = backup.settled..bank.settled().len();
        drop(bank);
        (self.versions, self.bounds) = (backup.versions, backup.bounds);
        (self.held_bounds, self.paid) = (backup.held_bounds, backup.paid);
        for (campaign, number) in self.numbers.into_iter().enumerate() {
            let (now, uncounted) = (self.world.spending(number), self.uncounted[campaign]);
            let bound = &mut self.bounds[campaign];
            *bound = (*bound).max((now.spent + now.exposed).0 + uncounted);
            let held = (held(now) + self.unsettled(campaign)).0 + uncounted;
            self.held_bounds[campaign] = self.held_bounds[campaign].max(held);
        }
        for (campaign, DayCap { zone, cap, .. }) in backup.days.into_iter().enumerate() {
            self.of_day(campaign, |day, seen| day.put(zone, cap, seen));
        }
        self.seen = std::array::from_fn(|shard| backup.records[shard]);
        self.start();
    }

    /// What must hold at every moment. Holds behind the first `settled` were settled just now.
    fn check(&mut self, settled: usize) -> Result<(), String> {
        self.world.shards.borrow().iter().for_each(|(state, _)| state.assert_sound());
        let now = self.world.now.get();
        for campaign in 0..CAMPAIGNS {
            let spending = self.world.spending(self.numbers[campaign]);
            let Spending { spent, exposed, .. } = spending;
            if held(spending).0 > self.held_bounds[campaign] {
                let bound = self.held_bounds[campaign];
                return Err(format!("campaign {campaign} has spent and holds {} of {bound}", held(spending)));
            }
            let paid = self.paid[campaign];
            if spent.0 != paid {
                return Err(format!("campaign {campaign} says {spent} was spent, and wins say {paid}"));
            }
            if (spent + exposed).0 > self.bounds[campaign] {
                let bound = self.bounds[campaign];
                return Err(format!("campaign {campaign} may spend {} of {bound}", spent + exposed));
            }
            let of_it = may_win(&self.made, now).filter(|bid| bid.campaign == campaign);
            let reserved: u64 = of_it.map(|bid| u64::from(bid.bid.price.0)).sum();
            if exposed.0 < reserved {
                return Err(format!("campaign {campaign}: wins may cost {reserved}, and {exposed} is exposed"));
            }
        }
        let (bank, node) = (self.world.bank.borrow(), self.world.node);
        let held = bank.leases(node);
        if let Some(bid) = may_win(&self.made, now).find(|bid| !bid.is_restored && !held.contains(&bid.bid.lease)) {
            return Err(format!("campaign {}: the money of bid {:?} is not held", bid.campaign, bid.bid));
        }
        let in_time = self.made.iter().rev().take_while(|bid| bid.is_in_time(now));
        let young: BTreeSet<LeaseId> = in_time.map(|bid| bid.bid.lease).collect();
        let settled = bank.settled()[settled..].iter().filter(|paid| paid.node == node);
        self.told.early += settled.filter(|paid| young.contains(&paid.lease)).count() as u64;
        Ok(())
    }

    /// Every answer comes again, no bid is made, and all is settled; also by processes that end before the deadline of
    /// a bid has passed.
    fn end(&mut self) -> Result<(), String> {
        self.world.lost.set(0);
        // The longest life of a lease, and a deadline.
        for _ in 0..250 {
            self.kill();
            self.pass(1_000);
            run(self.keeper.round());
            look_for_unknown(&self.keeper);
            run(self.keeper.count_paid());
            run(self.keeper.move_money());
        }
        if self.keeper.is_ledger_older() {
            return Err("the ledger is not older than the log of campaigns".to_owned());
        }
        for (campaign, number) in self.numbers.iter().enumerate() {
            let exposed = self.world.spending(*number).exposed;
            if exposed > BudgetMicros::ZERO {
                return Err(format!("{exposed} of campaign {campaign} is exposed for ever"));
            }
        }
        for (shard, (state, log)) in (0..).zip(self.world.shards.borrow().iter()) {
            if replayed(shard, log)? != *state || state.leases() > 0 {
                return Err(format!("shard {shard} is another one after its records, or has leases: {state:?}"));
            }
        }
        self.follow()?;
        self.check_counted()?;
        self.check_paid()
    }

    /// All that the ledger has paid for a campaign counts as spent; and nothing else, unless a restore has taken back
    /// what was won of leases that the ledger had settled, and other bids of them have won since.
    fn check_counted(&self) -> Result<(), String> {
        for (campaign, number) in self.numbers.iter().enumerate() {
            let spent = self.world.spending(*number).spent.0;
            let paid = self.world.bank.borrow().paid_by(self.world.node, &spend(campaign));
            if spent < paid || spent > paid && self.taken_back.is_empty() {
                return Err(format!("{paid} was paid for campaign {campaign}, and {spent} counts"));
            }
        }
        Ok(())
    }

    /// The ledger has paid of each lease what its wins have cost; of one that it had settled before a restore, what was
    /// known then.
    fn check_paid(&self) -> Result<(), String> {
        let mut unpaid: HashMap<(LeaseId, Opening), u64> = HashMap::new();
        for bid in self.made.iter().filter(|bid| bid.paid > 0) {
            *unpaid.entry((bid.bid.lease, bid.bid.opened)).or_default() += bid.paid;
        }
        for (number, paid) in self.world.bank.borrow().settled().iter().enumerate() {
            let (lease, amount) = (paid.lease, paid.amount);
            let won =
                if paid.node == self.world.node { unpaid.remove(&(lease, Opening::of(paid.opened))) } else { None };
            let is_of_it = paid.node == self.world.node && !self.taken_back.contains(&number);
            if is_of_it && amount != won.unwrap_or(0) {
                return Err(format!("{amount} was paid of {lease:?}, and its wins have cost {won:?}"));
            }
        }
        if unpaid.is_empty() { Ok(()) } else { Err(format!("wins are not paid: {unpaid:?}")) }
    }
}

/// What the ledger holds and was paid for a campaign is within what it may cost on all nodes.
fn check_held(bank: &Bank, nodes: &[Node], campaign: usize) -> Result<(), String> {
    let bound: u64 = nodes.iter().map(|node| node.held_bounds[campaign] + node.beside[campaign]).sum();
    let (held, paid) = (bank.held_for(&spend(campaign)), bank.balance(&spend(campaign)));
    if held + paid > bound {
        return Err(format!("of campaign {campaign}, {held} is held and {paid} was paid: more than {bound}"));
    }
    Ok(())
}

/// Whether all campaigns of a seed spend the money of one account.
fn shares(seed: u64) -> bool {
    mixed(seed ^ 4).is_multiple_of(3)
}

fn simulate(seed: u64, nodes: usize) -> Result<Told, String> {
    let chance = Rc::new(Chance(Cell::new(mixed(seed))));
    let bank: Rc<RefCell<Bank>> = Rc::default();
    let funds = 20_000 + chance.below(40_000);
    for campaign in 0..CAMPAIGNS {
        bank.borrow_mut().fund(&account(campaign), funds);
    }
    let mut nodes: Vec<Node> = (0..nodes).map(|node| Node::new(node, seed, chance.clone(), bank.clone())).collect();
    let spends: [Vec<Box<str>>; CAMPAIGNS] = std::array::from_fn(|of| match (shares(seed), of) {
        (false, _) => vec![spend(of)],
        (true, 0) => (0..CAMPAIGNS).map(spend).collect(),
        (true, _) => Vec::new(),
    });
    let check = || {
        let check = |of: usize| bank.borrow().check(&account(of), &spends[of], funds);
        (0..CAMPAIGNS).try_for_each(check)
    };
    for step in 0..STEPS {
        if chance.in_100(1) {
            let refuses = chance.in_100(50);
            bank.borrow_mut().refuse(refuses);
        }
        for node in &mut nodes {
            node.step(step).map_err(|why| format!("node {}: {why}", node.world.node))?;
            check()?;
        }
        (0..CAMPAIGNS).try_for_each(|campaign| check_held(&bank.borrow(), &nodes, campaign))?;
    }
    bank.borrow_mut().refuse(false);
    for node in &mut nodes {
        node.end().map_err(|why| format!("node {}: {why}", node.world.node))?;
    }
    check()?;
    for campaign in 0..CAMPAIGNS {
        let held = bank.borrow().held_for(&spend(campaign));
        if held > 0 {
            return Err(format!("of campaign {campaign}, {held} is held for ever"));
        }
    }
    Ok(nodes.into_iter().map(|node| node.told).sum())
}

/// So many seeds, or as many as `SEEDS` says, from the one that `SEED` says.
fn seeds() -> Range<u64> {
    let said = |name: &str| std::env::var(name).ok().and_then(|said| said.parse().ok());
    let first = said("SEED").unwrap_or(0);
    first..first + said("SEEDS").unwrap_or(500)
}

/// Simulates all seeds, and checks that what is simulated comes about.
fn simulate_all(nodes: usize, seeds: Range<u64>) {
    let floor = seeds.end - seeds.start;
    let simulate = |seed| {
        simulate(seed, nodes)
            .unwrap_or_else(|why| panic!("SEED={seed} SEEDS=1 cargo test -p tidegate-pacer: {nodes} nodes: {why}"))
    };
    let all: Told = seeds.map(simulate).sum();
    println!("{nodes} nodes, {floor} seeds: {all:?}");
    assert!(all.bids > 500 * floor && all.taken > 100 * floor, "bids and wins come about: {all:?}");
    assert!(all.lost > 100 * floor && all.early > floor, "losses return money before its time: {all:?}");
    assert!(all.contrary > floor, "bids are said to be won and lost: {all:?}");
    assert!(all.restores > floor / 2 && all.foreign > floor / 10, "what backups have is restored: {all:?}");
    assert!(all.zones > floor, "campaigns get other zones: {all:?}");
    assert!(all.waits > 100 * floor, "answers come late: {all:?}");
    assert!(all.late > floor && all.duplicate > floor && all.kills > floor, "faults come about: {all:?}");
}

#[test]
fn no_campaign_spends_more_than_it_has_in_any_seed() {
    simulate_all(1, seeds());
}

/// Of a log that is gone.
#[test]
fn money_that_is_held_for_leases_that_nobody_knows_is_given_back() {
    let chance = Rc::new(Chance(Cell::new(7)));
    let bank: Rc<RefCell<Bank>> = Rc::default();
    bank.borrow_mut().fund("campaign:0", 1_000);
    let node = Node::new(0, 7, chance, bank.clone());
    node.world.lost.set(50);
    let place = |node: usize| {
        let (lease, opened, amount) = (LeaseId::new(ShardIndex(0), 900), TimeMs(BEGIN), BudgetMicros(300));
        let (account, spend) = ("campaign:0".into(), "spend:0".into());
        let money = Money { lease, opened, campaign: None, account, spend, amount };
        assert_eq!(bank.borrow_mut().hold(node, &money), Held::Done);
    };
    (0..2).for_each(place);
    while !node.keeper.control().borrow().unlooked().is_empty() {
        look_for_unknown(&node.keeper);
    }
    assert_eq!(
        (bank.borrow().held("campaign:0"), bank.borrow().balance("campaign:0")),
        (300, 1_000),
        "of another node"
    );
}

/// The shards of a world in which a plan is changed whenever somebody asks what has changed.
struct Restless {
    reach: Reach,
    campaign: usize,
    asked: Cell<u64>,
}

impl Shards for Restless {
    fn count(&self) -> u16 {
        self.reach.count()
    }

    fn ask(&self, shard: ShardIndex, command: Command) -> impl Future<Output = Result<Outcome, String>> + use<> {
        if matches!(command, Command::Changed { .. }) {
            self.asked.set(self.asked.get() + 1);
            assert!(self.asked.get() < 100, "it is asked again and again");
            let (id, version) = (id(self.campaign), self.asked.get() + 1);
            let plan = Box::new(plan(self.campaign, version, 1_000, None));
            self.reach.0.decide(shard, &Command::Put { id, plan, by: "ann".into() });
        }
        self.reach.ask(shard, command)
    }
}

#[test]
fn a_round_comes_to_an_end_while_plans_change_all_the_time() {
    let node = Node::new(0, 7, Rc::new(Chance(Cell::new(7))), Rc::default());
    node.world.lost.set(0);
    let reach = Reach(node.world.clone());
    let shards = Restless { reach: reach.clone(), campaign: 0, asked: Cell::new(0) };
    let keeper = Keeper::new(Control::new(SETTINGS), (shards, reach.clone(), reach), PIECES, LiveTable::default());
    run(keeper.recover()).expect("every answer comes");
    run(keeper.round());
}

/// A ledger that answers what it has paid out of an account when it was asked for several.
struct Slow {
    reach: Reach,
    asked: Cell<usize>,
}

impl Treasury for Slow {
    fn hold(&self, money: Vec<Money>) -> impl Future<Output = Vec<Held>> {
        self.reach.hold(money)
    }

    fn held_of(&self, account: &str) -> impl Future<Output = Result<Vec<Money>, String>> {
        self.reach.held_of(account)
    }

    async fn paid_of(&self, account: &str, before: Option<Box<str>>) -> Result<PaidPage, String> {
        self.asked.set(self.asked.get() + 1);
        poll_fn(|context| {
            context.waker().wake_by_ref();
            if self.asked.get() < ACCOUNTS { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        self.reach.paid_of(account, before).await
    }

    fn settle(&self, settlements: Vec<Settlement>) -> impl Future<Output = Vec<Settled>> {
        self.reach.settle(settlements)
    }

    fn look(&self) -> impl Future<Output = LedgerSeen> {
        self.reach.look()
    }
}

/// Where each campaign has an account of its own, one after the other would take minutes, in which none of them bids.
#[test]
fn what_was_paid_is_looked_for_in_many_accounts_at_once() {
    let seed = (0..).find(|seed| !shares(*seed)).expect("there is one");
    let node = Node::new(0, seed, Rc::new(Chance(Cell::new(7))), Rc::default());
    node.world.lost.set(0);
    let reach = Reach(node.world.clone());
    for campaign in 0..ACCOUNTS {
        let plan = Box::new(plan(campaign, 1, 1_000, None));
        node.world.decide(shard_of(campaign as u32), &Command::Put { id: id(campaign), plan, by: "ann".into() });
    }
    let slow = Slow { reach: reach.clone(), asked: Cell::new(0) };
    let keeper = Keeper::new(Control::new(SETTINGS), (reach.clone(), reach, slow), PIECES, LiveTable::default());
    run(keeper.recover()).expect("every answer comes");
    let mut counting = pin!(keeper.count_paid());
    let mut poll = || counting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!((0..100).any(|_| poll().is_ready()), "it waits for one after the other");
}

#[test]
fn several_nodes_do_not_spend_more_than_their_accounts_have_in_any_seed() {
    let Range { start, end } = seeds();
    simulate_all(3, start..start + (end - start).div_ceil(5));
}

#[test]
fn a_seed_is_a_seed() {
    assert_eq!(simulate(7, 3).expect("it holds"), simulate(7, 3).expect("it holds"));
}

/// Plants a bug, and looks for a seed that finds it.
fn is_found(bug: Bug) {
    plant(Some(bug));
    let found = (0..100).find_map(|seed| {
        let simulated = std::panic::catch_unwind(|| simulate(seed, 1));
        simulated.map_or_else(|_| Some("a panic".to_owned()), |told| told.err()).map(|why| (seed, why))
    });
    plant(None);
    let (seed, why) = found.unwrap_or_else(|| panic!("{bug:?} is found by no seed"));
    println!("{bug:?}: seed {seed}: {why}");
}

#[test]
fn planted_bugs_are_found() {
    for bug in [
        Bug::LateWinTaken,
        Bug::GrantedUnheld,
        Bug::ClosedEarly,
        Bug::SettlementTrusted,
        Bug::GrantedTwice,
        Bug::LeasesForgotten,
        Bug::LossForgotten,
        Bug::WonBidReturned,
        Bug::KnownEarly,
        Bug::ForgottenEarly,
        Bug::LeftReturnedTwice,
        Bug::UnsettledLeased,
        Bug::ForeignWinTaken,
        Bug::LostLeasesUncounted,
        Bug::PaidMoreUncounted,
        Bug::DaysOfZoneApart,
    ] {
        is_found(bug);
    }
}
