//! Tells when a log finds no room on its disk, and when it does again; and how much the disk lacks room.
//!
//! ```text
//!   log ── DiskRoom ──▶ look, ten times a second ─┬▶ log, once for each change
//!                                                 ├▶ /healthz, metrics: full, and since when
//!                                                 └▶ Pressure ─▶ compaction (log_keeper.rs)
//! ```
//!
//! Why: a full disk refuses writes and nothing else, so whoever only reads would learn of it from the clients.

use std::path::PathBuf;
use std::sync::Arc;

use tidegate_journal::disk::{Disk, DiskSpace, RealDisk};
use tidegate_journal::{DiskRoom, LogId};
use tidegate_machines::TimeMs;
use tidegate_shard::Pressure;
use tidegate_telemetry::Registry;

use crate::limits::{DISK_LOW_BYTES, DISK_LOW_PART};
use crate::metrics::RoomMetrics;
use crate::status::Status;
use crate::threads::now_ms;

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
}

/// The room of all logs.
pub struct RoomWatch {
    logs: Vec<(WatchedRoom, RoomMetrics, bool)>,
    status: Arc<Status>,
    full_since: Option<TimeMs>,
}

impl RoomWatch {
    /// Watches these logs, and tells `status` and `registry`.
    pub fn new(logs: impl Iterator<Item = WatchedRoom>, status: Arc<Status>, registry: &Registry) -> RoomWatch {
        let counted = |log: WatchedRoom| {
            let metrics = RoomMetrics::register(registry, log.family, log.log.shard);
            (log, metrics, false)
        };
        RoomWatch { logs: logs.map(counted).collect(), status, full_since: None }
    }

    /// Looks at all of them, and tells what changed.
    pub fn look(&mut self) {
        let mut full = 0;
        for (WatchedRoom { family, log, folder, room }, metrics, was_full) in &mut self.logs {
            let (shard, folder, is_full) = (log.shard, folder.display(), room.is_full());
            full += u32::from(is_full);
            if is_full && !*was_full {
                tracing::error!(
                    family,
                    shard,
                    %folder,
                    "the disk is full: what must be written is refused, reads are served. Make room; it is looked for \
                     by itself. Journals leave data.disk_reserve_bytes of it free, to be compacted with"
                );
            } else if !is_full && *was_full {
                tracing::info!(family, shard, %folder, "the disk has room again");
            }
            metrics.disk_full.set(i64::from(is_full));
            if is_full != *was_full {
                let since_s = if is_full { (now_ms().0 / 1_000) as i64 } else { 0 };
                metrics.full_since_nanoseconds.set(since_s.saturating_mul(1_000_000_000));
            }
            *was_full = is_full;
        }
        self.full_since = if full > 0 { self.full_since.or_else(|| Some(now_ms())) } else { None };
        self.status.set_full_logs(full, self.full_since);
    }

    /// How much the disk lacks room, as of the last look.
    pub fn pressure(&self) -> Pressure {
        if self.full_since.is_some() {
            return Pressure::Full;
        }
        let space = self.logs.first().and_then(|(log, ..)| RealDisk.space(&log.folder).ok().flatten());
        if space.is_some_and(is_low) { Pressure::Low } else { Pressure::None }
    }
}

/// Whether there is little room left.
fn is_low(space: DiskSpace) -> bool {
    space.free_bytes < DISK_LOW_BYTES.min(space.bytes / DISK_LOW_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_low_by_its_size() {
        let low = |bytes, free_bytes| is_low(DiskSpace { bytes, free_bytes });
        assert!(low(192 << 20, 19 << 20) && !low(192 << 20, 20 << 20), "a tenth of a small one");
        assert!(low(1 << 40, (1 << 30) - 1) && !low(1 << 40, 1 << 30), "a GiB of a large one");
    }
}
