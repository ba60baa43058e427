//! The follower, with invented clocks; and the node's clock, with those of this machine.

use super::*;

const YEARS_10_MS: i64 = 10 * 365 * 86_400_000;
const NOON: i64 = 1_795_000_000_000;

/// Looks each 100 ms for so many seconds; the wall clock is `ahead` of a right one. Returns the jumps.
fn follow(follower: &mut Follower, boot_ms: &mut i64, seconds: i64, ahead_ms: i64) -> Vec<i64> {
    let mut jumps = Vec::new();
    for _ in 0..seconds * 10 {
        let before = follower.time_ms(*boot_ms);
        *boot_ms += 100;
        let observed = follower.observe(*boot_ms, NOON + *boot_ms + ahead_ms).expect("100 ms have passed");
        jumps.extend(observed.jump_ms);
        let passed = follower.time_ms(*boot_ms) - before;
        assert!((95..=105).contains(&passed), "{passed} ms passed in 100");
    }
    jumps
}

#[test]
fn ten_years_forward_and_back_change_nothing() {
    let (mut follower, mut boot) = (Follower::new(NOON, 0), 0);
    assert_eq!(follow(&mut follower, &mut boot, 10, YEARS_10_MS), [YEARS_10_MS]);
    assert_eq!(follower.time_ms(boot), NOON + 10_000);
    assert_eq!(follow(&mut follower, &mut boot, 10, 0), [-YEARS_10_MS]);
    assert_eq!(follower.time_ms(boot), NOON + 20_000);
}

#[test]
fn a_minute_is_made_up_for_in_twenty() {
    let (mut follower, mut boot) = (Follower::new(NOON, 0), 0);
    assert_eq!(follow(&mut follower, &mut boot, 1_200, 60_000), [60_000]);
    assert_eq!(follower.time_ms(boot), NOON + boot + 60_000);
    assert_eq!(follow(&mut follower, &mut boot, 600, 0), [-60_000]);
    assert_eq!(follower.time_ms(boot), NOON + boot + 30_000, "half way back");
}

#[test]
fn what_is_more_than_an_hour_away_is_followed_when_it_comes_closer() {
    let (mut follower, mut boot) = (Follower::new(NOON, 0), 0);
    let too_far = FOLLOWED_MAX_MS + 1;
    follow(&mut follower, &mut boot, 60, too_far);
    assert_eq!(follower.time_ms(boot), NOON + boot);
    follow(&mut follower, &mut boot, 60, FOLLOWED_MAX_MS);
    assert_eq!(follower.time_ms(boot), NOON + boot + 3_000);
}

#[test]
fn small_differences_are_no_jumps() {
    let (mut follower, mut boot) = (Follower::new(NOON, 0), 0);
    assert!(follow(&mut follower, &mut boot, 10, 400).is_empty());
    assert!(follow(&mut follower, &mut boot, 10, -400).is_empty());
    assert_eq!(follower.observe(boot + 99, NOON), None, "too early to look");
}

#[test]
fn a_node_begins_with_the_wall_clock() {
    let clock = NodeClock::start();
    assert!((clock.now().0 as i64 - wall_ms()).abs() < 60_000);
}
