//! Pages of lists.

use serde::Deserialize;
use tidegate_queue::machine::limits::BATCH_MESSAGES_MAX;
use utoipa::IntoParams;

use crate::http::{InQuery, query_problem};
use crate::json::{Problem, codes};

/// Rows of one page.
pub const ROWS_MAX: u32 = 1_000;
/// Rows of a page when the request does not say.
const ROWS_DEFAULT: u32 = 100;

const _: () = assert!(ROWS_MAX as usize <= BATCH_MESSAGES_MAX);

/// Which rows.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// Only what comes after this: the `next` of the page before.
    pub after: Option<String>,
    /// At most so many, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

impl Page {
    /// Reads it.
    pub fn of(query: InQuery<Page>) -> Result<(Box<str>, usize), Problem> {
        let Page { after, limit } = query.map(|query| query.0).map_err(|error| query_problem(&error, ROWS_MAX))?;
        match limit.unwrap_or(ROWS_DEFAULT) {
            limit @ 1..=ROWS_MAX => Ok((after.unwrap_or_default().into(), limit as usize)),
            _ => {
                Err(Problem::new(codes::QUERY_INVALID, format!("limit: expected 1 to {ROWS_MAX}"))
                    .with("field", "limit"))
            }
        }
    }
}
