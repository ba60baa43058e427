//! `tidegate doctor`: what on this host will hurt, before it does.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};

/// Open files below which a few thousand clients meet "too many open files".
const OPEN_FILES_WISHED: u64 = 65_536;
/// A sync above this makes every lone vote slow.
const SYNC_US_WISHED: u128 = 2_000;
/// Syncs timed.
const SYNCS: usize = 200;

/// One thing looked at.
struct Finding {
    what: &'static str,
    found: String,
    /// What to do about it; `None` when all is well.
    advice: Option<String>,
}

/// Prints a line per finding; exits 0 when nothing hurts, 1 otherwise.
pub fn run(data: &Path) -> Result<ExitCode> {
    let findings =
        [open_files(), clock_source(), sync_time(data)?, numa(), backlog(), port_range(), transparent_huge_pages()];
    for finding in &findings {
        let mark = if finding.advice.is_some() { "!!" } else { "ok" };
        println!("{mark}  {:<22} {}", finding.what, finding.found);
        if let Some(advice) = &finding.advice {
            println!("    {advice}");
        }
    }
    let well = findings.iter().all(|finding| finding.advice.is_none());
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn open_files() -> Finding {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .and_then(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
    let advice = soft.filter(|soft| *soft < OPEN_FILES_WISHED).map(|soft| {
        format!(
            "about {} clients fit; raise it with ulimit -n or LimitNOFILE={OPEN_FILES_WISHED}",
            soft.saturating_sub(100)
        )
    });
    Finding { what: "open files", found: soft.map_or("unknown".into(), |soft| soft.to_string()), advice }
}

fn clock_source() -> Finding {
    let found = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let fast = matches!(found.as_str(), "tsc" | "kvm-clock" | "arch_sys_counter");
    let advice = (!fast).then(|| "reading the time is a system call; prefer clocksource=tsc".into());
    Finding { what: "clock source", found, advice }
}

fn sync_time(data: &Path) -> Result<Finding> {
    fs::create_dir_all(data).with_context(|| format!("cannot use {}", data.display()))?;
    let path = data.join(".tidegate-doctor");
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot write to {}", data.display()))?;
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

fn port_range() -> Finding {
    let found = read("/proc/sys/net/ipv4/ip_local_port_range").replace('\t', " to ");
    Finding { what: "local ports", found, advice: None }
}

fn transparent_huge_pages() -> Finding {
    let found = read("/sys/kernel/mm/transparent_hugepage/enabled");
    let always = found.contains("[always]");
    let advice = always.then(|| "memory per connection may grow; prefer madvise".into());
    Finding { what: "transparent huge pages", found, advice }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}
