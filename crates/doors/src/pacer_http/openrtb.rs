//! Auctions of exchanges that speak OpenRTB 2.6, and their notices.

use std::net::IpAddr;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Uri};
use http_body_util::Full;
use serde::Serialize;
use tidegate_pacer::bidders::{EdgeBidder, Uninformed};
use tidegate_pacer::family::CampaignRequest;
use tidegate_shard::Unavailable;
use tidegate_wire::pacer::NoticeOutcome;
use utoipa::{IntoParams, ToSchema};

use super::bids::check_right;
use super::{OPENRTB_NOTICE_INVALID, OPENRTB_VERSION_UNSUPPORTED, Served};
use crate::http::{InQuery, PeerAddress, Readable, RoomBodyProblems, RoomProblems, query_problem_as};
use crate::json::{Problem, codes, json, whole_response};
use crate::openrtb::notice::{LossNotice, PaidNotice, TOKEN, Wrong, bid_of};
use crate::openrtb::request::{REQUEST_BYTES_MAX, read};
use crate::openrtb::response::{ResponseWriter, no_bid, token_of};
use crate::openrtb::settings::{ChargeOn, OpenRtbSettings};
use crate::pacer_notices::{Kind, Notices, name_of};
use crate::pacer_peers::is_of_peer;

/// Path of the hot request.
pub const BIDS_PATH: &str = "/openrtb/2.6/bids";

const VERSION_HEADER: HeaderName = HeaderName::from_static("x-openrtb-version");
const VERSION: HeaderValue = HeaderValue::from_static("2.6");

/// What auctions need.
pub struct Auctions {
    /// Of this thread.
    pub bidder: EdgeBidder,
    /// How notices come back.
    pub settings: OpenRtbSettings,
    /// How long after its bid a win counts.
    pub win_deadline_ms: u64,
}

/// What auctions are asked.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "describes the query, which is looked at as it is")]
pub struct BidsQuery {
    /// 1: where there is no bid, a response that says why, instead of 204.
    #[param(required = false, value_type = String, example = "1")]
    nbr: String,
}

/// A bid request of OpenRTB 2.6, as far as it is read here: docs/formats/openrtb.md. Other fields pass.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what openrtb::request decodes")]
pub struct OpenRtbRequest {
    /// Of the auction.
    #[schema(example = "80ce30c53c16e6ede735f123ef6e32361bfc7b22")]
    id: String,
    /// What is auctioned.
    #[schema(max_items = 64)]
    imp: Vec<OpenRtbImpression>,
    /// Currencies that bids may be in; USD if there are none.
    cur: Option<Vec<String>>,
    /// 1: nothing that is bid costs anything.
    test: Option<i64>,
    /// Buyers that may bid.
    wseat: Option<Vec<String>>,
    /// Buyers that may not.
    bseat: Option<Vec<String>>,
    /// Categories that are not wanted.
    bcat: Option<Vec<String>>,
    /// Advertisers that are not wanted, by domain.
    badv: Option<Vec<String>>,
}

/// An impression.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what openrtb::request decodes")]
pub struct OpenRtbImpression {
    /// Within the request.
    #[schema(example = "1")]
    id: String,
    /// The least that is taken for a thousand.
    #[schema(example = 0.03)]
    bidfloor: Option<f64>,
    /// Its currency; USD if there is none.
    bidfloorcur: Option<String>,
    /// The placement.
    tagid: Option<String>,
    /// It may be a banner.
    banner: Option<OpenRtbBanner>,
    /// 1: creatives must load nothing without TLS.
    secure: Option<i64>,
}

/// A banner.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what openrtb::request decodes")]
pub struct OpenRtbBanner {
    /// Width.
    #[schema(example = 300)]
    w: Option<i64>,
    /// Height.
    #[schema(example = 250)]
    h: Option<i64>,
    /// Attributes of creatives that are not wanted.
    battr: Option<Vec<i64>>,
}

/// A bid response of OpenRTB 2.6.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what openrtb::response writes")]
pub struct OpenRtbResponse {
    /// Of the request.
    id: String,
    /// Currency of the bids.
    #[schema(required = false)]
    cur: String,
    /// Bids by buyer.
    #[schema(required = false)]
    seatbid: Vec<OpenRtbSeatBid>,
    /// With `?nbr=1`: why there is no bid; 9 if users have seen what there is as often as may be, else 0.
    #[schema(required = false)]
    nbr: u32,
}

/// Bids of one buyer.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what openrtb::response writes")]
pub struct OpenRtbSeatBid {
    /// One for each impression at most.
    bid: Vec<OpenRtbBid>,
    /// The buyer.
    #[schema(required = false)]
    seat: String,
}

/// A bid.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what openrtb::response writes")]
pub struct OpenRtbBid {
    /// The token of the bid, which `POST /v1/wins` takes as well.
    id: String,
    /// The impression.
    impid: String,
    /// For a thousand.
    #[schema(example = 2.5)]
    price: f64,
    /// What is shown.
    adm: String,
    /// The advertiser.
    adomain: Vec<String>,
    /// The campaign.
    cid: String,
    /// The creative.
    crid: String,
}

/// What became of a notice.
#[derive(Serialize, ToSchema)]
pub struct NoticeBody {
    /// `taken`, `duplicate`, `late`, `lost` for a win behind a loss, `won` for a loss behind a win; `ignored` if it is
    /// not the kind of notice that costs, or nothing was sold.
    outcome: &'static str,
}

/// Bid in an auction of OpenRTB 2.6
///
/// For each impression, the campaign bids that would pay most. A campaign takes part if its plan has `openrtb`, and
/// what is auctioned is as that says. Without a bid the answer is 204.
// Requests come by the hot path; this describes it, and lets the routes know which method is served.
#[utoipa::path(
    post,
    path = BIDS_PATH,
    tag = "pacer",
    params(BidsQuery),
    request_body = OpenRtbRequest,
    responses(
        (status = 200, description = "Bids; with `?nbr=1` also why there are none", body = OpenRtbResponse),
        (status = 204, description = "No bid"),
        RoomBodyProblems
    )
)]
pub async fn auction(State(served): State<Served>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    answer(&served, &head, body).await.map(Body::new)
}

/// The answer to an auction, of the hot path or not.
pub(super) async fn answer(served: &Served, head: &Parts, body: impl Readable) -> Response<Full<Bytes>> {
    let mut answer = bid(served, head, body).await.unwrap_or_else(Problem::whole_response);
    answer.headers_mut().insert(VERSION_HEADER, VERSION);
    answer
}

async fn bid(served: &Served, head: &Parts, body: impl Readable) -> Result<Response<Full<Bytes>>, Problem> {
    let caller = served.door.caller(&head.headers)?;
    check_right(&caller)?;
    check_version(&head.headers)?;
    let body = served.door.read_json(&head.headers, body).await?;
    if body.len() > REQUEST_BYTES_MAX {
        let detail = format!("a bid request may have at most {REQUEST_BYTES_MAX} bytes; this one has {}", body.len());
        return Err(Problem::new(codes::BODY_TOO_LARGE, detail));
    }
    let decoded = read(&body)?;
    caller.charge(decoded.impression_ids.len().saturating_sub(1) as u32);
    let Auctions { bidder, settings, win_deadline_ms } = &*served.auctions;
    let auctioned = bidder.auction(&decoded.request).map_err(|Uninformed| Unavailable::Recovering)?;
    if !auctioned.bids.is_empty() {
        let writer = ResponseWriter { settings, tokens: &served.tokens, expires_s: win_deadline_ms / 1_000 };
        return Ok(whole_response(StatusCode::OK, writer.bids(&decoded, &auctioned)));
    }
    if wants_reason(head.uri.query()) {
        return Ok(whole_response(StatusCode::OK, no_bid(&decoded, &auctioned)));
    }
    let mut none = Response::new(Full::default());
    *none.status_mut() = StatusCode::NO_CONTENT;
    Ok(none)
}

fn wants_reason(query: Option<&str>) -> bool {
    query.is_some_and(|query| query.split('&').any(|pair| pair == "nbr=1"))
}

/// All versions 2 say what is read here in the same way.
fn check_version(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get(VERSION_HEADER) {
        Some(version) if !is_version_2(version.as_bytes()) => {
            let detail = "x-openrtb-version: expected 2.6, or another version 2 with the same fields";
            Err(Problem::new(OPENRTB_VERSION_UNSUPPORTED, detail))
        }
        _ => Ok(()),
    }
}

/// `2.6`, or with the month of its edition `2.6-202211`.
fn is_version_2(version: &[u8]) -> bool {
    let is_number = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    version.strip_prefix(b"2.").is_some_and(|minor| minor.splitn(2, |byte| *byte == b'-').all(is_number))
}

/// What a notice says.
fn notice_of<T>(query: InQuery<T>) -> Result<T, Problem> {
    query.map(|query| query.0).map_err(|error| query_problem_as(OPENRTB_NOTICE_INVALID, &error, u64::MAX))
}

fn wrong(Wrong(field, why): Wrong) -> Problem {
    Problem::new(OPENRTB_NOTICE_INVALID, why).with("field", field)
}

/// Say that a bid costs
///
/// The `burl` of a bid. It needs no token of a service: the token of the bid shows that this server has made it, or one
/// of `[[pacing.peer]]`, to which it is passed on.
#[utoipa::path(
    get,
    path = "/openrtb/2.6/billing",
    tag = "pacer",
    security(()),
    params(PaidNotice),
    responses((status = 200, description = "What became of it", body = NoticeBody), RoomProblems)
)]
pub async fn billing(
    State(served): State<Served>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    query: InQuery<PaidNotice>,
    (uri, headers): (Uri, HeaderMap),
) -> Result<Response<Body>, Problem> {
    served.paid(query, ChargeOn::Billing, &Came { address, uri, headers }).await
}

/// Say that a bid has won
///
/// The `nurl` of a bid; as `/openrtb/2.6/billing`. Which of both costs, `pacing.openrtb.charge_on` says.
#[utoipa::path(
    get,
    path = "/openrtb/2.6/win",
    tag = "pacer",
    security(()),
    params(PaidNotice),
    responses((status = 200, description = "What became of it", body = NoticeBody), RoomProblems)
)]
pub async fn won(
    State(served): State<Served>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    query: InQuery<PaidNotice>,
    (uri, headers): (Uri, HeaderMap),
) -> Result<Response<Body>, Problem> {
    served.paid(query, ChargeOn::Win, &Came { address, uri, headers }).await
}

/// Say that a bid has lost
///
/// The `lurl` of a bid: what it reserves is free at once, and it can win no more.
#[utoipa::path(
    get,
    path = "/openrtb/2.6/loss",
    tag = "pacer",
    security(()),
    params(LossNotice),
    responses((status = 200, description = "What became of it", body = NoticeBody), RoomProblems)
)]
pub async fn lost(
    State(served): State<Served>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    query: InQuery<LossNotice>,
    (uri, headers): (Uri, HeaderMap),
) -> Result<Response<Body>, Problem> {
    let came = Came { address, uri, headers };
    let outcome = async {
        let notice = notice_of(query)?;
        match notice.token(&served.tokens) {
            Ok(token) => served.outcome(served.issuer().losses([token].into_iter())).await,
            Err(why) => served.outcome_of_unknown(why, (Kind::Losses, &notice.token), &came).await,
        }
    };
    served.noted(outcome.await, &came)
}

/// How a notice came.
struct Came {
    address: IpAddr,
    uri: Uri,
    headers: HeaderMap,
}

impl Served {
    /// A notice that a bid has won or costs.
    async fn paid(&self, query: InQuery<PaidNotice>, kind: ChargeOn, came: &Came) -> Result<Response<Body>, Problem> {
        let outcome = async {
            let notice = notice_of(query)?;
            let (token, bid) = match bid_of(&self.tokens, &notice.token) {
                Ok(known) => known,
                Err(why) => return self.outcome_of_unknown(why, (Kind::Wins, &notice.token), came).await,
            };
            match notice.price(&bid).map_err(wrong)? {
                Some(price) if kind == self.auctions.settings.charge_on => {
                    self.outcome(self.issuer().wins([(token, price)].into_iter())).await
                }
                Some(_) | None => Ok("ignored"),
            }
        };
        self.noted(outcome.await, came)
    }

    /// What becomes of a notice that this server does not take, for this reason. If it has made no such bid, another
    /// one may have.
    async fn outcome_of_unknown(
        &self,
        why: Wrong,
        (kind, token): (Kind, &str),
        came: &Came,
    ) -> Result<&'static str, Problem> {
        if why != TOKEN {
            return Err(wrong(why));
        }
        let asked = came.uri.path_and_query().filter(|_| token_of(token).is_some());
        let elsewhere = match asked {
            Some(asked) => self.outcome_elsewhere(&came.headers, came.address, asked.as_str()).await?,
            None => None,
        };
        if elsewhere.is_none() && !is_of_peer(&came.headers) {
            self.notices.count(kind, NoticeOutcome::TokenInvalid);
        }
        elsewhere.ok_or_else(|| wrong(why))
    }

    /// What becomes of one notice.
    async fn outcome(&self, asked: (Notices, Vec<CampaignRequest>)) -> Result<&'static str, Problem> {
        let judged = self.judge(asked).await?;
        judged.count_unknown(&self.notices);
        match judged.into_outcomes().first() {
            Some(NoticeOutcome::TokenInvalid) | None => Err(wrong(TOKEN)),
            Some(outcome) => Ok(name_of(*outcome)),
        }
    }

    /// The answer to a notice. One of a bid costs its sender nothing, however many there are; one that is wrong, or
    /// comes again, counts among the requests without a token of its address. What a peer has passed on it has counted.
    fn noted(&self, outcome: Result<&'static str, Problem>, came: &Came) -> Result<Response<Body>, Problem> {
        if matches!(outcome, Err(_) | Ok("duplicate")) && !self.is_passed_on(&came.headers) {
            self.door.count_stranger(came.address)?;
        }
        outcome.map(|outcome| json(StatusCode::OK, &NoticeBody { outcome }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_2_has_a_number_behind_its_point() {
        for good in ["2.0", "2.5", "2.6", "2.10", "2.6-202211"] {
            assert!(is_version_2(good.as_bytes()), "{good}");
        }
        for wrong in ["", "2", "2.", "2.x", "2.6 ", "2.6-", "2.-1", "2.6-a", "3.0", "12.6", "2.6.1"] {
            assert!(!is_version_2(wrong.as_bytes()), "{wrong}");
        }
    }
}
