//! Users that are managed while the server runs.

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_roster::limits::GRANTS_MAX;
use tidegate_roster::{Action, Outcome, Refusal, User, UserRights};
use utoipa::ToSchema;

use super::{Changing, Page, Served, check_allowed, grants_of, is_only_new, secret, withheld_grants};
use crate::auth::{InForce, PasswordHash, check_new_password, is_api_user_name};
use crate::http::{InQuery, PathName, PeerAddress, RoomBodyProblems, RoomProblems};
use crate::json::{Problem, ProblemCode, decode, json};
use crate::operator_http::page::{parameters, reader, rows};

pub(super) const NOT_FOUND: ProblemCode = ProblemCode::new(StatusCode::NOT_FOUND, "user_not_found");
pub(super) const EXISTS: ProblemCode = ProblemCode::new(StatusCode::PRECONDITION_FAILED, "user_exists");
pub(super) const CONFIGURED: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "user_in_configuration");
pub(super) const TOO_MANY: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "users_too_many");
pub(super) const INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "user_invalid");
pub(super) const WALLET_NOT_ALLOWED: ProblemCode = ProblemCode::new(StatusCode::FORBIDDEN, "wallet_not_allowed");

/// A user's role.
#[derive(Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Has wallets.
    Viewer,
    /// Has grants.
    Service,
}

/// What a user may do, and the password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserPutBody {
    /// `viewer` has wallets, `service` has grants, as `[[user]]` of the configuration has them.
    role: Role,
    /// A viewer's wallets; at most 64, of together 4,096 bytes. None if absent.
    #[serde(default)]
    #[schema(example = json!(["wallet:dave"]))]
    wallets: Vec<Box<str>>,
    /// The grants of role `service`; at most 64, of together 4,096 bytes. None if absent.
    #[serde(default)]
    grants: Vec<Box<str>>,
    /// The password from now on, 8 to 1,024 bytes. Without it, and without `password_hash`, that of before stays.
    #[schema(value_type = String, required = false, format = Password)]
    password: Option<String>,
    /// Instead of `password`: its argon2id hash, as `tidegate hash-password` makes one.
    #[schema(value_type = String, required = false, format = Password)]
    password_hash: Option<String>,
}

/// A user that was made through the API.
#[derive(Serialize, ToSchema)]
pub struct UserBody<'a> {
    /// Log-in name; a viewer's ids are unique under it.
    #[schema(example = "dave")]
    name: &'a str,
    /// `viewer` or `service`.
    role: Role,
    /// A viewer's wallets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<String>, required = false, example = json!(["wallet:dave"]))]
    wallets: Option<&'a [Box<str>]>,
    /// The grants of role `service`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<String>, required = false)]
    grants: Option<&'a [Box<str>]>,
    /// What of that the user may not do now: the configuration does not allow it any more. Absent if there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    withheld: Vec<&'a str>,
    /// The user may not come in: the configuration has this name, or allows nobody of this role.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    hidden: bool,
}

impl<'a> UserBody<'a> {
    fn new(name: &'a str, user: &'a User, in_force: &InForce) -> UserBody<'a> {
        let hidden = in_force.hides_user(name, &user.rights);
        match &user.rights {
            UserRights::Viewer(wallets) => {
                let texts = wallets.iter().map(|wallet| &**wallet);
                let withheld = texts.filter(|wallet| !in_force.allows_wallet(name, wallet)).collect();
                UserBody { name, role: Role::Viewer, wallets: Some(wallets), grants: None, withheld, hidden }
            }
            UserRights::Service(grants) => {
                let withheld = withheld_grants(grants, in_force);
                UserBody { name, role: Role::Service, wallets: None, grants: Some(grants), withheld, hidden }
            }
        }
    }
}

/// A user that is gone.
#[derive(Serialize, ToSchema)]
pub struct UserDeletedBody<'a> {
    /// The name.
    #[schema(example = "dave")]
    name: &'a str,
    /// `deleted`.
    #[schema(example = "deleted")]
    outcome: &'static str,
}

/// A page of users in the byte order of their names.
#[derive(Serialize, ToSchema)]
pub struct UsersBody<'a> {
    /// Users that were made through the API.
    users: Vec<UserBody<'a>>,
    /// Send as `after` for the next page; absent after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    next: Option<&'a str>,
}

/// List the users that were made through the API
#[utoipa::path(
    get,
    path = "/v1/users",
    tag = "operations",
    params(Page),
    responses((status = 200, description = "A page", body = UsersBody), RoomProblems)
)]
pub(super) async fn list_users(
    State(served): State<Served>,
    query: InQuery<Page>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    reader(&served.door, &headers)?;
    let Page { after, limit } = parameters(query)?;
    let limit = rows(limit)?;
    let (in_force, after) = (served.door.in_force(), after.unwrap_or_default());
    let mut rest = in_force.users_after(&after);
    let users: Vec<_> = rest.by_ref().take(limit).map(|(name, user)| UserBody::new(name, user, &in_force)).collect();
    let next = rest.next().and(users.last()).map(|last| last.name);
    Ok(json(StatusCode::OK, &UsersBody { users, next }))
}

/// Read a user that was made through the API
#[utoipa::path(
    get,
    path = "/v1/users/{name}",
    tag = "operations",
    params(("name" = inline(String), Path, description = "Log-in name", example = "dave", min_length = 1)),
    responses((status = 200, description = "The user", body = UserBody), RoomProblems)
)]
pub(super) async fn read_user(
    State(served): State<Served>,
    PathName(name): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    reader(&served.door, &headers)?;
    let in_force = served.door.in_force();
    let user = in_force.user(&name).ok_or_else(|| refused(Refusal::NotFound, &name))?;
    Ok(json(StatusCode::OK, &UserBody::new(&name, user, &in_force)))
}

/// Make a user, or give one other rights or another password
///
/// A new one needs a password. One that is there keeps it if the body names none. With another password or other
/// rights, what the user showed before is no good any more where it says more. With `If-None-Match: *`, one that is
/// there is not changed (412).
#[utoipa::path(
    put,
    path = "/v1/users/{name}",
    tag = "operations",
    params(("name" = inline(String), Path, description = "Log-in name", example = "dave", min_length = 1)),
    request_body = UserPutBody,
    responses(
        (status = 200, description = "The user is so", body = UserBody),
        (status = 201, description = "The user was made", body = UserBody),
        RoomBodyProblems
    )
)]
pub(super) async fn put_user(
    State(served): State<Served>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    PathName(name): PathName,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let changing = Changing { served: &served, address, act: "put user", name: &name };
    let caller = changing.caller(&head.headers)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let body: UserPutBody = decode(&body)?;
    let only_new = is_only_new(&head.headers);
    changing.done(&caller, put(&changing, body, only_new)).await
}

/// Delete a user that was made through the API
///
/// Tokens of the user are no good any more, and connections that were opened with them or with the password end.
#[utoipa::path(
    delete,
    path = "/v1/users/{name}",
    tag = "operations",
    params(("name" = inline(String), Path, description = "Log-in name", example = "dave", min_length = 1)),
    responses((status = 200, description = "The user is gone", body = UserDeletedBody), RoomProblems)
)]
pub(super) async fn delete_user(
    State(served): State<Served>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    PathName(name): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let changing = Changing { served: &served, address, act: "delete user", name: &name };
    let caller = changing.caller(&headers)?;
    changing.done(&caller, delete(&changing)).await
}

async fn put(changing: &Changing<'_>, body: UserPutBody, only_new: bool) -> Result<Response<Body>, Problem> {
    let (door, name) = (&changing.served.door, changing.name);
    check_configured(name, &door.in_force())?;
    let (rights, shown) = checked(name, body, &door.in_force())?;
    let password_hash = match shown {
        None => None,
        Some(Shown::Hash(hash)) => Some(hash),
        Some(Shown::Password(password)) => Some(door.hash_password(password).await?),
    };
    let password_hash = password_hash.map(|hash| hash.as_str().into());
    let action = Action::PutUser { rights, password_hash, only_new };
    let outcome = changing.decided(action).await?.map_err(|refusal| refused(refusal, name))?;
    let in_force = door.in_force();
    // Somebody else may have deleted it since.
    let user = in_force.user(name).ok_or_else(|| refused(Refusal::NotFound, name))?;
    let status = if outcome == Outcome::Made { StatusCode::CREATED } else { StatusCode::OK };
    Ok(secret(json(status, &UserBody::new(name, user, &in_force))))
}

async fn delete(changing: &Changing<'_>) -> Result<Response<Body>, Problem> {
    let name = changing.name;
    check_configured(name, &changing.served.door.in_force())?;
    changing.decided(Action::DeleteUser).await?.map_err(|refusal| refused(refusal, name))?;
    Ok(json(StatusCode::OK, &UserDeletedBody { name, outcome: "deleted" }))
}

fn check_configured(name: &str, in_force: &InForce) -> Result<(), Problem> {
    if !in_force.is_configured_user(name) {
        return Ok(());
    }
    let detail = "the configuration has this name for a user, a service or its ids, or in a rule; only its file \
                  changes that";
    Err(Problem::new(CONFIGURED, detail).with("name", name))
}

/// How a password was given.
enum Shown {
    Password(String),
    Hash(PasswordHash),
}

/// What a user is to have, if the configuration would take it and allows it.
fn checked(name: &str, body: UserPutBody, in_force: &InForce) -> Result<(UserRights, Option<Shown>), Problem> {
    let wrong = |detail: String| Problem::new(INVALID, detail).with("name", name);
    if !is_api_user_name(name) {
        let detail = "a name is 1 to 64 bytes of visible characters, without spaces at its ends and without any of : / \
                      * + # $ % { } ? \\ \" '";
        return Err(wrong(detail.to_owned()));
    }
    let UserPutBody { role, wallets, grants, password, password_hash } = body;
    if wallets.len().max(grants.len()) > GRANTS_MAX {
        return Err(refused(Refusal::Invalid, name));
    }
    let rights = match role {
        Role::Viewer if !grants.is_empty() => return Err(wrong("grants: a viewer has wallets, not grants".to_owned())),
        Role::Service if !wallets.is_empty() => {
            return Err(wrong("wallets: role service has grants, not wallets".to_owned()));
        }
        Role::Viewer => {
            if !in_force.allows_viewers() {
                let detail = "auth.api_wallets of the configuration names no wallet: the API makes no viewers";
                return Err(Problem::new(WALLET_NOT_ALLOWED, detail).with("name", name));
            }
            if let Some(place) = wallets.iter().position(|wallet| !in_force.allows_wallet(name, wallet)) {
                let detail = format!(
                    "wallets[{place}]: auth.api_wallets of the configuration does not allow to give it to this user"
                );
                return Err(Problem::new(WALLET_NOT_ALLOWED, detail).with("name", name));
            }
            UserRights::Viewer(wallets)
        }
        Role::Service => {
            check_allowed(&grants_of(&grants, INVALID)?, in_force)?;
            UserRights::Service(grants)
        }
    };
    let shown = match (password, password_hash) {
        (None, None) => None,
        (Some(_), Some(_)) => return Err(wrong("send password or password_hash, not both".to_owned())),
        (Some(password), None) => {
            check_new_password(&password).map_err(&wrong)?;
            Some(Shown::Password(password))
        }
        (None, Some(hash)) => Some(Shown::Hash(usual(&hash).map_err(|what| wrong(format!("password_hash: {what}")))?)),
    };
    Ok((rights, shown))
}

/// A hash that costs no more to verify than one that is made here: whoever may make users must not make log-ins slow.
fn usual(hash: &str) -> Result<PasswordHash, String> {
    let hash = PasswordHash::parse(hash).map_err(|error| error.to_string())?;
    match hash.is_of_usual_cost() {
        true => Ok(hash),
        false => Err("costs more than those that `tidegate hash-password` makes (m=19456,t=2,p=1)".to_owned()),
    }
}

fn refused(refusal: Refusal, name: &str) -> Problem {
    let (code, detail) = match refusal {
        Refusal::NotFound => {
            (NOT_FOUND, "no user of this name was made through the API; to make one, send a password, too")
        }
        Refusal::Exists => (EXISTS, "a user of this name was made through the API already"),
        Refusal::Invalid => {
            (INVALID, "a user has a name of 1 to 64 bytes, and at most 64 wallets or grants of together 4,096 bytes")
        }
        Refusal::TooMany => (TOO_MANY, "there are as many users as limits.api_users_max allows; delete one first"),
    };
    Problem::new(code, detail).with("name", name)
}
