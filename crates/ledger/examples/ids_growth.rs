//! How the cost of the id index grows with history: inserts random ids step by step and prints, at each step, the cost
//! of a new id, the cost of looking up an old one, and the memory and disk that are used.
//!
//! ```text
//! cargo run --release -p tidegate-ledger --example ids_growth -- [--ids 100000000] [--dir DIR] [--filter-mib 256]
//! ```
//!
//! Ids arrive as the shard sees them: batches, hashed from 36 bytes of text, prefetched 16 ahead, probed, inserted. The
//! builder has its own thread; every batch counts as durable, so it works at full speed at the same time. Afterwards
//! the index is opened again. Costs are the thread's own CPU time, which other processes on the machine hardly
//! influence; `builder, ns` is the CPU time of all other threads (sorting, writing, merging) per new id.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidegate_disk::RealDisk;
use tidegate_journal::{Cursor, LogId, Position};
use tidegate_ledger::ids::{IdHash, IdIndex, IdSeed, IdsFacts, IdsOptions, Looked, Opened, Unsettled};

const BATCH: u64 = 8190;
const AHEAD: usize = 16;
const OLD_LOOKUPS: u64 = 20_000;
/// What a record takes in a journal, about; positions grow by it.
const RECORD_BYTES: u64 = 100;

struct Settings {
    ids: u64,
    dir: PathBuf,
    filter_bytes_max: usize,
    freeze_at: usize,
}

fn main() {
    let settings = settings();
    let mut options = IdsOptions::new(IdSeed([0x5eed, 0x1d5]), LogId { directory: 1, family: 1, shard: 0 });
    options.filter_bytes_max = settings.filter_bytes_max;
    options.freeze_at = settings.freeze_at;
    let mut index = open(&settings.dir, options, Position(0)).index;

    println!(
        "|   ids, M | new id, ns | p99 batch, ns/id | slowest, ms | + hash, ns | builder, ns | new, false hits | \
         old id, us | pages/old | runs | filter, MiB | index, MiB | RSS, MiB | disk, MiB |"
    );
    println!(
        "|---------:|-----------:|-----------------:|------------:|-----------:|------------:|----------------:|\
         -----------:|----------:|-----:|------------:|-----------:|---------:|----------:|"
    );
    let mut inserted = 0;
    let mut before = IdsFacts::default();
    for step_end in steps(settings.ids) {
        let cost = insert_until(&mut index, inserted, step_end);
        let new_facts = index.facts();
        if cost.shared_hashes > 0 {
            eprintln!("{} new ids have the hash of another one", cost.shared_hashes);
        }
        let old = find_old(&index, step_end);
        let facts = index.facts();
        let added = (step_end - inserted) as f64;
        let false_hits = (new_facts.false_positives - before.false_positives) as f64 / added;
        let pages_per_old = (facts.pages_read - new_facts.pages_read) as f64 / OLD_LOOKUPS as f64;
        println!(
            "| {:8.1} | {:10.1} | {:16.1} | {:11.1} | {:10.1} | {:11.1} | {:14.4}% | \
             {:10.2} | {:9.2} | {:4} | {:11.1} | {:10.1} | {:8.1} | {:9.1} |",
            step_end as f64 / 1e6,
            cost.index.as_nanos() as f64 / added,
            cost.slow_batch_ns,
            cost.slowest_batch.as_secs_f64() * 1e3,
            cost.hash.as_nanos() as f64 / added,
            cost.builder.as_nanos() as f64 / added,
            false_hits * 100.0,
            old.as_nanos() as f64 / 1e3 / OLD_LOOKUPS as f64,
            pages_per_old,
            facts.runs,
            mib(facts.filter_bytes),
            mib(facts.memory_bytes),
            mib(resident_bytes()),
            mib(facts.run_bytes),
        );
        before = facts;
        inserted = step_end;
    }
    drop(index);
    let start = Instant::now();
    let opened = open(&settings.dir, options, Position(inserted * RECORD_BYTES));
    let facts = opened.index.facts();
    println!(
        "\nopened again in {:.2} s: {} M ids verified, {:.1} ns each, {:.1} MiB in memory",
        start.elapsed().as_secs_f64(),
        facts.entries / 1_000_000,
        start.elapsed().as_nanos() as f64 / facts.entries.max(1) as f64,
        mib(facts.memory_bytes),
    );
}

#[derive(Default)]
struct Cost {
    hash: Duration,
    index: Duration,
    /// CPU time of the other threads.
    builder: Duration,
    /// Of the slowest hundredth of the batches, the fastest.
    slow_batch_ns: f64,
    /// What the shard would stand still for, at most.
    slowest_batch: Duration,
    /// New ids that have the hash of another one.
    shared_hashes: u64,
}

fn insert_until(index: &mut IdIndex<RealDisk>, from: u64, to: u64) -> Cost {
    let mut cost = Cost::default();
    let others_before = cpu_of_others();
    let mut batches = Vec::new();
    let mut hashes: Vec<IdHash> = Vec::with_capacity(BATCH as usize);
    let mut texts = vec![[0u8; 36]; BATCH as usize];
    let mut first = from;
    while first < to {
        let count = BATCH.min(to - first);
        for (n, text) in texts.iter_mut().enumerate().take(count as usize) {
            write_text(first + n as u64, text);
        }
        let start = cpu_of_thread();
        hashes.clear();
        hashes.extend(texts[..count as usize].iter().map(|text| index.hash(text)));
        let hashed = cpu_of_thread();
        cost.hash += hashed - start;
        hashes.iter().take(AHEAD).for_each(|hash| index.prefetch(*hash));
        for n in 0..hashes.len() {
            if let Some(ahead) = hashes.get(n + AHEAD) {
                index.prefetch(*ahead);
            }
            let found = find(index, hashes[n]);
            // Another id has this hash: the ledger would look at its record, and find another id there.
            cost.shared_hashes += u64::from(found.is_some());
            index.insert(hashes[n], Position((first + n as u64 + 1) * RECORD_BYTES), 0);
        }
        first += count;
        index.maintain(place(first)).expect("the index can be written");
        let done = cpu_of_thread();
        cost.index += done - hashed;
        cost.slowest_batch = cost.slowest_batch.max(done - hashed);
        batches.push((done - hashed).as_nanos() as f64 / count as f64);
        index.catch_up(place(first)).expect("the index can be written");
    }
    cost.builder = cpu_of_others().saturating_sub(others_before);
    batches.sort_by(f64::total_cmp);
    cost.slow_batch_ns = batches[batches.len() * 99 / 100];
    cost
}

/// Asks the index, and pages where it must; here the one thread does both.
fn find(index: &IdIndex<RealDisk>, hash: IdHash) -> Option<Position> {
    index.find_newest(hash, &Looked::default(), |_| Ok::<_, Unsettled>(true)).unwrap_or_else(|_| {
        let mut lookup = index.lookup();
        index.look_for(hash, &mut lookup);
        let (looked, pages) = lookup.run();
        index.note_pages_read(pages);
        index.find_newest(hash, &looked, |_| Ok::<_, Unsettled>(true)).expect("all pages were read")
    })
}

/// Looks up ids from all over the history, as a client does that repeats an old request.
fn find_old(index: &IdIndex<RealDisk>, inserted: u64) -> Duration {
    let mut text = [0; 36];
    let start = cpu_of_thread();
    for n in 0..OLD_LOOKUPS {
        let id = mixed(n) % inserted;
        write_text(id, &mut text);
        let found = find(index, index.hash(&text));
        assert_eq!(found, Some(Position((id + 1) * RECORD_BYTES)));
    }
    cpu_of_thread() - start
}

fn steps(ids: u64) -> impl Iterator<Item = u64> {
    const MILLION: u64 = 1_000_000;
    [1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 500, 1000].map(|n| n * MILLION).into_iter().take_while(move |n| *n <= ids)
}

fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (n ^ (n >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// 36 bytes of text, as long as a UUID.
fn write_text(n: u64, into: &mut [u8; 36]) {
    let (high, low) = (mixed(n), mixed(n ^ 0xABCD));
    for (at, byte) in into.iter_mut().enumerate() {
        let word = if at < 18 { high } else { low };
        *byte = b'a' + (word >> (at % 16 * 4) & 15) as u8;
    }
}

/// A place of the journal behind so many records; no journal is there to compare it with.
fn place(records: u64) -> Cursor {
    Cursor { position: Position(records * RECORD_BYTES + 1), ..Cursor::START }
}

fn open(dir: &Path, options: IdsOptions, end: Position) -> Opened<RealDisk> {
    IdIndex::open(RealDisk, dir, options, end, &mut |_, _| {}).expect("the directory can be written")
}

fn cpu_of_thread() -> Duration {
    cpu_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The two clocks are not read at the same instant, so the difference may be a little below zero.
fn cpu_of_others() -> Duration {
    cpu_of(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(cpu_of_thread())
}

fn cpu_of(clock: libc::clockid_t) -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the call to write to.
    assert_eq!(unsafe { libc::clock_gettime(clock, &mut now) }, 0, "this system has CPU clocks");
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn settings() -> Settings {
    let mut settings = Settings {
        ids: 100_000_000,
        dir: PathBuf::from("ids-growth"),
        filter_bytes_max: 800 << 20,
        freeze_at: 1 << 20,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{name} needs a value"));
        let number = || value.parse::<usize>().unwrap_or_else(|_| panic!("{name} {value}: expected an integer"));
        match name.as_str() {
            "--ids" => settings.ids = number() as u64,
            "--filter-mib" => settings.filter_bytes_max = number() << 20,
            "--freeze-at" => settings.freeze_at = number(),
            "--dir" => settings.dir = value.into(),
            other => panic!("unknown setting {other}: --ids, --dir, --filter-mib, --freeze-at"),
        }
    }
    assert!(!settings.dir.exists(), "{} exists: measure in a new directory", settings.dir.display());
    settings
}
