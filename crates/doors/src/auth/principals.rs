//! All users and services of the configuration, and what they may do. Immutable; a reload replaces all of it at once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Principal, PrincipalKind};

use super::acl::{Acl, ClientRights, Holder, Shown};
use super::authenticator::{AuthError, AuthSettings, Session, service_token_hash};
use super::hook::{Hook, Taken};
use super::identity::{Identity, Rights};
use super::password::PasswordHash;
use super::provider::{Bounds, Claimed, PROVIDED_TOKEN_BYTES_MAX, Provider, ProviderKeys, Refused};
use super::quota::{Quota, QuotaLimits};
use super::signing::SigningKey;
use super::strangers::Strangers;
use super::token::{Claims, Signer, TOKEN_BYTES_MAX, password_stamp};

/// So much may a clock go back, in seconds, and tokens that were signed before it did are good.
const CLOCK_STEPS_BACK_S: u64 = 300;

/// Whether it is so much earlier now than it was then, that the clock was ahead then.
pub(super) fn is_before(now_s: u64, then_s: u64) -> bool {
    now_s.saturating_add(CLOCK_STEPS_BACK_S) < then_s
}

/// A user or service, and the rights that all its MQTT clients share.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) identity: Identity,
    pub(super) rights: Arc<ClientRights>,
}

/// A person.
pub(super) struct User {
    pub(super) known: Known,
    pub(super) password_hash: PasswordHash,
    pub(super) stamp: String,
    /// The same rights, for who shows a certificate instead of the password.
    certified: Arc<ClientRights>,
}

/// Which client certificates are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertificateUsers {
    /// Only those that name a user of the configuration.
    #[default]
    Listed,
    /// Every certificate that the authorities have signed. Who is not listed has role `certificate`.
    Any,
}

/// Who may use which topics, and how they may come in; for MQTT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicAccess {
    /// Rules and policy.
    pub acl: Acl,
    /// Whose certificates are good.
    pub certificate_users: CertificateUsers,
}

/// Everybody of one configuration.
pub(super) struct Principals {
    /// Counts reloads.
    pub(super) generation: u64,
    pub(super) token_ttl: Duration,
    expiry_ends_connections: bool,
    pub(super) certificate_users: CertificateUsers,
    pub(super) anonymous: Arc<ClientRights>,
    /// Verified in place of an unknown user's hash, so that the time of a log-in does not tell which names exist.
    pub(super) decoy: PasswordHash,
    pub(super) strangers: Arc<Strangers>,
    users: HashMap<Box<str>, User>,
    services: HashMap<[u8; 32], Known>,
    /// By access key; those whose service is there.
    signing_keys: HashMap<Box<str>, SigningKey>,
    /// By name.
    providers: HashMap<Box<str>, Provider>,
    hook: Option<Arc<Hook>>,
    acl: Arc<Acl>,
}

impl Principals {
    /// Takes all users and services from `settings`. What they had used up `before` stays used up.
    pub(super) fn new(settings: AuthSettings, before: Option<&Principals>) -> Principals {
        let generation = before.map_or(0, |before| before.generation + 1);
        let same = before.map(|before| &before.strangers).filter(|used| used.limits() == settings.strangers);
        let strangers = same.cloned().unwrap_or_else(|| Arc::new(Strangers::new(settings.strangers)));
        let (viewers, all_services) = (settings.viewer_quota, settings.service_quota);
        let acl = Arc::new(settings.topics.acl);
        let costliest = settings.users.iter().map(|user| &user.password_hash).max_by_key(|hash| hash.cost()).cloned();
        let known = |identity: Identity, holder: &dyn Fn(Identity) -> Holder| {
            let rights = Arc::new(ClientRights::new(holder(identity.clone()), acl.clone()));
            Known { identity, rights }
        };
        let taken = Taken {
            wallets: settings.users.iter().flat_map(|user| user.rights.wallets()).cloned().collect(),
            templates: settings.identity_providers.iter().flat_map(|provider| provider.wallets.clone()).collect(),
        };
        let users = settings.users.into_iter().map(|user| {
            let limits = if matches!(user.rights, Rights::Viewer { .. }) { viewers } else { all_services };
            let before = before.and_then(|before| before.user(&user.name)).map(|user| &user.known);
            let identity = bounded(Identity::new(user.name.clone(), user.rights), limits, before);
            let stamp = password_stamp(&user.password_hash);
            let by_certificate = Holder::User(identity.clone(), Shown::Certificate);
            let certified = Arc::new(ClientRights::new(by_certificate, acl.clone()));
            let known = known(identity, &|identity| Holder::User(identity, Shown::Password(stamp.as_str().into())));
            (user.name, User { known, certified, stamp, password_hash: user.password_hash })
        });
        let services = settings.services.into_iter().map(|service| {
            let hash = service.token_sha256;
            let before = before.and_then(|before| before.services.get(&hash));
            let identity = Identity::new(service.name, service.rights).with_id_space(service.id_space);
            let identity = bounded(identity, service.quota.unwrap_or(all_services), before);
            (hash, known(identity, &|identity| Holder::Service(identity, hash)))
        });
        let services: HashMap<[u8; 32], Known> = services.collect();
        let signing_keys = settings.signing_keys.into_iter().filter_map(|key| {
            let known = services.values().find(|known| *known.identity.name() == *key.service)?;
            Some((key.access_key, SigningKey { secret: key.secret, identity: known.identity.clone() }))
        });
        let signing_keys = signing_keys.collect();
        let bounds = Bounds { viewer: viewers, service: all_services };
        let providers = settings.identity_providers.into_iter().map(|provider| {
            let before = before.and_then(|before| before.providers.get(&provider.name));
            let provider = Provider::new(provider, acl.clone(), bounds, before);
            (provider.settings().name.clone(), provider)
        });
        let hook = settings.auth_hook.map(|hook| {
            let before = before.and_then(|before| before.hook.as_deref());
            let per_address_max = settings.login_limits.waiting_per_address_max;
            Arc::new(Hook::new(hook, acl.clone(), bounds, taken, per_address_max, before))
        });
        Principals {
            generation,
            token_ttl: settings.token_ttl,
            expiry_ends_connections: settings.expiry_ends_connections,
            certificate_users: settings.topics.certificate_users,
            anonymous: Arc::new(ClientRights::new(Holder::Anonymous, acl.clone())),
            strangers,
            decoy: costliest.unwrap_or_else(PasswordHash::of_nobody),
            users: users.collect(),
            services,
            signing_keys,
            providers: providers.collect(),
            hook,
            acl,
        }
    }

    /// Whether nobody can show who it is.
    pub(super) fn knows_nobody(&self) -> bool {
        let nobody_is_listed = self.users.is_empty() && self.services.is_empty() && self.providers.is_empty();
        nobody_is_listed && self.hook.is_none() && self.certificate_users == CertificateUsers::Listed
    }

    /// The user of this name.
    pub(super) fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }

    /// Who `bearer` is at `now_s` (seconds since the epoch), and until when. It was shown from `address`, from where
    /// too much that was no good may have come; `None` if that was looked at before.
    pub(super) fn bearer(
        &self,
        signer: &Signer,
        bearer: &str,
        address: Option<IpAddr>,
        now_s: u64,
    ) -> Result<(Known, u64), AuthError> {
        let are_short = self.providers.is_empty() && self.hook.is_none();
        let bytes_max = if are_short { TOKEN_BYTES_MAX } else { PROVIDED_TOKEN_BYTES_MAX };
        match bearer.len() {
            0 => return Err(AuthError::Missing),
            bytes if bytes > bytes_max && self.providers.is_empty() => return Err(AuthError::Invalid),
            bytes if bytes > bytes_max => return Err(AuthError::Refused(Refused::TooLong)),
            _ => {}
        }
        // Looked up by hash: how long the comparison takes says nothing about the token.
        let hash = service_token_hash(bearer);
        if let Some(known) = self.services.get(&hash) {
            return Ok((known.clone(), u64::MAX));
        }
        if let Some(claims) = signer.read(bearer) {
            // A clock that was years ahead has signed it: it would be good for years.
            return match now_s >= claims.exp {
                true => Err(AuthError::Expired),
                false if is_before(now_s, claims.iat) => Err(AuthError::Invalid),
                false => self.signed(&claims),
            };
        }
        self.provided(bearer, hash, address, now_s)
    }

    /// Who has shown a token that was signed here, and until when it is good.
    fn signed(&self, claims: &Claims) -> Result<(Known, u64), AuthError> {
        let known = match &claims.hook {
            Some(granted) => {
                let hook = self.hook.as_ref().filter(|hook| *hook.stamp() == *claims.pwd);
                hook.and_then(|hook| hook.of_token(&claims.sub, granted))
            }
            None => {
                let user = self.users.get(claims.sub.as_str()).filter(|user| user.stamp == claims.pwd);
                user.map(|user| user.known.clone())
            }
        };
        Ok((known.ok_or(AuthError::Invalid)?, claims.exp))
    }

    /// Who `bearer`, with this hash, is by one of the identity providers.
    fn provided(
        &self,
        bearer: &str,
        hash: [u8; 32],
        address: Option<IpAddr>,
        now_s: u64,
    ) -> Result<(Known, u64), AuthError> {
        if self.providers.is_empty() {
            return Err(AuthError::Invalid);
        }
        if let Some(verified) = self.providers.values().find_map(|provider| provider.verified(&hash, now_s)) {
            return Ok(verified);
        }
        // What was no good costs more than it costs to say so.
        address.map_or(Ok(()), |address| self.strangers.look(address)).map_err(AuthError::TooMany)?;
        let token = Claimed::read(bearer).ok_or(AuthError::Invalid)?;
        let of_issuer = |provider: &&Provider| *provider.settings().issuer == *token.issuer();
        let provider = self.providers.values().find(of_issuer).ok_or(Refused::Issuer);
        let verified = provider.and_then(|provider| {
            provider.look(&token, now_s)?;
            provider.verify(&token, hash)
        });
        verified.map_err(|refused| {
            address.into_iter().for_each(|address| self.strangers.charge(address, 1));
            AuthError::Refused(refused)
        })
    }

    /// The key that requests name so.
    pub(super) fn signing_key(&self, access_key: &str) -> Option<SigningKey> {
        self.signing_keys.get(access_key).cloned()
    }

    /// The identity providers, for whoever fetches their keys.
    pub(super) fn provider_keys(&self) -> Vec<ProviderKeys> {
        self.providers.values().map(Provider::keys).collect()
    }

    /// The provider whose users are called as `name` is.
    fn provider_of(&self, name: &str) -> Option<&Provider> {
        self.providers.get(name.split_once(':')?.0)
    }

    /// The hook that decides on users who are not listed, if there is one.
    pub(super) fn hook(&self) -> Option<&Arc<Hook>> {
        self.hook.as_ref()
    }

    /// The hook, if it decides on who has this name.
    pub(super) fn hook_for(&self, name: &str) -> Option<&Arc<Hook>> {
        self.hook.as_ref().filter(|_| !self.users.contains_key(name))
    }

    /// The hook whose users are called as `name` is.
    fn hook_of(&self, name: &str) -> Option<&Arc<Hook>> {
        self.hook.as_ref().filter(|hook| name.split_once(':').is_some_and(|(of, _)| *of == *hook.name()))
    }

    /// When a connection ends that was opened with a token that expires at `expires_at_s`.
    pub(super) fn connection_ends(&self, expires_at_s: u64) -> Option<TimeMs> {
        let ends = self.expiry_ends_connections && expires_at_s != u64::MAX;
        ends.then(|| TimeMs(expires_at_s.saturating_mul(1_000)))
    }

    /// Who a certificate's common name stands for.
    pub(super) fn certified(&self, name: &str) -> Option<Arc<ClientRights>> {
        match (self.users.get(name), self.certificate_users) {
            (Some(user), _) => Some(user.certified.clone()),
            // Another's name would be the user's of a provider, and `%u` the same.
            (None, CertificateUsers::Any) if self.provider_of(name).is_none() && self.hook_of(name).is_none() => {
                Some(Arc::new(ClientRights::new(Holder::Certificate(name.into()), self.acl.clone())))
            }
            (None, CertificateUsers::Any | CertificateUsers::Listed) => None,
        }
    }

    /// The rights of who has made a session or a message.
    pub(super) fn of(&self, principal: &Principal) -> Option<Arc<ClientRights>> {
        match principal.kind() {
            PrincipalKind::User(name) => self.users.get(name).map(|user| user.known.rights.clone()),
            PrincipalKind::Service(name) => {
                let mut services = self.services.values();
                services.find(|known| known.identity.name() == name).map(|known| known.rights.clone())
            }
            PrincipalKind::Provided(name) => match self.provider_of(name) {
                Some(provider) => provider.rights_of(name),
                None => self.hook_of(name)?.rights_of(name),
            },
            PrincipalKind::Certificate(name) => self.certified(name),
            PrincipalKind::Address(_) => Some(self.anonymous.clone()),
            PrincipalKind::Unknown => None,
        }
    }

    /// The rights of the same holder by this configuration; `None` if it has none here.
    pub(super) fn renewed(&self, holder: &Holder) -> Option<Arc<ClientRights>> {
        match holder {
            Holder::User(identity, Shown::Certificate) => {
                self.users.get(identity.name()).map(|user| user.certified.clone())
            }
            Holder::User(identity, Shown::Password(stamp)) => {
                let user = self.users.get(identity.name()).filter(|user| *user.stamp == **stamp);
                user.map(|user| user.known.rights.clone())
            }
            Holder::Service(_, token) => self.services.get(token).map(|known| known.rights.clone()),
            Holder::Provided(identity, warrant) => self.providers.get(warrant.provider())?.renewed(identity, warrant),
            Holder::Hooked(identity, stamp) => self.hook.as_ref()?.renewed(identity, stamp),
            Holder::Certificate(name) => self.certified(name),
            Holder::Anonymous => Some(self.anonymous.clone()),
        }
    }
}

/// The caller with `limits`, and with what it has used up of the same ones `before`.
pub(super) fn bounded(identity: Identity, limits: QuotaLimits, before: Option<&Known>) -> Identity {
    let used = before.and_then(|before| before.identity.quota()).filter(|quota| *quota.limits() == limits);
    let quota = used.cloned().or_else(|| Quota::new(limits));
    let open_holds_max = if limits.open_holds_max == 0 { u32::MAX } else { limits.open_holds_max };
    identity.with_quota(quota, open_holds_max)
}

impl Known {
    pub(super) fn session(&self, expires_at_s: u64) -> Session {
        Session { identity: self.identity.clone(), expires_at_s }
    }
}
