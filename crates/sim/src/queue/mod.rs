//! Queues in the simulator: clients that send, receive, and do with what they got whatever can be done, and an oracle
//! that knows what they were told.
//!
//! ```text
//!   draw ─▶ Plan: queues, weights, faults
//!   tick ─▶ Clients ─▶ ask ─▶ Shards<QueueService> ─▶ answer ─▶ Oracle      calm ─▶ drain ─▶ check: all has an end
//!              ▲                  └─ small segments, hardly any memory for bodies: jobs read them, old ones move
//!              └── leases held ◀──────────────────────────────────┘
//! ```
//!
//! # What is checked
//!
//! * What was taken is there, and is handed out, until a reason ended it: acknowledged, cancelled, purged, expired.
//! * What was acknowledged, cancelled or purged is not handed out again.
//! * While a lease lasts it counts, and nobody else has one; who has lost one is told so.
//! * Nothing comes before its time, nothing expired comes, and nothing due is late while nothing goes wrong: also where
//!   the time of shards is ahead of the clock that clients see, by up to ten years.
//! * Bodies, attributes, ids, priorities and ordering keys are what was sent, in deliveries, look-ups and lists.
//! * A queue that rests hands out nothing, one with a rate no more than that; one that is deleted was empty.
//! * Of one ordering key, only the oldest message is handed out.
//! * An id is taken once within its window, and found while it is remembered.
//! * A schedule fires once for each of its times, never early, and in time; times that pass while the host is off give
//!   one message.
//! * A message is a dead letter for a reason, and no sooner and no later.
//! * Trails are whole; lists miss nothing; counters add up.

mod ask;
mod clients;
mod content;
mod oracle;
mod plan;

use tidegate_journal::{LogId, Options};
use tidegate_queue::machine::{Lease, Outcome};
use tidegate_queue::{Answer, Found, MessagePage, QueueService, QueuesFamily, Received};
use tidegate_shard::CompactionRule;

use self::ask::{Ask, Asked, Held};
use self::clients::{CALM_TICKS, Clients, Node, Numbered};
use self::content::number_of;
use self::oracle::Oracle;
use self::plan::Plan;
use crate::chance::Chance;
use crate::harness::{End, Floor, Setup, Shards, Site, Store, StoreName, Tally, Workload, World, audit_log};
use crate::note;
use crate::trace::Trace;
use crate::violation::Violation;

const SIZES: Options = Options::small(plan::SEGMENT_BYTES);
const COMPACTION: CompactionRule = CompactionRule { floor_bytes: 8 << 10, ratio: 0 };

/// The clients of queues, and what they know.
pub struct QueueClients {
    clients: Clients,
    oracle: Oracle,
    /// Bodies read, unreadable and moved by each shard since its start.
    counted: Vec<[u64; 3]>,
    /// The first tick of calm.
    calm_since: Option<u64>,
}

impl QueueClients {
    /// Compares the answers that came.
    fn hear<S: Store>(&mut self, site: &mut Site<S>, node: &mut Node<S>) -> Result<(), Violation> {
        let QueueClients { clients, oracle, .. } = self;
        while let Some((_, Numbered(ticket), answer)) = node.answered() {
            let Some(asked) = clients.answered(ticket) else { continue };
            let answer = match answer {
                Ok(answer) => answer.into_inner(),
                Err(reason) => {
                    note!(site.trace, "hear {ticket}: {reason:?}");
                    site.tally.add("a request that was turned away", 1);
                    oracle.unanswered(ticket, &asked);
                    continue;
                }
            };
            note!(site.trace, "hear {ticket}: {}", in_short(&answer));
            site.tally.add("an answer", 1);
            let fired = oracle.firings();
            let held = oracle.answered(ticket, &asked, &answer)?;
            site.tally.add("a message of a schedule", oracle.firings() - fired);
            count_answer(&mut site.tally, &asked.ask, &answer, &held);
            if !asked.is_forgotten {
                clients.hold(held);
            }
        }
        Ok(())
    }

    /// Counts what the shards did beside answering.
    fn count<S: Store>(&mut self, site: &mut Site<S>, node: &Node<S>) {
        for (shard, before) in self.counted.iter_mut().enumerate() {
            let [_, _, read, unreadable, moved] = node.service(shard as u16).facts();
            let now = [read, unreadable, moved];
            let names = ["a body read from the log", "a body that could not be read", "a body that was moved"];
            for ((name, now), before) in names.into_iter().zip(now).zip(before.iter_mut()) {
                site.tally.add(name, now - *before);
                *before = now;
            }
        }
    }

    fn forget_all(&mut self) {
        let asked: Vec<(u64, Asked)> = self.clients.ended().into_iter().collect();
        asked.iter().for_each(|(ticket, asked)| self.oracle.unanswered(*ticket, asked));
        self.oracle.served_since = None;
    }
}

impl<S: Store> Workload<S> for QueueClients {
    const NAME: &'static str = "queue";
    type Node = Node<S>;

    fn floors(store: StoreName) -> Vec<Floor> {
        let mut floors = vec![
            Floor::of("a delivery", 17_000, "what is handed out is compared with what was sent"),
            Floor::of("a redelivery", 4_000, "leases end, and messages come back"),
            Floor::of("a dead letter", 900, "messages go where they have another chance"),
            Floor::of("a message that was redriven", 110, "dead letters have another chance"),
            Floor::of("a message that was acknowledged", 12_000, "what is done with stays so"),
            Floor::of("a message that was rejected", 1_100, "it waits as long as was asked"),
            Floor::of("a message that was cancelled", 300, "it is not handed out"),
            Floor::of("a message that was rescheduled", 350, "it comes at its other time"),
            Floor::of("a message that was purged", 2_500, "it is not handed out"),
            Floor::of("a message that was sent again", 280, "an id is taken once"),
            Floor::of("a lease that was extended", 550, "it lasts as long as was promised"),
            Floor::of("a lease that was lost", 2_300, "who has lost one is told so"),
            Floor::of("a body read from the log", 100_000, "bodies are found where the state says"),
            Floor::of("a body that was moved", 100_000, "bodies are found where they were written again"),
            Floor::of("a queue that was deleted", 15, "it was empty, and is made again"),
            Floor::of("a message of a schedule", 40, "a schedule fires once for each of its times"),
            Floor::of("a full disk", 15, "what is refused was not done, and what was taken stays"),
            Floor::of("a slow read", 1_200, "messages change while their bodies are read"),
            Floor::of("a power failure", 40, "what was answered survives"),
            Floor::of("a kill", 35, "what was answered survives"),
        ];
        floors.extend(match store {
            StoreName::Local => vec![Floor::of("a compaction", 45, "a log that was compacted is opened")],
            StoreName::Stream => vec![
                Floor::of("a compaction", 270, "a log that was compacted is opened"),
                Floor::of("a takeover", 35, "what another writer took over is not answered for"),
            ],
        });
        floors
    }

    fn draw(chance: &mut Chance, ticks: u64, _: &Trace) -> (QueueClients, Setup) {
        let (plan, setup) = Plan::draw(chance, ticks);
        let oracle = Oracle::new(plan.options.node, plan.ahead_ms, plan.queues(chance));
        let counted = vec![[0; 3]; usize::from(plan.shards)];
        (QueueClients { clients: Clients::new(plan), oracle, counted, calm_since: None }, setup)
    }

    fn start(&mut self, site: &mut Site<S>) -> Result<Node<S>, String> {
        self.counted.fill([0; 3]);
        let options = self.clients.plan.options;
        Shards::start(site, SIZES, |_| QueueService::new(options, &Default::default()))
    }

    fn ended(&mut self, site: &mut Site<S>, _: End) {
        self.forget_all();
        if !site.is_calm() && site.chance.happens(self.clients.plan.off) {
            let off_ms = site.chance.within(1..=plan::OFF_MS_MAX);
            note!(site.trace, "the host is off for {off_ms} ms");
            site.clock.pass_off(off_ms);
        }
    }

    fn tick(world: &mut World<Self, S>) -> Result<(), Violation> {
        let (site, load) = (&mut world.site, &mut world.load);
        load.oracle.now = site.clock.now_ms();
        let Some(node) = &mut world.node else { return Ok(()) };
        let QueueClients { clients, oracle, .. } = load;
        clients.make_queues(site, node, oracle);
        if site.is_calm() {
            let now = oracle.now;
            oracle.calm_since.get_or_insert(now);
            let since = *load.calm_since.get_or_insert(site.tick);
            let is_made = oracle.queues.iter().all(|queue| queue.made_at.is_some() && !queue.may_rest);
            let changes = oracle.queues.iter().any(|queue| queue.is_changing);
            let is_made = is_made && oracle.has_schedules();
            if is_made && !changes {
                oracle.served_since.get_or_insert(now);
            }
            if !is_drained(node, oracle) || site.tick < since + CALM_TICKS {
                clients.drain(site, node, oracle);
            }
            if site.tick < since + CALM_TICKS && site.chance.happens(100) {
                let queue = site.chance.below(oracle.queues.len() as u64) as usize;
                clients.send(site, node, oracle, queue);
            }
        } else {
            while site.chance.happens(clients.plan.rate) {
                clients.ask_something(site, node, oracle);
            }
            if site.chance.happens(clients.plan.compactions) {
                let shard = site.chance.below(u64::from(clients.plan.shards)) as u16;
                node.compact(site, shard, COMPACTION)?;
            }
        }
        node.step(site);
        load.hear(site, node)?;
        load.count(site, node);
        Ok(())
    }

    fn is_quiet(world: &World<Self, S>) -> bool {
        let load = &world.load;
        let is_over = load.calm_since.is_some_and(|since| world.site.tick > since + CALM_TICKS);
        let is_done = |node: &Node<S>| node.is_idle() && is_drained(node, &load.oracle);
        is_over && !load.clients.waits() && world.node.as_ref().is_some_and(is_done)
    }

    fn situation(world: &World<Self, S>) -> String {
        let Some(node) = &world.node else { return "no process".into() };
        let queues = &world.load.oracle.queues;
        let views = queues.iter().filter_map(|queue| Some((&queue.name, node.state(queue.shard).view(&queue.name)?)));
        let counts: Vec<_> = views.map(|(name, view)| (name, view.counts)).collect();
        format!("idle: {}, {} asked, {counts:?}", node.is_idle(), world.load.clients.asked.len())
    }

    fn check(world: &mut World<Self, S>) -> Result<(), Violation> {
        let node = world.node.as_ref().expect("quiet has a process");
        let states: Vec<_> = (0..world.load.clients.plan.shards).map(|shard| node.state(shard)).collect();
        world.load.oracle.check_end(&states)
    }

    fn audit(&self, site: &Site<S>, log: LogId) -> Option<Vec<String>> {
        Some(audit_log::<QueuesFamily, S>(site, log, self.clients.plan.shards))
    }
}

/// Counts what an answer says.
fn count_answer(tally: &mut Tally, ask: &Ask, answer: &Answer, held: &[Held]) {
    match (ask, answer) {
        (Ask::Receive { .. }, _) => {
            let again = held.iter().filter(|held| held.lease.attempt > 1).count();
            let dead = held.iter().filter(|held| held.queue % plan::QUEUES_PER_SHARD == plan::DEAD).count();
            tally.add("a delivery", held.len() as u64);
            tally.add("a redelivery", again as u64);
            tally.add("a dead letter", dead as u64);
        }
        (_, Answer::Outcome(Outcome::Sent(receipts))) => {
            let again = receipts.iter().filter(|receipt| receipt.is_duplicate).count();
            tally.add("a message that was sent again", again as u64);
        }
        (_, Answer::Outcome(Outcome::Leases(outcomes))) => {
            let lost = outcomes.iter().filter(|outcome| outcome.is_err()).count();
            tally.add("a lease that was lost", lost as u64);
            let name = match ask {
                Ask::Extend { .. } => "a lease that was extended",
                Ask::Reject { .. } => "a message that was rejected",
                _ => "a message that was acknowledged",
            };
            tally.add(name, (outcomes.len() - lost) as u64);
        }
        (Ask::Delete { .. }, Answer::Outcome(Outcome::Done)) => tally.add("a queue that was deleted", 1),
        (Ask::Cancel { .. }, Answer::Outcome(Outcome::Done)) => tally.add("a message that was cancelled", 1),
        (Ask::Reschedule { .. }, Answer::Outcome(Outcome::Done)) => tally.add("a message that was rescheduled", 1),
        (Ask::Purge { .. }, Answer::Outcome(Outcome::Some { count, .. })) => {
            tally.add("a message that was purged", *count);
        }
        (Ask::Redrive { .. }, Answer::Outcome(Outcome::Some { count, .. })) => {
            tally.add("a message that was redriven", *count);
        }
        (_, Answer::Message(_)) => tally.add("a message that was looked at", 1),
        (_, Answer::Page(page)) => tally.add("a message that was looked at", page.rows.len() as u64),
        _ => {}
    }
}

/// An answer without bodies.
fn in_short(answer: &Answer) -> String {
    match answer {
        Answer::Received(received) => {
            let short = |received: &Received| {
                let Received { delivery, message, .. } = received;
                format!("{:?} as {} until {}", number_of(message), words(delivery.lease), delivery.until.0)
            };
            format!("received {}", received.iter().map(short).collect::<Vec<_>>().join(", "))
        }
        Answer::Message(found) => format!("message {}", found_in_short(found)),
        Answer::Page(MessagePage { rows, next, .. }) => {
            format!("messages {}, next: {next:?}", rows.iter().map(found_in_short).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    }
}

fn found_in_short(found: &Found) -> String {
    format!("{} {:?} {}", found.view.key, found.view.state, found.message.is_some())
}

/// A lease in words.
fn words(lease: Lease) -> String {
    format!("{}/{}", lease.key, lease.attempt)
}

/// Whether no queue has a message.
fn is_drained<S: Store>(node: &Node<S>, oracle: &Oracle) -> bool {
    let is_empty = |shard: u16| node.state(shard).totals().1 == 0;
    oracle.queues.iter().all(|queue| is_empty(queue.shard))
}
