//! The services and users of the roster beside those of the configuration.
//!
//! ```text
//!   configuration ─┬─▶ its services and users ──────────────────────────────┐
//!                  └─▶ names, api_grants, api_wallets ─┐                     ├─▶ who may come in
//!   roster ─▶ services, users ─▶ another name? ────────┴─▶ what is allowed ──┘
//! ```
//!
//! Promise: nobody of the roster may ever do more than the configuration of now allows those of the API, has a wallet
//! of a user of the configuration, or stands in the place of one of the configuration. Why that is decided each time
//! and not when one is made: an operator who takes a grant out of the configuration expects it to be gone.
//!
//! A name gives rights: rules permit something to the user or service of a name, and `%u` stands for it. So a name that
//! the configuration has, whosever it is, is nobody's of the roster. A role gives rights, too: without a wallet that
//! may be given there are no viewers of the roster, and without a grant nobody of role service.

use std::collections::HashSet;
use std::sync::Arc;

use tidegate_machines::IdSpace;
use tidegate_roster::{Roster, Service, User, UserRights};

use super::acl::Effect;
use super::authenticator::{AuthSettings, ServiceSettings, UserSettings};
use super::grant::Grant;
use super::hook::USER_CLAIM;
use super::identity::Rights;
use super::password::PasswordHash;
use super::provider::{Template, is_part};

/// What the configuration says of those of the roster.
struct Configured {
    api_grants: Vec<Grant>,
    api_wallets: Vec<Template>,
    /// Of users and services, and of those whom a rule permits something.
    names: HashSet<Box<str>>,
    /// What stands before the colon in the names of users of identity providers and of the hook.
    elsewhere: HashSet<Box<str>>,
    /// The spaces of services' ids: a viewer's name is one, too.
    spaces: HashSet<Box<str>>,
    /// Wallets of its users.
    wallets: HashSet<Box<str>>,
}

impl Configured {
    fn of(settings: &AuthSettings) -> Configured {
        let users = settings.users.iter().map(|user| &user.name);
        let services = settings.services.iter().map(|service| &service.name);
        let permits = settings.topics.acl.rules.iter().filter(|rule| rule.effect == Effect::Permit);
        let permitted = permits.filter_map(|rule| rule.who.user.as_ref());
        let providers = settings.identity_providers.iter().map(|provider| &provider.name);
        let hook = settings.auth_hook.iter().map(|hook| &hook.name);
        Configured {
            api_grants: settings.api_grants.clone(),
            api_wallets: settings.api_wallets.clone(),
            names: users.chain(services).chain(permitted).cloned().collect(),
            elsewhere: providers.chain(hook).cloned().collect(),
            spaces: settings.services.iter().map(|service| service.id_space.name().into()).collect(),
            wallets: settings.users.iter().flat_map(|user| user.rights.wallets()).cloned().collect(),
        }
    }

    fn has(&self, name: &str) -> bool {
        let is_elsewhere = || name.split_once(':').is_some_and(|(whose, _)| self.elsewhere.contains(whose));
        self.names.contains(name) || is_elsewhere()
    }

    fn has_user(&self, name: &str) -> bool {
        self.has(name) || self.spaces.contains(name)
    }

    fn allows_services(&self) -> bool {
        !self.api_grants.is_empty()
    }

    fn allows_viewers(&self) -> bool {
        !self.api_wallets.is_empty()
    }

    fn hides(&self, name: &str) -> bool {
        self.has(name) || !self.allows_services()
    }

    fn hides_user(&self, name: &str, rights: &UserRights) -> bool {
        let is_allowed = match rights {
            UserRights::Viewer(_) => self.allows_viewers(),
            UserRights::Service(_) => self.allows_services(),
        };
        self.has_user(name) || !is_allowed
    }

    fn allows(&self, grant: &Grant) -> bool {
        self.api_grants.iter().any(|allowed| allowed.covers(grant))
    }

    fn allows_wallet(&self, user: &str, wallet: &str) -> bool {
        let claim = |name: &str| (name == USER_CLAIM && is_part(user)).then(|| user.into());
        let is_given = |template: &Template| template.fill(claim).is_some_and(|filled| *filled == *wallet);
        !self.wallets.contains(wallet) && self.api_wallets.iter().any(is_given)
    }

    /// The grants that are allowed.
    fn grants(&self, grants: &[Box<str>]) -> Vec<Grant> {
        let grants = grants.iter().filter_map(|grant| grant.parse::<Grant>().ok());
        grants.filter(|grant| self.allows(grant)).collect()
    }

    fn rights(&self, name: &str, rights: &UserRights) -> Rights {
        match rights {
            UserRights::Viewer(wallets) => {
                let allowed = wallets.iter().filter(|wallet| self.allows_wallet(name, wallet));
                Rights::Viewer { wallets: allowed.cloned().collect() }
            }
            UserRights::Service(grants) => Rights::Service { grants: self.grants(grants) },
        }
    }
}

/// The roster that is in force, and what the configuration says of it.
pub struct InForce {
    roster: Option<Arc<Roster>>,
    configured: Configured,
}

impl InForce {
    pub(super) fn new(configured: &AuthSettings, roster: Option<Arc<Roster>>) -> InForce {
        InForce { roster, configured: Configured::of(configured) }
    }

    /// Whether the configuration has this name for a service, a user or somebody whom a rule permits something, or it
    /// is as those of an identity provider or of the hook.
    pub fn is_configured(&self, name: &str) -> bool {
        self.configured.has(name)
    }

    /// Whether that is so, or a service has its ids in a space of this name.
    pub fn is_configured_user(&self, name: &str) -> bool {
        self.configured.has_user(name)
    }

    /// Whether the API may make services, and users of role service: the configuration has a grant for them.
    pub fn allows_services(&self) -> bool {
        self.configured.allows_services()
    }

    /// Whether the API may make viewers: the configuration has a wallet for them.
    pub fn allows_viewers(&self) -> bool {
        self.configured.allows_viewers()
    }

    /// Whether the service of the API of this name may not come in.
    pub fn hides(&self, name: &str) -> bool {
        self.configured.hides(name)
    }

    /// Whether the user of the API of this name, with these rights, may not come in.
    pub fn hides_user(&self, name: &str, rights: &UserRights) -> bool {
        self.configured.hides_user(name, rights)
    }

    /// Whether a service or user of the API may have this grant.
    pub fn allows(&self, grant: &Grant) -> bool {
        self.configured.allows(grant)
    }

    /// Whether the viewer of this name of the API may have this wallet.
    pub fn allows_wallet(&self, user: &str, wallet: &str) -> bool {
        self.configured.allows_wallet(user, wallet)
    }

    /// The service of the API of this name.
    pub fn service(&self, name: &str) -> Option<&Service> {
        self.roster.as_ref()?.services().get(name).map(|kept| &kept.service)
    }

    /// The services of the API behind this name, in the byte order of their names.
    pub fn services_after<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, &'a Service)> {
        let services = self.roster.iter().flat_map(|roster| roster.services());
        services.map(|(name, kept)| (&**name, &kept.service)).skip_while(move |(this, _)| *this <= name)
    }

    /// The user of the API of this name.
    pub fn user(&self, name: &str) -> Option<&User> {
        self.roster.as_ref()?.users().get(name).map(|kept| &kept.user)
    }

    /// The users of the API behind this name, in the byte order of their names.
    pub fn users_after<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, &'a User)> {
        let users = self.roster.iter().flat_map(|roster| roster.users());
        users.map(|(name, kept)| (&**name, &kept.user)).skip_while(move |(this, _)| *this <= name)
    }
}

/// Whether a user of this name may be made through the API: it can be a part of a wallet's id, of a topic and of a
/// rule, and is not called as users of identity providers and of the hook are.
pub fn is_api_user_name(name: &str) -> bool {
    is_part(name) && IdSpace::new(name).is_some_and(|space| !space.is_empty())
}

/// The settings with the services and users of the roster.
pub(super) fn together(settings: &AuthSettings, roster: Option<&Roster>) -> AuthSettings {
    let (configured, mut together) = (Configured::of(settings), settings.clone());
    let Some(roster) = roster else { return together };
    let services = roster.services().iter().filter(|(name, _)| !configured.hides(name));
    together.services.extend(services.map(|(name, kept)| ServiceSettings {
        name: name.clone(),
        token_sha256: kept.service.token_sha256.0,
        rights: Rights::Service { grants: configured.grants(&kept.service.grants) },
        id_space: IdSpace::default(),
        quota: None,
    }));
    let users = roster.users().iter().filter(|(name, kept)| !configured.hides_user(name, &kept.user.rights));
    together.users.extend(users.filter_map(|(name, kept)| {
        let password_hash = PasswordHash::parse(&kept.user.password_hash).ok()?;
        Some(UserSettings { name: name.clone(), password_hash, rights: configured.rights(name, &kept.user.rights) })
    }));
    together
}

/// Says in the log which services and users of the roster the new configuration takes the place of.
pub(super) fn tell_of_hidden(before: &AuthSettings, new: &AuthSettings, roster: Option<&Roster>) {
    let Some(roster) = roster else { return };
    let (before, new) = (Configured::of(before), Configured::of(new));
    let services = roster.services().keys().filter(|name| new.has(name) && !before.has(name));
    let users = roster.users().keys().filter(|name| new.has_user(name) && !before.has_user(name));
    for (kind, name) in services.map(|name| ("service", name)).chain(users.map(|name| ("user", name))) {
        tracing::warn!(
            %name,
            "the configuration has this name now, and the {kind} of this name that was made through the API is not in \
             force any more"
        );
    }
}
