//! Frames of the pacer, read where they lie and written straight into the buffer of a connection.
//!
//! ```text
//!   RoomFrame of family 5 ─▶ body ─▶ read_request ─▶ Bids(packet)   ─▶ 1 to 256 BidRequestRef     server's way in
//!                                                 ├▶ Wins(packet)   ─▶ WinRef
//!                                                 └▶ Losses(packet) ─▶ a token
//!   bytes ◀─ BidsWriter, NoticeOutcomesWriter                                                     server's way out
//!   bytes ◀─ encode_bid_requests, encode_wins, encode_losses                                      client's way out
//!   RoomFrame of family 5 ─▶ body ─▶ read_reply ─▶ Bids(packet), Outcomes(packet)                 client's way in
//! ```
//!
//! A packet is checked to its end before its first item is handed out. A request that is malformed is therefore
//! refused as a whole: no item of it was decided, and nothing must be taken back. The second pass costs less than
//! keeping the items would (`cargo bench -p tidegate-wire --bench pacer`).
//!
//! A packet of 256 of the longest items has less than 2^14 bytes. Each length in a frame that is written here is
//! therefore a padded varint of two bytes, filled in when the frame is finished, and no byte is moved.
//!
//! `pacer.proto` is the schema; [`proto`] holds its generated types, for tests and for where time does not matter.
//!
//! Invariant: nothing here knows which campaigns exist or what a token says.

mod in_order;
mod replies;
mod requests;
mod writers;

use std::iter::FusedIterator;
use std::marker::PhantomData;

use crate::error::DecodeError;
use crate::field::Fields;
use crate::limits::PACER_ITEMS_MAX;

pub use proto::{NoBidReason, NoticeOutcome};
pub use replies::{BidRef, Bids, NoticeOutcomes, PacerReplyRef, read_reply};
pub use requests::{BidRequestRef, BidRequests, Losses, PacerRequestRef, WinRef, Wins, asks_for_bids, read_request};
pub use writers::{BidsWriter, NoticeOutcomesWriter, encode_bid_requests, encode_losses, encode_wins};

/// The types that prost generates from `pacer.proto`. Their documentation is the schema's.
#[allow(missing_docs, clippy::all)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/tidegate.pacer.rs"));
}

/// The family of the pacer's RoomFrames.
pub const FAMILY: u32 = 5;

/// Length of a token, in bytes.
pub const TOKEN_BYTES: usize = 32;

/// One item of a packet: what a field 1 of it holds.
pub trait Item<'a>: Sized + sealed::Sealed {
    /// Reads the content of the field. A packet calls it twice for each item, with the same bytes.
    #[doc(hidden)]
    fn read(content: &'a [u8]) -> Result<Self, DecodeError>;
}

mod sealed {
    /// Only the items of this schema are read.
    pub trait Sealed {}
}

/// The items of a request or a reply, in their order. All of them are well-formed.
#[derive(Clone, Debug)]
pub struct Packet<'a, T> {
    rest: &'a [u8],
    left: usize,
    item: PhantomData<T>,
}

impl<'a, T: Item<'a>> Packet<'a, T> {
    /// Reads all of `message`, which has 1 to [`PACER_ITEMS_MAX`] items.
    #[inline]
    fn read(message: &'a [u8]) -> Result<Packet<'a, T>, DecodeError> {
        let (mut rest, mut left) = (message, 0);
        while let Some(content) = next_content(&mut rest)? {
            T::read(content)?;
            left += 1;
            if left > PACER_ITEMS_MAX {
                return Err(DecodeError::PacketSizeInvalid);
            }
        }
        if left == 0 {
            Err(DecodeError::PacketSizeInvalid)
        } else {
            Ok(Packet { rest: message, left, item: PhantomData })
        }
    }
}

impl<'a, T: Item<'a>> Iterator for Packet<'a, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        let content = next_content(&mut self.rest).ok().flatten().expect("the items were counted");
        Some(T::read(content).expect("every item was read before"))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<'a, T: Item<'a>> ExactSizeIterator for Packet<'a, T> {}
impl<'a, T: Item<'a>> FusedIterator for Packet<'a, T> {}

/// Cuts the next field 1 off `rest`; `None` at the end.
#[inline(always)]
fn next_content<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, DecodeError> {
    // Items are shorter than 128 bytes, and follow each other.
    if let [0x0a, length @ 0..0x80, behind @ ..] = *rest
        && let Some((content, behind)) = behind.split_at_checked(usize::from(*length))
    {
        *rest = behind;
        return Ok(Some(content));
    }
    if rest.is_empty() { Ok(None) } else { next_content_in_any_form(rest) }
}

#[cold]
fn next_content_in_any_form<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, DecodeError> {
    let mut fields = Fields::of(rest);
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            let content = value.bytes()?;
            *rest = &rest[fields.offset()..];
            return Ok(Some(content));
        }
    }
    *rest = &[];
    Ok(None)
}

/// The only field of `body` with one of the numbers 1 to `last`: its number and content.
#[inline]
fn only_case(body: &[u8], last: u32) -> Result<(u32, &[u8]), DecodeError> {
    let mut fields = Fields::of(body);
    let mut case = None;
    while let Some((number, value)) = fields.next()? {
        if number <= last && case.replace((number, value.bytes()?)).is_some() {
            return Err(DecodeError::BodyRepeated);
        }
    }
    case.ok_or(DecodeError::BodyMissing)
}
