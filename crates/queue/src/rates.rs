//! How fast a queue fills and empties.
//!
//! A rate over `n` seconds is an average in which what happened `n` seconds ago counts a third of what happens now
//! (exponential weights), as load averages are: it needs no memory of the seconds between.

use tidegate_machines::queue::{Counts, Totals};

/// Over how many seconds.
pub const SPANS_S: [f64; 3] = [1.0, 10.0, 100.0];

/// Messages a second over 1, 10 and 100 seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Messages taken.
    pub sent: [f64; 3],
    /// Messages done with.
    pub acknowledged: [f64; 3],
    totals: (u64, u64),
}

impl Rates {
    /// Rates of a queue that has done this so far: all of them zero.
    pub fn new(totals: &Totals) -> Rates {
        Rates { totals: (totals.sent, totals.acknowledged), ..Rates::default() }
    }

    /// Counts what was done in the last `seconds`.
    pub fn follow(&mut self, totals: &Totals, seconds: f64) {
        let before = std::mem::replace(&mut self.totals, (totals.sent, totals.acknowledged));
        let done = (totals.sent.saturating_sub(before.0), totals.acknowledged.saturating_sub(before.1));
        for (span, (sent, acknowledged)) in SPANS_S.iter().zip(self.sent.iter_mut().zip(&mut self.acknowledged)) {
            let weight = 1.0 - (-seconds / span).exp();
            *sent += weight * (done.0 as f64 / seconds - *sent);
            *acknowledged += weight * (done.1 as f64 / seconds - *acknowledged);
        }
    }

    /// Seconds until nothing waits, if the queue goes on as over the last ten seconds; `None` if it never empties so.
    pub fn drained_in_s(&self, counts: &Counts) -> Option<f64> {
        let falls = self.acknowledged[1] - self.sent[1];
        match counts.waiting + counts.leased {
            0 => Some(0.0),
            waiting => (falls > 0.0).then(|| waiting as f64 / falls),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_what_is_done() {
        let mut totals = Totals::default();
        let mut rates = Rates::new(&totals);
        for _ in 0..1_000 {
            totals.sent += 50;
            totals.acknowledged += 60;
            rates.follow(&totals, 1.0);
        }
        let near = |found: f64, wanted: f64| (found - wanted).abs() < 0.1;
        assert!(rates.sent.iter().all(|rate| near(*rate, 50.0)) && rates.acknowledged.iter().all(|r| near(*r, 60.0)));
        let waiting = Counts { waiting: 90, scheduled: 7, leased: 10 };
        assert!(near(rates.drained_in_s(&waiting).unwrap(), 10.0));
        totals.sent += 500;
        rates.follow(&totals, 1.0);
        assert!(rates.sent[0] > 300.0 && rates.sent[2] < 60.0, "{rates:?}");
        assert_eq!(rates.drained_in_s(&waiting), None);
        assert_eq!(rates.drained_in_s(&Counts::default()), Some(0.0));
    }
}
