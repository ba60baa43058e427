//! The pacer: bids, what became of them, campaigns.
//!
//! ```text
//!   bids ───────────▶ for each: a price and a token, or why there is no bid
//!   wins, losses ───▶ for each token: whether it counts
//! ```
//!
//! Promise: nothing is sent that the pacer would refuse whole because of its size, and a packet is answered with as
//! many answers as it had items, or the call fails.
//!
//! What may be asked again, after a time-out or on a new connection:
//!
//! | | |
//! |---|---|
//! | bids | never: their auction is over, and what they reserved returns by itself |
//! | wins, losses | yes, until their deadline: each counts once, and is `Duplicate` after that |
//! | a plan, the end of a campaign | yes; that a campaign which has ended is not found says that it has ended |
//!
//! ```no_run
//! use tidegate_client::{BidRequest, Client, NoticeOutcome, Win};
//!
//! let mut client = Client::connect("127.0.0.1:7420", "dev-exchange-token")?;
//! let plan = br#"{"account": "campaign:even", "spend": "spend:even", "budget_micros": 1000000,
//!     "price_micros": 2500, "strategy": {"name": "as_fast_as_possible"},
//!     "flights": [{"starts_ms": 0, "ends_ms": 4102444800000}]}"#;
//! let campaign = client.put_campaign("shoes", plan)?.number;
//! let requests = [1, 2, 3].map(|id| BidRequest { id, campaign, ..BidRequest::default() });
//! for bid in client.bids(&requests)? {
//!     match bid {
//!         Ok(bid) => {
//!             // The exchange is told `bid.price_micros`, and says later that the impression cost 2,100.
//!             let win = Win { token: bid.token, price_micros: 2_100 };
//!             assert_eq!(client.wins(&[win])?, [NoticeOutcome::Taken]);
//!         }
//!         Err(reason) => println!("no bid: {reason:?}"),
//!     }
//! }
//! # Ok::<(), tidegate_client::ClientError>(())
//! ```
//!
//! With many packets in flight, [`Client::send_bids`] appends one and [`Client::receive`] gives the answers as they
//! come, as [`Reply::Bids`]; so do `send_wins` and `send_losses`, as [`Reply::Notices`].

use std::io::{Read, Write};

use tidegate_wire::limits::PACER_ITEMS_MAX;
use tidegate_wire::pacer::{
    BidRef, PacerReplyRef, WinRef, encode_bid_requests, encode_end_campaign, encode_losses, encode_put_campaign,
    encode_wins, read_reply,
};

use crate::client::{Client, mismatch};
use crate::error::ClientError;
use crate::reply::Reply;

pub use tidegate_wire::pacer::{
    BidRequestRef as BidRequest, CampaignPutRef as CampaignPut, NoBidReason, NoticeOutcome, TOKEN_BYTES,
};

/// What comes with a bid, and goes back with its win or loss.
pub type Token = [u8; TOKEN_BYTES];

/// A bid. What it may cost is reserved until it has won, is lost, or its deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bid {
    /// What is to be bid for one impression, in millionths of the campaign's currency.
    pub price_micros: u32,
    /// Names the bid.
    pub token: Token,
}

/// A bid that has won.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Win {
    /// Of the bid.
    pub token: Token,
    /// What the impression cost, in millionths; at most what was bid.
    pub price_micros: u32,
}

impl<S: Read + Write> Client<S> {
    /// Asks for 1 to 256 bids. Answered by [`Reply::Bids`].
    pub fn send_bids(&mut self, requests: &[BidRequest]) -> Result<u64, ClientError> {
        self.send_packet(requests.len(), |out, correlation| {
            encode_bid_requests(out, correlation, requests.iter().copied());
        })
    }

    /// Tells of 1 to 256 wins. Answered by [`Reply::Notices`].
    pub fn send_wins(&mut self, wins: &[Win]) -> Result<u64, ClientError> {
        self.send_packet(wins.len(), |out, correlation| {
            let wins = wins.iter().map(|win| WinRef { token: &win.token, price_micros: win.price_micros });
            encode_wins(out, correlation, wins);
        })
    }

    /// Tells of 1 to 256 bids that did not win. Answered by [`Reply::Notices`].
    pub fn send_losses(&mut self, tokens: &[Token]) -> Result<u64, ClientError> {
        self.send_packet(tokens.len(), |out, correlation| {
            encode_losses(out, correlation, tokens.iter().map(Token::as_slice));
        })
    }

    /// Gives a campaign a plan: JSON, as the body of `PUT /v1/campaigns/{id}`. Answered by [`Reply::CampaignPut`].
    pub fn send_put_campaign(&mut self, id: &str, plan: &[u8]) -> Result<u64, ClientError> {
        self.send(0, |out, correlation| encode_put_campaign(out, correlation, id, plan))
    }

    /// Ends a campaign. Answered by [`Reply::CampaignEnded`].
    pub fn send_end_campaign(&mut self, id: &str) -> Result<u64, ClientError> {
        self.send(0, |out, correlation| encode_end_campaign(out, correlation, id))
    }

    /// Asks for 1 to 256 bids; the answers come in the same order: a bid, or why there is none. Without an answer, the
    /// auction goes on without these bids: do not ask for them again.
    pub fn bids(&mut self, requests: &[BidRequest]) -> Result<Vec<Result<Bid, NoBidReason>>, ClientError> {
        let correlation = self.send_bids(requests)?;
        match self.receive_reply_to(correlation)? {
            Reply::Bids(bids) if bids.len() == requests.len() => Ok(bids),
            Reply::Bids(bids) => Err(wrong_count(requests.len(), "bids", bids.len())),
            other => Err(mismatch("bids", &other)),
        }
    }

    /// Tells of 1 to 256 wins; outcomes come in the same order. Without an answer, tell of them again: each counts
    /// once.
    pub fn wins(&mut self, wins: &[Win]) -> Result<Vec<NoticeOutcome>, ClientError> {
        let correlation = self.send_wins(wins)?;
        self.notice_outcomes(correlation, wins.len())
    }

    /// Tells of 1 to 256 bids that did not win, so that what they reserved is free; outcomes come in the same order.
    /// Without an answer, tell of them again: each counts once.
    pub fn losses(&mut self, tokens: &[Token]) -> Result<Vec<NoticeOutcome>, ClientError> {
        let correlation = self.send_losses(tokens)?;
        self.notice_outcomes(correlation, tokens.len())
    }

    /// Gives a campaign a plan: JSON, as the body of `PUT /v1/campaigns/{id}`. What is wrong with it the server says
    /// by the code that it has over HTTP, such as `campaign_plan_invalid`.
    pub fn put_campaign(&mut self, id: &str, plan: &[u8]) -> Result<CampaignPut, ClientError> {
        let correlation = self.send_put_campaign(id, plan)?;
        match self.receive_reply_to(correlation)? {
            Reply::CampaignPut(put) => Ok(put),
            other => Err(mismatch("campaign put", &other)),
        }
    }

    /// Ends a campaign: nothing more is bid on it, and its bids may still win.
    pub fn end_campaign(&mut self, id: &str) -> Result<(), ClientError> {
        let correlation = self.send_end_campaign(id)?;
        match self.receive_reply_to(correlation)? {
            Reply::CampaignEnded => Ok(()),
            other => Err(mismatch("campaign ended", &other)),
        }
    }

    fn send_packet(&mut self, items: usize, encode: impl FnOnce(&mut Vec<u8>, u64)) -> Result<u64, ClientError> {
        match items {
            0 => Err(ClientError::NoItems),
            1..=PACER_ITEMS_MAX => self.send(0, encode),
            _ => Err(ClientError::TooManyItems { items, items_max: PACER_ITEMS_MAX }),
        }
    }

    fn notice_outcomes(&mut self, correlation: u64, told: usize) -> Result<Vec<NoticeOutcome>, ClientError> {
        match self.receive_reply_to(correlation)? {
            Reply::Notices(outcomes) if outcomes.len() == told => Ok(outcomes),
            Reply::Notices(outcomes) => Err(wrong_count(told, "outcomes", outcomes.len())),
            other => Err(mismatch("outcomes of notices", &other)),
        }
    }
}

fn wrong_count(expected: usize, of: &str, received: usize) -> ClientError {
    ClientError::ReplyMismatch(format!("{expected} {of} expected, {received} received"))
}

/// Takes a reply of the pacer out of the buffer that it was read from.
pub(crate) fn take_reply(correlation: u64, body: &[u8]) -> Result<Reply, ClientError> {
    let reply = read_reply(body).map_err(|error| tidegate_wire::BadFrame { correlation, error })?;
    Ok(match reply {
        PacerReplyRef::Bids(bids) => Reply::Bids(bids.map(take_bid).collect::<Result<_, _>>()?),
        PacerReplyRef::Outcomes(outcomes) => Reply::Notices(outcomes.collect()),
        PacerReplyRef::CampaignPut(put) => Reply::CampaignPut(put),
        PacerReplyRef::CampaignEnded => Reply::CampaignEnded,
    })
}

fn take_bid(bid: BidRef<'_>) -> Result<Result<Bid, NoBidReason>, ClientError> {
    if bid.token.is_empty() {
        return Ok(Err(bid.no_bid));
    }
    let token = bid.token.try_into().map_err(|_| {
        let bytes = bid.token.len();
        ClientError::ReplyMismatch(format!("a token of {TOKEN_BYTES} bytes expected, one of {bytes} received"))
    })?;
    Ok(Ok(Bid { price_micros: bid.price_micros, token }))
}

#[cfg(test)]
mod tests;
