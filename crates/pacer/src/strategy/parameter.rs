//! What a strategy can be told: integers with a name, a range and a default, each defined once.

use std::collections::BTreeMap;

/// A parameter of a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// As plans name it; its unit comes last.
    pub name: &'static str,
    /// What it is where a plan says nothing.
    pub default: i64,
    /// The lowest that it can be.
    pub min: i64,
    /// The highest that it can be.
    pub max: i64,
    /// Its unit.
    pub unit: &'static str,
    /// What it does, in a sentence.
    pub meaning: &'static str,
}

/// The first answer of strategies that throttle. It is low: what was spent too much at first is not taken back.
pub(super) const START_PERMILLE: Parameter = Parameter {
    name: "start_permille",
    default: 10,
    min: 1,
    max: 1_000,
    unit: "1/1000 of the requests",
    meaning: "The share to begin with, before requests were counted.",
};

impl Parameter {
    /// What it is told to be. A number outside of the range, which [`super::check()`] refuses, is brought into it.
    pub(super) fn of(&self, told: &BTreeMap<Box<str>, i64>) -> i64 {
        told.get(self.name).copied().unwrap_or(self.default).clamp(self.min, self.max)
    }

    /// The same, of a parameter in thousandths.
    pub(super) fn thousandths_of(&self, told: &BTreeMap<Box<str>, i64>) -> f64 {
        self.of(told) as f64 / 1_000.0
    }

    /// The same, of a parameter in seconds, in ms.
    pub(super) fn ms_of(&self, told: &BTreeMap<Box<str>, i64>) -> f64 {
        self.of(told) as f64 * 1_000.0
    }
}
