//! `[auth]`, and the bounds of log-ins.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_config::{ConfigError, Count, Document, FilePath, Flag, NoDefault, Optional, Seconds, Texts, config};
use tidegate_doors::auth::provider::Template;
use tidegate_doors::auth::{Grant, LoginLimits};
use tidegate_roster::Allowed;

use super::accounts::parse_grants;
use super::auth_hook::wallet;

config! {
    /// `[limits]`, as far as log-ins go.
    pub struct LoginKeys in "limits" {
        logins_concurrent_max: Count<usize> = 1, 1..=64, restart,
            "threads that check passwords; a log-in takes 19 MiB and some 30 ms of a core";
        logins_waiting_max: Count<usize> = 64, 1..=10_000, restart,
            "log-ins that wait for such a thread; more are answered 503";
        logins_waiting_per_address_max: Count<u32> = 8, 1..=10_000, restart,
            "those of them that may come from one address (IPv6: one /64), and as many for each user who has logged in \
             from there before";
        logins_wrong_max: Count<u32> = 10, 0..=1_000, restart,
            "wrong passwords of one address before its next log-ins are answered 429, for 1 s and then twice as long \
             each time; one is forgiven each minute. Users who have logged in from there before do not wait, until \
             three wrong passwords came for them from there. 0 for never";
        logins_delay_max_s: Seconds = 60, 1..=86_400, restart,
            "seconds that an address waits at most";
        api_services_max: Count<usize> = 1_000, 0..=10_000, restart,
            "services that may be made with PUT /v1/services/{name}; each takes 60 KiB at most";
        api_users_max: Count<usize> = 1_000, 0..=10_000, restart,
            "users that may be made with PUT /v1/users/{name}; each takes 60 KiB at most";
        logins_remembered_s: Seconds = 300, 0..=86_400, restart,
            "seconds in which a password that was right is not hashed again, so that clients come back quickly; 0 for \
             always hashed";
    }
}

config! {
    /// `[auth]`
    pub struct AuthKeys in "auth" {
        jwt_secret_file: Optional<FilePath> = NoDefault, .., restart,
            "file with the key that signs tokens, at least 32 bytes; made with mode 0600 if it does not exist. \
             Without this key it is jwt.key in data.dir";
        token_ttl_s: Seconds = 86_400, 60..=31_536_000, live,
            "seconds that a log-in is good for";
        expiry_ends_connections: Flag = true, .., live,
            "whether a connection of MQTT or of the binary port ends when the token that was shown on it expires: MQTT \
             5 is told 0xA0; if false, it stays open. Of those that are opened after a change";
        open_paths: Texts = &[], .., restart,
            "paths served without a token, of \"/openapi.json\", \"/metrics\", \"/demo\" (the voting pages) and \
             \"/pacing\" (the page of campaigns, which asks for a token before it shows one)";
        api_grants: Texts = &[], .., live,
            "what services may do at most that are made with PUT /v1/services/{name}, and users of role service with \
             PUT /v1/users/{name}: whoever has operate:write can give these grants, or narrower ones, and no others. \
             Without it, nobody is made so, and who was may not come in. A grant that is taken away here, those lose \
             that have it";
        api_wallets: Texts = &[], .., live,
            "wallets that viewers may have at most that are made with PUT /v1/users/{name}: {user} stands for the \
             name, alone between two colons. Without it there are no such viewers, and who was made may not come in; \
             one that is taken away here, or that a [[user]] has, they lose";
    }
}

/// Who gets a token, and what is served without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// File with the key that signs tokens.
    pub jwt_secret_file: PathBuf,
    /// How long a log-in is good for.
    pub token_ttl: Duration,
    /// Whether its end ends connections.
    pub expiry_ends_connections: bool,
    /// Paths served without a token.
    pub open_paths: Vec<Box<str>>,
    /// What services and users of the API may do at most.
    pub api_grants: Vec<Grant>,
    /// The wallets that viewers of the API may have at most.
    pub api_wallets: Vec<Template>,
}

/// The bounds of log-ins.
pub fn logins(document: &Document) -> Result<LoginLimits, ConfigError> {
    let keys: LoginKeys = document.section()?;
    Ok(LoginLimits {
        concurrent_max: keys.logins_concurrent_max,
        waiting_max: keys.logins_waiting_max,
        waiting_per_address_max: keys.logins_waiting_per_address_max,
        wrong_max: keys.logins_wrong_max,
        delay_max: Duration::from_secs(keys.logins_delay_max_s),
        remembered: Duration::from_secs(keys.logins_remembered_s),
    })
}

/// Services and users that may be made through the API.
pub fn api_allowed(document: &Document) -> Result<Allowed, ConfigError> {
    let keys: LoginKeys = document.section()?;
    Ok(Allowed { services_max: keys.api_services_max, users_max: keys.api_users_max })
}

/// `data` is the data directory, where the key lies if the file names no other place.
pub fn settle(document: &Document, data: &Path) -> Result<Auth, ConfigError> {
    let keys: AuthKeys = document.section()?;
    let is_known = |path: &str| matches!(path, "/openapi.json" | "/metrics" | "/demo" | "/pacing");
    if let Some(path) = keys.open_paths.iter().find(|path| !is_known(path)) {
        let message = format!(
            "auth.open_paths: {path:?} cannot be opened; only \"/openapi.json\", \"/metrics\", \"/demo\" and \
             \"/pacing\" can"
        );
        return Err(document.error_at("auth.open_paths", message));
    }
    Ok(Auth {
        jwt_secret_file: keys.jwt_secret_file.unwrap_or_else(|| data.join("jwt.key")),
        token_ttl: Duration::from_secs(keys.token_ttl_s),
        expiry_ends_connections: keys.expiry_ends_connections,
        open_paths: keys.open_paths,
        api_grants: parse_grants(document, "auth.api_grants", &keys.api_grants)?,
        api_wallets: api_wallets(document, &keys.api_wallets)?,
    })
}

fn api_wallets(document: &Document, texts: &[Box<str>]) -> Result<Vec<Template>, ConfigError> {
    let wrong = |what: String| document.error_at("auth.api_wallets", format!("auth.api_wallets: {what}"));
    texts.iter().map(|text| wallet(text).map_err(wrong)).collect()
}

/// Checks that no user of an identity provider or of the hook may have a wallet that the API may give.
pub fn check_api_wallets<'a>(
    document: &Document,
    wallets: &[Template],
    others: impl Iterator<Item = &'a Template>,
) -> Result<(), ConfigError> {
    for other in others {
        if let Some(own) = wallets.iter().find(|own| own.overlaps(other)) {
            let what = format!(
                "auth.api_wallets: \"{own}\" may be a wallet of a user of an identity provider or of the hook, by \
                 \"{other}\"; write another word into one of them"
            );
            return Err(document.error_at("auth.api_wallets", what));
        }
    }
    Ok(())
}
