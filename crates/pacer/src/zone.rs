//! Days of a campaign's zone.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tidegate_machines::TimeMs;

/// A day of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneDay {
    /// Days since 1970.
    pub number: i32,
    /// It begins then.
    pub begins: TimeMs,
    /// It ends before then.
    pub ends: TimeMs,
}

impl ZoneDay {
    /// Whether a time is of this day.
    pub fn has(&self, now: TimeMs) -> bool {
        self.begins <= now && now < self.ends
    }
}

/// The day of a zone at a time; the day of UTC where the zone's cannot be told, which is after the year 9999.
pub fn day_at(zone: &TimeZone, now: TimeMs) -> ZoneDay {
    in_zone(zone, now).unwrap_or_else(|| {
        const DAY_MS: u64 = 86_400_000;
        let number = now.0 / DAY_MS;
        let begins = TimeMs(number * DAY_MS);
        ZoneDay { number: i32::try_from(number).unwrap_or(i32::MAX), begins, ends: TimeMs(begins.0 + DAY_MS) }
    })
}

fn in_zone(zone: &TimeZone, now: TimeMs) -> Option<ZoneDay> {
    let at = Timestamp::from_millisecond(now.0.try_into().ok()?).ok()?.to_zoned(zone.clone());
    let begins = at.start_of_day().ok()?;
    let ends = at.tomorrow().ok()?.start_of_day().ok()?;
    let epoch = jiff::civil::date(1970, 1, 1);
    let number = (at.date() - epoch).get_days();
    let ms = |at: &jiff::Zoned| u64::try_from(at.timestamp().as_millisecond()).ok().map(TimeMs);
    Some(ZoneDay { number, begins: ms(&begins)?, ends: ms(&ends)? })
}

/// A zone by its name in the tz database. Names that are another zone on another machine are none.
pub fn find(name: &str) -> Option<TimeZone> {
    let is_of_host = ["localtime", "posixrules"].iter().any(|own| name.eq_ignore_ascii_case(own));
    TimeZone::get(name).ok().filter(|_| !is_of_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_the_same_on_all_machines() {
        assert!(find("Etc/UTC").is_some() && find("europe/berlin").is_some());
        for name in ["localtime", "LocalTime", "posixrules", "Mars/Olympus", ""] {
            assert_eq!(find(name), None, "{name}");
        }
    }

    #[test]
    fn a_day_begins_at_midnight_of_its_zone() {
        let berlin = find("Europe/Berlin").expect("it is in the database");
        // 2026-03-29: the clocks go forward at two.
        let noon = TimeMs(1_774_778_400_000);
        let day = day_at(&berlin, noon);
        assert_eq!((day.number, day.ends.0 - day.begins.0), (20_541, 23 * 3_600_000));
        assert!(day.has(noon) && !day.has(day.ends) && day.has(day.begins));
        assert_eq!(day_at(&find("UTC").expect("it is"), TimeMs(86_400_000 * 3)).number, 3);
    }
}
