//! Limits how many clients may connect, and how fast. All workers and edge threads share the counts, without a lock.
//!
//! ```text
//!   accept? ─ Throttle (per listener) ─▶ enter ─┬─ Admitted
//!                                               ├─ Refused: let in to be told why (CONNACK 0x97, 0x89)
//!                                               └─ Closed: closed at once
//! ```
//!
//! Why `Refused`: in MQTT the server can say "too many clients" only after it has read the client's CONNECT. So some
//! clients above the bound are let in to be told, as many as `REFUSED_PART` allows. In a flood, each further client
//! costs one accept and nothing more.

mod addresses;
mod arrival;
mod connections;
mod newcomers;
mod throttle;

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use tidegate_broker::ReasonCode;

use crate::proxy::TrustedProxies;

pub use addresses::{AddressMark, Addresses};
pub use arrival::Arrival;
pub use connections::{ConnectionLimits, Connections, Crowded, Entered, LetIn, share_of_address};
pub use throttle::Throttle;

/// Clients above a bound that are let in to be refused with a reason: this part of the bound.
const REFUSED_PART: usize = 16;
/// The least number of such clients; as many as the bound itself where that is less.
const REFUSED_MIN: usize = 64;
/// The most of them: they need open files, too.
const REFUSED_MAX: usize = 256;

/// Which listener a client came by: its place among those that [`Admission::new`] got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerIndex(pub u8);

/// Bounds that protect connected clients from new ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Clients at once, over all listeners and workers; more are answered with 0x97 (quota exceeded).
    pub connections_max: usize,
    /// Clients at once of one address (IPv6: of one /64); 0 for no bound. More are answered with 0x97.
    pub connections_per_address_max: u32,
    /// A worker whose turns take longer than this, in milliseconds, is overloaded: new clients are answered with 0x89
    /// (server busy) until turns are short again; 0 for no bound.
    pub turn_ms_max: u32,
}

/// How many clients may come in by one listener, and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerLimits {
    /// Clients at once, over all workers.
    pub connections_max: usize,
    /// Clients taken per second, over all workers; 0 for no bound.
    pub connections_per_s: u32,
}

/// The counts of all clients.
pub struct Admission {
    limits: AdmissionLimits,
    listeners: Vec<Counted>,
    all: AtomicUsize,
    addresses: Addresses,
    /// One flag per worker: whether it has no time for new clients.
    overloaded: Box<[AtomicBool]>,
}

/// One listener's.
struct Counted {
    connections: AtomicUsize,
    connections_max: usize,
    throttle: Throttle,
}

/// Whether a new client is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It is served. It is counted until [`Admission::leave`].
    Admitted(AddressMark),
    /// It may send its CONNECT and is then refused with this reason. Counted like an admitted one.
    Refused(AddressMark, ReasonCode),
    /// It is closed at once, and not counted.
    Closed,
}

/// What becomes of a client whose address is known only after it was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// It is served.
    Served,
    /// It may send its CONNECT and is then refused: 0x97.
    Refused,
    /// It is closed at once.
    Closed,
}

impl Admission {
    /// For these bounds, these listeners and so many workers.
    pub fn new(limits: AdmissionLimits, listeners: &[ListenerLimits], workers: u16) -> Admission {
        let counted = |listener: &ListenerLimits| Counted {
            connections: AtomicUsize::new(0),
            connections_max: listener.connections_max,
            throttle: Throttle::new(listener.connections_per_s),
        };
        Admission {
            addresses: Addresses::new(limits.connections_per_address_max),
            limits,
            listeners: listeners.iter().map(counted).collect(),
            all: AtomicUsize::new(0),
            overloaded: (0..workers).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// The same, but these load balancers have no bound of their own: each of their connections is counted at its
    /// client's address when they have said it.
    #[must_use]
    pub fn behind(self, proxies: TrustedProxies) -> Admission {
        Admission { addresses: self.addresses.except(proxies), ..self }
    }

    /// How fast clients may come in by this listener.
    pub fn throttle(&self, listener: ListenerIndex) -> &Throttle {
        &self.listeners[usize::from(listener.0)].throttle
    }

    /// Where the clients of `address` are counted.
    pub fn mark(&self, address: IpAddr) -> AddressMark {
        self.addresses.mark(address)
    }

    /// A client has connected.
    pub fn enter(&self, listener: ListenerIndex, address: IpAddr) -> Entry {
        let counted = &self.listeners[usize::from(listener.0)];
        let mark = self.addresses.mark(address);
        let over = [
            over(&self.all, self.limits.connections_max),
            over(&counted.connections, counted.connections_max),
            self.addresses.enter(mark),
        ];
        if over.contains(&Over::Far) {
            self.leave(listener, mark);
            return Entry::Closed;
        }
        if over.contains(&Over::Barely) {
            return Entry::Refused(mark, ReasonCode::QUOTA_EXCEEDED);
        }
        if self.is_overloaded() {
            return Entry::Refused(mark, ReasonCode::SERVER_BUSY);
        }
        Entry::Admitted(mark)
    }

    /// A client that was let in, and counted at a load balancer's address, comes from `address`. Returns where it is
    /// counted now, until [`Admission::leave`], and whether it may stay there.
    pub fn come_from(&self, mark: AddressMark, address: IpAddr) -> (AddressMark, Stay) {
        self.addresses.leave(mark);
        let mark = self.addresses.mark(address);
        let stay = match self.addresses.enter(mark) {
            Over::Not => Stay::Served,
            Over::Barely => Stay::Refused,
            Over::Far => Stay::Closed,
        };
        (mark, stay)
    }

    /// A client that was let in is gone.
    pub fn leave(&self, listener: ListenerIndex, mark: AddressMark) {
        self.all.fetch_sub(1, Ordering::Relaxed);
        self.listeners[usize::from(listener.0)].connections.fetch_sub(1, Ordering::Relaxed);
        self.addresses.leave(mark);
    }

    /// Clients now.
    pub fn connections(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// Worker `worker` says whether it has time for new clients.
    pub fn set_overloaded(&self, worker: u16, overloaded: bool) {
        self.overloaded[usize::from(worker)].store(overloaded, Ordering::Relaxed);
    }

    /// Whether a worker has no time: a new client may belong to any of them.
    pub fn is_overloaded(&self) -> bool {
        self.overloaded.iter().any(|worker| worker.load(Ordering::Relaxed))
    }
}

/// How a count stands to its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Not,
    Barely,
    Far,
}

impl Over {
    /// Of the `count`-th of at most `max`.
    fn of(count: usize, max: usize) -> Over {
        match count {
            _ if count <= max => Over::Not,
            _ if count <= let_in_max(max) => Over::Barely,
            _ => Over::Far,
        }
    }
}

/// Clients that a bound of `max` lets in at most, with those who are only told of it.
pub const fn let_in_max(max: usize) -> usize {
    max.saturating_add(told_max(max))
}

/// A bound that lets in `clients` at most, of two or more.
pub const fn bound_for(clients: usize) -> usize {
    // No smaller bound has more who are told.
    let half = clients.div_ceil(2);
    clients - if half < REFUSED_MIN { half } else { told_max(clients) }
}

/// Clients above a bound of `max` who are only told of it.
const fn told_max(max: usize) -> usize {
    let few = if max < REFUSED_MIN { max } else { REFUSED_MIN };
    let part = if max / REFUSED_PART < REFUSED_MAX { max / REFUSED_PART } else { REFUSED_MAX };
    if part > few { part } else { few }
}

/// Counts one more.
fn over(count: &AtomicUsize, max: usize) -> Over {
    Over::of(count.fetch_add(1, Ordering::Relaxed) + 1, max)
}

/// A clock that never goes back, the same for all threads.
pub fn monotonic_ns() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    // It begins at one second, so that a throttle's first burst is as large as any other.
    BEGAN.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1_000_000_000
}

#[cfg(test)]
mod tests;
