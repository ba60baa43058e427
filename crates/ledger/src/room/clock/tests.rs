use tidegate_machines::ledger::{AccountKind, Command, Hold, Label};
use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex};

use super::super::told::told;
use super::*;

const DAY: u64 = DAY_MS;
const NOON: u64 = 20_000 * DAY;

fn judged(newest: u64, open_holds: usize, wall: u64) -> Stands {
    judge(TimeMs(newest), open_holds, TimeMs(wall))
}

#[test]
fn a_record_may_be_a_minute_ahead_of_the_clock() {
    assert_eq!(judged(NOON, 1, NOON), Stands::Near);
    assert_eq!(judged(NOON + 60_000, 1, NOON), Stands::Near);
    assert_eq!(judged(NOON + 60_001, 1, NOON), Stands::Behind(60_001));
    assert_eq!(judged(NOON + 3 * DAY, 0, NOON), Stands::Behind(3 * DAY));
}

#[test]
fn a_clock_that_is_ahead_is_told_after_a_week_unless_nothing_was_decided_yet() {
    assert_eq!(judged(NOON, 0, NOON + 7 * DAY), Stands::Near);
    assert_eq!(judged(NOON, 0, NOON + 7 * DAY + 1), Stands::Quiet(7));
    assert_eq!(judged(1, 0, NOON), Stands::Quiet(19_999));
    assert_eq!(judged(0, 0, NOON), Stands::Near);
    assert_eq!(judged(NOON, 3, NOON + 30 * DAY), Stands::Quiet(30));
}

#[test]
fn a_clock_a_year_ahead_must_not_end_open_holds() {
    assert_eq!(judged(NOON, 1, NOON + 366 * DAY), Stands::Quiet(366));
    assert_eq!(judged(NOON, 1, NOON + 366 * DAY + 1), Stands::EndsHolds(366));
    assert_eq!(judged(NOON, 0, NOON + 366 * DAY + 1), Stands::Quiet(366));
}

/// A shard with an open hold, whose newest record is of noon.
fn with_a_hold() -> Ledger {
    let mut ledger = Ledger::new(ShardIndex(0), 1);
    let open = |id, kind| Command::OpenAccount { id, asset: "credit", kind };
    let hold = Hold {
        id: "hold",
        debit: "source",
        credit: "wallet",
        amount: 1,
        expires_in_ms: 1_000,
        memo: "",
        label: Label::NONE,
    };
    let commands = [
        open("source", AccountKind::Source),
        open("wallet", AccountKind::Wallet),
        Command::PlaceHold { hold, credit_missing: false, open_holds_max: 9 },
    ];
    for (at, command) in (1..).zip(&commands) {
        let Decision::Append { event, .. } = ledger.decide(command, None, TimeMs(NOON)) else { panic!("{command:?}") };
        ledger.apply(&event, Place { position: RecordPosition(64 * at), sequence: RecordSequence(at) });
    }
    ledger
}

#[test]
fn what_an_operator_is_told_names_the_shard_the_days_and_the_command() {
    let (ledger, data) = (with_a_hold(), Path::new("/srv/data"));
    let says = |wall| told(|| check(&ledger, data, TimeMs(wall)).expect("it starts"));
    assert_eq!(says(NOON), [] as [&str; 0]);
    let behind = says(NOON - 90_000).join("\n");
    assert!(behind.starts_with("ERROR") && behind.contains("shard=0 ahead_ms=90000"), "{behind}");
    assert!(behind.contains("tidegate mend-time --data /srv/data"), "{behind}");
    let quiet = says(NOON + 40 * DAY).join("\n");
    assert!(quiet.starts_with("WARN") && quiet.contains("shard=0 days=40"), "{quiet}");
    let refused = check(&ledger, data, TimeMs(NOON + 400 * DAY)).expect_err("a hold would expire").to_string();
    let says = "ledger shard 0: the clock of this host is 400 days ahead of the newest record, so 1 open holds";
    assert!(refused.starts_with(says) && refused.contains("--data /srv/data"), "{refused}");
}
