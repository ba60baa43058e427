//! A cache of verified tokens: a request with a known token costs a map look-up instead of a signature check.
//!
//! Each thread has its own cache, so there is no lock. It is bounded: a flood of different tokens costs signature
//! checks, not memory. Only valid tokens enter, and a reload empties it.

use super::authenticator::{AuthError, Authenticator, Session};
use super::generations::Generations;
use super::identity::Identity;

/// Remembers sessions by their token.
#[derive(Debug)]
pub struct TokenCache {
    sessions: Generations<Box<str>, Session>,
    /// Of the authenticator, when the first of them was verified.
    generation: u64,
}

impl TokenCache {
    /// Remembers at most `entries_max` tokens.
    pub fn new(entries_max: usize) -> TokenCache {
        TokenCache { sessions: Generations::new(entries_max), generation: 0 }
    }

    /// Who has shown `bearer` before, if it is remembered and good at `now_s`; it is not verified.
    pub fn known(&self, by: &Authenticator, bearer: &str, now_s: u64) -> Option<Identity> {
        let is_current = self.generation == by.generation();
        let session = self.sessions.peek(bearer).filter(|session| is_current && now_s < session.expires_at_s)?;
        Some(session.identity.clone())
    }

    /// Who `bearer` is at `now_s` (seconds since the epoch).
    pub fn authenticate(&mut self, by: &Authenticator, bearer: &str, now_s: u64) -> Result<Identity, AuthError> {
        let generation = by.generation();
        if self.generation != generation {
            self.sessions.clear();
            self.generation = generation;
        }
        if let Some(session) = self.sessions.get(bearer) {
            if now_s < session.expires_at_s {
                return Ok(session.identity);
            }
            self.sessions.remove(bearer);
            return Err(AuthError::Expired);
        }
        let session = by.authenticate_at(bearer, now_s)?;
        self.sessions.insert(bearer.into(), session.clone());
        Ok(session.identity)
    }
}
