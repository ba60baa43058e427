//! One shard of topics: what all shards go through, and the bounds of its inboxes.

use anyhow::Result;
use tidegate_broker::topics::open_shard;
use tidegate_broker::{TopicShard, TopicsFamily};
use tidegate_journal::LocalLog;
use tidegate_journal::disk::RealDisk;
use tidegate_shard::NothingDerived;

use super::{Recovering, Recovery};
use crate::metrics::{NodeMetrics, ShardMetrics};
use crate::mqtt::MqttSettings;
use crate::node::spawn;

/// A shard of topics on this machine's files.
pub type LocalTopicShard = TopicShard<LocalLog<RealDisk>>;

/// What a recovered shard's thread hands over.
pub struct RecoveredTopics {
    /// The shard.
    pub shard: LocalTopicShard,
    /// What it is counted with.
    pub metrics: ShardMetrics,
}

/// Starts the recovery of one of `shards` shards.
pub(super) fn start(
    recovery: Recovery<TopicsFamily>,
    shards: u16,
    mqtt: &MqttSettings,
    metrics: &NodeMetrics,
) -> Result<Recovering<RecoveredTopics>> {
    let limits = mqtt.inbox.clone();
    let metrics = ShardMetrics::register(&metrics.registry, recovery.family(), recovery.shard());
    spawn(format!("recover-t{}", recovery.shard()), move || {
        let back = recovery.replay(recovery.open()?, shards, &mut NothingDerived)?;
        metrics.recovered(recovery.began.elapsed(), &back.report);
        Ok(RecoveredTopics { shard: open_shard(back, limits)?, metrics })
    })
}
