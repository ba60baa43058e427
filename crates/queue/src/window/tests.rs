use proptest::prelude::*;

use super::*;

fn at(text: &str) -> TimeMs {
    time_of(text.parse().expect("a time")).expect("a time behind 1970")
}

fn window(text: &str) -> DeliveryWindow {
    DeliveryWindow::parse(text).expect("a window")
}

/// Whether it is open at a time, and when that changes.
fn state(text: &str, now: &str) -> String {
    let WindowState { is_open, changes_at } = window(text).state(at(now));
    let change = changes_at.map_or("never".into(), |at| moment(at).expect("in time").to_string());
    format!("{} until {change}", if is_open { "open" } else { "closed" })
}

#[test]
fn a_window_is_open_between_its_times() {
    let day = "08:00-20:00 Europe/Berlin";
    assert_eq!(state(day, "2026-11-27T06:59:59Z"), "closed until 2026-11-27T07:00:00Z");
    assert_eq!(state(day, "2026-11-27T07:00:00Z"), "open until 2026-11-27T19:00:00Z");
    assert_eq!(state(day, "2026-11-27T19:00:00Z"), "closed until 2026-11-28T07:00:00Z");
    assert_eq!(state(day, "2026-07-01T06:00:00Z"), "open until 2026-07-01T18:00:00Z", "summer");
    let work = "mon-fri 08:00-20:00 Europe/Berlin";
    assert_eq!(state(work, "2026-11-27T19:00:00Z"), "closed until 2026-11-30T07:00:00Z", "a Friday evening");
    assert_eq!(state("SAT,Sun 00:00-24:00 UTC", "2026-11-27T19:00:00Z"), "closed until 2026-11-28T00:00:00Z");
    assert_eq!(state("sat,sun 00:00-24:00 UTC", "2026-11-28T19:00:00Z"), "open until 2026-11-30T00:00:00Z");
    assert_eq!(state("00:00-24:00 UTC", "2026-11-28T19:00:00Z"), "open until never");
}

#[test]
fn a_window_over_midnight_is_of_the_day_on_which_it_opens() {
    let night = "fri 22:00-06:00 UTC";
    assert_eq!(state(night, "2026-11-27T05:00:00Z"), "closed until 2026-11-27T22:00:00Z", "Friday morning");
    assert_eq!(state(night, "2026-11-28T05:59:00Z"), "open until 2026-11-28T06:00:00Z", "Saturday morning");
    assert_eq!(state(night, "2026-11-28T22:00:00Z"), "closed until 2026-12-04T22:00:00Z");
    assert_eq!(state("fri-mon 22:00-06:00 UTC", "2026-11-30T23:00:00Z"), "open until 2026-12-01T06:00:00Z");
    assert_eq!(state("22:00-06:00 UTC", "2026-11-28T00:00:00Z"), "open until 2026-11-28T06:00:00Z");
}

#[test]
fn clocks_that_are_changed_count_as_they_show() {
    // 2026-03-29: from 02:00 to 03:00 at 01:00 UTC.
    let early = "02:30-05:00 Europe/Berlin";
    assert_eq!(state(early, "2026-03-29T00:59:00Z"), "closed until 2026-03-29T01:00:00Z", "02:30 is left out");
    assert_eq!(state(early, "2026-03-29T01:00:00Z"), "open until 2026-03-29T03:00:00Z");
    assert_eq!(state("01:00-02:30 Europe/Berlin", "2026-03-29T00:30:00Z"), "open until 2026-03-29T01:00:00Z");
    assert_eq!(state("02:10-02:50 Europe/Berlin", "2026-03-29T00:30:00Z"), "closed until 2026-03-30T00:10:00Z");
    // 2026-10-25: from 03:00 to 02:00 at 01:00 UTC.
    let late = "22:00-02:30 Europe/Berlin";
    assert_eq!(state(late, "2026-10-25T00:29:00Z"), "open until 2026-10-25T00:30:00Z");
    assert_eq!(state(late, "2026-10-25T00:30:00Z"), "closed until 2026-10-25T01:00:00Z", "02:00 comes again");
    assert_eq!(state(late, "2026-10-25T01:00:00Z"), "open until 2026-10-25T01:30:00Z");
    assert_eq!(state(late, "2026-10-25T01:30:00Z"), "closed until 2026-10-25T21:00:00Z");
    // Samoa had no 2011-12-30, a Friday.
    assert_eq!(state("fri 08:00-09:00 Pacific/Apia", "2011-12-24T00:00:00Z"), "closed until 2012-01-05T18:00:00Z");
}

#[test]
fn what_is_no_window_is_told() {
    let error = |text: &str| DeliveryWindow::parse(text).expect_err(text).to_string();
    for text in ["", "always", "08:00-20:00", "08:00 - 20:00 UTC", "mon fri 08:00-20:00 UTC", "mon-fri 8-20h UTC x"] {
        assert!(!error(text).is_empty());
    }
    assert_eq!(error("08:00-20:00"), FORM);
    assert_eq!(
        error("08:00-20:00 Europe/Berlim"),
        "there is no time zone \"Europe/Berlim\"; expected a name as \"Europe/Berlin\" or \"UTC\""
    );
    assert_eq!(error("08:00-24:01 UTC"), "\"24:01\" is no time of the day; expected 00:00 to 24:00");
    assert_eq!(error("8:00-20:00 UTC"), "\"8:00\" is no time of the day; expected 00:00 to 24:00");
    assert_eq!(error("08:00-08:00 UTC"), "it opens and closes at one time; all day is 00:00-24:00");
    assert_eq!(error("24:00-08:00 UTC"), "it opens at 24:00; expected 00:00 to 23:59");
    assert_eq!(error("mo-fri 08:00-20:00 UTC"), "\"mo\" is no day; expected mon, tue, wed, thu, fri, sat or sun");
}

#[test]
fn what_is_known_of_a_window_holds_until_it_changes() {
    let mut windows = Windows::default();
    let (text, before, opens) = (Some("08:00-20:00 UTC"), at("2026-11-27T07:00:00Z"), at("2026-11-27T08:00:00Z"));
    for _ in 0..2 {
        assert_eq!(windows.opening("a", text, before), Opening::At(opens));
    }
    assert_eq!(windows.opening("a", text, opens), Opening::Now);
    assert_eq!(windows.opening("a", text, before), Opening::At(opens), "a clock may be set back");
    assert_eq!(windows.opening("a", Some("07:00-08:00 UTC"), before), Opening::Now, "it is another window now");
    assert_eq!(windows.opening("a", Some("nonsense"), before), Opening::Never);
    assert_eq!(windows.opening("a", None, before), Opening::Now);
    assert!(windows.0.is_empty());
}

proptest! {
    #[test]
    fn a_window_changes_when_it_says_and_not_before(
        (zone, day) in (0..6_usize, 0..1_200_i64),
        (from, to, days) in (0..1_440_u16, 0..=1_440_u16, 1..128_u8),
    ) {
        prop_assume!(from != to);
        let zone = zone_of(
            [
                "UTC",
                "Europe/Berlin",
                "America/New_York",
                "Australia/Lord_Howe",
                "Africa/Cairo",
                "America/Asuncion",
            ][zone],
        );
        let days = std::array::from_fn(|day| days >> day & 1 == 1);
        let window = DeliveryWindow { days, from, to, zone: zone.expect("a zone") };
        let now = Timestamp::from_second(1_700_000_000 + day * 86_400).expect("a time");
        let state = window.state(time_of(now).expect("a time"));
        prop_assert_eq!(window.is_open(now), state.is_open);
        let end = state.changes_at.map(|at| moment(at).expect("a time"));
        let mut minutes = (1..14 * 24 * 60).map(|minute| now + SignedDuration::from_mins(minute));
        let changed = minutes.find(|at| window.is_open(*at) != state.is_open);
        match (changed, end) {
            (Some(changed), Some(end)) => {
                let minute = SignedDuration::from_mins(1);
                prop_assert!(end <= changed && changed < end + minute, "{window:?}: {changed} is not {end}");
            }
            (changed, end) => prop_assert!(changed.is_none(), "{window:?}: {changed:?} is not {end:?}"),
        }
    }

    #[test]
    fn any_text_is_a_window_or_is_refused(text in ".{0,60}") {
        let _ = DeliveryWindow::parse(&text);
    }
}
