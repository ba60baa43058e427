//! What the pacer answers, read in place.

use std::iter::FusedIterator;

use super::in_order::{bytes, varint as varint32};
use super::sealed::Sealed;
use super::{Item, NoBidReason, NoticeOutcome, Packet, only_case};
use crate::error::DecodeError;
use crate::field::{Fields, Value, for_each};
use crate::limits::PACER_ITEMS_MAX;
use crate::varint;

/// Bids of one packet, in the order of the requests.
pub type Bids<'a> = Packet<'a, BidRef<'a>>;

/// What the pacer answers.
#[derive(Clone, Debug)]
pub enum PacerReplyRef<'a> {
    /// To bid requests.
    Bids(Bids<'a>),
    /// To wins and to losses.
    Outcomes(NoticeOutcomes<'a>),
    /// A campaign has a plan.
    CampaignPut(CampaignPutRef),
    /// A campaign has ended.
    CampaignEnded,
}

/// What became of a plan. The fields are those of the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CampaignPutRef {
    /// By which bid requests name the campaign.
    pub number: u32,
    /// The version of the plan that is in force.
    pub version: u64,
    /// The campaign was made just now.
    pub is_new: bool,
}

/// The answer to one bid request. The fields are those of the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BidRef<'a> {
    /// What is to be bid, in millionths.
    pub price_micros: u32,
    /// What comes back with the win or the loss; empty where there is no bid.
    pub token: &'a [u8],
    /// Why there is no bid; `Unspecified` with a bid, and for reasons of a version to come.
    pub no_bid: NoBidReason,
}

/// Reads the body of a reply of the pacer, all of it, as [`super::read_request`] reads requests.
#[inline]
pub fn read_reply(body: &[u8]) -> Result<PacerReplyRef<'_>, DecodeError> {
    match only_case(body, 4)? {
        (1, packet) => Packet::read(packet).map(PacerReplyRef::Bids),
        (2, outcomes) => NoticeOutcomes::read(outcomes).map(PacerReplyRef::Outcomes),
        (3, put) => CampaignPutRef::read(put).map(PacerReplyRef::CampaignPut),
        (_, ended) => for_each(ended, |_, _| Ok(())).map(|()| PacerReplyRef::CampaignEnded),
    }
}

impl CampaignPutRef {
    fn read(message: &[u8]) -> Result<CampaignPutRef, DecodeError> {
        let mut put = CampaignPutRef::default();
        for_each(message, |number, value| {
            match number {
                1 => put.number = value.varint()? as u32,
                2 => put.version = value.varint()?,
                3 => put.is_new = value.varint()? != 0,
                _ => {}
            }
            Ok(())
        })?;
        Ok(put)
    }
}

impl Sealed for BidRef<'_> {}

impl<'a> Item<'a> for BidRef<'a> {
    #[inline]
    fn read(content: &'a [u8]) -> Result<BidRef<'a>, DecodeError> {
        match BidRef::in_order(content) {
            Some(bid) => Ok(bid),
            None => BidRef::in_any_order(content),
        }
    }
}

impl<'a> BidRef<'a> {
    #[inline(always)]
    fn in_order(content: &'a [u8]) -> Option<BidRef<'a>> {
        let mut rest = content;
        let (price_micros, token) = (varint32(&mut rest, 0x08)?, bytes(&mut rest, 0x12)?);
        let no_bid = reason_of(u64::from(varint32(&mut rest, 0x18)?));
        rest.is_empty().then_some(BidRef { price_micros, token, no_bid })
    }

    #[cold]
    fn in_any_order(content: &'a [u8]) -> Result<BidRef<'a>, DecodeError> {
        let mut bid = BidRef::default();
        for_each(content, |number, value| {
            match number {
                1 => bid.price_micros = value.varint()? as u32,
                2 => bid.token = value.bytes()?,
                3 => bid.no_bid = reason_of(value.varint()?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(bid)
    }
}

fn reason_of(number: u64) -> NoBidReason {
    NoBidReason::try_from(number as i32).unwrap_or_default()
}

/// What became of each win or loss of a packet, in the order of the notices. An outcome of a version to come counts as
/// `Unspecified`.
#[derive(Clone, Debug)]
pub struct NoticeOutcomes<'a> {
    fields: Fields<'a>,
    /// What is left of the list that the last field was.
    list: &'a [u8],
    left: usize,
}

impl<'a> NoticeOutcomes<'a> {
    fn read(message: &'a [u8]) -> Result<NoticeOutcomes<'a>, DecodeError> {
        let mut outcomes = NoticeOutcomes { fields: Fields::of(message), list: &[], left: 0 };
        let start = outcomes.clone();
        let mut left = 0;
        while outcomes.advance()?.is_some() {
            left += 1;
            if left > PACER_ITEMS_MAX {
                return Err(DecodeError::PacketSizeInvalid);
            }
        }
        if left == 0 { Err(DecodeError::PacketSizeInvalid) } else { Ok(NoticeOutcomes { left, ..start }) }
    }

    /// The next outcome, in a list (as encoders write numbers) or in a field of its own (as decoders must read too).
    #[inline]
    fn advance(&mut self) -> Result<Option<NoticeOutcome>, DecodeError> {
        loop {
            if !self.list.is_empty() {
                let mut at = 0;
                let outcome = varint::read(self.list, &mut at)?;
                self.list = &self.list[at..];
                return Ok(Some(outcome_of(outcome)));
            }
            match self.fields.next()? {
                Some((1, Value::Bytes(list))) => self.list = list,
                Some((1, value)) => return Ok(Some(outcome_of(value.varint()?))),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
}

fn outcome_of(number: u64) -> NoticeOutcome {
    NoticeOutcome::try_from(number as i32).unwrap_or_default()
}

impl Iterator for NoticeOutcomes<'_> {
    type Item = NoticeOutcome;

    #[inline]
    fn next(&mut self) -> Option<NoticeOutcome> {
        self.left = self.left.checked_sub(1)?;
        Some(self.advance().ok().flatten().expect("the outcomes were counted"))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for NoticeOutcomes<'_> {}
impl FusedIterator for NoticeOutcomes<'_> {}
