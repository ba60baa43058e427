//! Seconds since the epoch as RFC 3339, in UTC: the one date that the API shows to people.

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

#[cfg(test)]
mod tests {
    use super::rfc3339;

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
