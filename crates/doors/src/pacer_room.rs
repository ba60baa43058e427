//! The pacer at the doors of a node.

use std::sync::Arc;

use tidegate_pacer::bidder::Bidder;
use tidegate_pacer::bidders::{BidderClient, BidderMessage, EdgeBidder};
use tidegate_pacer::family::{CAMPAIGNS, CampaignClient, CampaignMessage};
use tidegate_pacer::frequency::FrequencyTable;
use tidegate_pacer::room::{Shared, bidders_of, tokens_of};
use tidegate_runtime::{Asker, Carries};

use crate::binary::frames::OpenFrames;
use crate::http_room::OpenHttpRoom;
use crate::openrtb::settings::OpenRtbSettings;
use crate::pacer_frames::PacerFrames;
use crate::pacer_http::{Auctions, PacerHttp};
use crate::pacer_peers::NoticePeers;

pub use crate::pacer_http::PlanRules;
pub use crate::pacer_notices::NoticeMetrics;
pub use crate::pacer_peers::{AskPeers, OF_PEER, PeerAnswer, PeerAnswers, PeerAsk};

/// The port that has the bidders inside.
pub const BIDDERS_PORT: u16 = 0;

/// The bidders, on the binary port.
///
/// One of `sampled` requests is recorded; of 0, none.
pub fn open_pacer_frames<P>(users: Arc<FrequencyTable>, rules: PlanRules, sampled: u32) -> OpenFrames<P>
where
    P: Carries<CampaignMessage> + Carries<BidderMessage>,
{
    Box::new(move |site, me| {
        let shards = site.placement().shards(CAMPAIGNS);
        let tokens = tokens_of(site);
        let bidder = Bidder::new(tokens.clone(), users.clone()).sampling(sampled);
        let asker = Asker::new(me, CampaignClient::new(shards));
        let metrics = NoticeMetrics::register(site.registry());
        Box::new(PacerFrames::new(bidder, tokens, asker, rules.clone(), metrics))
    })
}

/// Opens what asks the peers, for one edge thread.
pub type OpenPeers = Box<dyn Fn() -> Box<dyn AskPeers> + Send>;

/// What the pacer at the HTTP door is told.
pub struct PacerDoor {
    /// What it shares with the pacer's thread.
    pub shared: Shared,
    /// Which plans are taken.
    pub rules: PlanRules,
    /// One of so many requests is recorded; of 0, none.
    pub sampled: u32,
    /// Other servers that may have made the bid of a notice, anew for each edge thread; `None` if there are none.
    pub peers: Option<OpenPeers>,
    /// How notices of OpenRTB come back.
    pub openrtb: OpenRtbSettings,
    /// How long after its bid a win counts.
    pub win_deadline_ms: u64,
}

/// Campaigns, bids, auctions and wins at the HTTP door.
pub fn open_pacer<P>(door: PacerDoor) -> OpenHttpRoom<P>
where
    P: Carries<CampaignMessage> + Carries<BidderMessage>,
{
    Box::new(move |site, pump| {
        let shards = site.placement().shards(CAMPAIGNS);
        let count = shards.count();
        let bidders = bidders_of(site, BIDDERS_PORT);
        let tokens = tokens_of(site);
        let bidder = Bidder::new(tokens.clone(), door.shared.users.clone()).sampling(door.sampled);
        let bidder = EdgeBidder::new(bidder, site.clock().clone());
        door.shared.edges.lock().expect("nobody panics with it").push(bidder.clone());
        let settings = door.openrtb.clone();
        Box::new(PacerHttp {
            campaigns: pump.client(|_| CampaignClient::new(shards)),
            bidders: pump.client(|_| BidderClient::new(bidders)),
            shards: count,
            tokens,
            live: door.shared.live.clone(),
            rules: door.rules.clone(),
            notices: NoticeMetrics::register(site.registry()),
            peers: door.peers.as_ref().map(|open| NoticePeers::new(open())),
            auctions: Auctions { bidder, settings, win_deadline_ms: door.win_deadline_ms },
        })
    })
}
