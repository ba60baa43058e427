//! A machine from outside in the harness: marks that are only ever raised, with clients and an oracle of their own, on
//! both stores.

use std::collections::BTreeMap;

use tidegate_journal::{Family, Options, Retention};
use tidegate_machines::{Decision, Machine, Place, ShardIndex, TimeMs};
use tidegate_planted::{Bug, plant};
use tidegate_shard::{Commands, CompactionRule, Decided, RecordClass, ShardFamily, Single};
use tidegate_sim::chance::Chance;
use tidegate_sim::harness::{
    End, Faults, Floor, STORES, Setup, Shards, Site, Store, StoreName, TICKS, Workload, World, check_seeds, run_on,
};
use tidegate_sim::hush_panics_in_runs;
use tidegate_sim::trace::Trace;
use tidegate_sim::violation::{Violation, must};

const MARKS: Family = Family { number: 9, name: "marks", retention: Retention::SinceSnapshot };
const SIZES: Options = Options::small(32 << 10);
const SHARDS: u16 = 2;

/// For each slot the highest mark that anybody asked for.
#[derive(Debug, Default, PartialEq)]
struct Marks(BTreeMap<u8, u64>);

/// Raise the mark of this slot to so much. With 0 it is only read.
type Raise = (u8, u64);

#[derive(Debug)]
struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not nine bytes for each slot")
    }
}

impl std::error::Error for Malformed {}

impl Machine for Marks {
    type Command<'a> = Raise;
    type With<'a> = ();
    type Event<'a> = Raise;
    type Outcome = u64;
    type Mismatch = Malformed;
    type EventError = Malformed;
    type SnapshotError = Malformed;

    fn new(_: ShardIndex, _: u16) -> Marks {
        Marks::default()
    }
    fn decide<'a>(
        &self,
        (slot, to): &Self::Command<'a>,
        (): Self::With<'a>,
        _: TimeMs,
    ) -> Decision<Self::Event<'a>, u64> {
        match self.0.get(slot).copied().unwrap_or(0) {
            mark if mark >= *to => Decision::Answer(mark),
            _ => Decision::Append { event: (*slot, *to), outcome: *to },
        }
    }
    fn apply(&mut self, (slot, to): &Raise, _: Place) {
        self.0.insert(*slot, *to);
    }
    fn apply_checked(&mut self, event: &Raise, at: Place) -> Result<(), Malformed> {
        self.apply(event, at);
        Ok(())
    }
    fn encode((slot, to): &Raise, into: &mut Vec<u8>) {
        into.push(*slot);
        into.extend_from_slice(&to.to_le_bytes());
    }
    fn decode(bytes: &[u8]) -> Result<Raise, Malformed> {
        let (slot, to) = bytes.split_first().ok_or(Malformed)?;
        Ok((*slot, u64::from_le_bytes(to.try_into().map_err(|_| Malformed)?)))
    }
    fn next_due(&self) -> Option<TimeMs> {
        None
    }
    fn write_snapshot(&self, part: &mut dyn FnMut(&[u8])) {
        let mut bytes = Vec::new();
        self.0.iter().for_each(|(slot, to)| Marks::encode(&(*slot, *to), &mut bytes));
        part(&bytes);
    }
    fn read_snapshot(body: &[u8]) -> Result<Marks, Malformed> {
        body.chunks(9).map(Marks::decode).collect::<Result<_, _>>().map(Marks)
    }
    fn assert_sound(&self) {}
}

struct MarksFamily;

impl ShardFamily for MarksFamily {
    type Machine = Marks;
    const FAMILY: Family = MARKS;
    const SNAPSHOTS_KEPT: usize = 2;
    const COMPACTION: CompactionRule = CompactionRule { floor_bytes: 8 << 10, ratio: 0 };
}

struct MarksCommands;

impl Commands for MarksCommands {
    type Command = Raise;
    type Event = Raise;
    type Machine = Marks;
    type Family = MarksFamily;
    type Context = ();
    /// The slot that was asked for, and what was known of it then.
    type Ticket = (u8, u64);
    const COMMANDS_WAITING_MAX: usize = 100;
    const COMMAND_BYTES_WAITING_MAX: usize = 10_000;

    fn weight(_: &Raise) -> usize {
        size_of::<Raise>()
    }
    fn class(_: &Raise) -> RecordClass {
        RecordClass::New
    }
    fn with((): &()) -> <Marks as Machine>::With<'_> {}
}

/// Clients that raise marks and read them, and what they were told.
struct Raisers {
    rate: u64,
    compact: u64,
    asked: BTreeMap<u8, u64>,
    told: BTreeMap<u8, u64>,
}

/// The shard of a slot.
fn shard_of(slot: u8) -> u16 {
    u16::from(slot) % SHARDS
}

impl<S: Store> Workload<S> for Raisers {
    const NAME: &'static str = "marks";
    type Node = Shards<Single<MarksCommands>, S>;

    fn floors(store: StoreName) -> Vec<Floor> {
        let mut floors = vec![
            Floor::of("an answer", 5_000, "marks are raised and read"),
            Floor::of("a compaction", 5, "a log that was compacted is opened"),
            Floor::of("a power failure", 50, "what was answered survives"),
            Floor::of("a kill", 50, "what was answered survives"),
            Floor::of("a log that gets nothing done", 50, "an answer waits for its sync"),
        ];
        if store == StoreName::Stream {
            floors.push(Floor::of("a takeover", 20, "a process that was fenced out stops"));
        }
        floors
    }

    fn draw(chance: &mut Chance, ticks: u64, _: &Trace) -> (Raisers, Setup) {
        let mut some = |most: u64| if chance.happens(500) { chance.within(1..=most) } else { 0 };
        let faults = Faults {
            power: some(40),
            power_in_operation: some(40),
            kill: some(40),
            stop: some(20),
            stalled_log: some(60),
            clock_jump: some(20),
            take_over: some(40),
            unreachable_start: some(200),
            slow_log: some(600),
            ..Faults::default()
        };
        let load = Raisers { rate: 50 + some(900), compact: some(50), asked: BTreeMap::new(), told: BTreeMap::new() };
        let families = vec![(MARKS, SHARDS)];
        (load, Setup { families, directory: 9, faults, tick_ms: 5, ticks: ticks.min(1_500) })
    }

    fn start(&mut self, site: &mut Site<S>) -> Result<Self::Node, String> {
        Shards::start(site, SIZES, |_| Single::new(()))
    }

    fn tick(world: &mut World<Self, S>) -> Result<(), Violation> {
        let (site, load) = (&mut world.site, &mut world.load);
        let Some(node) = &mut world.node else { return Ok(()) };
        if !site.is_calm() && site.chance.happens(load.rate) {
            let slot = site.chance.below(20) as u8;
            let asked = load.asked.entry(slot).or_default();
            let to = if site.chance.happens(200) { 0 } else { *asked + site.chance.below(3) };
            *asked = to.max(*asked);
            let known = load.told.get(&slot).copied().unwrap_or(0);
            node.call(shard_of(slot), (slot, known), (slot, to));
        }
        if !site.is_calm() && site.chance.happens(load.compact) {
            let shard = site.chance.below(u64::from(SHARDS)) as u16;
            node.compact(site, shard, MarksFamily::COMPACTION)?;
        }
        node.step(site);
        while let Some((_, (slot, known), answer)) = node.answered() {
            let Ok(answer) = answer.map(|durable| durable.into_inner()) else { continue };
            let (Decided::Done { outcome: mark, .. } | Decided::Answered(mark)) = answer else { continue };
            site.tally.add("an answer", 1);
            must(mark >= known, "a mark is never lowered", || format!("{slot}: {mark} after {known}"))?;
            must(mark <= load.asked[&slot], "a mark is one that was asked for", || format!("{slot}: {mark}"))?;
            let told = load.told.entry(slot).or_default();
            *told = mark.max(*told);
        }
        Ok(())
    }

    fn ended(&mut self, site: &mut Site<S>, end: End) {
        site.tally.add(if end == End::Stop { "a graceful stop" } else { "an abrupt end" }, 1);
    }

    fn is_quiet(world: &World<Self, S>) -> bool {
        world.node.as_ref().is_some_and(Shards::is_idle)
    }

    fn check(world: &mut World<Self, S>) -> Result<(), Violation> {
        let node = world.node.as_ref().expect("quiet has a process");
        for (slot, told) in &world.load.told {
            let mark = node.state(shard_of(*slot)).0.get(slot).copied().unwrap_or(0);
            must(mark >= *told, "a mark is never lowered", || format!("{slot}: {mark} after {told}"))?;
        }
        Ok(())
    }
}

#[test]
fn a_machine_from_outside_keeps_its_promises_on_both_stores() {
    check_seeds::<Raisers>(150);
}

#[test]
fn its_oracle_notices_an_answer_before_its_sync() {
    hush_panics_in_runs();
    for store in STORES {
        plant(Some(Bug::ReplyBeforeSync));
        let found = (0..200).find_map(|seed| run_on::<Raisers>(store, seed, TICKS, false).violation);
        plant(None);
        assert_eq!(found.map(|violation| violation.property), Some("a mark is never lowered"), "{store:?}");
    }
}
