//! A bidder on a thread of the HTTP door, where requests are decoded: an auction costs no message to a worker.
//!
//! ```text
//!   handler of a request ─▶ auction ──▶ ┌────────┐
//!                                       │ Bidder │ behind a lock
//!   pacer's thread, 50/s ─▶ exchange ─▶ └────────┘
//! ```
//!
//! To the pacer it is one more bidder: it has leases of its own, and tells what it used.
//!
//! Why a lock: threads that are no workers have no rings between them. The pacer's thread holds it for microseconds,
//! fifty times a second; plans of many campaigns are taken over in parts, between which auctions go on.

use std::sync::{Arc, Mutex};

use tidegate_machines::TimeMs;
use tidegate_runtime::clock::NodeClock;

use crate::bidder::{Auctioned, Bidder, Report, Update};
use crate::openrtb::Request;

/// Campaigns that change at once while auctions wait.
const AIMS_AT_ONCE: usize = 32;

/// The bidders of edge threads. Each is there before the pacer begins.
pub type EdgeBidders = Arc<Mutex<Vec<EdgeBidder>>>;

/// The bidder of an edge thread.
#[derive(Clone)]
pub struct EdgeBidder {
    bidder: Arc<Mutex<Bidder>>,
    clock: Arc<NodeClock>,
}

/// Nobody has told the bidder yet which campaigns there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uninformed;

impl EdgeBidder {
    /// This bidder, with the time of the node.
    pub fn new(bidder: Bidder, clock: Arc<NodeClock>) -> EdgeBidder {
        EdgeBidder { bidder: Arc::new(Mutex::new(bidder.with_auctions())), clock }
    }

    /// Bids on the impressions of a request.
    pub fn auction(&self, request: &Request) -> Result<Auctioned, Uninformed> {
        self.with_bidder(|bidder| if bidder.is_informed() { Ok(bidder.auction(request)) } else { Err(Uninformed) })
    }

    /// The time that bids get.
    pub fn time(&self) -> TimeMs {
        self.clock.now()
    }

    /// Tells the bidder what has changed, and hears what it used.
    pub fn exchange(&self, mut update: Update) -> Report {
        let aims = std::mem::take(&mut update.aims);
        for some in aims.chunks(AIMS_AT_ONCE) {
            self.with_bidder(|bidder| bidder.set_aims(some));
        }
        self.with_bidder(|bidder| {
            bidder.update(&update);
            bidder.report()
        })
    }

    fn with_bidder<T>(&self, act: impl FnOnce(&mut Bidder) -> T) -> T {
        let mut bidder = self.bidder.lock().expect("nobody panics with it");
        bidder.set_time(self.clock.now());
        act(&mut bidder)
    }
}
