//! Campaigns: make, change, look at, end.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_pacer::family::shard_of;
use tidegate_pacer::machine::{Change, Command, Outcome};
use tidegate_pacer::plan::{Fault, Plan};
use utoipa::{IntoParams, ToSchema};

use super::plan_body::{CampaignBody, PlanBody};
use super::{CAMPAIGN_STALE, PLAN_INVALID, Served, check_right};
use crate::auth::Action;
use crate::http::{InQuery, PathName, RoomBodyProblems, RoomProblems, query_problem};
use crate::json::{Problem, codes, decode, json};

/// Campaigns of one page.
const ROWS_MAX: u32 = 1_000;
const ROWS_DEFAULT: u32 = 100;

/// Which campaigns.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct CampaignPage {
    /// Only what comes after this: the `next` of the page before.
    after: Option<String>,
    /// At most so many, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
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

/// What a put has done.
#[derive(Serialize, ToSchema)]
pub struct CampaignPutBody {
    /// The campaign's id.
    id: Box<str>,
    /// By which bid requests name it.
    #[schema(value_type = u32, format = "uint32")]
    number: u32,
    /// The version of the plan that is in force.
    version: u64,
}

/// A campaign has ended.
#[derive(Serialize, ToSchema)]
pub struct CampaignEndedBody {
    /// Its id.
    id: Box<str>,
    /// Nothing more is bid on it.
    ended: bool,
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
    let CampaignPage { after, limit } = query.map(|query| query.0).map_err(|error| query_problem(&error, ROWS_MAX))?;
    let limit = limit.unwrap_or(ROWS_DEFAULT);
    if !(1..=ROWS_MAX).contains(&limit) {
        let detail = format!("limit: expected 1 to {ROWS_MAX}");
        return Err(Problem::new(codes::QUERY_INVALID, detail).with("field", "limit"));
    }
    let (after, limit): (Box<str>, _) = (after.unwrap_or_default().into(), limit as usize);
    let mut found = Vec::new();
    for shard in served.all_shards() {
        let mut after = after.clone();
        loop {
            let listed = served.ask(shard, Command::List { after: after.clone(), limit }).await?;
            let Outcome::Campaigns(campaigns, next) = listed else { unreachable!("campaigns were asked for") };
            let may_read = |id: &str| caller.may(crate::pacer_calls::CAMPAIGNS, Action::Read, id);
            let seen: Vec<_> = campaigns.into_iter().filter(|campaign| may_read(&campaign.id)).collect();
            let is_enough = seen.len() > limit / 2;
            found.extend(seen);
            match next {
                Some(next) if !is_enough => after = next,
                Some(_) | None => break,
            }
        }
    }
    found.sort_by(|one, other| one.id.cmp(&other.id));
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|last| last.id.clone());
    let live = served.live.read().expect("nobody panics with it");
    let campaigns = found.into_iter().map(|view| {
        let pace = live.get(&view.number);
        CampaignBody::new(view, pace)
    });
    Ok(json(StatusCode::OK, &CampaignsBody { campaigns: campaigns.collect(), next }))
}

/// Look at a campaign
#[utoipa::path(
    get,
    path = "/v1/campaigns/{id}",
    tag = "pacer",
    params(("id" = inline(String), Path, description = "Campaign", example = "shoes", min_length = 1, max_length = 64)),
    responses((status = 200, description = "Plan, spending, pace", body = CampaignBody), RoomProblems)
)]
pub async fn read_campaign(
    State(served): State<Served>,
    PathName(id): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    check_right(&caller, Action::Read, &id)?;
    let shard = shard_of(&id, served.shards);
    let Outcome::Campaign(view) = served.ask(shard, Command::Read { id }).await? else {
        unreachable!("a campaign was asked for")
    };
    let live = served.live.read().expect("nobody panics with it");
    let pace = live.get(&view.number);
    Ok(json(StatusCode::OK, &CampaignBody::new(*view, pace)))
}

/// Make or change a campaign
///
/// The money is that of `account`: the `pacing.account_prefix` and the campaign's id, or the id of another campaign
/// that the caller may change as well. Every worker bids by the new plan within 100 ms. A plan whose version is not
/// above that of the plan in force changes nothing: the same one is answered with 200, another one with 409.
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
    let body: PlanBody = decode(&body)?;
    if body.has_version_zero() {
        let detail = "version: expected 1 to 9223372036854775807; leave it out for the next one";
        return Err(Problem::new(PLAN_INVALID, detail).with("field", "version"));
    }
    let plan = Plan::from(body);
    if let Err(Fault { field, why }) = served.rules.check(&plan) {
        return Err(Problem::new(PLAN_INVALID, format!("{field}: {why}")).with("field", field));
    }
    // Who may change this campaign may not therefore spend the money of others.
    let of_account = &plan.account[served.rules.account_prefix.len()..];
    if of_account != &*id {
        check_right(&caller, Action::Write, of_account)?;
    }
    let put = Command::Put { id: id.clone(), plan: Box::new(plan) };
    let Outcome::Put { number, version, change } = served.ask(shard_of(&id, served.shards), put).await? else {
        unreachable!("a plan was put")
    };
    let status = match change {
        Change::Made => StatusCode::CREATED,
        Change::Changed | Change::Unchanged => StatusCode::OK,
        Change::Stale => {
            let detail = format!("the plan in force has version {version}; send a higher one, or none");
            return Err(Problem::new(CAMPAIGN_STALE, detail).with("version", version));
        }
    };
    Ok(json(status, &CampaignPutBody { id, number, version }))
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
    check_right(&caller, Action::Write, &id)?;
    served.ask(shard_of(&id, served.shards), Command::Delete { id: id.clone() }).await?;
    Ok(json(StatusCode::OK, &CampaignEndedBody { id, ended: true }))
}
