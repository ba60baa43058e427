//! The time that an id carries, read from its text.
//!
//! | shape | example | within |
//! |---|---|---|
//! | ULID | `01JD9Z3V8M4T0Q2XK5R7W1YBCE` | a minute |
//! | UUID of version 7 | `01935f0e-1b2c-7d3e-8f40-5a6b7c8d9e0f` | a minute |
//! | a date between the first two colons | `till-4:20261122:17:000431`, `till-4:2026-11-22:17:431` | a day and a half |
//!
//! Why a wrong guess is harmless: an id that has such a shape by accident has a time far from that of its record, and
//! is then kept like any other.

use tidegate_machines::text_words::has_either;

/// Seconds by which the clock of a client may differ from the ledger's for its ids to be kept by their times.
const CLOCK_WINDOW: u32 = 60;
const DAY: u32 = 86_400;
/// Bytes of an id with a date, at least.
const DATED_BYTES_MIN: usize = 12;
/// Ends the id space; no client's id has it.
const BEHIND_SPACE: u8 = 0x1f;

/// The time in an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdTime {
    /// Seconds since 1970, not zero.
    pub(super) seconds: u32,
    /// How far that may be from the true time.
    pub(super) window: u32,
}

/// The time in `id`, if it has a shape that is known. The id space that it may begin with has none.
#[inline]
pub(super) fn time_in(id: &[u8]) -> Option<IdTime> {
    if !has_either(id, b':', BEHIND_SPACE) {
        return of_digits(id);
    }
    match id.iter().position(|byte| *byte == BEHIND_SPACE) {
        Some(at) => shaped(&id[at + 1..]),
        None => shaped(id),
    }
}

#[inline]
fn of_digits(id: &[u8]) -> Option<IdTime> {
    match id.len() {
        26 => ulid(id),
        36 => uuid7(id),
        _ => None,
    }
}

fn shaped(id: &[u8]) -> Option<IdTime> {
    of_digits(id).or_else(|| if id.len() >= DATED_BYTES_MIN { dated(id) } else { None })
}

fn of_millis(millis: u64) -> Option<IdTime> {
    let seconds = u32::try_from(millis / 1000).ok().filter(|seconds| *seconds > 0)?;
    Some(IdTime { seconds, window: CLOCK_WINDOW })
}

/// Crockford's base 32: ten digits of time, sixteen of chance.
fn ulid(id: &[u8]) -> Option<IdTime> {
    let mut millis = 0;
    for digit in &id[..10] {
        millis = millis << 5 | u64::from(base32(*digit)?);
    }
    of_millis(millis)
}

fn base32(digit: u8) -> Option<u8> {
    Some(match digit.to_ascii_uppercase() {
        digit @ b'0'..=b'9' => digit - b'0',
        digit @ b'A'..=b'H' => digit - b'A' + 10,
        digit @ b'J'..=b'K' => digit - b'J' + 18,
        digit @ b'M'..=b'N' => digit - b'M' + 20,
        digit @ b'P'..=b'T' => digit - b'P' + 22,
        digit @ b'V'..=b'Z' => digit - b'V' + 27,
        _ => return None,
    })
}

/// Twelve hexadecimal digits of milliseconds, a hyphen behind the eighth; then the version.
fn uuid7(id: &[u8]) -> Option<IdTime> {
    if id[8] != b'-' || id[13] != b'-' || id[14] != b'7' || id[18] != b'-' || id[23] != b'-' {
        return None;
    }
    let mut millis = 0;
    for digit in id[..8].iter().chain(&id[9..13]) {
        millis = millis << 4 | u64::from((*digit as char).to_digit(16)?);
    }
    of_millis(millis)
}

/// The middle of the day that stands between the first two colons.
fn dated(id: &[u8]) -> Option<IdTime> {
    let begin = id.iter().position(|byte| *byte == b':')? + 1;
    let rest = &id[begin..];
    let (year, month, day) = match rest.iter().position(|byte| *byte == b':')? {
        8 => (&rest[..4], &rest[4..6], &rest[6..8]),
        10 if rest[4] == b'-' && rest[7] == b'-' => (&rest[..4], &rest[5..7], &rest[8..10]),
        _ => return None,
    };
    let (year, month, day) = (number(year)?, number(month)?, number(day)?);
    if !(1971..=2105).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * DAY + DAY / 2;
    Some(IdTime { seconds, window: DAY + DAY / 2 })
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u32::from(digit - b'0')))
}

/// Of the Gregorian calendar; the 31st of a shorter month is the first of the next one.
fn days_since_1970(year: u32, month: u32, day: u32) -> u32 {
    // Years that begin in March have their leap day at the end.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use tidegate_machines::IdSpace;

    use super::*;

    fn seconds(id: &str) -> Option<u32> {
        time_in(id.as_bytes()).map(|time| time.seconds)
    }

    #[test]
    fn ids_with_a_time_are_known_by_their_shape() {
        // The examples of their specifications.
        assert_eq!(seconds("01ARZ3NDEKTSV4RRFFQ69G5FAV"), Some(1_469_922_850));
        assert_eq!(seconds("01arz3ndektsv4rrffq69g5fav"), Some(1_469_922_850));
        assert_eq!(seconds("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"), Some(1_645_557_742));
        for id in ["till-4:20261122:17:000431", "till-4:2026-11-22:17:000431", "a:20261122:x"] {
            assert_eq!(seconds(id), Some(1_795_305_600 + DAY / 2), "{id}");
        }
        assert_eq!(seconds("a:20000229:1"), Some(951_782_400 + DAY / 2));
    }

    #[test]
    fn an_id_space_hides_no_time() {
        let whole = |space: &str, id: &str| IdSpace::new(space).expect("a name").whole(id).into_string();
        assert_eq!(seconds(&whole("dave", "01ARZ3NDEKTSV4RRFFQ69G5FAV")), Some(1_469_922_850));
        assert_eq!(seconds(&whole("", "017F22E2-79B0-7CC3-98C4-DC0C0C07398F")), Some(1_645_557_742));
        assert_eq!(seconds(&whole("shop:1:2", "017F22E2-79B0-7CC3-98C4-DC0C0C07398F")), Some(1_645_557_742));
        assert_eq!(seconds(&whole("a:20000229:x", "vote-1")), None, "a time in the name of a space is none of its ids");
    }

    #[test]
    fn other_ids_have_none() {
        let others = [
            "",
            "vote-1",
            "01ARZ3NDEUTSV4RRFFQ69G5FAV",
            "017F22E2-79B0-4CC3-98C4-DC0C0C07398F",
            "a:20261322:1",
            "a:2026112:1x",
            "a:20261122",
            "00000000000000000000000000",
            "storm:12345678:9:10",
        ];
        for id in others {
            assert_eq!(seconds(id), None, "{id}");
        }
    }

    /// A ULID of this time: all digits of its alphabet come, in both cases.
    fn ulid_of(millis: u64) -> String {
        const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        let digit = |nth: u64| char::from(DIGITS[(millis >> (5 * nth)) as usize & 31]);
        let text: String = (0..10).rev().map(digit).chain("TSV4RRFFQ69G5FAV".chars()).collect();
        if millis.is_multiple_of(2) { text } else { text.to_lowercase() }
    }

    proptest::proptest! {
        #[test]
        fn a_time_that_was_put_into_an_id_is_read_from_it(millis in 1_000u64..u64::from(u32::MAX) * 1_000) {
            let (high, low) = (millis >> 16, millis & 0xffff);
            for id in [ulid_of(millis), format!("{high:08x}-{low:04x}-7c3e-8f40-5a6b7c8d9e0f")] {
                let expected = IdTime { seconds: (millis / 1_000) as u32, window: 60 };
                proptest::prop_assert_eq!(time_in(id.as_bytes()), Some(expected), "{}", id);
            }
        }

        #[test]
        fn any_day_of_an_id_may_be_anywhere_on_earth(year in 1971u32..2106, month in 1u32..13, day in 1u32..29) {
            let days = days_since_1970(year, month, day);
            let expected = Some(IdTime { seconds: days * 86_400 + 43_200, window: 86_400 + 43_200 });
            for id in [format!("till-4:{year}{month:02}{day:02}:17"), format!("t:{year}-{month:02}-{day:02}:17")] {
                proptest::prop_assert_eq!(time_in(id.as_bytes()), expected, "{}", id);
            }
        }
    }

    #[test]
    fn what_only_looks_like_a_time_is_none() {
        let uuid = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
        for at in [8, 13, 14, 18, 23] {
            let mut other = uuid.to_owned();
            other.replace_range(at..=at, "0");
            assert_eq!(seconds(&other), None, "{other}");
        }
        for id in
            ["a:2026x11-22:1", "a:2026-11x22:1", "a:2026111122:1", "a:2106-01-01:1", "a:1970-01-01:1", "a:2026-00-01:1"]
        {
            assert_eq!(seconds(id), None, "{id}");
        }
        for letter in ["I", "L", "O", "U", "-"] {
            assert_eq!(seconds(&format!("01ARZ3NDE{letter}TSV4RRFFQ69G5FAV")), None, "{letter} is no digit");
        }
    }
}
