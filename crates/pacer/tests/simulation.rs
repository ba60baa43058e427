//! Days of campaigns from a seed, on one thread: the real machine, control, keeper and bidders, over a ledger that is a
//! model, with answers that are lost, processes that are killed, wins that are late or come twice, and budgets that
//! change.
//!
//! ```text
//!   bids, wins ─▶ Bidder, Campaigns ◀─▶ Keeper ◀─▶ Bank: accounts and holds, the oracle of money
//! ```
//!
//! What must hold in every seed: no account is below zero; a win that was answered as taken is paid, once, out of the
//! account of its campaign, and nothing else is; what is held when no lease is open any more is nothing; a plan's
//! budget is never overspent, whatever it was lowered to, by more than was spent and reserved at that moment.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, ready};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};
use tidegate_pacer::bidder::{BidRequest, Bidder, Report, Update, mixed};
use tidegate_pacer::control::{Control, ControlSettings, Money, Settlement};
use tidegate_pacer::frequency::FrequencyTable;
use tidegate_pacer::keeper::{Bidders, Held, Keeper, LiveTable, Settled, Shards, Treasury};
use tidegate_pacer::machine::{Allowed, Campaigns, Command, LeaseId, Outcome, WinOutcome};
use tidegate_pacer::plan::{Flight, Plan, StrategyChoice};
use tidegate_pacer::token::{TOKEN_BYTES, TokenKey};
use tidegate_pacer::units::{BudgetMicros, PriceMicros};
use tidegate_planted::{Bug, plant};

const WORKERS: u16 = 2;
const SHARDS: u16 = 2;
const CAMPAIGNS: usize = 3;
const DEADLINE_MS: u64 = 2_000;
const SETTINGS: ControlSettings = ControlSettings { workers: WORKERS, lease_ms: 500, win_deadline_ms: DEADLINE_MS };
const ALLOWED: Allowed = Allowed { campaigns_max: 100, win_deadline_ms: DEADLINE_MS };
const BEGIN: u64 = 1_795_000_000_000;
const STEPS: u64 = 600;

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

/// The ledger as the pacer sees it.
#[derive(Default)]
struct Bank {
    balances: BTreeMap<Box<str>, u64>,
    /// Open holds: account, where it goes, how much.
    holds: BTreeMap<Box<str>, (Box<str>, Box<str>, u64)>,
    /// Holds that are over, and what was paid of them.
    over: BTreeMap<Box<str>, u64>,
}

impl Bank {
    fn available(&self, account: &str) -> u64 {
        let held: u64 = self.holds.values().filter(|(of, ..)| **of == *account).map(|(.., amount)| amount).sum();
        self.balances.get(account).copied().unwrap_or(0) - held
    }

    fn hold(&mut self, money: &Money) -> Held {
        let id = money.hold_id();
        if self.holds.contains_key(&id) || self.over.contains_key(&id) {
            return Held::Done;
        }
        let available = self.available(&money.account);
        if available < money.amount.0 {
            return Held::Insufficient { available: BudgetMicros(available) };
        }
        self.holds.insert(id, (money.account.clone(), money.spend.clone(), money.amount.0));
        Held::Done
    }

    fn settle(&mut self, settlement: &Settlement) -> Settled {
        let (id, spent) = (settlement.money.hold_id(), settlement.spent.0);
        if let Some(paid) = self.over.get(&id) {
            return if *paid == spent { Settled::Done } else { Settled::Refused("hold_posted".to_owned()) };
        }
        let Some((account, spend, amount)) = self.holds.remove(&id) else {
            return if spent == 0 { Settled::Nothing } else { Settled::Refused("hold_not_found".to_owned()) };
        };
        assert!(spent <= amount, "a lease spends no more than is held");
        *self.balances.get_mut(&account).expect("it has a hold") -= spent;
        *self.balances.entry(spend).or_default() += spent;
        self.over.insert(id, spent);
        Settled::Done
    }
}

/// What outlives a kill.
struct World {
    chance: Chance,
    now: Cell<u64>,
    shards: RefCell<Vec<(Campaigns, u64)>>,
    bank: RefCell<Bank>,
    bidders: RefCell<Vec<Bidder>>,
    /// Of a hundred answers, so many are lost.
    lost: Cell<u64>,
}

#[derive(Clone)]
struct Reach(Rc<World>);

impl World {
    fn decide(&self, shard: ShardIndex, command: &Command) -> Outcome {
        let mut shards = self.shards.borrow_mut();
        let (state, records) = &mut shards[usize::from(shard.0)];
        match state.decide(command, ALLOWED, TimeMs(self.now.get())) {
            Decision::Answer(outcome) => outcome,
            Decision::Append { event, outcome } => {
                *records += 1;
                let at = Place { position: RecordPosition(*records), sequence: RecordSequence(*records) };
                state.apply(&event, at);
                outcome
            }
        }
    }

    fn new_bidders(&self) {
        let users = Arc::new(FrequencyTable::new(1_024));
        let new = |_| Bidder::new(TokenKey::derive(b"key"), users.clone());
        *self.bidders.borrow_mut() = (0..WORKERS).map(new).collect();
        self.set_time();
    }

    fn set_time(&self) {
        self.bidders.borrow_mut().iter_mut().for_each(|bidder| bidder.set_time(TimeMs(self.now.get())));
    }
}

impl Shards for Reach {
    fn count(&self) -> u16 {
        SHARDS
    }

    fn ask(&self, shard: ShardIndex, command: Command) -> impl Future<Output = Result<Outcome, String>> + use<> {
        let is_done = !self.0.chance.in_100(self.0.lost.get() / 2);
        let is_heard = is_done && !self.0.chance.in_100(self.0.lost.get() / 2);
        let outcome = is_done.then(|| self.0.decide(shard, &command));
        ready(outcome.filter(|_| is_heard).ok_or_else(|| "no answer".to_owned()))
    }
}

impl Bidders for Reach {
    fn exchange(&self, worker: u16, update: Update) -> impl Future<Output = Result<Report, Update>> + use<> {
        if self.0.chance.in_100(self.0.lost.get()) {
            return ready(Err(update));
        }
        let mut bidders = self.0.bidders.borrow_mut();
        let bidder = &mut bidders[usize::from(worker)];
        bidder.update(&update);
        ready(Ok(bidder.report()))
    }
}

impl Treasury for Reach {
    async fn hold(&self, money: Vec<Money>) -> Vec<Held> {
        let hold = |money: &Money| {
            let (is_done, is_heard) = self.fate();
            let held = if is_done { Some(self.0.bank.borrow_mut().hold(money)) } else { None };
            held.filter(|_| is_heard).unwrap_or(Held::Unknown("no answer".to_owned()))
        };
        money.iter().map(hold).collect()
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Settled> {
        let settle = |settlement: &Settlement| {
            let (is_done, is_heard) = self.fate();
            let settled = if is_done { Some(self.0.bank.borrow_mut().settle(settlement)) } else { None };
            settled.filter(|_| is_heard).unwrap_or(Settled::Unknown("no answer".to_owned()))
        };
        settlements.iter().map(settle).collect()
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

/// Nothing in a simulation waits.
fn run<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing here waits"),
    }
}

fn start(world: &Rc<World>) -> Kept {
    world.new_bidders();
    let reach = Reach(world.clone());
    let parts = (reach.clone(), reach.clone(), reach);
    let keeper = Keeper::new(Control::new(SETTINGS), parts, WORKERS, LiveTable::default());
    while run(keeper.recover()).is_err() {}
    keeper
}

fn id(campaign: usize) -> Box<str> {
    format!("c{campaign}").into()
}

fn plan(campaign: usize, version: u64, budget: u64, daily: Option<u64>) -> Plan {
    Plan {
        version,
        account: format!("campaign:{campaign}").into(),
        spend: format!("spend:{campaign}").into(),
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
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    bids: u64,
    taken: u64,
    late: u64,
    duplicate: u64,
    kills: u64,
    unfunded: u64,
}

/// A bid that was made: its token, price, campaign, time, and whether its win was answered as taken.
struct Made {
    token: [u8; TOKEN_BYTES],
    price: u32,
    campaign: usize,
    at: u64,
    is_taken: bool,
}

fn simulate(seed: u64) -> Result<Told, String> {
    let world = Rc::new(World {
        chance: Chance(Cell::new(mixed(seed))),
        now: Cell::new(BEGIN + 1_000),
        shards: RefCell::new((0..SHARDS).map(|shard| (Campaigns::new(ShardIndex(shard), SHARDS), 0)).collect()),
        bank: RefCell::default(),
        bidders: RefCell::default(),
        lost: Cell::new(mixed(seed ^ 1) % 30),
    });
    let mut told = Told::default();
    let (mut numbers, mut versions) = ([0; CAMPAIGNS], [1; CAMPAIGNS]);
    // The most that each may have spent: raised by a plan, and never lowered below what was spent and exposed then.
    let mut bounds = [0; CAMPAIGNS];
    let funds = 20_000 + world.chance.below(40_000);
    for campaign in 0..CAMPAIGNS {
        let shard = ShardIndex((campaign % usize::from(SHARDS)) as u16);
        world.bank.borrow_mut().balances.insert(format!("campaign:{campaign}").into(), funds);
        bounds[campaign] = 10_000 + world.chance.below(60_000);
        let put = Command::Put { id: id(campaign), plan: Box::new(plan(campaign, 1, bounds[campaign], None)) };
        let Outcome::Put { number, .. } = world.decide(shard, &put) else { panic!("it was put") };
        numbers[campaign] = number;
    }
    let shard_of = |campaign: usize| ShardIndex((numbers[campaign] % u32::from(SHARDS)) as u16);
    let spending = |campaign: usize| {
        let command = Command::Spending { campaigns: vec![numbers[campaign]] };
        match world.decide(shard_of(campaign), &command) {
            Outcome::Spending(all) => all[0].1,
            other => panic!("{other:?}"),
        }
    };
    let key = TokenKey::derive(b"key");
    let mut made: Vec<Made> = Vec::new();
    let mut paid = [0u64; CAMPAIGNS];
    let mut keeper = start(&world);
    for step in 0..STEPS {
        world.now.set(world.now.get() + 5 + world.chance.below(40));
        if world.chance.in_100(1) {
            // Over midnight of the zone, or a pause.
            world.now.set(world.now.get() + world.chance.below(40_000_000) * u64::from(step % 7 == 0) + 3_000);
        }
        world.set_time();
        for _ in 0..world.chance.below(30) {
            let campaign = world.chance.below(CAMPAIGNS as u64) as usize;
            let worker = world.chance.below(WORKERS.into()) as usize;
            let request = BidRequest {
                id: world.chance.below(u64::MAX),
                campaign: numbers[campaign],
                price: PriceMicros(world.chance.below(101) as u32),
                ..BidRequest::default()
            };
            if let Ok(offer) = world.bidders.borrow_mut()[worker].bid(&request) {
                told.bids += 1;
                let (token, price, at) = (offer.token, offer.price.0, world.now.get());
                made.push(Made { token, price, campaign, at, is_taken: false });
            }
        }
        for _ in 0..world.chance.below(15) {
            if made.is_empty() {
                break;
            }
            // Mostly of late; some come again, or too late.
            let newest = made.len() - 1;
            let back = if world.chance.in_100(80) { world.chance.below(60) } else { world.chance.below(2_000) };
            let bid = &mut made[newest - (back as usize).min(newest)];
            let known = key.open(&bid.token).expect("it was signed");
            let price = PriceMicros(1 + world.chance.below(bid.price.into()) as u32);
            let win = Command::Win { wins: vec![known.won(price)] };
            let Outcome::Won(won) = world.decide(known.lease.shard(), &win) else { panic!("it was judged") };
            let age = world.now.get() - bid.at;
            match won[0] {
                WinOutcome::Taken if bid.is_taken => return Err("a bid was paid twice".to_owned()),
                WinOutcome::Taken if age > DEADLINE_MS => return Err(format!("a win was paid after {age} ms")),
                WinOutcome::Taken => {
                    (told.taken, bid.is_taken) = (told.taken + 1, true);
                    paid[bid.campaign] += u64::from(price.0);
                }
                WinOutcome::Duplicate if bid.is_taken => told.duplicate += 1,
                WinOutcome::Duplicate => return Err("a bid that never won is a duplicate".to_owned()),
                WinOutcome::Late if age < DEADLINE_MS && !bid.is_taken => {
                    return Err(format!("a win was refused after {age} ms"));
                }
                WinOutcome::Late => told.late += 1,
                WinOutcome::Unfunded => return Err("a bid had no money".to_owned()),
            }
        }
        if world.chance.in_100(2) {
            let campaign = world.chance.below(CAMPAIGNS as u64) as usize;
            let now = spending(campaign);
            versions[campaign] += 1;
            let budget = 1_000 + world.chance.below(60_000);
            let daily = world.chance.in_100(30).then(|| 500 + world.chance.below(20_000));
            bounds[campaign] = budget.max(now.spent.0 + now.exposed.0);
            let plan = Box::new(plan(campaign, versions[campaign], budget, daily));
            world.decide(shard_of(campaign), &Command::Put { id: id(campaign), plan });
        }
        if world.chance.in_100(2) {
            // Bids that were made stay made; what the keeper and the bidders knew is gone.
            told.kills += 1;
            keeper = start(&world);
        }
        run(keeper.round());
        run(keeper.move_money());
        for campaign in 0..CAMPAIGNS {
            let now = spending(campaign);
            if now.spent.0 != paid[campaign] {
                return Err(format!(
                    "campaign {campaign} says {} was spent, and wins say {}",
                    now.spent, paid[campaign]
                ));
            }
            if (now.spent + now.exposed).0 > bounds[campaign] {
                return Err(format!(
                    "campaign {campaign} may spend {} of {}",
                    now.spent + now.exposed,
                    bounds[campaign]
                ));
            }
        }
        if let Some((campaign, lease)) = unfunded(&world, &made, &key) {
            return Err(format!("campaign {campaign}: a bid was made on lease {lease}, whose money is not held"));
        }
    }
    // Every answer comes again, no bid is made, and all is settled.
    world.lost.set(0);
    for _ in 0..400 {
        world.now.set(world.now.get() + 100);
        world.set_time();
        run(keeper.round());
        run(keeper.move_money());
    }
    let bank = world.bank.borrow();
    if let Some((hold, (account, ..))) = bank.holds.first_key_value() {
        return Err(format!("{hold} of {account} is held for ever"));
    }
    for (campaign, won) in paid.iter().enumerate() {
        let spent = bank.balances.get(&*format!("spend:{campaign}")).copied().unwrap_or(0);
        let left = bank.balances[&*format!("campaign:{campaign}")];
        if spent != *won || left + spent != funds {
            return Err(format!("campaign {campaign} paid {spent} for wins of {won}, and has {left} of {funds}"));
        }
    }
    Ok(told)
}

/// A bid of this moment on a lease whose money the bank does not hold.
fn unfunded(world: &World, made: &[Made], key: &TokenKey) -> Option<(usize, LeaseId)> {
    let (now, bank) = (world.now.get(), world.bank.borrow());
    let held: BTreeSet<u64> = bank.holds.keys().chain(bank.over.keys()).map(|hold| lease_of(hold)).collect();
    let fresh = made.iter().rev().take_while(|bid| bid.at == now);
    let mut leases = fresh.map(|bid| (bid.campaign, key.open(&bid.token).expect("it was signed").lease));
    leases.find(|(_, lease)| !held.contains(&lease.0))
}

/// The lease in the id of a hold.
fn lease_of(hold: &str) -> u64 {
    const DIGITS: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digit = |digit: char| DIGITS.find(digit).expect("a digit of Crockford's alphabet") as u128;
    hold.chars().fold(0u128, |bits, next| bits << 5 | digit(next)) as u64
}

/// So many seeds, or as many as `SEEDS` says, from the one that `SEED` says.
fn seeds() -> std::ops::Range<u64> {
    let said = |name: &str| std::env::var(name).ok().and_then(|said| said.parse().ok());
    let first = said("SEED").unwrap_or(0);
    first..first + said("SEEDS").unwrap_or(300)
}

#[test]
fn no_campaign_spends_more_than_it_has_in_any_seed() {
    let mut all = Told::default();
    for seed in seeds() {
        let told =
            simulate(seed).unwrap_or_else(|why| panic!("SEED={seed} SEEDS=1 cargo test -p tidegate-pacer: {why}"));
        all.bids += told.bids;
        all.taken += told.taken;
        all.late += told.late;
        all.duplicate += told.duplicate;
        all.kills += told.kills;
    }
    println!("{all:?}");
    let floor = seeds().count() as u64;
    assert!(all.bids > 500 * floor && all.taken > 100 * floor, "bids and wins come about: {all:?}");
    assert!(all.late > floor && all.duplicate > floor && all.kills > floor, "faults come about: {all:?}");
}

#[test]
fn a_seed_is_a_seed() {
    assert_eq!(simulate(7).expect("it holds"), simulate(7).expect("it holds"));
}

/// Plants a bug, and looks for a seed that finds it.
fn is_found(bug: Bug) {
    plant(Some(bug));
    let found = (0..100).find_map(|seed| {
        let simulated = std::panic::catch_unwind(|| simulate(seed));
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
    ] {
        is_found(bug);
    }
}
