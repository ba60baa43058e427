//! Times as RFC 3339, written and read: dates that the API shows to people, and takes from them.

use std::time::{SystemTime, UNIX_EPOCH};

/// What this host's clock says, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// `2026-11-21T09:14:49Z` for seconds since 1970.
pub fn rfc3339(epoch_s: u64) -> String {
    let (days, second) = ((epoch_s / 86_400) as i64, epoch_s % 86_400);
    // Days to civil date, from H. Hinnant, "chrono-compatible low-level date algorithms": years begin in March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60)
}

/// Milliseconds since the epoch of a time that a person or a program writes: a number of milliseconds, or RFC 3339
/// (`2026-11-21T09:14:49Z`, `2026-11-21T10:14:49.250+01:00`). `None` for anything else, and for a time before 1970.
pub fn time_ms(text: &str) -> Option<u64> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let number = |range: std::ops::Range<usize>, max: i64| {
        let digits = text.get(range)?;
        let number: i64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
        (number <= max).then_some(number)
    };
    let marks = [(4, "-"), (7, "-"), (13, ":"), (16, ":")];
    if marks.iter().any(|(at, mark)| text.get(*at..at + 1) != Some(*mark))
        || !matches!(text.get(10..11)?, "T" | "t" | " ")
    {
        return None;
    }
    let (year, month, day) = (number(0..4, 9_999)?, number(5..7, 12)?, number(8..10, 31)?);
    // A leap second counts as the second after it.
    let (hour, minute, second) = (number(11..13, 23)?, number(14..16, 59)?, number(17..19, 60)?);
    let rest = text.get(19..)?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|sign: char| !sign.is_ascii_digit())?),
        None => ("", rest),
    };
    if rest.starts_with('.') && fraction.is_empty() {
        return None;
    }
    let millis: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let days = days_of(year, month, day)?;
    let epoch_s = days * 86_400 + hour * 3_600 + minute * 60 + second - zone_s(zone)?;
    u64::try_from(epoch_s * 1_000 + millis).ok()
}

/// Days from 1970 to a date; `None` for one that the calendar does not have.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let in_month = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if month == 0 || day == 0 || day > in_month {
        return None;
    }
    // The way back of `rfc3339`.
    let year = year - i64::from(month <= 2);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let year_of_era = year.rem_euclid(400);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(year.div_euclid(400) * 146_097 + day_of_era - 719_468)
}

/// Seconds that a zone (`Z`, `+01:00`) is ahead of UTC.
fn zone_s(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, rest) = (zone.get(..1)?, zone.get(1..)?);
    let (hours, minutes) = rest.split_once(':')?;
    let two = |digits: &str, max: i64| {
        let is_two = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_two.then(|| digits.parse::<i64>().ok())?.filter(|number| *number <= max)
    };
    let ahead = two(hours, 23)? * 3_600 + two(minutes, 59)? * 60;
    // In a URL, a plus sign that is not percent-encoded is a space.
    match sign {
        "+" | " " => Some(ahead),
        "-" => Some(-ahead),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{rfc3339, time_ms};

    #[test]
    fn reads_what_it_writes_and_what_others_write() {
        for epoch_s in (0..4_200_000_000).step_by(86_399 * 97) {
            assert_eq!(time_ms(&rfc3339(epoch_s)), Some(epoch_s * 1_000));
        }
        for (text, expected) in [
            ("1795252489123", Some(1_795_252_489_123)),
            ("0", Some(0)),
            ("2026-11-21T09:14:49.5Z", Some(1_795_252_489_500)),
            ("2026-11-21t10:14:49.123456+01:00", Some(1_795_252_489_123)),
            ("2026-11-21 10:14:49 01:00", Some(1_795_252_489_000)),
            ("2026-11-20T23:14:49-10:00", Some(1_795_252_489_000)),
            ("", None),
            ("-1", None),
            ("now", None),
            ("2026-11-21", None),
            ("2026-11-21T09:14:49", None),
            ("2026-11-21T09:14:49.Z", None),
            ("2026-02-29T09:14:49Z", None),
            ("2026-13-01T09:14:49Z", None),
            ("2026-00-01T09:14:49Z", None),
            ("2026-11-21T24:14:49Z", None),
            ("2026-11-21T09:14:49+1:00", None),
            ("1969-12-31T23:59:59Z", None),
            ("99999999999999999999999", None),
            ("2026-11-2\u{e4}T09:14:49Z", None),
        ] {
            assert_eq!(time_ms(text), expected, "{text}");
        }
    }

    #[test]
    fn knows_the_calendar() {
        for (epoch_s, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_795_252_489, "2026-11-21T09:14:49Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(epoch_s), text);
        }
    }
}
