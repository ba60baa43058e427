//! Who a caller is, and what they may do. No request that moves or shows money gets past a door before it is checked
//! here.
//!
//! ```text
//!   user, password ──▶ Logins (fair shares, argon2, few threads) ──▶ token (JWT, HS256)
//!   bearer token   ──▶ Authenticator ──▶ Identity ──┐
//!   request        ─────────────────────────────────┴▶ gate::check ──▶ allowed | denied | needs kinds
//!   MQTT CONNECT   ──▶ credentials   ──▶ acl::ClientRights ◀── may this client publish, subscribe? ── broker
//! ```
//!
//! Why apart from the doors: the HTTP door and the binary door must never disagree about a right. All threads share the
//! [`Authenticator`], and a reload replaces the users and services that it knows. What is remembered of a provider's
//! tokens is behind a short lock; everything else that changes (caches) belongs to one thread and is bounded.
//!
//! A token of an identity provider takes the same way, by the provider's keys: see [`provider`]. On a user name that is
//! not in the configuration, a program of the operator may decide: see [`hook`].
//!
//! A token is checked when it is shown: with each HTTP request, with the Hello of a binary connection, with the CONNECT
//! of an MQTT client. Whether a connection ends when its token expires is the configuration's choice. To end a user's
//! connections at once, an operator removes the user from the configuration, or changes the password, and reloads it.
//!
//! Invariant: nothing here reads a socket or waits for a shard. A question that only the ledger can answer (of what
//! kind is this account?) goes back to the door as [`gate::Verdict::NeedsKinds`].

pub mod acl;
mod authenticator;
pub mod clients;
mod credentials;
mod cursor;
pub mod gate;
mod generations;
mod grant;
pub mod hook;
mod identity;
mod kinds;
mod login;
mod password;
mod principals;
pub mod provider;
pub mod quota;
mod roster;
mod secret;
mod signing;
mod strangers;
mod token;
mod token_cache;

#[cfg(test)]
pub(crate) mod tests;

pub use authenticator::{
    AuthError, AuthSettings, Authenticator, ServiceSettings, Session, UserSettings, now_s, service_token_hash,
};
pub use cursor::CursorSeal;
pub use generations::Generations;
pub use grant::{Action, Grant, GrantError, Pattern, QueueAction};
pub use identity::{Access, Identity, Opening, Rights};
pub use kinds::AccountKinds;
pub use login::{IssuedToken, LoginError, LoginLimits};
pub use password::{PASSWORD_BYTES_MAX, PasswordHash, PasswordHashError, check_new_password, hash_password};
pub use principals::{CertificateUsers, TopicAccess};
pub use roster::{InForce, is_api_user_name};
pub use secret::{Secret, SecretError};
pub use signing::{SigningKey, SigningKeySettings, SigningSecret};
pub use strangers::{HeldBytes, StrangerLimits};
pub use token_cache::{CACHED_TOKEN_BYTES, TokenCache};
