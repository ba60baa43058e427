//! The decision on one request: a pure function of what the bidder sees, so that a sample can be decided again.

use tidegate_machines::TimeMs;

use super::aim::Aim;
use super::{BidRequest, NoBid};
use crate::machine::LeaseId;
use crate::plan::FrequencyCap;
use crate::units::PriceMicros;

/// What of a campaign a bidder sees when it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The bidder's time.
    pub now: TimeMs,
    /// The flight that is under way, or was the last time.
    pub starts: u64,
    /// It ends before then.
    pub ends: u64,
    /// A request is bid on if the upper half of its hash is below this.
    pub threshold: u64,
    /// What is bid of a price, in 65,536ths.
    pub shade: u32,
    /// The most that is bid.
    pub price_max: u32,
    /// The lease; 0: none.
    pub lease: LeaseId,
    /// What is left of it.
    pub left: u64,
    /// The next bid's number in the lease.
    pub number: u32,
}

/// A request, what was seen when it was decided, and the answer: enough to decide it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The request.
    pub request: BidRequest,
    /// The version of the plan whose aim was in force.
    pub version: u64,
    /// What was seen.
    pub seen: Seen,
    /// Whether the user may see the campaign, if that was asked.
    pub may_see: Option<bool>,
    /// The answer.
    pub answer: Result<PriceMicros, NoBid>,
}

/// From which chance comes: the upper half decides whether a request is bid on, the lower one whether it is a sample.
#[inline(always)]
pub fn hash_of(request: &BidRequest) -> u64 {
    mixed(request.id ^ u64::from(request.campaign) << 32)
}

/// The decision: what is bid on a request. `aim` may be left out where it has no keys and no cap; `may_see` says
/// whether the user may see the campaign once more, and is asked last, because it counts.
#[inline(always)]
pub(super) fn decide(
    seen: &Seen,
    aim: Option<&Aim>,
    request: &BidRequest,
    hash: u64,
    may_see: impl FnOnce(FrequencyCap) -> bool,
) -> Result<PriceMicros, NoBid> {
    if seen.now.0.wrapping_sub(seen.starts) >= seen.ends.wrapping_sub(seen.starts) {
        return Err(NoBid::NotInFlight);
    }
    if let Some(aim) = aim
        && !aim.keys.is_empty()
        && !aim.keys.contains(&request.key)
    {
        return Err(NoBid::NotTargeted);
    }
    if hash >> 32 >= seen.threshold {
        return Err(NoBid::Throttled);
    }
    let wanted = if request.price.0 == 0 { seen.price_max } else { request.price.0 };
    if wanted > seen.price_max {
        return Err(NoBid::PriceAboveCap);
    }
    let price = ((u64::from(wanted) * u64::from(seen.shade)) >> 16) as u32;
    if price == 0 || seen.left < u64::from(price) || seen.number == u32::MAX {
        return Err(NoBid::NoLease);
    }
    if let Some(cap) = aim.and_then(|aim| aim.frequency)
        && request.user != 0
        && !may_see(cap)
    {
        return Err(NoBid::FrequencyCapped);
    }
    Ok(PriceMicros(price))
}

/// What a sample is answered by `aim`, the one of its version.
pub fn decide_again(sample: &Sample, aim: &Aim) -> Result<PriceMicros, NoBid> {
    let Sample { request, seen, may_see, .. } = sample;
    decide(seen, Some(aim), request, hash_of(request), |_| may_see.unwrap_or(true))
}

/// A hash of a number: the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
#[inline]
pub fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
