//! Merges that go on over many steps, files that are still read, and what ends merging.

use super::*;

/// Of each run its tier, oldest first.
fn tiers(world: &World) -> Vec<u32> {
    world.index.view.runs.iter().map(|run| run.header().tier).collect()
}

#[test]
fn young_runs_are_merged_while_a_large_merge_is_under_way() {
    // A merge of three tables takes two steps, one of nine takes four.
    const TABLE: u64 = 22_000;
    let options =
        IdsOptions { freeze_at: TABLE as usize, filter_ids_first: 1 << 16, filter_bytes_max: 1 << 20, ..small() };
    let mut world = World::new(1, options);
    let mut seen = Vec::new();
    world.insert_new(TABLE * 12 + 1);
    world.sync_journal();
    for _ in 0..80 {
        world.maintain(1).expect("the disk works");
        if seen.last() != Some(&tiers(&world)) {
            seen.push(tiers(&world));
        }
    }
    let young_first = seen.iter().position(|tiers| *tiers == [1, 1, 1, 1]);
    let large = seen.iter().position(|tiers| tiers[..] == [2, 1]).expect("nine tables became one run, three another");
    assert!(young_first.is_some_and(|young_first| young_first < large), "{seen:?}");
    assert_eq!(world.index.covered(), Position(TABLE * 12));
    for record in world.journal.iter().step_by(997) {
        assert_eq!(world.find_newest(record.hash, record.id).found.expect("no damage"), Some(record.position));
    }
}

#[test]
fn a_run_that_is_read_keeps_its_file_until_then() {
    let mut world = World::new(1, small());
    world.insert_new(9);
    world.sync_journal();
    world.maintain(10).expect("the disk works");
    let read = world.run_files();
    assert_eq!(read.len(), 2);
    let lookup = world.index.lookup();
    world.insert_new(4);
    world.sync_journal();
    world.maintain(20).expect("the disk works");
    assert_eq!(tiers(&world), [1]);
    assert!(read.iter().all(|file| world.run_files().contains(file)), "{:?}", world.run_files());
    drop(lookup);
    world.maintain(2).expect("the disk works");
    assert_eq!(world.run_files().len(), 1, "{:?}", world.run_files());
}

#[test]
fn who_began_to_look_before_a_merge_still_finds_what_large_runs_hold_now() {
    let mut world = World::new(1, small());
    world.insert_new(3);
    let hash = hash(9 << 40);
    world.insert(hash, 7, 1);
    let at = world.end();
    let mut lookup = world.index.lookup();
    world.index.look_for(hash, &mut lookup);
    for _ in 0..9 {
        world.insert_new(4);
        world.sync_journal();
        world.maintain(20).expect("the disk works");
    }
    assert_eq!(tiers(&world), [2], "it is in a run with filters of its own");
    let (looked, _) = lookup.run();
    let found = world.index.find_newest(hash, &looked, |_| Ok::<_, Unsettled>(true));
    assert!(matches!(found, Ok(Some(found)) if found == at), "{found:?}");
}

#[test]
fn damage_ends_merging_and_tables_become_runs_all_the_same() {
    let mut world = World::new(1, small());
    world.insert_new(9);
    world.sync_journal();
    world.maintain(10).expect("the disk works");
    for path in world.run_files() {
        assert!(world.disk.flip_bit(&path, run::PAGE_BYTES as u64 + 20, 1));
    }
    world.insert_new(4);
    world.sync_journal();
    world.maintain(20).expect_err("a merge reads the damaged runs");
    world.insert_new(40);
    world.sync_journal();
    world.maintain(60).expect("that is said once");
    assert_eq!(tiers(&world), [0; 13]);
    assert_eq!(world.run_files().len(), 13, "nothing is left of the merge: {:?}", world.run_files());
    assert_eq!((world.index.covered(), world.index.is_behind()), (Position(52), false));
}

#[test]
fn what_memory_alone_has_asks_for_no_page() {
    let mut world = World::new(1, small());
    world.insert(hash(7), 1, 1);
    let found = world.index.find_newest(hash(7), &Looked::default(), |_| Ok::<_, Unsettled>(false));
    assert!(matches!(found, Ok(None)), "there is no run: {found:?}");
}
