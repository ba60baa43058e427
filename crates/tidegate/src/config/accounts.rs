//! `[[user]]` and `[[service]]`: people and programs, with what they may do.

use std::collections::{HashMap, HashSet};

use tidegate_config::{
    ConfigError, Count, Document, NoDefault, Optional, PerSecond, Required, Text, Texts, config, nearest, words,
};
use tidegate_doors::auth::quota::QuotaLimits;
use tidegate_doors::auth::{Grant, PasswordHash, Rights, ServiceSettings, UserSettings, service_token_hash};
use tidegate_machines::IdSpace;

/// Least length of a service's token, in bytes: it is a password that no person has to remember.
const TOKEN_BYTES_MIN: usize = 16;

/// What a user's rights are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserRole {
    /// Own wallets.
    Viewer,
    /// Grants.
    Service,
}

words! {
    /// The roles of users.
    pub struct UserRoleWord(UserRole) { "viewer" => UserRole::Viewer, "service" => UserRole::Service }
}

config! {
    /// `[[user]]`
    pub struct UserKeys in [["user"]] {
        name: Required<Text> = NoDefault, .., live,
            "log-in name; a viewer's ids are unique under it: under another name each id is new, and a retry of an \
             old request is done again";
        password_hash: Required<Text> = NoDefault, .., live, "argon2id hash; `tidegate hash-password` makes one";
        role: Required<UserRoleWord> = NoDefault, .., live,
            "\"viewer\" reads own wallets and all collectors (in their histories only its own moves are named), debits \
             only own wallets, credits only collectors; \
             \"service\" does what its grants list, with ids of the common space: see service.id_space";
        wallets: Optional<Texts> = NoDefault, .., live, "a viewer's own wallets";
        grants: Optional<Texts> = NoDefault, .., live, "what a user of role service may do";
    }
}

config! {
    /// `[[service]]`
    pub struct ServiceKeys in [["service"]] {
        name: Required<Text> = NoDefault, .., live, "name, for logs";
        token: Optional<Text> = NoDefault, .., live, "the token itself; only for development";
        token_sha256: Optional<Text> = NoDefault, .., live,
            "SHA-256 of the token in 64 hex digits: printf %s TOKEN | sha256sum";
        grants: Texts = &[], .., live, "what it may do";
        id_space: Text = "", .., live,
            "in which space the ids of its transfers, holds and messages of queues are unique; services of one space \
             share their ids. Without it, the common space, of all services that name none and of users of role \
             service. If it is changed, every id of the service is new: a retry of an old request is done again";
        requests_per_s: Optional<PerSecond> = NoDefault, .., live,
            "this and the following keys replace those of [quota.service] for this service alone: requests per second, \
             each transfer of a batch counted; 0 for no bound";
        requests_burst: Optional<Count<u64>> = NoDefault, .., live, "requests at once; 0 for what one second gives";
        refusals_per_s: Optional<PerSecond> = NoDefault, .., live, "refused requests per second; 0 for no bound";
        refusals_burst: Optional<Count<u64>> = NoDefault, .., live,
            "refused requests at once; 0 for what one second gives";
        journal_bytes_per_s: Optional<PerSecond> = NoDefault, .., live,
            "bytes of the journal per second, about; 0 for no bound";
        journal_bytes_burst: Optional<Count<u64>> = NoDefault, .., live,
            "bytes of the journal at once; 0 for what one second gives";
        in_flight_max: Optional<Count<u64>> = NoDefault, .., live, "requests under way; 0 for no bound";
        open_holds_max: Optional<Count<u64>> = NoDefault, .., live,
            "open holds of one account, for holds that it places; 0 for no bound";
    }
}

/// Checks `[[user]]`.
pub fn users(document: &Document) -> Result<Vec<UserSettings>, ConfigError> {
    let users: Vec<UserKeys> = document.list()?;
    let mut names = HashSet::new();
    let user = |(index, user): (usize, UserKeys)| {
        let at = |key: &str| format!("user[{index}].{key}");
        let name = &user.name;
        if !names.insert(name.clone()) {
            let message = format!("user.name = {name:?}: there is a user of this name already");
            return Err(document.error_at(&at("name"), message));
        }
        let password_hash = PasswordHash::parse(&user.password_hash)
            .map_err(|error| document.error_at(&at("password_hash"), format!("user.password_hash: {error}")))?;
        let rights = user_rights(document, &at, &user)?;
        if user.role == UserRole::Viewer && IdSpace::new(name).is_none_or(|space| space.is_empty()) {
            let message = format!(
                "user.name = {name:?}: the name of a viewer is 1 to 64 bytes of visible characters, without spaces at \
                 its ends: it is part of the ids of the viewer's transfers"
            );
            return Err(document.error_at(&at("name"), message));
        }
        Ok(UserSettings { name: user.name, password_hash, rights })
    };
    users.into_iter().enumerate().map(user).collect()
}

fn user_rights(document: &Document, at: &impl Fn(&str) -> String, user: &UserKeys) -> Result<Rights, ConfigError> {
    match (user.role, &user.wallets, &user.grants) {
        (UserRole::Viewer, wallets, None) => {
            Ok(Rights::Viewer { wallets: wallets.iter().flatten().cloned().collect() })
        }
        (UserRole::Service, None, grants) => {
            let grants = grants.as_deref().unwrap_or_default();
            Ok(Rights::Service { grants: parse_grants(document, &at("grants"), grants)? })
        }
        (UserRole::Viewer, ..) => {
            Err(document.error_at(&at("grants"), "user.grants: a viewer has wallets, not grants"))
        }
        (UserRole::Service, ..) => {
            Err(document.error_at(&at("wallets"), "user.wallets: role service has grants, not wallets"))
        }
    }
}

/// Checks `[[service]]`; `quota` is what a service may use up that does not say.
pub fn services(
    document: &Document,
    users: &[UserSettings],
    quota: QuotaLimits,
) -> Result<Vec<ServiceSettings>, ConfigError> {
    let services: Vec<ServiceKeys> = document.list()?;
    let mut tokens = HashSet::new();
    let mut of_names = HashMap::new();
    let service = |(index, service): (usize, ServiceKeys)| {
        let at = |key: &str| format!("service[{index}].{key}");
        let token_sha256 = token_hash(document, &at, &service)?;
        let quota = quota_of(document, &at, &service, quota)?;
        let name = service.name;
        if !tokens.insert(token_sha256) {
            return Err(document.error_at(&at("name"), format!("service {name:?} has the token of another service")));
        }
        let grants = parse_grants(document, &at("grants"), &service.grants)?;
        let wrong = |what: &str| {
            document.error_at(&at("id_space"), format!("service.id_space = {:?}: {what}", service.id_space))
        };
        let id_space = IdSpace::new(&service.id_space)
            .ok_or_else(|| wrong("expected at most 64 bytes of visible characters, without spaces at the ends"))?;
        if service.id_space.starts_with("tidegate.") {
            return Err(wrong("id spaces that begin with \"tidegate.\" are the server's own; choose another"));
        }
        let is_viewer = |user: &UserSettings| matches!(user.rights, Rights::Viewer { .. });
        if users.iter().any(|user| is_viewer(user) && *user.name == *service.id_space) {
            return Err(wrong("this is the id space of the viewer of this name; choose another"));
        }
        // A service has two tokens while one is replaced. Otherwise nobody could say which rights the sessions and
        // messages have that are stored under the name.
        let rights = (grants.clone(), id_space.clone());
        if *of_names.entry(name.clone()).or_insert_with(|| rights.clone()) != rights {
            let message = format!(
                "service.name = {name:?}: another service of this name has other grants or another id_space; its MQTT \
                 sessions would have the rights of either. Give it a name of its own, or, to replace a token, the same \
                 grants and id_space"
            );
            return Err(document.error_at(&at("name"), message));
        }
        Ok(ServiceSettings { name, token_sha256, rights: Rights::Service { grants }, id_space, quota })
    };
    services.into_iter().enumerate().map(service).collect()
}

/// The bounds of a service that has some of its own; those that it does not name are those of `all`.
fn quota_of(
    document: &Document,
    at: &impl Fn(&str) -> String,
    service: &ServiceKeys,
    all: QuotaLimits,
) -> Result<Option<QuotaLimits>, ConfigError> {
    const MOST: u64 = 1_000_000_000;
    let mut own = all;
    let keys = [
        ("requests_per_s", service.requests_per_s, &mut own.requests.per_s),
        ("requests_burst", service.requests_burst, &mut own.requests.burst),
        ("refusals_per_s", service.refusals_per_s, &mut own.refusals.per_s),
        ("refusals_burst", service.refusals_burst, &mut own.refusals.burst),
        ("journal_bytes_per_s", service.journal_bytes_per_s, &mut own.journal_bytes.per_s),
        ("journal_bytes_burst", service.journal_bytes_burst, &mut own.journal_bytes.burst),
        ("in_flight_max", service.in_flight_max, &mut own.in_flight_max),
        ("open_holds_max", service.open_holds_max, &mut own.open_holds_max),
    ];
    for (key, number, bound) in keys {
        let Some(number) = number else { continue };
        if number > MOST {
            let message = format!("service.{key} = {number}: expected 0 to {MOST}");
            return Err(document.error_at(&at(key), message));
        }
        *bound = number as u32;
    }
    Ok(Some(own).filter(|own| *own != all))
}

fn token_hash(
    document: &Document,
    at: &impl Fn(&str) -> String,
    service: &ServiceKeys,
) -> Result<[u8; 32], ConfigError> {
    match (&service.token, &service.token_sha256) {
        (Some(token), None) if token.len() < TOKEN_BYTES_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            let message =
                format!("service.token: expected at least {TOKEN_BYTES_MIN} letters, digits or signs without spaces");
            Err(document.error_at(&at("token"), message))
        }
        (Some(token), None) => Ok(service_token_hash(token)),
        (None, Some(printed)) => from_hex(digest_of(printed)).ok_or_else(|| {
            let message = "service.token_sha256: expected 64 hex digits, as `printf %s TOKEN | sha256sum` prints";
            document.error_at(&at("token_sha256"), message)
        }),
        (Some(_), Some(_)) => Err(document.error_at(&at("token"), "service: write token or token_sha256, not both")),
        (None, None) => Err(document.error_at(&at("token"), "service: token_sha256 (or token) is missing")),
    }
}

/// Reads grants.
pub(super) fn parse_grants(document: &Document, path: &str, grants: &[Box<str>]) -> Result<Vec<Grant>, ConfigError> {
    let parse = |grant: &str| {
        grant.parse::<Grant>().map_err(|error| {
            let meant = meant_grant(grant).map(|meant| format!("grant {grant:?} is unknown; did you mean {meant:?}?"));
            document.error_at(path, meant.unwrap_or_else(|| error.to_string()))
        })
    };
    grants.iter().map(|grant| parse(grant)).collect()
}

/// The grant that is most like a text that is none: one of a few words, or one whose verb was misspelt.
fn meant_grant(text: &str) -> Option<String> {
    const WHOLE: [&str; 9] = [
        "accounts:open",
        "holds:settle",
        "audit",
        "audit:run",
        "metrics",
        "drain",
        "operate:read",
        "operate:write",
        "sys",
    ];
    const VERBS: [&str; 11] =
        ["transfers", "debit", "credit", "read", "publish", "subscribe", "send", "relay", "receive", "admin", "room"];
    let with_verb = || {
        let (verb, rest) = text.split_once(':')?;
        Some(format!("{}:{rest}", nearest(verb, VERBS.into_iter())?))
    };
    let meant = [with_verb(), nearest(text, WHOLE.into_iter()).map(str::to_owned)];
    meant.into_iter().flatten().find(|meant| meant.parse::<Grant>().is_ok())
}

/// The digits of what `sha256sum` prints: behind them stand a space, a space or an asterisk, and the name of the file.
fn digest_of(printed: &str) -> &str {
    let printed = printed.trim_end();
    match printed.split_once(' ') {
        Some((digits, name)) if name.starts_with([' ', '*']) || name == "-" => digits,
        _ => printed,
    }
}

fn from_hex(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, digits) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}
