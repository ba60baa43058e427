//! The pacer behind the HTTP door.
//!
//! ```text
//!   PUT /v1/campaigns/{id}    a plan         GET /v1/campaigns/{id}    plan, spending, throttle, reasons
//!   GET /v1/campaigns         pages          DELETE …                  it ends
//!   POST /v1/bids             requests       POST /v1/wins             tokens and prices
//!                                            POST /v1/losses           tokens
//!   /pacing                   the page on which campaigns are seen
//!   POST /openrtb/2.6/bids    auctions       GET /openrtb/2.6/billing, /win, /loss    notices
//! ```

mod bids;
mod campaigns;
mod elsewhere;
mod openrtb;
mod page;

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use axum::routing::{get, post};
use tidegate_machines::ShardIndex;
use tidegate_pacer::bidders::BidderClient;
use tidegate_pacer::family::{CampaignClient, CampaignRequest};
use tidegate_pacer::keeper::LiveTable;
use tidegate_pacer::machine::{Command, Outcome};
use tidegate_pacer::token::TokenKey;
use tidegate_runtime::pump::EdgeHandle;
use utoipa::OpenApi;

use crate::http::{Door, HttpRoom, Routes};
use crate::json::{Problem, ProblemCode};
use crate::pacer_changes::{self, Change, Changed};
use crate::pacer_notices::NoticeMetrics;
use crate::pacer_peers::NoticePeers;

pub use openrtb::Auctions;
pub use tidegate_pacer::plan::PlanRules;

/// The pacer at the door of one edge thread, before it opens.
pub struct PacerHttp {
    /// Asks the shards of campaigns.
    pub campaigns: EdgeHandle<CampaignClient>,
    /// Asks bidders.
    pub bidders: EdgeHandle<BidderClient>,
    /// How many shards there are.
    pub shards: u16,
    /// Knows tokens of bids.
    pub tokens: TokenKey,
    /// How campaigns are.
    pub live: LiveTable,
    /// Which plans are taken.
    pub rules: PlanRules,
    /// Counts what becomes of notices.
    pub notices: NoticeMetrics,
    /// Other servers that may have made the bid of a notice, if there are some.
    pub peers: Option<NoticePeers>,
    /// What auctions of OpenRTB need.
    pub auctions: Auctions,
}

/// What handlers share.
#[derive(Clone)]
struct Served {
    door: Door,
    campaigns: EdgeHandle<CampaignClient>,
    bidders: EdgeHandle<BidderClient>,
    shards: u16,
    tokens: TokenKey,
    live: LiveTable,
    rules: PlanRules,
    notices: NoticeMetrics,
    peers: Option<Arc<NoticePeers>>,
    auctions: Arc<Auctions>,
}

#[derive(OpenApi)]
#[openapi(
    info(
        description = "The pacer spreads the money of campaigns over their time. A campaign's money is an account of \
                        the ledger; it is leased to bidders for about a second at a time, so that no campaign spends \
                        more than it has. Who makes and changes campaigns needs the grant `room:campaigns:write:ID`, \
                        who looks at them `room:campaigns:read:ID`, who bids `room:pacer:write:bids`. Money is in \
                        micros, millionths of the account's unit; a price is for one impression."
    ),
    paths(
        campaigns::list_campaigns,
        campaigns::read_campaign,
        campaigns::put_campaign,
        campaigns::delete_campaign,
        bids::bid,
        bids::win,
        bids::lose,
        openrtb::auction,
        openrtb::billing,
        openrtb::won,
        openrtb::lost,
    )
)]
struct Document;

impl HttpRoom for PacerHttp {
    fn name(&self) -> &'static str {
        "pacer"
    }

    fn openapi(&self) -> utoipa::openapi::OpenApi {
        Document::openapi()
    }

    fn codes(&self) -> Vec<ProblemCode> {
        [&CODES[..], &pacer_changes::CODES[..]].concat()
    }

    fn routes(self: Box<Self>, door: &Door) -> Routes {
        let PacerHttp { campaigns, bidders, shards, tokens, live, rules, notices, peers, auctions } = *self;
        let page = page::routes(Routes::new(), door);
        let (door, peers, auctions) = (door.clone(), peers.map(Arc::new), Arc::new(auctions));
        let served = Served { door, campaigns, bidders, shards, tokens, live, rules, notices, peers, auctions };
        let campaign = get(campaigns::read_campaign)
            .put(campaigns::put_campaign)
            .delete(campaigns::delete_campaign)
            .with_state(served.clone());
        page.route("/v1/campaigns", get(campaigns::list_campaigns).with_state(served.clone()))
            .route("/v1/campaigns/{id}", campaign)
            .route("/v1/bids", post(bids::bid).with_state(served.clone()))
            .route("/v1/wins", post(bids::win).with_state(served.clone()))
            .route("/v1/losses", post(bids::lose).with_state(served.clone()))
            .route("/openrtb/2.6/billing", get(openrtb::billing).head(get_alone).with_state(served.clone()))
            .route("/openrtb/2.6/win", get(openrtb::won).head(get_alone).with_state(served.clone()))
            .route("/openrtb/2.6/loss", get(openrtb::lost).head(get_alone).with_state(served.clone()))
            .route(openrtb::BIDS_PATH, post(openrtb::auction).with_state(served.clone()))
            .hot(Method::POST, openrtb::BIDS_PATH, move |head, body| {
                let served = served.clone();
                Box::pin(async move { openrtb::answer(&served, &head, body).await })
            })
    }
}

/// For paths where a request has effects that who sends HEAD, to look whether a link is alive, does not want.
async fn get_alone() -> Problem {
    Problem::method_not_allowed().allowing("GET")
}

const BIDS_INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "bids_invalid");

/// A server that may have made the bid of a notice does not answer.
const PEER_UNAVAILABLE: ProblemCode = ProblemCode::new(StatusCode::SERVICE_UNAVAILABLE, "pacer_peer_unavailable");

const OPENRTB_VERSION_UNSUPPORTED: ProblemCode =
    ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "openrtb_version_unsupported");
const OPENRTB_NOTICE_INVALID: ProblemCode =
    ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "openrtb_notice_invalid");

/// What else is said here than changes are refused with.
const CODES: [ProblemCode; 4] = [BIDS_INVALID, PEER_UNAVAILABLE, OPENRTB_VERSION_UNSUPPORTED, OPENRTB_NOTICE_INVALID];

impl Served {
    /// Makes a change.
    async fn change(&self, change: Change) -> Result<Changed, Problem> {
        let reply = self.door.in_time(self.campaigns.ask(change.request(self.shards))).await?;
        change.answer(reply.unwrap_or_else(|unasked| Err(unasked.into())))
    }

    /// Asks a shard, and gives the outcome that is no refusal.
    async fn ask(&self, shard: ShardIndex, command: Command) -> Result<Outcome, Problem> {
        let asked = self.campaigns.ask(CampaignRequest { shard, command });
        let reply = self.door.in_time(asked).await?;
        match reply.unwrap_or_else(|unasked| Err(unasked.into()))? {
            Outcome::Refused(refusal) => Err(pacer_changes::problem(refusal)),
            outcome => Ok(outcome),
        }
    }

    fn all_shards(&self) -> impl Iterator<Item = ShardIndex> + use<> {
        (0..self.shards).map(ShardIndex)
    }
}
