//! Tells when a log finds no room on its disk, and when it does again; and how much the disk lacks room.
//!
//! ```text
//!   log ── DiskRoom ──▶ look, ten times a second ─┬▶ log, once for each change
//!                                                 ├▶ /healthz, metrics: full, and since when
//!                                                 └▶ Pressure ─▶ compaction (log_keeper.rs)
//!   disk ── FillRate ──▶ each ten seconds ─▶ metrics: free, and full in how long
//! ```
//!
//! Why: a full disk refuses writes and nothing else, so whoever only reads would learn of it from the clients.

use std::collections::VecDeque;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_journal::disk::{Disk, DiskSpace, RealDisk};
use tidegate_journal::{DiskRoom, Durability, DurableEnd, JournalError, LogId};
use tidegate_machines::TimeMs;
use tidegate_shard::Pressure;
use tidegate_telemetry::Registry;

use crate::limits::{DISK_LOW_BYTES, DISK_LOW_PART};
use crate::metrics::{DiskMetrics, RoomMetrics};
use crate::status::Status;
use crate::threads::now_ms;

/// How often the free bytes of the disk are looked at.
const LOOK_AT_SPACE: Duration = Duration::from_secs(10);
/// Over how many looks the rate is taken: ten minutes. Journals take room by whole segments, so it must be long.
const LOOKS: usize = 61;
/// What is said of a disk that does not fill, in seconds: a hundred years.
const NEVER_S: u64 = 100 * 365 * 86_400;

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
    full_since: Option<TimeMs>,
    /// Whether one of them finds no room because there is none: where something is wrong with the disk, to forget what
    /// is there twice helps nobody.
    lacks_room: bool,
    disk: DiskMetrics,
    filling: FillRate,
    looked_at_space: Option<Instant>,
    began: Instant,
}

/// How fast a disk fills.
struct FillRate {
    /// Bytes that journals leave free.
    reserve_bytes: u64,
    /// When, and how much was free, oldest first.
    looks: VecDeque<(Duration, u64)>,
}

impl RoomWatch {
    /// Watches these logs, which leave so many bytes free, and tells `status` and `registry`.
    pub fn new(
        logs: impl Iterator<Item = WatchedRoom>,
        reserve_bytes: u64,
        status: Arc<Status>,
        registry: &Registry,
    ) -> RoomWatch {
        let counted = |log: WatchedRoom| {
            let metrics = RoomMetrics::register(registry, log.family, log.log.shard);
            (log, metrics, false)
        };
        RoomWatch {
            logs: logs.map(counted).collect(),
            status,
            full_since: None,
            lacks_room: false,
            disk: DiskMetrics::register(registry),
            filling: FillRate { reserve_bytes, looks: VecDeque::new() },
            looked_at_space: None,
            began: Instant::now(),
        }
    }

    /// Looks at all of them, and tells what changed.
    pub fn look(&mut self) {
        let mut full = 0;
        self.lacks_room = false;
        for (WatchedRoom { family, log, folder, room, .. }, metrics, was_full) in &mut self.logs {
            let (shard, folder, is_full) = (log.shard, folder.display(), room.is_full());
            full += u32::from(is_full);
            self.lacks_room |= is_full && room.failure().is_none();
            if is_full && !*was_full {
                tell_full((*family, shard), &folder, room.failure());
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
        let was_full = self.full_since.is_some();
        self.full_since = if full > 0 { self.full_since.or_else(|| Some(now_ms())) } else { None };
        self.status.set_full_logs(full, self.full_since);
        // At once when the disk is full, or is so no more: until then the metric says how long it takes.
        if was_full != self.full_since.is_some()
            || self.looked_at_space.is_none_or(|looked| looked.elapsed() >= LOOK_AT_SPACE)
        {
            self.looked_at_space = Some(Instant::now());
            self.look_at_space();
        }
    }

    fn look_at_space(&mut self) {
        let Some(space) = self.space() else { return };
        let at_this_rate = self.filling.full_in_s(self.began.elapsed(), space.free_bytes);
        let full_in_s = if self.full_since.is_some() { 0 } else { at_this_rate };
        self.disk.free_bytes.set(space.free_bytes as i64);
        self.disk.size_bytes.set(space.bytes as i64);
        self.disk.full_in_nanoseconds.set((full_in_s as i64).saturating_mul(1_000_000_000));
    }

    fn space(&self) -> Option<DiskSpace> {
        self.logs.first().and_then(|(log, ..)| RealDisk.space(&log.folder).ok().flatten())
    }

    /// How far this log is durable.
    pub fn durable(&self, log: LogId) -> Option<Durability> {
        let watched = self.logs.iter().find(|(watched, ..)| watched.log == log);
        watched.map(|(watched, ..)| watched.end.durability())
    }

    /// How much the disk lacks room, as of the last look.
    pub fn pressure(&self) -> Pressure {
        if self.lacks_room {
            return Pressure::Full;
        }
        if self.space().is_some_and(is_low) { Pressure::Low } else { Pressure::None }
    }
}

impl FillRate {
    /// In how many seconds the disk is full, of which so many bytes are free at `now`, a time of any clock.
    fn full_in_s(&mut self, now: Duration, free_bytes: u64) -> u64 {
        self.looks.push_back((now, free_bytes));
        if self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
        let (since, free_then) = *self.looks.front().expect("one was added");
        let (took, filled) = (now.saturating_sub(since), free_then.saturating_sub(free_bytes));
        let left = free_bytes.saturating_sub(self.reserve_bytes);
        if left == 0 {
            return 0;
        }
        if filled == 0 || took.is_zero() {
            return NEVER_S;
        }
        ((left as f64 * took.as_secs_f64() / filled as f64) as u64).min(NEVER_S)
    }
}

/// A log finds no room: because of `failure`, or because the disk is full.
fn tell_full((family, shard): (&str, u16), folder: &impl Display, failure: Option<JournalError>) {
    match failure {
        Some(error) => tracing::error!(
            family,
            shard,
            %error,
            "no room can be claimed on the disk, and not because it is full: what must be written is refused as on a \
             full disk, reads are served. It is tried again by itself"
        ),
        None => tracing::error!(
            family,
            shard,
            %folder,
            "the disk is full: what must be written is refused, reads are served. Make room; it is looked for by \
             itself. Journals leave data.disk_reserve_bytes of it free, to be compacted with"
        ),
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
    fn a_disk_that_fills_is_full_in_so_long() {
        let mut filling = FillRate { reserve_bytes: 1_000, looks: VecDeque::new() };
        let mut at = |s, free| filling.full_in_s(Duration::from_secs(s), free);
        assert_eq!(at(0, 100_000), NEVER_S, "nothing is known yet");
        assert_eq!(at(10, 100_000), NEVER_S);
        assert_eq!(at(20, 98_000), 970, "100 bytes a second, and 97,000 left above the reserve");
        assert_eq!(at(30, 99_000), NEVER_S.min(98_000 * 30 / 1_000), "what was freed counts");
        assert_eq!(at(40, 200_000), NEVER_S, "it empties");
        assert_eq!(at(50, 500), 0, "what is left is the reserve");
        let mut full = FillRate { reserve_bytes: 1_000, looks: VecDeque::new() };
        let last = (0..9).map(|n| full.full_in_s(Duration::from_secs(n), 1_000)).last();
        assert_eq!(last, Some(0), "it fills no further, because it is full");
        let mut long = FillRate { reserve_bytes: 0, looks: VecDeque::new() };
        let last = (0..1_000).map(|n| long.full_in_s(Duration::from_secs(10 * n), 1_000_000 - n.min(900) * 100)).last();
        assert_eq!((last, long.looks.len()), (Some(NEVER_S), LOOKS), "only the last ten minutes count");
    }

    #[test]
    fn a_disk_is_low_by_its_size() {
        let low = |bytes, free_bytes| is_low(DiskSpace { bytes, free_bytes });
        assert!(low(192 << 20, 19 << 20) && !low(192 << 20, 20 << 20), "a tenth of a small one");
        assert!(low(1 << 40, (1 << 30) - 1) && !low(1 << 40, 1 << 30), "a GiB of a large one");
    }
}
