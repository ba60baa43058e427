//! What the address of a request says: the id in its path, and who asks for it.
//!
//! Why not extractors of axum: who asks comes first, so nobody without a token learns what else is wrong.

use axum::extract::Path;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::http::HeaderMap;
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::Refusal;
use utoipa::IntoParams;

use super::backend::Backend;
use super::limits::PAGE_ROWS_MAX;
use super::room::Ledger;
use crate::auth::Identity;
use crate::http;
pub use crate::http::InQuery;
pub use crate::id_space_query::{IdSpaceQuery, id_space};
use crate::json::{Problem, codes};

/// The id of a path, not looked at yet.
pub type InPath = Result<Path<String>, PathRejection>;

/// Path of an account.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[allow(dead_code, reason = "describes the path for the OpenAPI document")]
pub struct AccountPath {
    /// Account id, percent-encoded where URLs ask for it
    #[param(example = "wallet:dave", min_length = 1, max_length = 128)]
    id: String,
}

/// Path of a transfer.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[allow(dead_code, reason = "describes the path for the OpenAPI document")]
pub struct TransferPath {
    /// Transfer id, percent-encoded where URLs ask for it
    #[param(example = "vote-1", min_length = 1, max_length = 64)]
    id: String,
}

/// Path of a hold.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[allow(dead_code, reason = "describes the path for the OpenAPI document")]
pub struct HoldPath {
    /// Hold id, percent-encoded where URLs ask for it
    #[param(example = "hold-1", min_length = 1, max_length = 64)]
    id: String,
}

/// A transfer or hold that is asked for, and who asks.
pub struct Named {
    pub caller: Identity,
    pub id: Box<str>,
    pub id_space: IdSpace,
}

impl<B: Backend> Ledger<B> {
    /// Who asks for which transfer or hold.
    pub(super) fn named(
        &self,
        headers: &HeaderMap,
        path: InPath,
        query: InQuery<IdSpaceQuery>,
    ) -> Result<Named, Problem> {
        let caller = self.door.caller(headers)?;
        let id = path_id(path)?;
        let id_space = id_space(query, &caller)?;
        Ok(Named { caller, id, id_space })
    }
}

/// The id in the path, percent-decoded.
pub fn path_id(path: InPath) -> Result<Box<str>, Problem> {
    match path {
        Ok(Path(id)) => Ok(id.into()),
        Err(_) => Err(Problem::new(codes::PATH_INVALID, "the id in the path is not percent-encoded UTF-8")),
    }
}

/// What a query of another form is answered: which parameter, and what is wrong with it.
pub(super) fn query_problem(rejection: QueryRejection) -> Problem {
    http::query_problem(&rejection, PAGE_ROWS_MAX)
}

/// A refusal of what was asked for by its id.
pub(super) fn refused(refusal: Refusal, id: &str) -> Problem {
    Problem::from(refusal).with("id", id)
}
