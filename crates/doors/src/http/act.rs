//! What operators do, as the log says it: who did what to what, from where, and what came of it.
//!
//! Promise: each act of an operator who is known is told once, done or refused, under the target of its own
//! [`TARGET`], which `TIDEGATE_LOG` can send elsewhere or raise. Reading is no act, nor is a request that is not
//! understood (422).

use std::net::IpAddr;

use crate::auth::Identity;
use crate::json::Problem;

/// Characters of a name that a line has: clients choose theirs.
const WHAT_CHARACTERS_MAX: usize = 256;

/// The target of these lines.
pub const TARGET: &str = "tidegate::operator";

/// Something that an operator does.
pub struct Act<'a> {
    /// Who.
    pub caller: &'a Identity,
    /// From where.
    pub address: IpAddr,
    /// What: a verb and a noun, such as `disconnect client`.
    pub act: &'static str,
    /// To what: a client id, a filter, a rate.
    pub what: &'a str,
}

impl Act<'_> {
    /// Says that it may not be done, and counts it.
    pub fn forbidden(&self, detail: &'static str) -> Problem {
        self.caller.denied();
        let problem = Problem::forbidden(detail);
        self.tell(problem.code().name());
        problem
    }

    /// Says what came of it.
    pub fn done<T>(&self, outcome: Result<T, Problem>) -> Result<T, Problem> {
        self.tell(outcome.as_ref().err().map_or("done", |problem| problem.code().name()));
        outcome
    }

    /// The same in other words than those of a problem.
    pub fn tell(&self, outcome: &str) {
        let (who, address) = (self.caller.name(), self.address);
        let what = self.what.char_indices().nth(WHAT_CHARACTERS_MAX).map_or(self.what, |(end, _)| &self.what[..end]);
        // As texts, which the log quotes: no name that a client chose can look like another line.
        tracing::info!(target: TARGET, who, %address, act = self.act, what, outcome, "operator");
    }
}
