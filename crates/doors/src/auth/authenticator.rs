//! Turns a bearer token into an [`Identity`]. All threads share it, it never waits, and a reload replaces all it knows.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use tidegate_machines::ledger::IdSpace;

use super::acl::ClientRights;
use super::identity::{Identity, Rights};
use super::login::{IssuedToken, LoginError, LoginLimits, PasswordChecker};
use super::password::PasswordHash;
use super::principals::{Principals, TopicAccess, User};
use super::quota::QuotaLimits;
use super::secret::Secret;
use super::token::{Claims, Signer};

/// Everything that decides who may come in.
#[derive(Clone, Debug)]
pub struct AuthSettings {
    /// People, who log in with a password.
    pub users: Vec<UserSettings>,
    /// Programs, which send a fixed token.
    pub services: Vec<ServiceSettings>,
    /// Key that signs tokens.
    pub secret: Secret,
    /// How long a log-in is good for.
    pub token_ttl: Duration,
    /// How many log-ins are worked on.
    pub login_limits: LoginLimits,
    /// Who may use which topics of MQTT.
    pub topics: TopicAccess,
    /// What each viewer may use up.
    pub viewer_quota: QuotaLimits,
    /// What each service may use up that has no bounds of its own.
    pub service_quota: QuotaLimits,
}

/// A person.
#[derive(Clone, Debug)]
pub struct UserSettings {
    /// Log-in name; of a viewer, the name of the id space, too.
    pub name: Box<str>,
    /// Hash of the password.
    pub password_hash: PasswordHash,
    /// What they may do.
    pub rights: Rights,
}

/// A program.
#[derive(Clone, Debug)]
pub struct ServiceSettings {
    /// Name, for logs.
    pub name: Box<str>,
    /// SHA-256 of the token.
    pub token_sha256: [u8; 32],
    /// What it may do.
    pub rights: Rights,
    /// In which space its ids are unique.
    pub id_space: IdSpace,
    /// What it may use up; `None` for what services may.
    pub quota: Option<QuotaLimits>,
}

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No token.
    #[error("send a token as `Authorization: Bearer TOKEN`; POST /v1/login gives one")]
    Missing,
    /// The token was not signed here, or its user was removed or has a new password.
    #[error("the token is not valid; POST /v1/login gives a new one")]
    Invalid,
    /// It was good once.
    #[error("the token has expired; POST /v1/login gives a new one")]
    Expired,
}

/// A caller and until when the token behind them is good.
#[derive(Clone, Debug)]
pub struct Session {
    /// Who.
    pub identity: Identity,
    /// First second since the epoch at which the token is no longer good; `u64::MAX` for services.
    pub expires_at_s: u64,
}

/// Knows all users and services. Shared by all threads; a reload may replace what it knows at any time.
pub struct Authenticator {
    principals: Arc<ArcSwap<Principals>>,
    signer: Signer,
    password_checker: PasswordChecker,
}

impl Authenticator {
    /// Takes the settings and starts the threads that check passwords.
    pub fn new(settings: AuthSettings) -> Authenticator {
        Authenticator {
            signer: Signer::new(&settings.secret),
            password_checker: PasswordChecker::open(settings.login_limits),
            principals: Arc::new(ArcSwap::from_pointee(Principals::new(settings, None))),
        }
    }

    /// Replaces users, services, bounds and rules. What a caller has used up of bounds that stay stays so. The key that
    /// signs tokens and the threads that check passwords stay.
    pub fn reload(&self, settings: AuthSettings) {
        let before = self.principals.load_full();
        self.principals.store(Arc::new(Principals::new(settings, Some(&before))));
    }

    /// The number of reloads. A cached identity is valid only as long as this number stays the same.
    pub fn generation(&self) -> u64 {
        self.principals.load().generation
    }

    /// Who `bearer` is, now.
    pub fn authenticate(&self, bearer: &str) -> Result<Identity, AuthError> {
        self.authenticate_at(bearer, now_s()).map(|session| session.identity)
    }

    /// What `bearer` may do, now.
    pub fn rights_of(&self, bearer: &str) -> Result<Arc<ClientRights>, AuthError> {
        let principals = self.principals.load();
        principals.bearer(&self.signer, bearer, now_s()).map(|(known, _)| known.rights.clone())
    }

    /// The rights that their owner has by the current configuration; `None` if it has taken them away.
    pub fn renewed(&self, rights: &ClientRights) -> Option<Arc<ClientRights>> {
        self.principals.load().renewed(rights.holder())
    }

    /// Who `bearer` is at `now_s` (seconds since the epoch), and until when.
    pub fn authenticate_at(&self, bearer: &str, now_s: u64) -> Result<Session, AuthError> {
        let principals = self.principals.load();
        let (known, expires_at_s) = principals.bearer(&self.signer, bearer, now_s)?;
        Ok(known.session(expires_at_s))
    }

    /// Checks a password on one of few threads and gives a token. `Busy` when too many wait already; a wrong password
    /// and an unknown user take the same time and give the same answer.
    pub async fn log_in(&self, user: &str, password: &str) -> Result<IssuedToken, LoginError> {
        let principals = self.principals.load_full();
        let known = principals.user(user);
        let hash = known.map_or(&principals.decoy, |user| &user.password_hash);
        let correct = self.password_checker.verify(hash.clone(), password.to_owned()).await?;
        match known {
            Some(known) if correct => Ok(self.issue(known, principals.token_ttl, now_s())),
            _ => Err(LoginError::Wrong),
        }
    }

    /// Everybody of now.
    pub(super) fn principals(&self) -> &Arc<ArcSwap<Principals>> {
        &self.principals
    }

    /// Who signs tokens.
    pub(super) fn signer(&self) -> &Signer {
        &self.signer
    }

    /// Where passwords are checked.
    pub(super) fn password_checker(&self) -> &PasswordChecker {
        &self.password_checker
    }

    fn issue(&self, user: &User, token_ttl: Duration, now_s: u64) -> IssuedToken {
        let expires_at_s = now_s.saturating_add(token_ttl.as_secs());
        let sub = user.known.identity.name().to_owned();
        let token = self.signer.sign(&Claims { sub, iat: now_s, exp: expires_at_s, pwd: user.stamp.clone() });
        IssuedToken { token, expires_at_s }
    }
}

/// The SHA-256 of a service's token, by which it is looked up.
pub fn service_token_hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Seconds since the epoch.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
