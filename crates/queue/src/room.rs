//! The queues of a node: their shards recovered and placed, and their metrics.

use std::sync::Arc;

use anyhow::Result;
use tidegate_journal::{Family, Key, LogId, LogReader, LogStore, Options, Position, Timeline};
use tidegate_machines::{Machine, ShardIndex, TimeMs, shard_of};
use tidegate_runtime::damage::Damages;
use tidegate_runtime::shard_resident::ShardResident;
use tidegate_runtime::threads::now_ms;
use tidegate_runtime::{Carries, Home, LeadWatch, Room, Site};
use tidegate_shard::{NothingDerived, Shard};

use crate::declared::Declared;
use crate::family::{QUEUES, QueuesFamily};
use crate::limits::{AHEAD_SAID_MS_MIN, FETCH_THREADS, QueuesKeys, SEGMENT_BYTES};
use crate::metrics::QueueMetrics;
use crate::protocol::{QueueMessage, QueueProtocol, Ticket};
use crate::routing::Routing;
use crate::service::{QueueOptions, QueueService};

/// The shards of queues.
pub struct QueueRoom {
    options: QueueOptions,
    /// The number of this node, if the configuration gives one.
    node: Option<u16>,
    declared: Declared,
    routing: Arc<Routing>,
}

impl QueueRoom {
    /// A room that does as `keys` say, and has the queues that are `declared`, which the routes of `routing` need.
    pub fn new(keys: &QueuesKeys, declared: Declared, routing: Routing) -> QueueRoom {
        QueueRoom {
            declared,
            node: keys.node,
            routing: Arc::new(routing),
            options: QueueOptions {
                bounds: keys.bounds(),
                node: keys.node.unwrap_or_default(),
                bodies_bytes_max: keys.bodies_bytes_max,
                receivers_max: keys.receivers_max,
                segment_bytes: SEGMENT_BYTES,
            },
        }
    }
}

/// A number for a node that the configuration gives none. Two nodes of one number would give some messages the same
/// keys, and a queue to which links of both send would take the second of them for the first, sent again. A directory
/// that was restored has the key of the one that was backed up, which may go on: its timeline is another one.
fn node_of(key: &Key, timeline: Timeline) -> u16 {
    let material = match timeline {
        Timeline::FIRST => key.bytes().to_vec(),
        Timeline(begins) => [&key.bytes()[..], &begins.0].concat(),
    };
    let [low, high, ..] = blake3::derive_key("tidegate queues: number of a node, layout 1", &material);
    u16::from_le_bytes([low, high])
}

impl<P: Carries<QueueMessage>> Room<P> for QueueRoom {
    fn families(&self) -> Vec<(Family, Home)> {
        vec![(QUEUES, Home::Member)]
    }

    fn recover(&mut self, site: &mut Site<P>) -> Result<()> {
        let journal = Options { note_bytes: Options::small(SEGMENT_BYTES).note_bytes, ..sizes() };
        let (key, node) = (site.directory().key().expect("a directory that is served has a key").clone(), self.node);
        let logs: Vec<_> = site.directory().logs(QUEUES).collect();
        let shards = site.placement().shards(QUEUES).count();
        for log in logs {
            let is_here = |name: &str| shard_of(name, shards) == ShardIndex(log.shard);
            let of_shard = self.declared.iter().filter(|(name, _)| is_here(name));
            let declared: Declared = of_shard.map(|(name, settings)| (name.clone(), settings.clone())).collect();
            let (mut options, key) = (self.options, key.clone());
            let (status, routing) = (site.status().clone(), self.routing.clone());
            let metrics = QueueMetrics::register(site.registry(), log.shard);
            site.recover_member::<QueuesFamily>(log, journal, move |recovery| {
                let back = recovery.replay(recovery.open()?, &mut NothingDerived)?;
                if back.state.views("").next().is_some() {
                    tell_ahead(log.shard, back.state.time(), now_ms());
                }
                let (reader, damages) = (back.log.reader()?, status.damages().clone());
                if let Some(since) = back.state.keeps_since() {
                    tell_missing(log, Position(since.0), &reader, &damages);
                }
                options.node = node.unwrap_or_else(|| node_of(&key, back.report.timelines.current()));
                let mut service = QueueService::<Ticket>::new(options, &declared);
                service.tell_damage_to(damages, log);
                service.keep_for_routes(routing);
                let shard = Shard::new(ShardIndex(log.shard), back.state, service, back.log)?;
                let parker = recovery.parker().clone();
                let mut lead = LeadWatch::new(status.clone());
                let resident = ShardResident::new(shard, QueueProtocol, recovery.into_metrics())
                    .with_fetchers(FETCH_THREADS, &reader, parker)?
                    .on_tick(move |shard, _| {
                        if status.is_stopping() {
                            shard.service_mut().stop_waiting();
                        }
                        lead.look(shard.facts().time_ahead_ms);
                        metrics.observe(shard);
                    });
                Ok(Box::new(resident))
            })?;
        }
        Ok(())
    }
}

/// Says that the log does not reach back to the oldest body that is still needed.
fn tell_missing(log: LogId, since: Position, reader: &impl LogReader, damages: &Damages) {
    let Err(error) = reader.begins_at_or_before(since) else { return };
    let why = error.to_string();
    damages.note_needed(QUEUES.name, log, since, &why);
    tracing::error!(
        family = QUEUES.name,
        shard = log.shard,
        why,
        "bodies of messages that wait are missing: the log was to be kept from there on. Stop the server and put the \
         segment files back, from a backup if there is one; without them these messages cannot be delivered, and can \
         only be cancelled or purged"
    );
}

/// Says that the newest record of a shard is ahead of the clock of the host.
fn tell_ahead(shard: u16, newest: TimeMs, wall: TimeMs) {
    let ahead_ms = newest.0.saturating_sub(wall.0);
    if ahead_ms > AHEAD_SAID_MS_MIN {
        tracing::error!(
            family = QUEUES.name,
            shard,
            ahead_ms,
            "the newest record is ahead of this host's clock: what lasts for a time goes on from there, and makes up \
             for 1 ms in 20; times that senders name, and schedules, go by this host's clock. If the clock is wrong, \
             correct it and restart the server; if it is right, look for messages and schedules that got their times \
             by the clock that was ahead"
        );
    }
}

/// What a log is written with: bodies that were written not long ago are read from its memory.
fn sizes() -> Options {
    Options { segment_bytes: SEGMENT_BYTES, allocation_step_bytes: SEGMENT_BYTES / 4, ..Options::default() }
}
