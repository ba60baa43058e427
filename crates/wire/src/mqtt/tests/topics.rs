//! The grammar of topics, by the examples of chapter 4.7 and against a slow model.

use crate::mqtt::*;
use proptest::prelude::*;

#[test]
fn matching_by_the_examples_of_chapter_4_7() {
    let yes = [
        ("sport/tennis/player1/#", "sport/tennis/player1"),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking"),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon"),
        ("sport/#", "sport"),
        ("#", "a/b"),
        ("#", "/"),
        ("sport/tennis/+", "sport/tennis/player1"),
        ("sport/+", "sport/"),
        ("+/+", "/finance"),
        ("/+", "/finance"),
        ("$SYS/#", "$SYS/monitor/Clients"),
        ("$SYS/monitor/+", "$SYS/monitor/Clients"),
        ("a/$b/+", "a/$b/c"),
        ("+/$b", "a/$b"),
    ];
    let no = [
        ("sport/tennis/+", "sport/tennis/player1/ranking"),
        ("sport/+", "sport"),
        ("+", "/finance"),
        ("#", "$SYS/x"),
        ("+/monitor/Clients", "$SYS/monitor/Clients"),
        ("ACCOUNTS", "Accounts"),
        ("/A", "A"),
        ("a", "a/"),
        ("a/b/#", "a"),
    ];
    for (filter, topic) in yes {
        assert!(filter_matches(filter, topic), "{filter} {topic}");
    }
    for (filter, topic) in no {
        assert!(!filter_matches(filter, topic), "{filter} {topic}");
    }
}

#[test]
fn covering() {
    let yes = [
        ("#", "#"),
        ("#", "a/+/#"),
        ("a/#", "a"),
        ("a/#", "a/#"),
        ("+/b", "a/b"),
        ("+", "+"),
        ("+/#", "#"),
        ("#", "+/#"),
    ];
    let no = [("a", "+"), ("a/+", "a/#"), ("a/+/#", "a/#"), ("#", "$SYS/#"), ("+/x", "$a/x"), ("a/b", "a"), ("+", "#")];
    for (pattern, filter) in yes {
        assert!(filter_covers(pattern, filter), "{pattern} {filter}");
    }
    for (pattern, filter) in no {
        assert!(!filter_covers(pattern, filter), "{pattern} {filter}");
    }
}

#[test]
fn shared_filters_are_taken_apart() {
    let parts = |text| check_filter(text).map(|parts| (parts.share_group, parts.filter));
    assert_eq!(parts("a/b"), Ok((None, "a/b")));
    assert_eq!(parts("$share/g/a/+"), Ok((Some("g"), "a/+")));
    assert_eq!(parts("$share/g//a"), Ok((Some("g"), "/a")));
    assert_eq!(parts("$queue/a"), Ok((Some(QUEUE_GROUP), "a")));
    assert_eq!(parts("$share/$queue/a"), Ok((Some("$queue"), "a")));
    assert_eq!(parts("$queue"), Ok((None, "$queue")));
}

#[test]
fn topics_from_elsewhere() {
    let statement = |result: Result<(), Malformed>| result.expect_err("refused").statement;
    assert_eq!(statement(check_topic("a\0")), "MQTT-4.7.3-2");
    assert_eq!(statement(check_filter("a\0").map(drop)), "MQTT-4.7.3-2");
    assert_eq!(check_topic(&"x".repeat(65_535)), Ok(()));
    assert_eq!(statement(check_topic(&"x".repeat(65_536))), "MQTT-4.7.3-3");
    assert_eq!(statement(check_filter(&"x".repeat(65_536)).map(drop)), "MQTT-4.7.3-3");
}

/// Levels of a small alphabet, so that filters and topics meet.
fn levels(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(words), 1..5).prop_map(|levels| levels.join("/"))
}

fn filter() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => levels(&["a", "b", "", "+", "$x"]),
        8 => levels(&["a", "b", "", "+", "$x"]).prop_map(|filter| format!("{filter}/#")),
        1 => Just("#".to_owned()),
    ]
    .prop_filter("not empty", |filter| !filter.is_empty())
}

fn topic() -> impl Strategy<Value = String> {
    levels(&["a", "b", "", "$x"]).prop_filter("not empty", |topic| !topic.is_empty())
}

/// Matching by recursion over the levels, as chapter 4.7 says it in words.
fn model(filter: &[&str], topic: &[&str], first: bool) -> bool {
    match (filter, topic) {
        (["#"], []) => !first,
        (["#"], [level, ..]) => !(first && level.starts_with('$')),
        ([], []) => true,
        ([], _) | (_, []) => false,
        (["+", filter @ ..], [level, topic @ ..]) => !(first && level.starts_with('$')) && model(filter, topic, false),
        ([word, filter @ ..], [level, topic @ ..]) => word == level && model(filter, topic, false),
    }
}

proptest! {
    #[test]
    fn matching_equals_the_model(filter in filter(), topic in topic()) {
        prop_assume!(check_filter(&filter).is_ok());
        let (filter_levels, topic_levels): (Vec<_>, Vec<_>) = (filter.split('/').collect(), topic.split('/').collect());
        let expected = model(&filter_levels, &topic_levels, true);
        prop_assert_eq!(filter_matches(&filter, &topic), expected, "{} {}", filter, topic);
    }

    #[test]
    fn a_covered_filter_matches_nothing_else(pattern in filter(), filter in filter(), topic in topic()) {
        if filter_covers(&pattern, &filter) && filter_matches(&filter, &topic) {
            prop_assert!(filter_matches(&pattern, &topic), "{} {} {}", pattern, filter, topic);
        }
    }

    #[test]
    fn a_filter_that_is_not_covered_matches_something_else(pattern in filter(), filter in filter()) {
        if !filter_covers(&pattern, &filter) {
            // The filter itself, with a word that no pattern has for each wildcard, and as short and as long as #
            // allows.
            let named = filter.replace('+', "other");
            let long = named.replace('#', "other/other/other/other/other");
            let witnesses = [named.replace("/#", ""), named.replace('#', "other"), long];
            prop_assert!(
                witnesses.iter().any(|topic| filter_matches(&filter, topic) && !filter_matches(&pattern, topic)),
                "{} does not cover {}", pattern, filter
            );
        }
    }

    #[test]
    fn any_text(text in "\\PC{0,30}|[$a/+#]{0,12}") {
        let _ = check_topic(&text);
        if let Ok(parts) = check_filter(&text) {
            prop_assert!(filter_matches(parts.filter, parts.filter) || parts.filter.contains(['+', '#', '$']));
            prop_assert!(filter_covers(parts.filter, parts.filter));
        }
    }
}
