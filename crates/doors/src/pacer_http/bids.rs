//! Bid requests and wins in JSON.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_machines::ShardIndex;
use tidegate_pacer::bidder::{BidRequest, NoBid};
use tidegate_pacer::bidders::{BidderAnswer, BidderAsk, BidderRequest, Busy};
use tidegate_pacer::limits::ITEMS_MAX;
use tidegate_pacer::machine::{Command, Outcome, Win};
use tidegate_pacer::token::TOKEN_BYTES;
use tidegate_pacer::units::PriceMicros;
use tidegate_shard::Unavailable;
use utoipa::ToSchema;

use super::{BIDS_INVALID, Served};
use crate::auth::{Action, Identity};
use crate::http::RoomBodyProblems;
use crate::json::{Problem, decode, json};
use crate::openrtb::response::{TOKEN_CHARS, token_of};
use crate::pacer_calls::{BIDS, outcome_of};

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
    /// Comes back with the win; absent if nothing is bid.
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

/// What became of wins.
#[derive(Serialize, ToSchema)]
pub struct WinOutcomesBody {
    /// In the order of the wins: `taken`, `duplicate`, `late`, `token_invalid` or `price_above_bid`.
    outcomes: Vec<&'static str>,
}

pub(super) fn check_right(caller: &Identity) -> Result<(), Problem> {
    if caller.may(BIDS, Action::Write, "bids") {
        return Ok(());
    }
    caller.denied();
    Err(Problem::forbidden("this token may not bid; a service may with the grant \"room:pacer:write:bids\""))
}

fn check_count(field: &'static str, count: usize) -> Result<(), Problem> {
    if (1..=ITEMS_MAX).contains(&count) {
        return Ok(());
    }
    Err(Problem::new(BIDS_INVALID, format!("{field}: expected 1 to {ITEMS_MAX}")).with("field", field))
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
    check_count("requests", requests.len())?;
    caller.charge(requests.len() as u32 - 1);
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
/// What is answered as taken is durable. A win counts once, and within `pacing.win_deadline_ms` of its bid.
#[utoipa::path(
    post,
    path = "/v1/wins",
    tag = "pacer",
    request_body = WinsBody,
    responses((status = 200, description = "What became of each", body = WinOutcomesBody), RoomBodyProblems)
)]
pub async fn win(State(served): State<Served>, request: Request) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    check_right(&caller)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let WinsBody { wins } = decode(&body)?;
    check_count("wins", wins.len())?;
    caller.charge(wins.len() as u32 - 1);
    let mut outcomes = vec!["token_invalid"; wins.len()];
    let mut of_shards: Vec<(Vec<Win>, Vec<usize>)> = vec![Default::default(); served.shards.into()];
    for (at, win) in wins.iter().enumerate() {
        let Some(bid) = bytes_of(&win.token).and_then(|token| served.tokens.open(&token)) else { continue };
        let Some((wins, places)) = of_shards.get_mut(usize::from(bid.lease.shard().0)) else { continue };
        if win.price_micros > bid.price.0 {
            outcomes[at] = "price_above_bid";
            continue;
        }
        wins.push(bid.won(PriceMicros(win.price_micros)));
        places.push(at);
    }
    for (shard, (wins, places)) in of_shards.into_iter().enumerate() {
        if wins.is_empty() {
            continue;
        }
        let won = served.ask(ShardIndex(shard as u16), Command::Win { wins }).await?;
        let Outcome::Won(won) = won else { unreachable!("wins are judged") };
        places.iter().zip(won).for_each(|(at, outcome)| outcomes[*at] = outcome_of(outcome).0);
    }
    Ok(json(StatusCode::OK, &WinOutcomesBody { outcomes }))
}

fn hex(token: &[u8; TOKEN_BYTES]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = token.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

fn bytes_of(text: &str) -> Option<[u8; TOKEN_BYTES]> {
    // As bids of OpenRTB have it.
    if text.len() == TOKEN_CHARS {
        return token_of(text);
    }
    let digits: &[u8; 2 * TOKEN_BYTES] = text.as_bytes().try_into().ok()?;
    let mut token = [0; TOKEN_BYTES];
    for (byte, pair) in token.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_from_its_digits_alone() {
        let token: [u8; TOKEN_BYTES] = std::array::from_fn(|at| at as u8 * 7);
        assert_eq!(bytes_of(&hex(&token)), Some(token));
        assert_eq!(bytes_of(&hex(&token)[1..]), None);
        assert_eq!(bytes_of(&"g".repeat(2 * TOKEN_BYTES)), None);
    }
}
