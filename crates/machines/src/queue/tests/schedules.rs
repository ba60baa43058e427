use super::limits::{STANDING_BYTES_MAX, STANDING_MAX};
use super::*;

pub fn every_morning(body: &str) -> StandingSettings {
    StandingSettings {
        cron: "0 9 * * *".into(),
        zone: "Europe/Berlin".into(),
        expiry_ms: None,
        message: message(body),
        owner: None,
    }
}

fn with_queue(settings: Settings) -> Driven {
    let mut driven = Driven::new();
    driven.queue("jobs", settings);
    driven
}

#[test]
fn a_schedule_sends_one_message_for_each_of_its_times() {
    let mut driven = with_queue(Settings::default());
    assert_eq!(driven.schedule("jobs", "morning", &every_morning("a"), 100), Outcome::Done);
    driven.wait(99);
    assert_eq!((driven.queues.next_firing(), driven.counts("jobs")), (Some(TimeMs(1_100)), (0, 0, 0)));
    driven.wait(1);
    driven.fire();
    assert_eq!(driven.received("jobs", 10), [(1, 1)], "once");
    driven.wait(10 * PERIOD_MS);
    assert_eq!(driven.received("jobs", 10), [(2, 1)], "times that passed give one message together");
    let standing = driven.queues.standing("jobs", "morning").expect("it is there").clone();
    assert_eq!(standing.next, Some(TimeMs(driven.now.0 + PERIOD_MS)));
    let last = driven.queues.message(standing.last.expect("it has fired")).expect("it is there");
    assert_eq!((last.body.number, last.attempts), (2, 1));
    let totals = driven.queues.view("jobs").expect("the queue is there").totals;
    assert_eq!((totals.sent, totals.leased), (2, 2));
}

#[test]
fn what_it_sends_has_the_times_of_its_queue_or_its_own() {
    let mut driven = with_queue(Settings { delay_ms: 40, expiry_ms: Some(500), ..Settings::default() });
    driven.schedule("jobs", "morning", &every_morning("a"), 10);
    driven.wait(10);
    assert_eq!(driven.counts("jobs"), (0, 1, 0));
    driven.wait(40);
    assert_eq!(driven.counts("jobs"), (1, 0, 0));
    driven.wait(460);
    assert_eq!(driven.counts("jobs"), (0, 0, 0), "it has expired");
    let own = StandingSettings { expiry_ms: Some(90), ..every_morning("a") };
    driven.schedule("jobs", "morning", &own, 10);
    driven.wait(10);
    let view = driven.queues.browse("jobs", ALL_KEYS).expect("a queue").next().expect("a message");
    assert_eq!(view.expires_at, Some(TimeMs(driven.now.0 + 90)));
}

#[test]
fn a_schedule_that_is_set_again_goes_on_and_another_one_takes_its_place() {
    let mut driven = with_queue(Settings::default());
    driven.schedule("jobs", "morning", &every_morning("a"), 100);
    let records = driven.records.len();
    assert_eq!(driven.schedule("jobs", "morning", &every_morning("a"), 5_000), Outcome::Done);
    assert_eq!((driven.records.len(), driven.queues.next_firing()), (records, Some(TimeMs(1_100))), "it is the same");
    driven.schedule("jobs", "morning", &every_morning("b"), 200);
    assert_eq!(driven.queues.next_firing(), Some(TimeMs(1_200)));
    // What was seen before another one took its place does not fire.
    driven.now.0 += 200;
    let due: Vec<DueStanding> = driven.queues.due_standing(driven.now).collect();
    driven.schedule("jobs", "morning", &every_morning("c"), 300);
    assert_eq!(driven.ask(Command::Fire { due: &due[0], next: None }), Outcome::Done);
    assert_eq!(driven.counts("jobs"), (0, 0, 0));
    let remove = || Command::RemoveStanding { queue: "jobs", name: "morning" };
    assert_eq!(driven.ask(Command::DeleteQueue { name: "jobs" }), Outcome::Refused(Refusal::QueueHasSchedules));
    assert_eq!(driven.ask(remove()), Outcome::Done);
    assert_eq!(driven.ask(remove()), Outcome::Refused(Refusal::ScheduleNotFound));
    assert_eq!((driven.queues.next_firing(), driven.queues.standing("jobs", "morning")), (None, None));
    assert_eq!(driven.ask(Command::DeleteQueue { name: "jobs" }), Outcome::Done);
}

#[test]
fn one_that_cannot_be_read_any_more_fires_no_more_until_it_is_set() {
    let mut driven = with_queue(Settings::default());
    driven.schedule("jobs", "morning", &every_morning("a"), 100);
    driven.now.0 += 100;
    let due: Vec<DueStanding> = driven.queues.due_standing(driven.now).collect();
    assert_eq!(driven.ask(Command::Fire { due: &due[0], next: None }), Outcome::Done);
    assert_eq!((driven.counts("jobs"), driven.queues.next_firing()), ((1, 0, 0), None));
    assert_eq!(driven.schedule("jobs", "morning", &every_morning("a"), 50), Outcome::Done);
    assert_eq!(driven.queues.next_firing(), Some(TimeMs(driven.now.0 + 50)));
}

#[test]
fn a_full_queue_gets_its_message_when_there_is_room() {
    let mut driven = with_queue(Settings { messages_max: Some(1), ..Settings::default() });
    driven.send("jobs", &[message("a")]);
    driven.schedule("jobs", "morning", &every_morning("b"), 100);
    driven.wait(100);
    assert_eq!(driven.counts("jobs"), (1, 0, 0));
    let lease = driven.receive("jobs", 1);
    driven.acknowledge("jobs", &lease);
    driven.wait(50);
    assert_eq!(driven.received("jobs", 10), [(2, 1)]);
}

#[test]
fn what_cannot_be_is_refused_and_there_are_never_too_many() {
    let mut driven = with_queue(Settings::default());
    let long = "x".repeat(STANDING_BYTES_MAX + 1);
    let message = |change: fn(&mut Message)| {
        let mut settings = every_morning("a");
        change(&mut settings.message);
        settings
    };
    for settings in [
        StandingSettings { cron: "".into(), ..every_morning("a") },
        StandingSettings { zone: "z".repeat(65).into(), ..every_morning("a") },
        StandingSettings { expiry_ms: Some(0), ..every_morning("a") },
        StandingSettings { owner: Some("".into()), ..every_morning("a") },
        every_morning(&long),
        message(|message| message.id = Some("1".into())),
        message(|message| message.visible_at = Some(When::At(TimeMs(5)))),
        message(|message| message.expires_at = Some(When::After(5))),
        message(|message| message.priority = 10),
        message(|message| message.ordering_key = Some("\u{1}".into())),
    ] {
        let outcome = driven.schedule("jobs", "morning", &settings, 100);
        assert!(matches!(outcome, Outcome::Refused(Refusal::ScheduleInvalid(_))), "{outcome:?}");
    }
    let refused = driven.schedule("jobs", "a b", &every_morning("a"), 100);
    assert!(matches!(refused, Outcome::Refused(Refusal::ScheduleInvalid(_))));
    let refused = driven.schedule("none", "morning", &every_morning("a"), 100);
    assert_eq!(refused, Outcome::Refused(Refusal::QueueNotFound("none".into())));
    driven.queue("others", Settings::default());
    for number in 0..STANDING_MAX {
        let queue = ["jobs", "others"][number % 2];
        assert_eq!(driven.schedule(queue, &number.to_string(), &every_morning("a"), 100), Outcome::Done);
    }
    let refused = driven.schedule("jobs", "more", &every_morning("a"), 100);
    assert_eq!(refused, Outcome::Refused(Refusal::TooManySchedules));
    assert_eq!(driven.schedule("jobs", "0", &every_morning("b"), 100), Outcome::Done, "in the place of another");
    let names: Vec<&str> =
        driven.queues.standing_after("others", "3").expect("a queue").map(|(name, _)| name).collect();
    assert!(names.is_sorted() && names.len() == 388, "{}", names.len());
}
