//! The HTTP door: each request, well-formed or not, gets one answer in bounded memory and time.
//!
//! ```text
//!                 edge thread: one tokio runtime, its own listener (SO_REUSEPORT)
//!   socket ─▶ TLS ─▶ lane: plain requests on a hot path of a room ─▶ its answer, without hyper
//!                      └─ hyper: the rest ─┬─ a hot path ────────────▶ its answer, without a look at the routes
//!                                          ├─ the path of an Upgrade ─▶ 101, and the socket is its own from there on
//!                                          └─ axum's routes ──────────▶ the door's own, and those of each HttpRoom
//! ```
//!
//! Rooms bring their routes, their part of the OpenAPI document and the codes of their problems; the door merges them
//! when it opens and refuses to open when two rooms want the same path, name or code. A room asks [`Door::caller`] who
//! sends a request, reads its body with [`Door::read_json`], and answers with [`json`](crate::json::json) or a
//! [`Problem`](crate::json::Problem).
//!
//! Why on threads of its own: HTTP clients are many and often slow. tokio serves them well, and its tasks may wait;
//! workers must not.
//!
//! Invariant: nothing here knows what a room is about, nor shards, journals or rings.

mod act;
mod answer_clock;
mod authorize;
mod body;
mod ciphertext;
mod coming;
mod connection;
mod cors;
mod demo;
mod door;
mod drain;
mod host;
mod index;
mod lane;
mod limits;
pub mod lines;
mod login;
mod metrics;
mod metrics_text;
mod openapi;
mod operations;
mod parting;
mod parts;
mod path;
mod patient;
mod places;
mod proxied;
mod query;
mod rewound;
mod rooms;
mod serve;
mod silence;
mod streams;
pub mod time;
mod turns;
mod upgrade;
mod walks;

pub use act::{Act, TARGET as OPERATOR_LOG};
pub use body::{HotBody, Readable};
pub use connection::{Late, OverTls, PeerAddress, SignedBy};
pub use cors::{Cors, CorsOrigins};
pub use demo::{DemoCandidate, DemoShow, URL_BYTES_MAX};
pub use door::Door;
pub use index::PACING_PAGE;
pub use lane::plain;
pub use limits::HttpLimits;
pub use metrics::HttpMetrics;
pub use openapi::{
    BodyProblems, GuardProblems, NameProblems, Responses, RoomBodyProblems, RoomProblems, ServiceProblems,
};
pub use operations::{DrainStatus, Health, Operations};
pub use parts::{Cut, GoesOn, Part, Parts};
pub use path::PathName;
pub use proxied::HttpProxies;
pub use query::{InQuery, query_problem, query_problem_as};
pub use rooms::{Answer, HttpRoom, RoomsError, Routes};
pub use serve::{Edge, EdgeOptions};
pub use silence::{OfConnection, Silence};
pub use streams::{StreamCaller, StreamPlace, StreamPlaces};
pub use time::time_ms;
pub use upgrade::{Accepted, Upgrade, Upgraded};
pub use walks::WalkPlace;
