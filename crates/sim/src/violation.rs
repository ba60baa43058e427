//! What a simulation looks for: a promise that was broken.

use std::fmt;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise, in the words of the design.
    pub property: &'static str,
    /// What happened instead.
    pub detail: String,
}

impl Violation {
    /// Says that `property` does not hold, because of `detail`.
    pub fn of(property: &'static str, detail: impl Into<String>) -> Violation {
        Violation { property, detail: detail.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property, self.detail)
    }
}

/// `Err` with a [`Violation`] of `property` unless `holds`; `detail` is only made when it is needed.
pub fn must(holds: bool, property: &'static str, detail: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation::of(property, detail())) }
}
