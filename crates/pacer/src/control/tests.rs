//! What is leased for which worker, and what becomes of leases, as cases. The simulation holds what is so in every
//! order.

use std::collections::BTreeMap;

use tidegate_machines::ShardIndex;

use super::*;
use crate::bidder::{Grant, NoBid, Retired, Used};
use crate::machine::{
    CampaignView, LastChange, LeaseId, Life, Mark, Openings, PaidOnDay, Regained, RetiredLease, Spending,
};
use crate::plan::{Flight, Plan, StrategyChoice};
use crate::units::PriceMicros;

const NOW: TimeMs = TimeMs(1_795_000_000_000);
const SETTINGS: ControlSettings = ControlSettings { workers: 2, lease_ms: 1_000, win_deadline_ms: 5_000 };

fn view(budget: u64) -> CampaignView {
    let plan = Plan {
        version: 1,
        account: "campaign:shoes".into(),
        spend: "spend:shoes".into(),
        budget_micros: BudgetMicros(budget),
        daily_micros: None,
        zone: "UTC".into(),
        flights: vec![Flight { starts_ms: NOW.0 - 1_000, ends_ms: NOW.0 + 100_000 }],
        price_micros: PriceMicros(100),
        strategy: StrategyChoice { name: "as_fast_as_possible".into(), parameters: BTreeMap::new() },
        paused: false,
        keys: Vec::new(),
        frequency: None,
        openrtb: None,
    };
    CampaignView::unspent("shoes", 7, plan)
}

fn control(budget: u64) -> Control {
    let mut control = Control::new(SETTINGS);
    control.learn(view(budget));
    control
}

fn at(ms: u64) -> TimeMs {
    TimeMs(NOW.0 + ms)
}

/// A worker has turned so many requests away, because it had no lease.
fn turned_away(control: &mut Control, worker: u16, requests: u32, now: TimeMs) {
    let mut no_bids = [0; NoBid::ALL.len()];
    no_bids[NoBid::NoLease as usize] = requests;
    let used = vec![Used { campaign: 7, no_bids, ..Used::default() }];
    control.absorb(worker, Report { used, now, ..Report::default() }, now);
}

/// What a round tells bidders.
fn round(control: &mut Control, now: TimeMs) -> Vec<Update> {
    control.pace(now);
    control.take_updates()
}

fn grants(update: &Update) -> Vec<Grant> {
    let grant = |change: &LeaseChange| match change {
        LeaseChange::Grant(grant) => Some(*grant),
        LeaseChange::Revoke(_) => None,
    };
    update.leases.iter().filter_map(grant).collect()
}

fn revoked(update: &Update) -> Vec<u32> {
    let revoked = |change: &LeaseChange| match change {
        LeaseChange::Grant(_) => None,
        LeaseChange::Revoke(campaign) => Some(*campaign),
    };
    update.leases.iter().filter_map(revoked).collect()
}

fn lease(counter: u64, amount: u64) -> LeaseView {
    LeaseView {
        id: LeaseId::new(ShardIndex(0), counter),
        campaign: 7,
        amount: BudgetMicros(amount),
        spent: BudgetMicros::ZERO,
        life: Life::of(NOW, SETTINGS.lease_life_ms()),
        is_closed: false,
    }
}

/// Leases what is wanted of a worker, up to the ledger.
fn grant(control: &mut Control, worker: u16, counter: u64, now: TimeMs) -> LeaseView {
    let wanted = control.wanted(now);
    let (_, wanted) = *wanted.iter().find(|(of, _)| *of == worker).expect("money is wanted");
    let opened = LeaseView { life: wanted.life, ..lease(counter, wanted.amount.0) };
    control.opened(worker, wanted, Ok(opened), now);
    assert_eq!(control.to_hold().len(), 1, "its money is to be held");
    control.held(opened.id, now);
    opened
}

#[test]
fn money_is_leased_for_the_worker_that_needs_it_and_for_about_as_much_as_it_bids() {
    let mut control = control(10_000_000);
    assert!(control.wanted(NOW).is_empty(), "nobody asks");
    turned_away(&mut control, 1, 100, at(20));
    let wanted = control.wanted(at(20));
    assert_eq!(wanted.len(), 1);
    let (worker, LeaseWanted { campaign, amount, .. }) = wanted[0];
    assert_eq!((worker, campaign), (1, 7));
    // A hundred requests of 100 micros in 20 ms are 500,000 a second. Behind a pause, that is not known yet.
    assert!((20_000..=500_000).contains(&amount.0), "{amount}");
    assert!(control.wanted(at(21)).is_empty(), "it is on its way");
    control.opened(1, wanted[0].1, Ok(lease(1, amount.0)), at(22));
    assert!(grants(&control.take_updates()[1]).is_empty(), "it is not held yet");
    control.held(lease(1, 0).id, at(23));
    let updates = control.take_updates();
    assert_eq!((grants(&updates[0]).len(), grants(&updates[1]).len()), (0, 1), "one worker has it");
}

#[test]
fn one_owner_whose_campaigns_all_want_money_keeps_no_other_waiting() {
    const MANY: u32 = 3 * WANTED_MAX as u32;
    let mut control = Control::new(SETTINGS);
    let campaign = |number: u32, by: &str| {
        let last_change = LastChange { by: by.into(), at: NOW };
        CampaignView { id: format!("c{number}").into(), number, last_change, ..view(10_000_000) }
    };
    (0..MANY).for_each(|number| control.learn(campaign(number, "ann")));
    control.learn(campaign(MANY, "bob"));
    let mut no_bids = [0; NoBid::ALL.len()];
    no_bids[NoBid::NoLease as usize] = 1;
    let used = (0..=MANY).map(|campaign| Used { campaign, no_bids, ..Used::default() }).collect();
    control.absorb(0, Report { used, now: at(20), ..Report::default() }, at(20));
    let first = control.wanted(at(20));
    assert_eq!(first.len(), WANTED_MAX);
    assert!(first.iter().any(|(_, wanted)| wanted.campaign == MANY), "bob's is among the first");
    // The rest is not forgotten.
    let rest: Vec<_> = (0..3).flat_map(|_| control.wanted(at(40))).collect();
    assert_eq!(first.len() + rest.len(), MANY as usize + 1);
    assert!(control.wanted(at(60)).is_empty());
}

#[test]
fn a_lease_whose_bids_are_known_is_settled_at_once_and_forgotten_when_no_notice_can_come() {
    let mut control = control(10_000_000);
    turned_away(&mut control, 0, 10, at(20));
    let opened = grant(&mut control, 0, 1, at(20));
    assert!(!control.has_retired() && control.untold().is_empty());
    let retired = vec![Retired { lease: opened.id, bids: 3, left: BudgetMicros(10), at: at(500) }];
    control.absorb(0, Report { retired, now: at(500), ..Report::default() }, at(500));
    let told = [RetiredLease { lease: opened.id, left: BudgetMicros(10) }];
    assert_eq!(control.untold(), told, "its shard is to know");
    control.told(&told);
    assert!(control.untold().is_empty() && control.is_retired(opened.id));
    control.closed(&[LeaseView { spent: BudgetMicros(70), is_closed: true, ..opened }]);
    assert_eq!((control.closing(), control.has_retired()), (vec![opened.id], false));
    control.paid(&[opened.id]);
    assert!(control.closing().is_empty() && control.over(at(5_500)).is_empty(), "notices may come again");
    assert_eq!(control.over(at(5_501)), [opened.id]);
    control.settled(&[opened.id]);
    assert_eq!(control.leases(), 0);
}

#[test]
fn a_lease_is_settled_when_its_last_bid_can_win_no_more() {
    let mut control = control(10_000_000);
    turned_away(&mut control, 0, 10, at(20));
    let opened = grant(&mut control, 0, 1, at(20));
    let retired = vec![Retired { lease: opened.id, bids: 3, left: BudgetMicros(10), at: at(500) }];
    control.absorb(0, Report { retired, now: at(500), ..Report::default() }, at(500));
    assert!(control.due(at(5_500)).is_empty(), "its deadline");
    assert_eq!(control.due(at(5_501)), [opened.id]);
    let closed = LeaseView { spent: BudgetMicros(70), is_closed: true, ..opened };
    control.closed(&[closed]);
    assert_eq!(control.closing(), [opened.id], "until the ledger has it");
    let settlement = control.settlement(&closed).expect("it is known");
    assert_eq!((settlement.spent.0, &*settlement.money.account), (70, "campaign:shoes"));
    control.settled(&[opened.id]);
    assert_eq!(control.leases(), 0);
}

#[test]
fn a_lease_without_a_bid_is_settled_at_once() {
    let mut control = control(10_000_000);
    turned_away(&mut control, 0, 10, at(20));
    let opened = grant(&mut control, 0, 1, at(20));
    let retired = vec![Retired { lease: opened.id, bids: 0, left: opened.amount, at: at(500) }];
    control.absorb(0, Report { retired, now: at(500), ..Report::default() }, at(500));
    assert_eq!(control.due(at(500)), [opened.id]);
    assert!(control.untold().is_empty(), "its shard hears of its closing");
}

#[test]
fn money_that_is_not_held_is_not_bid_with_and_asked_for_later() {
    let mut control = control(10_000_000);
    turned_away(&mut control, 0, 10, at(20));
    let (_, wanted) = control.wanted(at(20))[0];
    control.opened(0, wanted, Ok(lease(1, wanted.amount.0)), at(20));
    control.not_held(lease(1, 0).id, Stopped::NoFunds, BudgetMicros(150), at(20));
    assert!(control.take_updates().iter().all(|update| grants(update).is_empty()));
    assert_eq!(control.due(at(20)), [lease(1, 0).id], "its record is closed");
    let live: BTreeMap<u32, Live> = control.live().into_iter().collect();
    assert_eq!(live[&7].stopped, Some(Stopped::NoFunds));
    turned_away(&mut control, 0, 10, at(40));
    assert!(control.wanted(at(40)).is_empty(), "not at once");
    turned_away(&mut control, 0, 10, at(300));
    let again = control.wanted(at(300));
    assert!(again[0].1.amount.0 <= 150, "no more than there was: {:?}", again[0].1);
}

/// As behind a start: nothing was refused in this process.
#[test]
fn that_all_is_spent_is_said_although_nothing_was_refused() {
    let shown = |control: &mut Control| control.live().into_iter().map(|(_, live)| live.stopped).collect::<Vec<_>>();
    let mut control = control(10_000_000);
    turned_away(&mut control, 0, 10, at(20));
    control.pace(at(20));
    assert_eq!(shown(&mut control), [None]);
    control.learn_spending(7, Spending { spent: BudgetMicros(9_999_999), ..Spending::default() });
    assert_eq!(shown(&mut control), [Some(Stopped::BudgetUsed)], "less than a price is left");
}

#[test]
fn why_there_is_no_money_is_forgotten_when_nobody_asks_unless_the_budget_is_spent() {
    let budget = 10_000_000;
    let cases = [
        (NoLease::BudgetUsed, budget, Some(Stopped::BudgetUsed)),
        // What was leased returns.
        (NoLease::BudgetUsed, budget / 2, None),
        (NoLease::DayUsed, budget / 2, None),
        (NoLease::Unreleased, 0, None),
    ];
    for (why, spent, kept) in cases {
        let mut control = control(budget);
        turned_away(&mut control, 0, 10, at(20));
        let (_, wanted) = control.wanted(at(20))[0];
        control.learn_spending(7, Spending { spent: BudgetMicros(spent), ..Spending::default() });
        control.opened(0, wanted, Err(why), at(20));
        (0..2).for_each(|round| control.pace(at(9_000 + round)));
        let shown =
            |control: &mut Control| control.live().into_iter().map(|(_, live)| live.stopped).collect::<Vec<_>>();
        assert_eq!(shown(&mut control), [Stopped::of(why)]);
        (0..20).for_each(|round| control.pace(at(11_000 + round)));
        assert_eq!(shown(&mut control), [kept], "it is shown once how it came to rest");
        assert!(shown(&mut control).is_empty());
    }
}

#[test]
fn money_that_is_refused_again_and_again_is_asked_for_less_often_until_there_is_some() {
    let mut control = control(10_000_000);
    let (mut asked, mut number) = (Vec::new(), 0);
    let mut ask_for = |control: &mut Control, ms: std::ops::Range<u64>, available: u64| {
        asked.clear();
        for now in ms.step_by(50).map(at) {
            (0..2).for_each(|worker| turned_away(control, worker, 10, now));
            for (worker, wanted) in control.wanted(now) {
                number += 1;
                let opened = lease(number, wanted.amount.0);
                control.opened(worker, wanted, Ok(opened), now);
                control.not_held(opened.id, Stopped::NoFunds, BudgetMicros(available), now);
                asked.push(now.0 - NOW.0);
            }
        }
        asked.dedup();
        asked.clone()
    };
    assert_eq!(ask_for(&mut control, 1_000..8_000, 99), [1_000, 1_250, 1_750, 2_750, 4_750, 6_750]);
    assert_eq!(ask_for(&mut control, 8_750..9_300, 100), [8_750, 9_000, 9_250], "there is enough for a bid");
}

#[test]
fn a_ledger_that_does_not_answer_is_counted_once_also_when_nobody_asks() {
    let mut control = control(10_000_000);
    turned_away(&mut control, 0, 10, at(20));
    let (_, wanted) = control.wanted(at(20))[0];
    control.opened(0, wanted, Ok(lease(1, wanted.amount.0)), at(20));
    for round in 0..50 {
        control.unanswered(lease(1, 0).id, at(15_000 + round));
        control.pace(at(15_000 + round));
    }
    let refused: u64 = control.counts().leases_refused.named().map(|(_, count)| count).sum();
    assert_eq!(refused, 1);
}

#[test]
fn what_the_ledger_has_refused_is_not_held_unless_it_was_asked_before_without_an_answer() {
    for is_unanswered in [false, true] {
        let mut control = control(10_000_000);
        turned_away(&mut control, 0, 10, at(20));
        let (_, wanted) = control.wanted(at(20))[0];
        let opened = lease(1, wanted.amount.0);
        control.opened(0, wanted, Ok(opened), at(20));
        if is_unanswered {
            control.unanswered(opened.id, at(20));
        }
        control.not_held(opened.id, Stopped::LedgerRefused, BudgetMicros::ZERO, at(30));
        control.close(&[opened.id]);
        control.closed(&[opened]);
        let held = if is_unanswered { opened.amount } else { BudgetMicros::ZERO };
        assert_eq!((control.was_refused(opened.id), control.unsettled()), (!is_unanswered, held));
    }
}

#[test]
fn what_the_ledger_does_not_settle_is_shown_of_its_campaign_also_when_nobody_asks_for_it() {
    let mut control = control(10_000_000);
    turned_away(&mut control, 0, 10, at(20));
    let opened = grant(&mut control, 0, 1, at(20));
    let retired = vec![Retired { lease: opened.id, bids: 0, left: opened.amount, at: at(500) }];
    control.absorb(0, Report { retired, now: at(500), ..Report::default() }, at(500));
    control.close(&[opened.id]);
    (0..20).for_each(|round| control.pace(at(60_000 + round)));
    let shown = |control: &mut Control| control.live().into_iter().map(|(_, live)| live.unsettled).collect::<Vec<_>>();
    assert_eq!(shown(&mut control), [opened.amount]);
    assert!(control.was_held(opened.id));
    let settlement = control.settlement(&LeaseView { spent: BudgetMicros(30), ..opened }).expect("it is known");
    let (held, owed) = (opened.amount - BudgetMicros(30), BudgetMicros(30));
    control.left_open(&settlement, Outstanding { held, owed });
    assert_eq!(shown(&mut control), [opened.amount - BudgetMicros(30)], "it may be held under another id");
    control.left_open(&settlement, Outstanding { held: BudgetMicros::ZERO, owed });
    let owed = |control: &mut Control| control.live().into_iter().map(|(_, live)| live.unpaid).collect::<Vec<_>>();
    assert_eq!(owed(&mut control), [BudgetMicros(30)]);
    assert_eq!(shown(&mut control), [BudgetMicros::ZERO], "a hold that is not there holds nothing");
    control.settled(&[opened.id]);
    (0..20).for_each(|round| control.pace(at(70_000 + round)));
    assert_eq!([shown(&mut control).len(), shown(&mut control).len()], [1, 0]);
}

#[test]
fn a_plan_that_stops_a_campaign_takes_its_leases_and_grants_none() {
    let mut control = control(10_000_000);
    turned_away(&mut control, 0, 10, at(20));
    grant(&mut control, 0, 1, at(20));
    control.take_updates();
    turned_away(&mut control, 1, 10, at(30));
    let (_, wanted) = control.wanted(at(30))[0];
    control.opened(1, wanted, Ok(lease(2, 400)), at(30));
    let mut paused = view(10_000_000);
    paused.plan.paused = true;
    control.learn(paused);
    let updates = control.take_updates();
    assert!(updates.iter().all(|update| revoked(update) == [7] && update.aims.len() == 1));
    control.held(lease(2, 0).id, at(41));
    assert!(grants(&control.take_updates()[1]).is_empty(), "it was opened by the plan before");
    assert!(control.due(at(41)).contains(&lease(2, 0).id), "and goes back");
    control.learn(CampaignView { plan: Plan { version: 2, ..view(10_000_000).plan }, ..view(10_000_000) });
    turned_away(&mut control, 1, 10, at(300));
    let again: Vec<u16> = control.wanted(at(300)).iter().map(|(worker, _)| *worker).collect();
    assert!(again.contains(&1), "when it goes on, the worker gets money again");
}

#[test]
fn a_lease_that_nothing_is_bid_on_is_given_back() {
    let mut control = control(10_000_000);
    turned_away(&mut control, 0, 10, at(20));
    grant(&mut control, 0, 1, at(20));
    assert!(revoked(&round(&mut control, at(2_000))[0]).is_empty());
    assert_eq!(revoked(&round(&mut control, at(2_100))[0]), [7]);
}

#[test]
fn an_update_that_did_not_arrive_comes_before_later_ones() {
    let mut control = control(10_000_000);
    let lost = control.take_updates().remove(0);
    assert_eq!(lost.aims.len(), 1);
    let mut second = view(5);
    second.number = 9;
    control.learn(second);
    control.put_back(0, lost);
    let numbers: Vec<u32> = control.take_updates()[0].aims.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [7, 9]);
}

#[test]
fn a_lease_of_a_day_that_is_over_is_given_back_where_days_have_caps() {
    let midnight = TimeMs((NOW.0 / 86_400_000 + 1) * 86_400_000);
    for (daily, is_revoked) in [(None, false), (Some(BudgetMicros(1_000_000)), true)] {
        let mut control = control(10_000_000);
        let mut capped = view(10_000_000);
        capped.plan.daily_micros = daily;
        capped.plan.flights[0].ends_ms = midnight.0 + 1_000_000;
        control.learn(capped);
        let before = TimeMs(midnight.0 - 50);
        turned_away(&mut control, 0, 10, before);
        grant(&mut control, 0, 1, before);
        assert!(revoked(&round(&mut control, before)[0]).is_empty());
        assert_eq!(revoked(&round(&mut control, midnight)[0]) == [7], is_revoked, "{daily:?}");
    }
}

/// Over ten thousand campaigns a round looks at those that have changed or were not asked for of late, and at a share
/// of the others; in so many rounds, at all.
#[test]
fn a_round_looks_at_what_has_changed_and_at_a_share_of_the_rest() {
    const MANY: u32 = 10_000;
    let numbered = |number| CampaignView { number, id: format!("c{number}").into(), ..view(10_000_000) };
    let bid_on = |control: &mut Control, now| {
        let used = (0..MANY).map(|campaign| Used { campaign, bids: 1, ..Used::default() }).collect();
        control.absorb(0, Report { used, now, ..Report::default() }, now);
    };
    let mut control = Control::new(SETTINGS);
    (0..MANY).for_each(|number| control.learn(numbered(number)));
    control.pace(NOW);
    assert_eq!(control.due.len(), MANY as usize, "all are new");
    bid_on(&mut control, NOW);
    control.pace(at(20));
    assert_eq!(control.due.len(), MANY as usize, "nobody has asked for them before");
    let share = (MANY as usize).div_ceil(ROUNDS);
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    for round in 2..2 + ROUNDS as u64 {
        bid_on(&mut control, at(20 * round));
        control.learn(numbered(5));
        control.pace(at(20 * round));
        assert!((share..=share + 1).contains(&control.due.len()) && control.due.contains(&5), "{}", control.due.len());
        seen.extend(&control.due);
    }
    assert_eq!(seen.len(), MANY as usize);
}

/// Where nobody has looked for a campaign in this round, its money does not wait for the next look.
#[test]
fn money_that_runs_low_does_not_wait_for_its_turn() {
    const MANY: u32 = 10_000;
    let mut control = Control::new(SETTINGS);
    (0..MANY).for_each(|number| {
        control.learn(CampaignView { number, id: format!("c{number}").into(), ..view(10_000_000) });
    });
    let bids = |control: &mut Control, campaign, left, now| {
        let (reserved, left) = (BudgetMicros(1_000), BudgetMicros(left));
        let used = vec![Used { campaign, bids: 1, reserved, left, ..Used::default() }];
        control.absorb(0, Report { used, now, ..Report::default() }, now);
    };
    (0..3).for_each(|round| control.pace(at(20 * round)));
    (0..MANY).for_each(|campaign| bids(&mut control, campaign, 900_000, at(80)));
    control.pace(at(80));
    // What the round has looked at is leased for.
    while !control.wanted(at(80)).is_empty() {}
    bids(&mut control, 7, 0, at(100));
    assert!(control.to_lease.is_empty(), "it has asked for a lease before");
    control.campaigns.get_mut(&7).expect("it is there").not_granted(0);
    bids(&mut control, 7, 0, at(120));
    assert_eq!(control.wanted(at(120)).iter().map(|(_, wanted)| wanted.campaign).collect::<Vec<_>>(), [7]);
}

/// A lease for a minute wants more than the budget has: the one that there is is as long as another one would be.
#[test]
fn a_lease_that_the_budget_bounds_is_used_before_there_is_another() {
    let mut control = Control::new(ControlSettings { lease_ms: 60_000, ..SETTINGS });
    control.learn(view(9_000));
    round(&mut control, at(0));
    turned_away(&mut control, 0, 1, at(0));
    let mut opened = Vec::new();
    let mut left = 9_000;
    for turn in 0..50 {
        let now = at(20 * turn);
        round(&mut control, now);
        for (worker, wanted) in control.wanted(now) {
            let amount = wanted.amount;
            left -= amount.0;
            let id = LeaseId::new(ShardIndex(0), 1 + opened.len() as u64);
            let spending = Spending { exposed: BudgetMicros(9_000 - left), ..Spending::default() };
            control.learn_spending(7, spending);
            let (campaign, spent) = (7, BudgetMicros::ZERO);
            let lease = LeaseView { id, campaign, amount, spent, life: wanted.life, is_closed: false };
            control.opened(worker, wanted, Ok(lease), now);
            control.held(id, now);
            opened.push(amount.0);
        }
        let used = vec![Used { campaign: 7, left: BudgetMicros(opened[0]), ..Used::default() }];
        control.absorb(0, Report { used, now, ..Report::default() }, now);
    }
    assert_eq!(opened, [2_250]);
}

/// Each start of a server learns of leases that an earlier one has left open.
#[test]
fn a_start_does_not_begin_the_deadline_of_a_lease_anew_when_nothing_can_be_bid_on_it() {
    let (life, longest) = (SETTINGS.lease_life_ms(), ControlSettings { lease_ms: 60_000, ..SETTINGS }.lease_life_ms());
    assert_eq!((life, longest), (10_000, crate::limits::LEASE_LIFE_MS_MAX));
    let due_of_start = |opened: u64, life: u64, started: u64| {
        let mut control = control(10_000_000);
        control.recover(&LeaseView { life: Life::of(at(opened), life), ..lease(1, 500) }, at(started));
        (0..300_000).find(|ms| !control.due(at(*ms)).is_empty())
    };
    assert_eq!(due_of_start(0, life, 3_000), Some(8_001), "it may have been bid with until the start");
    assert_eq!(due_of_start(0, longest, life), Some(life + 5_001), "its process has leased for longer");
    for life in [life, longest] {
        assert_eq!([life, life + 2_000, life + 4_999].map(|at| due_of_start(0, life, at)), [Some(life + 5_001); 3]);
    }
    assert_eq!(due_of_start(3_600_000, life, 3_000), Some(8_001), "the clock was ahead");
}

#[test]
fn another_lease_comes_before_the_time_of_the_last_one_is_over() {
    let mut control = control(10_000_000);
    turned_away(&mut control, 0, 10, at(20));
    let first = grant(&mut control, 0, 1, at(20));
    let told = grants(&control.take_updates()[0])[0];
    assert_eq!((told.lease, told.until), (first.id, at(20 + SETTINGS.lease_life_ms())));
    // Now and then there is a bid.
    let ask = |control: &mut Control, now: TimeMs| {
        let used =
            vec![Used { campaign: 7, bids: 1, reserved: BudgetMicros(1), left: first.amount, ..Used::default() }];
        control.absorb(0, Report { used, now, ..Report::default() }, now);
        round(control, now);
        control.wanted(now).len()
    };
    assert_eq!(ask(&mut control, at(5_000)), 0);
    assert_eq!(ask(&mut control, at(5_021)), 1);
}

/// The plan that has another zone comes in the next round.
#[test]
fn a_lease_that_was_asked_for_by_the_zone_of_before_is_asked_for_again_at_once() {
    let mut control = control(10_000_000);
    turned_away(&mut control, 0, 10, at(20));
    let (worker, wanted) = control.wanted(at(20))[0];
    control.opened(worker, wanted, Err(NoLease::ZoneChanged), at(20));
    turned_away(&mut control, 0, 10, at(25));
    assert_eq!(control.wanted(at(25)).len(), 1);
    assert!(control.live().iter().all(|(_, live)| live.stopped.is_none()), "nothing is refused");
    assert_eq!(control.counts().leases_refused, ByStopped::default());
}

/// What is bid behind midnight counts for the cap of the new day, also where a lease of yesterday is not used.
#[test]
fn a_lease_of_another_day_takes_the_place_of_the_last_one_where_days_have_caps() {
    for (daily, is_revoked) in [(None, false), (Some(BudgetMicros(1_000_000)), true)] {
        let mut control = control(10_000_000);
        let mut capped = view(10_000_000);
        capped.plan.daily_micros = daily;
        control.learn(capped);
        let [amount, least, unsettled] = [500, 100, 0].map(BudgetMicros);
        let wanted = |day| LeaseWanted {
            campaign: 7,
            amount,
            least,
            unsettled,
            unsettled_today: unsettled,
            day,
            changed: 1,
            life: Life::of(NOW, 10_000),
        };
        let mut last = Update::default();
        for (counter, day) in [(1, 20_000), (2, 20_000), (3, 20_001)] {
            control.take_updates();
            control.opened(0, wanted(day), Ok(lease(counter, 500)), NOW);
            control.held(lease(counter, 500).id, NOW);
            let update = control.take_updates().remove(0);
            assert_eq!(grants(&update).len(), 1);
            assert_eq!(revoked(&update) == [7], is_revoked && counter == 3, "{daily:?}, {counter}");
            last = update;
        }
        assert_eq!(matches!(last.leases[..], [LeaseChange::Revoke(7), LeaseChange::Grant(_)]), is_revoked);
    }
}

/// It would be given back before the next request, and no request of such a campaign would ever be bid on.
#[test]
fn the_lease_of_a_campaign_that_is_asked_for_seldom_waits_for_the_next_request() {
    let mut control = control(10_000_000);
    turned_away(&mut control, 0, 1, at(20));
    let first = grant(&mut control, 0, 1, at(20));
    assert_eq!(revoked(&round(&mut control, at(2_100))[0]), [7], "nobody knows that there will be another one");
    let retired = vec![Retired { lease: first.id, bids: 0, left: first.amount, at: at(2_120) }];
    control.absorb(0, Report { retired, now: at(2_120), ..Report::default() }, at(2_120));
    turned_away(&mut control, 0, 1, at(15_020));
    let second = grant(&mut control, 0, 2, at(15_020));
    assert_eq!((first.life.ms(), second.life.ms()), (10_000, crate::limits::LEASE_LIFE_MS_MAX));
    for now in (15_100..45_000).step_by(100).map(at) {
        assert!(revoked(&round(&mut control, now)[0]).is_empty() && control.wanted(now).is_empty());
    }
    // Where money is short, it waits as any other one.
    turned_away(&mut control, 1, 1, at(45_000));
    let (worker, wanted) = control.wanted(at(45_000))[0];
    control.opened(worker, wanted, Err(NoLease::BudgetUsed), at(45_000));
    assert_eq!(revoked(&round(&mut control, at(45_010))[0]), [7]);
}

/// Campaigns that are asked for seldom do not keep the money of an account from another one that is asked for.
#[test]
fn a_lease_does_not_wait_for_the_next_request_while_its_account_has_too_little_for_another_campaign() {
    for (account, is_given_back) in [("campaign:shoes", true), ("campaign:hats", false)] {
        let mut control = control(10_000_000);
        let mut other = CampaignView { number: 8, ..view(10_000_000) };
        other.plan.account = account.into();
        control.learn(other);
        for (counter, asked_at) in [(1, at(20)), (2, at(15_020))] {
            turned_away(&mut control, 0, 1, asked_at);
            let opened = grant(&mut control, 0, counter, asked_at);
            if counter == 1 {
                let retired = vec![Retired { lease: opened.id, bids: 0, left: opened.amount, at: at(2_120) }];
                control.absorb(0, Report { retired, now: at(2_120), ..Report::default() }, at(2_120));
            }
        }
        let mut no_bids = [0; NoBid::ALL.len()];
        no_bids[NoBid::NoLease as usize] = 10;
        let used = vec![Used { campaign: 8, no_bids, ..Used::default() }];
        control.absorb(1, Report { used, now: at(20_000), ..Report::default() }, at(20_000));
        let (worker, wanted) = control.wanted(at(20_000))[0];
        let opened = LeaseView { campaign: 8, ..lease(3, wanted.amount.0) };
        control.opened(worker, wanted, Ok(opened), at(20_000));
        control.not_held(opened.id, Stopped::NoFunds, BudgetMicros::ZERO, at(20_000));
        let mut given_back = Vec::new();
        for now in (20_000..20_500).step_by(20).map(at) {
            given_back.extend(revoked(&round(&mut control, now)[0]).into_iter().filter(|campaign| *campaign == 7));
        }
        assert_eq!(given_back.first(), is_given_back.then_some(&7), "{account}");
    }
}

/// What has returned of a used lease is leased again when the lease is over: it is given back when no other one comes.
#[test]
fn a_used_lease_is_given_back_where_no_other_one_comes() {
    let mut control = control(10_000_000);
    turned_away(&mut control, 0, 10, at(20));
    let opened = grant(&mut control, 0, 1, at(20));
    control.take_updates();
    let used = vec![Used { campaign: 7, bids: 4, reserved: opened.amount, left: BudgetMicros(99), ..Used::default() }];
    control.absorb(0, Report { used, now: at(60), ..Report::default() }, at(60));
    assert!(revoked(&round(&mut control, at(60))[0]).is_empty(), "another one may come");
    let wanted = control.wanted(at(60));
    let (worker, wanted) = wanted[0];
    assert!(revoked(&round(&mut control, at(80))[0]).is_empty(), "it is on its way");
    control.opened(worker, wanted, Err(NoLease::Unreleased), at(80));
    assert_eq!(revoked(&round(&mut control, at(100))[0]), [7]);
}

/// The ledger was away for longer than a lease is bid with.
#[test]
fn a_lease_whose_money_is_held_behind_its_time_is_given_back_and_another_one_asked_for() {
    let mut control = control(10_000_000);
    turned_away(&mut control, 0, 10, at(20));
    let (_, wanted) = control.wanted(at(20))[0];
    control.opened(0, wanted, Ok(lease(1, wanted.amount.0)), at(20));
    control.held(lease(1, 0).id, at(10_000));
    assert!(grants(&control.take_updates()[0]).is_empty());
    assert_eq!(control.due(at(10_000)), [lease(1, 0).id]);
    turned_away(&mut control, 0, 10, at(10_020));
    assert_eq!(control.wanted(at(10_020)).len(), 1);
}

/// A report that was on its way when money was granted does not tell of that.
#[test]
fn money_that_is_on_its_way_to_a_worker_is_not_asked_for_again() {
    let mut control = control(10_000_000);
    turned_away(&mut control, 0, 10, at(20));
    round(&mut control, at(20));
    grant(&mut control, 0, 1, at(20));
    let used = vec![Used { campaign: 7, bids: 1, reserved: BudgetMicros(100), ..Used::default() }];
    control.absorb(0, Report { used, now: at(21), ..Report::default() }, at(21));
    assert!(control.wanted(at(21)).is_empty());
}

/// What the ledger holds of a closed lease is leased again when the ledger has settled it, or holds nothing of it.
#[test]
fn money_of_a_lease_that_the_ledger_does_not_settle_is_not_leased_again() {
    let mut control = control(1_000);
    turned_away(&mut control, 0, 10, at(20));
    let first = LeaseView { spent: BudgetMicros(150), ..grant(&mut control, 0, 1, at(20)) };
    control.recover(&LeaseView { is_closed: true, ..lease(2, 400) }, at(20));
    let unsettled = |control: &mut Control, now: TimeMs| {
        turned_away(control, 1, 10, now);
        control.wanted(now).first().map(|(_, wanted)| wanted.unsettled)
    };
    assert_eq!(unsettled(&mut control, at(40)), Some(BudgetMicros(400)), "an earlier process has closed one");
    control.not_opened(1, 7, at(40));
    let retired = vec![Retired { lease: first.id, bids: 1, left: BudgetMicros(0), at: at(60) }];
    control.absorb(0, Report { retired, now: at(60), ..Report::default() }, at(60));
    control.close(&[first.id]);
    assert_eq!(unsettled(&mut control, at(400)), Some(first.amount + BudgetMicros(400)), "it may be closed");
    control.not_opened(1, 7, at(400));
    control.closed(&[first]);
    control.paid(&[LeaseId::new(ShardIndex(0), 2)]);
    assert_eq!(unsettled(&mut control, at(800)), Some(first.amount - BudgetMicros(150)), "the rest is held");
    control.not_opened(1, 7, at(800));
    let settlement = control.settlement(&first).expect("it is known");
    control.left_open(&settlement, Outstanding { held: BudgetMicros::ZERO, owed: first.spent });
    assert_eq!(control.closing(), [first.id], "it is asked for again");
    assert_eq!(unsettled(&mut control, at(1_200)), Some(BudgetMicros::ZERO), "its hold was given back");
    control.closed(&[first]);
    assert_eq!(control.unsettled(), BudgetMicros::ZERO, "and does not come back");
}

#[test]
fn a_lease_is_found_by_the_id_of_its_hold() {
    let mut control = control(10_000);
    turned_away(&mut control, 0, 10, at(20));
    let opened = grant(&mut control, 0, 1, at(20));
    let settlement = control.settlement(&opened).expect("it is known");
    let id = settlement.money.hold_id(0xABCD);
    assert_eq!(lease_of(&id), Some((opened.life.opened, 0xABCD, opened.id)));
    for other in
        ["", "vote-1", "01M8K7H2X31FJG00000000000", "01M8K7H2X31FJG0000000000001", "01m8k7h2x31fjg000000000001"]
    {
        assert_eq!(lease_of(other), None, "{other}");
    }
    assert_eq!(lease_of("8ZZZZZZZZZZZZZZZZZZZZZZZZZ"), None, "it has more than 128 bits");
    let of_other_log = vec![Money { opened: at(21), ..settlement.money.clone() }];
    let unknown = control.unknown([vec![settlement.money], of_other_log.clone()].concat());
    assert_eq!(unknown, UnknownHolds { of_other_log, ..UnknownHolds::default() });
}

/// The numbers 1 to 20, of two processes: 10 were opened from 40 on, 10 from 200 on.
fn two_processes() -> Openings {
    let mut openings = Openings::default();
    for from in [40, 200] {
        openings.begin();
        (0..10).for_each(|opened| openings.add(at(from + opened)));
    }
    openings
}

#[test]
fn money_of_leases_that_the_log_has_opened_and_forgotten_is_told_from_that_of_another_log() {
    let mut control = control(10_000);
    control.had_opened(ShardIndex(0), two_processes());
    control.had_opened(ShardIndex(0), Openings::default());
    let known = LeaseView { life: Life::of(at(201), 10_000), ..lease(12, 10) };
    control.recover(&known, at(300));
    let money = |counter, opened: TimeMs| {
        let (account, spend, amount) = ("campaign:shoes".into(), "spend:shoes".into(), BudgetMicros(10));
        Money { lease: LeaseId::new(ShardIndex(0), counter), opened, campaign: None, account, spend, amount }
    };
    let forgotten = vec![money(3, at(42)), money(10, at(49)), money(13, at(202))];
    let of_other_log = vec![money(21, at(210)), money(13, at(52)), money(3, at(202))];
    let all = [&forgotten[..], &of_other_log[..], &[money(12, at(201))]].concat();
    assert_eq!(control.unknown(all), UnknownHolds { of_other_log, forgotten });
}

#[test]
fn what_was_paid_is_looked_at_up_to_a_lease_that_the_log_has_settled() {
    let mut control = control(10_000);
    control.learn(CampaignView { number: 9, id: "hats".into(), ..view(10) });
    control.had_opened(ShardIndex(0), two_processes());
    control.recover(&LeaseView { life: Life::of(at(208), 10_000), ..lease(19, 10) }, at(300));
    control.recovered();
    control.learn(CampaignView { number: 10, id: "new".into(), ..view(10) });
    let elsewhere = Plan { account: "campaign:caps".into(), ..view(10).plan };
    control.learn(CampaignView { number: 11, id: "caps".into(), plan: elsewhere, ..view(10) });
    assert!([7, 9, 10].iter().all(|number| control.is_uncounted(*number)) && !control.is_uncounted(11));
    let (account, search) = control.next_uncounted().expect("there is one");
    assert_eq!((&*account, control.uncounted()), ("campaign:shoes", 1));
    let paid = |counter, opened, campaign| Paid {
        lease: LeaseId::new(ShardIndex(0), counter),
        opened,
        campaign,
        amount: BudgetMicros(counter),
    };
    let look = |control: &Control, mut search: Search, all: &[Paid]| {
        all.iter().for_each(|paid| control.look_at(paid, &mut search));
        search
    };
    // Number 5 of another log, behind the newest one of this log, and two that were opened behind all of it.
    let lost = [paid(21, at(211), Some(9)), paid(5, at(400), Some(9)), paid(22, at(212), Some(7))];
    let others = [paid(23, at(213), Some(8)), paid(24, at(214), None)];
    let open = paid(19, at(208), Some(7));
    let (settled, older) = (paid(20, at(209), Some(7)), paid(90, at(30), Some(9)));
    let all = [&lost[..], &others, &[open, settled, older]].concat();
    // What was open at the start may be settled by now: what was paid before it may be lost all the same.
    control.close(&[open.lease]);
    control.paid(&[open.lease]);
    assert_eq!(control.over(at(1_000_000)), [], "it is not forgotten before");
    let found = look(&control, search.clone(), &all);
    assert!(found.is_over());
    assert_eq!((found.found(7), found.found(9)), ((1, BudgetMicros(22)), (2, BudgetMicros(26))));
    assert_eq!(found.of_nobody(), BudgetMicros(47));
    let newest = Mark { lease: lost[0].lease, opened: lost[0].opened };
    let today = (NOW.0 / 86_400_000) as i32;
    let day = |paid| vec![PaidOnDay { day: today, paid: BudgetMicros(paid) }];
    let regained = |campaign, days| Regained { campaign, mark: newest, days };
    let all_of_it = [regained(7, day(22)), regained(9, day(26)), regained(8, vec![])];
    assert_eq!(found.regained(), all_of_it.map(|regained| (regained, None)));
    // What is behind a mark counts already.
    let mark = Some(Mark { lease: lost[1].lease, opened: lost[1].opened });
    control.set_mark(9, mark);
    assert_eq!(control.next_uncounted(), None, "once in a pass");
    let (_, search) = control.next_uncounted().expect("it comes again");
    control.set_mark(9, None);
    let found = look(&control, search, &all);
    assert_eq!(found.regained()[1], (regained(9, day(21)), mark), "with the mark that the search had");
    control.counted(&account);
    assert_eq!((control.uncounted(), control.is_uncounted(7)), (0, false));
    assert_eq!(control.over(at(1_000_000)), [open.lease]);
}

#[test]
fn holds_of_before_are_of_the_only_campaign_of_their_account_and_long_searches_are_noted() {
    let mut control = control(10_000);
    control.had_opened(ShardIndex(0), two_processes());
    control.recovered();
    let (_, mut search) = control.next_uncounted().expect("there is one");
    let paid = |counter| Paid {
        lease: LeaseId::new(ShardIndex(0), counter),
        opened: at(500),
        campaign: None,
        amount: BudgetMicros(1),
    };
    control.look_at(&paid(30), &mut search);
    assert_eq!(search.found(7), (1, BudgetMicros(1)));
    control.set_mark(7, Some(Mark { lease: paid(40).lease, opened: at(500) }));
    assert_eq!(control.next_uncounted(), None);
    let (_, mut search) = control.next_uncounted().expect("it comes again");
    control.look_at(&paid(40), &mut search);
    assert!(search.is_over() && search.regained().is_empty(), "the mark");
    control.set_mark(7, None);
    assert_eq!(control.next_uncounted(), None);
    let (_, mut search) = control.next_uncounted().expect("it comes again");
    control.look_at(&Paid { lease: LeaseId::new(ShardIndex(3), 1), ..paid(1) }, &mut search);
    assert!(!search.is_over() && search.regained().is_empty());
    search.read(300);
    assert_eq!(search.regained().len(), 1, "the next search need not go so far");
}

#[test]
fn accounts_that_money_is_wanted_for_are_looked_at_first_and_one_that_cannot_be_read_stops_no_other() {
    let mut control = control(10_000);
    for (number, account) in [(8, "campaign:caps"), (9, "campaign:ties")] {
        let plan = Plan { account: account.into(), ..view(10).plan };
        control.learn(CampaignView { number, id: account.into(), plan, ..view(10) });
    }
    control.had_opened(ShardIndex(0), two_processes());
    control.recovered();
    control.not_counted(0, 9, at(20));
    let next = |control: &mut Control| {
        control.not_counted(0, 9, at(20));
        control.next_uncounted().map(|(account, _)| account.to_string())
    };
    let order = ["campaign:ties", "campaign:caps", "campaign:shoes"].map(|account| Some(account.to_owned()));
    for _ in 0..2 {
        assert_eq!([next(&mut control), next(&mut control), next(&mut control)], order);
        assert_eq!(next(&mut control), None);
    }
    control.counted("campaign:ties");
    assert_eq!(next(&mut control), order[1]);
}

#[test]
fn campaigns_with_accounts_of_other_prefixes_are_named() {
    let mut control = control(10_000);
    control.learn(CampaignView { number: 9, id: "hats".into(), ..view(10) });
    let named = |account: &str, spend: &str| control.with_other_accounts(account, spend);
    assert!(named("campaign:", "spend:").is_empty() && named("", "").is_empty());
    assert_eq!(named("ads:", "spend:").len(), 2);
    assert_eq!(named("campaign:s", "spend:h").len(), 2);
}
