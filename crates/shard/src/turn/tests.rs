//! Over the logs of [`crate::notes`]: what a turn says of the group, the log and the disk.

use tidegate_disk::FakeDisk;
use tidegate_journal::step::Step;
use tidegate_journal::{Cursor, Logs, Opened, StepLog};

use super::*;
use crate::notes::{Notes, SMALL, id, logs};

const NOW: TimeMs = TimeMs(1);

fn open(disk: &FakeDisk) -> Core<Notes, StepLog<FakeDisk>> {
    let Opened { log, .. } = logs(disk).open(id(), Cursor::START, SMALL).unwrap();
    Core::new(Notes::default(), log).unwrap()
}

/// Steps the log until it has nothing to do.
fn settle(core: &mut Core<Notes, StepLog<FakeDisk>>) {
    while core.log.step().unwrap() != Step::Idle {}
}

#[test]
fn a_group_is_counted_once_and_its_durability_is_news_once() {
    let mut core = open(&FakeDisk::new(1));
    assert!(core.is_group_empty() && core.turn(NOW).is_group_empty());
    assert!(!core.submit().unwrap(), "there is nothing to submit");
    for groups in 1..=3 {
        for number in 0..2 {
            core.turn(NOW).append(&number).unwrap();
        }
        assert!(!core.is_group_empty() && !core.turn(NOW).is_group_empty());
        assert!(core.submit().unwrap());
        assert_eq!(core.counts(), (2 * groups, groups));
        assert!(core.is_group_empty() && core.turn(NOW).is_group_empty());
        assert!(!core.poll().unwrap(), "it is not durable yet");
        settle(&mut core);
        assert!(core.poll().unwrap());
        assert!(!core.poll().unwrap(), "it was said before");
        assert_eq!(core.durable().sequence(), core.appended());
    }
}

/// Groups of one record of this class, until there is no more room for one; how many.
fn fill(core: &mut Core<Notes, StepLog<FakeDisk>>, class: RecordClass) -> usize {
    for groups in 0..1_000 {
        if core.turn(NOW).room_for(class, 1) != Room::Available {
            return groups;
        }
        core.turn(NOW).append_of(class, &1).unwrap();
        assert!(core.submit().unwrap() && !core.is_stuck(), "what was begun is taken");
        settle(core);
        core.poll().unwrap();
    }
    panic!("the disk does not become full");
}

#[test]
fn on_a_full_disk_what_is_new_goes_without_and_what_makes_room_has_the_last_of_it() {
    use RecordClass::{New, Note, Return};
    let disk = FakeDisk::new(1);
    let mut core = open(&disk);
    assert!(!core.turn(NOW).is_disk_full(New));
    assert_eq!(core.turn(NOW).room(1), Room::Available);
    assert_eq!(core.turn(NOW).room(1 << 20), Room::TooLarge, "no group is so large");
    disk.set_capacity(disk.used_bytes());
    // Groups are written until the room that was claimed before is used up.
    for class in [New, Return, Note] {
        assert!(fill(&mut core, class) > 1, "{class:?} has room of its own");
        assert!(core.is_group_empty() && core.turn(NOW).is_disk_full(class));
        assert_eq!([1, 1 << 20].map(|bytes| core.turn(NOW).room_for(class, bytes)), [Room::DiskFull; 2]);
    }
    disk.set_capacity(u64::MAX);
    settle(&mut core);
    assert!(!core.turn(NOW).is_disk_full(New));
    assert_eq!(core.turn(NOW).room(1), Room::Available);
}

#[test]
fn a_group_that_was_begun_with_the_last_of_the_room_takes_nothing_new() {
    use RecordClass::{New, Note, Return};
    let disk = FakeDisk::new(1);
    let mut core = open(&disk);
    disk.set_capacity(disk.used_bytes());
    core.turn(NOW).append_of(Note, &1).unwrap();
    assert_eq!(core.turn(NOW).room(1), Room::Available, "there was room for anything");
    for (used_up, returns) in [(New, Room::Available), (Return, Room::DiskFull)] {
        assert!(core.submit().unwrap());
        settle(&mut core);
        core.poll().unwrap();
        fill(&mut core, used_up);
        core.turn(NOW).append_of(Note, &1).unwrap();
        let rooms = [New, Return, Note].map(|class| core.turn(NOW).room_for(class, 1));
        assert_eq!(rooms, [Room::DiskFull, returns, Room::Available], "without room for {used_up:?}");
    }
}
