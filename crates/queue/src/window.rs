//! When a queue hands out messages: between two times of the day, on some days of the week, in some time zone.
//!
//! ```text
//!   "mon-fri 08:00-20:00 Europe/Berlin"    open while a clock there shows such a time on such a day
//!   "22:00-06:00 UTC"                      over midnight: of the day on which it opens
//! ```
//!
//! It is what a clock on a wall there shows that counts. So a window that opens in the hour that is left out in spring
//! opens at its end, and one that ends in the hour that comes twice in autumn is open in both.
//!
//! Invariant: a replay does not read this. What was handed out is in the log; rules of time zones change.

use std::collections::BTreeMap;

use jiff::civil::{DateTime, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};
use tidegate_machines::TimeMs;

use crate::zone::{moment, time_of, zone_of};

const FORM: &str =
    "expected [DAYS] HH:MM-HH:MM ZONE, such as \"08:00-20:00 Europe/Berlin\" or \"mon-fri 22:00-06:00 UTC\"";
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const DAY_MINUTES: u16 = 24 * 60;
/// Days in which a window opens or closes if it ever does: a week, another if a zone leaves out a day, and some.
const DAYS_AHEAD: i32 = 16;
/// How long it is believed that a window does not change which does not change in that time.
const UNCHANGED_MS: u64 = 24 * 3_600_000;

/// A text that is no window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadWindow(String);

/// When a queue hands out messages.
#[derive(Clone, Debug)]
pub struct DeliveryWindow {
    /// The days on which it opens, from Monday on.
    days: [bool; 7],
    /// When it opens, in minutes of the day.
    from: u16,
    /// When it closes; of the next day if that is before.
    to: u16,
    zone: TimeZone,
}

/// How a window is at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowState {
    /// Messages are handed out.
    pub is_open: bool,
    /// When that changes; `None` if it does not in the next two weeks.
    pub changes_at: Option<TimeMs>,
}

impl DeliveryWindow {
    /// Reads one.
    pub fn parse(text: &str) -> Result<DeliveryWindow, BadWindow> {
        let wrong = || BadWindow(FORM.into());
        let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
        let name = words.pop().ok_or_else(wrong)?;
        let hours = words.pop().ok_or_else(wrong)?;
        let days = match &*words {
            [] => [true; 7],
            [days] => days_of(days)?,
            _ => return Err(wrong()),
        };
        let (from, to) = hours.split_once('-').ok_or_else(wrong)?;
        let (from, to) = (minutes_of(from)?, minutes_of(to)?);
        if from == to {
            return Err(BadWindow("it opens and closes at one time; all day is 00:00-24:00".into()));
        }
        if from == DAY_MINUTES {
            return Err(BadWindow("it opens at 24:00; expected 00:00 to 23:59".into()));
        }
        let zone = zone_of(name).ok_or_else(|| {
            BadWindow(format!("there is no time zone {name:?}; expected a name as \"Europe/Berlin\" or \"UTC\""))
        })?;
        Ok(DeliveryWindow { days, from, to, zone })
    }

    /// How it is at `now`, and when that changes.
    pub fn state(&self, now: TimeMs) -> WindowState {
        let Some(now) = moment(now) else { return WindowState { is_open: true, changes_at: None } };
        let is_open = self.is_open(now);
        let mut ahead = self.edges(now);
        ahead.sort_unstable();
        let change = ahead.into_iter().find(|at| *at > now && self.is_open(*at) != is_open);
        WindowState { is_open, changes_at: change.and_then(time_of) }
    }

    fn is_open(&self, at: Timestamp) -> bool {
        let local = self.zone.to_datetime(at);
        let minute = local.hour() as u16 * 60 + local.minute() as u16;
        let opens_on = |day: Weekday| self.days[usize::from(day.to_monday_zero_offset() as u8)];
        let (today, yesterday) = (opens_on(local.weekday()), opens_on(local.weekday().previous()));
        match self.from < self.to {
            true => today && (self.from..self.to).contains(&minute),
            false => today && minute >= self.from || yesterday && minute < self.to,
        }
    }

    /// The moments around and behind `now` at which it may open or close: its times of each day, and when the clocks
    /// there are changed.
    fn edges(&self, now: Timestamp) -> Vec<Timestamp> {
        let today = self.zone.to_datetime(now).date();
        let mut edges = Vec::new();
        for day in -1..=DAYS_AHEAD {
            let Ok(date) = today.checked_add(day.days()) else { continue };
            for minutes in [self.from, self.to] {
                let time = date.to_datetime(jiff::civil::Time::midnight());
                if let Ok(at) = time.checked_add(i64::from(minutes).minutes()) {
                    edges.extend(self.moments_of(at));
                }
            }
        }
        let end = now.saturating_add(SignedDuration::from_hours(24 * i64::from(DAYS_AHEAD)));
        let changes = self.zone.following(now).map(|change| change.timestamp());
        edges.extend(changes.take_while(|at| end.as_ref().is_ok_and(|end| at <= end)));
        edges
    }

    /// When clocks there show a time: once, twice, or never.
    fn moments_of(&self, time: DateTime) -> impl Iterator<Item = Timestamp> {
        let offsets = match self.zone.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset } => [Some(offset), None],
            AmbiguousOffset::Fold { before, after } => [Some(before), Some(after)],
            AmbiguousOffset::Gap { .. } => [None, None],
        };
        offsets.into_iter().flatten().filter_map(move |offset| offset.to_timestamp(time).ok())
    }
}

/// Days such as `mon-fri` or `sat,sun`.
fn days_of(text: &str) -> Result<[bool; 7], BadWindow> {
    let day = |name: &str| {
        let place = DAYS.iter().position(|day| day.eq_ignore_ascii_case(name));
        place.ok_or_else(|| BadWindow(format!("{name:?} is no day; expected mon, tue, wed, thu, fri, sat or sun")))
    };
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut at, last) = (day(first)?, day(last)?);
        days[at] = true;
        while at != last {
            at = (at + 1) % 7;
            days[at] = true;
        }
    }
    Ok(days)
}

/// Minutes of the day, of `08:00`.
fn minutes_of(text: &str) -> Result<u16, BadWindow> {
    let wrong = || BadWindow(format!("{text:?} is no time of the day; expected 00:00 to 24:00"));
    let (hour, minute) = text.split_once(':').ok_or_else(wrong)?;
    let two = |digits: &str| match digits.as_bytes() {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => Ok(u16::from(tens - b'0') * 10 + u16::from(ones - b'0')),
        _ => Err(wrong()),
    };
    let (hour, minute) = (two(hour)?, two(minute)?);
    match hour * 60 + minute {
        minutes @ 0..=DAY_MINUTES if minute < 60 => Ok(minutes),
        _ => Err(wrong()),
    }
}

/// When messages of a queue may be handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Now.
    Now,
    /// From then on.
    At(TimeMs),
    /// Not while its window is as it is.
    Never,
}

/// The windows of queues, and how long what is known of each holds: they are asked before each hand-out.
#[derive(Debug, Default)]
pub(crate) struct Windows(BTreeMap<Box<str>, Known>);

#[derive(Debug)]
struct Known {
    text: Box<str>,
    opening: Opening,
    since: TimeMs,
    until: TimeMs,
}

impl Windows {
    /// Whether a queue with this window hands out messages at `now`.
    pub fn opening(&mut self, queue: &str, text: Option<&str>, now: TimeMs) -> Opening {
        let Some(text) = text else {
            self.forget(queue);
            return Opening::Now;
        };
        let holds = |known: &&Known| *known.text == *text && known.since <= now && now < known.until;
        if let Some(known) = self.0.get(queue).filter(holds) {
            return known.opening;
        }
        let known = Known::new(queue, text, now);
        let opening = known.opening;
        self.0.insert(queue.into(), known);
        opening
    }

    /// The queue is gone, or has no window.
    pub fn forget(&mut self, queue: &str) {
        self.0.remove(queue);
    }
}

impl Known {
    fn new(queue: &str, text: &str, now: TimeMs) -> Known {
        let unchanged = TimeMs(now.0.saturating_add(UNCHANGED_MS));
        let (opening, until) = match DeliveryWindow::parse(text) {
            Ok(window) => match window.state(now) {
                WindowState { is_open: true, changes_at } => (Opening::Now, changes_at.unwrap_or(unchanged)),
                WindowState { is_open: false, changes_at: Some(at) } => (Opening::At(at), at),
                WindowState { is_open: false, changes_at: None } => (Opening::At(unchanged), unchanged),
            },
            // It was checked when it was set; a newer program may know less zones.
            Err(error) => {
                let what = "the delivery window of this queue cannot be read: it hands out nothing";
                tracing::error!(queue, %error, "{what}");
                (Opening::Never, unchanged)
            }
        };
        Known { text: text.into(), opening, since: now, until }
    }
}

#[cfg(test)]
mod tests;
