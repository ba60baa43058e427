//! What the log says of one link: that it does not work, at most once a minute, and that it works again.

use std::time::Duration;

use tokio::time::Instant;

/// A link that goes on failing is told of again after this.
const AGAIN: Duration = Duration::from_secs(60);

/// What was said.
#[derive(Debug, Default)]
pub struct Told {
    failed_at: Option<Instant>,
    /// Its failure was told, and nothing since.
    is_down: bool,
}

impl Told {
    /// It fails: whether to say so.
    pub fn fails(&mut self, now: Instant) -> bool {
        let is_due = self.failed_at.is_none_or(|at| now >= at + AGAIN);
        if is_due {
            (self.failed_at, self.is_down) = (Some(now), true);
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
            lines += usize::from(told.fails(start + Duration::from_secs(second)));
            lines += usize::from(told.works());
        }
        assert_eq!(lines, 6, "three failures, and each time that it works again");
        assert!(told.fails(start + AGAIN * 3) && !told.fails(start + AGAIN * 3));
    }
}
