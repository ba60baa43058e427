//! The binary port: protobuf frames, pipelined, on the workers' own threads.
//!
//! ```text
//!   socket ─▶ Stream (plain, TLS) ─▶ frames ─▶ Session: Hello? rights? ─▶ Request ─▶ Router
//!   socket ◀─ Stream ◀─ outbox ◀─ frames ◀──────────────────────────────── Reply ◀─┘
//! ```
//!
//! Invariant: nothing here waits, and the memory of a client is bounded whatever it sends or leaves unread: a frame,
//! the requests in flight and the outbox each have a bound in [`limits`].

pub mod frames;
pub mod limits;
mod metrics;
pub mod port;
mod room;
pub mod room_call;
pub mod session;
mod settings;
mod translate;

use tidegate_shard::Unavailable;
use tidegate_wire::DecodeError;

use crate::json::Problem;

pub use metrics::{BINARY, BinaryMetrics};
pub use room::{BinaryRoom, BinarySettings};

/// A request that the door itself refuses, with the stable name that the client sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Stable name.
    pub code: &'static str,
    /// For people.
    pub detail: String,
}

impl Refused {
    /// Refused, with this code and this sentence.
    pub fn new(code: &'static str, detail: impl Into<String>) -> Refused {
        Refused { code, detail: detail.into() }
    }
}

impl From<Unavailable> for Refused {
    fn from(reason: Unavailable) -> Refused {
        let (code, detail, _) = translate::unavailable(reason);
        Refused::new(code, detail)
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Refused {
        Refused::new(problem.code().name(), problem.detail())
    }
}

impl From<DecodeError> for Refused {
    fn from(error: DecodeError) -> Refused {
        Refused::new(error.code(), error.to_string())
    }
}
