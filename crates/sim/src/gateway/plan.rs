//! What a seed decides before anything happens: how many workers and clients, and which faults they meet.

use tidegate_journal::Options;

use tidegate_broker::ShareStrategy;

use super::client::{ShareHabits, WillHabits};
use crate::chance::Chance;
use crate::harness::Faults;

/// How often things go wrong; each is "so many times in a thousand", per tick or per chunk.
#[derive(Clone, Debug)]
pub struct Weather {
    /// A chunk of bytes stays in its pipe this tick.
    pub chunk_late: u64,
    /// Only a part of what could move moves.
    pub chunk_partial: u64,
    /// A connection is reset.
    pub reset: u64,
    /// A client stops reading for a while.
    pub stall: u64,
    /// A worker takes no turn this tick.
    pub slow_worker: u64,
    /// A topic shard writes a snapshot and forgets what lies behind it.
    pub compact: u64,
    /// A client sends bytes that are no MQTT.
    pub rubbish: u64,
    /// Per tick, that somebody comes with the client id of another.
    pub intruder: u64,
    /// Per will that is due, that the process is killed while it is under way.
    pub will_kill: u64,
}

/// One seed's world.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Workers.
    pub workers: u16,
    /// Topic shards.
    pub topic_shards: u16,
    /// Clients.
    pub clients: usize,
    /// Rooms: first levels of topics, a few that all share.
    pub rooms: u64,
    /// Bytes that fit a pipe.
    pub pipe_bytes: usize,
    /// Bytes of an outbox before QoS 0 is dropped.
    pub outbox_bytes_max: usize,
    /// Ticks of trouble.
    pub ticks: u64,
    /// Files of the journals.
    pub journal: Options,
    /// How long a session lives without its connection: longer than any run, and without end where a start may have a
    /// clock that is a year ahead.
    pub session_expiry_s: u32,
    /// How often clients leave wills.
    pub wills: WillHabits,
    /// Whether clients share what they take.
    pub shares: ShareHabits,
    /// How groups divide their messages.
    pub share_strategy: ShareStrategy,
    /// Faults.
    pub weather: Weather,
}

impl Plan {
    /// Bytes that may wait for all clients of a worker: in half of the seeds so few that some wait for what others
    /// leave. By what was drawn already, so that seeds stay what they were.
    pub fn waiting_bytes_max(&self) -> u64 {
        if self.clients.is_multiple_of(2) { 16 << 10 } else { Self::WAITING_BYTES_AMPLE }
    }

    /// So many that nobody waits.
    const WAITING_BYTES_AMPLE: u64 = 1 << 30;

    /// The plan of a seed, and what goes wrong with its machine.
    pub fn draw(chance: &mut Chance) -> (Plan, Faults) {
        // Each fault is absent from about half of the seeds: one that is always there hides what happens without it.
        let sometimes = |chance: &mut Chance, most: u64| if chance.happens(500) { chance.within(1..=most) } else { 0 };
        let weather = Weather {
            chunk_late: sometimes(chance, 300),
            chunk_partial: sometimes(chance, 900),
            reset: sometimes(chance, 4),
            stall: sometimes(chance, 10),
            slow_worker: sometimes(chance, 300),
            compact: sometimes(chance, 120),
            rubbish: sometimes(chance, 5),
            intruder: 0,
            will_kill: 0,
        };
        let mut faults = Faults {
            power: sometimes(chance, 40),
            kill: sometimes(chance, 40),
            stop: sometimes(chance, 15),
            stalled_log: sometimes(chance, 60),
            take_over: sometimes(chance, 40),
            unreachable_start: sometimes(chance, 400),
            slow_log: sometimes(chance, 600),
            lost_tail: 60,
            ..Faults::default()
        };
        // Small segments are sealed, and so forgotten, within a run.
        let (segment_bytes, allocation_step_bytes, group_bytes_max) =
            *chance.one_of(&[(32 << 10, 16 << 10, 8 << 10), (256 << 10, 64 << 10, 64 << 10)]);
        let plan = Plan {
            workers: chance.within(1..=3) as u16,
            topic_shards: chance.within(1..=4) as u16,
            clients: chance.within(3..=10) as usize,
            rooms: chance.within(1..=3),
            pipe_bytes: chance.within(64..=4_096) as usize,
            outbox_bytes_max: *chance.one_of(&[512, 4 << 10, 64 << 10]),
            ticks: chance.within(200..=1_200),
            journal: Options {
                allocation_step_bytes,
                group_bytes_max,
                record_bytes_max: group_bytes_max - 128,
                ..Options::small(segment_bytes)
            },
            session_expiry_s: 1_000_000,
            wills: WillHabits { left: 400, delayed: sometimes(chance, 500) },
            shares: ShareHabits::NONE,
            share_strategy: ShareStrategy::RoundRobin,
            weather,
        };
        faults.clock_behind = sometimes(chance, 150);
        let mut plan = plan;
        if faults.clock_behind == 0 {
            faults.clock_jump = sometimes(chance, 50);
            plan.session_expiry_s = if faults.clock_jump > 0 { u32::MAX } else { plan.session_expiry_s };
        }
        plan.weather.intruder = sometimes(chance, 100);
        if chance.happens(350) {
            plan.is_about_wills(chance);
        }
        // Drawn apart, so that all other seeds stay what they were.
        let mut apart = chance.clone().branch();
        if apart.happens(250) {
            plan.is_about_shares(&mut apart);
            // By a clock that jumps, members are away for long.
            (faults.clock_jump, faults.clock_behind) = (0, 0);
        }
        (plan, faults)
    }

    /// Clients of two or three workers share what comes to a pool, in one group or in two, and go and come back.
    fn is_about_shares(&mut self, chance: &mut Chance) {
        self.workers = chance.within(2..=3) as u16;
        self.clients = chance.within(6..=10) as usize;
        self.ticks = chance.within(400..=1_200);
        let stalled_ms = *chance.one_of(&[500, ShareHabits::NONE.stalled_ms]);
        self.shares = ShareHabits { groups: chance.within(1..=2) as usize, clean: false, stalled_ms };
        self.share_strategy = *chance.one_of(&[
            ShareStrategy::RoundRobin,
            ShareStrategy::RoundRobin,
            ShareStrategy::Sticky,
            ShareStrategy::HashTopic,
            ShareStrategy::HashClient,
        ]);
        self.weather.reset = chance.within(0..=8);
        // Where memory is scarce, what a clean session has may be lost.
        let is_scarce = self.waiting_bytes_max() < Self::WAITING_BYTES_AMPLE;
        self.shares.clean = !is_scarce && chance.happens(700);
    }

    /// Connections break often and leave wills, all in one room, over several logs, and the process is killed while
    /// they are under way. Elsewhere few are left, and hardly any is under way when a process ends.
    fn is_about_wills(&mut self, chance: &mut Chance) {
        self.rooms = 1;
        self.topic_shards = chance.within(2..=4) as u16;
        self.ticks = chance.within(600..=1_200);
        self.wills = WillHabits { left: 900, delayed: chance.within(0..=600) };
        self.weather.reset = chance.within(2..=12);
        self.weather.will_kill = chance.within(50..=400);
    }
}
