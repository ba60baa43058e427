//! The pacer at the doors of a node.

use std::sync::Arc;

use tidegate_pacer::bidder::Bidder;
use tidegate_pacer::bidders::{BidderClient, BidderMessage};
use tidegate_pacer::family::{CAMPAIGNS, CampaignClient, CampaignMessage};
use tidegate_pacer::frequency::FrequencyTable;
use tidegate_pacer::keeper::LiveTable;
use tidegate_pacer::room::{bidders_of, tokens_of};
use tidegate_runtime::Carries;

use crate::binary::frames::OpenFrames;
use crate::http_room::OpenHttpRoom;
use crate::pacer_frames::PacerFrames;
use crate::pacer_http::PacerHttp;

pub use crate::pacer_http::PlanRules;

/// The port that has the bidders inside.
pub const BIDDERS_PORT: u16 = 0;

/// The bidders, on the binary port.
///
/// One of `sampled` requests is recorded; of 0, none.
pub fn open_pacer_frames<P>(users: Arc<FrequencyTable>, sampled: u32) -> OpenFrames<P>
where
    P: Carries<CampaignMessage> + Carries<BidderMessage>,
{
    Box::new(move |site, me| {
        let shards = site.placement().shards(CAMPAIGNS);
        let tokens = tokens_of(site);
        let bidder = Bidder::new(tokens.clone(), users.clone()).sampling(sampled);
        let count = shards.count();
        Box::new(PacerFrames::new(me, bidder, tokens, CampaignClient::new(shards), count))
    })
}

/// Campaigns, bids and wins at the HTTP door.
pub fn open_pacer<P>(live: LiveTable, rules: PlanRules) -> OpenHttpRoom<P>
where
    P: Carries<CampaignMessage> + Carries<BidderMessage>,
{
    Box::new(move |site, pump| {
        let shards = site.placement().shards(CAMPAIGNS);
        let count = shards.count();
        let bidders = bidders_of(site, BIDDERS_PORT);
        Box::new(PacerHttp {
            campaigns: pump.client(|_| CampaignClient::new(shards)),
            bidders: pump.client(|_| BidderClient::new(bidders)),
            shards: count,
            tokens: tokens_of(site),
            live: live.clone(),
            rules: rules.clone(),
        })
    })
}
