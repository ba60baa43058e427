//! The rules of money as cases, and the machine against a model over random commands.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};

use super::event::put_life;
use super::*;
use crate::limits::LEASE_LIFE_MS_MAX;
use crate::plan::{Flight, StrategyChoice};
use crate::token::{Bid, Opening};
use crate::units::{Impressions, PriceMicros};

const ALLOWED: Allowed = Allowed { campaigns_max: 4, campaigns_of_owner_max: 3, win_deadline_ms: 1_000 };

pub fn plan(budget: u64) -> Plan {
    Plan {
        version: 0,
        account: "campaign:shoes".into(),
        spend: "spend:shoes".into(),
        budget_micros: BudgetMicros(budget),
        daily_micros: None,
        zone: "UTC".into(),
        flights: vec![Flight { starts_ms: 0, ends_ms: 1 << 40 }],
        price_micros: PriceMicros(100),
        strategy: StrategyChoice { name: "even".into(), parameters: BTreeMap::new() },
        paused: false,
        keys: Vec::new(),
        frequency: None,
        openrtb: None,
    }
}

/// A machine whose every record was read back from its bytes.
struct Driven {
    state: Campaigns,
    records: u64,
    now: TimeMs,
    /// By how much records are ahead of that.
    ahead_ms: u64,
}

impl Driven {
    fn new() -> Driven {
        Driven { state: Campaigns::new(ShardIndex(1), 2), records: 0, now: TimeMs(10), ahead_ms: 0 }
    }

    fn ask(&mut self, command: Command) -> Outcome {
        match self.state.decide(
            &command,
            Given { allowed: ALLOWED, clock: self.now },
            TimeMs(self.now.0 + self.ahead_ms),
        ) {
            Decision::Answer(outcome) => outcome,
            Decision::Append { event, outcome } => {
                self.records += 1;
                let mut bytes = Vec::new();
                Campaigns::encode(&event, &mut bytes);
                let read = Campaigns::decode(&bytes).expect("it was written just now");
                assert_eq!(read, event);
                let at = Place { position: RecordPosition(self.records), sequence: RecordSequence(self.records) };
                self.state.apply(&read, at);
                self.state.assert_sound();
                assert_eq!(self.restarted(), self.state);
                outcome
            }
        }
    }

    fn restarted(&self) -> Campaigns {
        let mut body = Vec::new();
        self.state.write_snapshot(&mut |part| body.extend_from_slice(part));
        Campaigns::read_snapshot(&body).expect("it was written just now")
    }

    fn put(&mut self, id: &str, plan: Plan) -> Outcome {
        self.ask(Command::Put { id: id.into(), plan: Box::new(plan), by: "ann".into() })
    }

    fn open(&mut self, campaign: u32, amount: u64, day: i32) -> Result<LeaseView, NoLease> {
        self.open_beside(0, campaign, amount, day)
    }

    /// Where the ledger may hold so much of closed leases.
    fn open_beside(&mut self, unsettled: u64, campaign: u32, amount: u64, day: i32) -> Result<LeaseView, NoLease> {
        let [amount, least, unsettled] = [amount, 1, unsettled].map(BudgetMicros);
        let life = Life::of(self.now, 10_000);
        let changed = self.state.campaigns.get(&campaign).map_or(0, |known| known.changed);
        let wanted = LeaseWanted { campaign, amount, least, unsettled, unsettled_today: unsettled, day, changed, life };
        self.open_wanted(wanted)
    }

    fn open_wanted(&mut self, wanted: LeaseWanted) -> Result<LeaseView, NoLease> {
        let opened = self.ask(Command::Open { wanted: vec![wanted] });
        let Outcome::Opened(opened) = opened else { panic!("it was opened: {opened:?}") };
        opened[0]
    }

    fn win(&mut self, lease: LeaseId, number: u32, price: u32) -> WinOutcome {
        self.win_of(self.bid(lease, number, price), price)
    }

    fn win_of(&mut self, bid: Bid, price: u32) -> WinOutcome {
        let wins = vec![bid.won(PriceMicros(price), self.now)];
        let Outcome::Won(won) = self.ask(Command::Win { wins }) else { panic!("it was judged") };
        won[0]
    }

    fn lose(&mut self, bid: Bid) -> LossOutcome {
        let Outcome::Lost(lost) = self.ask(Command::Lose { bids: vec![bid] }) else { panic!("it was judged") };
        lost[0]
    }

    fn retire(&mut self, lease: LeaseId, left: u64) {
        let leases = vec![RetiredLease { lease, left: BudgetMicros(left) }];
        assert_eq!(self.ask(Command::Retire { leases }), Outcome::Done);
    }

    fn known(&mut self) -> Vec<LeaseId> {
        let Outcome::Known(known) = self.ask(Command::Known { limit: 10 }) else { panic!("they were asked for") };
        known
    }

    /// A bid of this moment.
    fn bid(&self, lease: LeaseId, number: u32, price: u32) -> Bid {
        Bid { lease, opened: self.opening(lease), number, at: self.now, price: PriceMicros(price) }
    }

    fn exposed(&mut self, id: &str) -> u64 {
        self.view(id).spending.exposed.0
    }

    /// When a lease was opened; some time, if it is not known any more.
    fn opening(&self, lease: LeaseId) -> Opening {
        Opening::of(self.state.leases.get(&lease).map_or(TimeMs(0), |lease| lease.life.opened))
    }

    fn view(&mut self, id: &str) -> CampaignView {
        let Outcome::Campaign(view) = self.ask(Command::Read { id: id.into() }) else { panic!("there is one") };
        *view
    }
}

#[test]
fn a_higher_version_is_in_force_in_whatever_order_plans_come() {
    let versions = [3, 1, 2, 2];
    let plans = versions.iter().zip(1..).map(|(version, budget)| Plan { version: *version, ..plan(budget) });
    let plans: Vec<Plan> = plans.collect();
    let in_force = |order: &[usize]| {
        let mut driven = Driven::new();
        order.iter().for_each(|at| drop(driven.put("shoes", plans[*at].clone())));
        driven.view("shoes").plan
    };
    assert_eq!(in_force(&[0, 1, 2, 3]), plans[0]);
    assert_eq!(in_force(&[3, 2, 1, 0]), plans[0]);
    assert_eq!(in_force(&[1, 2, 3]), in_force(&[3, 2, 1]), "two plans of one version");
}

#[test]
fn a_plan_without_a_version_replaces_the_one_in_force() {
    let mut driven = Driven::new();
    let put = |number, version, change| Outcome::Put { number, version, change };
    assert_eq!(driven.put("shoes", plan(5)), put(1, 1, Change::Made));
    assert_eq!(driven.put("shoes", plan(5)), put(1, 1, Change::Unchanged));
    assert_eq!(driven.put("shoes", plan(6)), put(1, 2, Change::Changed));
    assert_eq!(driven.put("shoes", Plan { version: 1, ..plan(7) }), put(1, 2, Change::Stale));
    let other = Plan { account: "campaign:hats".into(), ..plan(7) };
    assert_eq!(driven.put("shoes", other), Outcome::Refused(Refusal::AccountsDiffer));
    for id in ["a b", "", ".", "..", &"a".repeat(65)] {
        assert_eq!(driven.put(id, plan(7)), Outcome::Refused(Refusal::IdInvalid), "{id}");
    }
    assert_eq!(driven.put("hats", plan(7)), put(3, 1, Change::Made), "each shard has numbers of its own");
    assert_eq!(driven.put("hats", Plan { version: VERSION_MAX, ..plan(8) }), put(3, VERSION_MAX, Change::Changed));
    assert_eq!(driven.put("hats", plan(9)), put(3, VERSION_MAX, Change::Stale), "none is above that");
}

#[test]
fn no_more_is_leased_than_the_budget_has_left() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(100));
    let first = driven.open(1, 70, 0).expect("there is money");
    assert_eq!(driven.open(1, 70, 0).map(|lease| lease.amount), Ok(BudgetMicros(30)), "what is left");
    assert_eq!(driven.open(1, 70, 0), Err(NoLease::BudgetUsed));
    assert_eq!(driven.win(first.id, 0, 50), WinOutcome::Taken);
    assert_eq!(driven.open(1, 1, 0), Err(NoLease::BudgetUsed), "what is not won may still be");
    driven.ask(Command::Close { leases: vec![first.id] });
    assert_eq!(driven.open(1, 70, 0).map(|lease| lease.amount), Ok(BudgetMicros(20)), "what was not won is free again");
    driven.put("shoes", plan(60));
    assert_eq!(driven.open(1, 1, 0), Err(NoLease::BudgetUsed), "less than what is spent and leased");
}

#[test]
fn a_day_has_a_cap_of_its_own() {
    let mut driven = Driven::new();
    driven.put("shoes", Plan { daily_micros: Some(BudgetMicros(40)), ..plan(100) });
    assert_eq!(driven.open(1, 70, 5).map(|lease| lease.amount), Ok(BudgetMicros(40)));
    assert_eq!(driven.open(1, 1, 5), Err(NoLease::DayUsed));
    assert_eq!(driven.open(1, 70, 6).map(|lease| lease.amount), Ok(BudgetMicros(40)));
    assert_eq!(driven.open(1, 70, 7).map(|lease| lease.amount), Ok(BudgetMicros(20)), "what the budget has left");
}

#[test]
fn what_the_ledger_may_have_paid_of_closed_leases_counts_for_the_day() {
    let mut driven = Driven::new();
    driven.put("shoes", Plan { daily_micros: Some(BudgetMicros(40)), ..plan(100) });
    let lease = driven.open(1, 30, 5).expect("there is money").id;
    assert_eq!(driven.win(lease, 0, 10), WinOutcome::Taken);
    driven.ask(Command::Close { leases: vec![lease] });
    // 20 of its hold may be paid.
    assert_eq!(driven.open_beside(20, 1, 70, 5).map(|lease| lease.amount.0), Ok(10));
    assert_eq!(driven.open_beside(20, 1, 70, 5), Err(NoLease::Unreleased), "it is soon known");
    assert_eq!(driven.open(1, 70, 5).map(|lease| lease.amount.0), Ok(20), "the ledger has paid no more");
    assert_eq!(driven.open(1, 70, 5), Err(NoLease::DayUsed));
}

const DAY_MS: u64 = 86_400_000;

/// A plan with a cap of 40 for each day of a zone.
fn in_zone(zone: &str) -> Plan {
    Plan { daily_micros: Some(BudgetMicros(40)), zone: zone.into(), ..plan(1_000) }
}

/// It was sent before the campaign has ended, and would spend its budget once more.
#[test]
fn a_plan_that_comes_behind_the_end_of_its_campaign_makes_none_again() {
    let mut driven = Driven::new();
    let of_version = |version| Plan { version, ..plan(100) };
    driven.put("shoes", of_version(7));
    driven.put("hats", of_version(1));
    driven.ask(Command::Delete { id: "shoes".into(), by: "ann".into() });
    driven.ask(Command::Forget { campaigns: vec![1] });
    assert_eq!(driven.restarted(), driven.state);
    let stale = Outcome::Put { number: 1, version: 7, change: Change::Stale };
    for late in [1, 6, 7] {
        assert_eq!(driven.put("shoes", of_version(late)), stale, "{late}");
    }
    assert_eq!(driven.ask(Command::Read { id: "shoes".into() }), Outcome::Refused(Refusal::NotFound));
    // One without a version is sent now, and has the next one, so that those of before stay behind it.
    let made = |number, version| Outcome::Put { number, version, change: Change::Made };
    assert_eq!(driven.put("shoes", of_version(0)), made(5, 8));
    let late = Plan { paused: true, ..of_version(7) };
    assert_eq!(driven.put("shoes", late), Outcome::Put { number: 5, version: 8, change: Change::Stale });
    driven.ask(Command::Delete { id: "shoes".into(), by: "ann".into() });
    driven.ask(Command::Forget { campaigns: vec![5] });
    assert_eq!(driven.put("shoes", of_version(9)), made(7, 9));
    driven.state.assert_sound();
}

/// Records of before say nothing of versions, and make the state that they made.
#[test]
fn what_a_record_of_before_has_forgotten_is_made_again() {
    let mut driven = Driven::new();
    driven.put("shoes", Plan { version: 7, ..plan(100) });
    driven.ask(Command::Delete { id: "shoes".into(), by: "ann".into() });
    let what = What::Forgotten { campaigns: vec![1], is_noted: false };
    let event = Event { at: driven.now, what };
    let mut bytes = Vec::new();
    Campaigns::encode(&event, &mut bytes);
    assert_eq!((bytes[0], Campaigns::decode(&bytes).as_ref()), (3, Ok(&event)));
    driven.records += 1;
    let at = Place { position: RecordPosition(driven.records), sequence: RecordSequence(driven.records) };
    driven.state.apply_checked(&event, at).expect("it follows");
    assert_eq!(driven.restarted(), driven.state);
    assert_eq!(
        driven.put("shoes", Plan { version: 2, ..plan(100) }),
        Outcome::Put { number: 3, version: 2, change: Change::Made }
    );
}

#[test]
fn another_zone_gives_no_second_cap_for_today() {
    let mut driven = Driven::new();
    driven.put("shoes", in_zone("UTC"));
    driven.now = TimeMs(100 * DAY_MS + 18 * 3_600_000);
    assert_eq!(driven.open(1, 40, 99).map(|lease| lease.amount.0), Ok(40), "yesterday");
    let today = driven.open(1, 30, 100).expect("there is money").id;
    assert_eq!(driven.win(today, 0, 10), WinOutcome::Taken);
    // Three in the morning of the next day.
    driven.put("shoes", in_zone("Asia/Tokyo"));
    assert_eq!(driven.restarted(), driven.state);
    assert_eq!(driven.open(1, 40, 101).map(|lease| lease.amount.0), Ok(10), "what this day has left");
    let view = driven.view("shoes").spending;
    assert_eq!((view.day, view.day_spent.0, view.day_exposed.0), (101, 10, 30));
    assert_eq!(driven.win(today, 1, 20), WinOutcome::Taken);
    assert_eq!(driven.view("shoes").spending.day_spent.0, 30, "its lease is of this day now");
    // And back: of the day of before there is more in this one.
    driven.put("shoes", in_zone("UTC"));
    assert_eq!(driven.open(1, 40, 100), Err(NoLease::DayUsed));
    assert_eq!(driven.open(1, 50, 101).map(|lease| lease.amount.0), Ok(40));
    // Where the day has the same number, what counts for it goes on.
    driven.put("shoes", in_zone("Europe/Berlin"));
    assert_eq!(driven.open(1, 40, 100), Err(NoLease::DayUsed));
    driven.state.assert_sound();
}

/// Behind a start with a clock that was ahead, records stand still, and leases go by the clock.
#[test]
fn another_zone_gives_no_second_cap_where_records_are_ahead_of_the_clock() {
    let mut driven = Driven::new();
    driven.put("shoes", in_zone("UTC"));
    driven.ahead_ms = 120_000;
    driven.now = TimeMs(101 * DAY_MS - 60_000);
    driven.put("shoes", in_zone("Asia/Tokyo"));
    assert_eq!(driven.open(1, 30, 101).map(|lease| lease.amount.0), Ok(30), "nine in the morning there");
    driven.put("shoes", in_zone("UTC"));
    assert_eq!(driven.open(1, 40, 100).map(|lease| lease.amount.0), Ok(10), "a minute before midnight");
    driven.state.assert_sound();
}

/// Whoever asks has looked at the clock before midnight, and has heard of the new zone since.
#[test]
fn another_zone_gives_no_cap_for_a_day_that_is_just_over() {
    let mut driven = Driven::new();
    driven.put("shoes", in_zone("UTC"));
    driven.now = TimeMs(100 * DAY_MS + 15 * 3_600_000 + 10);
    assert_eq!(driven.open(1, 30, 100).map(|lease| lease.amount.0), Ok(30));
    driven.put("shoes", in_zone("Asia/Tokyo"));
    assert_eq!(driven.open(1, 40, 100), Err(NoLease::ZoneChanged), "it was yesterday there, 10 ms ago");
    assert_eq!(driven.open(1, 40, 101).map(|lease| lease.amount.0), Ok(10));
    driven.state.assert_sound();
}

/// Whoever asks has not heard of the new zone, and says a day that is over there, or has not begun.
#[test]
fn what_is_asked_for_by_the_zone_of_before_is_leased_for_no_day() {
    let mut driven = Driven::new();
    driven.put("shoes", in_zone("Africa/Abidjan"));
    driven.now = TimeMs(100 * DAY_MS + 18 * 3_600_000);
    let [amount, least] = [30, 1].map(BudgetMicros);
    let [unsettled, unsettled_today] = [BudgetMicros::ZERO; 2];
    let (campaign, day, changed, life) = (1, 100, driven.records, Life::of(driven.now, 10_000));
    let wanted = LeaseWanted { campaign, amount, least, unsettled, unsettled_today, day, changed, life };
    // Of two plans of one version, the same one is in force in whatever order they come: this one.
    let put = driven.put("shoes", Plan { version: 1, ..in_zone("Asia/Tokyo") });
    assert_eq!(put, Outcome::Put { number: 1, version: 1, change: Change::Changed });
    let records = driven.records;
    assert_eq!(driven.open_wanted(wanted), Err(NoLease::ZoneChanged));
    assert_eq!(driven.records, records, "nothing is written");
    assert_eq!(driven.open_wanted(LeaseWanted { day: 101, ..wanted }).map(|lease| lease.amount.0), Ok(30));
    // Whatever else has changed, it is the same day.
    driven.put("shoes", Plan { paused: true, ..in_zone("Asia/Tokyo") });
    assert_eq!(driven.open_wanted(LeaseWanted { day: 101, ..wanted }).map(|lease| lease.amount.0), Ok(10));
}

/// A lease of a day that is forgotten is closed, and the ledger does not settle it.
#[test]
fn days_count_as_one_beside_leases_of_days_that_are_forgotten() {
    let mut driven = Driven::new();
    driven.put("shoes", in_zone("UTC"));
    let leases: Vec<LeaseId> = (95..=100).map(|day| driven.open(1, 10, day).expect("there is money").id).collect();
    driven.ask(Command::Close { leases: vec![leases[0]] });
    driven.now = TimeMs(100 * DAY_MS + 18 * 3_600_000);
    // Nobody has put it: nothing stands where its name would.
    let (id, plan) = ("shoes".into(), Box::new(in_zone("Asia/Tokyo")));
    driven.ask(Command::Put { id, plan, by: "".into() });
    assert_eq!(driven.restarted(), driven.state);
    assert_eq!(driven.win(leases[1], 0, 5), WinOutcome::Taken, "of a day that was forgotten");
    assert_eq!(driven.open(1, 40, 101).map(|lease| lease.amount.0), Ok(30));
    driven.ask(Command::Settle { leases: vec![leases[0]] });
    driven.state.assert_sound();
}

#[test]
fn a_clock_that_was_ahead_takes_nothing_from_the_cap_of_today() {
    let mut driven = Driven::new();
    driven.put("shoes", Plan { daily_micros: Some(BudgetMicros(40)), ..plan(1_000) });
    let spent = |driven: &mut Driven, day| match driven.ask(Command::Spending { campaigns: vec![(1, day)] }) {
        Outcome::Spending(all) => (all[0].1.day, all[0].1.day_spent.0, all[0].1.day_exposed.0),
        other => panic!("of spending: {other:?}"),
    };
    let leased = |driven: &mut Driven, day| driven.open(1, 70, day).map(|lease| lease.amount.0);
    let today = driven.open(1, 15, 5).expect("there is money").id;
    assert_eq!(driven.win(today, 0, 10), WinOutcome::Taken);
    assert_eq!((leased(&mut driven, 9), leased(&mut driven, 9)), (Ok(40), Err(NoLease::DayUsed)));
    assert_eq!((spent(&mut driven, 5), spent(&mut driven, 7)), ((5, 10, 5), (7, 0, 0)));
    assert_eq!((leased(&mut driven, 5), leased(&mut driven, 5)), (Ok(25), Err(NoLease::DayUsed)), "no more than once");
    assert_eq!(driven.view("shoes").spending.day, 5, "for which was leased last");
    assert_eq!(leased(&mut driven, 9), Err(NoLease::DayUsed));
    assert_eq!(driven.restarted(), driven.state);
    driven.state.assert_sound();
}

#[test]
fn a_bid_is_paid_once_in_time_and_out_of_its_lease() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(1_000));
    let lease = driven.open(1, 100, 0).expect("there is money").id;
    assert_eq!(driven.win(lease, 7, 60), WinOutcome::Taken);
    assert_eq!(driven.win(lease, 7, 60), WinOutcome::Duplicate);
    assert_eq!(driven.win(lease, 8, 60), WinOutcome::Unfunded);
    let bid = driven.bid(lease, 9, 1);
    let in_time = bid.won(PriceMicros(1), TimeMs(1_010));
    let in_time = Command::Win { wins: vec![in_time, in_time] };
    assert_eq!(driven.ask(in_time), Outcome::Won(vec![WinOutcome::Taken, WinOutcome::Duplicate]));
    let late = |number| Bid { number, ..bid }.won(PriceMicros(1), TimeMs(1_011));
    let command = Command::Win { wins: vec![late(10), late(7)] };
    assert_eq!(driven.ask(command), Outcome::Won(vec![WinOutcome::Late, WinOutcome::Duplicate]));
    driven.ask(Command::Close { leases: vec![lease] });
    assert_eq!(driven.win(lease, 11, 1), WinOutcome::Late, "it is closed");
    driven.ask(Command::Settle { leases: vec![lease] });
    assert_eq!(driven.win(lease, 7, 60), WinOutcome::Late, "it is forgotten");
    let view = driven.view("shoes").spending;
    assert_eq!((view.spent, view.exposed, view.impressions.0), (BudgetMicros(61), BudgetMicros::ZERO, 2));
}

/// A start had a clock that was ahead, and the next one has the right one: records go on from the time of the last.
#[test]
fn a_win_is_in_time_by_the_clock_by_which_bids_are_made() {
    let mut driven = Driven::new();
    driven.now = TimeMs(1_000_000);
    driven.put("shoes", plan(1_000));
    driven.now = TimeMs(10);
    let lease = driven.open(1, 100, 0).expect("there is money").id;
    assert_eq!(driven.win(lease, 0, 60), WinOutcome::Taken, "by the time of records it is late");
    let bid = driven.bid(lease, 1, 1);
    driven.now = TimeMs(1_011);
    assert_eq!(driven.win_of(bid, 1), WinOutcome::Late);
}

#[test]
fn what_returns_of_a_lease_is_leased_again_when_the_ledger_holds_it_no_more() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(1_000));
    let lease = driven.open(1, 800, 0).expect("there is money").id;
    let (lost, won) = (driven.bid(lease, 0, 100), driven.bid(lease, 1, 100));
    assert_eq!(driven.lose(lost), LossOutcome::Taken);
    assert_eq!(driven.win_of(won, 40), WinOutcome::Taken);
    driven.retire(lease, 550);
    let spending = driven.view("shoes").spending;
    assert_eq!((spending.spent.0, spending.exposed.0, spending.unreleased.0), (40, 50, 710));
    assert_eq!(driven.open(1, 300, 0).map(|lease| lease.amount.0), Ok(200));
    assert_eq!(driven.open(1, 300, 0), Err(NoLease::Unreleased));
    driven.ask(Command::Close { leases: vec![lease] });
    assert_eq!(driven.open_beside(760, 1, 1_000, 0), Err(NoLease::Unreleased), "the ledger was not told");
    assert_eq!(driven.open_beside(700, 1, 1_000, 0).map(|lease| lease.amount.0), Ok(60));
    assert_eq!(driven.open(1, 1_000, 0).map(|lease| lease.amount.0), Ok(700));
    assert_eq!(driven.open(1, 1, 0), Err(NoLease::BudgetUsed));
}

#[test]
fn no_principal_has_all_campaigns() {
    let mut driven = Driven::new();
    let put = |driven: &mut Driven, id: &str, by: &str| match driven.ask(Command::Put {
        id: id.into(),
        plan: Box::new(plan(1_000)),
        by: by.into(),
    }) {
        Outcome::Refused(why) => Err(why),
        _ => Ok(()),
    };
    for id in ["a", "b", "c"] {
        assert_eq!(put(&mut driven, id, "ann"), Ok(()));
    }
    assert_eq!(put(&mut driven, "d", "ann"), Err(Refusal::TooManyOfOwner));
    assert_eq!(put(&mut driven, "a", "ann"), Ok(()), "what is there stays");
    assert_eq!(put(&mut driven, "d", "ben"), Ok(()));
    assert_eq!(put(&mut driven, "e", "ben"), Err(Refusal::TooMany));
    let number = driven.view("b").number;
    driven.ask(Command::Delete { id: "b".into(), by: "ann".into() });
    assert_eq!(put(&mut driven, "e", "ben"), Err(Refusal::TooMany), "its last bids are not settled");
    driven.ask(Command::Forget { campaigns: vec![number] });
    assert_eq!(put(&mut driven, "e", "ann"), Ok(()));
}

/// Also a snapshot and records of before, which do not say it.
#[test]
fn who_has_changed_a_campaign_last_is_told() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(1_000));
    let told = |driven: &mut Driven| driven.view("shoes").last_change;
    assert_eq!(told(&mut driven), LastChange { by: "ann".into(), at: driven.now });
    driven.now = TimeMs(20);
    driven.put("shoes", Plan { version: 1, ..plan(1_000) });
    assert_eq!(told(&mut driven).at, TimeMs(10), "nothing has changed");
    driven.open(1, 100, 0).expect("there is money");
    driven.ask(Command::Delete { id: "shoes".into(), by: "ben".into() });
    assert_eq!(told(&mut driven), LastChange { by: "ben".into(), at: TimeMs(20) });
    assert_eq!(driven.restarted(), driven.state);

    let put = What::Put { number: 0, id: "hats".into(), plan: Box::new(plan(1)), by: "".into(), merged: None };
    for what in [put, What::Ended { number: 0, by: "".into() }] {
        let event = Event { at: TimeMs(30), what };
        let (mut with, mut without) = (Vec::new(), Vec::new());
        event.encode(&mut without);
        assert_eq!(Event::decode(&without), Ok(event));
        with.extend_from_slice(&without);
        with.push(0);
        assert!(Event::decode(&with).is_err(), "nobody has no name");
    }
}

/// Records have the time of a clock that never goes back. Behind a start with one that was ahead it stands still, and
/// leases of the same number from before and behind a restore would have one opening.
#[test]
fn a_lease_is_opened_at_the_time_by_which_is_bid_on_it() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(1_000));
    driven.now = TimeMs(7);
    let opened = |driven: &mut Driven| driven.open(1, 100, 0).expect("there is money");
    assert_eq!((opened(&mut driven).life, driven.state.time), (Life::of(TimeMs(7), 10_000), TimeMs(10)));
    driven.now = TimeMs(8);
    assert_eq!((opened(&mut driven).life.opened, driven.state.time), (TimeMs(8), TimeMs(10)));
    assert_eq!(driven.restarted(), driven.state);
}

/// They have its time, and it may be bid with for as long as one may be.
#[test]
fn leases_of_before_have_the_time_of_their_record() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(1_000));
    let leases = vec![Opened { campaign: 1, amount: BudgetMicros(100), day: 0, life: None }];
    let event = Event { at: TimeMs(20), what: What::Opened { first: 1, leases } };
    let mut bytes = Vec::new();
    event.encode(&mut bytes);
    assert_eq!(Event::decode(&bytes).as_ref(), Ok(&event));
    let at = Place { position: RecordPosition(9), sequence: RecordSequence(9) };
    assert_eq!(driven.state.apply_checked(&event, at), Ok(()));
    let command = Command::Leases { after: LeaseId::new(ShardIndex(1), 0), limit: 9 };
    let Outcome::Leases { leases, .. } = driven.ask(command) else { panic!("of leases") };
    assert_eq!(leases[0].life, Life::of(TimeMs(20), LEASE_LIFE_MS_MAX));

    let mut snapshot = Vec::new();
    driven.state.write_snapshot(&mut |part| snapshot.extend_from_slice(part));
    // The layout of before says nothing of campaigns that are forgotten: of none, at the end.
    assert_eq!((snapshot.pop(), std::mem::replace(&mut snapshot[0], 5)), (Some(0), 6));
    assert_eq!(Campaigns::read_snapshot(&snapshot).as_ref(), Ok(&driven.state));
    // A snapshot of before has the opening of a lease, and not for how long it is bid with; of days the last one.
    let mut instead = |part: &[u8], before: &[u8]| {
        let at = snapshot.windows(part.len()).rposition(|found| found == part).expect("it is written");
        snapshot.splice(at..at + part.len(), before.iter().copied());
    };
    let mut life = Vec::new();
    put_life(&mut life, leases[0].life);
    instead(&life, &[20]);
    // Impressions, losses, the last day, how many days, that one, and that there is no mark.
    instead(&[0, 0, 0, 1, 0, 0, 100, 0], &[0, 0, 0, 0, 100]);
    // Whether a process has begun, how many parts of openings, and that one.
    instead(&[0, 1, 1, 1, 20, 20], &[1]);
    snapshot[0] = 3;
    let openings = Openings::of_one(1, TimeMs(20));
    assert_eq!(Campaigns::read_snapshot(&snapshot), Ok(Campaigns { openings, ..driven.state }));
}

/// As a version did that did not count what the ledger holds for nothing.
#[test]
fn records_that_lease_what_the_ledger_holds_are_read() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(1_000));
    let lease = driven.open(1, 800, 0).expect("there is money").id;
    driven.retire(lease, 800);
    let leases = vec![Opened { campaign: 1, amount: BudgetMicros(1_000), day: 0, life: None }];
    let event = Event { at: driven.now, what: What::Opened { first: 2, leases } };
    let at = Place { position: RecordPosition(9), sequence: RecordSequence(9) };
    assert_eq!(driven.state.apply_checked(&event, at), Ok(()));
    driven.state.assert_sound();
    assert_eq!(driven.restarted(), driven.state);
}

/// However often the most that there can be is leased and returns.
#[test]
fn what_is_held_adds_up_in_any_record() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(u64::MAX));
    let half = 1 << 63;
    let lease = driven.open(1, half, 0).expect("there is money").id;
    driven.retire(lease, half);
    let opened = |amount| {
        let leases = vec![Opened { campaign: 1, amount: BudgetMicros(amount), day: 0, life: None }];
        Event { at: TimeMs(10), what: What::Opened { first: 2, leases } }
    };
    let at = Place { position: RecordPosition(9), sequence: RecordSequence(9) };
    assert!(driven.state.apply_checked(&opened(half), at).is_err());
    assert_eq!(driven.state.apply_checked(&opened(half - 1), at), Ok(()));
    driven.state.assert_sound();
}

#[test]
fn a_bid_of_another_timeline_is_not_paid() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(1_000));
    let lease = driven.open(1, 100, 0).expect("there is money").id;
    let bid = driven.bid(lease, 0, 1);
    let other = Bid { opened: Opening::of(TimeMs(11)), ..bid };
    let wins = [other, bid].map(|bid| bid.won(PriceMicros(1), TimeMs(10))).into();
    let Outcome::Won(won) = driven.ask(Command::Win { wins }) else { panic!("they were judged") };
    assert_eq!(won, [WinOutcome::Unfunded, WinOutcome::Taken]);
    assert_eq!(driven.lose(Bid { number: 1, ..other }), LossOutcome::Unfunded);
    assert_eq!(driven.exposed("shoes"), 99);
}

#[test]
fn what_a_bid_reserves_is_free_when_it_is_known_what_became_of_it() {
    let mut driven = Driven::new();
    driven.put("shoes", Plan { daily_micros: Some(BudgetMicros(100)), ..plan(100) });
    let lease = driven.open(1, 100, 0).expect("there is money").id;
    let bids = [0, 1, 2].map(|number| driven.bid(lease, number, 30));
    assert_eq!(driven.win_of(bids[0], 31), WinOutcome::Unfunded, "above what was bid");
    assert_eq!(driven.win_of(bids[0], 12), WinOutcome::Taken);
    assert_eq!(driven.exposed("shoes"), 70, "the second price is spent, the rest is free");
    assert_eq!(driven.lose(bids[1]), LossOutcome::Taken);
    let Spending { spent, exposed, day_spent, day_exposed, impressions, losses, .. } = driven.view("shoes").spending;
    assert_eq!([spent.0, exposed.0, day_spent.0, day_exposed.0], [12, 40, 12, 40]);
    assert_eq!((impressions.0, losses.0), (1, 1));
    assert_eq!(driven.open(1, 70, 0), Err(NoLease::Unreleased), "the ledger holds it until the lease is closed");

    assert_eq!(driven.win_of(bids[1], 1), WinOutcome::Lost, "it was lost");
    assert_eq!(driven.lose(bids[1]), LossOutcome::Duplicate);
    assert_eq!(driven.lose(bids[0]), LossOutcome::Won, "it has won");
    assert_eq!(driven.win_of(bids[0], 12), WinOutcome::Duplicate);
    assert_eq!(driven.exposed("shoes"), 40, "none of these changes anything");
    driven.now = TimeMs(2_000);
    assert_eq!(driven.win_of(bids[2], 1), WinOutcome::Late);
    assert_eq!(driven.lose(bids[2]), LossOutcome::Taken, "it can win no more");
    assert_eq!(driven.win_of(bids[1], 1), WinOutcome::Lost, "before it is late");
    driven.ask(Command::Close { leases: vec![lease] });
    assert_eq!(driven.open(1, 100, 0).map(|lease| lease.amount), Ok(BudgetMicros(88)), "it is leased again");
    let late = Bid { number: 3, price: PriceMicros(10), ..bids[2] };
    assert_eq!((driven.lose(late), driven.lose(bids[2])), (LossOutcome::Late, LossOutcome::Duplicate));
    assert_eq!(driven.win_of(bids[1], 1), WinOutcome::Lost);
    driven.ask(Command::Settle { leases: vec![lease] });
    assert_eq!(driven.lose(bids[1]), LossOutcome::Late, "it is forgotten");
}

#[test]
fn the_same_bid_counts_once_in_one_command() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(100));
    let lease = driven.open(1, 100, 0).expect("there is money").id;
    let (bid, other) = (driven.bid(lease, 0, 60), driven.bid(lease, 1, 60));
    let lost = driven.ask(Command::Lose { bids: vec![bid, bid, other] });
    let outcomes = vec![LossOutcome::Taken, LossOutcome::Duplicate, LossOutcome::Unfunded];
    assert_eq!(lost, Outcome::Lost(outcomes), "no lease makes bids for more than it has");
    assert_eq!(driven.exposed("shoes"), 40);
}

#[test]
fn a_retired_lease_is_known_when_all_of_its_bids_are() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(1_000));
    let lease = driven.open(1, 100, 0).expect("there is money").id;
    let bids = [0, 1].map(|number| driven.bid(lease, number, 30));
    driven.lose(bids[0]);
    driven.retire(lease, 71);
    assert_eq!(driven.exposed("shoes"), 70, "no more is left than nobody has bid");
    driven.retire(lease, 40);
    assert_eq!(driven.exposed("shoes"), 30, "what was not bid is free");
    driven.retire(lease, 30);
    assert_eq!((driven.exposed("shoes"), driven.known()), (30, vec![]), "it retires once");
    assert_eq!(driven.win_of(bids[1], 30), WinOutcome::Taken);
    assert_eq!((driven.exposed("shoes"), driven.known()), (0, vec![lease]));
    driven.ask(Command::Close { leases: vec![lease] });
    assert_eq!(driven.known(), [], "it is closed");
    assert_eq!(driven.win_of(bids[1], 30), WinOutcome::Duplicate, "until it is forgotten");

    let other = driven.open(1, 100, 0).expect("there is money").id;
    let bid = driven.bid(other, 0, 100);
    driven.lose(bid);
    assert_eq!(driven.known(), [], "its worker bids");
    driven.retire(other, 0);
    assert_eq!(driven.known(), [other]);
}

#[test]
fn an_ended_campaign_is_forgotten_when_its_leases_are_settled() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(100));
    let lease = driven.open(1, 10, 0).expect("there is money").id;
    driven.ask(Command::Delete { id: "shoes".into(), by: "ben".into() });
    assert_eq!(driven.open(1, 10, 0), Err(NoLease::CampaignUnknown));
    assert_eq!(driven.win(lease, 0, 10), WinOutcome::Taken, "bids that were made are paid");
    let forget = || Command::Forget { campaigns: vec![1] };
    driven.ask(forget());
    assert!(driven.view("shoes").is_ended);
    assert_eq!(driven.put("shoes", plan(100)), Outcome::Refused(Refusal::Ending));
    driven.ask(Command::Close { leases: vec![lease] });
    driven.ask(Command::Settle { leases: vec![lease] });
    driven.ask(forget());
    assert_eq!(driven.ask(Command::Read { id: "shoes".into() }), Outcome::Refused(Refusal::NotFound));
    assert!(matches!(driven.put("shoes", plan(100)), Outcome::Put { number: 3, .. }), "numbers are not used again");
}

#[test]
fn changes_and_campaigns_come_in_pages() {
    let mut driven = Driven::new();
    ["c", "a", "b"].into_iter().for_each(|id| drop(driven.put(id, plan(1))));
    driven.put("c", plan(2));
    let mut page = |after| match driven.ask(Command::Changed { after, limit: 2 }) {
        Outcome::Changed { campaigns, up_to } => (campaigns.iter().map(|view| view.id.to_string()).collect(), up_to),
        other => panic!("{other:?}"),
    };
    assert_eq!(page(0), (vec!["a".to_owned(), "b".to_owned()], 3));
    assert_eq!(page(3), (vec!["c".to_owned()], 4));
    assert_eq!(page(4), (vec![], 4));
    let Outcome::Campaigns(first, next) = driven.ask(Command::List { after: "".into(), limit: 2 }) else { panic!() };
    assert_eq!((first.len(), next.as_deref()), (2, Some("b")));
    let Outcome::Campaigns(rest, next) = driven.ask(Command::List { after: "b".into(), limit: 2 }) else { panic!() };
    assert_eq!((rest.len(), next), (1, None));
}

#[test]
fn a_page_of_large_plans_is_short_and_the_rest_comes_behind_it() {
    let mut driven = Driven::new();
    for id in ["a", "b", "c"] {
        let flights = (0..12_288).map(|at| Flight { starts_ms: 2 * at, ends_ms: 2 * at + 1 }).collect();
        driven.put(id, Plan { flights, ..plan(1) });
    }
    let mut list = |after: &str| match driven.ask(Command::List { after: after.into(), limit: 100 }) {
        Outcome::Campaigns(page, next) => (page.len(), next),
        other => panic!("{other:?}"),
    };
    assert_eq!(list(""), (2, Some("b".into())), "192 KiB each");
    assert_eq!(list("b"), (1, None));
    let Outcome::Changed { campaigns, up_to } = driven.ask(Command::Changed { after: 0, limit: 100 }) else { panic!() };
    assert_eq!((campaigns.len(), up_to), (2, 2));
}

fn spent(driven: &mut Driven) -> (u64, u64) {
    let spending = driven.view("shoes").spending;
    (spending.spent.0, spending.exposed.0)
}

fn mark(counter: u64) -> Mark {
    Mark { lease: LeaseId::new(ShardIndex(1), counter), opened: TimeMs(5) }
}

#[test]
fn what_was_paid_for_leases_of_a_lost_part_counts_once() {
    let mut driven = Driven::new();
    driven.put("shoes", Plan { daily_micros: Some(BudgetMicros(60)), ..plan(100) });
    driven.open(1, 10, 3).expect("there is money");
    let regain = |driven: &mut Driven, campaign, (newest, behind): (u64, Option<u64>), paid: &[(i32, u64)]| {
        let days = paid.iter().map(|(day, paid)| PaidOnDay { day: *day, paid: BudgetMicros(*paid) }).collect();
        let regained = Regained { campaign, mark: mark(newest), days };
        let Outcome::Mark(mark) = driven.ask(Command::Regain { regained, behind: behind.map(mark) }) else { panic!() };
        mark.map(|mark| mark.lease.counter())
    };
    for _ in 0..2 {
        let is_counted = regain(&mut driven, 1, (43, None), &[(4, 55), (5, u64::MAX), (3, 2)]);
        assert_eq!((is_counted, spent(&mut driven)), (Some(43), (57, 10)), "more than can be does not count");
    }
    assert_eq!(regain(&mut driven, 1, (44, None), &[(4, 1)]), Some(43), "what was found is counted already");
    assert_eq!(regain(&mut driven, 1, (44, Some(43)), &[]), Some(44));
    assert_eq!(spent(&mut driven), (57, 10));
    assert_eq!(driven.view("shoes").spending.impressions, Impressions(0), "nobody knows how many");
    assert_eq!(driven.open(1, 10, 4).expect("5 of 60 is left on that day").amount, BudgetMicros(5));
    assert_eq!(driven.open(1, 10, 4), Err(NoLease::DayUsed));
    assert_eq!(driven.open(1, 50, 5).expect("28 is left in all").amount, BudgetMicros(28));
    // A campaign that is not there: its number is given no more.
    assert_eq!(regain(&mut driven, 7, (45, None), &[(4, 1)]), Some(45));
    assert_eq!(regain(&mut driven, 4, (45, None), &[]), None, "of another shard");
    assert!(matches!(driven.put("hats", plan(100)), Outcome::Put { number: 9, .. }));
}

#[test]
fn a_process_begins_once_and_leases_that_were_opened_are_told_from_others() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(100));
    driven.open(1, 10, 0).expect("there is money");
    (0..2).for_each(|_| drop(driven.ask(Command::Begin)));
    assert_eq!(driven.records, 3, "nothing was opened in between");
    driven.now = TimeMs(500);
    let life = Life::of(TimeMs(500), 10_000);
    let amount = BudgetMicros(5);
    let (least, unsettled) = (amount, BudgetMicros::ZERO);
    let (campaign, unsettled_today, day, changed) = (1, unsettled, 0, 1);
    let wanted = LeaseWanted { campaign, amount, least, unsettled, unsettled_today, day, changed, life };
    driven.open_wanted(wanted).expect("there is money");
    let Outcome::Openings(openings) = driven.ask(Command::Openings) else { panic!("of openings") };
    assert_eq!(openings.opened(), 2);
    assert!(openings.has(1, TimeMs(10)) && openings.has(2, TimeMs(500)));
    assert!(!openings.has(1, TimeMs(500)) && !openings.has(2, TimeMs(10)) && !openings.has(3, TimeMs(500)));
}

#[test]
fn what_was_paid_of_a_closed_lease_beyond_its_wins_counts() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(100));
    let lease = driven.open(1, 50, 0).expect("there is money").id;
    assert_eq!(driven.win(lease, 0, 10), WinOutcome::Taken);
    let correct = |driven: &mut Driven, paid| {
        driven.ask(Command::Correct { leases: vec![PaidLease { lease, paid: BudgetMicros(paid) }] });
        spent(driven)
    };
    assert_eq!(correct(&mut driven, 30), (10, 40), "its wins may still come");
    driven.ask(Command::Close { leases: vec![lease] });
    assert_eq!(correct(&mut driven, 51), (10, 0), "more than it had");
    assert_eq!(correct(&mut driven, 9), (10, 0), "the wins have cost more");
    assert_eq!(correct(&mut driven, 30), (30, 0));
    assert_eq!(correct(&mut driven, 30), (30, 0));
    assert_eq!(correct(&mut driven, 50), (50, 0));
    let Outcome::Closed(closed) = driven.ask(Command::Close { leases: vec![lease] }) else { panic!() };
    assert_eq!(closed[0].spent, BudgetMicros(50), "the ledger is told what it has said");
}

/// What is done to one of three campaigns and its leases.
#[derive(Clone, Debug)]
enum Act {
    Budget(u32, u64),
    Open(u32, u64, i32),
    Win(usize, u32, u32, u64),
    Lose(usize, u32, u64),
    Retire(usize),
    Close(usize),
    Settle(usize),
    Regain(u32, u64, u64, i32),
    Correct(usize, u64),
    Wait(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..3u32, 0..500u64).prop_map(|(campaign, budget)| Act::Budget(campaign, budget)),
        (0..3u32, 1..200u64, 0..4i32).prop_map(|(campaign, amount, day)| Act::Open(campaign, amount, day)),
        (0..20usize, 0..6u32, 0..40u32, 0..1_500u64)
            .prop_map(|(lease, bid, below, age)| Act::Win(lease, bid, below, age)),
        (0..20usize, 0..6u32, 0..1_500u64).prop_map(|(lease, bid, age)| Act::Lose(lease, bid, age)),
        (0..20usize).prop_map(Act::Retire),
        (0..20usize).prop_map(Act::Close),
        (0..20usize).prop_map(Act::Settle),
        (0..3u32, 0..3u64, 1..60u64, 0..4i32)
            .prop_map(|(campaign, behind, paid, day)| Act::Regain(campaign, behind, paid, day)),
        (0..20usize, 1..40u64).prop_map(|(lease, more)| Act::Correct(lease, more)),
        (0..900u64).prop_map(Act::Wait),
    ]
}

/// What a model knows of a lease. Its bids cost 10, 17, 24 …, as many as it has money for, and at most six.
struct Modelled {
    view: LeaseView,
    day: i32,
    /// The prices of wins, and lost bids.
    won: BTreeMap<u32, u64>,
    lost: BTreeSet<u32>,
    is_retired: bool,
    is_closed: bool,
    is_settled: bool,
    /// What the ledger has paid beyond the wins.
    corrected: u64,
}

impl Modelled {
    fn price(number: u32) -> u64 {
        10 + 7 * u64::from(number)
    }

    /// What it has cost.
    fn spent(&self) -> u64 {
        self.won.values().sum::<u64>() + self.corrected
    }

    fn bids(&self) -> impl Iterator<Item = u32> + use<> {
        let amount = self.view.amount.0;
        (0..6).take_while(move |last| (0..=*last).map(Modelled::price).sum::<u64>() <= amount)
    }

    fn left(&self) -> u64 {
        self.view.amount.0 - self.bids().map(Modelled::price).sum::<u64>()
    }

    /// What the ledger holds for nothing: it holds all of the lease until it is closed.
    fn unreleased(&self) -> u64 {
        if self.is_closed { 0 } else { self.view.amount.0 - self.exposed() - self.won.values().sum::<u64>() }
    }

    /// What bids reserve of which nobody knows what became of them, and what may still be bid.
    fn exposed(&self) -> u64 {
        let is_open = |number: &u32| !self.won.contains_key(number) && !self.lost.contains(number);
        let reserved: u64 = self.bids().filter(is_open).map(Modelled::price).sum();
        match (self.is_closed, self.is_retired) {
            (true, _) => 0,
            (false, true) => reserved,
            (false, false) => reserved + self.left(),
        }
    }

    /// What counts for the cap of its day.
    fn used(&self) -> u64 {
        self.exposed() + self.won.values().sum::<u64>()
    }

    fn bid(&self, number: u32, at: TimeMs) -> Bid {
        let (opened, price) = (Opening::of(self.view.life.opened), PriceMicros(Modelled::price(number) as u32));
        Bid { lease: self.view.id, opened, number, at, price }
    }

    fn win(&mut self, number: u32, price: u64, is_late: bool) -> WinOutcome {
        match () {
            () if self.is_settled => WinOutcome::Late,
            () if self.won.contains_key(&number) => WinOutcome::Duplicate,
            () if self.lost.contains(&number) => WinOutcome::Lost,
            () if is_late || self.is_closed => WinOutcome::Late,
            () => {
                self.won.insert(number, price);
                WinOutcome::Taken
            }
        }
    }

    fn lose(&mut self, number: u32) -> LossOutcome {
        match () {
            () if self.is_settled => LossOutcome::Late,
            () if self.lost.contains(&number) => LossOutcome::Duplicate,
            () if self.won.contains_key(&number) => LossOutcome::Won,
            () if self.is_closed => LossOutcome::Late,
            () => {
                self.lost.insert(number);
                LossOutcome::Taken
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]

    /// Whatever is asked in whatever order: no budget is overspent, also of a day; notices are answered as the model
    /// answers them; and what is exposed is exactly what wins may still cost and workers may still bid.
    #[test]
    fn what_is_spent_and_exposed_is_what_became_of_bids(acts in prop::collection::vec(act(), 1..120)) {
        let mut driven = Driven::new();
        let number = |campaign: u32| campaign * 2 + 1;
        let (mut budgets, mut regained) = ([300u64; 3], [0u64; 3]);
        for campaign in 0..3 {
            driven.put(&format!("c{campaign}"), Plan { daily_micros: Some(BudgetMicros(150)), ..plan(300) });
        }
        let mut leases: Vec<Modelled> = Vec::new();
        for act in acts {
            match act {
                Act::Budget(campaign, budget) => {
                    budgets[campaign as usize] = budget;
                    driven.put(&format!("c{campaign}"), Plan { daily_micros: Some(BudgetMicros(150)), ..plan(budget) });
                }
                Act::Open(campaign, amount, day) => {
                    if let Ok(view) = driven.open(number(campaign), amount, day) {
                        let (won, lost) = Default::default();
                        let (is_retired, is_closed, is_settled) = (false, false, false);
                        let corrected = 0;
                        leases.push(Modelled { view, day, won, lost, is_retired, is_closed, is_settled, corrected });
                        let is_of_day = |lease: &&Modelled| (lease.view.campaign, lease.day) == (view.campaign, day);
                        let of_day = leases.iter().filter(is_of_day);
                        prop_assert!(of_day.map(Modelled::used).sum::<u64>() <= 150, "whatever day was before");
                        let view = driven.view(&format!("c{campaign}")).spending;
                        let held = view.spent + view.exposed + view.unreleased;
                        prop_assert!(held.0 <= budgets[campaign as usize]);
                        prop_assert!((view.day_spent + view.day_exposed).0 <= 150);
                    }
                }
                Act::Win(at, number, below, age) => {
                    let Some(lease) = leases.get_mut(at) else { continue };
                    let price = Modelled::price(number).saturating_sub(below.into());
                    let bid = lease.bid(number, TimeMs(driven.now.0.saturating_sub(age)));
                    if lease.bids().any(|made| made == number) {
                        let is_late = driven.now.0 - bid.at.0 > ALLOWED.win_deadline_ms;
                        prop_assert_eq!(driven.win_of(bid, price as u32), lease.win(number, price, is_late));
                    }
                }
                Act::Lose(at, number, age) => {
                    let Some(lease) = leases.get_mut(at) else { continue };
                    let bid = lease.bid(number, TimeMs(driven.now.0.saturating_sub(age)));
                    if lease.bids().any(|made| made == number) {
                        prop_assert_eq!(driven.lose(bid), lease.lose(number));
                    }
                }
                Act::Retire(at) => {
                    let Some(lease) = leases.get_mut(at) else { continue };
                    driven.retire(lease.view.id, lease.left());
                    lease.is_retired = true;
                }
                Act::Close(at) => {
                    let Some(lease) = leases.get_mut(at) else { continue };
                    if let Outcome::Closed(closed) = driven.ask(Command::Close { leases: vec![lease.view.id] }) {
                        for view in closed {
                            prop_assert_eq!(view.spent.0, lease.spent());
                        }
                    }
                    lease.is_closed = true;
                }
                Act::Settle(at) => {
                    let Some(lease) = leases.get_mut(at) else { continue };
                    driven.ask(Command::Settle { leases: vec![lease.view.id] });
                    lease.is_settled = lease.is_closed;
                }
                Act::Regain(campaign, behind, paid, day) => {
                    let (behind, paid_on_day) = (mark(behind), PaidOnDay { day, paid: BudgetMicros(paid) });
                    let known = driven.view(&format!("c{campaign}")).mark;
                    let lost = Regained { campaign: number(campaign), mark: behind, days: vec![paid_on_day] };
                    driven.ask(Command::Regain { regained: lost, behind: known });
                    regained[campaign as usize] += if known == Some(behind) { 0 } else { paid };
                }
                Act::Correct(at, more) => {
                    let Some(lease) = leases.get_mut(at) else { continue };
                    let paid = lease.view.amount.0.min(lease.spent() + more);
                    let paid_lease = PaidLease { lease: lease.view.id, paid: BudgetMicros(paid) };
                    driven.ask(Command::Correct { leases: vec![paid_lease] });
                    if lease.is_closed && !lease.is_settled {
                        lease.corrected += paid - lease.spent();
                    }
                }
                Act::Wait(ms) => driven.now.0 += ms,
            }
            for campaign in 0..3 {
                let view = driven.view(&format!("c{campaign}")).spending;
                let of_it = || leases.iter().filter(|lease| lease.view.campaign == number(campaign));
                let spent = of_it().map(Modelled::spent).sum::<u64>() + regained[campaign as usize];
                let exposed: u64 = of_it().map(Modelled::exposed).sum();
                prop_assert_eq!((view.spent.0, view.exposed.0), (spent, exposed));
                prop_assert_eq!(view.unreleased.0, of_it().map(Modelled::unreleased).sum::<u64>());
                prop_assert_eq!(view.losses.0, of_it().map(|lease| lease.lost.len() as u64).sum::<u64>());
            }
            let is_known = |lease: &&Modelled| lease.is_retired && !lease.is_closed && lease.exposed() == 0;
            let known: Vec<LeaseId> = leases.iter().filter(is_known).map(|lease| lease.view.id).take(10).collect();
            prop_assert_eq!(driven.known(), known);
        }
    }

    /// Bytes that are no record, and no snapshot, are refused.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(event) = Campaigns::decode(&bytes) {
            let mut again = Vec::new();
            Campaigns::encode(&event, &mut again);
            prop_assert_eq!(again, bytes.clone());
            let mut state = Campaigns::new(ShardIndex(0), 1);
            let at = Place { position: RecordPosition(1), sequence: RecordSequence(1) };
            if state.apply_checked(&event, at).is_ok() {
                state.assert_sound();
            }
        }
        let _ = Campaigns::read_snapshot(&bytes);
    }
}
