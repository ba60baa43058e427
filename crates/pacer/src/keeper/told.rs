//! What the log was told of lately, so that what goes on is said once and not in each round.

use std::collections::BTreeSet;

use tidegate_machines::TimeMs;

/// After this, what goes on is said again.
const AGAIN_MS: u64 = 600_000;
/// At most so many things are said until then.
const TOLD_MAX: usize = 1_000;

/// What was told since a time.
#[derive(Default)]
pub(super) struct Told {
    since: TimeMs,
    what: BTreeSet<String>,
}

impl Told {
    /// Whether to say this now.
    pub fn is_new(&mut self, what: String, now: TimeMs) -> bool {
        if now.0 >= self.since.0.saturating_add(AGAIN_MS) {
            *self = Told { since: now, what: BTreeSet::new() };
        }
        self.what.len() < TOLD_MAX && self.what.insert(what)
    }

    /// What is wrong from now on is new.
    pub fn forget(&mut self) {
        self.what.clear();
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
            let lease = |number: usize| told.is_new(format!("lease {number}"), now);
            (0..3 * TOLD_MAX).map(lease).filter(|is_new| *is_new).count()
        };
        assert_eq!([said(&mut told, begin), said(&mut told, begin)], [TOLD_MAX, 0]);
        assert_eq!(said(&mut told, TimeMs(later.0 - 1)), 0);
        assert_eq!([said(&mut told, later), said(&mut told, later)], [TOLD_MAX, 0]);
        told.forget();
        assert!(told.is_new("lease 1".to_owned(), later));
    }
}
