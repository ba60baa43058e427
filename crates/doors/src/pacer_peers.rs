//! Other servers that may have made the bid of a notice: behind a load balancer, a notice comes to any of them.
//!
//! ```text
//!   notice of a bid that was not made here ─▶ each peer, with its token and a mark ─▶ what became of it, as it says
//! ```
//!
//! Promise: a bid is judged by the server that has made it, so it is paid once, whichever server hears of it. Where a
//! peer does not answer, nobody says that there is no such bid.
//!
//! Invariant: what comes from a peer is asked of nobody else: no notice goes round. An address whose tokens nobody
//! knows waits before peers are asked for it again: a stranger costs them no more than it costs this server.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use tokio::task::JoinSet;

use crate::address_rates::AddressRates;
use crate::admission::monotonic_ns;

/// What a notice says that a peer has passed on.
pub const OF_PEER: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-tidegate-notice-of"), HeaderValue::from_static("peer"));

/// Notices of bids that nobody has made, of an address each second and at once, for which each thread asks peers.
const UNKNOWN_PER_S: u32 = 10;
const UNKNOWN_AT_ONCE: u32 = 100;
/// Bytes of a path with its query that is passed on: those of the URLs of bids have some 200.
pub const PATH_BYTES_MAX: usize = 2 << 10;

/// A request of a peer.
pub enum PeerAsk {
    /// What was asked here, with its query.
    Get(String),
    /// What was asked here, as JSON.
    Post(&'static str, Vec<u8>),
}

/// What one peer answers.
pub enum PeerAnswer {
    /// The body of its answer.
    Done(Vec<u8>),
    /// It says with a problem that it will not: it has made no such bid, or something else is wrong.
    Refused(Vec<u8>),
    /// It does not answer, or not now, or not so that one knows: why.
    Away(String),
}

/// What peers answer, as it comes. What is still to come when this is dropped is not waited for.
pub type PeerAnswers = JoinSet<PeerAnswer>;

/// Asks the peers of a server.
pub trait AskPeers: Send + Sync {
    /// All of them at once.
    fn ask(&self, asked: PeerAsk) -> PeerAnswers;
}

/// The peers of a server, for one edge thread.
pub struct NoticePeers {
    asks: Box<dyn AskPeers>,
    unknown: AddressRates,
}

impl NoticePeers {
    /// Those that `asks` knows.
    pub fn new(asks: Box<dyn AskPeers>) -> NoticePeers {
        NoticePeers { asks, unknown: AddressRates::new(UNKNOWN_PER_S, UNKNOWN_AT_ONCE) }
    }

    /// Asks all of them.
    pub fn ask(&self, asked: PeerAsk) -> PeerAnswers {
        self.asks.ask(asked)
    }

    /// Whether they may be asked for an address now.
    pub fn may_ask_for(&self, address: IpAddr) -> bool {
        self.unknown.wait_ns(address, monotonic_ns()) == 0
    }

    /// None of them knows what came from an address.
    pub fn note_unknown(&self, address: IpAddr) {
        self.unknown.charge(address, 1, monotonic_ns());
    }
}

/// Whether a request says that a peer has passed it on.
pub fn is_of_peer(headers: &HeaderMap) -> bool {
    headers.contains_key(OF_PEER.0)
}

/// What became of notices, as `/v1/wins` and `/v1/losses` say it.
#[derive(Deserialize)]
pub struct PeerOutcomes {
    /// In their order.
    pub outcomes: Vec<Box<str>>,
}

/// Why a peer does not take a notice.
#[derive(Deserialize)]
pub struct PeerProblem {
    /// The stable name. What is between this server and its peer may refuse something, too, and has other ones.
    pub code: Box<str>,
    /// In words.
    #[serde(default)]
    pub detail: String,
    /// What of the notice is wrong.
    #[serde(default)]
    pub field: String,
}

/// What became of one notice, as the paths of OpenRTB say it.
#[derive(Deserialize)]
pub struct PeerOutcome {
    /// By name.
    pub outcome: Box<str>,
}
