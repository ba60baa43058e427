//! What the log was told of lately, so that what goes on is said once and not in each round.

use std::collections::BTreeSet;

use tidegate_machines::TimeMs;

/// After this, what goes on is said again.
const AGAIN_MS: u64 = 600_000;
/// At most so many things are said until then: what is wrong with one campaign may be wrong with ten thousand.
const TOLD_MAX: usize = 200;

/// What was told since a time.
#[derive(Default)]
pub(super) struct Told {
    since: TimeMs,
    /// What, and why.
    all: BTreeSet<(String, String)>,
}

impl Told {
    /// Whether to say this now.
    pub fn is_new(&mut self, what: &str, why: &str, now: TimeMs) -> bool {
        if now.0 >= self.since.0.saturating_add(AGAIN_MS) {
            *self = Told { since: now, all: BTreeSet::new() };
        }
        !self.is_full() && self.all.insert((what.to_owned(), why.to_owned()))
    }

    /// Whether nothing was told.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether no more is told for a while.
    pub fn is_full(&self) -> bool {
        self.all.len() >= TOLD_MAX
    }

    /// This goes on no more, for whatever reasons it did. Whether it was told.
    pub fn is_over(&mut self, what: &str) -> bool {
        let from = (what.to_owned(), String::new());
        let was_told = self.all.range(from..).next().is_some_and(|(other, _)| other == what);
        self.all.retain(|told| told.0 != what);
        was_told
    }

    /// What is wrong from now on is new.
    pub fn forget(&mut self) {
        self.all.clear();
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
            let lease = |number: usize| told.is_new(&format!("lease {number}"), "frozen", now);
            (0..3 * TOLD_MAX).map(lease).filter(|is_new| *is_new).count()
        };
        assert_eq!([said(&mut told, begin), said(&mut told, begin)], [TOLD_MAX, 0]);
        assert_eq!(said(&mut told, TimeMs(later.0 - 1)), 0);
        assert_eq!([said(&mut told, later), said(&mut told, later)], [TOLD_MAX, 0]);
        told.forget();
        assert!(told.is_new("lease 1", "frozen", later));
    }

    #[test]
    fn what_is_over_was_told_for_each_of_its_reasons_and_is_new_when_it_comes_again() {
        let (mut told, now) = (Told::default(), TimeMs(1_795_000_000_000));
        let all = [("shoes", "frozen"), ("shoes", "missing"), ("shoes and hats", "frozen")];
        assert!(all.iter().all(|(what, why)| told.is_new(what, why, now)));
        assert_eq!([told.is_over("shoes"), told.is_over("shoes"), told.is_over("sho")], [true, false, false]);
        assert_eq!(all.map(|(what, why)| told.is_new(what, why, now)), [true, true, false]);
    }
}
