//! What those of one address may use up who have not shown a token: requests per second, and bytes that are being read
//! of them.
//!
//! ```text
//!   request without a good token ─▶ arrive: one more of its address ─▶ served, or 429
//!   body of a log-in ─▶ hold: its bytes, until they are read ─▶ read, or 503
//! ```
//!
//! Promise: however many connections an address has, what it asks and leaves half said has a bound of its own. Nobody
//! who has shown a token is counted here.
//!
//! Addresses are counted in sketches of fixed size, without a lock ([`AddressRates`]). Bytes are counted by the cells
//! of the same rows.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::quota::{Exceeded, Rate};
use crate::address_rates::{ALL_CELLS, AddressRates};

/// The bounds of one address. Zero is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StrangerLimits {
    /// Requests without a good token per second.
    pub requests: Rate,
    /// Bytes of log-ins that are being read.
    pub body_bytes_max: u32,
}

impl StrangerLimits {
    /// No bounds.
    pub const NONE: StrangerLimits = StrangerLimits { requests: Rate { per_s: 0, burst: 0 }, body_bytes_max: 0 };
}

/// What addresses have used up, for all doors.
pub(super) struct Strangers {
    limits: StrangerLimits,
    since: Instant,
    requests: AddressRates,
    bytes: Arc<[AtomicU32]>,
}

/// Bytes that are being read of an address, until it is dropped.
#[derive(Default)]
pub struct HeldBytes {
    /// Where they are counted; nowhere if there is no bound.
    cells: Option<Arc<[AtomicU32]>>,
    of: [usize; 2],
    bytes: u32,
}

impl Strangers {
    /// Nothing used up of `limits`.
    pub fn new(limits: StrangerLimits) -> Strangers {
        Strangers {
            limits,
            since: Instant::now(),
            requests: AddressRates::new(limits.requests.per_s, limits.requests.at_once()),
            bytes: (0..ALL_CELLS).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// The bounds.
    pub fn limits(&self) -> StrangerLimits {
        self.limits
    }

    /// One more request of `address`.
    pub fn arrive(&self, address: IpAddr) -> Result<(), Exceeded> {
        self.arrive_at(address, self.now_ns())
    }

    /// Whether one more request of `address` would be served; it is not counted.
    pub fn look(&self, address: IpAddr) -> Result<(), Exceeded> {
        match self.requests.wait_ns(address, self.now_ns()) {
            0 => Ok(()),
            wait_ns => Err(Exceeded::of_address(wait_ns)),
        }
    }

    fn arrive_at(&self, address: IpAddr, now_ns: u64) -> Result<(), Exceeded> {
        self.requests.take(address, now_ns).map_err(Exceeded::of_address)
    }

    /// A request of `address` was worth so many more: it owes them.
    pub fn charge(&self, address: IpAddr, requests: u32) {
        self.requests.charge(address, requests, self.now_ns());
    }

    fn now_ns(&self) -> u64 {
        self.since.elapsed().as_nanos() as u64
    }

    /// Room for so many bytes that are to be read of `address`; `None` when too many are being read of it.
    pub fn hold(&self, address: IpAddr, bytes: u32) -> Option<HeldBytes> {
        let most = self.limits.body_bytes_max;
        if most == 0 {
            return Some(HeldBytes::default());
        }
        let of = self.requests.cells_of(address);
        let held = HeldBytes { cells: Some(self.bytes.clone()), of, bytes };
        let now = of.map(|cell| self.bytes[cell].fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes));
        (now[0].min(now[1]) <= most).then_some(held)
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        if let Some(cells) = &self.cells {
            self.of.iter().for_each(|cell| _ = cells[*cell].fetch_sub(self.bytes, Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn address(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    fn strangers() -> Strangers {
        Strangers::new(StrangerLimits { requests: Rate { per_s: 10, burst: 30 }, body_bytes_max: 1_000 })
    }

    fn asked(strangers: &Strangers, address: IpAddr, now_ns: u64) -> usize {
        (0..1_000).take_while(|_| strangers.arrive_at(address, now_ns).is_ok()).count()
    }

    #[test]
    fn an_address_has_a_burst_and_then_its_rate_and_others_have_theirs() {
        let strangers = strangers();
        assert_eq!(asked(&strangers, address(1), S), 30);
        let Err(Exceeded::Rate { retry_after_ms, .. }) = strangers.arrive_at(address(1), S) else { panic!() };
        assert_eq!(retry_after_ms, 100);
        assert_eq!(asked(&strangers, address(1), 2 * S), 10);
        assert_eq!(asked(&strangers, address(2), 2 * S), 30, "another address");
        assert_eq!(asked(&strangers, "::ffff:10.0.0.2".parse().unwrap(), 2 * S), 0, "the same, as a socket shows it");
        assert_eq!(asked(&strangers, "2001:db8:0:1::5".parse().unwrap(), 2 * S), 30);
        assert_eq!(asked(&strangers, "2001:db8:0:1::9".parse().unwrap(), 2 * S), 0, "a /64 is one address");
        assert_eq!(asked(&Strangers::new(StrangerLimits::NONE), address(1), S), 1_000, "no bound");
    }

    #[test]
    fn bytes_that_are_being_read_are_bounded_until_they_are_read() {
        let strangers = strangers();
        let (one, two) = (strangers.hold(address(1), 600), strangers.hold(address(1), 400));
        assert!(one.is_some() && two.is_some());
        assert!(strangers.hold(address(1), 1).is_none() && strangers.hold(address(2), 1_000).is_some());
        drop(one);
        assert!(strangers.hold(address(1), 601).is_none());
        assert!(strangers.hold(address(1), 600).is_some(), "what was refused is given back");
    }
}
