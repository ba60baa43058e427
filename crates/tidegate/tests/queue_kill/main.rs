//! The kill test of queues: senders with and without ids, receivers that acknowledge, reject, or let their leases end,
//! `kill -9` at random moments, and what was promised about each message checked as it comes.
//!
//! ```text
//!   ┌▶ start ─▶ senders and receivers ─▶ kill -9 ─┐      last: senders finish, all queues are emptied, the audit
//!   └─────────────────────────────────────────────┘
//! ```
//!
//! Promises: a message whose sending was answered is delivered; one whose acknowledgement was answered is not delivered
//! again; nobody has a lease that another one has; each body is what was sent; messages of one ordering key come one
//! after the other. `TIDEGATE_KILLS` is the number of kills (50), and `TIDEGATE_SEED` repeats the random choices.

#[path = "../support/mod.rs"]
mod support;

mod history;
mod receiver;
mod sender;

use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

pub use support::{PATIENCE, chance, http, wait_for};

use chance::Chance;
use history::History;
use http::Http;
use receiver::Receiver;
use sender::{Kind, Sender};
use support::server::{Process, Server, audit};
use support::settings::Settings;

/// Answers in one life before the kill, at most.
const TOLD_PER_LIFE_MAX: u64 = 3_000;
/// On two shards.
const QUEUES: [&str; 3] = ["kill-a", "kill-b", "kill-c"];
/// Nobody receives from it before the end: so old bodies are needed while the log grows, and are written again.
const KEPT: &str = "kill-kept";

#[test]
fn what_was_answered_about_messages_survives_kills() {
    let kills = number("TIDEGATE_KILLS").unwrap_or(50);
    let seed = number("TIDEGATE_SEED").unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64 % 1_000_000
    });
    println!("{kills} kills with TIDEGATE_SEED={seed}");
    let folder = support::folder();
    // Little memory for bodies, so that many are read from the log.
    let sections = "[queues]\nshards = 2\nbodies_bytes_max = 1048576\n";
    let settings = Settings { workers: 2, sections: sections.into(), ..Settings::new(folder.path()) };
    let mut chance = Chance::new(seed);
    let history = History::default();
    let kinds = [Kind::WithIds, Kind::WithKeys, Kind::WithoutIds];
    let of_queue = |queue: &'static str| kinds.map(|kind| (queue, kind));
    let mut senders: Vec<Sender> = QUEUES
        .into_iter()
        .flat_map(of_queue)
        .enumerate()
        .map(|(name, (queue, kind))| Sender::new(name, queue, kind, chance.split()))
        .collect();
    senders.push(Sender::new(senders.len(), KEPT, Kind::WithIds, chance.split()));
    let receivers = QUEUES.into_iter().flat_map(|queue| [queue, queue]).enumerate();
    let mut receivers: Vec<Receiver> =
        receivers.map(|(name, queue)| Receiver::new(name, queue, chance.split())).collect();

    let mut server = Server::start(&settings);
    let mut http = Http::connect(server.http).expect("the door is open");
    for queue in [QUEUES.as_slice(), &[KEPT]].concat() {
        let answer = http.put(&format!("/v1/queues/{queue}"), &json!({"id_window_ms": null}));
        assert_eq!(answer.expect("it is answered").status, 200);
    }
    let replay = format!("again: TIDEGATE_SEED={seed} TIDEGATE_KILLS={kills} cargo test -p tidegate --test queue_kill");
    for _ in 0..kills {
        live(server, &mut chance, &history, &mut senders, &mut receivers);
        history.stop_at_violations(&replay);
        server = start_again(&settings, &mut chance);
    }

    let mut http = Http::connect(server.http).expect("the door is open");
    senders.iter_mut().for_each(|sender| sender.finish(&mut http, &history));
    let moved = times_moved(&mut http);
    receivers.push(Receiver::new(receivers.len(), KEPT, chance.split()));
    std::thread::scope(|scope| {
        for receiver in &mut receivers {
            let server = server.http;
            let history = &history;
            scope.spawn(move || receiver.empty(server, history));
        }
    });
    let (answered, delivered) = history.check_at_end();
    history.stop_at_violations(&replay);
    assert!(answered > 0 && delivered > 0, "nothing was answered, so nothing was tested");
    let unreadable = metric(&mut http, "tidegate_queue_bodies_unreadable_total");
    assert_eq!(unreadable, 0, "bodies could not be read\n{replay}");
    let snapshots = snapshots(&settings);
    let ended = server.terminate();
    assert!(ended.status.success(), "SIGTERM: {ended}");
    let audited = audit(&settings.data);
    let agree = audited.status.success() && audited.log.contains("all agree");
    assert!(agree, "tidegate audit: {audited}\n{replay}");
    println!(
        "{kills} kills, {answered} messages whose sending was answered, {delivered} deliveries; {snapshots} \
         snapshots; the oldest body was written again {moved} times"
    );
}

/// The sum of the rows of a metric.
fn metric(http: &mut Http<TcpStream>, name: &str) -> u64 {
    let page = http.get("/metrics").expect("the server serves").body;
    let page = page.as_str().expect("metrics are text");
    let rows = page.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    rows.map(|row| row.rsplit(' ').next().and_then(|value| value.parse::<u64>().ok()).expect("a number")).sum()
}

/// How often the oldest of the messages that are kept was written again.
fn times_moved(http: &mut Http<TcpStream>) -> usize {
    let page = http.get(&format!("/v1/queues/{KEPT}/messages?limit=1")).expect("the server serves").body;
    let Some(key) = page["messages"][0]["key"].as_str() else { return 0 };
    let message = http.get(&format!("/v1/messages/{key}")).expect("the server serves").body;
    let trail = message["trail"].as_array().expect("a message has a trail");
    trail.iter().filter(|step| step["step"] == "moved").count()
}

/// Snapshots of queues that are there.
fn snapshots(settings: &Settings) -> usize {
    let of_shard = |shard| std::fs::read_dir(settings.data.join(format!("snapshots/queues-{shard}")));
    (0..2).filter_map(|shard| of_shard(shard).ok()).map(|files| files.flatten().count()).sum()
}

#[test]
fn the_checks_notice_what_they_must() {
    let history = History::default();
    let body = |number| sender::body(1, number);
    history.attempted(1, 0, Some("k"));
    history.attempted(1, 1, Some("k"));
    history.answered(1, 0, "key-0");
    let noticed = |words: &str| {
        let violations = history.take_violations();
        assert!(violations.len() == 1 && violations[0].contains(words), "{words}: {violations:?}");
    };
    history.delivered("key-0", 1, &body(0), Some("k"));
    assert!(history.take_violations().is_empty());
    history.delivered("key-0", 1, &body(0), Some("k"));
    noticed("twice");
    history.delivered("key-9", 2, &body(0), Some("k"));
    noticed("key");
    history.delivered("key-1", 1, &body(1), Some("k"));
    noticed("before");
    history.delivered("key-0", 2, &body(0), Some("k"));
    history.acknowledging("key-0");
    history.acknowledged("key-0", 1);
    noticed("acknowledged");
    history.delivered("key-0", 3, &body(0), Some("k"));
    noticed("acknowledged");
    history.delivered("key-2", 1, &body(2), None);
    noticed("never sent");
    history.delivered("key-1", 2, &format!("{}x", body(1)), Some("k"));
    noticed("body");
    history.attempted(1, 3, None);
    history.answered(1, 3, "key-3");
    history.check_at_end();
    noticed("not delivered");
}

/// Load until a random number of answers, then the kill.
fn live(server: Server, chance: &mut Chance, history: &History, senders: &mut [Sender], receivers: &mut [Receiver]) {
    let told = AtomicU64::new(0);
    // Squared: many short lives, some long ones.
    let until = chance.below(TOLD_PER_LIFE_MAX) * chance.below(100) / 100;
    let a_moment = Duration::from_micros(chance.below(5_000));
    let (http, told) = (server.http, &told);
    std::thread::scope(|scope| {
        for sender in senders {
            scope.spawn(move || sender.send(http, history, told));
        }
        for receiver in receivers {
            scope.spawn(move || receiver.receive(http, history, told));
        }
        wait_for("requests are answered", || (told.load(Ordering::Relaxed) >= until).then_some(()));
        // A random time and not a condition: the kill must not always follow an answer, but may come between any two
        // instructions.
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

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}
