//! `[auth_hook]`: a program of the operator that decides on log-ins of users who are not in the file.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use tidegate_config::{
    ConfigError, Count, Document, FilePath, Flag, Milliseconds, NoDefault, Optional, Seconds, Text, Texts, config,
};
use tidegate_doors::auth::hook::{HookSecret, HookSettings, USER_CLAIM};
use tidegate_doors::auth::provider::{ProviderSettings, Template};
use tidegate_doors::auth::{ServiceSettings, UserSettings};
use tidegate_machines::ledger::is_asset;

use super::accounts::parse_grants;
use super::identity_providers::{ProvidedRoleWord, check_form, check_others, check_users, is_safe};

/// Bytes of a secret at least: it stands between a stranger and a program that tells which passwords are right.
const SECRET_BYTES_MIN: usize = 16;
/// Bytes of the longest file with a secret.
const SECRET_BYTES_MAX: u64 = 4 << 10;

config! {
    /// `[auth_hook]`
    pub struct AuthHookKeys in "auth_hook" {
        url: Optional<Text> = NoDefault, .., live,
            "where a log-in with a user name that is no [[user]] is asked about, by a POST: https, or http on this \
             machine; authorities are those of the system. Its answer may have 4 KiB: a user of whom it says more, or \
             what cannot be followed, is refused. Without this key there is no hook";
        plain_http: Flag = false, .., live,
            "whether url may be http to another machine: passwords go there in the clear, and whoever is on the way \
             decides on log-ins";
        secret_file: Optional<FilePath> = NoDefault, .., live,
            "a file with what shows the hook that this server asks, 16 bytes at least; read again at a reload. \
             Needed with url";
        secret_header: Text = "X-Tidegate-Secret", .., live, "the header that carries it";
        name: Text = "hook", .., live,
            "1 to 16 of a-z, 0-9, _ and -: the name of the hook's user dave is NAME:dave, in rules and as the space of \
             ids of transfers and holds; no user, service id space, certificate or identity provider may be called so";
        role: ProvidedRoleWord = "viewer", .., live, "the role of a user of whose role the hook says nothing";
        wallets: Texts = &[], .., live,
            "the wallets of a viewer of whose wallets the hook says nothing: {user} stands for the name, alone between \
             colons; a name with a colon in it is refused then";
        grants: Texts = &[], .., live,
            "what a user of role service may do of whose grants the hook says nothing, as service.grants";
        open_wallets_in: Optional<Text> = NoDefault, .., live,
            "the asset in which a viewer's wallets are opened when the viewer first asks the ledger anything; the \
             asset must be declared or used. Without this key, somebody with the grant accounts:open opens them";
        timeout_ms: Milliseconds = 2_000, 10..=30_000, live,
            "milliseconds that one answer may take; a log-in of MQTT is told 0x88 then, one of HTTP 503";
        asked_max: Count<usize> = 16, 1..=1_000, live, "questions under way at once";
        waiting_max: Count<usize> = 256, 1..=8_000, live,
            "log-ins that wait for their turn to be asked about; more are told 0x89 or 503. Of one address as many as \
             limits.logins_waiting_per_address_max says";
        allowed_s: Seconds = 60, 0..=86_400, live,
            "seconds in which the hook is not asked again about a password that it allowed: so long the old password \
             is good after a change; 0 for always asked";
        denied_s: Seconds = 5, 0..=3_600, live,
            "seconds in which the hook is not asked again about a password that it denied";
        remembered_max: Count<usize> = 65_536, 2..=10_000_000, live,
            "passwords of each of both kinds that are remembered, by keyed hashes";
        retry_max_s: Seconds = 30, 1..=3_600, live,
            "seconds at most between two questions to a hook that does not answer: after five failures it is asked \
             once after 1 s, 2 s, 4 s …; other log-ins are refused at once";
    }
}

/// Checks `[auth_hook]`, and that nobody else is called as its users may be; `None` without a hook.
pub fn settle(
    document: &Document,
    users: &[UserSettings],
    services: &[ServiceSettings],
    providers: &[Arc<ProviderSettings>],
) -> Result<Option<Arc<HookSettings>>, ConfigError> {
    let keys: AuthHookKeys = document.section()?;
    let wrong = |key: &str, what: String| {
        let path = format!("auth_hook.{key}");
        document.error_at(&path, format!("{path}: {what}"))
    };
    let Some(url) = keys.url else {
        return match keys.secret_file {
            Some(_) => Err(wrong("secret_file", "there is no hook to show it to; write auth_hook.url".to_owned())),
            None => Ok(None),
        };
    };
    if !is_safe(&url, keys.plain_http) {
        let what = format!(
            "{url:?}: expected an address with https, or with http on this machine: who is on the way reads passwords \
             and decides on log-ins. auth_hook.plain_http = true allows it"
        );
        return Err(wrong("url", what));
    }
    let secret = secret(keys.secret_file.as_deref()).map_err(|what| wrong("secret_file", what))?;
    if HeaderName::try_from(&*keys.secret_header).is_err() {
        return Err(wrong("secret_header", format!("{:?} is no name of a header", keys.secret_header)));
    }
    if let Some(asset) = keys.open_wallets_in.as_deref().filter(|asset| !is_asset(asset)) {
        return Err(wrong("open_wallets_in", format!("{asset:?} is no asset")));
    }
    let wallets: Result<Vec<Template>, String> = keys.wallets.iter().map(|text| wallet(text)).collect();
    let wallets = wallets.map_err(|what| wrong("wallets", what))?;
    let checked = check_form(&keys.name)
        .and_then(|()| check_users(&keys.name, &wallets, users, services))
        .and_then(|()| check_others(&keys.name, &wallets, providers));
    checked.map_err(|(key, what)| wrong(key, what))?;
    Ok(Some(Arc::new(HookSettings {
        name: keys.name,
        url,
        secret: (keys.secret_header, secret),
        timeout: Duration::from_millis(keys.timeout_ms),
        asked_max: keys.asked_max,
        waiting_max: keys.waiting_max,
        role: keys.role,
        wallets,
        grants: parse_grants(document, "auth_hook.grants", &keys.grants)?,
        open_wallets_in: keys.open_wallets_in,
        allowed: Duration::from_secs(keys.allowed_s),
        denied: Duration::from_secs(keys.denied_s),
        remembered_max: keys.remembered_max,
        retry_max: Duration::from_secs(keys.retry_max_s),
    })))
}

/// A template whose only claim is the user's name.
pub(super) fn wallet(text: &str) -> Result<Template, String> {
    let template: Template = text.parse().map_err(|error| format!("{error}"))?;
    if let Some(claim) = template.claims().find(|claim| *claim != USER_CLAIM) {
        return Err(format!("{text:?}: {{{claim}}} stands for nothing; write {{user}} for the user's name"));
    }
    Ok(template)
}

/// The text of the file, without the line's end.
fn secret(file: Option<&Path>) -> Result<HookSecret, String> {
    let Some(file) = file else {
        return Err("is missing: without it, whoever reaches the hook can try passwords there".to_owned());
    };
    let of_file = |what: String| format!("{}: {what}", file.display());
    let bytes = std::fs::metadata(file).map_err(|error| of_file(error.to_string()))?.len();
    if bytes > SECRET_BYTES_MAX {
        return Err(of_file(format!("has {bytes} bytes: expected {SECRET_BYTES_MAX} at most")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| of_file(error.to_string()))?;
    let text = text.trim();
    if text.len() < SECRET_BYTES_MIN || HeaderValue::from_str(text).is_err() {
        return Err(of_file(format!("expected one line of {SECRET_BYTES_MIN} bytes at least")));
    }
    Ok(HookSecret::new(text))
}
