//! What a seed decides before anything happens: how large the node is, how its clients behave, and which faults it
//! meets.
//!
//! Each fault is present in some seeds and absent in others. Why: a fault that is always there hides what only happens
//! without it (a disk that is often full never lets a journal grow to its second segment).

use tidegate_journal::Options;
use tidegate_ledger::ids::{BuilderKind, IdSeed, IdsOptions};

use tidegate_shard::CompactionRule;

use crate::chance::Chance;
use crate::harness::Faults;
use crate::ledger::node::log_id;

/// How often things on the way go wrong; each is "so many times in a thousand".
#[derive(Clone, Debug)]
pub struct Weather {
    /// A message between threads is late.
    pub ring_late: u64,
    /// By so many ticks at most.
    pub ring_delay: u64,
    /// A pull or credits are lost.
    pub ring_loss: u64,
    /// A pull or credits come twice.
    pub ring_repeats: u64,
    /// A request or reply takes so many ticks at most.
    pub wire_delay: u64,
    /// A request or reply is lost.
    pub wire_loss: u64,
    /// A request comes twice.
    pub wire_repeats: u64,
    /// A read on another thread takes longer than this tick.
    pub slow_read: u64,
    /// A read that needs pages of the id index takes hundreds of ticks.
    pub slow_pages: u64,
    /// A worker does not get to run in this tick.
    pub slow_worker: u64,
}

impl Weather {
    /// Nothing goes wrong.
    pub fn calm() -> Weather {
        Weather {
            ring_late: 0,
            ring_delay: 1,
            ring_loss: 0,
            ring_repeats: 0,
            wire_delay: 1,
            wire_loss: 0,
            wire_repeats: 0,
            slow_read: 0,
            slow_pages: 0,
            slow_worker: 0,
        }
    }
}

/// Everything a seed decides at the beginning.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Shards, for the life of the data.
    pub shards: u16,
    /// Threads beside the workers that have connections.
    pub edges: u16,
    /// Clients.
    pub clients: usize,
    /// Requests that each client has under way at most.
    pub pipelining: usize,
    /// Requests that all clients make together, besides repeats.
    pub requests: u64,
    /// Simulated milliseconds of a tick.
    pub tick_ms: u64,
    /// Ticks a client waits for an answer before it asks again.
    pub patience: u64,
    /// When a snapshot is worth it, for these small logs.
    pub compaction: CompactionRule,
    /// Decisions after which a shard ends a step: batches here are small.
    pub decisions_per_step: usize,
    /// Work that a caller is given in a round.
    pub round: isize,
    /// Of ten thousand ticks, in how many a quiet auditor begins to compare.
    pub audits: u64,
    /// Sizes of the journals.
    pub journal: Options,
    /// Sizes of the id indexes.
    pub ids: IdsOptions,
    /// What goes wrong on the way.
    pub weather: Weather,
}

impl Plan {
    /// The plan of a seed, and what goes wrong with its machine; `chance` is its first stream.
    pub fn of(chance: &mut Chance) -> (Plan, Faults) {
        let group_bytes_max = *chance.one_of(&[4 << 10, 4 << 10, 8 << 10, 16 << 10]);
        let segment_bytes = group_bytes_max as u64 * chance.within(4..=8);
        let journal = Options {
            segment_bytes,
            // With small steps a full disk is met soon.
            allocation_step_bytes: *chance.one_of(&[4 << 10, 4 << 10, 64 << 10]),
            group_bytes_max,
            record_bytes_max: group_bytes_max - 128,
            // With none, whatever is durable is read by a job.
            recent_bytes_max: *chance.one_of(&[0, 0, 16 << 10, 8 << 20]),
            ..Options::default()
        };
        let ids = IdsOptions {
            freeze_at: chance.within(16..=200) as usize,
            frozen_max: chance.within(1..=2) as usize,
            fan_out: chance.within(2..=4) as usize,
            filter_ids_first: *chance.one_of(&[1, 64, 4096]),
            filter_bytes_max: *chance.one_of(&[4096, 1 << 16]),
            builder: BuilderKind::Stepped,
            seed: IdSeed([chance.number(), chance.number()]),
            log: log_id(0),
        };
        let mut some = |most: u64| if chance.happens(550) { chance.within(1..=most) } else { 0 };
        let faults = Faults {
            power: some(30),
            power_in_operation: some(60),
            kill: some(25),
            stop: some(15),
            sync: some(25),
            write: some(20),
            bad_sector: some(60),
            full_disk: some(40),
            stalled_log: some(60),
            log_rot: some(15),
            snapshot_rot: some(80),
            ids_rot: some(20),
            clock_jump: some(50),
            clock_behind: 0,
            shards_ahead_ms: 0,
            take_over: some(25),
            unreachable_start: some(400),
            slow_log: some(800),
            slow_job: 0,
            lost_tail: 20,
        };
        let weather = Weather {
            ring_late: some(500),
            ring_delay: 1 + some(60),
            ring_loss: some(150),
            ring_repeats: some(150),
            wire_delay: 1 + some(40),
            wire_loss: some(120),
            wire_repeats: some(200),
            slow_read: some(800),
            slow_pages: some(60),
            slow_worker: some(500),
        };
        let plan = Plan {
            shards: 1 + chance.weighted(&[4, 3, 3]) as u16,
            edges: chance.within(1..=2) as u16,
            clients: chance.within(2..=5) as usize,
            pipelining: chance.within(1..=6) as usize,
            requests: if chance.happens(80) { chance.within(600..=1_500) } else { chance.within(80..=300) },
            tick_ms: chance.within(1..=10),
            patience: chance.within(30..=120),
            compaction: CompactionRule { floor_bytes: chance.within(2_000..=40_000), ratio: 0 },
            audits: chance.within(20..=300),
            decisions_per_step: *chance.one_of(&[4, 16, 4_096]),
            round: *chance.one_of(&[1, 4, 64]),
            journal,
            ids,
            weather,
        };
        (plan, faults)
    }
}
