//! What may happen often, and is said seldom.

use tidegate_machines::TimeMs;

/// It is said once in so many milliseconds.
const SAID_EVERY_MS: u64 = 10_000;

/// Counts what is not said.
#[derive(Debug, Default)]
pub struct Seldom {
    said_at: Option<TimeMs>,
    unsaid: u64,
}

impl Seldom {
    /// It has happened so many times more. If it is time, `say` says how often since it was said last.
    pub fn note(&mut self, times: u64, now: TimeMs, say: impl FnOnce(u64)) {
        self.unsaid += times;
        if self.said_at.is_none_or(|said| now.0 >= said.0.saturating_add(SAID_EVERY_MS)) {
            self.said_at = Some(now);
            say(std::mem::take(&mut self.unsaid));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_often_is_said_seldom_with_its_count() {
        let (mut seldom, mut said) = (Seldom::default(), Vec::new());
        for ms in 0..30_000 {
            seldom.note(2, TimeMs(ms), |count| said.push((ms, count)));
        }
        assert_eq!(said, [(0, 2), (10_000, 20_000), (20_000, 20_000)]);
    }
}
