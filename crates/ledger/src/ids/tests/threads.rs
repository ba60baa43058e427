//! The builder on its thread, on the disk of this machine.

use std::time::{Duration, Instant};

use tidegate_disk::RealDisk;

use super::*;

/// All candidates for a hash, newest first.
fn positions(index: &IdIndex<RealDisk>, hash: IdHash) -> Vec<Position> {
    let mut offered = Vec::new();
    let mut looked = Looked::default();
    loop {
        offered.clear();
        let refuse = |at| -> Result<bool, Unsettled> {
            offered.push(at);
            Ok(false)
        };
        match index.find_newest(hash, &looked, refuse) {
            Ok(found) => {
                assert_eq!(found, None);
                return offered;
            }
            Err(_) => {
                let mut lookup = index.lookup();
                index.look_for(hash, &mut lookup);
                looked.merge(lookup.run().0);
            }
        }
    }
}

fn maintain_until(
    index: &mut IdIndex<RealDisk>,
    durable: Position,
    what: &str,
    reached: impl Fn(&IdIndex<RealDisk>) -> bool,
) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !reached(index) {
        assert!(Instant::now() < patience, "not reached: {what}; {:?}", index.facts());
        index.maintain(place(durable)).expect("the disk works");
        std::thread::yield_now();
    }
}

#[test]
fn a_thread_builds_and_merges_while_ids_arrive_and_what_it_built_opens_again() {
    const IDS: u64 = 60_000;
    let home = tempfile::tempdir().expect("a temporary directory");
    let options = IdsOptions { freeze_at: 1000, fan_out: 4, builder: BuilderKind::Thread, ..small() };
    let opened = IdIndex::open(RealDisk, home.path(), options, Position(0), &mut |_, _| {}).expect("it opens");
    let mut index = opened.index;
    for n in 1..=IDS {
        let hash = index.hash(&n.to_le_bytes());
        index.prefetch(hash);
        assert_eq!(positions(&index, hash), []);
        index.insert(hash, Position(n * 3), 7);
        if n.is_multiple_of(512) {
            index.catch_up(place(Position(n * 3))).expect("the disk works");
        }
    }
    let end = Position(IDS * 3);
    maintain_until(&mut index, end, "59 tables in runs, merged", |index| {
        index.covered() == Position((IDS - 1000) * 3) && index.facts().runs <= 8
    });
    for n in 1..=IDS {
        assert_eq!(positions(&index, index.hash(&n.to_le_bytes())), [Position(n * 3)]);
    }
    drop(index);

    let mut progress = Vec::new();
    let opened = IdIndex::open(RealDisk, home.path(), options, end, &mut |done, total| progress.push((done, total)))
        .expect("it opens");
    assert_eq!((opened.covered, opened.discarded), (Position((IDS - 1000) * 3), None));
    assert!(progress.last().is_some_and(|(done, total)| done == total && *total < 16_000), "{:?}", progress.last());
    for n in 1..=IDS - 1000 {
        assert_eq!(positions(&opened.index, opened.index.hash(&n.to_le_bytes())), [Position(n * 3)]);
    }
}
