//! Limits how many clients may connect, and how fast. All workers and edge threads share the counts, without a lock.
//!
//! ```text
//!   accept? ─ Throttle (per listener) ─▶ enter ─┬─ Admitted; if the door is full, one that may give way is asked to
//!                                               ├─ Refused: let in to be told why (CONNACK 0x97, 0x89)
//!                                               └─ Closed: closed at once
//! ```
//!
//! Promise: connections whose CONNECT was not accepted never keep others out: when a bound is reached, one of them
//! gives way to a new one ([`GivingWay`]). Those that are let in only to be told take no place of one that is served.
//!
//! Why `Refused`: in MQTT the server can say "too many clients" only after it has read the client's CONNECT. So some
//! clients above the bound are let in to be told, as many as `REFUSED_PART` allows. In a flood, each further client
//! costs one accept and nothing more.

mod addresses;
mod arrival;
mod connections;
mod giving_way;
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
pub use giving_way::GivingWay;
pub(crate) use newcomers::Newcomers;
pub use throttle::Throttle;

/// Clients above a bound that are let in to be refused with a reason: this part of the bound.
const REFUSED_PART: usize = 16;
/// The least number of such clients; as many as the bound itself where that is less.
const REFUSED_MIN: usize = 64;
/// The most of them: they need open files, too.
const REFUSED_MAX: usize = 256;
/// Of the room for those, the part for clients that are served and came before another worker has ended the connection
/// that gives way to them.
const EARLY_PART: usize = 4;

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
    listeners: Vec<Counted>,
    all: Places,
    addresses: Addresses,
    giving_way: GivingWay,
    /// One flag per worker: whether it has no time for new clients.
    overloaded: Box<[AtomicBool]>,
}

/// One listener's.
struct Counted {
    places: Places,
    throttle: Throttle,
}

/// The places under one bound.
struct Places {
    served: AtomicUsize,
    /// Those that are let in only to be told why they may not stay.
    told: AtomicUsize,
    /// How many may be served.
    connections_max: usize,
}

/// What a client that was let in is counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is served.
    Served,
    /// It is only told why it may not stay.
    Told,
}

/// Whether a new client is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It is served. It is counted until [`Admission::leave`].
    Admitted(AddressMark),
    /// It may send its CONNECT and is then refused with this reason. It is counted as one that is told.
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
            places: Places::new(listener.connections_max),
            throttle: Throttle::new(listener.connections_per_s),
        };
        Admission {
            addresses: Addresses::new(limits.connections_per_address_max),
            all: Places::new(limits.connections_max),
            giving_way: GivingWay::new(workers, listeners.len()),
            listeners: listeners.iter().map(counted).collect(),
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

    /// Connections that may give way to new ones.
    pub fn giving_way(&self) -> &GivingWay {
        &self.giving_way
    }

    /// Whether a client of this address would be one too many.
    pub fn is_address_full(&self, address: IpAddr) -> bool {
        self.addresses.is_full(self.addresses.mark(address))
    }

    /// A client has connected, and was accepted by this worker; `None` for another thread.
    pub fn enter(&self, listener: ListenerIndex, address: IpAddr, worker: Option<u16>) -> Entry {
        let mark = self.addresses.mark(address);
        let reason = match self.addresses.enter(mark) {
            Over::Far => None,
            Over::Barely => Some(ReasonCode::QUOTA_EXCEEDED),
            Over::Not if self.is_overloaded() => Some(ReasonCode::SERVER_BUSY),
            Over::Not if self.take_place(listener, worker) => return Entry::Admitted(mark),
            Over::Not => Some(ReasonCode::QUOTA_EXCEEDED),
        };
        match reason.filter(|_| self.take_place_to_be_told(listener)) {
            Some(reason) => Entry::Refused(mark, reason),
            None => {
                self.addresses.leave(mark);
                Entry::Closed
            }
        }
    }

    /// A place of one that is served, if need be that of a connection that gives way.
    fn take_place(&self, listener: ListenerIndex, worker: Option<u16>) -> bool {
        let here = &self.listeners[usize::from(listener.0)].places;
        let over = [self.all.serve_one(), here.serve_one()];
        let is_early = over.contains(&Over::Far);
        let may = match over {
            [Over::Not, Over::Not] => true,
            [_, Over::Not] => self.giving_way.ask_one(worker, is_early),
            [_, _] => self.giving_way.ask_one_of(listener, worker, is_early),
        };
        if !may {
            self.leave_places(listener, Standing::Served);
        }
        may
    }

    /// A place of one that is told why it may not stay.
    fn take_place_to_be_told(&self, listener: ListenerIndex) -> bool {
        let here = &self.listeners[usize::from(listener.0)].places;
        let may = [self.all.tell_one(), here.tell_one()] == [true, true];
        if !may {
            self.leave_places(listener, Standing::Told);
        }
        may
    }

    fn leave_places(&self, listener: ListenerIndex, standing: Standing) {
        for places in [&self.all, &self.listeners[usize::from(listener.0)].places] {
            places.leave(standing);
        }
    }

    /// A client that was let in to be served, and counted at a load balancer's address, comes from `address`. Returns
    /// where it is counted now, until [`Admission::leave`], and whether it may stay there. One that is refused counts
    /// as one that is told from now on.
    pub fn come_from(&self, listener: ListenerIndex, mark: AddressMark, address: IpAddr) -> (AddressMark, Stay) {
        self.addresses.leave(mark);
        let mark = self.addresses.mark(address);
        let stay = match self.addresses.enter(mark) {
            Over::Not => Stay::Served,
            Over::Barely if self.take_place_to_be_told(listener) => {
                self.leave_places(listener, Standing::Served);
                Stay::Refused
            }
            Over::Barely | Over::Far => Stay::Closed,
        };
        (mark, stay)
    }

    /// A client that was let in is gone.
    pub fn leave(&self, listener: ListenerIndex, mark: AddressMark, standing: Standing) {
        self.leave_places(listener, standing);
        self.addresses.leave(mark);
    }

    /// Clients now.
    pub fn connections(&self) -> usize {
        self.all.served.load(Ordering::Relaxed) + self.all.told.load(Ordering::Relaxed)
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

impl Places {
    fn new(connections_max: usize) -> Places {
        Places { served: AtomicUsize::new(0), told: AtomicUsize::new(0), connections_max }
    }

    /// Counts one more that is served.
    fn serve_one(&self) -> Over {
        let count = self.served.fetch_add(1, Ordering::Relaxed) + 1;
        match count {
            _ if count <= self.connections_max => Over::Not,
            _ if count <= self.connections_max.saturating_add(early_max(self.connections_max)) => Over::Barely,
            _ => Over::Far,
        }
    }

    /// Counts one more that is told. Whether there is room for it.
    fn tell_one(&self) -> bool {
        let told_max = told_max(self.connections_max) - early_max(self.connections_max);
        self.told.fetch_add(1, Ordering::Relaxed) < told_max
    }

    fn leave(&self, standing: Standing) {
        let count = match standing {
            Standing::Served => &self.served,
            Standing::Told => &self.told,
        };
        count.fetch_sub(1, Ordering::Relaxed);
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

/// Clients above a bound of `max` who are served already, while another worker ends those that give way to them.
const fn early_max(max: usize) -> usize {
    let part = told_max(max) / EARLY_PART;
    if part > 1 { part } else { 1 }
}

/// A clock that never goes back, the same for all threads.
pub fn monotonic_ns() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    // It begins at one second, so that a throttle's first burst is as large as any other.
    BEGAN.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1_000_000_000
}

#[cfg(test)]
mod tests;
