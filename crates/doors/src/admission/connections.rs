//! Counts the connections of one thread of a door, and those of each address over all its threads. When there are as
//! many as may be, one that has shown no token gives way to a new one.
//!
//! ```text
//!   accept ─▶ enter ─┬─ room ───────────────────────────────────▶ Entered: counted until it leaves
//!                    ├─ full: a newcomer gives way, is told so ──▶ Entered
//!                    └─ all have shown a token: Crowded
//!
//!   newcomer ──good token──▶ known ──▶ gone         newcomer ──gives way──▶ leaving ──▶ gone
//! ```
//!
//! Promise: connections that show nothing never keep others out, from however many addresses they come; and whoever has
//! shown a good token stays. Of one viewer that holds for an eighth of the door: viewers' tokens are cheap to have, and
//! one with thousands of connections must not close the door either.
//!
//! Why an address has a share: silent connections cost whoever opens them nothing. When its share is used up, its own
//! oldest newcomer gives way.
//!
//! Why each thread has its own: whoever gives way is on the thread that accepts, which ends it at once, and nothing is
//! locked. The kernel shares connections out among threads; a flood of one thread leaves others their places.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::Over;
use super::addresses::{AddressMark, Addresses};
use super::newcomers::Newcomers;
use crate::proxy::TrustedProxies;
use crate::turns::{CallerName, network_of};

/// Connections of a thread that only programs on the server's own host may have, so that its operator gets in when
/// others have all the rest; fewer where there are few.
const KEPT_FOR_HOST: usize = 16;
/// Connections of a thread that were told to give way and are not gone: it has so many more than its bound at most.
const LEAVING_MAX: usize = 4;
/// Connections of one viewer that are known: this part of those of the thread.
const KNOWN_OF_VIEWER_PART: usize = 8;

/// How many connections a door may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// At once, over all threads.
    pub connections_max: usize,
    /// At once of one address (IPv6: of one /64); 0 for [`share_of_address`].
    pub connections_per_address_max: usize,
}

impl ConnectionLimits {
    /// The counts of addresses that the threads of such a door share.
    pub fn addresses(&self) -> Arc<Addresses> {
        self.addresses_behind(TrustedProxies::default())
    }

    /// The same; these load balancers are not counted, only their clients are.
    pub fn addresses_behind(&self, proxies: TrustedProxies) -> Arc<Addresses> {
        let per_address = match self.connections_per_address_max {
            0 => share_of_address(self.connections_max),
            most => most,
        };
        Arc::new(Addresses::new(u32::try_from(per_address).unwrap_or(u32::MAX)).except(proxies))
    }
}

/// The connections of one thread. Each has a `T`, by which whoever serves it is told that it gives way.
pub struct Connections<T> {
    connections_max: usize,
    /// Shared with other threads.
    addresses: Arc<Addresses>,
    /// All but those that are leaving.
    open: usize,
    /// Those that have shown no token.
    newcomers: Waiting<T>,
    /// How many known ones each viewer has.
    of_viewer: HashMap<CallerName, usize>,
    /// Those that were told to give way.
    leaving: HashSet<u64>,
    /// The number of the next one.
    next: u64,
}

/// Connections that have shown no token, with where their addresses are counted.
type Waiting<T> = Newcomers<(AddressMark, T)>;

/// Why a connection is not let in, although somebody might have given way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowded {
    /// There are as many as may be, and none gives way.
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
    pub entered: Entered,
    /// Who gives way to it: to be told at once.
    pub gives_way: Option<T>,
}

/// A connection that is counted, until it [leaves](Connections::leave).
#[derive(Debug)]
pub struct Entered {
    network: IpAddr,
    mark: AddressMark,
    number: u64,
    /// Who has shown a token on it.
    known: Option<CallerName>,
}

/// What one address may have of so many connections, where nothing else is configured: three quarters, so that whoever
/// comes from elsewhere finds room.
pub fn share_of_address(connections_max: usize) -> usize {
    (connections_max - connections_max / 4).max(1)
}

impl<T> Connections<T> {
    /// None yet, and at most so many; those of addresses are counted with other threads.
    pub fn new(connections_max: usize, addresses: Arc<Addresses>) -> Connections<T> {
        Connections {
            connections_max,
            addresses,
            open: 0,
            newcomers: Newcomers::default(),
            of_viewer: HashMap::new(),
            leaving: HashSet::new(),
            next: 0,
        }
    }

    /// One more, of this address, which is told by `connection` when it is to give way.
    pub fn enter(&mut self, address: IpAddr, connection: T) -> Result<LetIn<T>, Crowded> {
        let (network, mark) = (network_of(address), self.addresses.mark(address));
        // Counted first: other threads count, too.
        let gives_way = if self.addresses.enter(mark) != Over::Not {
            self.give_way(|newcomers| newcomers.take_of(network)).map(Some).ok_or(Crowded::Address)
        } else if self.open >= self.most(address) {
            self.give_way(Newcomers::take_of_most).map(Some).ok_or(Crowded::Door)
        } else {
            Ok(None)
        };
        let gives_way = gives_way.inspect_err(|_| self.addresses.leave(mark))?;
        let number = self.next;
        self.next += 1;
        self.open += 1;
        assert!(self.open <= self.connections_max, "who came has room, or somebody gave way");
        self.newcomers.join(network, number, (mark, connection));
        Ok(LetIn { entered: Entered { network, mark, number, known: None }, gives_way })
    }

    /// How many there may be for somebody of this address to be let in.
    fn most(&self, address: IpAddr) -> usize {
        let all = self.connections_max;
        let is_of_host = address.to_canonical().is_loopback() && !self.addresses.is_proxy(address);
        if is_of_host { all } else { all - KEPT_FOR_HOST.min(all / 8) }
    }

    /// A connection that was counted at a load balancer's address comes from `address`: it is a newcomer of that one
    /// from now on. If that has as many as it may, its own oldest gives way, who is returned; if none does, the
    /// connection stays where it was counted, and its owner ends it.
    pub fn come_from(&mut self, entered: &mut Entered, address: IpAddr) -> Result<Option<T>, Crowded> {
        let (network, mark) = (network_of(address), self.addresses.mark(address));
        // Told to leave, or the load balancer asks for itself.
        if network == entered.network || self.leaving.contains(&entered.number) {
            return Ok(None);
        }
        let is_over = self.addresses.enter(mark) != Over::Not;
        let gives_way = is_over.then(|| self.give_way(|newcomers| newcomers.take_of(network)).ok_or(Crowded::Address));
        let gives_way = gives_way.transpose().inspect_err(|_| self.addresses.leave(mark))?;
        let left = self.newcomers.leave(entered.network, entered.number);
        let (before, connection) = left.expect("who has said nothing has shown no token");
        self.addresses.leave(before);
        (entered.network, entered.mark, entered.number) = (network, mark, self.next);
        self.next += 1;
        self.newcomers.join(network, entered.number, (mark, connection));
        Ok(gives_way)
    }

    /// One newcomer leaves; `None` if there is none, or as many are leaving as may.
    fn give_way(&mut self, take: impl FnOnce(&mut Waiting<T>) -> Option<(IpAddr, u64, (AddressMark, T))>) -> Option<T> {
        if self.leaving.len() >= LEAVING_MAX {
            return None;
        }
        let (_, number, (mark, connection)) = take(&mut self.newcomers)?;
        self.leaving.insert(number);
        self.uncount(mark);
        Some(connection)
    }

    fn uncount(&mut self, mark: AddressMark) {
        self.open -= 1;
        self.addresses.leave(mark);
    }

    /// A good token of `caller` was shown on this connection. It stays from now on, unless it was told to leave before,
    /// or the caller is a viewer who has enough others: then it may be said again later.
    pub fn show(&mut self, entered: &mut Entered, caller: &CallerName) {
        let known_of_viewer_max = (self.connections_max / KNOWN_OF_VIEWER_PART).max(1);
        let is_viewer = matches!(caller, CallerName::Viewer(_));
        if is_viewer && self.of_viewer.get(caller).is_some_and(|known| *known >= known_of_viewer_max) {
            return;
        }
        if self.newcomers.leave(entered.network, entered.number).is_none() {
            return;
        }
        if is_viewer {
            *self.of_viewer.entry(caller.clone()).or_default() += 1;
        }
        assert!(entered.known.is_none(), "a newcomer is not known");
        entered.known = Some(caller.clone());
    }

    /// A connection is gone: to be said once.
    pub fn leave(&mut self, entered: &mut Entered) {
        if self.leaving.remove(&entered.number) {
            return;
        }
        self.uncount(entered.mark);
        match entered.known.take() {
            None => drop(self.newcomers.leave(entered.network, entered.number).expect("it is a newcomer")),
            Some(viewer @ CallerName::Viewer(_)) => {
                let known = self.of_viewer.get_mut(&viewer).expect("what is known of a viewer is counted");
                *known -= 1;
                if *known == 0 {
                    self.of_viewer.remove(&viewer);
                }
            }
            Some(_) => {}
        }
    }
}

impl Entered {
    /// Whether a good token was shown on it, so that it stays.
    pub fn is_known(&self) -> bool {
        self.known.is_some()
    }
}

#[cfg(test)]
mod tests;
