//! `storm bench-ids`: new transfers on a ledger that has seen very many ids.
//!
//! ```text
//!   real load ─▶ journal, snapshot, ids covered ─▶ kill ─▶ make_ids: an index of N ids over it ─▶ start, timed ─▶ load
//! ```
//!
//! Why the ids are made by a tool: a billion requests take an hour and a hundred gigabytes of journal. The tool's files
//! are those that requests make, and new ids never read the journal, so what is measured is the same. The journal is
//! real and short; a retry of one of the made ids would find no record, and is not measured. So would a new id with
//! the 47 bits of a made one (four in half a million, of a billion): the server refuses it as damaged, and does not
//! guess.

use super::stall::{self, Stall};
use super::subject::Subject;
use crate::load::{self, Answer, Dialect, Pressure};
use crate::report::Report;
use crate::tidegate::binary::{Transfers, outcomes};
use crate::tidegate::server::{Configuration, SNAPSHOT_INTERVAL_S, Tidegate};
use crate::tidegate::session::{self, Session};
use crate::workload::{Names, Parties, Pattern, Workload};
use anyhow::{Context, Result, ensure};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tidegate_wire::limits::TRANSFERS_MAX;
use tidegate_wire::{TransferRef, TransfersEncoder};

const WALLETS: u32 = 10_000;
/// As in the batched case of the ledger bench: a batch has thousands of ids, and their pages are read at the same time.
const PRESSURE: Pressure = Pressure { connections: 2, in_flight: 1 };
/// Transfers before the measurement, at least.
const FIRST_TRANSFERS_MIN: u64 = 2_000_000;
/// Bytes of journal for each of them, at least.
const JOURNAL_BYTES_PER_TRANSFER: u64 = 80;
/// Between a snapshot and the manifest of ids that goes with it, about.
const COVER_TIME: Duration = Duration::from_secs(3);
/// Bits of an id that the index keeps.
const HASH_BITS: i32 = 47;
/// New ids that look like made ones: this many times what is expected, and some more, are not a fault.
const COLLISIONS_RATIO_MAX: f64 = 3.0;
const COLLISIONS_MORE: f64 = 10.0;
/// A snapshot comes every twenty seconds, and the ids are covered behind it.
const SNAPSHOT_TIME_MAX: Duration = Duration::from_secs(180);

/// What to measure and how.
#[derive(clap::Args)]
pub struct Settings {
    /// The server that is measured, and where files go.
    #[command(flatten)]
    pub subject: Subject,
    /// The tool that makes ids (an example of the ledger).
    #[arg(long, default_value = "target/release/examples/make_ids")]
    make_ids: PathBuf,
    /// Ids that the ledger has seen; the keys of the report are named by it. Below 34 million no run is large.
    #[arg(long, env = "IDS", default_value = "1e8")]
    ids: String,
    /// Transfers of each measurement.
    #[arg(long, default_value_t = 4_000_000)]
    transfers: u64,
}

/// Which ids a load has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Random,
    Ordered,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Random => "random",
            Kind::Ordered => "ordered",
        }
    }
}

/// Runs all cases and reports.
pub fn run(settings: &Settings) -> Result<()> {
    let out = settings.subject.out()?;
    let ids = settings.ids.parse::<f64>().context("IDS is a number such as 1e7")? as u64;
    let key = |figure: &str| format!("ids_{}_{figure}", settings.ids);
    let names = Names::new(WALLETS);
    let mut report = Report::default();
    let mut series = 10;

    let mut tidegate = begin(settings, &names, &out)?;
    for kind in [Kind::Ordered, Kind::Random] {
        let (rate, stall) = measure(&tidegate, &names, 0, settings.transfers, kind, &mut series)?;
        report.add(&format!("ids_empty_{}_transfers_per_s", kind.name()), rate);
        report.add(&format!("ids_empty_{}_worker_stall_max_ms", kind.name()), stall.turn_max_ms);
        report.add(&format!("ids_empty_{}_worker_turn_cpu_max_ms", kind.name()), stall.turn_cpu_max_ms);
        report.add(&format!("ids_empty_{}_worker_wait_max_ms", kind.name()), stall.wait_max_ms);
    }
    let first = FIRST_TRANSFERS_MIN.max(ids / JOURNAL_BYTES_PER_TRANSFER);
    measure(&tidegate, &names, 0, first, Kind::Random, &mut series)?;
    wait_for_a_snapshot(&tidegate, &names, &mut series)?;

    let (mut worst, mut rss_max, mut restart_max) = (Stall::default(), 0, 0.0f64);
    for kind in [Kind::Ordered, Kind::Random] {
        let (started, took) = tidegate.restart(|data| {
            make(settings, &data.join("ids").join("ledger-0"), kind)?;
            forget_cached(data)
        })?;
        tidegate = started;
        restart_max = restart_max.max(took.as_secs_f64());
        if kind == Kind::Random {
            let some = (settings.transfers / 8).max(TRANSFERS_MAX as u64 * 8);
            let (rate, stall) = measure(&tidegate, &names, ids, some, kind, &mut series)?;
            report.add(&key("random_cold_transfers_per_s"), rate);
            worst = worst.max(stall);
            read_all(&tidegate.data().join("ids").join("ledger-0"))?;
        }
        let (rate, stall) = measure(&tidegate, &names, ids, settings.transfers, kind, &mut series)?;
        report.add(&key(&format!("{}_transfers_per_s", kind.name())), rate);
        worst = worst.max(stall);
        rss_max = rss_max.max(tidegate.resident_bytes()?);
        if kind == Kind::Ordered {
            wait_for_a_snapshot(&tidegate, &names, &mut series)?;
        }
    }
    let (over, under) = (key("ordered_transfers_per_s"), "ids_empty_ordered_transfers_per_s");
    report.derive_ratio(&key("ordered_to_empty_ratio"), &over, under);
    report.add(&key("worker_stall_max_ms"), worst.turn_max_ms);
    report.add(&key("worker_turn_cpu_max_ms"), worst.turn_cpu_max_ms);
    report.add(&key("worker_wait_max_ms"), worst.wait_max_ms);
    report.add(&key("rss_bytes"), rss_max as f64);
    report.add(&key("restart_s"), restart_max);
    settings.subject.publish("ids", &[settings.subject.version()?], &report)
}

/// A fresh server with funded accounts.
fn begin(settings: &Settings, names: &Names, out: &Path) -> Result<Tidegate> {
    let configuration = Configuration::Ledger { shards: 1, snapshot_interval_s: SNAPSHOT_INTERVAL_S };
    let tidegate = settings.subject.start(&out.join("tidegate-ids"), configuration)?;
    Session::open(tidegate.binary())?.open_accounts(names)?;
    let funding = Workload::new(Pattern::Funding, names.wallets(), u64::from(names.wallets()), 1);
    let mut funding = Transfers::new(names, funding, TRANSFERS_MAX);
    load::run(tidegate.binary(), Pressure { connections: 1, in_flight: 1 }, &mut funding)?;
    Ok(tidegate)
}

/// Transfers with new ids. How many a second, and how long workers let others wait meanwhile.
/// `made` ids have no records.
fn measure(
    tidegate: &Tidegate,
    names: &Names,
    made: u64,
    transfers: u64,
    kind: Kind,
    series: &mut u32,
) -> Result<(f64, Stall)> {
    *series += 1;
    // The longest turn of what was before must not count.
    stall::let_turns_pass();
    let work = Workload::new(Pattern::Uniform, names.wallets(), transfers, *series);
    let mut load = TimedTransfers { names, work, kind };
    let (tally, stall) = stall::watched(tidegate, || load::run(tidegate.binary(), PRESSURE, &mut load))?;
    let found = tally.outcomes();
    let collisions_max = collisions_max(made, transfers);
    ensure!(
        found.applied + found.refused == transfers && found.refused <= collisions_max,
        "of {transfers} new transfers: {found}; at most {collisions_max} may look like one of {made} made ids"
    );
    Ok((tally.per_second(), stall))
}

/// How many of so many new ids may share the bits that are kept with one of so many others.
fn collisions_max(made: u64, transfers: u64) -> u64 {
    let expected = made as f64 * transfers as f64 / 2f64.powi(HASH_BITS);
    if made == 0 { 0 } else { (COLLISIONS_RATIO_MAX * expected + COLLISIONS_MORE) as u64 }
}

/// Waits for a snapshot of all that was asked until now, and for the id index to cover it.
fn wait_for_a_snapshot(tidegate: &Tidegate, names: &Names, series: &mut u32) -> Result<()> {
    let begun = SystemTime::now();
    // The snapshot of all may be there already, and without anything new no other comes.
    *series += 1;
    let work = Workload::new(Pattern::Uniform, names.wallets(), u64::from(names.wallets()), *series);
    load::run(tidegate.binary(), PRESSURE, &mut Transfers::new(names, work, TRANSFERS_MAX))?;
    let manifest = tidegate.data().join("ids").join("ledger-0").join("manifest");
    let snapshots = tidegate.data().join("snapshots").join("ledger-0");
    let written = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified()).ok();
    let newest = || std::fs::read_dir(&snapshots).ok()?.flatten().filter_map(|file| written(&file.path())).max();
    let is_covered = || newest().is_some_and(|at| at > begun && written(&manifest).is_some_and(|then| then > at));
    let started = Instant::now();
    while !is_covered() {
        ensure!(started.elapsed() < SNAPSHOT_TIME_MAX, "no snapshot whose ids are covered came");
        std::thread::sleep(Duration::from_millis(200));
    }
    // The manifest may be that of a merge just before the one that goes with the snapshot.
    std::thread::sleep(COVER_TIME);
    Ok(())
}

fn make(settings: &Settings, dir: &Path, kind: Kind) -> Result<()> {
    let mut command = Command::new(&settings.make_ids);
    command.arg(dir).args(["--ids", &settings.ids, "--kind", kind.name()]);
    let status = command.status().with_context(|| format!("could not run {}", settings.make_ids.display()))?;
    ensure!(status.success(), "{} failed: {status}", settings.make_ids.display());
    Ok(())
}

/// Has the page cache forget the runs: `dd` with `nocache` asks for that, and needs no rights. They are all synced.
fn forget_cached(data: &Path) -> Result<()> {
    for file in std::fs::read_dir(data.join("ids").join("ledger-0"))? {
        let file = format!("if={}", file?.path().display());
        let status = Command::new("dd").args([&file, "iflag=nocache", "count=0", "status=none"]).status();
        ensure!(status.context("could not run dd")?.success(), "dd could not drop {file} from the page cache");
    }
    Ok(())
}

/// Has the page cache hold the runs, as far as there is room.
fn read_all(dir: &Path) -> Result<()> {
    for file in std::fs::read_dir(dir)? {
        let mut file = std::fs::File::open(file?.path())?;
        std::io::copy(&mut file, &mut std::io::sink())?;
    }
    Ok(())
}

/// A workload whose ids are UUIDs: of version 7 with the time of now, or of version 4.
struct TimedTransfers<'a> {
    names: &'a Names,
    work: Workload,
    kind: Kind,
}

impl TimedTransfers<'_> {
    /// Like the payment's id, unique; in the shape of its kind.
    fn id(&self, of_payment: &[u8; 16], millis: u64) -> [u8; 36] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [b'0'; 32];
        digits[..16].copy_from_slice(of_payment);
        digits[16..].copy_from_slice(of_payment);
        if self.kind == Kind::Ordered {
            (0..12).for_each(|at| digits[at] = DIGITS[(millis >> (44 - 4 * at) & 15) as usize]);
        }
        digits[12] = if self.kind == Kind::Ordered { b'7' } else { b'4' };
        let mut text = [b'-'; 36];
        let places = (0..36).filter(|at| ![8, 13, 18, 23].contains(at));
        places.zip(digits).for_each(|(at, digit)| text[at] = digit);
        text
    }
}

impl Dialect for TimedTransfers<'_> {
    const IN_ORDER: bool = false;

    fn greet(&mut self, socket: &mut TcpStream) -> Result<()> {
        session::log_in(socket)
    }

    fn transfers_left(&self) -> u64 {
        self.work.left()
    }

    fn ask(&mut self, tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        if self.work.left() == 0 {
            return Ok(false);
        }
        let millis = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        let mut frame = TransfersEncoder::begin(out, u64::from(tag), false);
        for _ in 0..TRANSFERS_MAX {
            let Some(payment) = self.work.next() else { break };
            let id = self.id(payment.id.as_str().as_bytes().try_into().expect("sixteen digits"), millis);
            let Parties { debit, credit } = self.names.parties(&payment);
            frame.push(&TransferRef {
                id: &id,
                debit: debit.as_bytes(),
                credit: credit.as_bytes(),
                amount: payment.amount,
                memo: b"",
                code: 0,
                user_data: b"",
            });
        }
        frame.finish();
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some((correlation, answer)) = outcomes(bytes)? else { return Ok(None) };
        Ok(Some(Answer { tag: correlation as u32, ..answer }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_new_ids_look_like_made_ones() {
        assert_eq!(collisions_max(0, 4_000_000), 0);
        assert_eq!(collisions_max(1_000_000_000, 500_000), 20, "3.6 are expected");
        assert_eq!(collisions_max(1_000_000_000, 4_000_000), 95, "28 are expected");
    }

    #[test]
    fn ids_have_the_shape_of_their_kind_and_differ() {
        let names = Names::new(10);
        for (kind, begins) in [(Kind::Ordered, "017f22e2-79b0-7"), (Kind::Random, "")] {
            let work = Workload::new(Pattern::Uniform, 10, 100, 1);
            let mut load = TimedTransfers { names: &names, work, kind };
            let mut seen = std::collections::HashSet::new();
            while let Some(payment) = load.work.next() {
                let of_payment = payment.id.as_str().as_bytes().try_into().unwrap();
                let id = String::from_utf8(load.id(of_payment, 0x017F_22E2_79B0).to_vec()).unwrap();
                assert!(id.starts_with(begins) && id.len() == 36 && seen.insert(id.clone()), "{id}");
            }
        }
    }
}
