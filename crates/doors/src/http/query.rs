//! The parameters of a query, and what is wrong with them.
//!
//! Why not axum's extractor alone: who asks comes first, so nobody without a token learns what else is wrong.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;

use crate::json::{Problem, ProblemCode, codes};

/// The parameters of a query, not looked at yet.
pub type InQuery<T> = Result<Query<T>, QueryRejection>;

/// What a query of another form is answered: which parameter, and what is wrong with it. A page has at most `rows_max`
/// rows; of lines, it is [`u64::MAX`].
pub fn query_problem(rejection: &QueryRejection, rows_max: impl Into<u64>) -> Problem {
    query_problem_as(codes::QUERY_INVALID, rejection, rows_max)
}

/// The same with the code of a room, which has one for all that is wrong with such a request.
pub fn query_problem_as(code: ProblemCode, rejection: &QueryRejection, rows_max: impl Into<u64>) -> Problem {
    let said = rejection.body_text();
    let what = said.strip_prefix("Failed to deserialize query string: ").unwrap_or(&said);
    let quoted = what.split_once(" field `").and_then(|(_, rest)| rest.split_once('`')).map(|(field, _)| field);
    let field = quoted.or_else(|| what.split_once(": ").map(|(field, _)| field));
    let detail = match field {
        Some(field) if NOT_A_NUMBER.iter().any(|words| what.ends_with(words)) => {
            expected_number(field, rows_max.into())
        }
        _ => what.to_owned(),
    };
    let problem = Problem::new(code, detail);
    match field {
        Some(field) => problem.with("field", field),
        None => problem,
    }
}

/// What the standard library says of a text that is no number, or one that is too large.
const NOT_A_NUMBER: [&str; 4] = [
    "invalid digit found in string",
    "cannot parse integer from empty string",
    "number too large to fit in target type",
    "number too small to fit in target type",
];

fn expected_number(field: &str, rows_max: u64) -> String {
    match field {
        "limit" if rows_max == u64::MAX => format!("limit: expected 1 or more, up to {rows_max}"),
        "limit" => format!("limit: expected 1 to {rows_max}"),
        field => format!("{field}: expected a whole number"),
    }
}
