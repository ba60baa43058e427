//! The machine stops at every single write, sync, rename and remove of a build with merges.

use super::*;

#[test]
fn a_crash_at_any_operation_loses_nothing() {
    let mut crashes = 0;
    for operations in 0.. {
        let mut world = World::new(operations, small());
        world.disk.crash_after_ops(operations);
        for _ in 0..14 {
            world.insert_new(4);
            world.sync_journal();
            world.maintain(3).expect("I/O errors are tried again");
        }
        let stopped = world.disk.has_stopped();
        world.disk.crash();
        world.recover();
        assert_eq!(world.discarded, None, "after {operations} operations");
        world.check();
        // What was opened goes on: numbers of files that a crash left behind are not in the way.
        world.insert_new(40);
        world.sync_journal();
        world.maintain(40).expect("the disk works");
        world.check();
        if !stopped {
            break;
        }
        crashes += 1;
    }
    assert!(crashes > 60, "only {crashes} places to crash at: the test no longer builds and merges");
}

#[test]
fn positions_that_a_crash_took_back_may_be_given_again() {
    let mut world = World::new(1, small());
    world.insert_new(10);
    world.sync_journal();
    world.insert_new(20);
    world.maintain(30).expect("the disk works");
    world.disk.crash();
    world.recover();
    assert_eq!(world.end(), Position(10));
    world.insert_new(30);
    world.sync_journal();
    world.maintain(60).expect("the disk works");
    world.check();
}
