//! What the main thread looks at while others serve: this process, its snapshots, the files of `[tls]`, its state.
//!
//! ```text
//!   /proc, clock_gettime ─▶ process_*             snapshots/… ─▶ newest snapshot: sequence, age
//!   Files ─▶ when they expire, a line if one has  Status ──────▶ draining, ready
//! ```
//!
//! Why the main thread: with a million sockets an old kernel takes long to count open files, and nobody waits here. Why
//! snapshots are looked at on the disk: what a start would find there is what matters.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_doors::tls::ServerCertificate;
use tidegate_runtime::{Phase, Status};
use tidegate_telemetry::{Registry, metrics};

use crate::command::reload::Files;

/// How often the data directory is looked at.
const LOOK_AT_SNAPSHOTS: Duration = Duration::from_secs(2);

metrics! {
    /// The program.
    pub struct BuildMetrics(version) {
        info: Gauge "tidegate_build_info" "1; the version of the program is its label.";
    }
}

metrics! {
    /// The process, by the names that all Prometheus clients have for these.
    pub struct ProcessMetrics() {
        cpu_nanoseconds: Counter "process_cpu_seconds_total" "CPU time of all threads, in user and system mode.";
        resident_bytes: Gauge "process_resident_memory_bytes" "Memory of the process that is in RAM.";
        virtual_bytes: Gauge "process_virtual_memory_bytes" "Memory that the process has mapped.";
        open_fds: Gauge "process_open_fds" "Open files and sockets.";
        max_fds: Gauge "process_max_fds" "The limit of open files and sockets.";
        threads: Gauge "process_threads" "Threads.";
        start_nanoseconds: Gauge "process_start_time_seconds" "When the process started, in seconds since 1970.";
    }
}

metrics! {
    /// What the server as a whole is in.
    pub struct StateMetrics() {
        ready: Gauge "tidegate_ready" "1 while the server takes writes and new clients, as /readyz says; else 0.";
        draining: Gauge "tidegate_draining" "1 while MQTT clients are sent away and no new ones are taken; else 0.";
        overloaded: Gauge "tidegate_overloaded" "1 while a worker has no time for new MQTT clients; else 0.";
        certificate_nanoseconds: Gauge "tidegate_tls_certificate_expires_seconds"
            "When the server's certificate expires, or the first of its chain does, in seconds since 1970; 0 without \
             one.";
        lists_nanoseconds: Gauge "tidegate_tls_revocation_list_expires_seconds"
            "When the first of the revocation lists in tls.client_crl_file is over, in seconds since 1970; 0 without \
             one. From then on no client with a certificate of its authority can connect.";
    }
}

metrics! {
    /// The snapshots of one log.
    pub struct SnapshotFileMetrics(family, shard) {
        sequence: Gauge "tidegate_snapshot_sequence"
            "Sequence of the newest snapshot: where the next start begins to replay; 0 if there is none.";
        age_nanoseconds: Gauge "tidegate_snapshot_age_seconds"
            "How long ago the newest snapshot was written; 0 if there is none. Of a log that gets no records it grows.";
    }
}

/// See the [module](self).
pub struct Watch {
    process: ProcessMetrics,
    state: StateMetrics,
    snapshots: Vec<(PathBuf, SnapshotFileMetrics)>,
    looked_at_snapshots: Option<Instant>,
    /// What was told of files that are over.
    told: Vec<String>,
}

impl Watch {
    /// Of the process that serves `data` with at most `open_files_max` open files.
    pub fn new(data: &Path, open_files_max: usize, registry: &Registry) -> Watch {
        BuildMetrics::register(registry, env!("CARGO_PKG_VERSION")).info.set(1);
        let process = ProcessMetrics::register(registry);
        process.max_fds.set(open_files_max as i64);
        process.start_nanoseconds.set(started_s().saturating_mul(1_000_000_000));
        let logs = fs::read_dir(data.join("journal")).into_iter().flatten().flatten();
        let names = logs.filter_map(|entry| entry.file_name().into_string().ok());
        let of_log = |name: String| {
            let (family, shard) = name.rsplit_once('-')?;
            let shard: u16 = shard.parse().ok()?;
            Some((data.join("snapshots").join(&name), SnapshotFileMetrics::register(registry, family, shard)))
        };
        Watch {
            process,
            state: StateMetrics::register(registry),
            snapshots: names.filter_map(of_log).collect(),
            looked_at_snapshots: None,
            told: Vec::new(),
        }
    }

    /// Files were read again: what is wrong with them is told again.
    pub fn reloaded(&mut self) {
        self.told.clear();
    }

    /// Looks again.
    pub fn look(&mut self, status: &Status, files: &Files) {
        self.look_at_process();
        let (draining, overloaded) = (status.drain_per_second().is_some(), status.is_overloaded());
        let is_ready = status.phase() == Phase::Serving && status.full_logs() == 0 && !draining && !overloaded;
        self.state.ready.set(i64::from(is_ready));
        self.state.draining.set(i64::from(draining));
        self.state.overloaded.set(i64::from(overloaded));
        let expires_s = files.certificate.as_deref().and_then(ServerCertificate::expires_at_s).unwrap_or(0);
        self.state.certificate_nanoseconds.set(expires_s.saturating_mul(1_000_000_000));
        let lists_end_s = files.clients.lists_end_at_s().unwrap_or(0);
        self.state.lists_nanoseconds.set(lists_end_s.saturating_mul(1_000_000_000));
        self.look_at_files(files);
        if self.looked_at_snapshots.is_none_or(|looked| looked.elapsed() >= LOOK_AT_SNAPSHOTS) {
            self.looked_at_snapshots = Some(Instant::now());
            self.snapshots.iter().for_each(|(folder, metrics)| look_at_snapshots(folder, metrics));
        }
    }

    fn look_at_files(&mut self, files: &Files) {
        let complaints = files.complaints();
        complaints.iter().filter(|said| !self.told.contains(said)).for_each(|said| tracing::error!("{said}"));
        self.told = complaints;
    }

    fn look_at_process(&self) {
        self.process.cpu_nanoseconds.follow(cpu_ns());
        if let Some((virtual_bytes, resident_bytes)) = memory_bytes() {
            self.process.virtual_bytes.set(virtual_bytes);
            self.process.resident_bytes.set(resident_bytes);
        }
        self.process.open_fds.set(entries("/proc/self/fd"));
        self.process.threads.set(entries("/proc/self/task"));
    }
}

fn look_at_snapshots(folder: &Path, metrics: &SnapshotFileMetrics) {
    // A folder that cannot be read says nothing new.
    let Ok(entries) = fs::read_dir(folder) else { return };
    let numbered = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let sequence: i64 = name.strip_prefix("snapshot-")?.strip_suffix(".tgs")?.parse().ok()?;
        Some((sequence, entry))
    });
    let Some((sequence, newest)) = numbered.max_by_key(|(sequence, _)| *sequence) else {
        metrics.sequence.set(0);
        return metrics.age_nanoseconds.set(0);
    };
    metrics.sequence.set(sequence);
    // A clock that went back makes no negative age.
    if let Ok(written) = newest.metadata().and_then(|metadata| metadata.modified()) {
        let age = SystemTime::now().duration_since(written).unwrap_or_default();
        metrics.age_nanoseconds.set(i64::try_from(age.as_nanos()).unwrap_or(i64::MAX));
    }
}

/// CPU time of all threads.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call takes a pointer to a live struct.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    if failed == 0 { time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 } else { 0 }
}

/// What is mapped, and what of it is in RAM.
fn memory_bytes() -> Option<(i64, i64)> {
    // SAFETY: the call takes a number.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').map_while(|pages| pages.parse::<i64>().ok());
    Some((pages.next()? * page_bytes, pages.next()? * page_bytes))
}

/// Entries of a folder of `/proc`. Linux 6.2 and later say so of open files without a walk.
fn entries(folder: &str) -> i64 {
    let said = fs::metadata(folder).map_or(0, |metadata| metadata.len());
    if said > 0 { said as i64 } else { fs::read_dir(folder).map_or(0, |entries| entries.count() as i64) }
}

/// When this process started, in seconds since 1970.
fn started_s() -> i64 {
    let now_s = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let of_proc = || {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // Behind the name, which may have spaces and parentheses, the start is the twentieth value.
        let ticks: i64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
        // SAFETY: the call takes a number.
        let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        let text = fs::read_to_string("/proc/stat").ok()?;
        let boot_s: i64 = text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        Some(boot_s + ticks / ticks_per_s.max(1))
    };
    of_proc().unwrap_or_else(now_s)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use tempfile::tempdir;
    use tidegate_doors::tls::ClientAuthorities;
    use tidegate_telemetry::render_prometheus;

    use super::*;

    #[test]
    fn the_newest_snapshot_is_the_one_of_the_greatest_sequence() {
        let data = tempdir().expect("a folder");
        let snapshots = data.path().join("snapshots/notes-0");
        fs::create_dir_all(data.path().join("journal/notes-0")).unwrap();
        let registry =
            Registry::of(&[BuildMetrics::ROWS, ProcessMetrics::ROWS, StateMetrics::ROWS, SnapshotFileMetrics::ROWS]);
        let mut watch = Watch::new(data.path(), 1_000, &registry);
        let files = Files { certificate: None, clients: ClientAuthorities::new(None) };
        let mut see = |name: &str| {
            watch.looked_at_snapshots = None;
            watch.look(&Status::new([]), &files);
            let text = render_prometheus(&registry.snapshot());
            let line = text.lines().find(|line| line.starts_with(name) && !line.starts_with('#'));
            let value = line.unwrap_or_else(|| panic!("{name} is not in {text}")).rsplit(' ').next();
            value.expect("a value").parse::<f64>().expect("a number")
        };
        assert_eq!((see("tidegate_snapshot_sequence"), see("tidegate_snapshot_age_seconds")), (0.0, 0.0));
        fs::create_dir_all(&snapshots).unwrap();
        let hour = Duration::from_secs(3_600);
        for (sequence, ago) in [(7, 3 * hour), (1_000, 2 * hour), (90, hour)] {
            let file = File::create(snapshots.join(format!("snapshot-{sequence:020}.tgs"))).unwrap();
            file.set_modified(SystemTime::now() - ago).unwrap();
        }
        File::create(snapshots.join("unfinished")).unwrap();
        assert_eq!(see("tidegate_snapshot_sequence{family=\"notes\",shard=\"0\"}"), 1_000.0);
        let age_s = see("tidegate_snapshot_age_seconds");
        assert!((7_200.0..7_300.0).contains(&age_s), "{age_s}");
        assert!(see("process_resident_memory_bytes") > 1e6 && see("process_cpu_seconds_total") > 0.0);
        assert!(see("process_open_fds") >= 3.0 && see("process_threads") >= 2.0 && see("process_max_fds") == 1_000.0);
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let started_s = see("process_start_time_seconds");
        assert!((now_s - 86_400.0..=now_s + 2.0).contains(&started_s), "{started_s}");
    }
}
