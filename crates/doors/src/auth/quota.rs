//! What one caller may use up: requests, refusals and bytes of the journal per second, and requests under way.
//!
//! ```text
//!   request ─▶ arrive: one more request ─▶ read, rights ─▶ admit: its items, its journal bytes ─▶ ledger
//!                 └── over a bound: 429, BUSY, 0x97            └── over a bound: the same          │
//!                     nothing is read or journaled                 refusals are charged ◀──────────┘
//! ```
//!
//! Promise: over any time, a caller with bounds has at most the burst and the rate times the time of each. Refusals are
//! known only after they were made: a caller can be ahead by what was under way, which is bounded too, and owes it.
//!
//! Why one object for all threads: a caller may come through several doors and workers, and the bound is of the caller.
//! It has no lock: each bound is one number.

mod bucket;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use bucket::Bucket;
use tidegate_machines::ledger::Refusal;

use crate::json::{Problem, ProblemCode, codes};

/// Rows of histories, lists of accounts and lists of holds that cost as much to read as a small request. The same at
/// all ports. (A frame of the binary port, by which that one counts its work, costs as much as four.)
pub const ROWS_PER_REQUEST: usize = 16;

/// Requests that it is worth to read so many rows.
pub fn requests_of_rows(rows: usize) -> u32 {
    u32::try_from(rows / ROWS_PER_REQUEST).unwrap_or(u32::MAX)
}

/// The ledger's own code: no request of this caller may be so large.
const BATCH_SIZE_INVALID: ProblemCode =
    ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, Refusal::BatchSizeInvalid.code());

/// What a caller may have too many of, in words.
const REFUSALS: &str = "refused requests";
const JOURNAL_BYTES: &str = "bytes to be journaled";
const IN_FLIGHT: &str = "requests under way";
const WITHOUT_TOKEN: &str = "requests without a good token from this address";

/// The bounds of one caller. Zero is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Transfers, holds and other requests per second.
    pub requests: Rate,
    /// Refused requests per second.
    pub refusals: Rate,
    /// Bytes of the journal per second, about.
    pub journal_bytes: Rate,
    /// Transfers, holds and other requests under way.
    pub in_flight_max: u32,
    /// Open holds of one account, for holds of this caller.
    pub open_holds_max: u32,
}

/// So many per second, and so many at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Per second; zero is no bound.
    pub per_s: u32,
    /// At once, after a pause; zero is what one second gives.
    pub burst: u32,
}

impl QuotaLimits {
    /// No bounds.
    pub const NONE: QuotaLimits = QuotaLimits {
        requests: Rate { per_s: 0, burst: 0 },
        refusals: Rate { per_s: 0, burst: 0 },
        journal_bytes: Rate { per_s: 0, burst: 0 },
        in_flight_max: 0,
        open_holds_max: 0,
    };
}

impl Default for QuotaLimits {
    fn default() -> QuotaLimits {
        QuotaLimits::NONE
    }
}

/// A caller has used up a bound, or asks more at once than it ever may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// Later it will be served.
    #[error("this caller has too many {of}; ask again in {retry_after_ms} ms, what has an id with the same id")]
    Rate {
        /// Of what.
        of: &'static str,
        /// When asking again makes sense, milliseconds.
        retry_after_ms: u32,
    },
    /// It will never be served as one request.
    #[error("one request of this caller may carry at most {max} transfers or holds; send several")]
    AtOnce {
        /// Items of a request.
        max: u32,
    },
}

impl Exceeded {
    /// Of those who come from one address and have not shown a token; in so long, one more is served.
    pub(super) fn of_address(wait_ns: u64) -> Exceeded {
        exceeded(WITHOUT_TOKEN, wait_ns)
    }

    /// The bound, as metrics name it.
    pub fn bound(&self) -> &'static str {
        match self {
            Exceeded::Rate { of: REFUSALS, .. } => "refusals",
            Exceeded::Rate { of: JOURNAL_BYTES, .. } => "journal_bytes",
            Exceeded::Rate { of: IN_FLIGHT, .. } => "in_flight",
            Exceeded::Rate { of: WITHOUT_TOKEN, .. } => "address",
            Exceeded::Rate { .. } => "requests",
            Exceeded::AtOnce { .. } => "at_once",
        }
    }
}

impl From<Exceeded> for Problem {
    fn from(exceeded: Exceeded) -> Problem {
        let problem = |code| Problem::new(code, exceeded.to_string()).over_bound(exceeded.bound());
        match exceeded {
            Exceeded::Rate { retry_after_ms, .. } => {
                problem(codes::TOO_MANY_REQUESTS).retry_after_s(retry_after_ms.div_ceil(1_000))
            }
            Exceeded::AtOnce { .. } => problem(BATCH_SIZE_INVALID),
        }
    }
}

/// What one caller has used up.
#[derive(Debug)]
pub struct Quota {
    limits: QuotaLimits,
    since: Instant,
    requests: Bucket,
    refusals: Bucket,
    journal_bytes: Bucket,
    in_flight: AtomicU32,
}

/// A place among a caller's requests under way, until it is dropped.
#[derive(Debug, Default)]
pub struct InFlight {
    of: Option<(Arc<Quota>, u32)>,
}

impl Quota {
    /// Nothing used up of `limits`; `None` if there is nothing to count.
    pub fn new(limits: QuotaLimits) -> Option<Arc<Quota>> {
        let counts = QuotaLimits { open_holds_max: 0, ..limits } != QuotaLimits::NONE;
        counts.then(|| {
            Arc::new(Quota {
                limits,
                since: Instant::now(),
                requests: Bucket::new(limits.requests),
                refusals: Bucket::new(limits.refusals),
                journal_bytes: Bucket::new(limits.journal_bytes),
                in_flight: AtomicU32::new(0),
            })
        })
    }

    /// The bounds.
    pub fn limits(&self) -> &QuotaLimits {
        &self.limits
    }

    /// One more request has come.
    pub fn arrive(&self) -> Result<(), Exceeded> {
        let now_ns = self.now_ns();
        self.refusals.look(now_ns).map_err(|wait_ns| exceeded(REFUSALS, wait_ns))?;
        self.requests.take(now_ns, 1).map_err(|wait_ns| exceeded("requests", wait_ns))
    }

    /// A request that has come, with `items` transfers or holds and `journal_bytes` in all, is to be asked.
    pub fn admit(self: &Arc<Quota>, items: u32, journal_bytes: u32) -> Result<InFlight, Exceeded> {
        let now_ns = self.now_ns();
        if let Some(max) = self.items_max().filter(|max| items > *max) {
            return Err(Exceeded::AtOnce { max });
        }
        if journal_bytes > 0 {
            self.journal_bytes.look(now_ns).map_err(|wait_ns| exceeded(JOURNAL_BYTES, wait_ns))?;
        }
        let place = self.place(items)?;
        self.requests.take(now_ns, items.saturating_sub(1)).map_err(|wait_ns| exceeded("requests", wait_ns))?;
        self.journal_bytes.take(now_ns, journal_bytes).map_err(|wait_ns| exceeded(JOURNAL_BYTES, wait_ns))?;
        Ok(place)
    }

    /// A request was worth so many more.
    pub fn charge(&self, requests: u32) {
        self.requests.charge(self.now_ns(), requests);
    }

    /// Whether no request is left.
    pub fn owes(&self) -> bool {
        self.requests.look(self.now_ns()).is_err()
    }

    /// Until half of the requests that may come at once are left.
    pub fn pause_of_stream(&self) -> Duration {
        let half = self.limits.requests.at_once().div_ceil(2);
        Duration::from_nanos(self.requests.wait_for(self.now_ns(), half))
    }

    /// So many items of what was asked were refused.
    pub fn charge_refusals(&self, refused: u32) {
        self.refusals.charge(self.now_ns(), refused);
    }

    /// The most items of one request.
    fn items_max(&self) -> Option<u32> {
        let burst = (self.limits.requests.per_s > 0).then(|| self.limits.requests.at_once());
        let in_flight = (self.limits.in_flight_max > 0).then_some(self.limits.in_flight_max);
        [burst, in_flight].into_iter().flatten().min()
    }

    fn place(self: &Arc<Quota>, items: u32) -> Result<InFlight, Exceeded> {
        let most = self.limits.in_flight_max;
        if most == 0 {
            return Ok(InFlight::default());
        }
        let more = |under_way: u32| under_way.checked_add(items).filter(|under_way| *under_way <= most);
        match self.in_flight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(InFlight { of: Some((self.clone(), items)) }),
            Err(_) => Err(exceeded(IN_FLIGHT, 10_000_000)),
        }
    }

    fn now_ns(&self) -> u64 {
        self.since.elapsed().as_nanos() as u64
    }
}

impl Rate {
    /// How many come at once after a pause.
    pub(super) fn at_once(self) -> u32 {
        if self.burst == 0 { self.per_s.max(1) } else { self.burst }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some((quota, items)) = self.of.take() {
            quota.in_flight.fetch_sub(items, Ordering::Relaxed);
        }
    }
}

fn exceeded(of: &'static str, wait_ns: u64) -> Exceeded {
    let retry_after_ms = u32::try_from(wait_ns.div_ceil(1_000_000)).unwrap_or(u32::MAX).max(1);
    Exceeded::Rate { of, retry_after_ms }
}

#[cfg(test)]
mod tests;
