//! When messages are handed out, and how many to whom: delivery windows, and rates of consumers.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::clock::WallClock;

/// As long as a receiver may wait.
const WAIT_MS: u64 = 20_000;
/// A day, in seconds.
const DAY_S: u64 = 86_400;

/// What time it is on this host, in seconds.
fn host_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is behind 1970").as_secs()
}

/// `08:00`, so many seconds after midnight.
fn clock_time(seconds: u64) -> String {
    format!("{:02}:{:02}", seconds / 3_600 % 24, seconds / 60 % 60)
}

/// When a delivery was decided, in milliseconds.
fn decided_ms(message: &Value) -> u64 {
    number(&message["lease_until_ms"]) - LONG_MS
}

/// Waits until so many receivers wait.
fn until_they_wait(http: &mut Http<TcpStream>, count: u64) {
    wait_for("receivers wait", || (metric(http, "tidegate_queue_receivers_waiting") == count).then_some(()));
}

#[test]
fn outside_its_delivery_window_a_queue_hands_out_nothing() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    // It opens in ten hours at the soonest.
    let now = host_s() % DAY_S;
    let later = format!("{}-{} UTC", clock_time(now + 11 * 3_600), clock_time(now + 12 * 3_600));
    let queue = put(&mut http, "sms", &json!({ "delivery_window": later }));
    assert_eq!((&queue["settings"]["delivery_window"], &queue["window"]["open"]), (&json!(later), &json!(false)));
    let opens_s = number(&queue["window"]["changes_at_ms"]) / 1_000;
    assert!(opens_s > host_s() + 9 * 3_600 && opens_s.is_multiple_of(60), "{queue}");
    send(&mut http, "sms", &json!([{"body": "a"}, {"body": "b"}]));
    assert_eq!(received(&mut http, "sms", 10), [""; 0]);
    assert_eq!(counts(&mut http, "sms"), [2, 0, 0]);
    std::thread::scope(|scope| {
        let mut other = connect(&server);
        let waits = scope.spawn(move || bodies(&receive(&mut other, "sms", 1, WAIT_MS)));
        until_they_wait(&mut http, 1);
        let queue = ok(http.patch("/v1/queues/sms", &json!({ "delivery_window": "mon-sun 00:00-24:00 UTC" })));
        assert_eq!(queue["window"], json!({ "open": true }));
        assert_eq!(waits.join().expect("it receives"), ["a"], "who waits learns of another window");
    });
    // A start keeps the window; a queue without one hands out always.
    ok(http.patch("/v1/queues/sms", &json!({ "delivery_window": later })));
    server.kill();
    let server = Server::start(&settings);
    let mut http = connect(&server);
    assert_eq!(received(&mut http, "sms", 10), [""; 0]);
    let queue = ok(http.patch("/v1/queues/sms", &json!({ "delivery_window": null })));
    assert!(queue.get("window").is_none(), "{queue}");
    assert_eq!(received(&mut http, "sms", 10), ["b"]);
    end(server, &settings);
}

/// The server begins some seconds before the window opens: who waits gets the message then, and not before.
#[test]
fn who_waits_is_served_when_the_window_opens() {
    let folder = folder();
    let mut settings = settings(folder.path(), "");
    let clock = WallClock::of(&mut settings);
    // 2031-06-02, a Monday: 07:59:56 in Berlin, where it is summer.
    let opens_s = 1_938_146_400;
    clock.set_ahead(opens_s as i64 - 4 - host_s() as i64);
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "sms", &json!({ "delivery_window": "mon-fri 08:00-20:00 Europe/Berlin" }));
    send_one(&mut http, "sms", &json!({"body": "a"}));
    let got = receive(&mut http, "sms", 1, WAIT_MS);
    assert_eq!(bodies(&got), ["a"]);
    let late = Duration::from_millis(decided_ms(&got[0]).checked_sub(opens_s * 1_000).expect("it was open"));
    assert!(late < Duration::from_secs(20), "it is served when it opens, and not {late:?} later");
    end(server, &settings);
}

#[test]
fn a_consumer_gets_no_more_than_its_rate_and_others_go_on() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    let queue = put(&mut http, "sms", &json!({ "consumer_rate_per_s": 1, "consumer_burst": 2 }));
    assert_eq!(queue["settings"]["consumer_rate_per_s"], 1);
    let messages: Vec<Value> = (0..9).map(|number| json!({ "body": number.to_string() })).collect();
    send(&mut http, "sms", &json!(messages));
    let ask = |consumer: &str, max: usize, wait_ms: u64| {
        let lease_ms = LONG_MS;
        json!({ "max": max, "wait_ms": wait_ms, "lease_ms": lease_ms, "consumer": consumer })
    };
    let first = receive_for(&mut http, "sms", &ask("one", 5, 0));
    assert_eq!(bodies(&first), ["0", "1"], "its burst");
    std::thread::scope(|scope| {
        let waits: Vec<_> = (0..2)
            .map(|_| {
                let (mut other, ask) = (connect(&server), ask("one", 5, WAIT_MS));
                scope.spawn(move || receive_for(&mut other, "sms", &ask))
            })
            .collect();
        let second = receive_for(&mut http, "sms", &ask("two", 1, WAIT_MS));
        assert_eq!(second.len(), 1, "another consumer waits for nobody");
        let mut later: Vec<Value> = waits.into_iter().flat_map(|waits| waits.join().expect("it receives")).collect();
        later.sort_by_key(decided_ms);
        assert_eq!(later.len(), 2, "one after the other");
        for (nth, message) in later.iter().enumerate() {
            let passed = decided_ms(message) - decided_ms(&first[0]);
            assert!(passed >= 1_000 * (nth as u64 + 1), "message {nth} came {passed} ms after the burst");
        }
    });
    // Who says no name is the owner of its token; without a rate, there is none.
    let unnamed = |max: usize| json!({ "max": max, "lease_ms": LONG_MS });
    assert_eq!(receive_for(&mut http, "sms", &unnamed(9)).len(), 2);
    ok(http.patch("/v1/queues/sms", &json!({ "consumer_rate_per_s": null })));
    assert_eq!(receive_for(&mut http, "sms", &unnamed(9)).len(), 2);
    end(server, &settings);
}

#[test]
fn a_window_of_the_configuration_is_kept_and_a_wrong_one_is_named_with_its_line() {
    let folder = folder();
    let sections = |window: &str| format!("[[queue]]\nname = \"sms\"\ndelivery_window = \"{window}\"\n");
    let wrong = Settings { sections: sections("08:00-20:00 Berlin"), ..Settings::new(folder.path()) };
    let ended = Server::refused(&wrong);
    let config = std::fs::read_to_string(wrong.write()).expect("it was written");
    let line = 1 + config.lines().position(|line| line.starts_with("delivery_window")).expect("it is in the file");
    let words = format!("config.toml:{line}: queue.delivery_window: there is no time zone \"Berlin\"");
    assert!(ended.log.contains(&words), "{words}: {ended}");
    assert!(!wrong.data.exists(), "nothing is made");

    let keys = "consumer_rate_per_s = 7\nconsumer_burst = 3\n";
    let right = Settings { sections: sections("08:00-20:00 UTC") + keys, ..Settings::new(folder.path()) };
    let server = Server::start(&right);
    let settings = ok(connect(&server).get("/v1/queues/sms"))["settings"].clone();
    let set = ["delivery_window", "consumer_rate_per_s", "consumer_burst"].map(|key| settings[key].clone());
    assert_eq!(set, [json!("08:00-20:00 UTC"), json!(7), json!(3)]);
    end(server, &right);
}

/// A server whose clock shows some seconds before `minute_s`.
fn start_before(settings: &Settings, clock: &WallClock, minute_s: u64, seconds: u64) -> Server {
    clock.set_ahead(minute_s as i64 - seconds as i64 - host_s() as i64);
    Server::start(settings)
}

/// A schedule sends its message at its time, once, also over crashes; times that pass while the server is down give one
/// message when it is back.
#[test]
fn a_schedule_fires_once_for_each_of_its_times_also_over_crashes() {
    let folder = folder();
    let mut settings = settings(folder.path(), "");
    let clock = WallClock::of(&mut settings);
    // 2031-06-02, a Monday: 09:00 in Berlin.
    let nine_s = 1_938_150_000;
    let server = start_before(&settings, &clock, nine_s, 3);
    let mut http = connect(&server);
    put(&mut http, "jobs", &json!({}));
    let message = json!({"body": "wake up", "ordering_key": "k", "attributes": {"lang": "en"}, "priority": 7});
    let schedule = json!({"cron": "0 9 * * mon-fri", "zone": "Europe/Berlin", "message": message});
    let made = ok(http.put("/v1/queues/jobs/schedules/morning", &schedule));
    assert_eq!(made["next_at_ms"], nine_s * 1_000);
    assert!(made.get("last_at_ms").is_none(), "{made}");
    // Who waits gets it when it fires.
    let got = receive(&mut http, "jobs", 10, WAIT_MS);
    assert_eq!(bodies(&got), ["wake up"]);
    assert_eq!(
        (&got[0]["attributes"]["lang"], &got[0]["priority"], &got[0]["ordering_key"]),
        (&json!("en"), &json!(7), &json!("k"))
    );
    let sent_at = number(&got[0]["sent_at_ms"]);
    assert!((nine_s * 1_000..nine_s * 1_000 + 20_000).contains(&sent_at), "{sent_at}");
    let key = text(&got[0]["key"]);
    let found = look(&mut http, &key);
    assert_eq!(steps(&found), ["fired", "leased"]);
    assert_eq!(found["trail"][0]["schedule"], "morning");
    assert_eq!(acknowledge(&mut http, "jobs", &got), ["done"]);
    let now = ok(http.get("/v1/queues/jobs/schedules/morning"));
    assert_eq!((&now["last_key"], &now["last_at_ms"]), (&json!(key), &json!(sent_at)));
    assert_eq!(now["next_at_ms"], (nine_s + DAY_S) * 1_000);
    server.kill();
    // It was down on Tuesday and Wednesday at nine: one message, of Wednesday afternoon, and the next one on Thursday.
    let server = start_before(&settings, &clock, nine_s + 2 * DAY_S + 6 * 3_600, 0);
    let mut http = connect(&server);
    let got = receive(&mut http, "jobs", 10, WAIT_MS);
    assert_eq!(bodies(&got), ["wake up"]);
    let now = ok(http.get("/v1/queues/jobs/schedules/morning"));
    assert_eq!(now["next_at_ms"], (nine_s + 3 * DAY_S) * 1_000);
    server.kill();
    let server = Server::start(&settings);
    let mut http = connect(&server);
    assert_eq!(counts(&mut http, "jobs"), [0, 0, 1], "it has fired once");
    assert_eq!(ok(http.delete("/v1/queues/jobs/schedules/morning"))["outcome"], "deleted");
    assert_eq!(said(http.get("/v1/queues/jobs/schedules/morning")), "404 queue_schedule_not_found");
    end(server, &settings);
}

#[test]
fn schedules_are_listed_page_by_page_and_what_cannot_be_is_refused() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "jobs", &json!({}));
    let yearly = |body: &str| json!({"cron": "0 0 1 jan *", "zone": "UTC", "message": {"body": body}});
    for name in ["c", "a", "b"] {
        ok(http.put(&format!("/v1/queues/jobs/schedules/{name}"), &yearly(name)));
    }
    let page = ok(http.get("/v1/queues/jobs/schedules?limit=2"));
    let names = |page: &Value| -> Vec<String> {
        list(&page["schedules"])
            .iter()
            .map(|schedule| text(&schedule["name"]) + &text(&schedule["message"]["body"]))
            .collect()
    };
    assert_eq!((names(&page), &page["next"]), (vec!["aa".into(), "bb".into()], &json!("b")));
    let page = ok(http.get("/v1/queues/jobs/schedules?after=b"));
    assert_eq!((names(&page), page.get("next")), (vec!["cc".into()], None));
    assert_eq!(said(http.delete("/v1/queues/jobs")), "409 queue_has_schedules");
    let with = |field: &str, value: Value| {
        let mut body = yearly("x");
        body[field] = value;
        body
    };
    let message = |field: &str, value: Value| {
        let mut body = yearly("x");
        body["message"][field] = value;
        body
    };
    for (body, refused) in [
        (with("cron", json!("0 0 * *")), "422 queue_schedule_invalid"),
        (with("cron", json!("60 0 * * *")), "422 queue_schedule_invalid"),
        (with("cron", json!("0 0 30 2 *")), "422 queue_schedule_invalid"),
        (with("cron", json!("0 0 * * * UTC")), "422 queue_schedule_invalid"),
        (with("cron", json!(format!("0 0 * * {}", "1,".repeat(200)))), "422 queue_schedule_invalid"),
        (with("zone", json!("Mars/Olympus")), "422 queue_schedule_invalid"),
        (with("every", json!(5)), "422 field_invalid"),
        (message("id", json!("1")), "422 queue_schedule_invalid"),
        (message("delay_ms", json!(1)), "422 queue_schedule_invalid"),
        (message("expires_at_ms", json!(1)), "422 queue_schedule_invalid"),
        (message("expires_in_ms", json!(0)), "422 queue_schedule_invalid"),
        (message("priority", json!(10)), "422 queue_schedule_invalid"),
        (message("body", json!("x".repeat(16_385))), "422 queue_schedule_invalid"),
    ] {
        assert_eq!(said(http.put("/v1/queues/jobs/schedules/x", &body)), refused, "{body}");
    }
    assert_eq!(said(http.put("/v1/queues/jobs/schedules/a%20b", &yearly("x"))), "422 queue_schedule_invalid");
    assert_eq!(said(http.put("/v1/queues/none/schedules/x", &yearly("x"))), "404 queue_not_found");
    assert_eq!(said(http.get("/v1/queues/none/schedules")), "404 queue_not_found");
    assert_eq!(said(http.get("/v1/queues/none/schedules/x")), "404 queue_not_found");
    assert_eq!(said(http.delete("/v1/queues/jobs/schedules/x")), "404 queue_schedule_not_found");
    // The command line does the same.
    let run = |arguments: &[&str]| said_as_json(&server, &[&["queue"], arguments].concat());
    let output = run(&["schedule", "put", "jobs", "d", "--cron", "*/5 * * * *", "--body", "tick", "--json"]);
    assert_eq!((&output["zone"], &output["message"]["body"]), (&json!("UTC"), &json!("tick")));
    assert_eq!(run(&["schedule", "get", "jobs", "d", "--json"])["cron"], "*/5 * * * *");
    assert_eq!(run(&["schedule", "delete", "jobs", "d", "--json"])["outcome"], "deleted");
    assert_eq!(run(&["schedule", "list", "jobs", "--limit", "1", "--json"])["name"], "a");
    end(server, &settings);
}
