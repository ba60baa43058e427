//! `tidegate doctor`: finds settings of this host that would cause trouble, and of a configuration on it.

mod configured;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Error, Result, ensure};

use tidegate_broker::TOPICS;
use tidegate_journal::disk::{Disk, RealDisk};
use tidegate_shard::limits::SNAPSHOT_BYTES_PER_LOG_BYTE;

use crate::config::{Config, Overrides, schema};
use crate::extension::Extension;
use crate::huge_pages::HugePages;
use crate::output::say;
use crate::private;

/// Open files below which a few thousand clients meet "too many open files".
const OPEN_FILES_WISHED: u64 = 65_536;
/// What a process has open besides its clients: journals, listeners, eventfds.
const OPEN_FILES_OF_OUR_OWN: u64 = 100;
/// A sync above this makes every lone vote slow.
const SYNC_US_WISHED: u128 = 2_000;
/// Syncs timed.
const SYNCS: usize = 200;
/// A page of memory that takes longer to come stops a worker for milliseconds when it takes a huge one.
const FRESH_PAGE_NS_WISHED: u128 = 3_000;

/// One thing looked at.
struct Finding {
    what: &'static str,
    found: String,
    /// What to do about it; `None` when all is well.
    advice: Option<String>,
}

/// Prints a line per finding, and what `file` allows; exits 0 if there is nothing to warn about, 1 otherwise.
pub fn run<P>(data: Option<PathBuf>, file: Option<&Path>, extensions: &[&dyn Extension<P>]) -> Result<ExitCode> {
    let sections: Vec<_> = extensions.iter().map(|extension| extension.sections()).collect();
    let overrides = Overrides { data, ..Overrides::default() };
    let config = file.map(|file| Config::load(Some(file), &schema(&sections), &overrides)).transpose()?;
    let data = match (&config, overrides.data) {
        (Some(config), _) => config.data.dir.clone(),
        (None, Some(data)) => data,
        (None, None) => PathBuf::from("."),
    };
    let of_host = of_host(&data);
    let well = tell(&of_host) & config.is_none_or(|config| configured::tell_all(&config));
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn of_host(data: &Path) -> [Finding; 14] {
    [
        open_files(),
        files_of_the_system(),
        backlog(),
        half_open(),
        socket_memory(),
        tracked_connections(),
        port_range(),
        clock_source(),
        sync_time(data).unwrap_or_else(|error| unwritable(&error)),
        data_mode(data),
        room_to_compact(data),
        numa(),
        huge_pages(),
        fresh_memory(),
    ]
}

/// Prints them. Whether all is well.
fn tell(findings: &[Finding]) -> bool {
    for finding in findings {
        let mark = if finding.advice.is_some() { "!!" } else { "ok" };
        say(format_args!("{mark}  {:<22} {}", finding.what, finding.found));
        if let Some(advice) = &finding.advice {
            say(format_args!("    {advice}"));
        }
    }
    findings.iter().all(|finding| finding.advice.is_none())
}

fn open_files() -> Finding {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let hard = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        // The hard limit: the server takes all of it when it starts.
        .and_then(|line| line.split_whitespace().nth(4)?.parse::<u64>().ok());
    let fit = hard.map(|hard| hard.saturating_sub(OPEN_FILES_OF_OUR_OWN));
    let advice = fit.filter(|fit| *fit < OPEN_FILES_WISHED).map(|_| {
        format!(
            "each client is one; raise it with ulimit -Hn or LimitNOFILE={OPEN_FILES_WISHED}, or more for more clients"
        )
    });
    Finding { what: "open files", found: fit.map_or("unknown".into(), |fit| format!("{fit} clients fit")), advice }
}

/// What all processes together may open, and how far a process may raise its own limit.
fn files_of_the_system() -> Finding {
    let (all, each) = (read("/proc/sys/fs/file-max"), read("/proc/sys/fs/nr_open"));
    let low = [&all, &each].iter().any(|limit| limit.parse::<u64>().is_ok_and(|limit| limit < OPEN_FILES_WISHED));
    let advice =
        low.then(|| format!("sysctl -w fs.file-max=N fs.nr_open=N, at least {OPEN_FILES_WISHED} and one per client"));
    Finding { what: "fs.file-max, nr_open", found: format!("{all}, {each}"), advice }
}

fn clock_source() -> Finding {
    let found = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let fast = matches!(found.as_str(), "tsc" | "kvm-clock" | "arch_sys_counter");
    let advice = (!fast).then(|| "reading the time is a system call; prefer clocksource=tsc".into());
    Finding { what: "clock source", found, advice }
}

/// Whether others on this host may look into the data directory. A start closes it.
fn data_mode(data: &Path) -> Finding {
    if !data.join("DIRECTORY").exists() {
        let found = format!("none in {} yet: a start makes one", data.display());
        return Finding { what: "data directory", found, advice: None };
    }
    let open = private::open_mode(data);
    let advice = open.map(|_| format!("others may read balances, messages and keys: chmod 700 {}", data.display()));
    let found = open.map_or("closed to others".into(), |mode| format!("mode {mode:o}"));
    Finding { what: "data directory", found, advice }
}

/// Whether the disk has room for the snapshots that let the journals of topics forget. One is written at a time.
///
/// At most: the state was as large as the newest snapshot, and has grown since by no more than a few times the bytes of
/// the segments that are there.
fn room_to_compact(data: &Path) -> Finding {
    let bytes_of = |folder: &Path, kind: &str| -> Vec<u64> {
        let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        let named = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(kind));
        let mut files: Vec<_> =
            named.filter_map(|entry| Some((entry.file_name(), entry.metadata().ok()?.len()))).collect();
        files.sort();
        files.into_iter().map(|(_, bytes)| bytes).collect()
    };
    let folders = fs::read_dir(data.join("journal")).into_iter().flatten().filter_map(Result::ok);
    let of_topics = folders
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().strip_prefix(TOPICS.name).is_some_and(|shard| shard.starts_with('-')));
    let needs = of_topics.map(|log| {
        let newest = bytes_of(&data.join("snapshots").join(&log), ".tgs").last().copied().unwrap_or(0);
        let mut segments = bytes_of(&data.join("journal").join(&log), ".tgj");
        // The one that is written is in a snapshot on a full disk only, and then with what makes the others of no use.
        segments.pop();
        newest + SNAPSHOT_BYTES_PER_LOG_BYTE * segments.iter().sum::<u64>()
    });
    let need = needs.max().unwrap_or(0);
    let there = data.ancestors().find(|part| part.is_dir()).unwrap_or(Path::new("."));
    let free = RealDisk.space(there).ok().flatten().map(|space| space.free_bytes);
    let advice = free.filter(|free| *free < need).map(|_| {
        format!(
            "if the journals fill the disk, nothing may be left to compact them with: make room, or give them a larger \
             disk, and set data.disk_reserve_bytes to at least {need}"
        )
    });
    let free = free.map_or("unknown".into(), |free| format!("{} MiB", free >> 20));
    let found = format!("at most {} MiB for a snapshot of topics; {free} free", need.div_ceil(1 << 20));
    Finding { what: "room to compact", found, advice }
}

/// A disk that takes no file, such as one that is read-only: no server can use it, and the rest is looked at.
fn unwritable(error: &Error) -> Finding {
    let advice = "a server has to write there: mount it writable (a file system that has met errors is read-only until \
                  it is repaired), give the user of the server the right to, or name another directory with --data";
    Finding { what: "fdatasync of 4 KiB", found: format!("{error:#}"), advice: Some(advice.into()) }
}

fn sync_time(data: &Path) -> Result<Finding> {
    ensure!(!data.exists() || data.is_dir(), "{}: it is no directory", data.display());
    // A directory that is not there yet will be made on the disk of the nearest one above it. It is not made here.
    let there = data.ancestors().map(|part| if part.as_os_str().is_empty() { Path::new(".") } else { part });
    let there = there.into_iter().find(|part| part.is_dir());
    let there = there.with_context(|| format!("no directory above {} is there", data.display()))?;
    let path = there.join(".tidegate-doctor");
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot write to {}", there.display()))?;
    let mut times: Vec<u128> = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let began = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(began.elapsed().as_micros());
    }
    fs::remove_file(&path)?;
    times.sort_unstable();
    let (median, p99) = (times[SYNCS / 2], times[SYNCS * 99 / 100]);
    let advice = (p99 > SYNC_US_WISHED)
        .then(|| "every acknowledged write waits for a sync; use a disk with power-loss protection".into());
    Ok(Finding { what: "fdatasync of 4 KiB", found: format!("median {median} us, p99 {p99} us"), advice })
}

fn numa() -> Finding {
    let nodes = fs::read_dir("/sys/devices/system/node").map_or(1, |entries| {
        entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("node"))
            .count()
            .max(1)
    });
    let advice = (nodes > 1).then(|| "workers on different nodes share memory slowly; run one process per node".into());
    Finding { what: "NUMA nodes", found: nodes.to_string(), advice }
}

fn backlog() -> Finding {
    const WISHED: u64 = 4_096;
    let found = read("/proc/sys/net/core/somaxconn");
    let low = found.parse::<u64>().is_ok_and(|backlog| backlog < WISHED);
    let advice = low.then(|| format!("connection storms will be dropped; sysctl -w net.core.somaxconn={WISHED}"));
    Finding { what: "net.core.somaxconn", found, advice }
}

/// Clients that have begun to connect: after an outage all come at once.
fn half_open() -> Finding {
    const WISHED: u64 = 4_096;
    let found = read("/proc/sys/net/ipv4/tcp_max_syn_backlog");
    let low = found.parse::<u64>().is_ok_and(|backlog| backlog < WISHED);
    let advice = low.then(|| {
        format!(
            "when all clients come back at once, some wait for a second try; \
             sysctl -w net.ipv4.tcp_max_syn_backlog={WISHED}"
        )
    });
    Finding { what: "tcp_max_syn_backlog", found, advice }
}

/// Pages that all sockets' buffers may take. Above the second number the kernel makes windows small, above the third it
/// drops.
fn socket_memory() -> Finding {
    let pages = read("/proc/sys/net/ipv4/tcp_mem");
    let pressure = pages.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let found = pressure.map_or("unknown".into(), |pages| format!("{} MiB for buffers", (pages * 4096) >> 20));
    Finding { what: "tcp_mem", found, advice: None }
}

/// A firewall that tracks connections has a table of them, and drops those that do not fit.
fn tracked_connections() -> Finding {
    let found = read("/proc/sys/net/netfilter/nf_conntrack_max");
    let low = found.parse::<u64>().is_ok_and(|most| most < OPEN_FILES_WISHED);
    let advice = low.then(|| {
        format!(
            "the firewall follows no more than {found} connections; \
             raise net.netfilter.nf_conntrack_max above the clients you expect"
        )
    });
    Finding { what: "nf_conntrack_max", found, advice }
}

/// How many connections one address can have to one port: what a proxy or load generator on one machine meets.
fn port_range() -> Finding {
    let found = read("/proc/sys/net/ipv4/ip_local_port_range");
    let mut ends = found.split_whitespace().filter_map(|end| end.parse::<u64>().ok());
    let ports = ends.next().zip(ends.next()).map(|(first, last)| last.saturating_sub(first) + 1);
    let advice = ports.filter(|ports| *ports < 20_000).map(|_| {
        "a proxy or load generator here has no more connections to one port of a server; sysctl -w \
         net.ipv4.ip_local_port_range='1024 65535', or give it several addresses"
            .into()
    });
    Finding { what: "local ports", found: ports.map_or("unknown".into(), |ports| ports.to_string()), advice }
}

/// What a server that is started as this command is would have.
fn huge_pages() -> Finding {
    let huge_pages = HugePages::settle();
    Finding { what: "huge pages", found: huge_pages.to_string(), advice: huge_pages.advice().map(str::to_owned) }
}

/// How long a page takes that nobody has used before. The host of a virtual machine may have to find it first.
fn fresh_memory() -> Finding {
    const BYTES: usize = 64 << 20;
    const PAGE: usize = 4 << 10;
    let mut memory = vec![0u8; BYTES];
    let began = Instant::now();
    memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    let each = began.elapsed().as_nanos() / (BYTES / PAGE) as u128;
    std::hint::black_box(memory);
    let advice = (each > FRESH_PAGE_NS_WISHED).then(|| {
        "workers wait milliseconds for memory that they take anew; give this virtual machine memory of its own, \
         without ballooning or free page reporting"
            .into()
    });
    let found = format!("{}.{} us for 4 KiB", each / 1_000, each % 1_000 / 100);
    Finding { what: "fresh memory", found, advice }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}
