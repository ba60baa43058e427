//! Changes of campaigns by PUBLISH.
//!
//! ```text
//!   PUBLISH $pacer/campaigns/put {"id", "plan"} ─▶ Change ─▶ shard, durable ─▶ JSON ─▶ response topic, PUBACK
//!           $pacer/campaigns/end {"id"}                          as PUT and DELETE /v1/campaigns/{id}
//! ```
//!
//! Promise: what is acknowledged with success is decided and durable.

use slab::Slab;
use tidegate_broker::{ReasonCode, RequestTicket};
use tidegate_pacer::family::{CampaignClient, CampaignMessage};
use tidegate_pacer::plan::PlanRules;
use tidegate_runtime::{Address, Asker, Carries, Context};

use crate::auth::Identity;
use crate::json::Problem;
use crate::ledger_topics::reason_of;
use crate::pacer_changes::Change;
use crate::topic_names::{CAMPAIGN_END, CAMPAIGN_PUT, CAMPAIGN_REQUESTS};

/// What was published there is answered here. A place in this list, behind those of the ledger, is a request topic.
pub const PACER_TOPICS: [&str; CAMPAIGN_REQUESTS.len()] = CAMPAIGN_REQUESTS;

/// An answer to a publication.
pub struct PacerAnswer {
    /// To which.
    pub ticket: RequestTicket,
    /// What became of it.
    pub answer: Result<Vec<u8>, Problem>,
}

/// Campaigns, for the broker of one worker.
pub struct PacerTopics {
    rules: PlanRules,
    asker: Asker<CampaignClient>,
    asked: Slab<(RequestTicket, Change)>,
}

impl PacerTopics {
    /// For the port at `me`, which asks the shards of campaigns by `client`.
    pub fn new(me: Address, client: CampaignClient, rules: PlanRules) -> PacerTopics {
        PacerTopics { rules, asker: Asker::new(me, client), asked: Slab::new() }
    }

    /// Whether another request may start.
    pub fn has_room(&self) -> bool {
        self.asker.has_room()
    }

    /// Something was published on one of [`PACER_TOPICS`]. `Some` when the answer is there at once.
    pub fn request(
        &mut self,
        topic: usize,
        ticket: RequestTicket,
        identity: Option<&Identity>,
        payload: &[u8],
    ) -> Option<PacerAnswer> {
        match self.read(PACER_TOPICS[topic], identity, payload) {
            Ok(change) => {
                let request = change.request(self.asker.client().shards());
                let token = self.asked.insert((ticket, change));
                self.asker.start(token as u64, request);
                None
            }
            Err(problem) => Some(PacerAnswer { ticket, answer: Err(problem) }),
        }
    }

    fn read(&self, topic: &str, identity: Option<&Identity>, payload: &[u8]) -> Result<Change, Problem> {
        let identity = identity.ok_or_else(|| Problem::forbidden("an anonymous client may not change campaigns"))?;
        identity.arrive().map_err(Problem::from)?;
        match topic {
            CAMPAIGN_PUT => Change::read_put(identity, payload, &self.rules),
            CAMPAIGN_END => Change::read_end(identity, payload),
            other => unreachable!("{other} is listed and has no answer"),
        }
    }

    /// A message of a shard.
    pub fn deliver(&mut self, from: Address, message: CampaignMessage) {
        self.asker.deliver(from, message);
    }

    /// The answers that have come.
    pub fn take_answers(&mut self) -> Vec<PacerAnswer> {
        let replies = self.asker.take_replies();
        let answers = replies.into_iter().map(|(token, reply)| {
            let (ticket, change) = self.asked.remove(token as usize);
            PacerAnswer { ticket, answer: change.answer(reply).map(|changed| changed.body()) }
        });
        answers.collect()
    }

    /// Sends what the shards are asked.
    pub fn send<P: Carries<CampaignMessage>>(&mut self, context: &mut Context<'_, P>) {
        self.asker.send(context);
    }

    /// Whether nothing is under way.
    pub fn is_quiet(&self) -> bool {
        self.asked.is_empty()
    }
}

impl PacerAnswer {
    /// What is published on the response topic, and what the acknowledgement says.
    pub fn said(&self) -> (Vec<u8>, ReasonCode) {
        match &self.answer {
            Ok(body) => (body.clone(), ReasonCode::SUCCESS),
            Err(problem) => (problem.body(), reason_of(problem)),
        }
    }
}
