//! What a seed decides: queues and their settings, how often clients ask for what, which faults there are.

use tidegate_queue::machine::{Bounds, Settings};
use tidegate_queue::{QUEUES, QueueOptions};

use crate::chance::Chance;
use crate::harness::{Faults, Setup};

/// Queues of one shard.
pub const QUEUES_PER_SHARD: usize = 6;
/// Of those, the one whose messages are dead letters after some deliveries...
pub const RETRY: usize = 1;
/// ... and the one where they go.
pub const DEAD: usize = 2;
/// The one that is deleted when it is empty, and made again.
pub const SHORT: usize = 4;
/// The one that has a schedule, which fires each minute.
pub const TIMED: usize = 5;
/// The name of that schedule.
pub const SCHEDULE: &str = "each-minute";
/// Who makes queues and schedules; the other queues are made by nobody, as those of the configuration.
pub const OWNERS: [&str; 2] = ["ann", "bob"];
/// Milliseconds between two of its times.
pub const MINUTE_MS: u64 = 60_000;
/// How far the time of shards is ahead of the clock of their host at most, in minutes: up to ten
/// years. Whole minutes, so that a schedule has the same times by both.
const AHEAD_MINUTES: [u64; 3] = [1, 24 * 60, 3_652 * 24 * 60];
/// How long a host is off at most, in milliseconds: a schedule has a time or two meanwhile.
pub const OFF_MS_MAX: u64 = 90_000;
/// Bytes of a segment: small, so that a run fills many and forgets them.
pub const SEGMENT_BYTES: u64 = 64 << 10;
/// Simulated milliseconds of a tick.
const TICK_MS: u64 = 5;
/// Ticks of trouble at most.
const TICKS_MAX: u64 = 1_200;

/// What a seed decides.
pub struct Plan {
    pub shards: u16,
    pub options: QueueOptions,
    /// How often something is asked, in a thousand ticks.
    pub rate: u64,
    /// How often a log is compacted, in a thousand ticks.
    pub compactions: u64,
    /// How often each thing is asked, by weight, in the order of [`Wish`].
    pub weights: [u64; WISHES.len()],
    /// Bytes of a body, at most; of few bodies, eight times as many.
    pub body_bytes: u64,
    /// By how much the time of shards is ahead of the clock of their host, in milliseconds.
    pub ahead_ms: u64,
    /// How often the host stays off for some time behind an end, in a thousand ends.
    pub off: u64,
    /// How many messages in a thousand have an ordering key, and how many an id.
    pub ordered: u64,
    pub with_id: u64,
}

/// What clients may want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Send,
    Receive,
    Acknowledge,
    Extend,
    Reject,
    Cancel,
    Reschedule,
    Look,
    LookById,
    Browse,
    Purge,
    Redrive,
    Pause,
    Forget,
    Delete,
}

/// All of them, in the order of their weights.
pub const WISHES: [Wish; 15] = [
    Wish::Send,
    Wish::Receive,
    Wish::Acknowledge,
    Wish::Extend,
    Wish::Reject,
    Wish::Cancel,
    Wish::Reschedule,
    Wish::Look,
    Wish::LookById,
    Wish::Browse,
    Wish::Purge,
    Wish::Redrive,
    Wish::Pause,
    Wish::Forget,
    Wish::Delete,
];

impl Plan {
    /// The plan of a seed.
    pub fn draw(chance: &mut Chance, ticks: u64) -> (Plan, Setup) {
        let mut some = |most: u64| if chance.happens(500) { chance.within(1..=most) } else { 0 };
        let faults = Faults {
            power: some(40),
            power_in_operation: some(40),
            kill: some(40),
            stop: some(20),
            stalled_log: some(60),
            take_over: some(40),
            unreachable_start: some(200),
            slow_log: some(500),
            slow_job: some(600),
            full_disk: some(20),
            ..Faults::default()
        };
        let weights = [
            60,
            50,
            40 + some(40),
            some(15),
            some(30),
            some(10),
            some(10),
            some(20),
            some(20),
            some(10),
            some(2),
            some(6),
            some(3),
            some(3),
            some(10),
        ];
        let plan = Plan {
            rate: 200 + some(700),
            compactions: some(60),
            off: some(600),
            ahead_ms: 0,
            weights,
            ordered: some(700),
            with_id: 100 + some(800),
            body_bytes: 60 + some(300),
            shards: chance.within(1..=2) as u16,
            options: QueueOptions {
                bounds: Bounds::new(chance.within(60..=140), 2_000, 2_000),
                node: 7,
                bodies_bytes_max: *chance.one_of(&[1 << 10, 4 << 10, 16 << 10]),
                receivers_max: 10_000,
                segment_bytes: *chance.one_of(&[8 << 10, 32 << 10, SEGMENT_BYTES]),
            },
        };
        let minutes_max = *chance.one_of(&AHEAD_MINUTES);
        let is_ahead = chance.happens(500);
        let ahead_ms = if is_ahead { chance.within(1..=minutes_max) * MINUTE_MS } else { 0 };
        let (plan, faults) = (Plan { ahead_ms, ..plan }, Faults { shards_ahead_ms: ahead_ms, ..faults });
        let families = vec![(QUEUES, plan.shards)];
        let setup = Setup { families, directory: 7, faults, tick_ms: TICK_MS, ticks: ticks.min(TICKS_MAX) };
        (plan, setup)
    }

    /// The queues of a seed: their names, shards and settings.
    pub fn queues(&self, chance: &mut Chance) -> Vec<(Box<str>, u16, Settings)> {
        let mut queues = Vec::new();
        for shard in 0..self.shards {
            for kind in ["plain", "retry", "dead", "late", "short", "timed"] {
                queues.push((format!("{kind}-{shard}").into(), shard, settings(kind, shard, chance)));
            }
        }
        queues
    }
}

fn settings(kind: &str, shard: u16, chance: &mut Chance) -> Settings {
    let owner = match kind {
        "plain" | "late" => Some(OWNERS[0].into()),
        "retry" | "dead" => Some(OWNERS[1].into()),
        _ => None,
    };
    let common = Settings { lease_ms: chance.within(100..=600), trail_ms: 2_000, owner, ..Settings::default() };
    match kind {
        "plain" => Settings {
            id_window_ms: Some(chance.within(500..=3_000)),
            rate_per_s: chance.happens(300).then(|| chance.within(30..=300) as u32),
            burst: chance.within(1..=20) as u32,
            ..common
        },
        "retry" => Settings {
            attempts_max: Some(chance.within(1..=3) as u16),
            dead_letter: Some(format!("dead-{shard}").into()),
            retry_ms: chance.within(0..=80),
            id_window_ms: None,
            ..common
        },
        "dead" | "timed" => common,
        "short" => Settings { id_window_ms: Some(0), ..common },
        _ => Settings {
            delay_ms: chance.within(20..=400),
            expiry_ms: Some(chance.within(1_000..=4_000)),
            trail_ms: 0,
            id_window_ms: Some(300),
            ids_until_due: true,
            ..common
        },
    }
}
