//! The search for the highest rate at which 99 of 100 packets are answered in time.

use super::{Load, Measured, Protocol, Target, measure};
use anyhow::{Result, bail};
use std::time::Duration;

/// Measured of each trial.
const TRIAL: Duration = Duration::from_secs(2);
/// Not measured of each trial.
const TRIAL_WARM_UP: Duration = Duration::from_millis(500);
/// The search is over when the highest rate that holds and the lowest that does not are this close.
const RATIO_MIN: f64 = 1.04;
/// A rate that held a trial and not the whole time is lowered by so much, so often.
const CONFIRM_STEP: f64 = 0.95;
const CONFIRMATIONS_MAX: u32 = 10;
/// No server is as slow.
const RATE_MIN: f64 = 100.0;
/// A trial is over when the load is so much later than the bound.
const GIVE_UP_BOUNDS: u32 = 50;

/// Begins with the rate of `load`, doubles it until `p99_max` does not hold, closes in, and measures what it found for
/// the time of `load`.
pub fn find<P: Protocol>(
    target: &Target<'_>,
    load: Load,
    p99_max: Duration,
    mut protocol: impl FnMut() -> P,
) -> Result<Measured> {
    let mut run = |load: Load| {
        let load = Load { give_up_after: Some(p99_max * GIVE_UP_BOUNDS), ..load };
        let measured = measure(target, load, &mut protocol())?;
        let is_held = holds(&measured, p99_max);
        eprintln!(
            "{:>12.0} bids/s: {:>12.0} answered, p99 {:.2} ms{}",
            load.bids_per_s,
            measured.bids_per_s(),
            measured.latency_ms(0.99),
            if is_held { "" } else { ", too late" }
        );
        Ok::<_, anyhow::Error>((is_held, measured))
    };
    let trial = Load { warm_up: TRIAL_WARM_UP, measured: TRIAL.min(load.measured), ..load };
    let mut search = Search::beginning_at(load.bids_per_s);
    while let Some(rate) = search.next_rate() {
        if rate < RATE_MIN {
            bail!("99 of 100 packets are not answered in {p99_max:?} even at {RATE_MIN} bids a second: raise --p99-ms");
        }
        // A pause of the machine is not the limit of the server: a rate is too high if it is so twice.
        let is_held = run(Load { bids_per_s: rate, ..trial })?.0 || run(Load { bids_per_s: rate, ..trial })?.0;
        search.tried(rate, is_held);
    }
    let mut rate = search.highest_held;
    for _ in 0..CONFIRMATIONS_MAX {
        let (is_held, measured) = run(Load { bids_per_s: rate, ..load })?;
        if is_held {
            return Ok(measured);
        }
        rate *= CONFIRM_STEP;
    }
    bail!(
        "{:.0} bids a second held {p99_max:?} for {TRIAL:?}, and {rate:.0} did not for {:?}: is the machine busy?",
        search.highest_held,
        load.measured
    )
}

/// Whether the server kept up, and was in time. A packet that was refused was not answered in time, and wins that wait
/// for ever are none.
fn holds(measured: &Measured, p99_max: Duration) -> bool {
    let kept_up = measured.bids_per_s() >= 0.99 * measured.load.bids_per_s;
    let is_served = measured.answers.refusals() == 0 && measured.wins_untold == 0;
    kept_up && is_served && measured.latency_ms(0.99) <= p99_max.as_secs_f64() * 1e3
}

/// Doubling, then halving of the gap.
#[derive(Clone, Copy, Debug)]
struct Search {
    highest_held: f64,
    lowest_missed: f64,
    first: f64,
}

impl Search {
    fn beginning_at(first: f64) -> Search {
        Search { highest_held: 0.0, lowest_missed: f64::INFINITY, first }
    }

    /// What to try next; `None` when it is found.
    fn next_rate(&self) -> Option<f64> {
        match (self.highest_held, self.lowest_missed) {
            (0.0, f64::INFINITY) => Some(self.first),
            (0.0, missed) => Some(missed / 2.0),
            (held, f64::INFINITY) => Some(held * 2.0),
            (held, missed) => (missed / held > RATIO_MIN).then_some((held + missed) / 2.0),
        }
    }

    fn tried(&mut self, rate: f64, is_held: bool) {
        if is_held { self.highest_held = rate } else { self.lowest_missed = rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found of a server with this limit.
    fn found(first: f64, limit: f64) -> (f64, u32) {
        let (mut search, mut trials) = (Search::beginning_at(first), 0);
        while let Some(rate) = search.next_rate() {
            search.tried(rate, rate <= limit);
            trials += 1;
        }
        (search.highest_held, trials)
    }

    #[test]
    fn the_limit_is_found_from_below_and_from_above() {
        for (first, limit) in [(100_000.0, 4_321_000.0), (1e7, 4_321_000.0), (100_000.0, 100_000.0), (1e6, 750.0)] {
            let (held, trials) = found(first, limit);
            assert!(held <= limit && held * RATIO_MIN >= limit, "{first}, {limit}: {held}");
            assert!(trials <= 18, "{trials} trials");
        }
    }
}
