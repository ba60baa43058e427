//! What the log says of one link: that it does not work, at most once a minute while it fails for one reason, and that
//! it works again.

use std::time::Duration;

use tokio::time::Instant;

/// A link that goes on failing is told of again after this.
const AGAIN: Duration = Duration::from_secs(60);
/// The same if it fails for another reason.
const OTHER_REASON: Duration = Duration::from_secs(5);

/// What was said.
#[derive(Debug, Default)]
pub struct Told {
    failed: Option<(Instant, Box<str>)>,
    /// Its failure was told, and nothing since.
    is_down: bool,
}

impl Told {
    /// It fails, and this is why: whether to say so.
    pub fn fails(&mut self, why: &str, now: Instant) -> bool {
        let is_due = self.failed.as_ref().is_none_or(|(at, last)| {
            let after = if **last == *why { AGAIN } else { OTHER_REASON };
            now >= *at + after
        });
        if is_due {
            (self.failed, self.is_down) = (Some((now, why.into())), true);
        }
        is_due
    }

    /// It works: whether to say so, as its failure was told.
    pub fn works(&mut self) -> bool {
        std::mem::take(&mut self.is_down)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_comes_and_goes_is_told_of_once_a_minute() {
        let (mut told, start) = (Told::default(), Instant::now());
        assert!(!told.works(), "nothing was wrong");
        let mut lines = 0;
        for second in 0..=120 {
            lines += usize::from(told.fails("away", start + Duration::from_secs(second)));
            lines += usize::from(told.works());
        }
        assert_eq!(lines, 6, "three failures, and each time that it works again");
        assert!(told.fails("away", start + AGAIN * 3) && !told.fails("away", start + AGAIN * 3));
    }

    #[test]
    fn another_reason_is_told_soon_and_reasons_that_alternate_are_bounded() {
        let (mut told, start) = (Told::default(), Instant::now());
        let fails = |told: &mut Told, why, second| told.fails(why, start + Duration::from_secs(second));
        assert!(fails(&mut told, "away", 0) && !fails(&mut told, "full", 4) && fails(&mut told, "full", 5));
        assert!(!fails(&mut told, "full", 64) && fails(&mut told, "full", 65));
        let alternating = (66..126).filter(|second| fails(&mut told, ["away", "full"][(second % 2) as usize], *second));
        assert!(alternating.count() <= 12);
    }
}
