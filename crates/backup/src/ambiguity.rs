//! Times that say no place: refused, with the sequences that say one.
//!
//! Why refused: whoever restores at a time wants all that had been decided by then, and nothing else. Where a wrong
//! clock leaves two answers, only a person can tell which one is meant.

use tidegate_journal::{Cursor, Sequence};
use tidegate_machines::TimeMs;

use crate::error::BackupError;
use crate::moment::Moment;
use crate::place::as_asked;
use crate::timeline::{Follows, Timeline};

/// Refuses a time for which the `places` of the logs of a family are not the only ones that it may mean.
pub(crate) fn check_is_one(timelines: &[Timeline<'_>], places: &[Cursor], moment: Moment) -> Result<(), BackupError> {
    check_is_timed(timelines, places, moment)?;
    check_is_once(timelines, places, moment)
}

/// Refuses a time of which records may be that were decided by a wrong clock.
fn check_is_timed(timelines: &[Timeline<'_>], places: &[Cursor], moment: Moment) -> Result<(), BackupError> {
    let (mut untimed, mut behind) = (Vec::new(), Vec::new());
    for (timeline, place) in timelines.iter().zip(places) {
        match timeline.follows(*place, TimeMs(moment.0))? {
            // The clock was right when that was decided, on all shards.
            Follows::Timed => return Ok(()),
            Follows::Nothing => behind.push(*place),
            Follows::Untimed(found) => {
                let (name, until) = (&timeline.log.name, found.end.sequence);
                let mended = Moment(found.mend.time.0);
                untimed.push(format!("{name}: sequence {} to {until}, until it was mended to {mended}", found.first));
                behind.push(found.end);
            }
        }
    }
    if untimed.is_empty() {
        return Ok(());
    }
    let before = said_before(places);
    Err(BackupError::Refused(format!(
        "{moment}: nobody can tell what had been decided by then, because these records were decided by a clock that \
         was wrong: {}. Give a sequence: {before}, --at {} is behind them and before the time was mended",
        untimed.join("; "),
        as_asked(behind.into_iter())
    )))
}

/// Refuses a time that records before and behind a mend say.
fn check_is_once(timelines: &[Timeline<'_>], places: &[Cursor], moment: Moment) -> Result<(), BackupError> {
    let time = TimeMs(moment.0);
    let mut numbers: Vec<usize> = Vec::new();
    for timeline in timelines {
        numbers.extend(timeline.also_at(time)?);
    }
    numbers.sort_unstable();
    numbers.dedup();
    let mut choices = Vec::new();
    for number in numbers {
        let mut also = Vec::new();
        for (timeline, place) in timelines.iter().zip(places) {
            also.push(if number < timeline.sections() { timeline.last_by(number, time)? } else { *place });
        }
        let mends =
            timelines.iter().filter_map(|timeline| Some((&timeline.log.name, timeline.section(number + 1)?.mend?)));
        let mends: Vec<String> = mends.map(|(name, mend)| format!("{} of {name}", mend.sequence)).collect();
        let also = as_asked(also.into_iter());
        choices.push(format!("--at {also} is the place before the time was mended (sequence {})", mends.join(", ")));
    }
    if choices.is_empty() {
        return Ok(());
    }
    Err(BackupError::Refused(format!(
        "{moment}: the history has this time more than once, because it was mended to an earlier one. Give a \
         sequence: {}; --at {} is the place behind that, by the time as it was mended",
        choices.join("; "),
        as_asked(places.iter().copied())
    )))
}

/// Which place is before the records of a refusal.
fn said_before(places: &[Cursor]) -> String {
    match places.iter().all(|place| place.sequence == Sequence(0)) {
        true => "no record is before them".into(),
        false => format!("--at {} is before them", as_asked(places.iter().copied())),
    }
}
