//! The pacer on the binary port: the bidder of a worker lives inside of the port, so that a packet of bid requests is
//! answered where it is read, without a message and without an allocation.
//!
//! ```text
//!   BidRequests  ─▶ Bidder::bid, one after the other ─▶ Bids, straight into the connection's outbox
//!   Wins, Losses ─▶ tokens are checked ─▶ the shards of their leases ─▶ durable ─▶ NoticeOutcomes
//!   BidderMessage of the pacer's thread, or of another door ─▶ Bidder ─▶ answer
//! ```
//!
//! Promise: a win or a loss that was answered as taken is durable.

use bytes::Bytes;
use slab::Slab;
use tidegate_machines::TimeMs;
use tidegate_pacer::bidder::{BidRequest, Bidder, NoBid};
use tidegate_pacer::bidders::BidderMessage;
use tidegate_pacer::family::{CampaignClient, CampaignMessage, CampaignRequest};
use tidegate_pacer::machine::Outcome;
use tidegate_pacer::plan::PlanRules;
use tidegate_pacer::token::TokenKey;
use tidegate_pacer::units::PriceMicros;
use tidegate_runtime::{Address, Asker, Carries, Context};
use tidegate_shard::Unavailable;
use tidegate_wire::DecodeError;
use tidegate_wire::pacer::{
    BidRequestRef, BidRequests, BidsWriter, NoBidReason, NoticeOutcome, PacerRequestRef, PutCampaignRef, asks_for_bids,
    read_request,
};

use crate::auth::{Action, Identity};
use crate::binary::Refused;
use crate::binary::frames::{Answers, BYTES_PER_WORK_OF_DECODING, Frames, PACER_FAMILY, RoomCost};
use crate::json::Problem;
use crate::pacer_calls::BIDS;
use crate::pacer_changes::{Change, Changed};
use crate::pacer_notices::{Issuer, NoticeMetrics, Notices};

/// Bid requests or notices whose answers are as much work of the port as a frame.
const BIDS_PER_WORK: usize = 4;
/// Work of a change of a campaign: its plan is read here, and its shard and each worker's bidder take it over. Whoever
/// changes many makes others wait for one of them, and not for all.
const WORK_OF_CHANGE: usize = 16;
/// Bytes of a plan that count as one request more of its sender: they go into a journal.
const PLAN_BYTES_PER_REQUEST: usize = 4 << 10;

/// The pacer, for the clients of one worker's binary port.
pub struct PacerFrames {
    bidder: Bidder,
    tokens: TokenKey,
    asker: Asker<CampaignClient>,
    /// Packets of notices under way.
    packets: Slab<Packet>,
    asked: Slab<Asked>,
    /// Which plans are taken.
    rules: PlanRules,
    answers: Answers,
    metrics: NoticeMetrics,
    /// Answers to messages.
    out: Vec<(Address, BidderMessage)>,
}

/// What a shard was asked.
enum Asked {
    /// What becomes of notices: of which packet, and the how-manieth of its shards this is.
    Notices(usize, usize),
    /// To change a campaign, for a frame.
    Change(u64, Change),
}

/// Notices of one frame.
struct Packet {
    token: u64,
    notices: Notices,
    failed: Option<Unavailable>,
}

impl PacerFrames {
    /// With this bidder inside, and whoever asks the shards for it; tokens are signed by `tokens`.
    pub fn new(
        bidder: Bidder,
        tokens: TokenKey,
        asker: Asker<CampaignClient>,
        rules: PlanRules,
        metrics: NoticeMetrics,
    ) -> PacerFrames {
        PacerFrames {
            bidder,
            tokens,
            rules,
            metrics,
            asker,
            packets: Slab::new(),
            asked: Slab::new(),
            answers: Vec::new(),
            out: Vec::new(),
        }
    }

    fn bids(&mut self, correlation: u64, requests: BidRequests<'_>, outbox: &mut Vec<u8>) -> RoomCost {
        let work = requests.len() / BIDS_PER_WORK;
        let mut frame = BidsWriter::begin(outbox, correlation);
        for request in requests {
            match self.bidder.bid(&asked(&request)) {
                Ok(offer) => frame.bid(offer.price.0, &offer.token),
                Err(why) => frame.no_bid(reason(why)),
            }
        }
        frame.finish();
        RoomCost { bytes: 0, work }
    }

    /// Asks the shards what becomes of notices.
    fn judge(&mut self, token: u64, (notices, asked): (Notices, Vec<CampaignRequest>)) {
        let packet = Packet { token, notices, failed: None };
        if asked.is_empty() {
            return self.answer(packet);
        }
        let number = self.packets.insert(packet);
        for (of_packet, request) in asked.into_iter().enumerate() {
            let asked = self.asked.insert(Asked::Notices(number, of_packet));
            self.asker.start(asked as u64, request);
        }
    }

    /// Asks the shard of a campaign to change it.
    fn change(&mut self, token: u64, change: Change) {
        let request = change.request(self.asker.client().shards());
        let asked = self.asked.insert(Asked::Change(token, change));
        self.asker.start(asked as u64, request);
    }

    fn take_replies(&mut self) {
        for (asked, reply) in self.asker.take_replies() {
            match self.asked.remove(asked as usize) {
                Asked::Notices(number, of_packet) => self.judged(number, of_packet, reply),
                Asked::Change(token, change) => {
                    let answer = change.answer(reply).map(|changed| told(&changed));
                    self.answers.push((token, answer.map_err(Refused::from)));
                }
            }
        }
    }

    fn judged(&mut self, number: usize, of_packet: usize, reply: Result<Outcome, Unavailable>) {
        let packet = &mut self.packets[number];
        match reply {
            Ok(outcome) => packet.notices.judged(of_packet, outcome),
            Err(unavailable) => {
                packet.notices.failed();
                packet.failed = Some(unavailable);
            }
        }
        if packet.notices.is_whole() {
            let packet = self.packets.remove(number);
            self.answer(packet);
        }
    }

    fn answer(&mut self, Packet { token, notices, failed }: Packet) {
        let answer = match failed {
            // Which of them count is unknown: they are to be sent again, and count once.
            Some(why) => Err(Problem::from(why).into()),
            None => {
                let judged = notices.into_judged();
                judged.count_own(&self.metrics);
                judged.count_unknown(&self.metrics);
                Ok(written(&judged.into_outcomes()))
            }
        };
        self.answers.push((token, answer));
    }
}

fn asked(request: &BidRequestRef) -> BidRequest {
    let BidRequestRef { id, campaign, user, key, price_micros } = *request;
    BidRequest { id, campaign, user, key, price: PriceMicros(price_micros) }
}

fn reason(why: NoBid) -> NoBidReason {
    match why {
        NoBid::CampaignUnknown => NoBidReason::CampaignUnknown,
        NoBid::NotInFlight => NoBidReason::NotInFlight,
        NoBid::NotTargeted => NoBidReason::NotTargeted,
        NoBid::Throttled => NoBidReason::Throttled,
        NoBid::FrequencyCapped => NoBidReason::FrequencyCapped,
        NoBid::NoLease => NoBidReason::NoLease,
        NoBid::PriceAboveCap => NoBidReason::PriceAboveCap,
    }
}

/// The body of an answer to notices.
fn written(outcomes: &[NoticeOutcome]) -> Vec<u8> {
    use prost::Message as _;
    use tidegate_wire::pacer::proto::{NoticeOutcomes, PacerReply, pacer_reply::Reply};
    let outcomes = outcomes.iter().map(|outcome| *outcome as i32).collect();
    PacerReply { reply: Some(Reply::Outcomes(NoticeOutcomes { outcomes })) }.encode_to_vec()
}

/// The body of an answer to a change.
fn told(changed: &Changed) -> Vec<u8> {
    use prost::Message as _;
    use tidegate_wire::pacer::proto::{CampaignEnded, CampaignPut, PacerReply, pacer_reply::Reply};
    let reply = match changed {
        Changed::Put(put) => {
            Reply::CampaignPut(CampaignPut { number: put.number, version: put.version, is_new: put.is_new })
        }
        Changed::Ended(_) => Reply::CampaignEnded(CampaignEnded {}),
    };
    PacerReply { reply: Some(reply) }.encode_to_vec()
}

fn bids_of(body: &[u8]) -> Result<BidRequests<'_>, Refused> {
    match read_request(body).map_err(malformed)? {
        PacerRequestRef::Bids(requests) => Ok(requests),
        other => unreachable!("bids were asked for: {other:?}"),
    }
}

fn malformed(error: DecodeError) -> Refused {
    Refused::new("frame_malformed", error.to_string())
}

fn check_right(identity: &Identity) -> Result<(), Refused> {
    if identity.may(BIDS, Action::Write, "bids") {
        return Ok(());
    }
    identity.denied();
    let detail = "this token may not bid; a service may with the grant \"room:pacer:write:bids\"";
    Err(Refused::new("forbidden", detail))
}

impl<P> Frames<P> for PacerFrames
where
    P: Carries<CampaignMessage> + Carries<BidderMessage>,
{
    fn family(&self) -> u32 {
        PACER_FAMILY
    }

    fn begin_turn(&mut self, now: TimeMs) {
        self.bidder.set_time(now);
    }

    fn answers(&self, body: &[u8]) -> bool {
        asks_for_bids(body)
    }

    fn answer(
        &mut self,
        correlation: u64,
        identity: &Identity,
        body: &[u8],
        outbox: &mut Vec<u8>,
    ) -> Result<RoomCost, Refused> {
        let requests = bids_of(body)?;
        check_right(identity)?;
        identity.charge(requests.len() as u32 - 1);
        Ok(self.bids(correlation, requests, outbox))
    }

    fn has_room(&self) -> bool {
        self.asker.has_room()
    }

    fn ask(&mut self, token: u64, identity: &Identity, body: &Bytes) -> Result<RoomCost, Refused> {
        let request = read_request(body).map_err(malformed)?;
        let shards = self.asker.client().shards();
        let issuer = Issuer { tokens: &self.tokens, shards, now: self.bidder.time() };
        let (count, notices) = match request {
            PacerRequestRef::Wins(wins) => {
                check_right(identity)?;
                let count = wins.len();
                (count, issuer.wins(wins.map(|win| (win.token, PriceMicros(win.price_micros)))))
            }
            PacerRequestRef::Losses(tokens) => {
                check_right(identity)?;
                (tokens.len(), issuer.losses(tokens))
            }
            PacerRequestRef::PutCampaign(PutCampaignRef { id, plan }) => {
                let change = Change::read_plan(identity, id.into(), plan, &self.rules)?;
                identity.charge((plan.len() / PLAN_BYTES_PER_REQUEST) as u32);
                self.change(token, change);
                return Ok(RoomCost { bytes: 0, work: WORK_OF_CHANGE + plan.len() / BYTES_PER_WORK_OF_DECODING });
            }
            PacerRequestRef::EndCampaign(id) => {
                let change = Change::end(identity, id.into())?;
                self.change(token, change);
                return Ok(RoomCost { bytes: 0, work: WORK_OF_CHANGE });
            }
            PacerRequestRef::Bids(_) => unreachable!("bids are answered, not asked"),
        };
        identity.charge(count as u32 - 1);
        self.judge(token, notices);
        Ok(RoomCost { bytes: 0, work: count / BIDS_PER_WORK })
    }

    fn deliver(&mut self, from: Address, body: P) -> Result<(), P> {
        let body = match <P as Carries<BidderMessage>>::unpack(body) {
            Ok(BidderMessage::Ask { number, ask }) => {
                let answer = self.bidder.answer(ask);
                self.out.push((from, BidderMessage::Answer { number, answer }));
                return Ok(());
            }
            Ok(BidderMessage::Answer { .. }) => unreachable!("a bidder asks nobody"),
            Err(body) => body,
        };
        self.asker.deliver(from, <P as Carries<CampaignMessage>>::unpack(body)?);
        Ok(())
    }

    fn give_up(&mut self, _is_of_ended: &dyn Fn(u64) -> bool) {
        // Notices wait for nobody but the disk, and count whether their client is there or not.
    }

    fn take_answers(&mut self, _client_of: &mut dyn FnMut(u64) -> Option<Identity>) -> Answers {
        self.take_replies();
        std::mem::take(&mut self.answers)
    }

    fn send(&mut self, context: &mut Context<'_, P>) {
        self.asker.send(context);
        for (to, message) in self.out.drain(..) {
            context.send(to, P::pack(message));
        }
    }
}
