//! The campaigns that are asked for, by number.

use anyhow::{Context, Result, ensure};
use std::str::FromStr;

/// Most campaigns of a load.
const CAMPAIGNS_MAX: usize = 1_000_000;

/// Numbers of campaigns, each once, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Campaigns(pub Vec<u32>);

impl FromStr for Campaigns {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Campaigns> {
        let how = || format!("{text:?}: give numbers and ranges of campaigns, such as 1-1000 or 3,7,20-29");
        let mut numbers = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u32 = first.trim().parse().with_context(how)?;
            let last: u32 = last.trim().parse().with_context(how)?;
            ensure!(first <= last, "{part:?} ends before it begins; write {last}-{first}");
            let count = (last - first) as usize + 1;
            ensure!(numbers.len() + count <= CAMPAIGNS_MAX, "{text:?} has more than {CAMPAIGNS_MAX} campaigns");
            numbers.extend(first..=last);
        }
        let (given, mut sorted) = (numbers.len(), numbers.clone());
        sorted.sort_unstable();
        sorted.dedup();
        ensure!(sorted.len() == given, "{text:?} has a campaign twice");
        Ok(Campaigns(numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges() {
        let of = |text: &str| text.parse::<Campaigns>().map(|campaigns| campaigns.0);
        assert_eq!(of("7").unwrap(), [7]);
        assert_eq!(of("3,7, 20-22").unwrap(), [3, 7, 20, 21, 22]);
        assert_eq!(of("1-1000").unwrap().len(), 1_000);
        for (wrong, says) in [
            ("", "give numbers"),
            ("a", "give numbers"),
            ("1-", "give numbers"),
            ("4294967296", "give numbers"),
            ("9-2", "write 2-9"),
            ("1,1", "twice"),
            ("0-4294967295", "more than"),
        ] {
            let error = format!("{:#}", of(wrong).unwrap_err());
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}
