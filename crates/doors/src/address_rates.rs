//! How often those of one address may do something: a token bucket for each, in a fixed amount of memory.
//!
//! ```text
//!   address ─ keyed hash ─▶ ┌ row 0: · · t · · · · ┐   by when all that it has done will have been worth its interval:
//!                           └ row 1: · u · · · · · ┘   what the lower of its two cells says
//! ```
//!
//! Promise: nothing grows with the addresses of a flood, and a bound always holds. It holds too early only for an
//! address that shares both its cells with such as have used up theirs. Which share cells is unknown outside, because
//! the hash is keyed. (IPv6: a /64 is one address.)
//!
//! Why no lock: all threads of all doors share it, and each look is two numbers.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Cells of each of two rows. Untouched pages of them cost nothing.
const CELLS: usize = 1 << 14;
/// All of both rows.
pub const ALL_CELLS: usize = 2 * CELLS;

/// See the [module](self).
pub struct AddressRates {
    /// Between two of one address; zero without a bound.
    interval_ns: u64,
    /// How many may come at once are worth so much.
    burst_ns: u64,
    full_at_ns: Box<[AtomicU64]>,
    hasher: foldhash::quality::RandomState,
}

impl AddressRates {
    /// So many per second, and so many at once after a pause, one at least; no bound if `per_s` is zero.
    pub fn new(per_s: u32, at_once: u32) -> AddressRates {
        let interval_ns = if per_s == 0 { 0 } else { (1_000_000_000 / u64::from(per_s)).max(1) };
        AddressRates {
            interval_ns,
            burst_ns: interval_ns * u64::from(at_once.max(1)),
            full_at_ns: (0..ALL_CELLS).map(|_| AtomicU64::new(0)).collect(),
            hasher: foldhash::quality::RandomState::default(),
        }
    }

    /// One more of `address` at `now_ns` of a clock that never goes back, or how long it must wait, in nanoseconds.
    pub fn take(&self, address: IpAddr, now_ns: u64) -> Result<(), u64> {
        match self.wait_ns(address, now_ns) {
            0 => {
                self.charge(address, 1, now_ns);
                Ok(())
            }
            wait_ns => Err(wait_ns),
        }
    }

    /// How long until `address` may take one more. Nothing is counted.
    pub fn wait_ns(&self, address: IpAddr, now_ns: u64) -> u64 {
        if self.interval_ns == 0 {
            return 0;
        }
        let wait_ns = self.cells_of(address).map(|cell| {
            let full_at = self.full_at_ns[cell].load(Ordering::Relaxed).max(now_ns);
            full_at.saturating_add(self.interval_ns).saturating_sub(self.burst_ns).saturating_sub(now_ns)
        });
        wait_ns[0].min(wait_ns[1])
    }

    /// Counts so many of `address`, also more than it has: it owes them.
    pub fn charge(&self, address: IpAddr, times: u32, now_ns: u64) {
        if self.interval_ns == 0 {
            return;
        }
        let worth_ns = self.interval_ns.saturating_mul(times.into());
        for cell in self.cells_of(address) {
            let later = |full_at: u64| Some(full_at.max(now_ns).saturating_add(worth_ns));
            let _always = self.full_at_ns[cell].fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        }
    }

    /// The cells of an address, one in each row, of [`ALL_CELLS`].
    pub fn cells_of(&self, address: IpAddr) -> [usize; 2] {
        let hash = match address.to_canonical() {
            IpAddr::V4(v4) => self.hasher.hash_one(v4.octets()),
            IpAddr::V6(v6) => self.hasher.hash_one(&v6.octets()[..8]),
        };
        [hash as usize % CELLS, CELLS + (hash >> 32) as usize % CELLS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn an_address_has_a_burst_and_then_its_rate() {
        let rates = AddressRates::new(10, 30);
        let taken = |address: &str, now_ns| {
            let address = address.parse().expect("an address");
            (0..1_000).take_while(|_| rates.take(address, now_ns).is_ok()).count()
        };
        assert_eq!((taken("10.0.0.1", S), taken("10.0.0.1", S), taken("10.0.0.1", 2 * S)), (30, 0, 10));
        assert_eq!(taken("10.0.0.2", 2 * S), 30, "another address");
        assert_eq!(rates.take("10.0.0.2".parse().expect("an address"), 2 * S), Err(S / 10));
        assert_eq!(taken("::ffff:10.0.0.2", 2 * S), 0, "the same, as a socket shows it");
        assert_eq!((taken("2001:db8:0:1::5", S), taken("2001:db8:0:1::9", S)), (30, 0), "a /64 is one address");
        assert_eq!(taken("10.0.0.1", 3_600 * S), 30, "a pause earns one burst");
        let (open, one) = (AddressRates::new(0, 0), AddressRates::new(10, 0));
        let address = "10.0.0.1".parse().expect("an address");
        assert_eq!((0..1_000).filter(|_| open.take(address, S).is_ok()).count(), 1_000, "no bound");
        assert_eq!((0..1_000).filter(|_| one.take(address, S).is_ok()).count(), 1, "one at a time");
    }
}
