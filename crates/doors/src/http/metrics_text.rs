//! The text of `/metrics`: made for each who asks, up to so many times a second; in a flood, all get the last one.
//!
//! Why: it costs many times as much to make as to send.

use std::time::{Duration, Instant};

use axum::body::Bytes;
use tidegate_telemetry::Exposition;

use super::door::Door;

/// Texts of one edge thread per second.
const MADE_PER_S_MAX: u32 = 20;

/// The last text of one edge thread.
#[derive(Default)]
pub(super) struct MetricsText {
    text: Bytes,
    /// When the second began in which they are counted.
    since: Option<Instant>,
    made: u32,
}

impl MetricsText {
    /// The text at `now`, at most a second old.
    fn at(&mut self, now: Instant, make: impl FnOnce() -> String) -> Bytes {
        if self.since.is_none_or(|since| now.duration_since(since) >= Duration::from_secs(1)) {
            (self.since, self.made) = (Some(now), 0);
        }
        if self.made < MADE_PER_S_MAX {
            self.made += 1;
            self.text = make().into();
        }
        self.text.clone()
    }
}

impl Door {
    /// What `/metrics` shows now.
    pub(super) fn metrics_text(&self, exposition: Exposition) -> Bytes {
        let mut texts = self.metrics_text.lock().expect("no thread panics while it makes the text");
        texts[exposition as usize].at(Instant::now(), || self.operations.metrics(exposition))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_gets_a_text_that_is_at_most_a_second_old() {
        let (mut text, mut made, began) = (MetricsText::default(), 0, Instant::now());
        let mut ask = |after_ms| {
            let make = || {
                made += 1;
                made.to_string()
            };
            let text = text.at(began + Duration::from_millis(after_ms), make);
            std::str::from_utf8(&text).unwrap().parse::<u32>().unwrap()
        };
        assert_eq!([0, 1, 1].map(&mut ask), [1, 2, 3], "each has its own");
        assert!((0..1_000).all(|n| ask(n) <= MADE_PER_S_MAX));
        assert_eq!(ask(999), MADE_PER_S_MAX);
        assert_eq!(ask(1_000), MADE_PER_S_MAX + 1);
    }
}
