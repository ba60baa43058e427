//! How often many seeds must meet what they are there to meet, and the table that says how often they did.
//!
//! ```text
//!   Workload::floors ─▶ Floor { what, in a hundred seeds, why }
//!   Tally of all runs ────────────┴─▶ table: met, floor, reason ─▶ what is below its floor, if anything
//! ```
//!
//! Why floors above zero: a fault that fires once in five hundred seeds is as good as absent. A floor stands at about a
//! third of what was met when it was set, so that chance alone does not fail it, and a fault that has become rare does.

use std::fmt::Write;

use super::store::StoreName;
use super::tally::Tally;

/// How often something must have been met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Its name in the [`Tally`].
    pub what: &'static str,
    /// In a hundred seeds, at least.
    pub per_hundred_seeds: u64,
    /// What would not be tested without it.
    pub why: &'static str,
}

impl Floor {
    /// A floor of so many times in a hundred seeds.
    pub const fn of(what: &'static str, per_hundred_seeds: u64, why: &'static str) -> Floor {
        assert!(per_hundred_seeds > 0, "a floor of zero is none");
        Floor { what, per_hundred_seeds, why }
    }

    /// How often so many seeds must meet it: at least once.
    pub const fn in_seeds(&self, seeds: u64) -> u64 {
        (self.per_hundred_seeds * seeds).div_ceil(100)
    }
}

/// Whatever was counted, with the floors and their reasons, for a person.
pub fn table(workload: &str, store: StoreName, seeds: u64, met: &Tally, floors: &[Floor]) -> String {
    let mut text = format!("{workload}, {seeds} seeds on the {} store\n", store.as_str());
    let _ = writeln!(text, "{:>9} {:>7}  {:<40} why", "met", "floor", "what");
    for floor in floors {
        let least = floor.in_seeds(seeds);
        let _ = writeln!(text, "{:>9} {least:>7}  {:<40} {}", met.of(floor.what), floor.what, floor.why);
    }
    for (what, times) in met.iter().filter(|(what, _)| floors.iter().all(|floor| floor.what != *what)) {
        let _ = writeln!(text, "{times:>9} {:>7}  {what}", "-");
    }
    text
}

/// What was met too seldom, in words.
pub fn below(seeds: u64, met: &Tally, floors: &[Floor]) -> Vec<String> {
    let too_few = floors.iter().filter(|floor| met.of(floor.what) < floor.in_seeds(seeds));
    let words = |floor: &Floor| {
        format!("{}: {} times, the floor is {} ({})", floor.what, met.of(floor.what), floor.in_seeds(seeds), floor.why)
    };
    too_few.map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOORS: [Floor; 2] = [
        Floor::of("rot", 30, "damage is refused and not guessed"),
        Floor::of("a crash", 100, "what was acknowledged survives"),
    ];

    #[test]
    fn a_fault_that_has_become_rare_is_named_with_its_floor() {
        let mut met = Tally::default();
        met.add("rot", 60);
        met.add("a crash", 199);
        let missed = "a crash: 199 times, the floor is 200 (what was acknowledged survives)".to_owned();
        assert_eq!(below(200, &met, &FLOORS), [missed]);
        met.add("a crash", 1);
        assert_eq!(below(200, &met, &FLOORS), [] as [String; 0]);
        assert_eq!(below(201, &met, &FLOORS).len(), 2, "more seeds must meet more");
    }

    #[test]
    fn however_few_seeds_there_are_a_floor_is_at_least_one() {
        assert_eq!(FLOORS[0].in_seeds(1), 1);
        assert_eq!(below(1, &Tally::default(), &FLOORS).len(), 2);
    }

    #[test]
    fn the_table_has_what_was_met_with_and_without_a_floor() {
        let mut met = Tally::default();
        met.add("rot", 60);
        met.add("a tick", 9);
        let table = table("ledger", StoreName::Local, 200, &met, &FLOORS);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = table.lines().map(words).collect();
        let expected = [
            "ledger, 200 seeds on the local store",
            "met floor what why",
            "60 60 rot damage is refused and not guessed",
            "0 200 a crash what was acknowledged survives",
            "9 - a tick",
        ];
        assert_eq!(lines, expected);
    }
}
