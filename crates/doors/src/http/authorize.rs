//! From the `Authorization` header to who sends a request.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, header};

use super::door::Door;
use super::turns::rounds_of_rows;
use super::walks::WalkPlace;
use crate::auth::acl::ClientRights;
use crate::auth::{AuthError, Identity, SigningKey, now_s};
use crate::json::{Problem, codes};
use crate::turns::{CallerMark, CallerName};

impl Door {
    /// Who sends the request with these headers, once for each request: it is counted. What they may do is for the room
    /// to ask of the [`Identity`].
    pub fn caller(&self, headers: &HeaderMap) -> Result<Identity, Problem> {
        let caller = self.authenticated(headers)?;
        caller.arrive()?;
        Ok(caller)
    }

    /// Who sent these headers, as it is now: a reload may have changed what they may do. Counts nothing.
    pub fn caller_now(&self, headers: &HeaderMap) -> Result<Identity, Problem> {
        self.authenticated(headers)
    }

    /// The key that a signed request names; `None` if there is none. Counts nothing.
    pub fn signing_key(&self, access_key: &str) -> Option<SigningKey> {
        self.authenticator.signing_key(access_key)
    }

    /// The same for a stream that goes on: it owes a request, and is not refused because it comes too soon. It waits
    /// by [`Door::pause_of_stream`].
    pub fn caller_of_stream(&self, headers: &HeaderMap) -> Result<Identity, Problem> {
        let caller = self.authenticated(headers)?;
        caller.charge(1);
        Ok(caller)
    }

    /// Until the next part of a stream of this caller is due; not longer than what waits for the part is patient.
    pub async fn pause_of_stream(&self, caller: &Identity) {
        let pause = caller.pause_of_stream().min(self.limits().request_timeout / 2);
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }

    fn authenticated(&self, headers: &HeaderMap) -> Result<Identity, Problem> {
        let bearer = bearer(headers)?;
        let mut tokens = self.tokens.lock().expect("no thread panics while it holds the cache");
        Ok(tokens.authenticate(&self.authenticator, bearer, None, now_s())?)
    }
}

impl Door {
    /// What whoever sends the request with these headers may do with topics. Counts nothing.
    pub fn topic_rights(&self, headers: &HeaderMap) -> Result<Arc<ClientRights>, Problem> {
        Ok(self.authenticator.rights_of(bearer(headers)?, None)?.0)
    }

    /// Counts a request that is answered whoever asks it, or refused: among those of its sender if the sender is known,
    /// so that they are no matter of what others do, else among those of its address.
    pub fn count(&self, headers: &HeaderMap, address: IpAddr) -> Result<(), Problem> {
        match self.caller(headers) {
            Ok(_) => Ok(()),
            Err(problem) if problem.code() == codes::TOO_MANY_REQUESTS => Err(problem),
            Err(_) => Ok(self.authenticator.arrive(address)?),
        }
    }

    /// Counts a request that needs no token among those of its address.
    pub fn count_stranger(&self, address: IpAddr) -> Result<(), Problem> {
        Ok(self.authenticator.arrive(address)?)
    }

    /// An answer was worth so many requests more than the one that was counted: its sender owes them.
    pub(super) fn charge(&self, headers: &HeaderMap, address: IpAddr, requests: u32) {
        match self.known(headers) {
            Some(caller) => caller.charge(requests),
            None => self.authenticator.charge(address, requests),
        }
    }

    /// Among whose requests one takes its turn: of whoever has shown its token before, as [`Door::known`] says, else of
    /// its address. Nothing is verified before it is its turn.
    pub(super) fn mark(&self, known: Option<&Identity>, address: IpAddr) -> CallerMark {
        let name = known.map(CallerName::of_identity);
        self.turns.mark(&name.unwrap_or_else(|| CallerName::of_address(address)))
    }

    /// A place to read a large piece, when it is this caller's turn.
    pub async fn place_to_walk(&self, caller: &Identity) -> Result<WalkPlace, Problem> {
        self.in_time(self.walks.place(CallerName::of_identity(caller))).await
    }

    /// So many rows were read for this caller that no answer shows: it waits for as many rounds as they cost.
    pub async fn take_turns_of_rows(&self, caller: &Identity, rows: usize) {
        let rounds = rounds_of_rows(rows);
        if rounds > 0 {
            self.turns.take(self.mark_of(caller), rounds).await;
        }
    }

    fn mark_of(&self, caller: &Identity) -> CallerMark {
        self.turns.mark(&CallerName::of_identity(caller))
    }

    /// Whose good token these headers show, which came from `address`. No request is counted. Each request comes here
    /// before any other look at its token, so this is where addresses are.
    pub(super) fn shown(&self, headers: &HeaderMap, address: IpAddr) -> Option<CallerName> {
        let bearer = bearer(headers).ok()?;
        let mut tokens = self.tokens.lock().expect("no thread panics while it holds the cache");
        let caller = tokens.authenticate(&self.authenticator, bearer, Some(address), now_s()).ok()?;
        Some(CallerName::of_identity(&caller))
    }

    /// Who has shown this token before.
    pub(super) fn known(&self, headers: &HeaderMap) -> Option<Identity> {
        let bearer = bearer(headers).ok()?;
        let tokens = self.tokens.lock().expect("no thread panics while it holds the cache");
        tokens.known(&self.authenticator, bearer, now_s())
    }
}

/// The token of `Authorization: Bearer TOKEN`; the scheme's name is case-insensitive by RFC 9110.
fn bearer(headers: &HeaderMap) -> Result<&str, AuthError> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(AuthError::Missing)?;
    if values.next().is_some() {
        return Err(AuthError::Invalid);
    }
    let value = value.to_str().map_err(|_| AuthError::Invalid)?;
    let (scheme, token) = value.split_once(' ').ok_or(AuthError::Missing)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(token.trim()) } else { Err(AuthError::Missing) }
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Problem {
        let code = match error {
            AuthError::Missing => codes::TOKEN_MISSING,
            AuthError::Invalid | AuthError::Refused(_) => codes::TOKEN_INVALID,
            AuthError::Expired => codes::TOKEN_EXPIRED,
            AuthError::TooMany(exceeded) => return exceeded.into(),
        };
        Problem::new(code, error.to_string())
    }
}
