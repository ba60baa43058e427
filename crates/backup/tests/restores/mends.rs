//! Restores at a place of a history in which a clock was wrong and the time was mended.

use std::path::{Path, PathBuf};

use tidegate_backup::{At, Moment, Reread, restore};
use tidegate_journal::directory::Directory;
use tidegate_journal::{Cursor, LogId, LogStore};
use tidegate_machines::TimeMs;
use tidegate_shard::ShardFamily;

use crate::notes::{Forgets, KNOWN, Note, Whole, note, open, restored, served, taken, wanted, write};

const HOUR: u64 = 3_600_000;
const YEARS: u64 = 10 * 365 * 24 * HOUR;

/// A record that sets the time of its log to `time` after it was `was`.
pub fn mend(number: u32, was: u64, time: u64) -> Note {
    Note { mended_from: Some(TimeMs(was)), ..note(number, time) }
}

/// Notes of these times, numbered from `first` on.
fn notes(first: u32, times: &[u64]) -> Vec<Note> {
    times.iter().zip(first..).map(|(time, number)| note(number, *time)).collect()
}

/// A backup, taken at `taken_at`, of these notes in the logs of the first family, and in that of the second one.
pub struct Backup {
    pub root: tempfile::TempDir,
    ids: Vec<LogId>,
}

impl Backup {
    pub fn of(whole: &[&[Note]; 2], others: &[Note], taken_at: u64) -> Backup {
        let root = tempfile::tempdir().expect("a folder");
        let data = root.path().join("data");
        let directory = Directory::open_or_create(&data, &wanted(), 1).expect("it is made");
        let mut ids: Vec<LogId> = directory.logs(Whole::FAMILY).collect();
        ids.extend(directory.logs(Forgets::FAMILY));
        for (id, notes) in ids.iter().zip(whole.iter().copied().chain([others])) {
            let mut log = open(&data, *id, Cursor::START);
            write(&mut log, notes);
            log.close().expect("it ends in order");
        }
        taken(&data, &root.path().join("backups"), Reread::Open, taken_at);
        Backup { root, ids }
    }

    pub fn backups(&self) -> PathBuf {
        self.root.path().join("backups")
    }

    /// Ends of all logs in a directory restored at `at`, of which a start serves exactly so many notes.
    pub fn ends(&self, at: &str) -> [u64; 3] {
        let copy = self.root.path().join(format!("at-{at}"));
        let told = restored(&self.backups(), &copy, &at.parse().expect("a place")).logs;
        let ends = [0, 1, 2].map(|log: usize| told[log].end.0);
        let served = |log: usize, served: Vec<u32>| assert_eq!(served, (0..ends[log] as u32).collect::<Vec<_>>());
        drop(Directory::open_or_create(&copy, &wanted(), 1).expect("it is a data directory"));
        served(0, crate::served::<Whole>(&copy, self.ids[0]));
        served(1, crate::served::<Whole>(&copy, self.ids[1]));
        served(2, crate::served::<Forgets>(&copy, self.ids[2]));
        ends
    }

    /// How many of the last records of the third log are kept although they say a later time.
    fn later(&self, at: &str) -> u64 {
        let copy = self.root.path().join(format!("later-{at}"));
        restored(&self.backups(), &copy, &at.parse().expect("a place")).logs[2].later
    }

    /// The words of a refusal, which makes nothing.
    fn refused(&self, at: &str) -> String {
        let copy = self.root.path().join("refused");
        let at: At = at.parse().expect("a place");
        let refused = restore(&self.backups(), &copy, None, &at, &KNOWN, Moment(9_000_000), &mut |_, _| {});
        assert!(!copy.exists());
        refused.expect_err("nobody can tell").to_string()
    }
}

pub fn at(time: u64) -> String {
    Moment(time).to_string()
}

/// Right until 1 h, a clock that is ten years ahead, mended to 2 h, right again.
fn ten_years_ahead() -> Vec<Note> {
    let ahead = HOUR + YEARS;
    let mut all = notes(0, &[HOUR - 2_000, HOUR - 1_000, HOUR]);
    all.extend(notes(3, &[ahead, ahead + 1_000]));
    all.push(mend(5, ahead + 1_000, 2 * HOUR));
    all.extend(notes(6, &[2 * HOUR + 1_000, 2 * HOUR + 2_000, 2 * HOUR + 3_000]));
    all
}

#[test]
fn a_time_behind_a_mend_is_looked_for_behind_it() {
    let whole = ten_years_ahead();
    let backup = Backup::of(&[&whole, &[]], &[], 3 * HOUR);
    for (time, end) in [(HOUR - 1_000, 2), (HOUR, 3), (2 * HOUR + 1_500, 7), (2 * HOUR + 2_000, 8), (3 * HOUR, 9)] {
        assert_eq!(backup.ends(&at(time)), [end, 0, 0], "{}", at(time));
    }
    let later = backup.refused(&at(5 * HOUR));
    assert!(later.contains("the backup was taken at 1970-01-01T03:00:00.000Z"), "{later}");
    // When the clock was wrong, and nobody can tell what of that was when.
    let refused = backup.refused(&at(HOUR + 1));
    for words in [
        "nobody can tell what had been decided by then",
        "whole-0: sequence 4 to 5, until it was mended to 1970-01-01T02:00:00.000Z",
        "--at 0:3,1:0 is before them, --at 0:5,1:0 is behind them",
    ] {
        assert!(refused.contains(words), "{words:?} is not in: {refused}");
    }
    assert_eq!(backup.refused(&at(2 * HOUR - 1)).replace("01:59:59.999Z", "01:00:00.001Z"), refused);
    assert_eq!((backup.ends("0:3,1:0"), backup.ends("0:5,1:0")), ([3, 0, 0], [5, 0, 0]));
    // When it had been mended, and nothing was written yet.
    assert_eq!([2 * HOUR, 2 * HOUR + 999].map(|time| backup.ends(&at(time))), [[6, 0, 0]; 2]);
    // A time that only the wrong clock had shown.
    let refused = backup.refused(&at(HOUR + YEARS + 500));
    for words in [
        "the history has this time more than once",
        "--at 0:4,1:0 is the place before the time was mended (sequence 6 of whole-0)",
        "--at 0:9,1:0 is the place behind that",
    ] {
        assert!(refused.contains(words), "{words:?} is not in: {refused}");
    }
}

#[test]
fn a_time_before_all_of_a_wrong_clock_names_what_there_is() {
    let mut whole = notes(0, &[YEARS, YEARS + 1]);
    whole.push(mend(2, YEARS + 1, HOUR));
    let backup = Backup::of(&[&whole, &[]], &[], 3 * HOUR);
    let refused = backup.refused(&at(HOUR - 1));
    let words = "no record is before them, --at 0:2,1:0 is behind them and before the time was mended";
    assert!(refused.contains(words), "{refused}");
    assert_eq!((backup.ends("0:3,1:0"), backup.ends(&at(HOUR))), ([3, 0, 0], [3, 0, 0]));
}

#[test]
fn another_shard_that_went_on_shows_that_the_clock_was_still_right() {
    let whole = ten_years_ahead();
    let mut other = notes(0, &[HOUR + 5_000]);
    other.push(mend(1, HOUR + 5_000, 2 * HOUR));
    let backup = Backup::of(&[&whole, &other], &[], 3 * HOUR);
    assert_eq!(backup.ends(&at(HOUR + 4_000)), [3, 0, 0]);
    let refused = backup.refused(&at(HOUR + 6_000));
    assert!(refused.contains("--at 0:3,1:1 is before them, --at 0:5,1:1 is behind them"), "{refused}");
}

#[test]
fn of_several_mends_the_newest_one_that_was_by_then_counts() {
    // Set to a wrong time by mistake, and then to the right one; the second is forward.
    let mut whole = notes(0, &[HOUR]);
    whole.extend([mend(1, HOUR, YEARS), note(2, YEARS + 5), mend(3, YEARS + 5, 2 * HOUR), note(4, 2 * HOUR + 5)]);
    whole.extend([mend(5, 2 * HOUR + 5, 3 * HOUR), note(6, 3 * HOUR + 5)]);
    let backup = Backup::of(&[&whole, &[]], &[], 4 * HOUR);
    for (time, end) in
        [(HOUR, 1), (2 * HOUR + 5, 5), (2 * HOUR + 7, 5), (3 * HOUR - 1, 5), (3 * HOUR, 6), (4 * HOUR, 7)]
    {
        assert_eq!(backup.ends(&at(time)), [end, 0, 0], "{}", at(time));
    }
    let refused = backup.refused(&at(HOUR + 1));
    assert!(refused.contains("--at 0:1,1:0 is before them, --at 0:3,1:0 is behind them"), "{refused}");
}

/// As `?at=` reads a history: the newest record that is no mend, and was of `time` or earlier as it or a mend says.
fn rows_end(notes: &[Note], time: u64) -> usize {
    let is_mended_by = |nth: usize| notes[nth..].iter().any(|note| note.mended_from.is_some() && note.time.0 <= time);
    let is_by = |nth: &usize| notes[*nth].time.0 <= time || is_mended_by(*nth);
    let rows = (0..notes.len()).rev().filter(|nth| notes[*nth].mended_from.is_none());
    rows.filter(is_by).max().map_or(0, |nth| nth + 1)
}

/// Set forward by an hour, back, and to half an hour before that, behind which the clock of the host is followed at
/// once: the last mend says times that the first records had said, too.
#[test]
fn a_time_is_what_the_history_says_of_it_or_refused() {
    const HALF: u64 = HOUR / 2;
    let mut whole = notes(0, &[HOUR, HOUR + 300, HOUR + 600]);
    whole.push(mend(3, HOUR + 600, 2 * HOUR + 2_000));
    whole.extend(notes(4, &[2 * HOUR + 2_100, 2 * HOUR + 2_400]));
    whole.push(mend(6, 2 * HOUR + 2_400, HOUR + 4_000));
    whole.extend(notes(7, &[HOUR + 4_100, HOUR + 4_400]));
    whole.push(mend(9, HOUR + 4_400, HALF + 6_000));
    whole.extend(notes(10, &[HOUR + 6_100, HOUR + 6_400]));
    let backup = Backup::of(&[&whole, &[]], &[], 4 * HOUR);
    for (time, end) in [
        (HALF + 7_000, 10),
        (HOUR + 750, 10),
        (HOUR + 3_500, 10),
        (HOUR + 4_500, 10),
        (HOUR + 6_200, 11),
        (HOUR + 7_000, 12),
        (2 * HOUR + 1_000, 12),
        (2 * HOUR + 3_000, 12),
    ] {
        assert_eq!(backup.ends(&at(time)), [end, 0, 0], "{}", at(time));
        let rows = |end: usize| whole[..end].iter().filter(|note| note.mended_from.is_none()).count();
        assert_eq!(rows(end as usize), rows(rows_end(&whole, time)), "{}", at(time));
    }
    for time in [HALF + 5_000, HOUR + 150, HOUR + 4_200, 2 * HOUR + 2_200] {
        let refused = backup.refused(&at(time));
        assert!(refused.contains("Give a sequence: ") && !refused.contains("a clock was ahead"), "{refused}");
    }
}

#[test]
fn what_others_had_written_before_a_place_behind_a_mend_is_kept() {
    let whole = ten_years_ahead();
    // Two before the clock was wrong, one while it was. Its times stay ahead when the ledger's was mended.
    let ahead = HOUR + YEARS;
    let others = notes(0, &[HOUR - 1_500, HOUR - 500, ahead + 500, ahead + 1_500, ahead + 2_500]);
    let backup = Backup::of(&[&whole, &[]], &others, 3 * HOUR);
    assert_eq!((backup.ends("0:2,1:0"), backup.later("0:2,1:0")), ([2, 0, 1], 0));
    // Behind the jump nothing of the others says when it was.
    assert_eq!((backup.ends("0:5,1:0"), backup.later("0:5,1:0")), ([5, 0, 5], 2));
    for place in ["0:7,1:0", &at(2 * HOUR + 1_000)] {
        assert_eq!((backup.ends(place), backup.later(place)), ([7, 0, 5], 3), "{place}");
    }
}

#[test]
fn of_what_others_wrote_after_a_small_error_as_much_is_kept_as_that_explains() {
    // Half an hour ahead, for a second.
    let ahead = HOUR + HOUR / 2;
    let mut whole = notes(0, &[HOUR, ahead, ahead + 1_000]);
    whole.push(mend(3, ahead + 1_000, HOUR + 2_000));
    whole.extend(notes(4, &[HOUR + 3_000, 20 * HOUR]));
    let others = notes(0, &[HOUR - 1, ahead + 500, ahead + 10_000, 2 * HOUR, 19 * HOUR, 20 * HOUR, 20 * HOUR + 1]);
    let backup = Backup::of(&[&whole, &[]], &others, 21 * HOUR);
    // Just behind the mend up to half an hour and a bit; a day later nothing can be ahead any more.
    assert_eq!((backup.ends("0:5,1:0"), backup.later("0:5,1:0")), ([5, 0, 3], 2));
    assert_eq!((backup.ends("0:6,1:0"), backup.later("0:6,1:0")), ([6, 0, 6], 0));
}

#[test]
fn a_log_that_is_ahead_of_the_backup_itself_is_kept_from_its_jump_on() {
    // The ledger was idle while the clock was wrong, so nothing was mended.
    let whole = notes(0, &[HOUR, 2 * HOUR, 3 * HOUR]);
    let others = notes(0, &[HOUR - 1, HOUR + 1, HOUR + YEARS, HOUR + YEARS + 1]);
    let backup = Backup::of(&[&whole, &[]], &others, 3 * HOUR);
    assert_eq!((backup.ends("0:1,1:0"), backup.later("0:1,1:0")), ([1, 0, 1], 0));
    assert_eq!((backup.ends("0:2,1:0"), backup.later("0:2,1:0")), ([2, 0, 4], 2));
}

#[test]
fn what_rests_on_a_record_before_a_mend_is_kept_with_it() {
    let root = tempfile::tempdir().expect("a folder");
    let (data, backups) = (root.path().join("data"), root.path().join("backups"));
    let directory = Directory::open_or_create(&data, &wanted(), 1).expect("it is made");
    let ids: Vec<LogId> = directory.logs(Whole::FAMILY).collect();
    let (mut one, mut two) = (open(&data, ids[0], Cursor::START), open(&data, ids[1], Cursor::START));
    let places = write(&mut one, &ten_years_ahead());
    // The second shard takes in, right behind its mend, what the first one had decided before.
    write(&mut two, &[note(0, HOUR), mend(1, HOUR, 2 * HOUR)]);
    write(&mut two, &[Note { rests_on: Some((0, places[4].0)), ..note(2, 2 * HOUR + 10) }]);
    taken(&data, &backups, Reread::Open, 3 * HOUR);
    for log in [one, two] {
        log.close().expect("it ends in order");
    }
    drop(directory);
    let ends = |at: &str, data: &Path| {
        let told = restored(&backups, data, &at.parse().expect("a place")).logs;
        [(told[0].end.0, told[0].moved_forward), (told[1].end.0, told[1].moved_forward)]
    };
    assert_eq!(ends("0:3,1:3", &root.path().join("forward")), [(5, 2), (3, 0)]);
    assert_eq!(ends("0:3,1:2", &root.path().join("as-asked")), [(3, 0), (2, 0)]);
    assert_eq!(served::<Whole>(&root.path().join("forward"), ids[0]), (0..5).collect::<Vec<_>>());
}
