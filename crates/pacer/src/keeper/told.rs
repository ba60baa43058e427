//! What the log was told of lately, so that what goes on is said once and not in each round.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_machines::TimeMs;

/// After this, what goes on is said again.
const AGAIN_MS: u64 = 600_000;
/// At most so many things are said until then: what is wrong with one campaign may be wrong with ten thousand.
const TOLD_MAX: usize = 100;

/// Of what something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum About {
    /// The money of a campaign, by its number.
    Campaign(u32),
    /// Leases that are over.
    Settlements,
    /// All else.
    Others,
}

/// What was told since a time.
#[derive(Default)]
pub(super) struct Told {
    since: TimeMs,
    all: BTreeSet<String>,
    /// Of what it was told, and whether it was told that it is over.
    about: BTreeMap<About, bool>,
}

impl Told {
    /// Whether to say this of something now.
    pub fn is_new(&mut self, about: About, what: String, now: TimeMs) -> bool {
        if now.0 >= self.since.0.saturating_add(AGAIN_MS) {
            *self = Told { since: now, ..Told::default() };
        }
        let is_new = !self.is_full() && self.all.insert(what);
        if is_new {
            self.about.entry(about).or_default();
        }
        is_new
    }

    /// Whether no more is told for a while.
    pub fn is_full(&self) -> bool {
        self.all.len() >= TOLD_MAX
    }

    /// Whether to say that what was told of something is over: once, however often it comes and goes.
    pub fn is_over(&mut self, about: About) -> bool {
        self.about.get_mut(&about).is_some_and(|is_over| !std::mem::replace(is_over, true))
    }

    /// What is wrong from now on is new.
    pub fn forget(&mut self) {
        (self.all, self.about) = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_is_said_once_for_a_while_and_very_much_is_not_said() {
        let mut told = Told::default();
        let (begin, later) = (TimeMs(1_795_000_000_000), TimeMs(1_795_000_000_000 + AGAIN_MS));
        let said = |told: &mut Told, now: TimeMs| {
            let lease = |number: usize| told.is_new(About::Others, format!("lease {number} is frozen"), now);
            (0..3 * TOLD_MAX).map(lease).filter(|is_new| *is_new).count()
        };
        assert_eq!([said(&mut told, begin), said(&mut told, begin)], [TOLD_MAX, 0]);
        assert_eq!(said(&mut told, TimeMs(later.0 - 1)), 0);
        assert_eq!([said(&mut told, later), said(&mut told, later)], [TOLD_MAX, 0]);
        told.forget();
        assert!(told.is_new(About::Others, "lease 1 is frozen".to_owned(), later));
    }

    #[test]
    fn what_comes_and_goes_is_said_once_and_that_it_is_over_once() {
        let (mut told, now) = (Told::default(), TimeMs(1_795_000_000_000));
        let mut said = Vec::new();
        let (shoes, hats) = (About::Campaign(1), About::Campaign(2));
        for _ in 0..3 {
            for (about, what) in [(shoes, "shoes frozen"), (shoes, "shoes missing"), (hats, "hats frozen")] {
                said.extend(told.is_new(about, what.to_owned(), now).then_some(what));
            }
            said.extend(told.is_over(shoes).then_some("shoes are over"));
        }
        assert_eq!(said, ["shoes frozen", "shoes missing", "hats frozen", "shoes are over"]);
        assert!(!told.is_over(About::Settlements), "nothing was told of them");
    }
}
