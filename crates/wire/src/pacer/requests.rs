//! What is asked of the pacer, read in place.

use super::in_order::{bytes, fixed64, varint};
use super::sealed::Sealed;
use super::{Item, Packet, only_case};
use crate::error::DecodeError;
use crate::field::{Value, for_each};

/// The last of the cases of a request.
const LAST_CASE: u32 = 5;

/// Bid requests of one packet.
pub type BidRequests<'a> = Packet<'a, BidRequestRef>;

/// Wins of one packet.
pub type Wins<'a> = Packet<'a, WinRef<'a>>;

/// Tokens of one packet, of bids that did not win. A token that is not of [`super::TOKEN_BYTES`] is no fault of the
/// frame; its outcome is `TokenInvalid`.
pub type Losses<'a> = Packet<'a, &'a [u8]>;

/// What a client asks.
#[derive(Clone, Debug)]
pub enum PacerRequestRef<'a> {
    /// Whether campaigns take part in auctions.
    Bids(BidRequests<'a>),
    /// Which bids won.
    Wins(Wins<'a>),
    /// Which bids did not.
    Losses(Losses<'a>),
    /// A campaign is to have a plan.
    PutCampaign(PutCampaignRef<'a>),
    /// The campaign of this id is to end.
    EndCampaign(&'a str),
}

/// A campaign, and the plan that it is to have. The fields are those of the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutCampaignRef<'a> {
    /// Its id.
    pub id: &'a str,
    /// JSON.
    pub plan: &'a [u8],
}

/// Whether one campaign takes part in one auction. The fields are those of the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BidRequestRef {
    /// Of the auction.
    pub id: u64,
    /// The campaign's number.
    pub campaign: u32,
    /// Hash of the user; 0: unknown.
    pub user: u64,
    /// Hash of what the campaign is aimed at; 0: none.
    pub key: u64,
    /// What the client would bid, in millionths; 0: what the campaign bids.
    pub price_micros: u32,
}

/// A bid that won.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WinRef<'a> {
    /// What came with the bid; of any length, as it is the client's.
    pub token: &'a [u8],
    /// What the impression cost, in millionths.
    pub price_micros: u32,
}

/// Reads the body of a request to the pacer, all of it.
///
/// Unknown fields are passed over; of a repeated scalar the last one counts. A packet of no or more than
/// [`crate::limits::PACER_ITEMS_MAX`] items is refused, as are two requests in one body.
///
/// ```
/// use tidegate_wire::pacer::{BidRequestRef, FAMILY, PacerRequestRef, encode_bid_requests, read_request};
/// use tidegate_wire::{BodyRef, Split, decode_request, limits, split};
///
/// let asked = BidRequestRef { id: 1, campaign: 7, price_micros: 2_500, ..BidRequestRef::default() };
/// let mut buffer = Vec::new();
/// encode_bid_requests(&mut buffer, 5, [asked; 10]);
///
/// let Split::Frame(range) = split(&buffer, limits::FRAME_BYTES_MAX)? else { panic!("a whole frame") };
/// let request = decode_request(&buffer[range])?;
/// let BodyRef::Room(room) = request.body else { panic!("for a room") };
/// assert_eq!((request.correlation, room.family), (5, FAMILY));
/// let PacerRequestRef::Bids(bids) = read_request(room.body)? else { panic!("bids") };
/// assert_eq!(bids.len(), 10);
/// assert!(bids.into_iter().all(|bid| bid == asked));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn read_request(body: &[u8]) -> Result<PacerRequestRef<'_>, DecodeError> {
    let (number, packet) = only_case(body, LAST_CASE)?;
    match number {
        1 => Packet::read(packet).map(PacerRequestRef::Bids),
        2 => Packet::read(packet).map(PacerRequestRef::Wins),
        3 => Packet::read(packet).map(PacerRequestRef::Losses),
        4 => PutCampaignRef::read(packet).map(PacerRequestRef::PutCampaign),
        _ => PutCampaignRef::read(packet).map(|end| PacerRequestRef::EndCampaign(end.id)),
    }
}

/// Whether a body asks for bids, if it is well-formed.
#[inline]
pub fn asks_for_bids(body: &[u8]) -> bool {
    body.first() == Some(&0x0a) || only_case(body, LAST_CASE).is_ok_and(|(case, _)| case == 1)
}

impl<'a> PutCampaignRef<'a> {
    fn read(message: &'a [u8]) -> Result<PutCampaignRef<'a>, DecodeError> {
        let mut put = PutCampaignRef::default();
        for_each(message, |number, value| {
            match number {
                1 => put.id = value.text()?,
                2 => put.plan = value.bytes()?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(put)
    }
}

/// A number of 32 bits. A price that is cut to its lower bits would be another price.
fn whole(value: Value<'_>) -> Result<u32, DecodeError> {
    u32::try_from(value.varint()?).map_err(|_| DecodeError::NumberTooLarge)
}

impl Sealed for BidRequestRef {}

impl<'a> Item<'a> for BidRequestRef {
    #[inline(always)]
    fn read(content: &'a [u8]) -> Result<BidRequestRef, DecodeError> {
        match BidRequestRef::in_order(content) {
            Some(request) => Ok(request),
            None => BidRequestRef::in_any_order(content),
        }
    }
}

impl BidRequestRef {
    #[inline(always)]
    fn in_order(content: &[u8]) -> Option<BidRequestRef> {
        let mut rest = content;
        let request = BidRequestRef {
            id: fixed64(&mut rest, 0x09)?,
            campaign: varint(&mut rest, 0x10)?,
            user: fixed64(&mut rest, 0x19)?,
            key: fixed64(&mut rest, 0x21)?,
            price_micros: varint(&mut rest, 0x28)?,
        };
        rest.is_empty().then_some(request)
    }

    #[cold]
    fn in_any_order(content: &[u8]) -> Result<BidRequestRef, DecodeError> {
        let mut request = BidRequestRef::default();
        for_each(content, |number, value| {
            match number {
                1 => request.id = value.fixed64()?,
                2 => request.campaign = whole(value)?,
                3 => request.user = value.fixed64()?,
                4 => request.key = value.fixed64()?,
                5 => request.price_micros = whole(value)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(request)
    }
}

impl Sealed for WinRef<'_> {}

impl<'a> Item<'a> for WinRef<'a> {
    #[inline]
    fn read(content: &'a [u8]) -> Result<WinRef<'a>, DecodeError> {
        match WinRef::in_order(content) {
            Some(win) => Ok(win),
            None => WinRef::in_any_order(content),
        }
    }
}

impl<'a> WinRef<'a> {
    #[inline(always)]
    fn in_order(content: &'a [u8]) -> Option<WinRef<'a>> {
        let mut rest = content;
        let win = WinRef { token: bytes(&mut rest, 0x0a)?, price_micros: varint(&mut rest, 0x10)? };
        rest.is_empty().then_some(win)
    }

    #[cold]
    fn in_any_order(content: &'a [u8]) -> Result<WinRef<'a>, DecodeError> {
        let mut win = WinRef::default();
        for_each(content, |number, value| {
            match number {
                1 => win.token = value.bytes()?,
                2 => win.price_micros = whole(value)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(win)
    }
}

impl Sealed for &[u8] {}

impl<'a> Item<'a> for &'a [u8] {
    #[inline(always)]
    fn read(content: &'a [u8]) -> Result<&'a [u8], DecodeError> {
        Ok(content)
    }
}
