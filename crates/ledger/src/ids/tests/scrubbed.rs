//! The scrub reads everything, a piece at a time, and names what is damaged.

use super::*;

fn built() -> World {
    let mut world = World::new(1, IdsOptions { freeze_at: 300, filter_bytes_max: 1 << 16, ..small() });
    world.insert_new(300 * 14);
    world.sync_journal();
    world.maintain(100).expect("the disk works");
    world
}

/// What a pass finds damaged.
fn pass(scrub: &mut RunScrub<FakeDisk>) -> Vec<String> {
    pass_by(scrub, 1 << 14)
}

/// The same in steps of so many bytes.
fn pass_by(scrub: &mut RunScrub<FakeDisk>, step_bytes: u64) -> Vec<String> {
    let mut found = Vec::new();
    for _ in 0..10_000 {
        let read = scrub.step(step_bytes);
        found.extend(read.damage.map(|place| format!("{} at {}: {}", place.file, place.offset, place.what)));
        if read.ended.is_some() {
            return found;
        }
    }
    panic!("a pass ends");
}

#[test]
fn a_pass_reads_all_runs_in_bounded_steps_and_then_begins_again() {
    let world = built();
    let mut scrub = world.index.scrub();
    for _ in 0..2 {
        let (mut steps, mut bytes) = (0, 0);
        loop {
            let read = scrub.step(8192);
            assert_eq!(read.damage, None);
            assert!(read.bytes <= 2 * 8192 + 4, "a page or piece is begun before the step is over: {read:?}");
            (steps, bytes) = (steps + 1, bytes + read.bytes);
            if let Some(entries) = read.ended {
                assert_eq!(entries, 300 * 13, "what is in runs");
                // The headers are read, but not counted.
                let facts = world.index.facts();
                assert_eq!(bytes, facts.run_bytes - 4096 * facts.runs);
                break;
            }
        }
        assert!(steps > 5, "{steps}");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_found_and_named_and_the_scrub_goes_on() {
    for path in built().run_files() {
        let len = built().disk.contents(&path).expect("it exists").len() as u64;
        for offset in (5..len).step_by(1_999) {
            let mut world = built();
            let mut scrub = world.index.scrub();
            assert!(world.disk.flip_bit(&path, offset, 5));
            let found = pass(&mut scrub);
            let name = path.file_name().expect("a run").to_string_lossy().into_owned();
            assert!(matches!(&found[..], [one] if one.contains(&*name)), "byte {offset}: {found:?}");
            world.disk.crash();
            world.recover();
            assert!(world.discarded.is_some(), "the next start builds it again");
        }
    }
}

/// In small steps there are several pieces behind the pages, and the checksum of all is behind the last.
#[test]
fn a_flipped_bit_in_the_last_piece_is_found() {
    let mut tried = 0;
    for path in built().run_files() {
        let world = built();
        let len = world.disk.contents(&path).expect("it exists").len() as u64;
        assert!(world.disk.flip_bit(&path, len - 5, 5));
        let found = pass_by(&mut world.index.scrub(), 64);
        assert!(matches!(&found[..], [one] if one.contains("wrong checksum")), "{path:?}: {found:?}");
        tried += 1;
    }
    assert!(tried > 0, "there are runs");
}

#[test]
fn a_lost_run_and_a_damaged_manifest_are_found_though_the_index_goes_on() {
    let world = built();
    world.disk.remove(&world.run_files()[0]).expect("it exists");
    let found = pass(&mut world.index.scrub());
    assert!(matches!(&found[..], [one] if one.contains("the file is missing")), "{found:?}");
    let world = built();
    assert!(world.disk.flip_bit(&manifest_path(), 50, 1));
    let found = pass(&mut world.index.scrub());
    assert!(matches!(&found[..], [one] if one.contains("manifest at 0: it has a wrong checksum")), "{found:?}");
    world.check();
}

#[test]
fn runs_that_are_merged_while_they_are_read_are_not_missed() {
    let mut world = built();
    let mut scrub = world.index.scrub();
    for n in 0..60 {
        assert_eq!(scrub.step(4096).damage, None, "step {n}");
        world.insert_new(100);
        world.sync_journal();
        world.maintain(10).expect("the disk works");
    }
    assert_eq!(pass(&mut scrub), [""; 0]);
}

/// The sum of a pass over the runs, and what the pass found damaged.
fn summed(world: &World, up_to: Position) -> (Option<IdDigest>, Vec<String>) {
    let mut scrub = world.index.scrub();
    scrub.sum_up_to(up_to);
    let mut found = Vec::new();
    for _ in 0..1_000 {
        let read = scrub.step(1 << 14);
        found.extend(read.damage.map(|place| place.what.to_string()));
        if read.ended.is_some() {
            return (read.digest, found);
        }
    }
    panic!("a pass ends");
}

/// Many records, one of them about `id`.
fn with(id: &str) -> World {
    let mut world = World::new(1, IdsOptions { freeze_at: 300, filter_bytes_max: 1 << 16, ..small() });
    world.insert_new(300);
    world.insert(world.index.hash(id.as_bytes()), 7, 1);
    world.insert_new(300 * 13);
    world.sync_journal();
    world.maintain(100).expect("the disk works");
    world
}

/// Nothing else sees it: pages, order, filters and fences are right, and nobody uses the id again.
#[test]
fn an_entry_under_a_wrong_hash_shows_only_in_the_sum() {
    let world = with("mine");
    let up_to = world.index.scrub().begin_digest().expect("there are runs").1.end();
    let ((right, _), (wrong, damage)) = (summed(&world, up_to), summed(&with("another's"), up_to));
    let (right, wrong) = (right.expect("nothing was merged"), wrong.expect("nothing was merged"));
    assert_eq!((right.entries(), damage), (wrong.entries(), Vec::new()));
    assert_ne!(right, wrong);
    assert_eq!(summed(&with("mine"), up_to).0, Some(right));
}

/// Some entries were read in one run and will be read in another again, or were to be read in one that is gone.
#[test]
fn a_pass_during_which_runs_are_merged_has_no_sum() {
    let mut world = built();
    let mut scrub = world.index.scrub();
    let end = scrub.begin_digest().expect("there are runs").1.end();
    scrub.sum_up_to(end);
    assert_eq!(scrub.step(1).ended, None);
    // Many more runs, so that those there are merged.
    world.insert_new(300 * 60);
    world.sync_journal();
    world.maintain(1_000).expect("the disk works");
    let ended = (0..10_000).map(|_| scrub.step(1 << 14)).find(|read| read.ended.is_some()).expect("a pass ends");
    assert_eq!(ended.digest, None);
    assert!(summed(&world, end).0.is_some(), "the next pass has one");
}

#[test]
fn the_only_run_is_missed_too_and_an_index_that_others_condemn_is_built_again() {
    let mut world = World::new(1, IdsOptions { freeze_at: 300, filter_bytes_max: 1 << 16, ..small() });
    world.insert_new(300 * 2);
    world.sync_journal();
    world.maintain(100).expect("the disk works");
    let [only] = &world.run_files()[..] else { panic!("one run: {:?}", world.run_files()) };
    let mut scrub = world.index.scrub();
    world.disk.remove(only).expect("it exists");
    let found = pass(&mut scrub);
    assert!(matches!(&found[..], [one] if one.contains("the file is missing")), "{found:?}");

    let mut world = built();
    assert!(!world.index.has_inherited(), "it was empty when it was opened");
    world.disk.kill();
    world.recover();
    assert!(world.index.has_inherited(), "its runs were there");
    world.index.scrub().condemn("its ids are not those of the log");
    world.disk.crash();
    world.recover();
    assert!(
        world.discarded.as_deref().is_some_and(|why| why.contains("not those of the log")),
        "{:?}",
        world.discarded
    );
    world.check();
}
