//! The kill test of MQTT: publishers of QoS 1 and 2, sessions that are connected and sessions that are away, `kill -9`
//! at random moments, and the promise of every acknowledgement checked afterwards.
//!
//! ```text
//!   ┌▶ start ─▶ publishers and listeners ─▶ kill -9 ─┐      last: publishers finish, all sessions are drained
//!   └────────────────────────────────────────────────┘
//! ```
//!
//! Promises: what was acknowledged reaches every session that subscribed before, at least once for QoS 1, exactly once
//! for QoS 2, in the order of its publisher; nothing else does. `TIDEGATE_KILLS` is the number of kills (50), and
//! `TIDEGATE_SEED` repeats the random choices.

#[path = "../support/mod.rs"]
mod support;

mod client;
mod downtime;
mod publisher;
mod subscriber;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use support::{PATIENCE, chance, wait_for};

use chance::Chance;
use publisher::Publisher;
use subscriber::Subscriber;
use support::server::{Process, Server, audit};
use support::settings::Settings;

/// Acknowledgements in one life before the kill, at most.
const TOLD_PER_LIFE_MAX: u64 = 3_000;

#[test]
fn what_was_acknowledged_survives_kills() {
    let kills = number("TIDEGATE_KILLS").unwrap_or(50);
    let seed = number("TIDEGATE_SEED").unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64 % 1_000_000
    });
    println!("{kills} kills with TIDEGATE_SEED={seed}");
    let folder = support::folder();
    // Sleepers wait through the whole trial, so their inboxes must hold all of it.
    let sections = "[mqtt]\ninbox_messages_max = 1000000\ninbox_bytes_max = 1000000000\n";
    let settings = Settings {
        workers: 2,
        shards: 2,
        snapshot_interval_s: 1,
        mqtt: true,
        sections: sections.into(),
        ..Settings::new(folder.path())
    };
    let mut chance = Chance::new(seed);
    let mut publishers: Vec<Publisher> =
        [("p0", 1), ("p1", 2), ("p2", 1), ("p3", 2)].iter().map(|(name, qos)| Publisher::new(name, *qos)).collect();
    let mut listeners = [
        Subscriber::new("all", "kill/#", 2),
        Subscriber::new("exact", "kill/+/2", 2),
        Subscriber::new("once", "kill/#", 1),
    ];
    let mut sleeper = Subscriber::new("sleeper", "kill/#", 2);

    let mut server = Server::start(&settings);
    listeners.iter_mut().chain([&mut sleeper]).for_each(|subscriber| subscriber.subscribe(server.mqtt()));
    for _ in 0..kills {
        live(server, &mut chance, &mut publishers, &mut listeners);
        server = start_again(&settings, &mut chance);
    }

    publishers.iter_mut().for_each(|publisher| publisher.finish(server.mqtt()));
    let mut violations = Vec::new();
    for subscriber in listeners.iter_mut().chain([&mut sleeper]) {
        subscriber.drain(server.mqtt(), |subscriber| missing(subscriber, &publishers) == 0);
        check(subscriber, &publishers, &mut violations);
    }
    let told: usize = publishers.iter().map(|publisher| publisher.acknowledged.len()).sum();
    let replay = format!("again: TIDEGATE_SEED={seed} TIDEGATE_KILLS={kills} cargo test -p tidegate --test mqtt_kill");
    assert!(violations.is_empty(), "{}\n{replay}", violations.join("\n"));
    assert!(told > 0, "nothing was acknowledged, so nothing was tested");
    let ended = server.terminate();
    assert!(ended.status.success(), "SIGTERM: {ended}");
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "tidegate audit: {audited}\n{replay}");
    println!("{kills} kills, {told} acknowledged messages, each where it belongs");
}

/// Load until a random number of messages was acknowledged, then the kill.
fn live(server: Server, chance: &mut Chance, publishers: &mut [Publisher], listeners: &mut [Subscriber]) {
    let told = AtomicU64::new(0);
    // Squared: many short lives, some long ones.
    let until = chance.below(TOLD_PER_LIFE_MAX) * chance.below(100) / 100;
    let a_moment = Duration::from_micros(chance.below(5_000));
    let (mqtt, told) = (server.mqtt(), &told);
    std::thread::scope(|scope| {
        for publisher in publishers {
            scope.spawn(move || publisher.publish(mqtt, told));
        }
        for listener in listeners {
            scope.spawn(move || listener.listen(mqtt));
        }
        wait_for("messages are acknowledged", || (told.load(Ordering::Relaxed) >= until).then_some(()));
        // A random time and not a condition: the kill must not always follow an acknowledgement, but may come between
        // any two instructions.
        std::thread::sleep(a_moment);
        server.kill();
    });
}

/// Starts the server; sometimes it is killed while it starts.
fn start_again(settings: &Settings, chance: &mut Chance) -> Server {
    while chance.percent(25) {
        let process = Process::spawn(settings);
        std::thread::sleep(Duration::from_micros(chance.below(60_000)));
        process.kill();
    }
    Server::start(settings)
}

/// How many acknowledged messages the subscriber has not received, at least; none only if it has all.
fn missing(subscriber: &Subscriber, publishers: &[Publisher]) -> usize {
    let wanted = publishers.iter().filter(|publisher| subscriber.wants(publisher.qos));
    wanted.map(|publisher| subscriber.missing(&publisher.topic(), &publisher.acknowledged)).sum()
}

fn check(subscriber: &Subscriber, publishers: &[Publisher], violations: &mut Vec<String>) {
    let name = subscriber.name();
    for (topic, heard) in &subscriber.heard {
        let publisher = publishers.iter().find(|publisher| publisher.topic() == *topic);
        let Some(publisher) = publisher.filter(|publisher| subscriber.wants(publisher.qos)) else {
            violations.push(format!("{name} heard {topic}, which it did not subscribe to"));
            continue;
        };
        let mut seen = HashSet::new();
        let firsts: Vec<u64> = heard.iter().copied().filter(|number| seen.insert(*number)).collect();
        if let Some(pair) = firsts.windows(2).find(|pair| pair[0] >= pair[1]) {
            violations.push(format!("{name} heard {} before {} of {topic}", pair[0], pair[1]));
        }
        if subscriber.exactly_once(publisher.qos) && firsts.len() != heard.len() {
            let mut once = HashSet::new();
            let twice = heard.iter().find(|number| !once.insert(**number));
            violations
                .push(format!("{name} heard {twice:?} of {topic} twice, {} times in all", heard.len() - firsts.len()));
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}
