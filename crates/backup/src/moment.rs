//! Moments as people write them: RFC 3339 in UTC, with milliseconds, and without punctuation as names of backups.

use std::fmt;

const DAY_MS: u64 = 86_400_000;

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

/// `2026-11-22T04:50:12.123Z`.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.0 / DAY_MS);
        let (hour, minute, second, ms) = clock(self.0 % DAY_MS);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

impl Moment {
    /// `20261122T045012.123Z`: names sort as the moments do.
    pub fn name(self) -> String {
        self.to_string().replace(['-', ':'], "")
    }
}

/// Reads `2026-11-22T04:50:12Z`, with or without a fraction of the second (of which milliseconds count). A day alone is
/// its beginning. `None` for anything else, another time zone included.
pub fn parse_moment(text: &str) -> Option<Moment> {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, time.strip_suffix('Z')?),
        None => (text, "00:00:00"),
    };
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(whole, ':', [2, 2, 2])?;
    let digits = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let ms: u64 = digits.then(|| format!("{fraction:0<3}")[..3].parse().ok()).flatten()?;
    if !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 59 || year < 1970 {
        return None;
    }
    let days = days(year, month, day);
    let is_day = day >= 1 && civil(days) == (year, month, day);
    is_day.then(|| Moment(days * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1_000 + ms))
}

/// Three numbers of so many digits each.
fn numbers(text: &str, between: char, digits: [usize; 3]) -> Option<[u64; 3]> {
    let mut parts = text.split(between);
    let mut numbers = [0; 3];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = is_number.then(|| part.parse().ok()).flatten()?;
    }
    parts.next().is_none().then_some(numbers)
}

fn clock(ms: u64) -> (u64, u64, u64, u64) {
    (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000)
}

/// Year, month and day of a day since 1970, after H. Hinnant, "chrono-compatible low-level date algorithms".
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// The reverse of [`civil`], from 1970 on.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day.saturating_sub(1);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::{Moment, parse_moment};

    #[test]
    fn moments_are_read_as_they_are_written() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_795_252_489_120, "2026-11-21T09:14:49.120Z"),
            (4_107_542_400_999, "2100-03-01T00:00:00.999Z"),
        ] {
            assert_eq!(Moment(ms).to_string(), text);
            assert_eq!(parse_moment(text), Some(Moment(ms)));
        }
        assert_eq!(Moment(1_795_252_489_120).name(), "20261121T091449.120Z");
        assert_eq!(parse_moment("2026-11-21T09:14:49Z"), Some(Moment(1_795_252_489_000)));
        assert_eq!(parse_moment("2026-11-21T09:14:49.12Z"), Some(Moment(1_795_252_489_120)));
        assert_eq!(parse_moment("1970-01-02"), Some(Moment(86_400_000)));
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "2026",
            "2026-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "2026-1-1",
            "1969-12-31",
            "2026-01-01T00:00:00",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00Z",
            "2026-01-01T00:00:00+01:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.xZ",
            "2026-01-01-01",
        ] {
            assert_eq!(parse_moment(text), None, "{text:?}");
        }
    }
}
