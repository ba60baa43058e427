//! The queues at the doors of a node: how each door reaches their shards.

use std::sync::OnceLock;

use tidegate_queue::{QUEUES, QueueClient, QueueMessage};
use tidegate_runtime::Carries;

use crate::binary::frames::{ClientFrames, OpenFrames};
use crate::http_room::OpenHttpRoom;
use crate::queue_frames::QueueFrames;
use crate::queue_http::QueueHttp;
pub use crate::queue_http::QueueHttpMetrics;

/// The queues at the HTTP door.
pub fn open_queues<P: Carries<QueueMessage>>() -> OpenHttpRoom<P> {
    let metrics = OnceLock::new();
    Box::new(move |site, pump| {
        let shards = site.placement().shards(QUEUES);
        let metrics = metrics.get_or_init(|| QueueHttpMetrics::register(site.registry())).clone();
        Box::new(QueueHttp { client: pump.client(|_| QueueClient::new(shards)), metrics })
    })
}

/// The queues on the binary port.
pub fn open_queue_frames<P: Carries<QueueMessage>>() -> OpenFrames<P> {
    Box::new(|site, me| {
        let client = QueueClient::new(site.placement().shards(QUEUES));
        Box::new(ClientFrames::new(QueueFrames, me, client))
    })
}
