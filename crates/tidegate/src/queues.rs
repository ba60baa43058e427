//! The queues, added to the server as a room from outside would be.

use anyhow::Result;
use tidegate_config::{Document, Section};
use tidegate_doors::queue_room::{open_queue_frames, open_queues};
use tidegate_journal::directory::{ShardCount, Wanted};
use tidegate_link::{routes, routing};
use tidegate_queue::{QUEUES, QueueMessage, QueueRoom, QueuesFamily, QueuesKeys, declared};
use tidegate_runtime::Carries;
use tidegate_telemetry::MetricRow;

use crate::extension::{Extension, KnownFamily, Opened};

/// Adds the queues to a server.
pub struct Queues;

impl<P: Carries<QueueMessage>> Extension<P> for Queues {
    fn sections(&self) -> &'static [Section] {
        // They stand in the list of the server's own.
        &[]
    }

    fn metrics(&self) -> &'static [MetricRow] {
        &[]
    }

    fn families(&self) -> Vec<KnownFamily> {
        vec![KnownFamily::of::<QueuesFamily>()]
    }

    fn open(&self, document: &Document) -> Result<Opened<P>> {
        let keys: QueuesKeys = document.section()?;
        let declared = declared(document, keys.shards)?;
        let routing = routing(&routes(document, &declared, keys.shards)?);
        Ok(Opened {
            logs: vec![Wanted {
                family: QUEUES,
                shards: keys.shards,
                count: ShardCount::Fixed { setting: "queues.shards" },
            }],
            room: Box::new(QueueRoom::new(&keys, declared, routing)),
            http: Some(open_queues()),
            frames: Some(open_queue_frames()),
        })
    }
}
