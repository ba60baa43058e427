//! Histories of chance in which clocks are wrong and times are mended: what a restore keeps, told by the true time.
//!
//! ```text
//!   true time ──▶ a clock, right or ahead ──▶ one lead per family, as servers have it ──▶ times of notes
//!        └────────────────── what had been written by then ──────────────────▶ must be in what is restored
//! ```

use tidegate_backup::{Moment, restore};
use tidegate_machines::TimeMs;
use tidegate_shard::StateClock;

use super::mends::{Backup, at, mend};
use crate::notes::{KNOWN, Note, note};

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;

/// Numbers of chance (xorshift64*), the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

/// Notes of a log, and when each was written in truth.
#[derive(Default)]
struct Written {
    notes: Vec<Note>,
    at: Vec<u64>,
}

impl Written {
    fn newest(&self) -> TimeMs {
        self.notes.last().map_or(TimeMs(0), |note| note.time)
    }

    fn push(&mut self, time: TimeMs, at: u64) {
        let number = self.notes.len() as u32;
        self.notes.push(note(number, time.0.max(self.newest().0)));
        self.at.push(at);
    }

    fn by(&self, moment: u64) -> u64 {
        self.at.iter().filter(|at| **at <= moment).count() as u64
    }
}

/// A history of two logs: one whose time is mended, one whose time is not.
struct History {
    chance: Chance,
    now: u64,
    whole: Written,
    others: Written,
    /// Notes of the first log that a right clock dated.
    right: Vec<usize>,
}

impl History {
    fn of(seed: u64) -> History {
        let chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let (whole, others) = (Written::default(), Written::default());
        let mut history = History { chance, now: 1_000 * DAY, whole, others, right: Vec::new() };
        history.run(0);
        for _ in 0..1 + history.chance.below(3) {
            let ahead_ms = [MINUTE, 90 * MINUTE, 2 * DAY, 3_650 * DAY][history.chance.below(4) as usize];
            history.run(ahead_ms);
            history.pause();
            let (number, was) = (history.whole.notes.len() as u32, history.whole.newest().0);
            history.whole.notes.push(mend(number, was, history.now));
            history.whole.at.push(history.now);
            for _ in 0..1 + history.chance.below(2) {
                history.run(0);
            }
        }
        history
    }

    fn pause(&mut self) {
        let unit = [1, 1_000, MINUTE, 60 * MINUTE][self.chance.below(4) as usize];
        self.now += 1 + self.chance.below(10 * unit);
    }

    /// A server runs with a clock that is so far ahead.
    fn run(&mut self, ahead_ms: u64) {
        self.pause();
        let clock = |now: u64| TimeMs(now + ahead_ms);
        let mut whole = StateClock::starting(self.whole.newest(), clock(self.now));
        let mut others = StateClock::starting(self.others.newest(), clock(self.now));
        for nth in 0..2 + self.chance.below(5) {
            self.pause();
            let (of_whole, of_others) = (whole.time(clock(self.now)), others.time(clock(self.now)));
            if nth == 0 || self.chance.below(2) == 0 {
                if ahead_ms == 0 && whole.ahead_ms() == 0 {
                    self.right.push(self.whole.notes.len());
                }
                self.whole.push(of_whole, self.now);
            } else {
                self.others.push(of_others, self.now);
            }
        }
    }
}

#[test]
fn whatever_clocks_did_nothing_of_before_a_place_is_missing() {
    let (mut refusals, mut mended_times) = (0, 0);
    for seed in 100..112 {
        let mut history = History::of(seed);
        let taken_at = history.now + [MINUTE, DAY, 4_000 * DAY][history.chance.below(3) as usize];
        let backup = Backup::of(&[&history.whole.notes, &[]], &history.others.notes, taken_at);
        // A sequence.
        let nth = history.chance.below(history.whole.notes.len() as u64) as usize;
        let [whole, _, others] = backup.ends(&format!("0:{},1:0", nth + 1));
        let by_then = history.others.by(history.whole.at[nth]);
        assert!(whole == nth as u64 + 1 && others >= by_then, "seed {seed}, place {nth}: {others} of {by_then}");
        // A time at which the clock was right.
        let nth = history.right[history.chance.below(history.right.len() as u64) as usize];
        let moment = history.whole.at[nth] + history.chance.below(5);
        let copy = backup.root.path().join("by-time");
        let place = at(moment).parse().expect("a place");
        match restore(&backup.backups(), &copy, None, &place, &KNOWN, Moment(9_000_000), &mut |_, _| {}) {
            Ok(told) => {
                let (whole, others) = (told.logs[0].end.0, told.logs[2].end.0);
                assert_eq!(whole, history.whole.by(moment), "seed {seed}, at {moment}");
                assert!(others >= history.others.by(moment), "seed {seed}, at {moment}: {others}");
                mended_times += 1;
            }
            Err(refused) => {
                assert!(refused.to_string().contains("Give a sequence: "), "seed {seed}: {refused}");
                refusals += 1;
            }
        }
    }
    assert!(mended_times >= 8, "{mended_times} restored, {refusals} refused");
}
