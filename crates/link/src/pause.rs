//! Pauses after failures: each twice as long as the one before, up to a bound.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(100);

/// The next pause of one link.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    next: Duration,
    max: Duration,
}

impl Pause {
    /// Pauses of at most so many milliseconds.
    pub fn new(max_ms: u64) -> Pause {
        let max = Duration::from_millis(max_ms);
        Pause { next: FIRST.min(max), max }
    }

    /// It went well.
    pub fn reset(&mut self) {
        self.next = FIRST.min(self.max);
    }

    /// It went wrong: how long to pause.
    pub fn take(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.max);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound_and_begin_anew() {
        let mut pause = Pause::new(500);
        let ms: Vec<u128> = (0..5).map(|_| pause.take().as_millis()).collect();
        assert_eq!(ms, [100, 200, 400, 500, 500]);
        pause.reset();
        assert_eq!(pause.take(), FIRST);
        assert_eq!(Pause::new(20).take(), Duration::from_millis(20));
    }
}
