//! The services of the roster beside those of the configuration.
//!
//! ```text
//!   configuration ─┬─▶ its services ───────────────────────────┐
//!                  └─▶ names, api_grants ─┐                     ├─▶ who may come in
//!   roster ─▶ services ─▶ another name? ──┴─▶ grants allowed? ──┘
//! ```
//!
//! Promise: a service of the roster may never do more than the configuration of now allows services of the API, and
//! never stands in the place of one of the configuration. Why that is decided each time and not when a service is made:
//! an operator who takes a grant out of the configuration expects it to be gone.

use std::collections::HashSet;
use std::sync::Arc;

use tidegate_machines::ledger::IdSpace;
use tidegate_roster::{Roster, Service};

use super::authenticator::{AuthSettings, ServiceSettings};
use super::grant::Grant;
use super::identity::Rights;

/// The roster that is in force, and what the configuration says of it.
pub struct InForce {
    roster: Option<Arc<Roster>>,
    api_grants: Vec<Grant>,
    configured: HashSet<Box<str>>,
}

impl InForce {
    pub(super) fn new(configured: &AuthSettings, roster: Option<Arc<Roster>>) -> InForce {
        InForce { roster, api_grants: configured.api_grants.clone(), configured: names(configured) }
    }

    /// Whether the configuration has a service of this name.
    pub fn is_configured(&self, name: &str) -> bool {
        self.configured.contains(name)
    }

    /// Whether a service of the API may have this grant.
    pub fn allows(&self, grant: &Grant) -> bool {
        allows(&self.api_grants, grant)
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
}

fn names(settings: &AuthSettings) -> HashSet<Box<str>> {
    settings.services.iter().map(|service| service.name.clone()).collect()
}

fn allows(api_grants: &[Grant], grant: &Grant) -> bool {
    api_grants.iter().any(|allowed| allowed.covers(grant))
}

/// The settings with the services of the roster.
pub(super) fn together(configured: &AuthSettings, roster: Option<&Roster>) -> AuthSettings {
    let (names, mut settings) = (names(configured), configured.clone());
    let services = roster.into_iter().flat_map(Roster::services).filter(|(name, _)| !names.contains(*name));
    settings.services.extend(services.map(|(name, kept)| {
        let grants = kept.service.grants.iter().filter_map(|grant| grant.parse::<Grant>().ok());
        let grants = grants.filter(|grant| allows(&configured.api_grants, grant)).collect();
        ServiceSettings {
            name: name.clone(),
            token_sha256: kept.service.token_sha256.0,
            rights: Rights::Service { grants },
            id_space: IdSpace::default(),
            quota: None,
        }
    }));
    settings
}

/// Says in the log which services of the roster the new configuration takes the place of.
pub(super) fn tell_of_hidden(before: &AuthSettings, new: &AuthSettings, roster: Option<&Roster>) {
    let before = names(before);
    let hidden = names(new).into_iter().filter(|name| !before.contains(name));
    for name in hidden.filter(|name| roster.is_some_and(|roster| roster.services().contains_key(name))) {
        tracing::warn!(
            %name,
            "the configuration has a service of this name now: it is in force, and the one that was made through the \
             API is not"
        );
    }
}
