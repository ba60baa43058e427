//! When the auditor compares, writes snapshots and looks at damage again.
//!
//! Invariant: no clock here. All times are since the auditor began.

use std::ops::Range;
use std::time::Duration;

use tidegate_runtime::log_keeper::LOOK_AT_DAMAGE;

/// An audit that met something that cannot be read is made again so soon ...
const AUDIT_AGAIN: Duration = Duration::from_secs(8);
/// ... or after so many times what it took.
const AUDIT_AGAIN_SHARE: u32 = 20;

/// When to audit and when to write snapshots; `None` for never.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Time between reconciliations.
    pub audit_interval: Option<Duration>,
    /// Time between snapshots.
    pub snapshot_interval: Option<Duration>,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    /// Nothing.
    None,
    /// All shards are to be compared, and snapshots to be written if that is so.
    Audit {
        /// Whatever they cost.
        with_snapshots: bool,
    },
}

/// The rounds that were made.
#[derive(Debug)]
pub(super) struct Rounds {
    schedule: Schedule,
    looked: Duration,
    /// When the last one ended, if there was one.
    audited: Option<Duration>,
    snapshotted: Duration,
    /// Whether somebody has asked for one since.
    asked: bool,
    /// How long it took.
    took: Duration,
}

impl Rounds {
    /// None was made. The first audit is due at once; snapshots are so after their interval.
    pub fn of(schedule: Schedule) -> Rounds {
        let zero = Duration::ZERO;
        Rounds { schedule, looked: zero, audited: None, snapshotted: zero, asked: false, took: zero }
    }

    /// Whether damaged places are to be looked at again; if so, they are from now on.
    pub fn is_look_due(&mut self, now: Duration) -> bool {
        let is_due = now - self.looked >= LOOK_AT_DAMAGE;
        if is_due {
            self.looked = now;
        }
        is_due
    }

    /// Somebody asks for an audit: it is due now, whatever the intervals are.
    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// What is due. `met_damage`: the last audit met something that cannot be read. It is perhaps sound again: whoever
    /// put it right need not wait for the interval.
    pub fn next(&self, met_damage: bool, now: Duration) -> Round {
        let is_over = |since: Duration, interval: Option<Duration>| interval.is_some_and(|of| now - since >= of);
        let again = met_damage.then(|| AUDIT_AGAIN.max(self.took * AUDIT_AGAIN_SHARE));
        let is_audit_due = match self.audited {
            None => self.schedule.audit_interval.is_some(),
            Some(audited) => is_over(audited, self.schedule.audit_interval) || is_over(audited, again),
        };
        let with_snapshots = is_over(self.snapshotted, self.schedule.snapshot_interval);
        match self.asked || is_audit_due || with_snapshots {
            true => Round::Audit { with_snapshots },
            false => Round::None,
        }
    }

    /// A round was made in that time.
    pub fn made(&mut self, with_snapshots: bool, time: Range<Duration>) {
        (self.audited, self.took) = (Some(time.end), time.end - time.start);
        self.asked = false;
        if with_snapshots {
            self.snapshotted = time.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn rounds(audit_s: Option<u64>, snapshot_s: Option<u64>) -> Rounds {
        Rounds::of(Schedule { audit_interval: audit_s.map(S), snapshot_interval: snapshot_s.map(S) })
    }

    const AUDIT: Round = Round::Audit { with_snapshots: false };
    const ALL: Round = Round::Audit { with_snapshots: true };

    #[test]
    fn an_audit_is_due_at_once_and_then_an_interval_behind_the_end_of_the_last_one() {
        let mut rounds = rounds(Some(60), None);
        assert_eq!(rounds.next(false, S(0)), AUDIT);
        rounds.made(false, S(0)..S(10));
        assert_eq!((rounds.next(false, S(69)), rounds.next(false, S(70))), (Round::None, AUDIT));
        rounds.made(false, S(70)..S(75));
        assert_eq!((rounds.next(false, S(134)), rounds.next(false, S(135))), (Round::None, AUDIT));
    }

    #[test]
    fn snapshots_are_due_after_their_interval_and_need_no_interval_of_audits() {
        let mut rounds = rounds(None, Some(100));
        assert_eq!((rounds.next(false, S(99)), rounds.next(true, S(99))), (Round::None, Round::None), "none was made");
        assert_eq!(rounds.next(false, S(100)), ALL);
        rounds.made(true, S(100)..S(101));
        assert_eq!((rounds.next(false, S(200)), rounds.next(false, S(201))), (Round::None, ALL));
        // A round without them does not put them off.
        rounds.made(false, S(190)..S(195));
        assert_eq!(rounds.next(false, S(201)), ALL);
        assert_eq!(super::tests::rounds(None, None).next(false, S(1 << 30)), Round::None);
    }

    #[test]
    fn an_audit_that_is_asked_for_is_made_once_also_without_an_interval() {
        let mut rounds = rounds(None, None);
        assert_eq!(rounds.next(false, S(5)), Round::None);
        rounds.ask();
        assert_eq!(rounds.next(false, S(5)), AUDIT);
        rounds.made(false, S(5)..S(6));
        assert_eq!(rounds.next(false, S(7)), Round::None);
    }

    #[test]
    fn damage_is_audited_again_soon_but_not_for_most_of_the_time() {
        let mut rounds = rounds(Some(3_600), None);
        rounds.made(false, S(10)..S(10));
        let met = true;
        assert_eq!(
            (rounds.next(met, S(17)), rounds.next(met, S(18)), rounds.next(!met, S(18))),
            (Round::None, AUDIT, Round::None)
        );
        rounds.made(false, S(20)..S(22));
        assert_eq!(
            (rounds.next(met, S(61)), rounds.next(met, S(62))),
            (Round::None, AUDIT),
            "twenty times two seconds"
        );
    }

    #[test]
    fn damaged_places_are_looked_at_once_in_four_seconds() {
        let mut rounds = rounds(None, None);
        let looks = [3, 4, 5, 7, 8, 11, 12].map(|now| rounds.is_look_due(S(now)));
        assert_eq!(looks, [false, true, false, false, true, false, true]);
    }
}
