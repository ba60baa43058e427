//! Whole numbers on the command line.

use std::ops::RangeInclusive;

/// Reads a whole number of `range`; who wrote another one is told what was expected: `what`, in plural, with its unit.
pub fn whole<N: TryFrom<u64>>(
    range: RangeInclusive<u64>,
    what: &'static str,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| match (range.start(), range.end()) {
            (least, &u64::MAX) => format!("expected {what}, a whole number, {least} or more"),
            (least, most) => format!("expected {what}, a whole number from {least} to {most}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn a_number_is_of_its_range_and_its_type() {
        let digits = whole::<u8>(0..=18, "digits");
        assert_eq!([digits("0"), digits("18")], [Ok(0), Ok(18)]);
        for text in ["19", "-1", "", "x", "1.5", "300"] {
            assert_eq!(digits(text).unwrap_err(), "expected digits, a whole number from 0 to 18");
        }
        let rows = whole::<u32>(1..=u64::MAX, "rows");
        assert_eq!(rows("4294967295"), Ok(u32::MAX));
        for text in ["0", "4294967296"] {
            assert_eq!(rows(text).unwrap_err(), "expected rows, a whole number, 1 or more");
        }
    }
}
