//! Changes of campaigns, as all doors take them: who may make them, which plans are taken, and what is answered.
//!
//! ```text
//!   JSON, or a plan ─▶ right? plan? account? ─▶ Change ─▶ shard, durable ─▶ Changed ─▶ JSON, or a frame
//! ```
//!
//! Promise: the same plan has the same effect and the same answer over HTTP, MQTT and the binary port.

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tidegate_pacer::family::{CampaignRequest, shard_of};
use tidegate_pacer::limits::BY_BYTES_MAX;
use tidegate_pacer::machine::{self, Command, Outcome, Refusal};
use tidegate_pacer::plan::{Fault, Plan, PlanRules};
use tidegate_shard::Unavailable;
use utoipa::ToSchema;

use crate::auth::{Action, Identity};
use crate::json::{Problem, ProblemCode, decode};
use crate::pacer_calls::CAMPAIGNS;
use crate::pacer_json::PlanBody;

pub const CAMPAIGN_NOT_FOUND: ProblemCode = ProblemCode::new(StatusCode::NOT_FOUND, "campaign_not_found");
const CAMPAIGN_ID_INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "campaign_id_invalid");
const CAMPAIGNS_TOO_MANY: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "campaigns_too_many");
const CAMPAIGN_ENDING: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "campaign_ending");
const CAMPAIGN_ACCOUNTS_DIFFER: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "campaign_accounts_differ");
const CAMPAIGN_STALE: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "campaign_version_stale");
const PLAN_INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "campaign_plan_invalid");

/// All that a change may be refused with.
pub const CODES: [ProblemCode; 7] = [
    CAMPAIGN_NOT_FOUND,
    CAMPAIGN_ID_INVALID,
    CAMPAIGNS_TOO_MANY,
    CAMPAIGN_ENDING,
    CAMPAIGN_ACCOUNTS_DIFFER,
    CAMPAIGN_STALE,
    PLAN_INVALID,
];

/// A change that its sender may make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    id: Box<str>,
    /// `None`: it ends.
    plan: Option<Box<Plan>>,
    /// Its sender.
    by: Box<str>,
}

/// A campaign, and what is wanted of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PutBody {
    id: Box<str>,
    plan: PlanBody,
}

/// A campaign that is to end.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndBody {
    id: Box<str>,
}

/// What a change has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The campaign has this plan.
    Put(CampaignPutBody),
    /// It has ended.
    Ended(CampaignEndedBody),
}

/// What a put has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CampaignPutBody {
    /// The campaign's id.
    id: Box<str>,
    /// By which bid requests name it.
    #[schema(value_type = u32, format = "uint32")]
    pub number: u32,
    /// The version of the plan that is in force.
    pub version: u64,
    /// It was made just now. Over HTTP the status says that.
    #[serde(skip)]
    pub is_new: bool,
}

/// A campaign has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CampaignEndedBody {
    /// Its id.
    id: Box<str>,
    /// Nothing more is bid on it.
    ended: bool,
}

/// Bytes of a plan in JSON: more than the longest that is taken needs, however its markup is escaped.
pub const PLAN_BYTES_MAX: usize = 256 << 10;

impl Change {
    /// The campaign is to have this plan. Who may not change it is refused before the plan is read.
    pub fn read_plan(caller: &Identity, id: Box<str>, json: &[u8], rules: &PlanRules) -> Result<Change, Problem> {
        check_right(caller, Action::Write, &id)?;
        check_length(json)?;
        Change::put(caller, id, decode(json)?, rules)
    }

    /// The campaign is to have this plan.
    fn put(caller: &Identity, id: Box<str>, body: PlanBody, rules: &PlanRules) -> Result<Change, Problem> {
        check_right(caller, Action::Write, &id)?;
        if body.has_version_zero() {
            let detail = "version: expected 1 to 4611686018427387904; leave it out for the next one";
            return Err(Problem::new(PLAN_INVALID, detail).with("field", "version"));
        }
        let plan = Plan::from(body);
        if let Err(Fault { field, why }) = rules.check(&plan) {
            return Err(Problem::new(PLAN_INVALID, format!("{field}: {why}")).with("field", field));
        }
        // Who may change this campaign may not therefore spend the money of others, or change their books.
        let of_account = &plan.account[rules.account_prefix.len()..];
        let of_spend = &plan.spend[rules.spend_prefix.len()..];
        for other in [of_account, of_spend].into_iter().filter(|name| *name != &*id) {
            check_right(caller, Action::Write, other)?;
        }
        Ok(Change { id, plan: Some(Box::new(plan)), by: name_of(caller) })
    }

    /// The campaign is to end.
    pub fn end(caller: &Identity, id: Box<str>) -> Result<Change, Problem> {
        check_right(caller, Action::Write, &id)?;
        Ok(Change { id, plan: None, by: name_of(caller) })
    }

    /// Reads `{"id", "plan"}`.
    pub fn read_put(caller: &Identity, json: &[u8], rules: &PlanRules) -> Result<Change, Problem> {
        check_length(json)?;
        let PutBody { id, plan } = decode(json)?;
        Change::put(caller, id, plan, rules)
    }

    /// Reads `{"id"}`.
    pub fn read_end(caller: &Identity, json: &[u8]) -> Result<Change, Problem> {
        let EndBody { id } = decode(json)?;
        Change::end(caller, id)
    }

    /// What is asked, of one of so many shards.
    pub fn request(&self, shards: u16) -> CampaignRequest {
        let (id, by, shard) = (self.id.clone(), self.by.clone(), shard_of(&self.id, shards));
        let command = match &self.plan {
            Some(plan) => Command::Put { id, plan: plan.clone(), by },
            None => Command::Delete { id, by },
        };
        CampaignRequest { shard, command }
    }

    /// What the shard has answered.
    pub fn answer(self, reply: Result<Outcome, Unavailable>) -> Result<Changed, Problem> {
        match reply? {
            Outcome::Refused(refusal) => Err(problem(refusal)),
            Outcome::Done => Ok(Changed::Ended(CampaignEndedBody { id: self.id, ended: true })),
            Outcome::Put { version, change: machine::Change::Stale, .. } => {
                let detail = format!(
                    "a plan of version {version} was put, also if the campaign has ended since; send a higher one, or \
                     none"
                );
                Err(Problem::new(CAMPAIGN_STALE, detail).with("version", version))
            }
            Outcome::Put { number, version, change } => {
                let is_new = change == machine::Change::Made;
                Ok(Changed::Put(CampaignPutBody { id: self.id, number, version, is_new }))
            }
            other => unreachable!("a campaign was to be changed: {other:?}"),
        }
    }
}

impl Changed {
    /// As JSON.
    pub fn body(&self) -> Vec<u8> {
        let body = match self {
            Changed::Put(put) => serde_json::to_vec(put),
            Changed::Ended(ended) => serde_json::to_vec(ended),
        };
        body.expect("ids and numbers can be written")
    }
}

fn check_length(json: &[u8]) -> Result<(), Problem> {
    let bytes = json.len();
    if bytes <= PLAN_BYTES_MAX {
        return Ok(());
    }
    Err(Problem::new(PLAN_INVALID, format!("a plan has at most {PLAN_BYTES_MAX} bytes of JSON, and this one {bytes}")))
}

/// As whom a change names its caller: the first bytes of the name, whole characters.
fn name_of(caller: &Identity) -> Box<str> {
    let name = caller.name();
    let end = (0..=name.len().min(BY_BYTES_MAX)).rev().find(|end| name.is_char_boundary(*end));
    name[..end.expect("a text begins at a boundary")].into()
}

/// Why a shard refuses.
pub fn problem(refusal: Refusal) -> Problem {
    let code = match refusal {
        Refusal::NotFound => CAMPAIGN_NOT_FOUND,
        Refusal::IdInvalid => CAMPAIGN_ID_INVALID,
        Refusal::TooMany | Refusal::TooManyOfOwner => CAMPAIGNS_TOO_MANY,
        Refusal::Ending => CAMPAIGN_ENDING,
        Refusal::AccountsDiffer => CAMPAIGN_ACCOUNTS_DIFFER,
    };
    Problem::new(code, refusal.to_string())
}

/// Whether `caller` may do this with a campaign.
pub fn check_right(caller: &Identity, action: Action, id: &str) -> Result<(), Problem> {
    if caller.may(CAMPAIGNS, action, id) {
        return Ok(());
    }
    caller.denied();
    Err(Problem::forbidden(match action {
        Action::Read => "this token may not look at this campaign; a service may with \"room:campaigns:read:ID\"",
        _ => "this token may not change this campaign; a service may with \"room:campaigns:write:ID\"",
    }))
}
