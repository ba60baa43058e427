use proptest::prelude::*;

use super::*;

fn at(text: &str) -> TimeMs {
    time_of(text.parse().expect("a time")).expect("a time behind 1970")
}

/// The next times behind one.
fn next(cron: &str, zone: &str, now: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::parse(cron, zone, at(now)).expect("a schedule");
    let times = std::iter::successors(schedule.next(at(now)), |at| schedule.next(*at));
    times.take(count).map(|at| moment(at).expect("in time").to_string()).collect()
}

#[test]
fn it_fires_when_its_fields_match() {
    assert_eq!(
        next("0 9 * * mon-fri", "Europe/Berlin", "2026-11-27T08:00:00Z", 2),
        ["2026-11-30T08:00:00Z", "2026-12-01T08:00:00Z"],
        "behind the time itself, and not on weekends"
    );
    assert_eq!(
        next("*/20 8-9 1,15 JAN *", "UTC", "2026-11-27T08:00:00Z", 7),
        ["01T08:00", "01T08:20", "01T08:40", "01T09:00", "01T09:20", "01T09:40", "15T08:00"]
            .map(|time| format!("2027-01-{time}:00Z"))
    );
    assert_eq!(next("0 0 29 2 *", "UTC", "2026-11-27T08:00:00Z", 1), ["2028-02-29T00:00:00Z"]);
    assert_eq!(next("0 0 * * 7", "UTC", "2026-11-27T08:00:00Z", 1), ["2026-11-29T00:00:00Z"], "7 is Sunday, too");
}

#[test]
fn what_is_left_out_in_spring_comes_later() {
    let now = "2026-03-28T00:00:00Z";
    assert_eq!(
        next("30 2 * * *", "Europe/Berlin", now, 3),
        ["2026-03-28T01:30:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"],
        "03:30 on the day of the change"
    );
    assert_eq!(
        next("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:15:00Z", 4),
        ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:00:00Z"],
        "nothing comes twice"
    );
}

#[test]
fn what_comes_twice_in_autumn_fires_once_unless_it_fires_each_hour() {
    let now = "2026-10-24T12:00:00Z";
    assert_eq!(next("30 2 * * *", "Europe/Berlin", now, 2), ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],);
    let between = "2026-10-25T01:10:00Z";
    assert_eq!(next("30 2 * * *", "Europe/Berlin", between, 1), ["2026-10-26T01:30:00Z"], "it has fired");
    assert_eq!(
        next("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 6),
        ["00:00", "00:30", "01:00", "01:30", "02:00", "02:30"].map(|time| format!("2026-10-25T{time}:00Z"))
    );
    assert_eq!(
        next("15 2,3 * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 2),
        ["2026-10-25T00:15:00Z", "2026-10-25T02:15:00Z"],
    );
}

#[test]
fn what_is_no_schedule_is_told() {
    let error =
        |cron: &str, zone: &str| Schedule::parse(cron, zone, at("2026-11-27T08:00:00Z")).expect_err(cron).to_string();
    for cron in ["", "* * * *", "* * * * * UTC", "* * * * * *", "@daily"] {
        assert_eq!(error(cron, "UTC"), FORM, "{cron}");
    }
    for cron in ["60 * * * *", "* * * * mo", "H * * * *", "*/0 * * * *", "5-1 * * * *"] {
        let told = error(cron, "UTC");
        assert!(told.starts_with("cron: ") && told.len() > 12 && !told.contains('^'), "{told}");
    }
    assert_eq!(
        error("* * * * *", "Berlin"),
        "zone: there is no time zone \"Berlin\"; expected a name as \"Europe/Berlin\" or \"UTC\""
    );
    assert_eq!(error("0 0 30 2 *", "UTC"), "cron: it does not fire in the next four years");
}

proptest! {
    /// Compared with a look at each minute, by the same rules in other words.
    #[test]
    fn it_fires_as_the_clock_of_its_zone_shows(
        (zone, day, minute) in (0..5_usize, 0..1_200_i64, 0..1_440_i64),
        (hour, at_minute, is_hourly) in (0..24_i8, 0..60_i8, any::<bool>()),
    ) {
        let zone = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo"][zone];
        let cron = if is_hourly { format!("{at_minute} * * * *") } else { format!("{at_minute} {hour} * * *") };
        let now = Timestamp::from_second(1_700_000_000 / 60 * 60 + day * 86_400 + minute * 60).expect("a time");
        let schedule = Schedule::parse(&cron, zone, time_of(now).expect("a time")).expect("a schedule");
        let next = moment(schedule.next(time_of(now).expect("a time")).expect("it fires")).expect("a time");
        let fires = |at: Timestamp| {
            let local = schedule.zone.to_datetime(at);
            let matches = |local: DateTime| local.minute() == at_minute && (is_hourly || local.hour() == hour);
            // The first of two, or what a clock that was not put forward would show.
            let before = schedule.zone.to_datetime(at - SignedDuration::from_hours(4));
            let unchanged = before + SignedDuration::from_hours(4);
            let is_second = schedule.moments_of(local)[0] != Some(at);
            let is_left_out = unchanged < local
                && matches!(schedule.zone.to_ambiguous_timestamp(unchanged).offset(), AmbiguousOffset::Gap { .. });
            matches(local) && (is_hourly || !is_second) || is_left_out && matches(unchanged)
        };
        prop_assert!(fires(next), "{cron} in {zone}, {now}: {next}");
        let mut between = (1..).map(|minute| now + SignedDuration::from_mins(minute)).take_while(|at| *at < next);
        prop_assert!(between.all(|at| !fires(at)), "{cron} in {zone}, {now}: {next} is not the first");
    }

    #[test]
    fn any_text_is_a_schedule_or_is_refused(cron in "[0-9*/,a-zLW#? -]{0,40}", more in ".{0,40}") {
        for text in [cron, more] {
            if let Ok(schedule) = Schedule::parse(&text, "Europe/Berlin", TimeMs(1_700_000_000_000)) {
                prop_assert!(schedule.next(TimeMs(1_700_000_000_000)) > Some(TimeMs(1_700_000_000_000)));
            }
        }
    }
}
