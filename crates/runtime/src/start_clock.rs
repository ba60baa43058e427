//! Whether the clock of the host can be right when a node starts: one that is years ahead would end at once what
//! clients were promised to keep.
//!
//! ```text
//!   each log, recovered ─▶ Told: its newest time, what ends since ─┐
//!                                                                  ├─▶ check ─▶ Err: the start is refused
//!   the clock of the host ─────────────────────────────────────────┘
//! ```
//!
//! Promise: a node does not serve by a clock that is more than a year ahead of all its records, if something that lasts
//! longer than the newest of them would be over. Nothing was written then, so a clock that is corrected costs nothing.
//!
//! What ends by a clock that is ahead by more than an hour and less than that is named in the log, by kind and number,
//! before it ends, if the start goes on: nobody but an operator knows whether the node was stopped for so long.
//!
//! Why the newest of all logs: a log in which nothing happens for long is no sign of a wrong clock, and an operator who
//! knows that the clock is right says so with one record, in any log.

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};
use tidegate_journal::Family;
use tidegate_machines::{Machine, TimeMs};

use crate::limits::{CLOCK_AHEAD_MS_MAX, CLOCK_AHEAD_SAID_MS_MIN};

const DAY_MS: u64 = 86_400_000;

/// What a log says of times.
#[derive(Debug)]
pub(crate) struct Told {
    /// Its family, and the number of its shard.
    log: (Family, u16),
    /// The shard, as messages name it.
    shard: String,
    /// The latest time that its state remembers; zero for none.
    newest: TimeMs,
    /// When something ends that was promised to last until then: what is behind `newest` and over by the host's clock.
    /// Empty where the clock is not far ahead.
    ended: Vec<TimeMs>,
    /// What ends by the clock when the log is served.
    over: Over,
    /// By how much the clock is ahead.
    ahead_s: u64,
}

impl Told {
    /// What a log, whose shard messages name `shard`, says at the time `wall` of the host.
    pub fn of<M: Machine>(log: (Family, u16), shard: String, state: &M, wall: TimeMs) -> Told {
        let (newest, mut ended) = (state.newest_known(), Vec::new());
        if is_far_behind(newest, wall) {
            state.ends(&mut |end| {
                if newest < end && end <= wall {
                    ended.push(end);
                }
            });
        }
        let ahead_s = wall.0.saturating_sub(newest.0) / 1_000;
        Told { log, shard, newest, ended, over: Over::by_start(state, wall), ahead_s }
    }

    /// How many things end by the clock when the log is served.
    pub fn over(&self) -> u64 {
        self.over.count()
    }

    /// Says in the log of the server what ends by the clock of the host. Not before it is known that the start goes on:
    /// nothing ends by a start that is refused.
    pub fn say_over(&self) {
        let Told { log: (family, shard), over, ahead_s, .. } = self;
        if !over.is_empty() {
            tracing::warn!(
                family = family.name,
                shard,
                ahead_s,
                %over,
                "the clock of this host is ahead of the newest record, and by that clock this is over and ends now. If \
                 nothing was written for so long, all is well. If the clock is wrong, stop the server and correct it: \
                 what has ended does not come back"
            );
        }
    }
}

/// What of a log is over by a clock alone: kinds of things, and how many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Over(Vec<(&'static str, u64)>);

impl Over {
    /// What of `state` is over when it is `wall`.
    pub fn of<M: Machine>(state: &M, wall: TimeMs) -> Over {
        let mut over = Vec::new();
        state.over_at(wall, &mut |kind, count| over.push((kind, count)));
        Over(over)
    }

    /// The same for a start whose clock is `wall`: nothing, unless that is ahead of the newest record by more than is
    /// worth a word.
    pub fn by_start<M: Machine>(state: &M, wall: TimeMs) -> Over {
        let newest = state.newest_known();
        let is_ahead = newest > TimeMs(0) && wall.0.saturating_sub(newest.0) > CLOCK_AHEAD_SAID_MS_MIN;
        if is_ahead { Over::of(state, wall) } else { Over::default() }
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many things.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

/// `2 sessions, 7 waiting messages`.
impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (kind, count)) in self.0.iter().enumerate() {
            write!(f, "{}{count} {kind}", if nth > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// The latest time that the logs of these families remember; zero for none.
pub(crate) fn newest_of(told: &[Told], families: &[Family]) -> TimeMs {
    let of_them = told.iter().filter(|told| families.iter().any(|family| family.number == told.log.0.number));
    of_them.map(|told| told.newest).max().unwrap_or(TimeMs(0))
}

fn is_far_behind(newest: TimeMs, wall: TimeMs) -> bool {
    wall.0.saturating_sub(newest.0) > CLOCK_AHEAD_MS_MAX
}

/// Err if the host's clock, at `wall`, would end what was to last. All logs of the data directory have told.
pub(crate) fn check(told: &[Told], wall: TimeMs, data: &Path) -> Result<()> {
    let newest = told.iter().map(|told| told.newest).max().unwrap_or(TimeMs(0));
    if !is_far_behind(newest, wall) {
        return Ok(());
    }
    for Told { shard, ended, .. } in told {
        let count = ended.iter().filter(|end| newest < **end).count();
        if count > 0 {
            let days = (wall.0 - newest.0) / DAY_MS;
            bail!(
                "{shard}: the clock of this host is {days} days ahead of the newest record, so that {count} of what it \
                 keeps for clients would expire or fall due at once, with all that waits for them. If the clock is \
                 wrong, correct it. If it is right, say so, and that happens when the server is started: \
                 tidegate mend-time --data {} --to now --reason TEXT",
                data.display()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tidegate_journal::Retention;
    use tidegate_machines::topic::{Event, Slot, Topics};
    use tidegate_machines::{Place, RecordPosition, RecordSequence, ShardIndex};

    use super::*;

    const YEAR: u64 = 365 * DAY_MS;
    const WALL: TimeMs = TimeMs(60 * YEAR);

    fn family(number: u8) -> Family {
        Family { number, name: "some", retention: Retention::Whole }
    }

    fn told(newest: u64, ended: &[u64]) -> Told {
        Told {
            log: (family(1), 0),
            shard: "some shard 0".into(),
            newest: TimeMs(newest),
            ended: ended.iter().map(|at| TimeMs(*at)).collect(),
            over: Over::default(),
            ahead_s: 0,
        }
    }

    fn said(told: &[Told]) -> Option<String> {
        check(told, WALL, Path::new("/data")).err().map(|error| error.to_string())
    }

    #[test]
    fn a_clock_that_is_years_ahead_ends_nothing_that_was_to_last() {
        let long_ago = 50 * YEAR;
        let refused = said(&[told(0, &[]), told(long_ago, &[long_ago + 1, long_ago + 2])]).expect("ten years");
        for words in [
            "some shard 0: ",
            "3650 days ahead",
            "would expire or fall due at once",
            "2 of what it keeps",
            "mend-time --data /data --to now",
        ] {
            assert!(refused.contains(words), "{words:?} is not in: {refused}");
        }
        assert_eq!(said(&[told(long_ago, &[])]), None, "nothing ends");
        assert_eq!(said(&[]), None);
    }

    #[test]
    fn what_ends_by_a_clock_that_is_ahead_is_named_by_kind_and_number() {
        let (mut topics, at) = (Topics::new(ShardIndex(0)), TimeMs(1_000));
        let mut sequence = 0;
        for (slot, id) in ["a", "b"].into_iter().enumerate() {
            let slot = Slot(slot as u32);
            let opened = Event::SessionOpened { at, slot, client_id: id.into(), owner: None, expiry_s: 5, will: None };
            for event in [opened, Event::SessionDetached { slot, at, expiry_s: 5, keep_will: false }] {
                sequence += 1;
                let place = Place { position: RecordPosition(sequence), sequence: RecordSequence(sequence) };
                topics.apply_checked(&event, place).expect("it follows");
            }
        }
        let over = |ahead_ms: u64| Over::by_start(&topics, TimeMs(at.0 + ahead_ms));
        assert!(over(CLOCK_AHEAD_SAID_MS_MIN).is_empty(), "a start takes as long as it takes");
        let said = over(CLOCK_AHEAD_SAID_MS_MIN + 1);
        assert_eq!((said.to_string(), said.count()), ("2 sessions".into(), 2));
    }

    #[test]
    fn a_room_goes_by_its_own_logs() {
        let told = [told(5, &[]), told(7, &[]), Told { log: (family(2), 0), ..told(9, &[]) }];
        assert_eq!(newest_of(&told, &[family(1)]), TimeMs(7));
        assert_eq!(newest_of(&told, &[family(1), family(2)]), TimeMs(9));
        assert_eq!(newest_of(&told, &[]), TimeMs(0));
    }

    #[test]
    fn a_record_of_any_log_shows_that_the_clock_is_right() {
        let long_ago = 50 * YEAR;
        let mended = told(WALL.0 - DAY_MS, &[]);
        assert_eq!(said(&[told(long_ago, &[long_ago + 1]), mended]), None);
        let later = told(long_ago + 5, &[]);
        assert_eq!(said(&[told(long_ago, &[long_ago + 1]), later]), None, "that was over when it was written");
    }
}
