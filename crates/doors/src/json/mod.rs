//! JSON as all doors read and write it: strict bodies, answers, and problems with a stable code.
//!
//! ```text
//!   body ─▶ decode ─▶ a type of the caller's, borrowed from the body ─▶ … ─▶ encode, or Problem (RFC 9457)
//! ```
//!
//! Why apart from HTTP: MQTT clients send the same bodies and get the same answers.
//!
//! Invariant: nothing here knows what a body means.

pub mod codes;
mod decode;
mod encode;
mod number;
mod problem;

pub use decode::{Object, Text, decode, is_object_with, present, word};
pub use encode::{encode, json, response, whole_response};
pub use number::{Signed, UpTo, Whole, Whole32};
pub use problem::{OverBound, Problem, ProblemBody, ProblemCode, Unauthorized};
