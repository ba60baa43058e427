//! Who is asking, and what may they do? Nothing behind a door moves or shows money before this module said yes.
//!
//! ```text
//!   user, password ──▶ LoginDesk (argon2, few threads) ──▶ token (JWT, HS256)
//!   bearer token   ──▶ Authenticator ──▶ Identity ──┐
//!   request        ─────────────────────────────────┴▶ gate::check ──▶ allowed | denied | needs kinds
//! ```
//!
//! Why apart from the doors: the HTTP door and the binary door must never disagree about a right. [`Authenticator`] is
//! immutable and shared by all threads without a lock; whatever changes (caches) belongs to one thread and is bounded.
//!
//! Invariant: nothing here reads a socket or waits for a shard. A question that only the ledger can answer (of what kind is
//! this account?) goes back to the door as [`gate::Verdict::NeedsKinds`].

mod authenticator;
pub mod gate;
mod generations;
mod grant;
mod identity;
mod kinds;
mod login;
mod password;
mod secret;
mod token;
mod token_cache;

#[cfg(test)]
mod tests;

pub use authenticator::{
    AuthError, AuthSettings, Authenticator, ServiceSettings, Session, UserSettings, now_s, service_token_hash,
};
pub use generations::Generations;
pub use grant::{Grant, GrantError, Pattern};
pub use identity::{Access, Identity, Rights};
pub use kinds::AccountKinds;
pub use login::{IssuedToken, LoginError, LoginLimits};
pub use password::{PasswordHash, PasswordHashError, hash_password};
pub use secret::{Secret, SecretError};
pub use token_cache::TokenCache;
