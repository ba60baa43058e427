//! What is recorded is read again, and decided again as it was.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::bidder::{BidRequest, Bidder};
use crate::control::{Control, ControlSettings};
use crate::decisions::{Question, Replayed, read_records, replay};
use crate::frequency::FrequencyTable;
use crate::machine::Spending;
use crate::plan::{Flight, FrequencyCap, Plan, StrategyChoice};
use crate::strategy::STRATEGIES;
use crate::token::TokenKey;
use crate::units::{Impressions, PriceMicros};

const NOW: TimeMs = TimeMs(1_795_824_000_000);

fn view(number: u32, strategy: &str) -> CampaignView {
    let plan = Plan {
        version: 3,
        account: "campaign:shoes".into(),
        spend: "spend:shoes".into(),
        budget_micros: BudgetMicros(5_000_000),
        daily_micros: None,
        zone: "Europe/Berlin".into(),
        flights: vec![Flight { starts_ms: NOW.0, ends_ms: NOW.0 + 3_600_000 }],
        price_micros: PriceMicros(1_000),
        strategy: StrategyChoice { name: strategy.into(), parameters: BTreeMap::new() },
        paused: false,
        keys: vec![1, 2, 3],
        frequency: Some(FrequencyCap { bids_max: 3, window_s: 60 }),
        openrtb: None,
    };
    CampaignView::unspent(&format!("campaign-{number}"), number, plan)
}

/// A quarter of an hour of all strategies; the files that it leaves.
fn day(bytes_max: u64) -> Vec<Vec<u8>> {
    let settings = ControlSettings { workers: 1, lease_ms: 1_000, win_deadline_ms: 5_000 };
    let mut control = Control::new(settings).recording(DecisionLog::new(bytes_max));
    let mut bidder = Bidder::new(TokenKey::derive(b"key"), Arc::new(FrequencyTable::new(1_024))).sampling(20);
    for (number, row) in STRATEGIES.iter().enumerate() {
        control.learn(view(number as u32, row.name));
    }
    let (mut files, mut lease): (Vec<Vec<u8>>, u64) = (Vec::new(), 0);
    let mut spent = vec![Spending::default(); STRATEGIES.len()];
    for round in 0..9_000 {
        let now = TimeMs(NOW.0 + round * 100);
        bidder.set_time(now);
        for number in 0..STRATEGIES.len() as u32 {
            let request = |id| BidRequest { id, campaign: number, user: id % 50, key: id % 4, price: PriceMicros(0) };
            let requests = (0..4).map(|of| request(crate::bidder::mixed(round * 4 + of)));
            let made = requests.filter_map(|request| bidder.bid(&request).ok()).count() as u64;
            // Half of them win, at half the price.
            let of = &mut spent[number as usize];
            of.spent += BudgetMicros(made / 2 * 500);
            of.impressions += Impressions(made / 2);
            control.learn_spending(number, *of);
        }
        control.pace(now);
        for update in control.take_updates() {
            bidder.update(&update);
        }
        control.absorb(0, bidder.report(), now);
        for (worker, wanted) in control.wanted(now) {
            lease += 1;
            let opened = crate::machine::LeaseView {
                id: LeaseId::new(tidegate_machines::ShardIndex(0), lease),
                campaign: wanted.campaign,
                amount: wanted.amount,
                spent: BudgetMicros::ZERO,
                life: crate::machine::Life::of(now, 10_000),
                is_closed: false,
            };
            control.opened(worker, wanted, Ok(opened), now);
            match lease % 9 {
                0 => control.not_held(opened.id, Stopped::NoFunds, BudgetMicros(7), now),
                _ => control.held(opened.id, now),
            }
        }
        let settled: Vec<LeaseId> = control.due(now);
        control.settled(&settled);
        for batch in control.log().expect("it records").take() {
            match batch.begins {
                Some(_) => files.push(batch.bytes),
                None => files.last_mut().expect("a file has begun").extend(batch.bytes),
            }
        }
    }
    files
}

fn asked(number: usize, files: &[Vec<u8>]) -> Replayed {
    let zone = jiff::tz::TimeZone::UTC;
    let id = format!("campaign-{number}").into();
    let question = Question { id, at: TimeMs(NOW.0 + 450_000), range_ms: 450_000, zone };
    replay(files.iter().flat_map(|file| read_records(file).expect("a file of this layout")), &question)
}

#[test]
fn a_recorded_day_is_decided_again_as_it_was_and_gives_the_same_bytes() {
    // One file, and as many as are begun anew when each has some KB.
    for bytes_max in [1 << 30, 1 << 20] {
        let (files, again) = (day(bytes_max), day(bytes_max));
        assert!(files == again, "the same day leaves the same files");
        assert_eq!(files.len() > 3, bytes_max == 1 << 20, "{} files", files.len());
        for (number, row) in STRATEGIES.iter().enumerate() {
            let replayed = asked(number, &files);
            assert_eq!(replayed, asked(number, &files));
            assert!(replayed.same > 100 && replayed.different == 0, "{}: {}", row.name, replayed.text);
            for words in [row.name, "leases: ", "insufficient_funds", "not_targeted", "frequency_capped"] {
                assert!(replayed.text.contains(words), "{words}: {}", replayed.text);
            }
        }
        // Records are not all of one file: each can be read by itself.
        for file in &files {
            assert_eq!(asked(1, std::slice::from_ref(file)).different, 0);
        }
    }
}

#[test]
fn another_answer_is_seen() {
    let files = day(1 << 30);
    let mut records: Vec<Record> = read_records(&files[0]).expect("a file").collect();
    let question = Question {
        id: "campaign-1".into(),
        at: TimeMs(NOW.0 + 450_000),
        range_ms: 450_000,
        zone: jiff::tz::TimeZone::UTC,
    };
    let mut changed = 0;
    for record in records.iter_mut().filter(|record| record.number() == Some(1)) {
        match &mut record.what {
            Recorded::Throttled(throttling) => throttling.answer.share /= 2.0,
            Recorded::Sampled(sample) => sample.seen.threshold = 0,
            _ => continue,
        }
        changed += 1;
    }
    let replayed = replay(records.into_iter(), &question);
    assert!(changed > 100 && replayed.different > changed / 3, "{} of {changed}", replayed.different);
    assert!(replayed.text.contains("DECIDED AGAIN"), "{}", replayed.text);
}

#[test]
fn a_torn_or_damaged_file_ends_before_the_record_that_is_not_whole() {
    let files = day(1 << 30);
    let file = &files[0][..12_000];
    let whole: Vec<Record> = read_records(file).expect("a file").collect();
    assert!(whole.len() > 10);
    for end in (HEAD.len()..file.len()).step_by(3) {
        let torn: Vec<Record> = read_records(&file[..end]).expect("a file").collect();
        assert!(whole.starts_with(&torn), "cut at {end}");
    }
    for at in (HEAD.len()..file.len()).step_by(7) {
        let mut damaged = file.to_vec();
        damaged[at] ^= 0x10;
        let mut records = read_records(&damaged).expect("a file");
        let read: Vec<Record> = records.by_ref().collect();
        assert!(whole.starts_with(&read) && records.unread_bytes() > 0, "damaged at {at}");
    }
    assert!(read_records(b"tgpacdec\x02\0\0\0\0\0\0\0").is_none(), "another layout");
}

#[test]
fn what_finds_no_room_is_dropped_and_said() {
    let mut log = DecisionLog::new(1 << 30);
    let view = view(1, "even");
    for lease in 0..OTHERS_PER_S + 5 {
        log.granted(1, 0, (LeaseId(lease), BudgetMicros(1)), NOW);
    }
    assert_eq!(log.take_counts(), (OTHERS_PER_S, 5));
    log.drop_samples(3);
    let later = TimeMs(NOW.0 + 1_000);
    log.granted(1, 0, (LeaseId(9), BudgetMicros(1)), later);
    let file: Vec<u8> = log.take().into_iter().flat_map(|batch| batch.bytes).collect();
    let dropped = Recorded::Dropped(Dropped { samples: 3, others: 5 });
    let records: Vec<Record> = read_records(&file).expect("a file").collect();
    assert_eq!(records[records.len() - 2], Record { at: later, what: dropped });
    // A batch that was lost: the next record begins a file, with the plan.
    log.lost(2);
    log.plan(&view);
    let [batch] = &log.take()[..] else { panic!("one batch") };
    assert!(batch.begins.is_some() && read_records(&batch.bytes).expect("a file").count() == 2);
}

#[test]
fn a_plan_stands_with_the_time_of_its_change_also_if_nothing_was_asked_for_before() {
    let mut control = Control::new(ControlSettings { workers: 1, lease_ms: 1_000, win_deadline_ms: 5_000 })
        .recording(DecisionLog::new(1 << 30));
    let later = TimeMs(NOW.0 + 60_000);
    [NOW, later].into_iter().for_each(|now| control.pace(now));
    control.learn(view(1, "even"));
    let batches = control.log().expect("there is one").take();
    let [batch] = &batches[..] else { panic!("one batch") };
    let times: Vec<TimeMs> = read_records(&batch.bytes).expect("a file").map(|record| record.at).collect();
    assert_eq!(times, [later]);
}

proptest! {
    #[test]
    fn bytes_that_are_read_are_written_the_same(payload in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(record) = Record::decode(&payload) {
            let mut again = Vec::new();
            record.encode(&mut again);
            prop_assert_eq!(again, payload);
        }
    }
}
