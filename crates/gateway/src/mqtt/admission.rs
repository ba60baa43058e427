//! How many clients may come in, and how fast: counts that all workers and edges share, without a lock.
//!
//! ```text
//!   accept? ─ Throttle (per listener) ─▶ enter ─┬─ Welcome
//!                                               ├─ Polite: let in to be told why not (CONNACK 0x97, 0x89)
//!                                               └─ Shut: closed at once
//! ```
//!
//! Why polite at all: MQTT has a word for "too many" only after the client's CONNECT was read. So some above the bound are let in
//! for that, as many as `POLITE_PART` allows; a flood beyond them costs an accept each and nothing more.

mod addresses;
mod throttle;

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use tidegate_broker::ReasonCode;

use super::settings::{AdmissionLimits, MqttSettings};
pub use addresses::AddressMark;
use addresses::Addresses;
pub use throttle::Throttle;

/// One in so many above a bound may come in to be told that it is reached.
const POLITE_PART: usize = 16;
/// And at least so many.
const POLITE_MIN: usize = 64;

/// Which listener a client came by: its place in [`MqttSettings::listeners`]; the WebSocket door has the one behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerIndex(pub u8);

/// The counts of all clients.
pub struct Admission {
    limits: AdmissionLimits,
    listeners: Vec<Counted>,
    all: AtomicUsize,
    addresses: Addresses,
    /// One per worker: it has no time for new clients.
    overloaded: Box<[AtomicBool]>,
}

/// One listener's.
struct Counted {
    connections: AtomicUsize,
    connections_max: usize,
    throttle: Throttle,
}

/// Whether a client may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It may. It is counted until [`Admission::leave`].
    Welcome(AddressMark),
    /// It may send its CONNECT and is then refused with this reason. Counted like a welcome one.
    Polite(AddressMark, ReasonCode),
    /// It may not. Not counted.
    Shut,
}

impl Admission {
    /// For the listeners and bounds of `settings`, and so many workers.
    pub fn new(settings: &MqttSettings, workers: u16) -> Admission {
        let counted = |connections_max, per_second| Counted {
            connections: AtomicUsize::new(0),
            connections_max,
            throttle: Throttle::new(per_second),
        };
        let mut listeners: Vec<Counted> = settings
            .listeners
            .iter()
            .map(|listener| counted(listener.connections_max, listener.connections_per_s))
            .collect();
        listeners.extend(settings.websocket.as_ref().map(|door| counted(door.connections_max, door.connections_per_s)));
        Admission {
            addresses: Addresses::new(settings.admission.connections_per_address_max),
            limits: settings.admission.clone(),
            listeners,
            all: AtomicUsize::new(0),
            overloaded: (0..workers).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// How fast clients may come in by this listener.
    pub fn throttle(&self, listener: ListenerIndex) -> &Throttle {
        &self.listeners[usize::from(listener.0)].throttle
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
            return Entry::Shut;
        }
        if over.contains(&Over::Barely) {
            return Entry::Polite(mark, ReasonCode::QUOTA_EXCEEDED);
        }
        if self.is_overloaded() {
            return Entry::Polite(mark, ReasonCode::SERVER_BUSY);
        }
        Entry::Welcome(mark)
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
    fn is_overloaded(&self) -> bool {
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
            _ if count <= max + (max / POLITE_PART).max(POLITE_MIN) => Over::Barely,
            _ => Over::Far,
        }
    }
}

/// Counts one more.
fn over(count: &AtomicUsize, max: usize) -> Over {
    Over::of(count.fetch_add(1, Ordering::Relaxed) + 1, max)
}

/// A clock that never goes back, the same for all threads.
pub fn monotonic_ns() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    // From one second on, so that a throttle's first burst is as large as any.
    BEGAN.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1_000_000_000
}

#[cfg(test)]
mod tests;
