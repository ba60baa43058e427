//! Bid requests, wins and losses in JSON.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json as json_of;
use tidegate_pacer::bidder::{BidRequest, NoBid};
use tidegate_pacer::bidders::{BidderAnswer, BidderAsk, BidderRequest, Busy};
use tidegate_pacer::family::CampaignRequest;
use tidegate_pacer::limits::ITEMS_MAX;
use tidegate_pacer::token::TOKEN_BYTES;
use tidegate_pacer::units::PriceMicros;
use tidegate_shard::Unavailable;
use utoipa::ToSchema;

use super::{BIDS_INVALID, Served};
use crate::auth::{Action, Identity};
use crate::http::RoomBodyProblems;
use crate::json::{Problem, decode, json};
use crate::openrtb::response::{TOKEN_CHARS, token_of};
use crate::pacer_calls::BIDS;
use crate::pacer_notices::{Issuer, Judged, Notices, name_of};
use crate::pacer_peers::is_of_peer;

/// 1 to 256 bid requests.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BidRequestsBody {
    /// Each is answered by its own.
    #[schema(min_items = 1, max_items = 256)]
    requests: Vec<BidRequestBody>,
}

/// Whether one campaign takes part in one auction.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BidRequestBody {
    /// Of the auction. The same id is decided in the same way by the same throttle.
    #[schema(value_type = u64, format = "uint64")]
    id: u64,
    /// The campaign's number.
    #[schema(value_type = u32, format = "uint32", maximum = 4_294_967_295u32)]
    campaign: u32,
    /// Hash of the user; 0 or absent: unknown.
    #[serde(default)]
    #[schema(value_type = u64, format = "uint64")]
    user: u64,
    /// Hash of what the impression is about; 0 or absent: none.
    #[serde(default)]
    #[schema(value_type = u64, format = "uint64")]
    key: u64,
    /// What the client would bid, in micros; 0 or absent: what the campaign bids.
    #[serde(default)]
    #[schema(value_type = u32, format = "uint32", maximum = 4_294_967_295u32)]
    price_micros: u32,
}

/// Answers to bid requests.
#[derive(Serialize, ToSchema)]
pub struct BidsBody {
    /// In the order of the requests.
    bids: Vec<BidBody>,
}

/// A bid, or why there is none.
#[derive(Serialize, ToSchema)]
pub struct BidBody {
    /// What is bid for one impression, in micros; absent if nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u32, format = "uint32")]
    price_micros: Option<u32>,
    /// Comes back with the win or the loss; absent if nothing is bid.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    token: Option<String>,
    /// Why nothing is bid; absent if something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    no_bid: Option<&'static str>,
}

/// 1 to 256 wins.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WinsBody {
    /// Each is judged by its own.
    #[schema(min_items = 1, max_items = 256)]
    wins: Vec<WinBody>,
}

/// A bid that has won.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WinBody {
    /// What came with the bid; of a bid of OpenRTB, its `id`.
    token: Box<str>,
    /// What the impression cost, in micros: at most what was bid.
    #[schema(value_type = u32, format = "uint32", maximum = 4_294_967_295u32)]
    price_micros: u32,
}

/// 1 to 256 losses.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LossesBody {
    /// Each is judged by its own.
    #[schema(min_items = 1, max_items = 256)]
    losses: Vec<LossBody>,
}

/// A bid that has not won.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LossBody {
    /// What came with the bid.
    token: Box<str>,
}

/// What became of wins or losses.
#[derive(Serialize, ToSchema)]
pub struct NoticeOutcomesBody {
    /// In the order of the notices: `taken`, `duplicate`, `late` or `token_invalid`; of a win also `price_above_bid`,
    /// or `lost` if the bid was said to be lost before; of a loss also `won`, if the bid has won.
    outcomes: Vec<&'static str>,
}

pub(super) fn check_right(caller: &Identity) -> Result<(), Problem> {
    if caller.may(BIDS, Action::Write, "bids") {
        return Ok(());
    }
    caller.denied();
    Err(Problem::forbidden("this token may not bid; a service may with the grant \"room:pacer:write:bids\""))
}

/// The request itself counts as one.
fn charge_items(caller: &Identity, field: &'static str, count: usize) -> Result<(), Problem> {
    if !(1..=ITEMS_MAX).contains(&count) {
        return Err(Problem::new(BIDS_INVALID, format!("{field}: expected 1 to {ITEMS_MAX}")).with("field", field));
    }
    caller.charge(count as u32 - 1);
    Ok(())
}

/// Ask for bids
#[utoipa::path(
    post,
    path = "/v1/bids",
    tag = "pacer",
    request_body = BidRequestsBody,
    responses((status = 200, description = "A bid or a reason for each", body = BidsBody), RoomBodyProblems)
)]
pub async fn bid(State(served): State<Served>, request: Request) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    check_right(&caller)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let BidRequestsBody { requests } = decode(&body)?;
    charge_items(&caller, "requests", requests.len())?;
    let asked = requests.iter().map(|request| {
        let BidRequestBody { id, campaign, user, key, price_micros } = *request;
        BidRequest { id, campaign, user, key, price: PriceMicros(price_micros) }
    });
    let ask = BidderAsk::Bids(asked.collect());
    // A request that is repeated is answered by the same one.
    let asked = served.bidders.ask(BidderRequest { worker: requests[0].id, ask });
    let answers = match served.door.in_time(asked).await? {
        Ok(Ok(BidderAnswer::Bids(answers))) => answers,
        Ok(Ok(other)) => unreachable!("bids were asked for: {other:?}"),
        Ok(Err(Busy(_))) => return Err(Unavailable::Busy.into()),
        Err(unasked) => return Err(Unavailable::from(unasked).into()),
    };
    let bids = answers.into_iter().map(|answer| match answer {
        Ok(offer) => BidBody { price_micros: Some(offer.price.0), token: Some(hex(&offer.token)), no_bid: None },
        Err(why) => BidBody { price_micros: None, token: None, no_bid: Some(NoBid::name(why)) },
    });
    Ok(json(StatusCode::OK, &BidsBody { bids: bids.collect() }))
}

/// Say which bids have won
///
/// What is answered as taken is durable. A win counts once, within `pacing.win_deadline_ms` of its bid, and unless the
/// bid was said to be lost before. What was bid above its price is free again at once.
#[utoipa::path(
    post,
    path = "/v1/wins",
    tag = "pacer",
    request_body = WinsBody,
    responses((status = 200, description = "What became of each", body = NoticeOutcomesBody), RoomBodyProblems)
)]
pub async fn win(State(served): State<Served>, request: Request) -> Result<Response<Body>, Problem> {
    let (caller, headers, WinsBody { wins }) = served.notices(request).await?;
    charge_items(&caller, "wins", wins.len())?;
    let notices = wins.iter().map(|win| (bytes_of(&win.token), PriceMicros(win.price_micros)));
    let mut judged = served.judge(served.issuer().wins(notices)).await?;
    let row = |at: usize| json_of!({ "token": wins[at].token, "price_micros": wins[at].price_micros });
    served.judge_elsewhere(&mut judged, &headers, ("/v1/wins", "wins"), row).await?;
    Ok(served.told(judged, &headers))
}

/// Say which bids have not won
///
/// What such a bid reserves is free again at once, and a win of it does not count any more. Nobody has to say it: what
/// a bid reserves is free when `pacing.win_deadline_ms` have passed.
#[utoipa::path(
    post,
    path = "/v1/losses",
    tag = "pacer",
    request_body = LossesBody,
    responses((status = 200, description = "What became of each", body = NoticeOutcomesBody), RoomBodyProblems)
)]
pub async fn lose(State(served): State<Served>, request: Request) -> Result<Response<Body>, Problem> {
    let (caller, headers, LossesBody { losses }) = served.notices(request).await?;
    charge_items(&caller, "losses", losses.len())?;
    let mut judged = served.judge(served.issuer().losses(losses.iter().map(|loss| bytes_of(&loss.token)))).await?;
    let row = |at: usize| json_of!({ "token": losses[at].token });
    served.judge_elsewhere(&mut judged, &headers, ("/v1/losses", "losses"), row).await?;
    Ok(served.told(judged, &headers))
}

impl Served {
    /// Who sends notices, and which.
    async fn notices<B: DeserializeOwned>(&self, request: Request) -> Result<(Identity, HeaderMap, B), Problem> {
        let (head, body) = request.into_parts();
        let caller = self.door.caller(&head.headers)?;
        check_right(&caller)?;
        let body = self.door.read_json(&head.headers, body).await?;
        Ok((caller, head.headers, decode(&body)?))
    }

    pub(super) fn issuer(&self) -> Issuer<'_> {
        Issuer { tokens: &self.tokens, shards: self.shards, now: self.auctions.bidder.time() }
    }

    fn told(&self, judged: Judged, headers: &HeaderMap) -> Response<Body> {
        // Whoever has passed them on counts those of nobody.
        if !is_of_peer(headers) {
            judged.count_unknown(&self.notices);
        }
        let outcomes = judged.into_outcomes().into_iter().map(name_of).collect();
        json(StatusCode::OK, &NoticeOutcomesBody { outcomes })
    }

    /// Asks the shards what becomes of notices.
    pub(super) async fn judge(&self, (mut notices, asked): (Notices, Vec<CampaignRequest>)) -> Result<Judged, Problem> {
        for (number, CampaignRequest { shard, command }) in asked.into_iter().enumerate() {
            notices.judged(number, self.ask(shard, command).await?);
        }
        let judged = notices.into_judged();
        judged.count_own(&self.notices);
        Ok(judged)
    }
}

fn hex(token: &[u8; TOKEN_BYTES]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = token.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// The bytes of a token; none, if the text is not one.
fn bytes_of(text: &str) -> Vec<u8> {
    // As bids of OpenRTB have it.
    if text.len() == TOKEN_CHARS {
        return token_of(text).map_or(Vec::new(), Vec::from);
    }
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
    let digits: Option<&[u8; 2 * TOKEN_BYTES]> = text.as_bytes().try_into().ok();
    digits.and_then(|digits| digits.chunks_exact(2).map(byte).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_from_its_digits_alone() {
        let token: [u8; TOKEN_BYTES] = std::array::from_fn(|at| at as u8 * 7);
        assert_eq!(bytes_of(&hex(&token)), token);
        assert!(bytes_of(&hex(&token)[1..]).is_empty());
        assert!(bytes_of(&"g".repeat(2 * TOKEN_BYTES)).is_empty());
    }
}
