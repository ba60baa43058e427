//! Tells when a log finds no room on its disk, and when it does again.
//!
//! ```text
//!   log ── DiskRoom ──▶ look, ten times a second ─▶ log, once for each change
//!                                                └▶ /healthz, metrics
//! ```
//!
//! Why: a full disk refuses writes and nothing else, so whoever only reads would learn of it from the clients.

use std::path::PathBuf;
use std::sync::Arc;

use tidegate_journal::{DiskRoom, DurableEnd, LogId};
use tidegate_telemetry::Registry;

use crate::metrics::RoomMetrics;
use crate::status::Status;

/// A log whose room is watched.
pub struct WatchedRoom {
    /// Of which family.
    pub family: &'static str,
    /// Which log.
    pub log: LogId,
    /// The folder that needs room.
    pub folder: PathBuf,
    /// Whether it finds some.
    pub room: DiskRoom,
    /// How far it is durable.
    pub end: DurableEnd,
}

/// The room of all logs.
pub struct RoomWatch {
    logs: Vec<(WatchedRoom, RoomMetrics, bool)>,
    status: Arc<Status>,
}

impl RoomWatch {
    /// Watches these logs, and tells `status` and `registry`.
    pub fn new(logs: impl Iterator<Item = WatchedRoom>, status: Arc<Status>, registry: &Registry) -> RoomWatch {
        let counted = |log: WatchedRoom| {
            let metrics = RoomMetrics::register(registry, log.family, log.log.shard);
            (log, metrics, false)
        };
        RoomWatch { logs: logs.map(counted).collect(), status }
    }

    /// Looks at all of them, and tells what changed.
    pub fn look(&mut self) {
        let mut full = 0;
        for (WatchedRoom { family, log, folder, room, .. }, metrics, was_full) in &mut self.logs {
            let (shard, folder, is_full) = (log.shard, folder.display(), room.is_full());
            full += u32::from(is_full);
            if is_full && !*was_full {
                tracing::error!(
                    family,
                    shard,
                    %folder,
                    "the disk is full: what must be written is refused, reads are served. Make room; it is looked for \
                     by itself"
                );
            } else if !is_full && *was_full {
                tracing::info!(family, shard, %folder, "the disk has room again");
            }
            metrics.disk_full.set(i64::from(is_full));
            *was_full = is_full;
        }
        self.status.set_full_logs(full);
    }
}
