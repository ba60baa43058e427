//! Random histories.

use proptest::prelude::*;

use super::*;
use crate::room::told::told;

#[derive(Clone, Debug)]
enum Act {
    /// A hash of a few, at both ends of the range or with the same low half, for one of the ids that share it: both get
    /// several positions.
    InsertKnown {
        hash: u64,
        id: u64,
        gap: u64,
    },
    InsertNew(u64),
    /// One of two ids that share a hash and a time, which may be near that of the clock, or not any more.
    InsertTimed {
        hash: u64,
        id: u64,
        minute: u32,
    },
    /// The clock goes on.
    Later(u32),
    /// All that is durable is to be in runs.
    Cover,
    /// Lookups of known hashes begin.
    Look,
    /// They end, and what was inserted since is found with them.
    FindLooked,
    SyncJournal,
    Maintain(usize),
    CrashAfter(u64),
    FailSync,
    Kill,
    Crash,
    Check,
}

/// The greatest hash.
const MANY: u64 = (1 << 47) - 1;

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (prop_oneof![0..4u64, (0..3u64).prop_map(|high| high << 32), MANY - 2..=MANY], 0..3u64, 1..50u64)
            .prop_map(|(hash, id, gap)| Act::InsertKnown { hash, id, gap }),
        4 => (1..20u64).prop_map(Act::InsertNew),
        6 => (0..2u64, 0..2u64, 0..12u32).prop_map(|(hash, id, minute)| Act::InsertTimed { hash, id, minute }),
        2 => (0..100u32).prop_map(Act::Later),
        1 => Just(Act::Cover),
        2 => Just(Act::Look),
        2 => Just(Act::FindLooked),
        4 => Just(Act::SyncJournal),
        6 => (1..12usize).prop_map(Act::Maintain),
        1 => (0..30u64).prop_map(Act::CrashAfter),
        1 => Just(Act::FailSync),
        1 => Just(Act::Kill),
        1 => Just(Act::Crash),
        2 => Just(Act::Check),
    ]
}

fn options() -> impl Strategy<Value = IdsOptions> {
    (1..9usize, 2..5usize, 1..200usize).prop_map(|(freeze_at, fan_out, filter_ids_first)| IdsOptions {
        freeze_at,
        fan_out,
        filter_ids_first,
        ..small()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn what_was_inserted_is_found_whatever_happens(
        seed: u64,
        options in options(),
        acts in prop::collection::vec(act(), 1..120),
    ) {
        let mut world = World::new(seed, options);
        let mut looked = Vec::new();
        for act in acts {
            if matches!(act, Act::Kill | Act::Crash | Act::Check) {
                looked.clear();
            }
            match act {
                Act::InsertKnown { hash: n, id, gap } => world.insert(hash(n), id, gap),
                Act::InsertTimed { hash: n, id, minute } => {
                    let (seconds, n) = (900 + 60 * minute, 1_000_000 + 2 * u64::from(minute) + n);
                    world.insert(IdHash { seconds, window: 60, ..hash(n) }, id, 1)
                }
                Act::Later(seconds) => world.now += seconds,
                Act::Cover => world.index.cover(world.durable),
                Act::Look if world.disk.has_stopped() => {}
                Act::Look => {
                    for record in world.journal.iter().rev().step_by(3).take(5) {
                        looked.push((record.hash, record.id, world.look(record.hash)));
                    }
                }
                Act::FindLooked => {
                    for (hash, id, looked) in looked.drain(..) {
                        let newest = world.journal.iter().rev().find(|of| (of.hash, of.id) == (hash, id));
                        let is_it = |at| -> Result<bool, Unsettled> {
                            Ok(world.journal.iter().any(|of| (of.position, of.id) == (at, id)))
                        };
                        let found = world.index.find_newest(hash, &looked, is_it).expect("it was looked for");
                        prop_assert_eq!(found, newest.map(|record| record.position));
                    }
                }
                Act::InsertNew(count) => world.insert_new(count),
                Act::SyncJournal => world.sync_journal(),
                Act::Maintain(times) => world.maintain(times).expect("I/O errors are tried again"),
                Act::CrashAfter(operations) => world.disk.crash_after_ops(operations),
                Act::FailSync => world.disk.fail_next_sync(),
                Act::Kill => {
                    world.disk.kill();
                    world.recover();
                }
                Act::Crash => {
                    world.disk.crash();
                    world.recover();
                }
                Act::Check if world.disk.has_stopped() => {
                    world.disk.crash();
                    world.recover();
                }
                Act::Check => world.check(),
            }
            prop_assert_eq!(&world.discarded, &None, "a crash is no damage");
        }
        world.disk.crash();
        world.recover();
        prop_assert_eq!(&world.discarded, &None);
        world.check();
    }
}

#[test]
fn many_tables_become_few_runs_and_old_files_go() {
    let mut world = World::new(1, small());
    for _ in 0..100 {
        world.insert_new(4);
        world.sync_journal();
        world.maintain(8).expect("the disk works");
        assert!(!world.index.is_behind());
    }
    world.maintain(100).expect("the disk works");
    let facts = world.index.facts();
    assert_eq!(world.index.covered(), Position(396), "the last table waits for the next insert");
    // 99 tables = 1 x 81 + 2 x 9 + 0 x 3 + 0 x 1. Numbers are given to each table and each merge: 99 + 33 + 11 + 3 + 1.
    assert_eq!(facts.runs, 3);
    let names: Vec<_> = world.run_files().iter().map(|path| path.file_name().expect("a file").to_owned()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    world.insert_new(1);
    world.sync_journal();
    world.maintain(2).expect("the disk works");
    assert!(world.run_files().contains(&dir().join("0000000148.run")), "{:?}", world.run_files());
    world.check();
}

#[test]
fn merging_keeps_up_with_tables_that_come_all_at_once() {
    let mut world = World::new(1, small());
    world.insert_new(4 * 200);
    world.sync_journal();
    let mut runs_max = 0;
    while world.index.covered() < Position(4 * 199) {
        world.maintain(1).expect("the disk works");
        runs_max = runs_max.max(world.index.facts().runs);
    }
    // Twice the fan-out in each of four tiers.
    assert!((6..=24).contains(&runs_max), "{runs_max} runs at a time, of 199 tables");
    world.check();
}

#[test]
fn a_table_is_not_written_before_its_records_are_durable() {
    let mut world = World::new(1, small());
    world.insert_new(40);
    world.maintain(20).expect("the disk works");
    assert_eq!((world.run_files(), world.index.covered()), (Vec::new(), Position(0)));
    assert!(world.index.is_behind());
    world.durable = Position(8);
    world.maintain(20).expect("the disk works");
    assert_eq!(world.index.covered(), Position(4), "a table ends at 8, but the journal must be durable beyond it");
    world.sync_journal();
    world.maintain(60).expect("the disk works");
    assert_eq!(world.index.covered(), Position(36));
    assert!(!world.index.is_behind());
    world.check();
}

#[test]
#[should_panic(expected = "positions increase: 9 after 28")]
fn a_record_that_a_run_covers_is_not_inserted_again() {
    let mut world = World::new(1, small());
    world.insert_new(30);
    world.sync_journal();
    world.maintain(60).expect("the disk works");
    world.disk.kill();
    let Opened { mut index, .. } = open(&world.disk, world.options, world.end());
    index.insert(hash(1), Position(9), 0);
}

#[test]
#[should_panic(expected = "positions increase: 5 after 9")]
fn a_position_that_goes_back_is_a_bug() {
    let mut world = World::new(1, small());
    world.insert(hash(1), 1, 9);
    world.index.insert(hash(2), Position(5), 0);
}

#[test]
fn catching_up_ends_the_delay_and_says_when_the_disk_does_not_let_it() {
    let mut world = World::new(1, small());
    world.insert_new(400);
    world.sync_journal();
    world.index.catch_up(place(world.durable)).expect("the disk works");
    assert!(!world.index.is_behind());
    world.insert_new(400);
    world.sync_journal();
    world.disk.set_capacity(world.disk.used_bytes());
    let error = world.index.catch_up(place(world.durable)).expect_err("there is no room");
    assert!(error.to_string().contains("cannot claim room for /data/ids/"), "{error}");
    // Behind the first step, which it does as always.
    assert_eq!(world.index.facts().retries, 1 + u64::from(RETRIES_MAX) + 1);
}

#[test]
fn catching_up_tries_again_and_waits_for_nothing_that_cannot_come() {
    let mut world = World::new(1, small());
    world.insert_new(40);
    world.index.catch_up(place(world.durable)).expect("the disk works");
    assert!(world.index.is_behind(), "nothing is durable that could be written");
    world.sync_journal();
    world.disk.fail_next_sync();
    world.index.catch_up(place(world.durable)).expect("one failure is not the end");
    assert!(!world.index.is_behind());
    assert_eq!(world.index.facts().retries, 1);
}

#[test]
fn a_full_disk_delays_runs_and_loses_nothing() {
    let mut world = World::new(1, small());
    assert_eq!(told(|| world.maintain(5).expect("there is nothing to do")), [] as [&str; 0]);
    world.disk.set_capacity(0);
    world.insert_new(40);
    world.sync_journal();
    let lines = told(|| world.maintain(20).expect("a full disk is no failure of the index"));
    assert!(world.index.is_behind());
    assert!(world.index.facts().retries >= 20 && world.index.facts().is_failing);
    let says = ["WARN", "shard=0", "cannot claim room for /data/ids/", "Nothing is lost", "memory grows"];
    assert!(lines.len() == 1 && says.iter().all(|word| lines[0].contains(word)), "{lines:?}");
    world.check();
    world.disk.set_capacity(u64::MAX);
    let lines = told(|| world.maintain(60).expect("the disk works"));
    assert!(lines.len() == 1 && lines[0].starts_with("INFO") && lines[0].contains("can be written again"), "{lines:?}");
    assert!(!world.index.is_behind() && !world.index.facts().is_failing);
    assert_eq!(world.index.covered(), Position(36));
    world.check();
}

#[test]
fn a_failed_sync_is_followed_by_a_new_file() {
    let mut world = World::new(1, small());
    world.insert_new(5);
    world.sync_journal();
    world.disk.fail_next_sync();
    world.maintain(4).expect("it tries again");
    assert_eq!(world.index.facts().retries, 1);
    assert_eq!(world.run_files(), [dir().join("0000000002.run")]);
    world.disk.crash();
    world.recover();
    world.check();
}

#[test]
fn entries_of_one_hash_may_fill_pages_and_hashes_may_share_their_top_half() {
    let mut world = World::new(1, IdsOptions { freeze_at: 2000, ..small() });
    for n in 0..2000u64 {
        // 600 entries of one hash span four pages; the rest differ in the half that fences do not hold.
        let low = if n < 600 { 500 } else { n };
        world.insert(hash(7 << 32 | low), n % 7, 1);
    }
    world.insert_new(1);
    world.sync_journal();
    world.maintain(4).expect("the disk works");
    assert_eq!(world.index.covered(), Position(2000));
    world.check();
    assert_eq!(world.find_newest(hash(7 << 32 | 500), UNKNOWN).pages_read, 3);
}

#[test]
fn memory_is_asked_before_any_page_and_nothing_after_what_was_accepted() {
    let mut world = World::new(1, small());
    let hash = hash(5 << 40);
    for id in [1, 2, 1, 2, 3] {
        world.insert(hash, id, 1);
        world.insert_new(3);
    }
    world.sync_journal();
    world.maintain(60).expect("the disk works");
    assert_eq!((world.index.covered(), world.end()), (Position(16), Position(20)));
    for path in world.run_files() {
        assert!(world.disk.flip_bit(&path, run::PAGE_BYTES as u64 + 99, 1));
    }
    let answer = world.find_newest(hash, 3);
    assert_eq!((answer.found.expect("no run is read"), answer.offered), (Some(Position(17)), vec![Position(17)]));
    assert_eq!(answer.pages_read, 0);
    let answer = world.find_newest(hash, 2);
    assert_eq!(answer.offered, [Position(17)], "what follows is damaged, and not skipped");
    let error = answer.found.expect_err("a page is damaged");
    assert!(matches!(*error, IdsError::Damaged { .. }), "{error}");
}

#[test]
fn a_candidate_that_cannot_be_read_ends_the_search() {
    let mut world = World::new(1, small());
    world.insert(hash(7), 1, 1);
    world.insert(hash(7), 1, 1);
    let mut asked = 0;
    let found = world.index.find_newest(hash(7), &Looked::default(), |_| -> Result<bool, Unsettled> {
        asked += 1;
        Err(Unsettled::PagesUnread)
    });
    assert!(matches!((&found, asked), (Err(Unsettled::PagesUnread), 1)), "{found:?}, {asked}");
}

#[test]
fn a_filter_that_is_too_small_costs_pages_and_changes_no_answer() {
    let mut world = World::new(1, IdsOptions { freeze_at: 1_000, fan_out: 10, filter_bytes_max: 4096 * 4, ..small() });
    world.insert_new(9_000);
    world.sync_journal();
    world.maintain(300).expect("the disk works");
    world.check();
    let before = world.index.facts();
    assert_eq!(before.filter_bytes, 4096, "room for 1,365 ids at full precision");
    let tries = 1_000;
    for n in 0..tries {
        let unknown = world.index.hash(format!("never seen {n}").as_bytes());
        world.check_answer(unknown, UNKNOWN, &[], None);
    }
    let after = world.index.facts();
    let (misled, pages) = (after.false_positives - before.false_positives, after.pages_read - before.pages_read);
    assert!((tries / 10..tries).contains(&misled), "{misled} of {tries}");
    assert!(pages >= misled, "{pages} pages for {misled}: each reads a page of each run of that age");
}
