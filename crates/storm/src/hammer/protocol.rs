//! How one kind of pacer is asked, and how it answers.

use super::Answers;
use anyhow::Result;
use std::net::TcpStream;
use tidegate_wire::pacer::TOKEN_BYTES;

/// One answer, taken from the front of what a server sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Bytes it took.
    pub bytes: usize,
    /// What it answers.
    pub to: To,
}

/// What is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// The packet with this tag; where answers come in the order asked, the tag does not matter.
    Packet(u32),
    /// Notices of wins.
    Notices,
}

/// A bid that won, by its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Won {
    /// What came with the bid.
    pub token: [u8; TOKEN_BYTES],
    /// The second price.
    pub price_micros: u32,
}

/// A protocol, and what is asked over it.
pub trait Protocol {
    /// Whether a connection answers packets in the order it was asked; else each answer carries the packet's tag.
    const IN_ORDER: bool;

    /// Whether notices of wins go over connections of their own, one at a time on each, as those of exchanges do.
    const NOTICES_APART: bool = false;

    /// A bid that won, as its notice needs it.
    type Won;

    /// Talks to the server before the load begins, such as to log in. The socket still blocks here.
    fn greet(&mut self, socket: &mut TcpStream) -> Result<()>;

    /// Bid requests in each packet.
    fn bids_per_packet(&self) -> u64;

    /// Appends the next packet.
    fn ask(&mut self, tag: u32, out: &mut Vec<u8>);

    /// Takes one whole answer from the front of `bytes`, counts what it says, and adds the bids that won to `won`;
    /// `None` when more must arrive first.
    fn answer(&mut self, bytes: &[u8], answers: &mut Answers, won: &mut Vec<Self::Won>) -> Result<Option<Answer>>;

    /// Appends notices of all that won, and how many answers these will have. Where they go apart, one won.
    fn notify(&mut self, won: &mut Vec<Self::Won>, out: &mut Vec<u8>) -> u64;
}
