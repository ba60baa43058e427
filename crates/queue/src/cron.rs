//! When a schedule fires: at the times of a cron expression, by the clocks of a time zone.
//!
//! ```text
//!   "0 9 * * mon-fri" in Europe/Berlin ─▶ the next time on a clock there ─▶ the moment at which it shows that
//! ```
//!
//! The expression is matched against times of the day as a clock on a wall shows them, and each is then a moment:
//!
//! * A time that is left out when clocks are put forward comes as much later: 02:30 is 03:30 on that day.
//! * A time that comes twice when clocks are put back counts the first time. If the hours begin with `*`, it counts
//!   both times, so that what fires each ten minutes does not pause for an hour.
//!
//! Invariant: a replay does not read this. When a schedule fires next is in the log; rules of time zones change.

use cronexpr::{Crontab, FallbackTimezoneOption, ParseOptions};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use tidegate_machines::TimeMs;

use crate::zone::{moment, time_of, zone_of};

const FORM: &str = "cron: expected five fields, minute, hour, day of the month, month and day of the week, such as \
                    \"0 9 * * mon-fri\" or \"*/10 8-18 1,15 * *\"";
/// Clocks are put forward or back by less than this.
const CHANGE: SignedDuration = SignedDuration::from_hours(4);

/// A text that is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadSchedule(String);

/// When something fires.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Matches times of the day as if they were of UTC.
    times: Crontab,
    zone: TimeZone,
    /// What comes twice fires twice.
    is_hourly: bool,
}

impl Schedule {
    /// Reads an expression of five fields and the name of a time zone. It fires some time in the next four years.
    pub fn parse(cron: &str, zone: &str, now: TimeMs) -> Result<Schedule, BadSchedule> {
        let fields: Vec<&str> = cron.split_ascii_whitespace().collect();
        let [_, hours, ..] = *fields else { return Err(BadSchedule(FORM.into())) };
        // The library would read a sixth field as a time zone.
        if fields.len() != 5 {
            return Err(BadSchedule(FORM.into()));
        }
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let times = cronexpr::parse_crontab_with(&fields.join(" "), options).map_err(|error| {
            let told = error.to_string();
            // Behind the expression, and a mark below what is wrong in it.
            let last = told.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
            BadSchedule(format!("cron: {}", last.trim_start_matches('^').trim_start()))
        })?;
        let zone = zone_of(zone).ok_or_else(|| {
            BadSchedule(format!(
                "zone: there is no time zone {zone:?}; expected a name as \"Europe/Berlin\" or \"UTC\""
            ))
        })?;
        let schedule = Schedule { times, zone, is_hourly: hours.starts_with('*') };
        match schedule.next(now) {
            Some(_) => Ok(schedule),
            None => Err(BadSchedule("cron: it does not fire in the next four years".into())),
        }
    }

    /// When it fires next behind `now`; `None` if it does not in the next four years.
    pub fn next(&self, now: TimeMs) -> Option<TimeMs> {
        let now = moment(now)?;
        let offset = |at: Result<Timestamp, _>| at.map(|at| self.zone.to_offset(at)).ok();
        let here = Some(self.zone.to_offset(now));
        let local = self.zone.to_datetime(now);
        let is_far_from_changes = offset(now.checked_sub(CHANGE)) == here && offset(now.checked_add(CHANGE)) == here;
        if is_far_from_changes {
            let time = self.time_behind(local)?;
            return self.moments_of(time).into_iter().flatten().find(|at| *at > now).and_then(time_of);
        }
        // Near a change of the clocks, times and moments may be in another order.
        let mut next: Option<Timestamp> = None;
        let mut time = local.checked_sub(CHANGE).ok()?;
        while let Some(behind) = self.time_behind(time) {
            time = behind;
            next = self.moments_of(time).into_iter().flatten().filter(|at| *at > now).chain(next).min();
            let is_sure = |at: Timestamp| time > self.zone.to_datetime(at).saturating_add(CHANGE);
            if next.is_some_and(is_sure) {
                break;
            }
        }
        next.and_then(time_of)
    }

    /// The next time of a day that the expression names.
    fn time_behind(&self, time: DateTime) -> Option<DateTime> {
        let as_of_utc = TimeZone::UTC.to_timestamp(time).ok()?;
        let next = self.times.find_next(cronexpr::MakeTimestamp(as_of_utc)).ok()?;
        Some(next.datetime())
    }

    /// The moments at which it fires, if clocks there show this time.
    fn moments_of(&self, time: DateTime) -> [Option<Timestamp>; 2] {
        let offsets = match self.zone.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset } => [Some(offset), None],
            AmbiguousOffset::Gap { before, .. } => [Some(before), None],
            AmbiguousOffset::Fold { before, after } => [Some(before), Some(after).filter(|_| self.is_hourly)],
        };
        offsets.map(|offset| offset?.to_timestamp(time).ok())
    }
}

#[cfg(test)]
mod tests;
