//! Ids with times look only where they can be, and are found wherever they are.

use super::*;

const DAY: u32 = 86_400;

fn timed(world: &World, n: u64, seconds: u32) -> IdHash {
    IdHash { seconds, window: 60, ..world.index.hash(&n.to_le_bytes()) }
}

/// A hundred tables, an id a second.
fn a_history_of_times() -> World {
    let mut world = World::new(1, IdsOptions { freeze_at: 100, filter_bytes_max: 1 << 16, ..small() });
    for n in 0..10_000u64 {
        world.now = DAY + n as u32;
        let hash = timed(&world, n, world.now);
        world.insert(hash, n, 1);
        if n % 50 == 0 {
            world.sync_journal();
            world.maintain(4).expect("the disk works");
        }
    }
    world.sync_journal();
    world.maintain(100).expect("the disk works");
    world
}

#[test]
fn a_new_id_of_now_asks_no_large_run_whatever_the_filters_say() {
    let world = a_history_of_times();
    assert!(world.index.filtered >= 1 && world.index.facts().filter_bytes > 0);
    let before = world.index.facts();
    for n in 0..2_000u64 {
        let hash = timed(&world, u64::MAX - n, world.now + 1);
        assert!(world.index.filtered().all(|run| !run.may_hold(hash)), "no run is of that time");
        world.check_answer(hash, UNKNOWN, &[], None);
    }
    assert_eq!(world.index.facts().pages_read, before.pages_read);
    world.check();
}

#[test]
fn a_retry_is_found_however_late_it_comes() {
    let mut world = a_history_of_times();
    world.now += 100 * 365 * DAY;
    world.disk.crash();
    world.recover();
    assert_eq!(world.discarded, None);
    world.check();
}

#[test]
fn forged_times_do_not_widen_what_others_must_ask() {
    let mut world = a_history_of_times();
    let (now, mut forged) = (world.now, Vec::new());
    for n in 0..4_000u64 {
        // An honest id each second, and a forged one of any time between 1970 and 2106.
        world.now += 1;
        let honest = timed(&world, 1_000_000 + n, world.now);
        world.insert(honest, 1_000_000 + n, 1);
        let seconds = (n as u32).wrapping_mul(2_654_435_761).max(1);
        let hash = timed(&world, 2_000_000 + n, seconds);
        world.insert(hash, 2_000_000 + n, 1);
        forged.push((hash, 2_000_000 + n, world.end()));
        world.sync_journal();
        world.maintain(2).expect("the disk works");
    }
    world.maintain(100).expect("the disk works");
    let widest = world
        .index
        .filtered()
        .map(|run| run.header().times)
        .fold((u32::MAX, 0), |(from, to), (first, last)| (from.min(first), to.max(last)));
    assert!(widest.0 >= DAY - 60 && widest.1 <= world.now + 60, "{widest:?}, clock {now} to {}", world.now);
    for (hash, id, position) in forged {
        assert_eq!(world.find_newest(hash, id).found.expect("the disk works"), Some(position));
    }
    world.check();
}
