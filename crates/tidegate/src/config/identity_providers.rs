//! `[[identity_provider]]`: who else signs people in.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_config::{
    ConfigError, Document, FilePath, NoDefault, Optional, Required, Seconds, Text, Texts, config, words,
};
use tidegate_doors::auth::provider::{KeySource, ProvidedRole, ProviderSettings, Template, TokenAlgorithm};
use tidegate_doors::auth::{Rights, ServiceSettings, UserSettings};
use tidegate_machines::ledger::is_asset;

use super::accounts::parse_grants;

/// Providers that a file may have.
const PROVIDERS_MAX: usize = 16;
/// Bytes of a provider's name: most of an id space is left for the name of the user.
const NAME_BYTES_MAX: usize = 16;

words! {
    /// How users of a provider act.
    pub struct ProvidedRoleWord(ProvidedRole) { "viewer" => ProvidedRole::Viewer, "service" => ProvidedRole::Service }
}

config! {
    /// `[[identity_provider]]`
    pub struct IdentityProviderKeys in [["identity_provider"]] {
        name: Required<Text> = NoDefault, .., live,
            "1 to 16 of a-z, 0-9, _ and -: the name of its user 42 is NAME:42, in rules and as the space of ids of \
             transfers and holds; no user, service id space or certificate may be called so";
        issuer: Required<Text> = NoDefault, .., live, "what its tokens have as iss, letter for letter";
        audience: Required<Texts> = NoDefault, .., live, "a token must be for one of these, by its aud";
        jwks_url: Optional<Text> = NoDefault, .., live,
            "where its public keys are: https, or http on this machine; authorities are those of the system";
        jwks_file: Optional<FilePath> = NoDefault, .., live, "a file with its public keys, instead of jwks_url";
        algorithms: Texts = &["RS256", "ES256", "EdDSA"], .., live,
            "what its tokens may be signed with: of \"RS256\" (keys of 2048 to 4096 bits), \"ES256\" and \"EdDSA\" \
             (Ed25519)";
        user_claim: Text = "sub", .., live,
            "the claim that names the user and never names another one: 1 to 47 bytes, without any of / * + # $ % ? \
             { } and quotes. NAME and the claim have at most 64 bytes";
        role: Optional<ProvidedRoleWord> = NoDefault, .., live,
            "the role of a token of which role_claim says nothing, as user.role. Without this key and role_claim it is \
             \"viewer\"; without this key alone, such a token is refused";
        role_claim: Optional<Text> = NoDefault, .., live,
            "a claim that is, or lists, \"viewer\" or \"service\"; of both, service. A claim in an object is written \
             with dots, as realm_access.roles";
        wallets: Optional<Texts> = NoDefault, .., live,
            "a viewer's own wallets: {CLAIM} stands for a claim of the token, alone between colons. A token without \
             the claim, or with a colon in it, is refused";
        grants: Texts = &[], .., live, "what a user of role service may do, as service.grants";
        grants_claim: Optional<Text> = NoDefault, .., live,
            "a claim that lists more grants: whoever writes it decides on everything here";
        open_wallets_in: Optional<Text> = NoDefault, .., live,
            "the asset in which a viewer's wallets are opened when the viewer first asks the ledger anything; the \
             asset must be declared or used. Without this key, somebody with the grant accounts:open opens them";
        leeway_s: Seconds = 30, 0..=300, live, "seconds by which the provider's clock may differ";
        refresh_s: Seconds = 300, 1..=86_400, live,
            "seconds between two looks at the keys; a key that is gone is no good any more, and ends connections";
        refresh_least_s: Seconds = 30, 1..=3_600, live,
            "seconds at least between two of them: they are looked at sooner when a token names an unknown key, or \
             after a failure";
        keys_kept_s: Seconds = 86_400, 0..=31_536_000, live,
            "seconds that keys are good when no look succeeds; 0 for ever. A list without a usable key ends them at \
             once";
        fetch_timeout_s: Seconds = 5, 1..=60, live, "seconds that one look may take";
    }
}

/// Checks `[[identity_provider]]`, and that nobody of the file is called as its users may be.
pub fn settle(
    document: &Document,
    users: &[UserSettings],
    services: &[ServiceSettings],
) -> Result<Vec<Arc<ProviderSettings>>, ConfigError> {
    let providers: Vec<IdentityProviderKeys> = document.list()?;
    if providers.len() > PROVIDERS_MAX {
        let message = format!("identity_provider: there are {}, at most {PROVIDERS_MAX} may be", providers.len());
        return Err(document.error_at("identity_provider", message));
    }
    let mut settled: Vec<Arc<ProviderSettings>> = Vec::new();
    for (index, keys) in providers.into_iter().enumerate() {
        let reader = Reader { document, index };
        let provider = reader.settle(keys)?;
        reader.check_alone(&provider, &settled)?;
        let checked = check_users(&provider.name, &provider.wallets, users, services);
        checked.map_err(|(key, what)| reader.wrong(key, what))?;
        settled.push(Arc::new(provider));
    }
    Ok(settled)
}

/// Reads one of them.
struct Reader<'d> {
    document: &'d Document,
    index: usize,
}

impl Reader<'_> {
    fn wrong(&self, key: &str, what: impl std::fmt::Display) -> ConfigError {
        let path = self.path(key);
        self.document.error_at(&path, format!("identity_provider.{key}: {what}"))
    }

    fn path(&self, key: &str) -> String {
        format!("identity_provider[{}].{key}", self.index)
    }

    fn settle(&self, keys: IdentityProviderKeys) -> Result<ProviderSettings, ConfigError> {
        check_form(&keys.name).map_err(|(key, what)| self.wrong(key, what))?;
        if keys.audience.is_empty() {
            return Err(self.wrong("audience", "a token is for somebody; name who this server is to the provider"));
        }
        let role = match (keys.role, &keys.role_claim) {
            (None, None) => Some(ProvidedRole::Viewer),
            (role, _) => role,
        };
        let wallets = keys.wallets.unwrap_or_default();
        if wallets.is_empty() && keys.open_wallets_in.is_some() {
            return Err(self.wrong("open_wallets_in", "there are no wallets to open; write identity_provider.wallets"));
        }
        if let Some(asset) = keys.open_wallets_in.as_deref().filter(|asset| !is_asset(asset)) {
            return Err(self.wrong("open_wallets_in", format!("{asset:?} is no asset")));
        }
        Ok(ProviderSettings {
            keys: self.source(keys.jwks_url, keys.jwks_file)?,
            algorithms: self.algorithms(&keys.algorithms)?,
            wallets: self.wallets(&wallets)?,
            grants: parse_grants(self.document, &self.path("grants"), &keys.grants)?,
            name: keys.name,
            issuer: keys.issuer,
            audience: keys.audience,
            user_claim: keys.user_claim,
            role,
            role_claim: keys.role_claim,
            grants_claim: keys.grants_claim,
            open_wallets_in: keys.open_wallets_in,
            leeway_s: keys.leeway_s,
            refresh: Duration::from_secs(keys.refresh_s),
            refresh_least: Duration::from_secs(keys.refresh_least_s),
            kept: if keys.keys_kept_s == 0 { Duration::MAX } else { Duration::from_secs(keys.keys_kept_s) },
            timeout: Duration::from_secs(keys.fetch_timeout_s),
        })
    }

    fn source(&self, url: Option<Box<str>>, file: Option<std::path::PathBuf>) -> Result<KeySource, ConfigError> {
        match (url, file) {
            (Some(url), None) if is_safe(&url, false) => Ok(KeySource::Url(url)),
            (Some(url), None) => {
                let what = format!(
                    "{url:?}: expected an address with https, or with http on this machine: who changes the keys on \
                     their way here makes tokens of anybody"
                );
                Err(self.wrong("jwks_url", what))
            }
            (None, Some(file)) => Ok(KeySource::File(file)),
            (Some(_), Some(_)) => Err(self.wrong("jwks_file", "write jwks_url or jwks_file, not both")),
            (None, None) => Err(self.wrong("jwks_url", "jwks_url or jwks_file is missing: where its public keys are")),
        }
    }

    fn algorithms(&self, names: &[Box<str>]) -> Result<Vec<TokenAlgorithm>, ConfigError> {
        let wrong = |name: &str| {
            let what = format!("{name:?}: expected some of \"RS256\", \"ES256\" and \"EdDSA\"; others are not taken");
            self.wrong("algorithms", what)
        };
        if names.is_empty() {
            return Err(wrong(""));
        }
        names.iter().map(|name| TokenAlgorithm::of_name(name).ok_or_else(|| wrong(name))).collect()
    }

    fn wallets(&self, texts: &[Box<str>]) -> Result<Vec<Template>, ConfigError> {
        texts.iter().map(|text| text.parse().map_err(|error| self.wrong("wallets", error))).collect()
    }

    /// No other provider has its name, its issuer, or wallets that may be of its users.
    fn check_alone(&self, provider: &ProviderSettings, others: &[Arc<ProviderSettings>]) -> Result<(), ConfigError> {
        if let Some(other) = others.iter().find(|other| other.issuer == provider.issuer) {
            return Err(self.wrong("issuer", format!("provider {:?} has the same", other.name)));
        }
        check_others(&provider.name, &provider.wallets, others).map_err(|(key, what)| self.wrong(key, what))
    }
}

/// The key, and what is wrong with it.
type Wrong = (&'static str, String);

/// No provider of `others` is called `name`, or has users with wallets that `wallets` may make.
pub(super) fn check_others(name: &str, wallets: &[Template], others: &[Arc<ProviderSettings>]) -> Result<(), Wrong> {
    for other in others {
        if *other.name == *name {
            return Err(("name", format!("there is a provider {name:?} already")));
        }
        for wallet in wallets {
            if let Some(taken) = other.wallets.iter().find(|taken| taken.overlaps(wallet)) {
                let what = format!(
                    "\"{wallet}\" may be a wallet of a user of provider {:?}, by \"{taken}\"; write the name \
                     of the provider into it, as \"wallet:{name}:…\"",
                    other.name
                );
                return Err(("wallets", what));
            }
        }
    }
    Ok(())
}

/// `name` can be what users' names begin with.
pub(super) fn check_form(name: &str) -> Result<(), Wrong> {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_name) {
        return Ok(());
    }
    Err(("name", format!("{name:?}: expected 1 to {NAME_BYTES_MAX} of a-z, 0-9, _ and -")))
}

/// Nobody of the file is called as users of `name` may be, or has a wallet that `wallets` may make.
pub(super) fn check_users(
    name: &str,
    wallets: &[Template],
    users: &[UserSettings],
    services: &[ServiceSettings],
) -> Result<(), Wrong> {
    let prefix = format!("{name}:");
    let names = users.iter().map(|user| &*user.name);
    let mut names = names.chain(services.iter().flat_map(|service| [&*service.name, service.id_space.name()]));
    if let Some(taken) = names.find(|name| name.starts_with(&prefix)) {
        return Err((
            "name",
            format!("the user, service or id space {taken:?} is called as users of this provider are"),
        ));
    }
    let own = users.iter().filter_map(|user| match &user.rights {
        Rights::Viewer { wallets } => Some(wallets),
        Rights::Service { .. } => None,
    });
    for wallet in own.flatten() {
        if let Some(template) = wallets.iter().find(|template| template.may_make(wallet)) {
            let what = format!(
                "{wallet:?} of a [[user]] may be a wallet of a user of this provider, by \"{template}\"; write \
                 \"wallet:{name}:…\""
            );
            return Err(("wallets", what));
        }
    }
    Ok(())
}

/// Whether what is read from there is what its owner has written: over TLS, or from this machine; or from anywhere if
/// the operator takes that in `plain_http`.
pub fn is_safe(url: &str, plain_http: bool) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" => !host.is_empty(),
        "http" => is_here || plain_http && !host.is_empty(),
        _ => false,
    }
}
