//! `/v1/assets`: the units of measure, their decimals, and how much of each there is.

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_ledger::message::{Reply, Request};
use tidegate_machines::ledger::Refusal;
use utoipa::ToSchema;

use super::backend::Backend;
use super::openapi::{LedgerProblems, ReadProblems};
use super::room::Ledger;
use crate::auth::gate;
use crate::http::{BodyProblems, GuardProblems};
use crate::json::{Problem, Signed, Text, decode, json};
use crate::ledger_json::schemas::asset_schema;

/// An asset to declare.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeclareBody<'a> {
    /// Unit of measure.
    #[serde(borrow)]
    #[schema(schema_with = asset_schema)]
    name: Text<'a>,
    /// Digits of an amount behind the point. Amounts stay integers; this is for those who show them.
    #[schema(value_type = u8, maximum = 18, example = 2)]
    decimals: Signed,
}

/// An asset as it was declared.
#[derive(Serialize, ToSchema)]
pub struct DeclaredBody<'a> {
    /// Its name.
    name: &'a str,
    /// Digits behind the point.
    decimals: u8,
}

/// An asset, and how much of it there is.
#[derive(Serialize, ToSchema)]
pub struct AssetBody<'a> {
    /// Its name.
    #[schema(example = "credit")]
    name: &'a str,
    /// Digits of an amount behind the point; 0 if nobody declared them.
    decimals: u8,
    /// Whether the decimals were declared.
    declared: bool,
    /// What sources gave out and did not get back, minor units; only for those who may read all accounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    issued: Option<i128>,
    /// What open holds reserve, minor units; likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    held: Option<u128>,
}

/// All assets, by name in byte order.
#[derive(Serialize, ToSchema)]
pub struct AssetsBody<'a> {
    /// Assets.
    assets: Vec<AssetBody<'a>>,
}

/// Declare the decimals of an asset, once
#[utoipa::path(
    post,
    path = "/v1/assets",
    tag = "assets",
    request_body = DeclareBody,
    responses(
        (status = 201, description = "Declared by this request", body = DeclaredBody),
        (status = 200, description = "Declared before, with the same decimals", body = DeclaredBody),
        GuardProblems,
        BodyProblems,
        LedgerProblems,
    )
)]
pub async fn declare_asset<B: Backend>(
    State(ledger): State<Ledger<B>>,
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = ledger.door.caller(&head.headers)?;
    // Whoever may not is told so, whatever the body says.
    if !caller.rights().may_declare_assets() {
        caller.denied();
        return Err(Problem::forbidden(gate::denial("declare assets")));
    }
    let body = ledger.door.read_json(&head.headers, body).await?;
    let DeclareBody { name, decimals } = decode(&body)?;
    let decimals =
        u8::try_from(decimals.0).map_err(|_| Problem::from(Refusal::DecimalsInvalid).with("name", &*name))?;
    match ledger.ask_for(&caller, Request::DeclareAsset { asset: name.boxed(), decimals }).await? {
        Reply::AssetDeclared { created } => {
            let status = if created { StatusCode::CREATED } else { StatusCode::OK };
            Ok(json(status, &DeclaredBody { name: &name, decimals }))
        }
        Reply::Refused(refusal) => Err(Problem::from(refusal).with("name", &*name)),
        _ => Err(Problem::unexpected_reply()),
    }
}

/// List all assets
///
/// With how much of each was issued and is held, for those who may read all accounts.
#[utoipa::path(
    get,
    path = "/v1/assets",
    tag = "assets",
    responses((status = 200, description = "All assets", body = AssetsBody), GuardProblems, ReadProblems)
)]
pub async fn list_assets<B: Backend>(
    State(ledger): State<Ledger<B>>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = ledger.door.caller(&headers)?;
    let with_sums = caller.rights().may_read_everything();
    match ledger.ask_for(&caller, Request::ListAssets).await? {
        Reply::Assets(assets) => {
            let assets = assets.iter().map(|asset| AssetBody {
                name: &asset.name,
                decimals: asset.decimals.unwrap_or(0),
                declared: asset.decimals.is_some(),
                issued: with_sums.then_some(asset.issued),
                held: with_sums.then_some(asset.held),
            });
            Ok(json(StatusCode::OK, &AssetsBody { assets: assets.collect() }))
        }
        _ => Err(Problem::unexpected_reply()),
    }
}
