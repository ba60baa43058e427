//! From a bearer token to an [`Identity`]: immutable after start, shared by all threads, never waits.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use super::identity::{Identity, Rights};
use super::login::{IssuedToken, LoginDesk, LoginError, LoginLimits};
use super::password::PasswordHash;
use super::secret::Secret;
use super::token::{Claims, Signer, TOKEN_BYTES_MAX, password_stamp};

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
}

/// A person.
#[derive(Clone, Debug)]
pub struct UserSettings {
    /// Log-in name.
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
}

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No token.
    #[error("send a token as `Authorization: Bearer TOKEN`; POST /v1/login gives one")]
    Missing,
    /// Not a token of ours, or of a user who is gone or has a new password.
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

struct User {
    identity: Identity,
    password_hash: PasswordHash,
    stamp: String,
}

/// Knows all users and services.
pub struct Authenticator {
    users: HashMap<Box<str>, User>,
    services: HashMap<[u8; 32], Identity>,
    signer: Signer,
    token_ttl: Duration,
    desk: LoginDesk,
    /// Verified in place of an unknown user's hash, so that the time of a log-in does not tell which names exist.
    decoy: PasswordHash,
}

impl Authenticator {
    /// Takes the settings and starts the threads that check passwords.
    pub fn new(settings: AuthSettings) -> Authenticator {
        let costliest = settings.users.iter().map(|user| &user.password_hash).max_by_key(|hash| hash.cost()).cloned();
        let users = settings.users.into_iter().map(|user| {
            let known = User {
                identity: Identity::new(user.name.clone(), user.rights),
                stamp: password_stamp(&user.password_hash),
                password_hash: user.password_hash,
            };
            (user.name, known)
        });
        let services = settings.services.into_iter();
        Authenticator {
            users: users.collect(),
            services: services.map(|s| (s.token_sha256, Identity::new(s.name, s.rights))).collect(),
            signer: Signer::new(&settings.secret),
            token_ttl: settings.token_ttl,
            desk: LoginDesk::open(settings.login_limits),
            decoy: costliest.unwrap_or_else(|| super::password::hash_password("")),
        }
    }

    /// Who `bearer` is, now.
    pub fn authenticate(&self, bearer: &str) -> Result<Identity, AuthError> {
        self.authenticate_at(bearer, now_s()).map(|session| session.identity)
    }

    /// Who `bearer` is at `now_s` (seconds since the epoch), and until when.
    pub fn authenticate_at(&self, bearer: &str, now_s: u64) -> Result<Session, AuthError> {
        if bearer.is_empty() {
            return Err(AuthError::Missing);
        }
        if bearer.len() > TOKEN_BYTES_MAX {
            return Err(AuthError::Invalid);
        }
        // Looked up by hash: how long the comparison takes says nothing about the token.
        if let Some(identity) = self.services.get(&service_token_hash(bearer)) {
            return Ok(Session { identity: identity.clone(), expires_at_s: u64::MAX });
        }
        let claims = self.signer.read(bearer).ok_or(AuthError::Invalid)?;
        let user = self.users.get(claims.sub.as_str()).filter(|user| user.stamp == claims.pwd);
        let user = user.ok_or(AuthError::Invalid)?;
        if now_s >= claims.exp {
            return Err(AuthError::Expired);
        }
        Ok(Session { identity: user.identity.clone(), expires_at_s: claims.exp })
    }

    /// Checks a password on one of few threads and gives a token. `Busy` when too many wait already; a wrong password and an
    /// unknown user take the same time and give the same answer.
    pub async fn log_in(&self, user: &str, password: &str) -> Result<IssuedToken, LoginError> {
        let known = self.users.get(user);
        let hash = known.map_or(&self.decoy, |user| &user.password_hash);
        let correct = self.desk.verify(hash.clone(), password.to_owned()).await?;
        match known {
            Some(known) if correct => Ok(self.issue(known, now_s())),
            _ => Err(LoginError::Wrong),
        }
    }

    fn issue(&self, user: &User, now_s: u64) -> IssuedToken {
        let expires_at_s = now_s.saturating_add(self.token_ttl.as_secs());
        let sub = user.identity.name().to_owned();
        let token = self.signer.sign(&Claims { sub, iat: now_s, exp: expires_at_s, pwd: user.stamp.clone() });
        IssuedToken { token, expires_at_s }
    }
}

/// What a service's token is known by: its SHA-256.
pub fn service_token_hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Seconds since the epoch.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
