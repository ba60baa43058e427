//! A cache of verified tokens: a request with a known token costs a map look-up instead of a signature check.
//!
//! Each thread has its own cache, so there is no lock. It is bounded: a flood of different tokens costs signature
//! checks, not memory. Only valid tokens enter, and a reload empties it. A few tokens of identity providers that were
//! refused are remembered for a second: a request is looked at more than once, and their signatures cost the most.

use std::net::IpAddr;

use super::authenticator::{AuthError, Authenticator, Session};
use super::generations::Generations;
use super::identity::Identity;
use super::principals::is_before;
use super::provider::PROVIDED_TOKEN_BYTES_MAX;

/// Refused tokens that are remembered.
const REFUSED_MAX: usize = 64;

/// A token that is remembered, as long as one may be, and its place in a table that has grown. Who it is of is shared.
pub const CACHED_TOKEN_BYTES: u64 =
    (PROVIDED_TOKEN_BYTES_MAX + 2 * size_of::<(Box<str>, Session)>() + size_of::<Identity>()) as u64;

/// Remembers sessions by their token.
#[derive(Debug)]
pub struct TokenCache {
    /// With the time at which the token was verified, in seconds since the epoch.
    sessions: Generations<Box<str>, (Session, u64)>,
    /// Why a token was refused, and when, in seconds since the epoch.
    refused: Generations<Box<str>, (AuthError, u64)>,
    /// Of the authenticator, when the first of them was verified.
    generation: u64,
}

impl TokenCache {
    /// Remembers at most `entries_max` tokens.
    pub fn new(entries_max: usize) -> TokenCache {
        TokenCache { sessions: Generations::new(entries_max), refused: Generations::new(REFUSED_MAX), generation: 0 }
    }

    /// Who has shown `bearer` before, if it is remembered and good at `now_s`; it is not verified.
    pub fn known(&self, by: &Authenticator, bearer: &str, now_s: u64) -> Option<Identity> {
        let is_current = self.generation == by.generation();
        let is_good = |(session, at_s): &&(Session, u64)| now_s < session.expires_at_s && !is_before(now_s, *at_s);
        let (session, _) = self.sessions.peek(bearer).filter(|_| is_current).filter(is_good)?;
        Some(session.identity.clone())
    }

    /// Who `bearer` is at `now_s` (seconds since the epoch); `address` as in [`Authenticator::rights_of`].
    pub fn authenticate(
        &mut self,
        by: &Authenticator,
        bearer: &str,
        address: Option<IpAddr>,
        now_s: u64,
    ) -> Result<Identity, AuthError> {
        let generation = by.generation();
        if self.generation != generation {
            self.sessions.clear();
            self.refused.clear();
            self.generation = generation;
        }
        if let Some((session, at_s)) = self.sessions.get(bearer) {
            match now_s < session.expires_at_s {
                // The clock was ahead when it was verified: it may have signed the token, too.
                _ if is_before(now_s, at_s) => self.sessions.remove(bearer),
                true => return Ok(session.identity),
                false => {
                    self.sessions.remove(bearer);
                    return Err(AuthError::Expired);
                }
            }
        }
        if let Some((error, at_s)) = self.refused.peek(bearer)
            && now_s <= at_s + 1
        {
            return Err(error.clone());
        }
        let session = by.authenticate_at(bearer, address, now_s).inspect_err(|error| {
            if matches!(error, AuthError::Refused(_) | AuthError::TooMany(_)) {
                self.refused.insert(bearer.into(), (error.clone(), now_s));
            }
        })?;
        self.sessions.insert(bearer.into(), (session.clone(), now_s));
        Ok(session.identity)
    }
}
