//! Replaces the id index of a stopped ledger by one of very many ids that no request has brought: `storm bench-ids`
//! asks this, because a billion requests would take an hour and a hundred gigabytes.
//!
//! ```text
//!   make_ids DATA/ids/ledger-0 --ids 1e9 --kind random|ordered
//!
//!   all cores:  ids ─▶ hashes, by key      all cores: sort      this thread: write        one run after the other
//! ```
//!
//! What is true of the result: the files are those that requests for these ids would have made
//! (`a_made_index_is_the_one_that_inserts_make` compares). What is not: the journal has no records about these ids.
//! Their positions are spread over what it has. A new id never looks at them; a retry of one of these ids would.
//!
//! It needs 17 bytes of disk for each id, and 25 bytes of memory for each id of the largest run: 7 GB for a billion
//! ids. An id takes 130 ns of a core.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tidegate_disk::RealDisk;
use tidegate_journal::{Position, Timeline};
use tidegate_ledger::ids::make::{Bucket, Gathering, MadeId, Maker};
use tidegate_ledger::ids::{IdSeed, IdsOptions, claim};

/// Ids a second in the history that is made up; it ends a minute ago.
const IDS_PER_SECOND: u64 = 100_000;
/// Sorted buckets that a thread keeps until they are written.
const BUCKETS_AHEAD: usize = 4;

/// The history that is made up.
#[derive(Clone, Copy)]
struct History {
    /// Whether ids have the time of their record.
    is_ordered: bool,
    /// When it began, in seconds since 1970.
    begin: u64,
    /// Bytes of the journal for each record.
    step: f64,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().expect("the folder of an id index"));
    let (mut ids, mut is_ordered) = (1_000_000, false);
    while let (Some(name), Some(value)) = (arguments.next(), arguments.next()) {
        match &*name {
            "--ids" => ids = value.parse::<f64>().expect("a number of ids") as u64,
            "--kind" => is_ordered = value == "ordered",
            other => panic!("{other} is not known"),
        }
    }
    let found = claim(&RealDisk, &dir).expect("there is an index, and it can be read");
    let (covered, timeline) = (found.covered, found.timeline);
    let end = found.stands_on.expect("this version made the index");
    assert!(timeline == Timeline::FIRST, "the journal has notices, which are not made up here");
    assert!(covered.0 > ids, "the journal has {} bytes, and needs more than one for each of {ids} ids", covered.0);
    std::fs::remove_dir_all(&dir).expect("the folder can be removed");

    let options = IdsOptions::new(IdSeed([0x5eed, 0x1d5]), found.log.expect("this version made the index"));
    let mut maker = Maker::begin(RealDisk, &dir, options, ids, end).expect("the folder can be written");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock behind 1970").as_secs();
    let (begin, step) = (now - 60 - ids / IDS_PER_SECOND, (covered.0 - 1) as f64 / ids as f64);
    let history = History { is_ordered, begin, step };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let begun = Instant::now();
    for stretch in maker.stretches() {
        let gathered = gather(&maker, history, &stretch, threads);
        let buckets = maker.begin_run(gathered).expect("the index can be written");
        sort_and_write(&mut maker, buckets, threads);
        maker.end_run().expect("the index can be written");
        eprintln!("{} of {ids} ids made, {:.1} s", stretch.end, begun.elapsed().as_secs_f64());
    }
    let facts = maker.finish().expect("the index can be written");
    println!(
        "{} ids in {} runs, {} bytes; {} of filters",
        facts.entries, facts.runs, facts.run_bytes, facts.filter_bytes
    );
}

/// The records of a stretch, in as many parts as there are threads.
fn gather(maker: &Maker<RealDisk>, history: History, stretch: &Range<u64>, threads: usize) -> Vec<Gathering> {
    let part = (stretch.end - stretch.start).div_ceil(threads as u64).max(1) as usize;
    std::thread::scope(|scope| {
        let begins = stretch.clone().step_by(part);
        let parts = begins.map(|begin| begin..(begin + part as u64).min(stretch.end));
        let threads: Vec<_> = parts
            .map(|part| {
                let mut gathering = maker.gather(stretch.clone());
                scope.spawn(move || {
                    part.for_each(|number| history.add(number, &mut gathering));
                    gathering
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it only computes")).collect()
    })
}

/// Thread `n` sorts each bucket whose number is `n` beyond a multiple of the threads.
fn sort_and_write(maker: &mut Maker<RealDisk>, buckets: Vec<Bucket>, threads: usize) {
    let count = buckets.len();
    let mut shares: Vec<Vec<Bucket>> = (0..threads).map(|_| Vec::new()).collect();
    buckets.into_iter().enumerate().for_each(|(number, bucket)| shares[number % threads].push(bucket));
    std::thread::scope(|scope| {
        let sorted: Vec<_> = shares
            .into_iter()
            .map(|share| {
                let (sender, sorted) = sync_channel(BUCKETS_AHEAD);
                scope.spawn(move || {
                    for mut bucket in share {
                        bucket.sort();
                        sender.send(bucket).expect("the writer takes all");
                    }
                });
                sorted
            })
            .collect();
        for number in 0..count {
            let bucket = sorted[number % threads].recv().expect("the thread sorts all of its share");
            maker.write(bucket).expect("the index can be written");
        }
    });
}

impl History {
    fn add(&self, number: u64, to: &mut Gathering) {
        let seconds = self.begin + number / IDS_PER_SECOND;
        let chance = mixed(number);
        let id = match self.is_ordered {
            true => uuid(seconds * 1000 + number % IDS_PER_SECOND / 100, 7, chance),
            false => uuid(mixed(!number) >> 16, 4, chance),
        };
        let position = Position(1 + (number as f64 * self.step) as u64);
        to.add(number, MadeId { id: &id, position, now: seconds as u32 });
    }
}

fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let n = (n ^ (n >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    n ^ (n >> 32)
}

/// The text of a UUID: 48 bits, its version, and chance.
fn uuid(begin: u64, version: u8, chance: u64) -> [u8; 36] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let (upper, lower) = (begin << 16 | u64::from(version) << 12 | chance >> 52, chance & !(3 << 62) | 1 << 63);
    let nibble = |at: usize| if at < 16 { upper >> (60 - 4 * at) } else { lower >> (124 - 4 * at) };
    let mut text = [b'-'; 36];
    let mut place = 0;
    for at in 0..32 {
        if matches!(at, 8 | 12 | 16 | 20) {
            place += 1;
        }
        text[place] = DIGITS[(nibble(at) & 15) as usize];
        place += 1;
    }
    text
}
