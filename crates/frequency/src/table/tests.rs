//! Cases for one thread and several; the `loom_` tests walk through every interleaving (`RUSTFLAGS="--cfg loom"`).

use super::*;

const CAP: Cap = Cap { count_max: 3, window_s: 60 };
const NOW_S: u64 = 1_795_000_000;

/// A user, and for whom it is seen. All of them are of one bucket in a table of few users.
fn user(number: u64, owner: u8) -> User {
    User { hash: number << FINGERPRINT_AT, owner }
}

#[cfg(not(loom))]
mod threads {
    use super::*;

    #[test]
    fn a_user_is_seen_so_often_in_a_window() {
        let table = FrequencyTable::new(1_024);
        let user = User { hash: 0x1234_5678_9abc_def0, owner: 7 };
        let seen: Vec<bool> = [0, 1, 59, 59, 60, 61, 62, 63].map(|s| table.count(user, CAP, NOW_S + s)).into();
        assert_eq!(seen, [true, true, true, false, true, true, true, false]);
        assert!(!table.count(User { owner: 8, ..user }, CAP, NOW_S + 64), "whoever it is for now");
        assert!(table.count(User { hash: user.hash ^ 1 << 40, ..user }, CAP, NOW_S + 1), "another user");
    }

    #[test]
    fn the_window_that_ends_next_is_forgotten_where_there_is_no_room() {
        let table = FrequencyTable::new(WAYS);
        for number in 1..=WAYS as u64 {
            let cap = Cap { count_max: 1, window_s: 100 - number as u32 };
            assert!(table.count(user(number, 0), cap, NOW_S) && !table.count(user(number, 0), cap, NOW_S));
        }
        assert_eq!(table.forgotten(), 0);
        assert!(table.count(user(99, 0), CAP, NOW_S));
        assert_eq!(table.forgotten(), 1);
        let cap = Cap { count_max: 1, window_s: 99 };
        assert!(!table.count(user(1, 0), cap, NOW_S), "its window is the longest");
        assert!(table.count(user(WAYS as u64, 0), cap, NOW_S), "its window was the shortest");
    }

    #[test]
    fn an_owner_with_many_users_has_none_of_others_forgotten_while_they_have_no_more_than_their_share() {
        const ONCE: Cap = Cap { count_max: 1, window_s: 60 };
        let table = FrequencyTable::new(WAYS);
        let flood = |first: u64| {
            let seen = (0..100).filter(|number| table.count(user(first + number, 1), ONCE, NOW_S)).count();
            assert_eq!(seen, 100, "all of them are new");
        };
        let others =
            |count: u64| (0..count).filter(|number| !table.count(user(1_000 + number, 2), ONCE, NOW_S)).count();
        flood(0);
        assert_eq!(others(4), 0, "they are new, and take the cells of who has the most");
        flood(200);
        assert_eq!(others(4), 4);
        // A third one gets a share, too; the second has no more than the first then.
        assert!((0..2).all(|number| table.count(user(2_000 + number, 3), ONCE, NOW_S)));
        flood(400);
        assert!((0..2).all(|number| !table.count(user(2_000 + number, 3), ONCE, NOW_S)));
        assert!(table.count(user(3_000, 2), ONCE, NOW_S + 61), "what has ended is taken first");
    }

    #[test]
    fn what_several_threads_see_is_all_counted() {
        let table = FrequencyTable::new(64);
        let cap = Cap { count_max: 200, window_s: 60 };
        let seen: usize = std::thread::scope(|scope| {
            let see = || (0..100).filter(|_| table.count(user(7, 0), cap, NOW_S)).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(see)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(seen, 200);
    }
}

#[cfg(loom)]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// How often each thread's users may be seen: in every interleaving, and whatever old values a cell is read with.
    fn seen(before: fn(&FrequencyTable), users: [&'static [(u64, Cap, u64)]; 2], check: fn([Vec<bool>; 2])) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let table = Arc::new(FrequencyTable::new(WAYS));
            before(&table);
            let count = |table: &FrequencyTable, users: &[(u64, Cap, u64)]| {
                users
                    .iter()
                    .map(|(number, cap, now_s)| table.count(of_two(*number), *cap, *now_s))
                    .collect::<Vec<bool>>()
            };
            let other = thread::spawn({
                let table = table.clone();
                move || count(&table, users[1])
            });
            let here = count(&table, users[0]);
            check([here, other.join().unwrap()]);
        });
    }

    /// Those from 100 on are of another owner.
    fn of_two(number: u64) -> User {
        user(number, (number >= 100).into())
    }

    fn total(seen: &[Vec<bool>; 2]) -> usize {
        seen.iter().flatten().filter(|seen| **seen).count()
    }

    /// Two workers see a user for the first time, and again.
    #[test]
    fn loom_a_cap_holds_for_two_workers() {
        let users: &[_] = &[(7, CAP, NOW_S), (7, CAP, NOW_S)];
        seen(|_| {}, [users, users], |seen| assert_eq!(total(&seen), 3, "{seen:?}"));
    }

    /// The last time that is left is given to one of them.
    #[test]
    fn loom_the_last_one_goes_to_one_worker() {
        let before = |table: &FrequencyTable| assert!((0..2).all(|_| table.count(user(7, 0), CAP, NOW_S)));
        let users: &[_] = &[(7, CAP, NOW_S)];
        seen(before, [users, users], |seen| assert_eq!(total(&seen), 1, "{seen:?}"));
    }

    /// A window ends: one of the two begins the next, and the other counts in it.
    #[test]
    fn loom_a_new_window_is_begun_once() {
        const ONCE: Cap = Cap { count_max: 1, window_s: 60 };
        let before = |table: &FrequencyTable| assert!(table.count(user(7, 0), ONCE, NOW_S - 60));
        let users: &[_] = &[(7, ONCE, NOW_S)];
        seen(before, [users, users], |seen| assert_eq!(total(&seen), 1, "{seen:?}"));
    }

    /// Both take cells from users that are remembered, and do not lose what the other one has counted.
    #[test]
    fn loom_a_cap_holds_while_others_are_forgotten() {
        const ONCE: Cap = Cap { count_max: 1, window_s: 60 };
        let before = |table: &FrequencyTable| {
            assert!(table.count(user(1, 0), Cap { window_s: 20, ..ONCE }, NOW_S));
            assert!(table.count(user(2, 0), Cap { window_s: 30, ..ONCE }, NOW_S));
        };
        let users: [&[_]; 2] = [&[(7, ONCE, NOW_S)], &[(8, ONCE, NOW_S), (7, ONCE, NOW_S)]];
        seen(before, users, |seen| {
            assert!(seen[1][0], "{seen:?}");
            assert_eq!(seen[0][0] as usize + seen[1][1] as usize, 1, "{seen:?}");
        });
    }

    /// One owner has the whole bucket, and two workers see the first user of another one.
    #[test]
    fn loom_a_cap_holds_while_an_owner_gets_its_share() {
        const ONCE: Cap = Cap { count_max: 1, window_s: 60 };
        let before = |table: &FrequencyTable| assert!([1, 2].iter().all(|of| table.count(user(*of, 0), ONCE, NOW_S)));
        let users: [&[_]; 2] = [&[(107, ONCE, NOW_S)], &[(107, ONCE, NOW_S), (8, ONCE, NOW_S), (107, ONCE, NOW_S)]];
        seen(before, users, |seen| {
            assert!(seen[1][1], "{seen:?}");
            assert_eq!(total(&seen), 2, "{seen:?}");
        });
    }

    /// Clocks that differ at the end of another user's window, which has ended for one of the two: they choose the same
    /// cell all the same.
    #[test]
    fn loom_a_cap_holds_for_clocks_that_differ() {
        const ONCE: Cap = Cap { count_max: 1, window_s: 60 };
        let before = |table: &FrequencyTable| {
            assert!(table.count(user(1, 0), Cap { window_s: 1, ..ONCE }, NOW_S));
            assert!(table.count(user(2, 0), Cap { window_s: 1, ..ONCE }, NOW_S - 1));
        };
        let users: [&[_]; 2] = [&[(7, ONCE, NOW_S), (7, ONCE, NOW_S)], &[(7, ONCE, NOW_S + 1), (7, ONCE, NOW_S + 1)]];
        seen(before, users, |seen| assert_eq!(total(&seen), 1, "{seen:?}"));
    }
}
