use expect_test::{Expect, expect};
use proptest::prelude::*;
use tidegate_machines::{RecordPosition, RecordSequence};

use super::*;

const KEYS: CounterKeys = CounterKeys { shards: 1, counters_max: 3, name_bytes_max: 8, expires_in_ms_max: 1_000 };

/// Counters, and the records that made them.
struct Log {
    counters: Counters,
    records: Vec<Vec<u8>>,
}

impl Log {
    fn new() -> Log {
        Log { counters: Counters::new(ShardIndex(0), 1), records: Vec::new() }
    }

    fn run(&mut self, command: &Command, now: u64) -> Result<Counter, Refusal> {
        match self.counters.decide(command, &KEYS, TimeMs(now)) {
            Decision::Answer(outcome) => outcome,
            Decision::Append { event, outcome } => {
                let mut bytes = Vec::new();
                Counters::encode(&event, &mut bytes);
                self.counters.apply(&event, place(self.records.len()));
                self.records.push(bytes);
                outcome
            }
        }
    }

    /// The state that a start makes of the records.
    fn replayed(&self) -> Counters {
        let mut counters = Counters::new(ShardIndex(0), 1);
        for (number, record) in self.records.iter().enumerate() {
            let event = Counters::decode(record).expect("it was encoded");
            counters.apply_checked(&event, place(number)).expect("it was decided");
        }
        counters
    }
}

fn place(number: usize) -> Place {
    Place { position: RecordPosition(number as u64 * 100), sequence: RecordSequence(number as u64 + 1) }
}

fn add(name: &str, amount: u64, expires_in_ms: Option<u64>) -> Command {
    Command { name: name.into(), action: Action::Add { amount, expires_in_ms } }
}

fn snapshot(counters: &Counters) -> Vec<u8> {
    let mut bytes = Vec::new();
    counters.write_snapshot(&mut |part| bytes.extend_from_slice(part));
    bytes
}

/// Runs commands, each at its time, and compares what they come to.
fn check(commands: &[(u64, Command)], expected: Expect) {
    let mut log = Log::new();
    let outcomes: Vec<String> =
        commands.iter().map(|(now, command)| format!("{:?}\n", log.run(command, *now))).collect();
    expected.assert_eq(&outcomes.concat());
    log.counters.assert_sound();
    assert_eq!(log.replayed(), log.counters);
}

#[test]
fn counters_go_up_and_expire() {
    let read = || Command { name: "a".into(), action: Action::Read };
    check(
        &[
            (0, read()),
            (0, add("a", 2, Some(10))),
            (9, add("a", 3, Some(10))),
            (18, read()),
            (19, read()),
            (19, add("a", 1, None)),
            (999, read()),
        ],
        expect![[r#"
            Err(NotFound)
            Ok(Counter { value: 2, expires_at: Some(10) })
            Ok(Counter { value: 5, expires_at: Some(19) })
            Ok(Counter { value: 5, expires_at: Some(19) })
            Err(NotFound)
            Ok(Counter { value: 1, expires_at: None })
            Ok(Counter { value: 1, expires_at: None })
        "#]],
    );
}

#[test]
fn what_is_out_of_bounds_is_refused() {
    check(
        &[
            (0, add("", 1, None)),
            (0, add("ninebytes", 1, None)),
            (0, add("a\n", 1, None)),
            (0, add("a", 0, None)),
            (0, add("a", u64::MAX, None)),
            (0, add("a", 1, None)),
            (0, add("b", 1, Some(1_001))),
            (0, add("b", 1, Some(0))),
            (0, add("b", 1, Some(1_000))),
            (0, add("c", 1, None)),
            (0, add("d", 1, None)),
        ],
        expect![[r#"
            Err(NameInvalid)
            Err(NameInvalid)
            Err(NameInvalid)
            Err(AmountInvalid)
            Ok(Counter { value: 18446744073709551615, expires_at: None })
            Err(AmountInvalid)
            Err(ExpiryInvalid)
            Err(ExpiryInvalid)
            Ok(Counter { value: 1, expires_at: Some(1000) })
            Ok(Counter { value: 1, expires_at: None })
            Err(TooMany)
        "#]],
    );
}

#[test]
fn an_event_that_does_not_follow_is_refused_and_changes_nothing() {
    let mut log = Log::new();
    log.run(&add("a", 5, None), 0).expect("it is new");
    let before = log.counters.clone();
    let event = |name: &str, before, value| {
        let after = (value > 0).then_some(Counter { value, expires_at: None });
        Event { name: name.into(), before, after }
    };
    for (event, at) in [
        (event("a", 4, 6), place(1)),
        (event("a", 5, 5), place(1)),
        // It does not expire.
        (event("a", 5, 0), place(1)),
        (event("b", 0, 0), place(1)),
        (event("a", 5, 6), place(0)),
    ] {
        assert_eq!(log.counters.apply_checked(&event, at), Err(Mismatch(event)));
        assert_eq!(log.counters, before);
    }
}

#[test]
fn bytes_that_are_not_ours_are_refused() {
    for bytes in [&b""[..], b"{}", b"null", br#"{"name":"a","before":1,"after":null }"#, br#"{"name":"a","before":1}"#]
    {
        assert_eq!(Counters::decode(bytes), Err(Malformed), "{}", String::from_utf8_lossy(bytes));
        assert_eq!(Counters::read_snapshot(bytes), Err(Malformed));
    }
    let shard_of_none = br#"{"shard":1,"shards":1,"sequence":0,"counters":{}}"#;
    assert_eq!(Counters::read_snapshot(shard_of_none), Err(Malformed));
}

proptest! {
    #[test]
    fn replay_and_snapshot_give_the_same_state(
        commands in prop::collection::vec((0usize..4, 0u64..5, prop::option::of(0u64..40), 0u64..20), 0..60)
    ) {
        let mut log = Log::new();
        let mut now = 0;
        for (name, amount, expires_in_ms, passed) in commands {
            now += passed;
            while let Some(name) = log.counters.expired(TimeMs(now)).map(Box::<str>::from) {
                assert_eq!(log.run(&Command { name, action: Action::Expire }, now), Err(Refusal::NotFound));
            }
            prop_assert!(log.counters.next_due().is_none_or(|due| due.0 > now));
            // A refusal changes nothing.
            let _ = log.run(&add(["a", "b", "c", "d"][name], amount, expires_in_ms), now);
            log.counters.assert_sound();
        }
        prop_assert_eq!(&log.replayed(), &log.counters);
        let bytes = snapshot(&log.counters);
        let read = Counters::read_snapshot(&bytes).unwrap();
        prop_assert_eq!(&read, &log.counters);
        prop_assert_eq!(snapshot(&read), bytes);
    }
}
