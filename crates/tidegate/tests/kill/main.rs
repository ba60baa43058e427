//! The kill test: the real binary under load over real sockets, `kill -9` at random moments, and every promise checked
//! afterwards.
//!
//! ```text
//!   ┌▶ start ─▶ load: singles, batches, linked, holds, HTTP ─▶ kill -9 ─▶ start ─▶ every question again ─▶ figures ─┐
//!   └───────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//!   last: every question of all lives again, every history, SIGTERM, `tidegate audit`
//! ```
//!
//! `TIDEGATE_KILLS` is the number of kills (50). `TIDEGATE_SEED` repeats the random choices: moments, accounts,
//! amounts. Threads and the disk are not repeated, so a seed that failed may have to be run more than once.

#[path = "../support/mod.rs"]
mod support;

mod load;
mod model;
mod question;
mod retry;
mod show;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_client::{Client, Outcome, Timeouts};

pub use support::{PATIENCE, SERVICE, chance, http, wait_for, within};

use chance::Chance;
use load::{Connection, LoadClient, PATTERNS, RequestLog};
use model::Model;
use question::{Asked, Question};
use retry::{Found, ask_again};
use show::Show;
use support::server::{Process, Server, audit};
use support::settings::Settings;

/// Outcomes told in one life before the kill, at most.
const TOLD_PER_LIFE_MAX: u64 = 6_000;

#[test]
fn what_was_acknowledged_survives_kills_on_one_shard() {
    Trial::new("one shard", 1, kills() * 7 / 10).run();
}

#[test]
fn what_was_acknowledged_survives_kills_on_two_shards() {
    Trial::new("two shards", 2, kills() - kills() * 7 / 10).run();
}

#[test]
fn the_checks_notice_what_they_must() {
    let folder = support::folder();
    let server = Server::start(&Settings::new(folder.path()));
    let mut client = Client::connect(server.binary, SERVICE).expect("the server serves");
    let (show, mut found) = (Show::new(), Found::default());
    let mut model = Model::new(&show);
    show.open(&mut client);

    // Marked as acknowledged, but never sent to the ledger: asking again does it for the first time.
    let mut asked = [Asked { question: Question::Transfers(show.first_sales()), answer: None }];
    asked[0].answer = Some(vec![Outcome::Applied; asked[0].question.len()]);
    ask_again(&mut client, &show, &mut asked, &mut found);
    assert_eq!(found.violations.len(), asked[0].question.len(), "{:?}", found.violations);

    // Entered twice into the model, done once by the ledger: figures and history differ.
    model.enter(&asked);
    let mut violations = Vec::new();
    model.compare_figures(&mut client, &show, &mut violations);
    model.compare_history(&mut client, &show, 1, &mut violations);
    assert!(violations.is_empty(), "{violations:?}");
    model.enter(&asked[..1]);
    model.compare_history(&mut client, &show, 1, &mut violations);
    assert_eq!(violations.len(), 1, "{violations:?}");
    assert!(!model.differences(&client.accounts("", "", 0).expect("accounts are listed"), &show).is_empty());
}

fn kills() -> u64 {
    std::env::var("TIDEGATE_KILLS").map_or(50, |text| text.parse().expect("TIDEGATE_KILLS is a number"))
}

fn seed() -> u64 {
    match std::env::var("TIDEGATE_SEED") {
        Ok(text) => text.parse().expect("TIDEGATE_SEED is a number"),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64 % 1_000_000,
    }
}

/// One data directory through many lives.
struct Trial {
    name: &'static str,
    seed: u64,
    kills: u64,
    chance: Chance,
    show: Show,
    settings: Settings,
    folder: tempfile::TempDir,
    /// Everything ever asked.
    asked: Vec<Asked>,
    model: Model,
    found: Found,
}

impl Trial {
    fn new(name: &'static str, shards: u16, kills: u64) -> Trial {
        let seed = seed();
        let folder = support::folder();
        // Often enough that kills meet audits and half-written snapshots.
        let settings = Settings {
            shards,
            workers: shards,
            snapshot_interval_s: 1,
            audit_interval_s: 1,
            ..Settings::new(folder.path())
        };
        let show = Show::new();
        let model = Model::new(&show);
        let chance = Chance::new(seed);
        Trial { name, seed, kills, chance, show, settings, folder, asked: Vec::new(), model, found: Found::default() }
    }

    fn run(mut self) {
        println!("{}: {} kills with TIDEGATE_SEED={}", self.name, self.kills, self.seed);
        let mut server = Server::start(&self.settings);
        self.show.open(&mut self.connect(&server));
        self.asked.push(Asked { question: Question::Transfers(self.show.first_sales()), answer: None });
        ask_again(&mut self.connect(&server), &self.show, &mut self.asked, &mut self.found);
        let mut from = 0;
        for life in 0..self.kills {
            let logs = self.live(life, server);
            for log in logs {
                self.asked.extend(log.asked);
                self.found.violations.extend(log.violations);
            }
            if life % 10 == 3 {
                self.audit_offline("after a kill");
            }
            server = self.start_again();
            self.check(&server, from, life);
            from = self.asked.len();
        }
        self.check_everything(&server);
        let ended = server.terminate();
        assert!(ended.status.success(), "SIGTERM: {ended}");
        self.audit_offline("at the end");
        println!(
            "{}: {} kills; {} acknowledged items asked again, {} unacknowledged found done, {} done on retry; \
             {} rows, {} segments",
            self.name,
            self.kills,
            self.found.told,
            self.found.found_done,
            self.found.done_now,
            self.model.rows(),
            self.segments()
        );
        assert!(self.found.told > 0, "the load was acknowledged nothing, so nothing was tested");
    }

    /// Load until a random number of outcomes was told, then the kill.
    fn live(&mut self, life: u64, server: Server) -> Vec<RequestLog> {
        let told = AtomicU64::new(0);
        // Squared: many short lives, some long ones.
        let until = self.chance.below(TOLD_PER_LIFE_MAX) * self.chance.below(100) / 100;
        let a_moment = Duration::from_micros(self.chance.below(5_000));
        let (binary, http) = (server.binary, server.http);
        let (show, chance) = (&self.show, &mut self.chance);
        std::thread::scope(|scope| {
            let clients: Vec<_> = PATTERNS
                .iter()
                .enumerate()
                .map(|(number, pattern)| {
                    let name = format!("{life}-{number}");
                    let client = LoadClient { show, name, chance: chance.split(), told: &told };
                    scope.spawn(move || client.run(*pattern, binary, http))
                })
                .collect();
            wait_for("the load is answered", || (told.load(Ordering::Relaxed) >= until).then_some(()));
            // A random time and not a condition: the kill must not always follow a reply, but may come between any two
            // instructions.
            std::thread::sleep(a_moment);
            server.kill();
            clients.into_iter().map(|client| client.join().expect("a client does not fail")).collect()
        })
    }

    /// Starts the server. Sometimes it is killed while it starts, a random number of times.
    fn start_again(&mut self) -> Server {
        while self.chance.percent(25) {
            let process = Process::spawn(&self.settings);
            std::thread::sleep(Duration::from_micros(self.chance.below(60_000)));
            process.kill();
        }
        Server::start(&self.settings)
    }

    fn check(&mut self, server: &Server, from: usize, life: u64) {
        let mut client = self.connect(server);
        ask_again(&mut client, &self.show, &mut self.asked[from..], &mut self.found);
        self.stop_at_violations(life);
        self.model.enter(&self.asked[from..]);
        self.model.compare_figures(&mut client, &self.show, &mut self.found.violations);
        let wallet = 1 + self.chance.below(self.show.wallets().count() as u64) as usize;
        self.model.compare_history(&mut client, &self.show, wallet, &mut self.found.violations);
        self.stop_at_violations(life);
    }

    /// All lives together: old ids are remembered as well as young ones, and every history is whole.
    fn check_everything(&mut self, server: &Server) {
        let mut client = self.connect(server);
        ask_again(&mut client, &self.show, &mut self.asked, &mut self.found);
        self.model.compare_figures(&mut client, &self.show, &mut self.found.violations);
        for account in 0..self.show.accounts.len() {
            self.model.compare_history(&mut client, &self.show, account, &mut self.found.violations);
        }
        self.stop_at_violations(self.kills);
        let audit = wait_for("every shard was audited in this life", || {
            let audit = client.audit().expect("the audit is read");
            audit.iter().all(|shard| shard.finished_at_ms > 0).then_some(audit)
        });
        for shard in audit {
            assert!(shard.differences.is_empty() && shard.damage.is_empty(), "{}: {shard:?}", self.replay());
        }
    }

    fn audit_offline(&self, when: &str) {
        let audited = audit(&self.settings.data);
        assert!(
            audited.status.success() && audited.log.contains("all agree"),
            "tidegate audit {when}: {audited}\n{}",
            self.replay()
        );
    }

    fn segments(&self) -> usize {
        let journal = self.settings.data.join("journal").join("ledger-0");
        let names = std::fs::read_dir(journal).expect("the journal is there").map(|entry| entry.expect("it is read"));
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with("segment-")).count()
    }

    fn connect(&self, server: &Server) -> Connection {
        let timeouts = Timeouts { connect: PATIENCE, read: PATIENCE, write: PATIENCE };
        Client::connect_within(server.binary, SERVICE, timeouts).expect("the server serves")
    }

    fn stop_at_violations(&mut self, life: u64) {
        let violations = &self.found.violations;
        if !violations.is_empty() {
            // The data directory is evidence; keep it.
            let kept = std::mem::replace(&mut self.folder, support::folder()).keep();
            let shown: Vec<_> = violations.iter().take(20).map(String::as_str).collect();
            panic!(
                "{} broken promise(s) after kill {life}; the data is in {}\n{}\n{}",
                violations.len(),
                kept.display(),
                shown.join("\n"),
                self.replay()
            );
        }
    }

    fn replay(&self) -> String {
        format!(
            "again: TIDEGATE_SEED={} TIDEGATE_KILLS={} cargo test -p tidegate --test kill -- --nocapture {}",
            self.seed,
            kills(),
            if self.settings.shards == 1 { "one_shard" } else { "two_shards" }
        )
    }
}
