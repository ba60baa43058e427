//! What the lists of operators have in common: who may see them, how many rows, and whose.

use axum::http::HeaderMap;
use serde::Deserialize;
use tidegate_broker::Principal;
use tidegate_broker::limits::OPERATOR_ROWS_MAX;

use crate::auth::{Action, Identity};
use crate::http::{Door, InQuery, query_problem};
use crate::json::{Problem, codes};

/// Rows of one page.
const ROWS_MAX: u32 = OPERATOR_ROWS_MAX as u32;
/// Rows of a page when the request does not say.
const ROWS_DEFAULT: u32 = 100;
/// Bytes of a text in a query: no name and no filter is longer.
const TEXT_BYTES_MAX: usize = u16::MAX as usize;

/// Who asks to see something; they may.
pub fn reader(door: &Door, headers: &HeaderMap) -> Result<Identity, Problem> {
    let caller = door.caller(headers)?;
    match caller.rights().may_operate(Action::Read) {
        true => Ok(caller),
        false => {
            caller.denied();
            Err(Problem::forbidden("this token may not see this; a service may with the grant \"operate:read\""))
        }
    }
}

/// The parameters of a query.
pub fn parameters<T: for<'de> Deserialize<'de>>(query: InQuery<T>) -> Result<T, Problem> {
    query.map(|query| query.0).map_err(|rejection| query_problem(&rejection, ROWS_MAX))
}

/// How many rows a page has.
pub fn rows(limit: Option<u32>) -> Result<usize, Problem> {
    match limit.unwrap_or(ROWS_DEFAULT) {
        limit @ 1..=ROWS_MAX => Ok(limit as usize),
        _ => Err(invalid("limit", format!("limit: expected 1 to {ROWS_MAX}"))),
    }
}

/// A text of a query.
pub fn text(field: &str, text: Option<String>) -> Result<Box<str>, Problem> {
    let text = text.unwrap_or_default();
    match text.len() {
        0..=TEXT_BYTES_MAX => Ok(text.into()),
        _ => Err(invalid(field, format!("{field}: at most {TEXT_BYTES_MAX} bytes"))),
    }
}

/// The principal that `text` names.
pub fn owner(text: &str) -> Result<Principal, Problem> {
    let named = text.split_once(':').filter(|(_, name)| !name.is_empty() && name.len() <= 1_024);
    match named {
        Some(("user", name)) => Ok(Principal::user(name)),
        Some(("service", name)) => Ok(Principal::service(name)),
        Some(("provided", name)) => Ok(Principal::provided(name)),
        Some(("certificate", name)) => Ok(Principal::certificate(name)),
        Some(("address", name)) => Ok(Principal::address(name)),
        _ => {
            let kinds = "user:NAME, service:NAME, provided:NAME, certificate:NAME or address:NAME";
            Err(invalid("owner", format!("owner: expected {kinds}")))
        }
    }
}

/// A principal as [`owner`] reads it.
pub fn owner_text(owner: &Principal) -> String {
    let (kind, name) = owner.as_str().split_once(':').unwrap_or(("", owner.as_str()));
    let kind = match kind {
        "u" => "user",
        "s" => "service",
        "p" => "provided",
        "c" => "certificate",
        "a" => "address",
        other => other,
    };
    format!("{kind}:{name}")
}

/// A parameter that is not what it must be.
pub fn invalid(field: &str, detail: String) -> Problem {
    Problem::new(codes::QUERY_INVALID, detail).with("field", field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_read_as_it_is_written() {
        for owner_is in ["user:dave", "service:a:b", "provided:hook:dave", "certificate:cam 7", "address:2001:db8::"] {
            assert_eq!(owner_text(&owner(owner_is).expect("an owner")), owner_is);
        }
        for wrong in ["", "dave", "user:", "u:dave", &format!("user:{}", "x".repeat(2_000))] {
            assert!(owner(wrong).is_err(), "{wrong}");
        }
    }
}
