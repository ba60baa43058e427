//! From the `Authorization` header to a request that may go on.

use axum::http::{HeaderMap, header};
use tidegate_ledger::message::{Reply, Request};
use tidegate_machines::ledger::AccountView;

use super::backend::Backend;
use super::door::Door;
use super::problem::Problem;
use crate::auth::gate::{self, Verdict};
use crate::auth::{AuthError, Identity, now_s};

impl<B: Backend> Door<B> {
    /// Who sends this request.
    pub fn caller(&self, headers: &HeaderMap) -> Result<Identity, Problem> {
        let bearer = bearer(headers)?;
        let mut tokens = self.tokens.lock().expect("no thread panics while it holds the cache");
        Ok(tokens.authenticate(&self.authenticator, bearer, now_s())?)
    }

    /// Asks the ledger on behalf of `caller`, if they may.
    pub async fn ask_for(&self, caller: &Identity, request: Request) -> Result<Reply, Problem> {
        match self.verdict(caller, &request) {
            Verdict::Allowed => {}
            Verdict::Denied(detail) => return Err(Problem::forbidden(detail)),
            Verdict::NeedsKinds(accounts) => {
                if let Some(refused) = self.learn_kinds(accounts, &request).await? {
                    return Ok(refused);
                }
                match self.verdict(caller, &request) {
                    Verdict::Allowed => {}
                    Verdict::Denied(detail) => return Err(Problem::forbidden(detail)),
                    // Forgotten between learning and asking: more kinds are asked for at once than the cache holds.
                    Verdict::NeedsKinds(_) => return Err(tidegate_ledger::message::Unavailable::Busy.into()),
                }
            }
        }
        self.ask(request).await
    }

    fn verdict(&self, caller: &Identity, request: &Request) -> Verdict {
        let mut kinds = self.kinds.lock().expect("no thread panics while it holds the cache");
        gate::check(caller, request, &mut kinds)
    }

    /// Finds out the kinds of `accounts`. `Some` when one is missing: the reply that the request gets instead.
    async fn learn_kinds(&self, accounts: Vec<Box<str>>, request: &Request) -> Result<Option<Reply>, Problem> {
        for id in accounts {
            match self.ask(Request::ReadAccount { id: id.clone() }).await? {
                Reply::Account(account) => self.learn(&account),
                Reply::Refused(_) => return Ok(Some(Reply::Refused(gate::not_found(request)))),
                _ => return Err(Problem::unexpected_reply()),
            }
        }
        Ok(None)
    }

    fn learn(&self, account: &AccountView) {
        self.kinds.lock().expect("no thread panics while it holds the cache").learn(&account.id, account.kind);
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
