//! Campaigns: make, change, look at, end.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_machines::ShardIndex;
use tidegate_pacer::control::Live;
use tidegate_pacer::family::shard_of;
use tidegate_pacer::machine::{CampaignView, Command, Outcome};
use utoipa::{IntoParams, ToSchema};

use super::Served;
use crate::auth::{Action, Identity};
use crate::http::{InQuery, PathName, RoomBodyProblems, RoomProblems, query_problem};
use crate::json::{Problem, codes, json};
use crate::pacer_calls::CAMPAIGNS;
use crate::pacer_changes::{CAMPAIGN_NOT_FOUND, CampaignEndedBody, CampaignPutBody, Change, Changed, check_right};
use crate::pacer_json::{CampaignBody, PlanBody};

/// Campaigns of one page.
const ROWS_MAX: u32 = 1_000;
const ROWS_DEFAULT: u32 = 100;
/// Campaigns of one page with curves, each of which is some 4 KB.
const CURVES_MAX: u32 = 100;
/// Campaigns that a shard is asked for at once: its other callers wait for so many.
const ROWS_AT_ONCE: usize = 100;
/// Bytes of plans with which a page ends, whatever its limit: an equal part for each shard.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Which campaigns.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct CampaignPage {
    /// Only what comes after this: the `next` of the page before.
    after: Option<String>,
    /// At most so many, 1 to 1,000; 100 if absent. A page of large plans has fewer: the last page is the one without
    /// `next`.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only those whose ids begin so.
    prefix: Option<String>,
    /// Also the day's curve of each: what was spent and planned by when. A page then has 100 campaigns at most.
    curve: bool,
}

/// What of a campaign.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct CampaignQuery {
    /// Also its day's curve: what was spent and planned by when.
    curve: bool,
}

/// A page of campaigns.
#[derive(Serialize, ToSchema)]
pub struct CampaignsBody {
    /// By their ids.
    campaigns: Vec<CampaignBody>,
    /// The `after` of the next page; absent if this is the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    next: Option<Box<str>>,
}

/// List campaigns
///
/// Those that the caller may look at.
#[utoipa::path(
    get,
    path = "/v1/campaigns",
    tag = "pacer",
    params(CampaignPage),
    responses((status = 200, description = "A page", body = CampaignsBody), RoomProblems)
)]
pub async fn list_campaigns(
    State(served): State<Served>,
    query: InQuery<CampaignPage>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    let page = query.map(|query| query.0).map_err(|error| query_problem(&error, ROWS_MAX))?;
    let limit = page.limit.unwrap_or(ROWS_DEFAULT);
    if !(1..=ROWS_MAX).contains(&limit) {
        let detail = format!("limit: expected 1 to {ROWS_MAX}");
        return Err(Problem::new(codes::QUERY_INVALID, detail).with("field", "limit"));
    }
    let limit = if page.curve { limit.min(CURVES_MAX) } else { limit } as usize;
    let Found { campaigns: mut found, up_to } = served.find(&caller, &page, limit).await?;
    found.sort_by(|one, other| one.id.cmp(&other.id));
    // What comes behind may be in a shard that has told no more.
    if let Some(up_to) = &up_to {
        found.retain(|view| view.id <= *up_to);
    }
    let has_more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().map(|last| last.id.clone());
    let next = if has_more { last } else { up_to };
    let pace: Vec<Option<Live>> = {
        let live = served.live.read().expect("nobody panics with it");
        found.iter().map(|view| live.get(&view.number).cloned()).collect()
    };
    let campaigns = found.into_iter().zip(&pace);
    let campaigns = campaigns.map(|(view, pace)| CampaignBody::new(view, pace.as_ref(), page.curve));
    Ok(json(StatusCode::OK, &CampaignsBody { campaigns: campaigns.collect(), next }))
}

/// What was found of a page.
struct Found {
    campaigns: Vec<CampaignView>,
    /// All up to this one; `None` if all of the page.
    up_to: Option<Box<str>>,
}

impl Served {
    /// Of each shard the first campaigns of the page that `caller` may look at, one more than the limit at least if
    /// there are so many, and they are not too large.
    async fn find(&self, caller: &Identity, page: &CampaignPage, limit: usize) -> Result<Found, Problem> {
        let prefix = page.prefix.as_deref().unwrap_or_default();
        let is_wanted = |id: &str| id.starts_with(prefix) && caller.may(CAMPAIGNS, Action::Read, id);
        let after = page.after.as_deref().unwrap_or_default();
        let (mut found, mut up_to): (Vec<CampaignView>, Option<Box<str>>) = (Vec::new(), None);
        if !prefix.is_empty() && after < prefix {
            // All others that begin so come behind it.
            let read = Command::Read { id: prefix.into() };
            match self.ask_for_one(shard_of(prefix, self.shards), read).await? {
                Some(view) if is_wanted(&view.id) => found.push(view),
                _ => {}
            }
        }
        let bytes_max = PAGE_BYTES_MAX / usize::from(self.shards).max(1);
        for shard in self.all_shards() {
            let mut after: Box<str> = after.max(prefix).into();
            let (mut of_shard, mut bytes) = (0, 0);
            loop {
                let listed = self.ask(shard, Command::List { after, limit: ROWS_AT_ONCE.min(limit + 1) }).await?;
                let Outcome::Campaigns(campaigns, next) = listed else { unreachable!("campaigns were asked for") };
                for campaign in campaigns.into_iter().filter(|campaign| is_wanted(&campaign.id)) {
                    (of_shard, bytes) = (of_shard + 1, bytes + campaign.plan.bytes());
                    found.push(campaign);
                }
                match next {
                    Some(next) if of_shard > limit || !next.starts_with(prefix) => break,
                    Some(_) if bytes > bytes_max => {
                        // Not what the shard says comes next, which the caller may not know.
                        let last = found.last().expect("bytes are of what was found").id.clone();
                        up_to = Some(up_to.map_or(last.clone(), |up_to| up_to.min(last)));
                        break;
                    }
                    Some(next) => after = next,
                    None => break,
                }
            }
        }
        Ok(Found { campaigns: found, up_to })
    }

    async fn ask_for_one(&self, shard: ShardIndex, read: Command) -> Result<Option<CampaignView>, Problem> {
        match self.ask(shard, read).await {
            Ok(Outcome::Campaign(view)) => Ok(Some(*view)),
            Ok(_) => unreachable!("a campaign was asked for"),
            Err(problem) if problem.code() == CAMPAIGN_NOT_FOUND => Ok(None),
            Err(problem) => Err(problem),
        }
    }
}

/// Look at a campaign
#[utoipa::path(
    get,
    path = "/v1/campaigns/{id}",
    tag = "pacer",
    params(
        ("id" = inline(String), Path, description = "Campaign", example = "shoes", min_length = 1, max_length = 64),
        CampaignQuery,
    ),
    responses((status = 200, description = "Plan, spending, pace", body = CampaignBody), RoomProblems)
)]
pub async fn read_campaign(
    State(served): State<Served>,
    PathName(id): PathName,
    query: InQuery<CampaignQuery>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    check_right(&caller, Action::Read, &id)?;
    let CampaignQuery { curve } = query.map(|query| query.0).map_err(|error| query_problem(&error, ROWS_MAX))?;
    let shard = shard_of(&id, served.shards);
    let Outcome::Campaign(view) = served.ask(shard, Command::Read { id }).await? else {
        unreachable!("a campaign was asked for")
    };
    let pace = served.live.read().expect("nobody panics with it").get(&view.number).cloned();
    Ok(json(StatusCode::OK, &CampaignBody::new(*view, pace.as_ref(), curve)))
}

/// Make or change a campaign
///
/// The money is that of `account`: the `pacing.account_prefix` and the campaign's id, or the id of another campaign
/// that the caller may change as well; what is spent goes to `spend`, in the same way. Every worker bids by the new
/// plan soon after the answer: within 20 to 45 ms unless the machine is busier than it can be. A plan whose version is
/// below that of the plan in force changes nothing: the same one is answered with 200, another one with 409. Of two
/// plans of one version, the one whose JSON is later in order is in force, in whatever order they come; the other one
/// is answered with 409 if it comes second. Whoever must not replace what somebody else has put gives each change a
/// version of its own.
#[utoipa::path(
    put,
    path = "/v1/campaigns/{id}",
    tag = "pacer",
    params(("id" = inline(String), Path, description = "Campaign", example = "shoes", min_length = 1, max_length = 64)),
    request_body = PlanBody,
    responses(
        (status = 201, description = "It is new", body = CampaignPutBody),
        (status = 200, description = "It has this plan now, or had it before", body = CampaignPutBody),
        RoomBodyProblems
    )
)]
pub async fn put_campaign(
    State(served): State<Served>,
    PathName(id): PathName,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    check_right(&caller, Action::Write, &id)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let change = Change::read_plan(&caller, id, &body, &served.rules)?;
    let Changed::Put(put) = served.change(change).await? else { unreachable!("a plan was put") };
    let status = if put.is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(json(status, &put))
}

/// End a campaign
///
/// Nothing more is bid on it. Bids that were made may still win until their deadline; then what is left of its money is
/// free, and the campaign is gone.
#[utoipa::path(
    delete,
    path = "/v1/campaigns/{id}",
    tag = "pacer",
    params(("id" = inline(String), Path, description = "Campaign", example = "shoes", min_length = 1, max_length = 64)),
    responses((status = 200, description = "It has ended", body = CampaignEndedBody), RoomProblems)
)]
pub async fn delete_campaign(
    State(served): State<Served>,
    PathName(id): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    let Changed::Ended(ended) = served.change(Change::end(&caller, id)?).await? else {
        unreachable!("a campaign was ended")
    };
    Ok(json(StatusCode::OK, &ended))
}
