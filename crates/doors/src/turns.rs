//! Who is served next at a port: callers take turns, and all connections of a caller share the caller's turn.
//!
//! ```text
//!   caller a ─ connections 7, 2, 9 … ┐
//!   caller b ─ connection 4          ├─▶ in turn: the caller's next connection, for a round's work ─▶ to the end
//!   caller c ─ connections 1, 8      ┘               until a turn's work is done
//!   handshakes of TLS, by address ─────▶ the same, for little work of their own in each turn
//! ```
//!
//! Promise: whoever has something to be served waits for one round of each other caller, however many connections those
//! have and however much they send. A turn of the worker is short whatever is asked in it. What a caller has under way
//! leaves room for others; before the shards, callers take turns again (`tidegate_shard::Caller`).
//!
//! Why handshakes have an order of their own: one is worth as much as hundreds of small requests, and strangers of a
//! thousand addresses may each begin one. Nobody who is connected waits for a round of each of them.
//!
//! Why work is counted and not timed: a page of a thousand accounts costs as much as hundreds of small requests, a
//! SUBSCRIBE with a thousand filters as much as hundreds of others, and which costs how much is known beforehand.

pub mod limits;
mod places;

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;

use slab::Slab;
use tidegate_ledger::limits::{ENDPOINT_REQUEST_BYTES_MAX, ENDPOINT_REQUESTS_MAX};

use self::limits::{
    BYTES_PER_WORK, HANDSHAKE_WORK_IN_TURN_MAX, READS_OF_CALLER_MAX, SHARE_OF_CALLER, SPARE_QUEUES_MAX,
    WORK_IN_ROUND_MAX,
};
use crate::auth::{Identity, Rights};

pub use self::places::{PlaceInTurn, PlaceLimits, PlacesInTurn};

/// Who shares a turn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallerName {
    /// All who come from one address (IPv6: from one /64) and have not shown a token.
    Stranger(IpAddr),
    /// All connections of one viewer.
    Viewer(Box<str>),
    /// All connections of one service.
    Service(Box<str>),
    /// All connections with certificates of this name, which the ledger does not know.
    Certificate(Box<str>),
}

/// A caller in four bytes, for a port that has millions of connections. Two callers of one mark share a turn; who they
/// are is unknown outside, because the mark is keyed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallerMark(u32);

/// Makes the marks of one port.
#[derive(Debug, Default)]
pub struct CallerMarks {
    hasher: foldhash::quality::RandomState,
}

impl CallerMarks {
    /// Of this caller.
    pub fn of(&self, name: &CallerName) -> CallerMark {
        CallerMark(self.hasher.hash_one(name) as u32)
    }
}

/// All that comes from one place: an address of IPv4, or a /64 of IPv6, because who has one address of it has all.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => (v6.to_bits() >> 64 << 64).to_be_bytes().into(),
        v4 => v4,
    }
}

impl CallerName {
    /// Whoever comes from `address`.
    pub fn of_address(address: IpAddr) -> CallerName {
        CallerName::Stranger(network_of(address))
    }

    /// Whoever has shown a token of `identity`.
    pub fn of_identity(identity: &Identity) -> CallerName {
        match identity.rights() {
            Rights::Viewer { .. } => CallerName::Viewer(identity.name().into()),
            Rights::Service { .. } => CallerName::Service(identity.name().into()),
        }
    }
}

/// What connections of a caller wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Requests, packets, and all else.
    Open,
    /// Their TLS handshake.
    Handshakes,
}

impl Lane {
    /// Of a connection whose TLS handshake is not over, or is.
    pub fn of(is_handshaking: bool) -> Lane {
        match is_handshaking {
            true => Lane::Handshakes,
            false => Lane::Open,
        }
    }
}

/// Who is next in a lane.
#[derive(Debug, Default)]
struct Order {
    callers: VecDeque<CallerKey>,
    /// Work that this turn may still do.
    left: isize,
}

/// A caller's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerKey(usize);

/// What a request takes while it is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Pages of accounts, holds or history.
    pub pages: usize,
    /// Work of reading; zero for what writes.
    pub reads: usize,
    /// Bytes of its frame.
    pub bytes: usize,
}

/// What requests take together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UnderWay {
    requests: usize,
    reads: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Caller<N, C> {
    name: (Lane, N),
    /// Connections that have joined; a port may have them join only while they wait.
    connections: usize,
    /// Connections that may have something to be served, each once.
    waiting: VecDeque<C>,
    /// The caller stands in the order of turns, or rests.
    stands: bool,
    /// Work that it may still do in this round; negative when the last piece was worth more than was left.
    left: isize,
    under_way: UnderWay,
}

/// The callers of one port, by their names `N`, and whose turn it is. Connections are what the port calls them by.
#[derive(Debug)]
pub struct Turns<N, C> {
    callers: Slab<Caller<N, C>>,
    places: HashMap<(Lane, N), CallerKey>,
    open: Order,
    handshakes: Order,
    /// Of whom was next.
    serving: Lane,
    /// Callers who have as much under way as they may, and wait until the next turn.
    resting: Vec<CallerKey>,
    under_way: UnderWay,
    /// Empty queues, for callers that come.
    spare: Vec<VecDeque<C>>,
}

impl<N, C> Default for Turns<N, C> {
    fn default() -> Turns<N, C> {
        Turns {
            callers: Slab::new(),
            places: HashMap::new(),
            open: Order::default(),
            handshakes: Order::default(),
            serving: Lane::Open,
            resting: Vec::new(),
            under_way: UnderWay::default(),
            spare: Vec::new(),
        }
    }
}

impl<N: Clone + Eq + Hash + Debug, C: Copy + Eq> Turns<N, C> {
    /// One more connection of this caller.
    pub fn join(&mut self, name: N) -> CallerKey {
        self.join_in(Lane::Open, name)
    }

    /// One more connection of this caller, which waits in this lane.
    pub fn join_in(&mut self, lane: Lane, name: N) -> CallerKey {
        let Turns { callers, places, spare, .. } = self;
        let key = *places.entry((lane, name)).or_insert_with_key(|name| {
            let (waiting, under_way) = (spare.pop().unwrap_or_default(), UnderWay::default());
            let name = name.clone();
            CallerKey(callers.insert(Caller { name, connections: 0, waiting, stands: false, left: 0, under_way }))
        });
        self.callers[key.0].connections += 1;
        key
    }

    /// A connection of this caller is gone, or becomes another's. If it waits and is not [taken
    /// back](Turns::take_back), its turn still comes.
    pub fn leave(&mut self, key: CallerKey) {
        self.callers[key.0].connections -= 1;
        self.forget_if_gone(key);
    }

    /// A connection waits no longer.
    pub fn take_back(&mut self, key: CallerKey, connection: C) {
        self.callers[key.0].waiting.retain(|waiting| *waiting != connection);
    }

    fn forget_if_gone(&mut self, key: CallerKey) {
        let caller = &self.callers[key.0];
        if caller.connections == 0 && caller.under_way.requests == 0 {
            if caller.stands {
                let lane = caller.name.0;
                self.order(lane).callers.retain(|standing| *standing != key);
                self.resting.retain(|resting| *resting != key);
            }
            let Caller { name, mut waiting, .. } = self.callers.remove(key.0);
            self.places.remove(&name);
            if self.spare.len() < SPARE_QUEUES_MAX {
                waiting.clear();
                self.spare.push(waiting);
            }
        }
    }

    /// A connection that does not wait yet may have something to be served.
    pub fn wait(&mut self, key: CallerKey, connection: C) {
        let caller = &mut self.callers[key.0];
        caller.waiting.push_back(connection);
        if !std::mem::replace(&mut caller.stands, true) {
            self.stand(key);
        }
    }

    /// The caller is the last of its lane.
    fn stand(&mut self, key: CallerKey) {
        let lane = self.callers[key.0].name.0;
        self.order(lane).callers.push_back(key);
    }

    fn order(&mut self, lane: Lane) -> &mut Order {
        match lane {
            Lane::Open => &mut self.open,
            Lane::Handshakes => &mut self.handshakes,
        }
    }

    /// A turn of the worker begins, for so much work beside that of handshakes.
    pub fn begin(&mut self, work: isize) {
        self.open.left = work;
        self.handshakes.left = HANDSHAKE_WORK_IN_TURN_MAX;
        for key in std::mem::take(&mut self.resting) {
            self.stand(key);
        }
    }

    /// Whose connection is served next, and for how much work; `None` when nobody waits who may ask, or the turn is
    /// over. To be followed by [`Turns::served`].
    pub fn take_next(&mut self) -> Option<(CallerKey, C, isize)> {
        self.take_next_in(Lane::Open).or_else(|| self.take_next_in(Lane::Handshakes))
    }

    fn take_next_in(&mut self, lane: Lane) -> Option<(CallerKey, C, isize)> {
        while self.order(lane).left > 0 {
            let key = self.order(lane).callers.pop_front()?;
            if !self.may_begin(key) {
                self.resting.push(key);
                continue;
            }
            let caller = &mut self.callers[key.0];
            let Some(connection) = caller.waiting.pop_front() else {
                caller.stands = false;
                continue;
            };
            caller.left = (caller.left + WORK_IN_ROUND_MAX).min(WORK_IN_ROUND_MAX);
            if caller.left <= 0 {
                // It has had this round already, with something that was worth more than one.
                caller.waiting.push_front(connection);
                self.stand(key);
                continue;
            }
            caller.stands = !caller.waiting.is_empty();
            let (stands, may) = (caller.stands, caller.left);
            self.serving = lane;
            if stands {
                self.stand(key);
            }
            return Some((key, connection, may));
        }
        None
    }

    /// So much work was done for the connection that was next.
    pub fn served(&mut self, key: CallerKey, work: isize) {
        let lane = self.serving;
        self.order(lane).left -= work;
        if let Some(caller) = self.callers.get_mut(key.0) {
            caller.left -= work;
        }
    }

    /// Whether no connection waits.
    pub fn is_empty(&self) -> bool {
        self.open.callers.is_empty() && self.handshakes.callers.is_empty() && self.resting.is_empty()
    }

    /// Whether there is such a connection among those that wait and whose callers may ask.
    pub fn any_waiting(&self, mut is_so: impl FnMut(C) -> bool) -> bool {
        let mut callers = self.callers.iter().filter(|(key, _)| self.may_begin(CallerKey(*key)));
        callers.any(|(_, caller)| caller.waiting.iter().any(|connection| is_so(*connection)))
    }

    /// Whether one more request of this caller may begin. A caller may have three times as much under way as is left
    /// for others: alone three quarters of all, and with each further caller less. Of reads it may have few, because
    /// those of others wait for them in front of the shards.
    pub fn may_begin(&self, key: CallerKey) -> bool {
        let under_way = &self.callers[key.0].under_way;
        let requests_left = ENDPOINT_REQUESTS_MAX.saturating_sub(self.under_way.requests);
        let bytes_left = ENDPOINT_REQUEST_BYTES_MAX.saturating_sub(self.under_way.bytes);
        under_way.requests < SHARE_OF_CALLER * requests_left
            && under_way.bytes < SHARE_OF_CALLER * bytes_left
            && under_way.reads < READS_OF_CALLER_MAX
    }

    /// A request of this caller is under way until [`Turns::end`].
    pub fn start(&mut self, key: CallerKey, weight: Weight) {
        for under_way in [&mut self.under_way, &mut self.callers[key.0].under_way] {
            under_way.requests += 1;
            under_way.reads += weight.reads;
            under_way.bytes += weight.bytes;
        }
    }

    /// A request of this caller that is under way takes so many bytes more.
    pub fn grow(&mut self, key: CallerKey, bytes: usize) {
        for under_way in [&mut self.under_way, &mut self.callers[key.0].under_way] {
            under_way.bytes += bytes;
        }
    }

    /// It is answered.
    pub fn end(&mut self, key: CallerKey, weight: Weight) {
        for under_way in [&mut self.under_way, &mut self.callers[key.0].under_way] {
            under_way.requests -= 1;
            under_way.reads -= weight.reads;
            under_way.bytes -= weight.bytes;
        }
        self.forget_if_gone(key);
    }
}

/// What it is worth to read so many bytes, or to decode them and what they ask.
pub fn work_of_bytes(bytes: usize) -> isize {
    (bytes / BYTES_PER_WORK) as isize
}

#[cfg(test)]
mod tests;
