//! What is asked to be covered is in runs soon, so that a restart reads only what is behind.

use super::*;

#[test]
fn a_table_that_is_not_full_becomes_a_run_when_that_is_asked_for() {
    let mut world = World::new(1, IdsOptions { freeze_at: 1_000, ..small() });
    world.insert_new(30);
    world.sync_journal();
    world.maintain(10).expect("the disk works");
    assert_eq!(world.index.covered(), Position(0), "nothing is full");
    world.durable = Position(31);
    world.index.cover(world.durable);
    world.maintain(10).expect("the disk works");
    assert_eq!((world.index.covered(), world.index.facts().runs), (Position(30), 1), "and the end of the journal");
    world.durable = Position(40);
    world.index.cover(world.durable);
    world.maintain(3).expect("the disk works");
    assert_eq!((world.index.covered(), world.index.facts().runs), (Position(39), 1), "without another run");
    // The next record may stand where the journal ended.
    world.insert(hash(1), 7, 10);
    assert_eq!(world.end(), Position(40));
    world.maintain(10).expect("the disk works");
    assert_eq!((world.index.covered(), world.index.facts().runs), (Position(39), 1), "that was all");
    world.sync_journal();
    world.disk.crash();
    world.recover();
    assert_eq!((world.index.covered(), &world.discarded), (Position(39), &None));
    world.check();
}

#[test]
fn many_small_runs_are_merged_like_others() {
    let mut world = World::new(1, IdsOptions { freeze_at: 1_000, ..small() });
    for n in 0..200 {
        world.insert(hash(n), n, 2);
        world.insert_new(1);
        world.durable = Position(world.end().0 + 1);
        world.index.cover(world.durable);
        world.maintain(6).expect("the disk works");
    }
    assert_eq!(world.index.covered(), world.end());
    assert!(world.index.facts().runs <= 12, "{:?}", world.index.facts());
    world.sync_journal();
    world.check();
}

#[test]
fn what_is_covered_stays_so_while_more_is_to_be_covered() {
    let mut world = World::new(1, IdsOptions { freeze_at: 1_000, ..small() });
    for n in 0..60u64 {
        world.insert(hash(n), n, 10);
        // The journal has gone on, without another id.
        world.durable = Position(world.end().0 + 8);
        world.index.cover(world.durable);
        // The builder has less time than it needs, so that views are published while tables wait.
        world.maintain(1 + n as usize % 3).expect("the disk works");
        assert!(world.index.covered() < world.durable);
    }
    world.maintain(100).expect("the disk works");
    assert_eq!(world.index.covered(), Position(world.durable.0 - 1));
}

#[test]
fn on_a_full_disk_what_is_to_be_covered_takes_no_place_of_new_ids() {
    let mut world = World::new(1, IdsOptions { freeze_at: 1_000, ..small() });
    world.disk.set_capacity(0);
    for _ in 0..20 {
        world.insert_new(3);
        world.durable = Position(world.end().0 + 1);
        world.index.cover(world.durable);
        world.maintain(3).expect("a full disk is no failure of the index");
    }
    assert!(!world.index.is_behind(), "a snapshot may be asked for again and again");
    world.check();
    world.disk.set_capacity(u64::MAX);
    world.maintain(20).expect("the disk works");
    assert_eq!(world.index.covered(), world.end(), "what was asked for meanwhile is covered");
    world.check();
}

#[test]
fn what_is_covered_is_in_runs_though_a_crash_comes_while_tables_wait() {
    for steps in 0..40 {
        let mut world = World::new(1, IdsOptions { freeze_at: 100, ..small() });
        world.insert_new(102);
        world.sync_journal();
        world.durable = Position(world.end().0 + 1);
        // A full table waits, and two ids behind it are to be covered as well.
        world.index.cover(world.durable);
        let to_cover = world.durable;
        world.maintain(steps).expect("the disk works");
        // What comes later keeps nobody from covering what was before it.
        world.insert_new(3);
        world.sync_journal();
        world.maintain(steps).expect("the disk works");
        if steps == 39 {
            assert_eq!(world.index.covered(), Position(to_cover.0 - 1));
        }
        world.disk.crash();
        world.recover();
        assert_eq!(world.discarded, None);
        world.check();
    }
}
