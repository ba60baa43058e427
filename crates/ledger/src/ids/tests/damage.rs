//! Bit rot, lost files, foreign files: found at open and repaired by replay, or found by a lookup and reported.

use super::*;

/// Several runs, one of them merged.
fn built() -> World {
    let mut world = World::new(1, IdsOptions { freeze_at: 300, ..small() });
    world.insert_new(300 * 5);
    world.sync_journal();
    world.maintain(60).expect("the disk works");
    assert_eq!(world.index.facts().runs, 2);
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
        assert!(matches!(error, IdsError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("wrong checksum; restart to rebuild"), "{error}");
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
