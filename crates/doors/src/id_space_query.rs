//! The id space that a query names.

use axum::extract::Query;
use serde::Deserialize;
use tidegate_machines::IdSpace;
use utoipa::IntoParams;

use crate::auth::Identity;
use crate::http::{InQuery, query_problem};
use crate::json::{Problem, codes};

/// Whose id it is.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct IdSpaceQuery {
    /// Id space of the id, if it is not the caller's own: the user name of the viewer who chose it, the `id_space` of
    /// the service, or nothing for the common one.
    #[param(max_length = 64, example = "dave")]
    id_space: Option<String>,
}

/// The id space that the query names, or the caller's own.
pub fn id_space(query: InQuery<IdSpaceQuery>, caller: &Identity) -> Result<IdSpace, Problem> {
    Ok(named_id_space(query)?.unwrap_or_else(|| caller.id_space().clone()))
}

/// The id space that the query names, if it names one.
pub fn named_id_space(query: InQuery<IdSpaceQuery>) -> Result<Option<IdSpace>, Problem> {
    // Nothing of it is a number of rows.
    let Query(IdSpaceQuery { id_space }) = query.map_err(|rejection| query_problem(&rejection, u64::MAX))?;
    let space = |name: String| {
        IdSpace::new(&name).ok_or_else(|| {
            let detail = "id_space: expected the name of a user or id space, at most 64 bytes of printable UTF-8";
            Problem::new(codes::QUERY_INVALID, detail).with("field", "id_space")
        })
    };
    id_space.map(space).transpose()
}
