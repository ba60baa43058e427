//! Counts the connections of one door, over all its threads: in all, and of each address. When the door is full, one
//! that has shown no token gives way to a new one.
//!
//! ```text
//!   accept ─▶ enter ─┬─ room ───────────────────────────────────▶ Entered: counted until it is dropped
//!                    ├─ full: a newcomer gives way, is told so ──▶ Entered
//!                    └─ all have shown a token: Crowded
//!
//!   newcomer ──good token──▶ known           newcomer ──gives way──▶ leaving ──dropped──▶ gone
//! ```
//!
//! Promise: connections that show nothing never keep others out, from however many addresses they come; and whoever has
//! shown a good token stays. Of one viewer that holds for an eighth of the door: viewers' tokens are cheap to have, and
//! one with thousands of connections must not close the door either.
//!
//! Why an address has a share: silent connections cost whoever opens them nothing. When its share is used up, its own
//! oldest newcomer gives way.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use super::addresses::network_of;
use super::newcomers::Newcomers;
use crate::turns::CallerName;

/// Connections that only programs on the server's own host may have, so that its operator gets in when others have all
/// the rest; fewer where a door has few.
const KEPT_FOR_HOST: usize = 16;
/// Connections of a door that were told to give way and are not gone: a door has so many more than its bound at most.
pub const LEAVING_MAX: usize = 16;
/// Connections of one viewer that are known: this part of those of the door.
const KNOWN_OF_VIEWER_PART: usize = 8;

/// How many connections a door may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// At once, over all threads.
    pub connections_max: usize,
    /// At once of one address (IPv6: of one /64); 0 for [`share_of_address`].
    pub connections_per_address_max: usize,
}

/// The connections of one door. Each has a `T`, by which whoever serves it is told that it gives way.
#[derive(Debug)]
pub struct Connections<T> {
    limits: ConnectionLimits,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    /// All but those that are leaving.
    open: usize,
    /// Those of each address that has any.
    of_address: HashMap<IpAddr, usize>,
    /// Those that have shown no token.
    newcomers: Newcomers<T>,
    /// How many known ones each viewer has.
    of_viewer: HashMap<CallerName, usize>,
    /// Those that were told to give way.
    leaving: HashSet<u64>,
    /// The number of the next one.
    next: u64,
}

/// Why a connection is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowded {
    /// The door has as many as it may, and none gives way.
    Door,
    /// The address has as many as it may, and none gives way.
    Address,
}

impl Crowded {
    /// In a word, for metrics.
    pub fn word(self) -> &'static str {
        match self {
            Crowded::Door => "limit",
            Crowded::Address => "address",
        }
    }
}

/// A connection that was let in.
#[derive(Debug)]
pub struct LetIn<T> {
    /// It is counted by this.
    pub entered: Entered<T>,
    /// Who gives way to it: to be told at once.
    pub gives_way: Option<T>,
}

/// A connection that is counted, until it is dropped.
#[derive(Debug)]
pub struct Entered<T> {
    of: Arc<Connections<T>>,
    address: IpAddr,
    number: u64,
    /// Who has shown a token on it.
    known: OnceLock<CallerName>,
}

/// What one address may have of so many connections, where nothing else is configured: three quarters, so that whoever
/// comes from elsewhere finds room.
pub fn share_of_address(connections_max: usize) -> usize {
    (connections_max - connections_max / 4).max(1)
}

impl<T> Connections<T> {
    /// None yet.
    pub fn new(mut limits: ConnectionLimits) -> Arc<Connections<T>> {
        if limits.connections_per_address_max == 0 {
            limits.connections_per_address_max = share_of_address(limits.connections_max);
        }
        let state = State {
            open: 0,
            of_address: HashMap::new(),
            newcomers: Newcomers::default(),
            of_viewer: HashMap::new(),
            leaving: HashSet::new(),
            next: 0,
        };
        Arc::new(Connections { limits, state: Mutex::new(state) })
    }

    /// One more, of this address, which is told by `connection` when it is to give way.
    pub fn enter(self: &Arc<Connections<T>>, address: IpAddr, connection: T) -> Result<LetIn<T>, Crowded> {
        let (most, address) = (self.most(address), network_of(address));
        let mut state = self.state();
        let of_address = state.of_address.get(&address).copied().unwrap_or(0);
        let gives_way = if of_address >= self.limits.connections_per_address_max {
            Some(state.give_way(|newcomers| newcomers.take_of(address)).ok_or(Crowded::Address)?)
        } else if state.open >= most {
            Some(state.give_way(Newcomers::take_of_most).ok_or(Crowded::Door)?)
        } else {
            None
        };
        let number = state.next;
        state.next += 1;
        state.open += 1;
        *state.of_address.entry(address).or_default() += 1;
        state.newcomers.join(address, number, connection);
        assert!(state.open <= self.limits.connections_max, "who came has room, or somebody gave way");
        drop(state);
        Ok(LetIn { entered: Entered { of: self.clone(), address, number, known: OnceLock::new() }, gives_way })
    }

    /// How many there may be for somebody of this address to be let in.
    fn most(&self, address: IpAddr) -> usize {
        let all = self.limits.connections_max;
        if address.to_canonical().is_loopback() { all } else { all - KEPT_FOR_HOST.min(all / 8) }
    }

    /// How many of one viewer are known.
    fn known_of_viewer_max(&self) -> usize {
        (self.limits.connections_max / KNOWN_OF_VIEWER_PART).max(1)
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect("no thread panics while it holds the counts")
    }
}

impl<T> State<T> {
    /// One newcomer leaves; `None` if there is none, or as many are leaving as may.
    fn give_way(&mut self, take: impl FnOnce(&mut Newcomers<T>) -> Option<(IpAddr, u64, T)>) -> Option<T> {
        if self.leaving.len() >= LEAVING_MAX {
            return None;
        }
        let (address, number, connection) = take(&mut self.newcomers)?;
        self.leaving.insert(number);
        self.uncount(address);
        Some(connection)
    }

    fn uncount(&mut self, address: IpAddr) {
        self.open -= 1;
        take_one(&mut self.of_address, &address);
    }
}

/// One less of `name`.
fn take_one<N: Eq + std::hash::Hash>(counts: &mut HashMap<N, usize>, name: &N) {
    let count = counts.get_mut(name).expect("what is counted is in the table");
    *count -= 1;
    if *count == 0 {
        counts.remove(name);
    }
}

impl<T> Entered<T> {
    /// Whether a good token was shown on it, so that it stays.
    pub fn is_known(&self) -> bool {
        self.known.get().is_some()
    }

    /// A good token of `caller` was shown on it. It stays from now on, unless it was told to leave before, or the
    /// caller is a viewer who has enough others: then it may be said again later.
    pub fn show(&self, caller: &CallerName) {
        let mut state = self.of.state();
        let is_viewer = matches!(caller, CallerName::Viewer(_));
        if is_viewer && state.of_viewer.get(caller).is_some_and(|known| *known >= self.of.known_of_viewer_max()) {
            return;
        }
        if state.newcomers.leave(self.address, self.number).is_none() {
            return;
        }
        if is_viewer {
            *state.of_viewer.entry(caller.clone()).or_default() += 1;
        }
        self.known.set(caller.clone()).expect("a newcomer is not known");
    }

    /// Whether it was told to give way.
    pub fn is_leaving(&self) -> bool {
        self.of.state().leaving.contains(&self.number)
    }
}

impl<T> Drop for Entered<T> {
    fn drop(&mut self) {
        let mut state = self.of.state();
        if state.leaving.remove(&self.number) {
            return;
        }
        state.uncount(self.address);
        match self.known.get() {
            None => drop(state.newcomers.leave(self.address, self.number).expect("it is a newcomer")),
            Some(viewer @ CallerName::Viewer(_)) => take_one(&mut state.of_viewer, viewer),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
