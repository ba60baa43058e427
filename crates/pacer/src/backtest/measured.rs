//! What a campaign measures of its market, for its strategy: averages in which what is older counts less.

/// Requests are averaged over about this time, in seconds.
const REQUESTS_S: f64 = 30.0;
/// Wins and prices, which are fewer.
const WINS_S: f64 = 300.0;

/// Averages.
#[derive(Debug, Default)]
pub(super) struct Measured {
    requests: f64,
    /// How much the seconds count that were averaged: at first, there are few.
    weight: f64,
    ends: f64,
    wins: f64,
    paid: f64,
}

impl Measured {
    /// A second is over: so many requests came.
    pub fn end_second(&mut self, requests: usize) {
        let kept = 1.0 - 1.0 / REQUESTS_S;
        self.requests = self.requests * kept + requests as f64;
        self.weight = self.weight * kept + 1.0;
        let kept = 1.0 - 1.0 / WINS_S;
        self.ends *= kept;
        self.wins *= kept;
        self.paid *= kept;
    }

    /// A bid has won.
    pub fn win(&mut self, paid: u64) {
        self.ends += 1.0;
        self.wins += 1.0;
        self.paid += paid as f64;
    }

    /// A bid has lost, or nothing was ever heard of it.
    pub fn loss(&mut self) {
        self.ends += 1.0;
    }

    /// Requests in a second.
    pub fn requests_per_s(&self) -> f64 {
        if self.weight > 0.0 { self.requests / self.weight } else { 0.0 }
    }

    /// The share of bids that won.
    pub fn win_rate(&self) -> f64 {
        if self.ends > 0.0 { self.wins / self.ends } else { 0.0 }
    }

    /// What a win cost.
    pub fn win_price(&self) -> f64 {
        if self.wins > 0.0 { self.paid / self.wins } else { 0.0 }
    }
}
