//! The name in a path, such as `visits` of `/v1/counters/visits`.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use crate::json::{Problem, codes};

/// The only parameter of a path. One that is not percent-encoded UTF-8 is answered with 400.
pub struct PathName(pub Box<str>);

impl<S: Send + Sync> FromRequestParts<S> for PathName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathName, Problem> {
        let path = Path::<Box<str>>::from_request_parts(parts, state).await;
        let malformed = |_| Problem::new(codes::PATH_INVALID, "the name in the path is not percent-encoded UTF-8");
        path.map(|Path(name)| PathName(name)).map_err(malformed)
    }
}
