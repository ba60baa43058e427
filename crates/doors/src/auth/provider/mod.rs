//! Tokens of identity providers: who signs people in elsewhere (Keycloak, Auth0 …) is believed here, as far as the
//! configuration says.
//!
//! ```text
//!   bearer ─▶ issuer known? ─▶ audience, times ─▶ key of the token ─▶ signature ─▶ claims ─▶ name, role, wallets
//!                                                   ▲     └─ unknown: the keys are wanted again
//!   provider's JWKS ─ fetched at the edge ─▶ KeyRing
//! ```
//!
//! Promise: a token is good only by a key of its issuer's set of now, with the algorithm that the key is for and the
//! configuration lists; a token cannot choose. What costs least is looked at first, so that only a token that claims
//! all the right things costs a check of its signature, and a good token costs one once.
//!
//! Whose is what: the users of provider `show` are called `show:SUBJECT`. That name is their id space, their principal
//! has a kind of its own, and the configuration refuses users, services and id spaces of the file that begin so.
//!
//! Invariant: nothing here waits for I/O or reads a socket. Why checks are made where the token is shown, also on a
//! worker: see `docs/decisions/0022-identity-providers.md`. What is remembered of tokens is behind a mutex, which is
//! held for a look-up.

mod claims;
mod jwks;
mod key_ring;
mod refused;
mod settings;
mod signed;
mod template;
mod users;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_machines::IdSpace;

pub use jwks::{JWKS_BYTES_MAX, Jwks, JwksError};
pub use key_ring::{KeyRing, ProviderKeys};
pub use refused::Refused;
pub use settings::{KeySource, ProvidedRole, ProviderSettings, TokenAlgorithm};
pub use template::{Template, TemplateError};
pub(super) use template::{is_name_part, is_part};
pub(super) use users::{Bounds, ProvidedUsers};

use self::claims::{Claims, Mapped};
use self::jwks::KeyMark;
use self::signed::Signed;
use super::acl::{Acl, ClientRights, Holder};
use super::generations::Generations;
use super::identity::{Identity, Opening, Rights};
use super::principals::Known;

/// Longest token of a provider that is looked at, in bytes: it must fit into the first frame of the binary port.
pub(super) const PROVIDED_TOKEN_BYTES_MAX: usize = 6 << 10;
/// Tokens of one provider that were verified and are remembered.
const VERIFIED_MAX: usize = 1 << 16;
/// Users of one provider whose bounds and rights are remembered.
const USERS_MAX: usize = 1 << 16;

/// A provider, and what is known of its users.
pub(super) struct Provider {
    settings: Arc<ProviderSettings>,
    keys: Arc<KeyRing>,
    users: ProvidedUsers,
    /// By the hash of the token.
    verified: Mutex<Generations<[u8; 32], Verified>>,
}

/// What a token gave, so that it can be had again after a reload.
#[derive(Clone, Debug)]
pub struct Warrant {
    by: Arc<ProviderSettings>,
    key: KeyMark,
}

#[derive(Clone)]
struct Verified {
    known: Known,
    key: KeyMark,
    expires_at_s: u64,
}

/// What a token says before its signature is checked.
pub(super) struct Claimed<'t> {
    signed: Signed<'t>,
    claims: Claims,
}

impl<'t> Claimed<'t> {
    /// Reads a token; `None` if it is none that a provider can have made.
    pub fn read(bearer: &'t str) -> Option<Claimed<'t>> {
        let signed = Signed::split(bearer)?;
        let claims = Claims::read(&signed.payload()?)?;
        Some(Claimed { signed, claims })
    }

    /// Who claims to have made it.
    pub fn issuer(&self) -> &str {
        self.claims.issuer()
    }
}

impl Provider {
    /// By `settings`. Of `before`, the same provider, the keys stay if they come from the same place, and what its
    /// users had used up.
    pub fn new(settings: Arc<ProviderSettings>, acl: Arc<Acl>, bounds: Bounds, before: Option<&Provider>) -> Provider {
        let keys = before.filter(|before| before.settings.takes_keys_as(&settings)).map(|before| before.keys.clone());
        let users = ProvidedUsers::new(USERS_MAX, acl, bounds, before.map(|before| &before.users));
        let verified = Mutex::new(Generations::new(VERIFIED_MAX));
        Provider { settings, keys: keys.unwrap_or_default(), users, verified }
    }

    /// Its settings.
    pub fn settings(&self) -> &Arc<ProviderSettings> {
        &self.settings
    }

    /// Its keys, for whoever fetches them.
    pub fn keys(&self) -> ProviderKeys {
        ProviderKeys { settings: self.settings.clone(), ring: self.keys.clone() }
    }

    /// Who has shown the token with this hash before, if it is good at `now_s`, and until when.
    pub fn verified(&self, hash: &[u8; 32], now_s: u64) -> Option<(Known, u64)> {
        let found = self.remembered().get(hash)?;
        let is_good = now_s < found.expires_at_s && self.keys.has(&found.key);
        is_good.then_some((found.known, found.expires_at_s))
    }

    /// Everything about a token that costs little: `Ok` if only its signature is left to be checked.
    pub fn look(&self, token: &Claimed<'_>, now_s: u64) -> Result<(), Refused> {
        self.settings.check_header(token.signed.header())?;
        token.claims.check(&self.settings, now_s)
    }

    /// Who has shown `token`, which [`Provider::look`] found good, and until when it is.
    pub fn verify(&self, token: &Claimed<'_>, hash: [u8; 32]) -> Result<(Known, u64), Refused> {
        let keys = self.keys.load();
        let key = match keys.find(token.signed.header()) {
            Ok(key) => key,
            Err(refused) => {
                self.keys.want();
                return Err(refused);
            }
        };
        if !key.has_signed(&token.signed) {
            return Err(Refused::Signature);
        }
        let mapped = token.claims.map(&self.settings)?;
        let mark = *key.mark();
        let known = self.known(mapped, Some(mark));
        let expires_at_s = token.claims.expires_at_s().saturating_add(self.settings.leeway_s);
        let verified = Verified { known: known.clone(), key: mark, expires_at_s };
        self.remembered().insert(hash, verified);
        self.users.remember(&known);
        Ok((known, expires_at_s))
    }

    /// The rights of the same holder by these settings: none if the settings or the provider's keys have changed, since
    /// the token might give others now, or none.
    pub fn renewed(&self, identity: &Identity, warrant: &Warrant) -> Option<Arc<ClientRights>> {
        let is_good = *warrant.by == *self.settings && self.keys.has(&warrant.key);
        is_good.then(|| self.of_identity(identity.clone(), Some(warrant.key)).rights)
    }

    /// The rights of a user who need not be here: those that the last token gave, or, if none was shown lately, those
    /// that follow from the name alone.
    pub fn rights_of(&self, name: &str) -> Option<Arc<ClientRights>> {
        if let Some(known) = self.users.last(name).filter(|known| self.has_made(known)) {
            return Some(self.of_identity(known.identity, None).rights);
        }
        let subject = name.strip_prefix(&*self.settings.name)?.strip_prefix(':')?;
        let mapped = Claims::of_subject(&self.settings, subject).map(&self.settings);
        let nothing = || Mapped::nothing(&self.settings, subject).ok();
        Some(self.known(mapped.ok().or_else(nothing)?, None).rights)
    }

    /// Whether the rights were given by these settings.
    fn has_made(&self, known: &Known) -> bool {
        matches!(known.rights.holder(), Holder::Provided(_, warrant) if *warrant.by == *self.settings)
    }

    fn known(&self, mapped: Mapped, key: Option<KeyMark>) -> Known {
        let id_space = IdSpace::new(&mapped.name).filter(|space| !space.is_empty());
        let id_space = id_space.expect("names of users are checked to be names of id spaces");
        let identity = Identity::new(mapped.name, mapped.rights).with_id_space(id_space).opening(mapped.opening);
        self.of_identity(identity, key)
    }

    /// The caller with the bounds of now.
    fn of_identity(&self, identity: Identity, key: Option<KeyMark>) -> Known {
        let warrant = Warrant { by: self.settings.clone(), key: key.unwrap_or_default() };
        self.users.known(identity, |identity| Holder::Provided(identity, warrant))
    }

    fn remembered(&self) -> MutexGuard<'_, Generations<[u8; 32], Verified>> {
        self.verified.lock().expect("no thread panics while it holds what was seen")
    }
}

impl Warrant {
    /// The name of the provider.
    pub fn provider(&self) -> &str {
        &self.by.name
    }
}

/// The wallets that a user has opened on the first use.
fn opening(settings: &ProviderSettings, rights: &Rights) -> Option<Opening> {
    match rights {
        Rights::Viewer { wallets } => opening_of(settings.open_wallets_in.as_deref(), wallets),
        Rights::Service { .. } => None,
    }
}

/// How a viewer's wallets are opened in `asset`; `None` if there is nothing to open.
pub(super) fn opening_of(asset: Option<&str>, wallets: &[Box<str>]) -> Option<Opening> {
    asset.filter(|_| !wallets.is_empty()).map(|asset| Opening::new(asset.into(), wallets.into()))
}
