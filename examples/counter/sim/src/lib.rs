//! Counters in the simulator: clients that add and read, and an oracle that knows what they were told.
//!
//! ```text
//!   draw ─▶ how often clients ask, which faults       tick ─▶ asks, answers ─▶ oracle    check ─▶ values at the end
//! ```
//!
//! The oracle's promises. An answered `add` is never taken back. No value is more than all that was asked. A counter
//! whose time is over is not read, and goes.

use std::collections::BTreeMap;

use counter::{Action, COUNTERS, Command, Counter, CounterCommands, CounterFamily, CounterKeys, shard_of};
use tidegate_journal::{LogId, Options};
use tidegate_machines::TimeMs;
use tidegate_shard::{CompactionRule, Decided, Single};
use tidegate_sim::chance::Chance;
use tidegate_sim::harness::{Faults, Floor, Setup, Shards, Site, Store, StoreName, Workload, World, audit_log};
use tidegate_sim::trace::Trace;
use tidegate_sim::violation::{Violation, must};

const SHARDS: u16 = 2;
const NAMES: u64 = 12;
/// Small segments, so that a run fills many and forgets them.
const SIZES: Options = Options::small(32 << 10);
const COMPACTION: CompactionRule = CompactionRule { floor_bytes: 8 << 10, ratio: 0 };
const KEYS: CounterKeys =
    CounterKeys { shards: SHARDS, counters_max: 1_000, name_bytes_max: 64, expires_in_ms_max: 1_000_000 };

/// A question under way: about which counter, asked when, and what was answered of it before.
pub struct Asked {
    name: Box<str>,
    at_ms: u64,
    answered: u64,
}

/// What is known of a counter.
#[derive(Default)]
struct Known {
    /// All amounts that were asked for.
    asked: u64,
    /// The highest value that was answered.
    answered: u64,
}

/// The clients, and what they know.
pub struct CounterClients {
    rate: u64,
    compactions: u64,
    counters: BTreeMap<Box<str>, Known>,
}

type Node<S> = Shards<Single<CounterCommands<Asked>>, S>;

/// Every third counter expires.
fn expires(name: &str) -> bool {
    name.ends_with('~')
}

fn shard(name: &str) -> u16 {
    shard_of(&Command { name: name.into(), action: Action::Read }, SHARDS).0
}

impl CounterClients {
    fn ask<S: Store>(&mut self, site: &mut Site<S>, node: &mut Node<S>) {
        let number = site.chance.below(NAMES);
        let name: Box<str> = format!("counter-{number}{}", if number.is_multiple_of(3) { "~" } else { "" }).into();
        let known = self.counters.entry(name.clone()).or_default();
        let action = if site.chance.happens(300) {
            Action::Read
        } else {
            let amount = site.chance.within(1..=9);
            known.asked += amount;
            Action::Add { amount, expires_in_ms: expires(&name).then(|| site.chance.within(1..=2_000)) }
        };
        let asked = Asked { name: name.clone(), at_ms: site.clock.now_ms(), answered: known.answered };
        node.call(shard(&name), asked, Command { name, action });
    }

    fn hear(&mut self, asked: &Asked, counter: Counter) -> Result<(), Violation> {
        let known = self.counters.get_mut(&asked.name).expect("it was asked for");
        let words = || format!("{}: {counter:?}, asked at {} ms", asked.name, asked.at_ms);
        must(counter.value <= known.asked, "no value is more than was asked for", words)?;
        if expires(&asked.name) {
            let lives = counter.expires_at.is_some_and(|at| at > asked.at_ms);
            return must(lives, "a counter whose time is over is not read", words);
        }
        must(counter.value >= asked.answered, "an answered add is never taken back", words)?;
        known.answered = known.answered.max(counter.value);
        Ok(())
    }
}

impl<S: Store> Workload<S> for CounterClients {
    const NAME: &'static str = "counters";
    type Node = Node<S>;

    fn floors(_: StoreName) -> Vec<Floor> {
        vec![
            Floor::of("an answer", 5_000, "counters are added to and read"),
            Floor::of("a counter that is gone", 20, "a counter whose time is over is not read"),
            Floor::of("a compaction", 20, "a log that was compacted is opened"),
            Floor::of("a power failure", 50, "what was answered survives"),
            Floor::of("a kill", 50, "what was answered survives"),
        ]
    }

    fn draw(chance: &mut Chance, ticks: u64, _: &Trace) -> (CounterClients, Setup) {
        let mut some = |most: u64| if chance.happens(500) { chance.within(1..=most) } else { 0 };
        let faults = Faults {
            power: some(40),
            power_in_operation: some(40),
            kill: some(40),
            stop: some(20),
            stalled_log: some(60),
            take_over: some(40),
            unreachable_start: some(200),
            slow_log: some(600),
            ..Faults::default()
        };
        let clients = CounterClients { rate: 50 + some(900), compactions: some(50), counters: BTreeMap::new() };
        let families = vec![(COUNTERS, SHARDS)];
        (clients, Setup { families, directory: 7, faults, tick_ms: 5, ticks: ticks.min(1_500) })
    }

    fn start(&mut self, site: &mut Site<S>) -> Result<Node<S>, String> {
        Shards::start(site, SIZES, |_| Single::new(KEYS))
    }

    fn tick(world: &mut World<Self, S>) -> Result<(), Violation> {
        let (site, clients) = (&mut world.site, &mut world.load);
        let Some(node) = &mut world.node else { return Ok(()) };
        if !site.is_calm() {
            if site.chance.happens(clients.rate) {
                clients.ask(site, node);
            }
            if site.chance.happens(clients.compactions) {
                let shard = site.chance.below(u64::from(SHARDS)) as u16;
                node.compact(site, shard, COMPACTION)?;
            }
        }
        node.step(site);
        while let Some((_, asked, answer)) = node.answered() {
            let Ok(answer) = answer.map(|durable| durable.into_inner()) else { continue };
            let (Decided::Done { outcome, .. } | Decided::Answered(outcome)) = answer else { continue };
            site.tally.add("an answer", 1);
            match outcome {
                Ok(counter) => clients.hear(&asked, counter)?,
                Err(_) if expires(&asked.name) => site.tally.add("a counter that is gone", 1),
                Err(refusal) => {
                    must(asked.answered == 0, "an answered add is never taken back", || {
                        format!("{}: {refusal}", asked.name)
                    })?;
                }
            }
        }
        Ok(())
    }

    fn is_quiet(world: &World<Self, S>) -> bool {
        let (now, shards) = (TimeMs(world.site.clock.now_ms()), 0..SHARDS);
        world.node.as_ref().is_some_and(|node| {
            node.is_idle() && shards.into_iter().all(|shard| node.state(shard).expired(now).is_none())
        })
    }

    fn check(world: &mut World<Self, S>) -> Result<(), Violation> {
        let node = world.node.as_ref().expect("quiet has a process");
        for (name, known) in world.load.counters.iter().filter(|(name, _)| !expires(name)) {
            let value = node.state(shard(name)).value(name).unwrap_or(0);
            let words = || format!("{name}: {value}, answered {}, asked {}", known.answered, known.asked);
            must(value >= known.answered, "an answered add is never taken back", words)?;
            must(value <= known.asked, "no value is more than was asked for", words)?;
        }
        Ok(())
    }

    fn audit(&self, site: &Site<S>, log: LogId) -> Option<Vec<String>> {
        Some(audit_log::<CounterFamily, S>(site, log, SHARDS))
    }
}
