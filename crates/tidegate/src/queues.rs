//! The queues, added to the server as a room from outside would be.

use anyhow::Result;
use tidegate_config::{Document, Section};
use tidegate_doors::queue_room::{open_queue_frames, open_queues};
use tidegate_journal::directory::{ShardCount, Wanted};
use tidegate_queue::{QUEUES, QueueKeys, QueueMessage, QueueMetrics, QueueRoom, QueuesFamily, QueuesKeys, declared};
use tidegate_runtime::Carries;
use tidegate_telemetry::MetricRow;

use crate::extension::{Extension, KnownFamily, Opened};

/// The sections of its configuration: `[queues]`, `[[queue]]`.
const SECTIONS: &[Section] = &[QueuesKeys::SECTIONS[0], QueueKeys::SECTIONS[0]];

/// Adds the queues to a server.
pub struct Queues;

impl<P: Carries<QueueMessage>> Extension<P> for Queues {
    fn sections(&self) -> &'static [Section] {
        SECTIONS
    }

    fn metrics(&self) -> &'static [MetricRow] {
        QueueMetrics::ROWS
    }

    fn families(&self) -> Vec<KnownFamily> {
        vec![KnownFamily::of::<QueuesFamily>()]
    }

    fn open(&self, document: &Document) -> Result<Opened<P>> {
        let keys: QueuesKeys = document.section()?;
        let declared = declared(document, keys.shards)?;
        Ok(Opened {
            logs: vec![Wanted { family: QUEUES, shards: keys.shards, count: ShardCount::Kept }],
            room: Box::new(QueueRoom::new(&keys, declared)),
            http: Some(open_queues()),
            frames: Some(open_queue_frames()),
        })
    }
}
