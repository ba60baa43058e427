//! Bit rot, lost files, foreign files: found at open and repaired by replay, or found by a lookup and reported.

use tidegate_disk::{Disk, DiskFile};

use super::*;

/// Several runs, one of them merged.
fn built() -> World {
    built_of(5)
}

/// So many tables.
fn built_of(tables: u64) -> World {
    let mut world = World::new(1, IdsOptions { freeze_at: 300, filter_bytes_max: 1 << 16, ..small() });
    world.insert_new(300 * tables);
    world.sync_journal();
    world.maintain(60).expect("the disk works");
    assert_eq!(world.index.facts().runs, if tables == 5 { 2 } else { 1 });
    world
}

#[test]
fn a_flipped_bit_anywhere_is_found_at_open_and_replay_repairs_it() {
    let files = built().disk.files();
    let mut tried = 0;
    for (path, len) in files.iter().filter(|(path, _)| path.starts_with(dir())) {
        for offset in (0..*len).step_by(317) {
            let mut world = built();
            assert!(world.disk.flip_bit(path, offset, (offset % 8) as u8));
            world.disk.kill();
            world.recover();
            let why = world.discarded.clone().unwrap_or_else(|| panic!("{} byte {offset}", path.display()));
            assert!(why.contains(&*path.to_string_lossy()), "{why}");
            assert_eq!((world.index.covered(), world.index.facts().runs), (Position(0), 0));
            if tried % 20 == 0 {
                world.check();
                world.maintain(60).expect("the disk works");
                assert!(world.index.covered() > Position(0), "it is built again");
                world.check();
            }
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
}

#[test]
fn a_lost_or_short_run_is_found_at_open() {
    for short in [false, true] {
        let mut world = built();
        let path = world.run_files()[0].clone();
        if short {
            let file = Disk::open(&world.disk, &path).expect("it exists");
            tidegate_disk::DiskFile::set_len(&file, 5000).expect("the disk works");
        } else {
            world.disk.remove(&path).expect("it exists");
        }
        world.disk.kill();
        world.recover();
        assert!(world.discarded.is_some());
        world.check();
        assert_eq!(world.run_files(), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_run_of_another_number_in_the_place_of_ours_is_found() {
    let mut world = built();
    let [one, other] = &world.run_files()[..] else { panic!("two runs") };
    let bytes = world.disk.contents(one).expect("it exists");
    world.disk.overwrite(other, 0, &bytes).expect("the disk works");
    world.disk.kill();
    world.recover();
    assert!(world.discarded.as_deref().is_some_and(|why| why.contains("header")), "{:?}", world.discarded);
    world.check();
}

#[test]
fn an_index_that_covers_more_than_the_journal_has_is_of_another_journal() {
    let world = built();
    world.disk.kill();
    let Opened { covered, discarded, .. } = open(&world.disk, world.options, Position(100));
    assert_eq!(covered, Position(0));
    assert!(discarded.is_some_and(|why| why.contains("but the journal ends at 100")));
}

#[test]
fn files_without_a_manifest_are_what_a_crash_left_and_no_damage() {
    let mut world = built();
    world.disk.remove(&manifest_path()).expect("it exists");
    world.disk.kill();
    world.recover();
    assert_eq!((world.discarded.clone(), world.index.covered()), (None, Position(0)));
    assert_eq!(world.run_files(), Vec::<PathBuf>::new());
    world.check();
}

#[test]
fn damage_met_by_a_lookup_is_an_error_and_not_an_answer() {
    let world = built();
    let path = world.run_files()[1].clone();
    let pages = (world.disk.contents(&path).expect("it exists").len() / run::PAGE_BYTES) as u64;
    for page in 1..pages {
        assert!(world.disk.flip_bit(&path, page * run::PAGE_BYTES as u64 + 99, 3));
    }
    let mut errors = Vec::new();
    for record in &world.journal {
        match world.find_newest(record.hash, record.id).found {
            Ok(found) => assert_eq!(found, Some(record.position), "damage hides no record"),
            Err(error) => errors.push(error),
        }
    }
    assert!(errors.len() >= 300, "{}", errors.len());
    for error in errors {
        assert!(matches!(*error, IdsError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("wrong checksum; a start rebuilds the index"), "{error}");
    }
}

#[test]
fn damage_met_by_a_merge_is_an_error() {
    let mut world = World::new(1, small());
    world.insert_new(9);
    world.sync_journal();
    world.maintain(10).expect("the disk works");
    for path in world.run_files() {
        assert!(world.disk.flip_bit(&path, 4096 + 20, 1));
    }
    world.insert_new(4);
    world.sync_journal();
    let error = world.maintain(20).expect_err("a merge reads the damaged runs");
    assert!(matches!(error, IdsError::Damaged { .. }), "{error}");
}

#[test]
fn damage_in_a_page_that_a_start_does_not_read_condemns_the_index_when_it_is_met() {
    let mut world = built_of(10);
    let path = world.run_files()[0].clone();
    assert!(world.disk.flip_bit(&path, 2 * run::PAGE_BYTES as u64 + 99, 3));
    world.disk.kill();
    world.recover();
    assert_eq!(world.discarded, None, "a large run is not read");
    let errors = world.journal.iter().filter_map(|record| world.find_newest(record.hash, record.id).found.err());
    // And the one with which the next page begins: as far as fences say, it may begin on this one.
    assert_eq!(errors.count(), 256, "one page of ids cannot be told");
    world.disk.crash();
    world.recover();
    assert!(world.discarded.as_deref().is_some_and(|why| why.contains("page 1 has a wrong checksum")));
    world.check();
    world.disk.kill();
    world.recover();
    assert_eq!(world.discarded, None, "once");
}

/// As a start replays: what its merges read and is damaged is no reason to refuse it, for the journal has all of it.
#[test]
fn damage_that_a_replay_meets_has_the_index_made_anew_by_the_same_start() {
    let mut world = built_of(10);
    let path = world.run_files()[0].clone();
    assert!(world.disk.flip_bit(&path, 2 * run::PAGE_BYTES as u64 + 99, 3));
    world.insert_new(300 * 60);
    world.sync_journal();
    world.disk.kill();
    let journal = std::mem::take(&mut world.journal);
    let Opened { index, covered, discarded } = open(&world.disk, world.options, world.durable);
    assert_eq!(discarded, None, "a large run is not read");
    world.index = index;
    for record in journal.iter().filter(|record| record.position > covered) {
        if !world.index.is_to_rebuild() {
            world.index.insert(record.hash, record.position, record.now);
        }
        world.index.catch_up(place(record.position)).expect("the disk works");
    }
    assert!(world.index.is_to_rebuild() && world.index.rebuilt_for().is_none());
    assert!(!world.index.belong_to(Timeline::FIRST).expect("the disk works"), "it needs every record again");
    assert!(world.index.rebuilt_for().is_some_and(|damage| damage.contains("page 1 has a wrong checksum")));
    assert_eq!(world.index.covered(), Position(0));
    for record in &journal {
        world.index.insert(record.hash, record.position, record.now);
        world.index.catch_up(place(record.position)).expect("the disk works");
    }
    assert!(world.index.belong_to(Timeline::FIRST).expect("the disk works"));
    world.journal = journal;
    world.check();
    world.disk.kill();
    world.recover();
    assert_eq!(world.discarded, None, "it is whole");
    world.check();
}

#[test]
fn a_flipped_bit_in_what_a_start_reads_of_a_large_run_is_found() {
    let clean = built_of(10);
    let path = clean.run_files()[0].clone();
    let len = clean.disk.contents(&path).expect("it exists").len() as u64;
    let pages = 1 + 2_700u64.div_ceil(255);
    for offset in (0..4096).step_by(61).chain((pages * 4096..len).step_by(29)) {
        let mut world = built_of(10);
        assert!(world.disk.flip_bit(&path, offset, (offset % 8) as u8));
        world.disk.kill();
        world.recover();
        assert!(world.discarded.is_some(), "byte {offset}");
    }
}

#[test]
fn damage_of_one_page_leaves_the_other_ids_of_a_look_up() {
    let world = built_of(10);
    let path = world.run_files()[0].clone();
    assert!(world.disk.flip_bit(&path, 2 * run::PAGE_BYTES as u64 + 99, 3));
    let mut lookup = world.index.lookup();
    for record in world.journal.iter().take(2_700) {
        world.index.look_for(record.hash, &mut lookup);
    }
    let (looked, _) = lookup.run();
    let mut damaged = 0;
    for record in world.journal.iter().take(2_700) {
        match looked.get(record.hash).expect("all were looked for") {
            Ok(found) => assert!(found.contains(&record.position), "{record:?}"),
            Err(error) => {
                assert!(error.to_string().contains("page 1 has a wrong checksum"), "{error}");
                damaged += 1;
            }
        }
    }
    assert_eq!(damaged, 256, "those of one page, and the one with which the next begins");
}

/// A timeline that begins with some notice.
fn timeline(number: u8) -> Timeline {
    Timeline(tidegate_journal::ChainHash([number; 32]))
}

/// What the manifest says that is covered, and of which timeline.
fn claimed(world: &World) -> Option<(Position, Timeline)> {
    claim(&world.disk, &dir()).map(|claim| (claim.covered, claim.timeline))
}

#[test]
fn an_index_names_a_durable_place_behind_what_it_covers_and_gives_up_where_that_is_not() {
    let mut world = built();
    let claim = claim(&world.disk, &dir()).expect("it has a manifest");
    assert_eq!(claim.stands_on, Some(place(world.durable)));
    assert!(claim.covered > Position(0) && claim.covered < world.durable);
    world.disk.kill();
    world.recover();
    assert_eq!(world.index.stands_on(), place(world.durable));
    let shorter = Position(world.durable.0 - 1);
    world.index.give_up().expect("the disk works");
    assert_eq!((world.index.covered(), world.index.facts().entries, claimed(&world)), (Position(0), 0, None));
    assert_eq!((world.index.stands_on(), world.index.has_inherited()), (Cursor::START, false));

    // What was made of more than the journal has is of another one, even if the journal has all that is covered.
    let world = built();
    let opened = open(&world.disk, world.options, shorter);
    assert!(opened.covered == Position(0) && opened.discarded.is_some_and(|why| why.contains("the journal ends at")));
}

#[test]
fn an_index_of_an_earlier_version_says_what_it_covers_and_is_built_again() {
    let mut world = built();
    world.disk.kill();
    let mut bytes = world.disk.contents(&manifest_path()).expect("it is there");
    // Without the place and the log, which stand before the runs.
    bytes.drain(80..144);
    bytes[8] = 2;
    let end = bytes.len() - 4;
    let sum = crc_fast::crc32_iscsi(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
    world.disk.remove(&manifest_path()).expect("it is there");
    let file = world.disk.create_new(&manifest_path()).expect("it was removed");
    file.write_all_at(&bytes, 0).and_then(|()| file.sync_data()).expect("the disk works");
    world.disk.sync_dir(&dir()).expect("the disk works");

    let covered = world.index.covered();
    assert_eq!(claim(&world.disk, &dir()).map(|claim| (claim.covered, claim.stands_on)), Some((covered, None)));
    world.recover();
    assert!(world.discarded.as_ref().is_some_and(|why| why.contains("an earlier version")), "{:?}", world.discarded);
    assert_eq!((world.index.covered(), world.index.has_inherited()), (Position(0), false));
    world.check();
}

#[test]
fn an_index_of_another_timeline_is_given_up_when_the_replay_says_so() {
    let mut world = built();
    assert!(world.index.belong_to(Timeline::FIRST).expect("the disk works"), "its own");
    world.disk.kill();
    world.recover();
    assert_eq!(claimed(&world), Some((world.index.covered(), Timeline::FIRST)));
    assert!(!world.index.belong_to(timeline(7)).expect("the disk works"), "what was found is of another one");
    assert_eq!((world.index.covered(), world.index.facts().entries), (Position(0), 0));
    assert_eq!((claimed(&world), world.run_files()), (None, Vec::new()));
    for record in &world.journal {
        world.index.insert(record.hash, record.position, record.now);
    }
    assert!(world.index.belong_to(timeline(7)).expect("the disk works"), "nothing was found");
    world.maintain(60).expect("the disk works");
    assert_eq!(claimed(&world), Some((world.index.covered(), timeline(7))), "the manifest names it");
    assert!(world.index.covered() > Position(0));
    world.check();
    assert!(world.index.belong_to(timeline(8)).expect("the disk works"), "nothing was found");
    world.maintain(2).expect("the disk works");
    assert_eq!(claimed(&world), Some((world.index.covered(), timeline(8))), "without another run");
    assert!(world.index.belong_to(timeline(7)).expect("the disk works"));
    world.maintain(2).expect("the disk works");
    world.disk.crash();
    world.recover();
    assert!(world.index.belong_to(timeline(7)).expect("the disk works"));
    assert_eq!(world.discarded, None);
    world.check();
}

#[test]
fn an_empty_index_takes_its_timeline_over_before_any_run_is_written() {
    let mut world = World::new(1, small());
    assert!(world.index.belong_to(timeline(9)).expect("the disk works"));
    world.insert_new(40);
    world.sync_journal();
    world.maintain(60).expect("the disk works");
    assert_eq!(claimed(&world), Some((world.index.covered(), timeline(9))));
}

#[test]
fn a_disk_that_does_not_give_a_page_is_an_error_and_not_an_id_that_is_new() {
    let world = built_of(10);
    for path in world.run_files() {
        world.disk.fail_reads_of(Some(&path));
        let looked_up: Vec<_> =
            world.journal.iter().map(|record| world.find_newest(record.hash, record.id).found).collect();
        assert!(looked_up.iter().any(Result::is_err), "{} is read", path.display());
        assert!(looked_up.iter().flatten().all(Option::is_some), "none of them is new");
        world.disk.fail_reads_of(None);
    }
    world.check();
}
