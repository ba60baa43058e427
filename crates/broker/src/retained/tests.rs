use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_wire::mqtt::filter_matches;

/// A message of so many bytes, named by a number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Note {
    number: u32,
    expires_at_ms: Option<u64>,
}

impl Retainable for Note {
    fn expires_at_ms(&self) -> Option<u64> {
        self.expires_at_ms
    }

    fn bytes(&self) -> usize {
        10
    }
}

fn note(number: u32) -> Note {
    Note { number, expires_at_ms: None }
}

/// Numbers of all messages that a filter matches, with steps of `budget` nodes.
fn all(retained: &mut Retained<Note>, filter: &str, now_ms: u64, budget: usize) -> Vec<u32> {
    let mut numbers = Vec::new();
    let mut cursor = retained.open(filter);
    while retained.step(&mut cursor, now_ms, &mut { budget }, |note| {
        numbers.push(note.number);
        true
    }) == Progress::More
    {}
    retained.close(cursor);
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_filter_gives_the_messages_that_it_matches() {
    let mut retained = Retained::new(1);
    let topics = ["a", "a/b", "a/b/c", "a//c", "/", "b/b", "$SYS/a", "$SYS", "a/$b"];
    for (number, topic) in (0..).zip(topics) {
        retained.set(topic, note(number));
    }
    for filter in
        ["#", "+", "+/+", "a/#", "a/+", "a/+/c", "a/b", "/+", "$SYS/#", "$SYS/+", "+/b", "x", "x/#", "a/b/#", "+/+/#"]
    {
        let expected: Vec<u32> =
            (0..).zip(topics).filter(|(_, topic)| filter_matches(filter, topic)).map(|(number, _)| number).collect();
        assert_eq!(all(&mut retained, filter, 0, 3), expected, "{filter}");
    }
    assert_eq!((retained.len(), retained.bytes()), (9, 90));
}

#[test]
fn a_topic_has_one_message_and_none_when_it_is_cleared() {
    let mut retained = Retained::new(1);
    assert_eq!(retained.set("a/b", note(1)), None);
    assert_eq!(retained.set("a/b", note(2)), Some(note(1)));
    assert_eq!(
        (retained.get("a/b"), retained.get("a"), retained.len(), retained.bytes()),
        (Some(&note(2)), None, 1, 10)
    );
    assert_eq!(retained.clear("a"), None);
    assert_eq!(retained.clear("a/b"), Some(note(2)));
    assert_eq!(retained.clear("a/b"), None);
    assert_eq!((retained.len(), retained.bytes(), retained.tree.len()), (0, 0, 0));
}

#[test]
fn a_topic_of_slashes_is_not_a_million_nodes() {
    assert!(Retained::<Note>::admits(&"/".repeat(TOPIC_LEVELS_MAX - 1)));
    assert!(!Retained::<Note>::admits(&"/".repeat(TOPIC_LEVELS_MAX)));
}

#[test]
fn messages_expire_each_at_its_time() {
    let mut retained = Retained::new(1);
    for number in 0..100 {
        let expires_at_ms = (number % 2 == 0).then_some(1_000 + u64::from(number));
        retained.set(&format!("t/{number}"), Note { number, expires_at_ms });
    }
    retained.set("t/0", note(0));
    retained.clear("t/2");
    retained.set("t/2", Note { number: 2, expires_at_ms: Some(5_000) });
    assert_eq!(all(&mut retained, "#", 1_098, 10).len(), 52, "who asks gets nothing expired, swept or not");
    let mut gone = Vec::new();
    assert!(retained.expire(999, 10, |note| gone.push(note.number)) && gone.is_empty());
    assert!(!retained.expire(1_098, 10, |note| gone.push(note.number)), "more are due than the budget");
    while !retained.expire(1_098, 10, |note| gone.push(note.number)) {}
    assert_eq!(gone, (4..100).step_by(2).collect::<Vec<u32>>());
    assert_eq!(retained.len(), 52);
    assert!(retained.expire(u64::MAX, 10, |note| assert_eq!(note.number, 2)));
    assert_eq!(retained.len(), 51);
}

#[test]
fn a_topic_that_is_set_again_and_again_keeps_few_expiries() {
    let mut retained = Retained::new(1);
    for number in 0..100_000 {
        retained.set("clock", Note { number, expires_at_ms: Some(1_000_000 + u64::from(number)) });
    }
    assert!(retained.heap_bytes() < 200_000, "{}", retained.heap_bytes());
}

#[test]
fn a_step_visits_no_more_than_its_budget() {
    let mut retained = Retained::new(1);
    for number in 0..10_000 {
        retained.set(&format!("$own-{number}"), note(number));
        retained.set(&format!("site/{number}/state"), note(number));
    }
    let mut cursor = retained.open("+/+/nothing");
    let mut steps = 1;
    while retained.step(&mut cursor, 0, &mut { 100 }, |_| panic!("nothing is called so")) == Progress::More {
        steps += 1;
    }
    retained.close(cursor);
    assert!(steps >= 200, "20,000 nodes in steps of 100: {steps} steps");
    let mut cursor = retained.open("site/#");
    let mut given = 0;
    while retained.step(&mut cursor, 0, &mut { usize::MAX }, |_| {
        given += 1;
        given % 64 != 0
    }) == Progress::More
    {
        assert_eq!(given % 64, 0, "who has enough for now gets no more");
    }
    retained.close(cursor);
    assert_eq!(given, 10_000);
}

#[test]
fn a_node_under_a_cursor_stays_until_the_cursor_has_gone() {
    let mut retained = Retained::new(1);
    for number in 0..3 {
        retained.set(&format!("a/{number}"), note(number));
    }
    let mut cursor = retained.open("a/+");
    let _ = retained.step(&mut cursor, 0, &mut { usize::MAX }, |_| false);
    for number in 0..3 {
        retained.clear(&format!("a/{number}"));
    }
    assert_eq!((retained.len(), retained.tree.len()), (0, 2));
    retained.set("a/7", note(7));
    assert_eq!(retained.step(&mut cursor, 0, &mut { usize::MAX }, |_| panic!("it was set later")), Progress::Done);
    retained.clear("a/7");
    retained.close(cursor);
    assert_eq!(retained.tree.len(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Set { topic: String, expires_at_ms: Option<u64> },
    Clear { topic: String },
    Open { filter: String },
    Walk { nth: usize, budget: usize },
    Close { nth: usize },
    Later { ms: u64, budget: usize },
}

fn topics() -> impl Strategy<Value = String> {
    let level = proptest::sample::select(&["a", "b", "c", "", "$x", "a-level-of-more-bytes-than-a-node-holds"][..]);
    proptest::collection::vec(level, 1..4).prop_map(|levels| levels.join("/"))
}

fn filters() -> impl Strategy<Value = String> {
    let level = proptest::sample::select(&["a", "b", "+", "+", "", "$x"][..]);
    (proptest::collection::vec(level, 0..4), any::<bool>()).prop_map(|(mut levels, rest)| {
        if rest || levels.is_empty() {
            levels.push("#");
        }
        levels.join("/")
    })
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (topics(), proptest::option::weighted(0.3, 0..200_u64))
            .prop_map(|(topic, expires_at_ms)| Step::Set { topic, expires_at_ms }),
        4 => topics().prop_map(|topic| Step::Clear { topic }),
        2 => filters().prop_map(|filter| Step::Open { filter }),
        6 => (any::<usize>(), 0..4_usize).prop_map(|(nth, budget)| Step::Walk { nth, budget }),
        1 => any::<usize>().prop_map(|nth| Step::Close { nth }),
        1 => (0..20_u64, 0..5_usize).prop_map(|(ms, budget)| Step::Later { ms, budget }),
    ]
}

/// A scan in progress: the messages it must still give, by number, unless they are removed first; and those it has
/// given.
struct Walk {
    cursor: Cursor,
    owed: BTreeSet<u32>,
    given: BTreeSet<u32>,
}

impl Walk {
    fn no_longer_owes(&mut self, note: Option<&Note>) {
        if let Some(note) = note {
            self.owed.remove(&note.number);
        }
    }
}

proptest! {
    /// A walk gives what was there when it began and is there when it ends, once, whatever else happens in between; and
    /// nothing that was set since.
    #[test]
    fn a_walk_gives_what_was_there_and_stays(seed: u64, steps in proptest::collection::vec(steps(), 1..200)) {
        let mut retained = Retained::new(seed);
        let mut model = BTreeMap::<String, Note>::new();
        let mut walks: Vec<Walk> = Vec::new();
        let mut now_ms = 0;
        let mut number = 0;
        for step in steps.into_iter().chain([Step::Walk { nth: 0, budget: usize::MAX }]) {
            match step {
                Step::Set { topic, expires_at_ms } => {
                    number += 1;
                    let note = Note { number, expires_at_ms: expires_at_ms.map(|ms| now_ms + ms + 1) };
                    let before = model.insert(topic.clone(), note.clone());
                    walks.iter_mut().for_each(|walk| walk.no_longer_owes(before.as_ref()));
                    prop_assert_eq!(retained.set(&topic, note), before);
                }
                Step::Clear { topic } => {
                    let before = model.remove(&topic);
                    walks.iter_mut().for_each(|walk| walk.no_longer_owes(before.as_ref()));
                    prop_assert_eq!(retained.clear(&topic), before);
                }
                Step::Open { filter } => {
                    let matching = model.iter().filter(|(topic, _)| filter_matches(&filter, topic));
                    let owed = matching.map(|(_, note)| note.number).collect();
                    walks.push(Walk { cursor: retained.open(&filter), owed, given: BTreeSet::new() });
                }
                Step::Walk { nth, budget } if !walks.is_empty() => {
                    let nth = nth % walks.len();
                    let walk = &mut walks[nth];
                    let mut given = Vec::new();
                    let progress = retained.step(&mut walk.cursor, now_ms, &mut { budget }, |note| {
                        given.push(note.number);
                        true
                    });
                    for number in given {
                        prop_assert!(walk.owed.remove(&number), "{} was not there at first, or given before", number);
                        prop_assert!(walk.given.insert(number));
                    }
                    if progress == Progress::Done {
                        prop_assert!(walk.owed.is_empty(), "never given: {:?}", walk.owed);
                        retained.close(walks.remove(nth).cursor);
                    }
                }
                Step::Close { nth } if !walks.is_empty() => {
                    let nth = nth % walks.len();
                    retained.close(walks.remove(nth).cursor);
                }
                Step::Walk { .. } | Step::Close { .. } => {}
                Step::Later { ms, budget } => {
                    now_ms += ms;
                    let is_due = |note: &Note| note.expires_at_ms.is_some_and(|at_ms| at_ms <= now_ms);
                    for note in model.values().filter(|note| is_due(note)) {
                        walks.iter_mut().for_each(|walk| { walk.owed.remove(&note.number); });
                    }
                    let mut gone = Vec::new();
                    while !retained.expire(now_ms, budget.max(1), |note| gone.push(note.number)) {}
                    gone.sort_unstable();
                    let due = model.values().filter(|note| is_due(note));
                    let mut due: Vec<u32> = due.map(|note| note.number).collect();
                    due.sort_unstable();
                    prop_assert_eq!(gone, due);
                    model.retain(|_, note| !is_due(note));
                }
            }
            prop_assert_eq!((retained.len(), retained.bytes()), (model.len(), model.len() * 10));
        }
        for walk in walks {
            retained.close(walk.cursor);
        }
        for topic in model.into_keys() {
            retained.clear(&topic);
        }
        prop_assert_eq!(retained.tree.len(), 0);
    }
}

/// As the replica's own table counts its heap.
#[test]
fn what_is_paid_for_a_topic_is_what_its_nodes_take() {
    let long = "l".repeat(70);
    for (prefix, levels) in [("", 1), ("", 5), ("", 100), (&*long, 4)] {
        let mut retained = Retained::<Note>::new(1);
        let mut paid = 0;
        for n in 0..20_000 / levels {
            // No level has a parent that was there.
            let topic = vec![format!("{prefix}{n}"); levels].join("/");
            paid += Retained::<Note>::bytes_of_new(&topic, false);
            retained.set(&topic, note(n as u32));
        }
        let ratio = paid as f64 / retained.heap_bytes() as f64;
        assert!((0.9..1.3).contains(&ratio), "{levels} levels: {ratio:.2} of what they take");
    }
}
