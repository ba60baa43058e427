//! A file of the pacer's record of decisions, read and replayed.
//!
//! The bytes are taken as a file, and as payloads with their lengths (u16) before them, which are given the checksums
//! that a file wants: the fuzzer does not find those.

use std::sync::Arc;

use tidegate_machines::TimeMs;
use tidegate_pacer::bidder::{BidRequest, NoBid, Sample, Seen};
use tidegate_pacer::control::Stopped;
use tidegate_pacer::decisions::{
    Answer, Asked, Counted, Dropped, HEAD, Question, Record, Recorded, Throttling, read_records, replay,
};
use tidegate_pacer::machine::LeaseId;
use tidegate_pacer::plan::{Flight, FrequencyCap, Plan, StrategyChoice};
use tidegate_pacer::strategy::{Day, Horizon, Memory};
use tidegate_pacer::units::{BudgetMicros, PriceMicros};
use tidegate_pacer::zone;

/// What is read is written the same, a file of it has the same records, and its replay ends.
pub fn check(bytes: &[u8]) {
    if let Some(records) = read_records(bytes) {
        check_records(&records.collect::<Vec<_>>());
    }
    let records: Vec<Record> = payloads(bytes).filter_map(|payload| Record::decode(payload).ok()).collect();
    for (record, payload) in records.iter().zip(payloads(bytes).filter(|payload| Record::decode(payload).is_ok())) {
        let mut again = Vec::new();
        record.encode(&mut again);
        assert_eq!(again, payload, "a record has one form");
    }
    check_records(&records);
}

fn check_records(records: &[Record]) {
    let mut file = Vec::from(HEAD);
    records.iter().for_each(|record| record.append(&mut file, 0));
    let read: Vec<Record> = read_records(&file).expect("a file of this layout").collect();
    assert!(read.iter().eq(records), "what was written is read");
    let id = records.iter().find_map(|record| match &record.what {
        Recorded::Plan { id, .. } => Some(id.clone()),
        _ => None,
    });
    let at = records.last().map_or(TimeMs(0), |record| record.at);
    let zone = zone::find("Europe/Berlin").expect("it is in the database");
    let question = Question { id: id.unwrap_or_default(), at, range_ms: 60_000, zone };
    let replayed = replay(read.into_iter(), &question);
    assert_eq!(replayed, replay(records.iter().cloned(), &question), "a replay is always the same");
    assert!(replayed.same + replayed.different <= records.len() as u64);
}

/// Payloads, their lengths before them.
pub(crate) fn payloads(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk()?;
        let (payload, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        bytes = rest;
        Some(payload)
    })
}

/// Files and payloads to begin with, by name.
pub fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let records = records();
    let mut file = Vec::from(HEAD);
    records.iter().for_each(|record| record.append(&mut file, 0));
    let mut payloads = Vec::new();
    for record in &records {
        let mut payload = Vec::new();
        record.encode(&mut payload);
        payloads.extend((payload.len() as u16).to_le_bytes());
        payloads.extend(payload);
    }
    let mut torn = file.clone();
    torn.truncate(file.len() - 5);
    vec![("file", file), ("payloads", payloads), ("torn", torn)]
}

/// One of each kind.
fn records() -> Vec<Record> {
    let (number, worker, lease) = (7, 1, LeaseId(1 << 48 | 5));
    let plan = Plan {
        version: 2,
        account: "campaign:shoes".into(),
        spend: "spend:shoes".into(),
        budget_micros: BudgetMicros(5_000_000),
        daily_micros: None,
        zone: "Europe/Berlin".into(),
        flights: vec![Flight { starts_ms: 1_000, ends_ms: 90_000_000 }],
        price_micros: PriceMicros(2_000),
        strategy: StrategyChoice { name: "pid".into(), parameters: [("integral_permille".into(), 7)].into() },
        paused: false,
        keys: vec![1, 2],
        frequency: Some(FrequencyCap { bids_max: 3, window_s: 60 }),
        openrtb: None,
    };
    let asked = Asked {
        horizon: Horizon { begins: TimeMs(1_000), ends: TimeMs(90_000_000) },
        budget: BudgetMicros(5_000_000),
        spent: BudgetMicros(70_000),
        reserved: BudgetMicros(9_000),
        requests_per_s: 120.5,
        win_rate: 0.25,
        win_price: 700.0,
        since_ms: 250,
        memory: Memory([0.5, -1.0, 0.0, 3.0]),
    };
    let answer = Answer { share: 0.25, shade: 1.0, memory: Memory([0.25, 0.0, 1.0, 2.0]) };
    let seen = Seen {
        now: TimeMs(60_300),
        starts: 1_000,
        ends: 90_000_000,
        threshold: 1 << 30,
        shade: 1 << 16,
        price_max: 2_000,
        lease,
        left: 40_000,
        number: 4,
    };
    let request = BidRequest { id: 0x1122_3344_5566_7788, campaign: number, user: 9, key: 2, price: PriceMicros(0) };
    let (why, available) = (Stopped::NoFunds, BudgetMicros(5));
    let sample = |answer, may_see| Recorded::Sampled(Sample { request, version: 2, seen, may_see, answer });
    let counted = Counted { number, since: TimeMs(50_000), bids: 30, no_bids: [4; 7], ..Counted::default() };
    let what = [
        Recorded::Plan { number, id: "shoes".into(), is_ended: false, plan: Box::new(plan) },
        Recorded::Profile { number, day: Arc::new(Day::flat()) },
        Recorded::Throttled(Box::new(Throttling { number, asked, answer })),
        Recorded::Granted { number, worker, lease, amount: BudgetMicros(40_000) },
        Recorded::Refused { number, worker, why, available },
        Recorded::Counted(counted),
        sample(Err(NoBid::Throttled), None),
        sample(Ok(PriceMicros(2_000)), Some(true)),
        sample(Err(NoBid::FrequencyCapped), Some(false)),
        Recorded::Dropped(Dropped { samples: 3, others: 1 }),
    ];
    let at = |what: &Recorded| TimeMs(if matches!(what, Recorded::Sampled(_)) { 60_300 } else { 60_000 });
    what.into_iter().map(|what| Record { at: at(&what), what }).collect()
}
