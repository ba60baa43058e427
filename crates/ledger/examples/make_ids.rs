//! Replaces the id index of a stopped ledger by one of very many ids that no request has brought: `storm bench-ids`
//! asks this, because a billion requests would take an hour and a hundred gigabytes.
//!
//! ```text
//!   make_ids DATA/ids/ledger-0 --ids 1e9 --kind random|ordered
//! ```
//!
//! What is true of the result: the files are those that requests for these ids would have made (the same code makes
//! them; `a_made_index_is_the_one_that_inserts_make` compares). What is not: the journal has no records about these
//! ids. Their positions are spread over what it has. A new id never looks at them; a retry of one of these ids would.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_disk::RealDisk;
use tidegate_journal::{Position, Timeline};
use tidegate_ledger::ids::make::{MadeId, Maker};
use tidegate_ledger::ids::{IdSeed, IdsOptions, claim};

/// Ids a second in the history that is made up; it ends a minute ago.
const IDS_PER_SECOND: u64 = 100_000;

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

    let options = IdsOptions::new(IdSeed([0x5eed, 0x1d5]));
    let mut maker = Maker::begin(RealDisk, &dir, options, end).expect("the folder can be written");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock behind 1970").as_secs();
    let begin = now - 60 - ids / IDS_PER_SECOND;
    let step = (covered.0 - 1) as f64 / ids as f64;
    for n in 0..ids {
        let seconds = begin + n / IDS_PER_SECOND;
        let chance = mixed(n);
        let id = match is_ordered {
            true => uuid(seconds * 1000 + n % IDS_PER_SECOND / 100, 7, chance),
            false => uuid(mixed(!n) >> 16, 4, chance),
        };
        let position = Position(1 + (n as f64 * step) as u64);
        maker.add(MadeId { id: &id, position, now: seconds as u32 }).expect("the index can be written");
        if (n + 1).is_multiple_of(10_000_000) {
            eprintln!("{} of {ids} ids made", n + 1);
        }
    }
    let facts = maker.finish().expect("the index can be written");
    println!(
        "{} ids in {} runs, {} bytes; {} of filters",
        facts.entries, facts.runs, facts.run_bytes, facts.filter_bytes
    );
}

fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let n = (n ^ (n >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    n ^ (n >> 32)
}

/// The text of a UUID: 48 bits, its version, and chance.
fn uuid(begin: u64, version: u8, chance: u64) -> [u8; 36] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut nibbles = [0; 32];
    for (at, nibble) in nibbles.iter_mut().enumerate() {
        *nibble = match at {
            0..12 => begin >> (44 - 4 * at),
            12 => u64::from(version),
            16 => 8 | chance & 3,
            _ => chance >> (at * 4 % 64),
        } as u8
            & 15;
    }
    let mut text = [b'-'; 36];
    let places = (0..36).filter(|at| ![8, 13, 18, 23].contains(at));
    places.zip(nibbles).for_each(|(at, nibble)| text[at] = DIGITS[usize::from(nibble)]);
    text
}
