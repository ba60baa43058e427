//! The rules of money as cases, and the machine against a model over random commands.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};

use super::*;
use crate::plan::{Flight, StrategyChoice};
use crate::token::Opening;
use crate::units::PriceMicros;

const ALLOWED: Allowed = Allowed { campaigns_max: 4, win_deadline_ms: 1_000 };

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
}

impl Driven {
    fn new() -> Driven {
        Driven { state: Campaigns::new(ShardIndex(1), 2), records: 0, now: TimeMs(10) }
    }

    fn ask(&mut self, command: Command) -> Outcome {
        match self.state.decide(&command, ALLOWED, self.now) {
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
        self.ask(Command::Put { id: id.into(), plan: Box::new(plan) })
    }

    fn open(&mut self, campaign: u32, amount: u64, day: i32) -> Result<LeaseView, NoLease> {
        let wanted = LeaseWanted { campaign, amount: BudgetMicros(amount), least: BudgetMicros(1), day };
        let Outcome::Opened(opened) = self.ask(Command::Open { wanted: vec![wanted] }) else { panic!("it was opened") };
        opened[0]
    }

    fn win(&mut self, lease: LeaseId, number: u32, price: u32) -> WinOutcome {
        let opened = self.opening(lease);
        let win = Win { lease, opened, number, bid_at: self.now, price: PriceMicros(price) };
        let Outcome::Won(won) = self.ask(Command::Win { wins: vec![win] }) else { panic!("it was judged") };
        won[0]
    }

    /// When a lease was opened; some time, if it is not known any more.
    fn opening(&self, lease: LeaseId) -> Opening {
        Opening::of(self.state.leases.get(&lease).map_or(TimeMs(0), |lease| lease.opened))
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
    assert_eq!(driven.put("a b", plan(7)), Outcome::Refused(Refusal::IdInvalid));
    assert_eq!(driven.put("hats", plan(7)), put(3, 1, Change::Made), "each shard has numbers of its own");
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
    assert_eq!(driven.open(1, 1, 4), Err(NoLease::DayUsed), "a clock that goes back makes no day");
    assert_eq!(driven.open(1, 70, 6).map(|lease| lease.amount), Ok(BudgetMicros(40)));
    assert_eq!(driven.open(1, 70, 7).map(|lease| lease.amount), Ok(BudgetMicros(20)), "what the budget has left");
}

#[test]
fn a_bid_is_paid_once_in_time_and_out_of_its_lease() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(1_000));
    let lease = driven.open(1, 100, 0).expect("there is money").id;
    assert_eq!(driven.win(lease, 7, 60), WinOutcome::Taken);
    assert_eq!(driven.win(lease, 7, 60), WinOutcome::Duplicate);
    assert_eq!(driven.win(lease, 8, 60), WinOutcome::Unfunded);
    let opened = driven.opening(lease);
    let late = Win { lease, opened, number: 9, bid_at: TimeMs(10), price: PriceMicros(1) };
    driven.now = TimeMs(1_010);
    let again = Win { number: 7, ..late };
    let in_time = Command::Win { wins: vec![late, late] };
    assert_eq!(driven.ask(in_time), Outcome::Won(vec![WinOutcome::Taken, WinOutcome::Duplicate]));
    driven.now = TimeMs(1_011);
    let command = Command::Win { wins: vec![Win { number: 10, ..late }, again] };
    assert_eq!(driven.ask(command), Outcome::Won(vec![WinOutcome::Late, WinOutcome::Duplicate]));
    driven.ask(Command::Close { leases: vec![lease] });
    assert_eq!(driven.win(lease, 11, 1), WinOutcome::Late, "it is closed");
    driven.ask(Command::Settle { leases: vec![lease] });
    assert_eq!(driven.win(lease, 7, 60), WinOutcome::Late, "it is forgotten");
    let view = driven.view("shoes").spending;
    assert_eq!((view.spent, view.exposed, view.impressions.0), (BudgetMicros(61), BudgetMicros::ZERO, 2));
}

#[test]
fn a_bid_of_another_timeline_is_not_paid() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(1_000));
    let lease = driven.open(1, 100, 0).expect("there is money").id;
    let (opened, bid_at) = (driven.opening(lease), driven.now);
    let win = Win { lease, opened, number: 0, bid_at, price: PriceMicros(1) };
    let other = Win { opened: Opening::of(TimeMs(11)), ..win };
    let Outcome::Won(won) = driven.ask(Command::Win { wins: vec![other, win] }) else { panic!("they were judged") };
    assert_eq!(won, [WinOutcome::Unfunded, WinOutcome::Taken]);
}

#[test]
fn an_ended_campaign_is_forgotten_when_its_leases_are_settled() {
    let mut driven = Driven::new();
    driven.put("shoes", plan(100));
    let lease = driven.open(1, 10, 0).expect("there is money").id;
    driven.ask(Command::Delete { id: "shoes".into() });
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

/// What is done to one of three campaigns and its leases.
#[derive(Clone, Debug)]
enum Act {
    Budget(u32, u64),
    Open(u32, u64, i32),
    Win(usize, u32, u32, u64),
    Close(usize),
    Settle(usize),
    Wait(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..3u32, 0..500u64).prop_map(|(campaign, budget)| Act::Budget(campaign, budget)),
        (0..3u32, 1..200u64, 0..4i32).prop_map(|(campaign, amount, day)| Act::Open(campaign, amount, day)),
        (0..20usize, 0..6u32, 1..60u32, 0..1_500u64)
            .prop_map(|(lease, bid, price, age)| Act::Win(lease, bid, price, age)),
        (0..20usize).prop_map(Act::Close),
        (0..20usize).prop_map(Act::Settle),
        (0..900u64).prop_map(Act::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]

    /// A model that knows money only: no bid is paid twice, no lease pays more than it has, and what is spent and may
    /// be spent was within the budget whenever money was leased.
    #[test]
    fn whatever_happens_no_campaign_spends_more_than_it_has(acts in prop::collection::vec(act(), 1..60)) {
        let mut driven = Driven::new();
        let number = |campaign: u32| campaign * 2 + 1;
        let mut budgets = [300u64; 3];
        for campaign in 0..3 {
            driven.put(&format!("c{campaign}"), Plan { daily_micros: Some(BudgetMicros(150)), ..plan(300) });
        }
        let (mut leases, mut paid): (Vec<LeaseView>, BTreeSet<(LeaseId, u32)>) = Default::default();
        let mut spent: BTreeMap<LeaseId, u64> = BTreeMap::new();
        for act in acts {
            match act {
                Act::Budget(campaign, budget) => {
                    budgets[campaign as usize] = budget;
                    driven.put(&format!("c{campaign}"), Plan { daily_micros: Some(BudgetMicros(150)), ..plan(budget) });
                }
                Act::Open(campaign, amount, day) => {
                    if let Ok(lease) = driven.open(number(campaign), amount, day) {
                        leases.push(lease);
                        let view = driven.view(&format!("c{campaign}")).spending;
                        prop_assert!((view.spent + view.exposed).0 <= budgets[campaign as usize]);
                        prop_assert!((view.day_spent + view.day_exposed).0 <= 150);
                    }
                }
                Act::Win(at, bid, price, age) => {
                    let Some(lease) = leases.get(at) else { continue };
                    let (bid_at, opened) = (TimeMs(driven.now.0.saturating_sub(age)), Opening::of(lease.opened));
                    let win = Win { lease: lease.id, opened, number: bid, bid_at, price: PriceMicros(price) };
                    let Outcome::Won(won) = driven.ask(Command::Win { wins: vec![win] }) else { panic!("judged") };
                    if won[0] == WinOutcome::Taken {
                        prop_assert!(paid.insert((lease.id, bid)) && driven.now.0 - bid_at.0 <= 1_000);
                        *spent.entry(lease.id).or_default() += u64::from(price);
                        prop_assert!(spent[&lease.id] <= lease.amount.0);
                    }
                }
                Act::Close(at) => {
                    let Some(lease) = leases.get(at) else { continue };
                    if let Outcome::Closed(closed) = driven.ask(Command::Close { leases: vec![lease.id] }) {
                        for view in closed {
                            prop_assert_eq!(view.spent.0, spent.get(&view.id).copied().unwrap_or(0));
                        }
                    }
                }
                Act::Settle(at) => {
                    let Some(lease) = leases.get(at) else { continue };
                    driven.ask(Command::Settle { leases: vec![lease.id] });
                }
                Act::Wait(ms) => driven.now.0 += ms,
            }
            let told: u64 = (0..3).map(|campaign| driven.view(&format!("c{campaign}")).spending.spent.0).sum();
            prop_assert_eq!(told, spent.values().sum::<u64>());
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
