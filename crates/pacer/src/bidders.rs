//! How other threads reach the bidders, each of which lives inside a port of its worker, or on a thread of the HTTP
//! door.
//!
//! ```text
//!   ask(worker, Exchange or Bids) ─▶ BidderClient ─▶ BidderMessage::Ask ─▶ bidder ─▶ BidderMessage::Answer ─▶ reply
//! ```

mod edge;

use slab::Slab;
use tidegate_runtime::limits::CLIENT_REQUESTS_MAX;
use tidegate_runtime::{Address, Client, Outgoing, Replies};

use crate::bidder::{BidRequest, Bidder, NoBid, Offer, Report, Update};

pub use edge::{EdgeBidder, EdgeBidders, Uninformed};

/// What is asked of a bidder.
#[derive(Debug)]
pub enum BidderAsk {
    /// Does what it is told, and tells what was used.
    Exchange(Box<Update>),
    /// Requests that came by another door.
    Bids(Vec<BidRequest>),
}

/// What a bidder answers.
#[derive(Debug)]
pub enum BidderAnswer {
    /// To an exchange.
    Report(Box<Report>),
    /// To requests, in their order.
    Bids(Vec<Result<Offer, NoBid>>),
}

/// What passes between bidders and those who ask them.
#[derive(Debug)]
pub enum BidderMessage {
    /// Asks.
    Ask {
        /// The asker's number.
        number: u64,
        /// What.
        ask: BidderAsk,
    },
    /// Answers.
    Answer {
        /// The asker's number.
        number: u64,
        /// What.
        answer: BidderAnswer,
    },
}

impl Bidder {
    /// Answers what came by a message.
    pub fn answer(&mut self, ask: BidderAsk) -> BidderAnswer {
        match ask {
            BidderAsk::Exchange(update) => {
                self.update(&update);
                BidderAnswer::Report(Box::new(self.report()))
            }
            BidderAsk::Bids(requests) => BidderAnswer::Bids(requests.iter().map(|request| self.bid(request)).collect()),
        }
    }
}

/// A request, and whose it is.
#[derive(Debug)]
pub struct BidderRequest {
    /// The worker whose bidder is asked: this one, counted around as often as need be.
    pub worker: u64,
    /// What.
    pub ask: BidderAsk,
}

/// Nothing more can be asked now.
#[derive(Debug)]
pub struct Busy(pub BidderAsk);

/// Asks bidders.
pub struct BidderClient {
    bidders: Vec<Address>,
    asked: Slab<Option<u64>>,
}

impl BidderClient {
    /// Of the bidders at these addresses, in the order of their workers.
    pub fn new(bidders: Vec<Address>) -> BidderClient {
        BidderClient { bidders, asked: Slab::new() }
    }
}

impl Client for BidderClient {
    type Request = BidderRequest;
    type Reply = Result<BidderAnswer, Busy>;
    type Message = BidderMessage;

    fn has_room(&self) -> bool {
        self.asked.len() < CLIENT_REQUESTS_MAX
    }

    fn pending(&self) -> usize {
        self.asked.len()
    }

    fn start(
        &mut self,
        token: u64,
        BidderRequest { worker, ask }: BidderRequest,
        out: &mut Outgoing<BidderMessage>,
        replies: &mut Replies<Self::Reply>,
    ) {
        if !self.has_room() {
            return replies.push((token, Err(Busy(ask))));
        }
        let worker = (worker % self.bidders.len() as u64) as usize;
        let number = self.asked.insert(Some(token)) as u64;
        out.push((self.bidders[worker], BidderMessage::Ask { number, ask }));
    }

    fn deliver(
        &mut self,
        _from: Address,
        message: BidderMessage,
        _out: &mut Outgoing<BidderMessage>,
        replies: &mut Replies<Self::Reply>,
    ) {
        let BidderMessage::Answer { number, answer } = message else { unreachable!("nobody asks a client") };
        if let Some(token) = self.asked.remove(number as usize) {
            replies.push((token, Ok(answer)));
        }
    }

    fn cancel(&mut self, token: u64, _out: &mut Outgoing<BidderMessage>) {
        let of_token = self.asked.iter_mut().map(|(_, asked)| asked).find(|asked| **asked == Some(token));
        if let Some(asked) = of_token {
            *asked = None;
        }
    }
}
