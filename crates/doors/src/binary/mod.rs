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
mod weight;

use tidegate_machines::ledger::Refusal;
use tidegate_shard::Unavailable;
use tidegate_wire::DecodeError;

use crate::auth::gate::NotFound;
use crate::auth::quota::Exceeded;
use crate::json::{Problem, codes};

pub use metrics::{BINARY, BinaryMetrics};
pub use room::{BinaryRoom, BinarySettings};

/// A request that the door itself refuses, with the stable name that the client sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Stable name.
    pub code: &'static str,
    /// For people.
    pub detail: String,
    /// When asking again makes sense, milliseconds; 0 when it does not.
    pub retry_after_ms: u32,
}

impl Refused {
    /// Refused, with this code and this sentence.
    pub fn new(code: &'static str, detail: impl Into<String>) -> Refused {
        Refused { code, detail: detail.into(), retry_after_ms: 0 }
    }
}

impl From<Unavailable> for Refused {
    fn from(reason: Unavailable) -> Refused {
        let (code, detail, retry_after_ms) = translate::unavailable(reason);
        Refused { retry_after_ms, ..Refused::new(code, detail) }
    }
}

impl From<NotFound> for Refused {
    fn from(NotFound { refusal, item }: NotFound) -> Refused {
        let place = item.map(|(index, id)| format!("item {index}, id {id:?}; nothing of the batch was done"));
        Refused::new(refusal.code(), place.unwrap_or_default())
    }
}

impl From<Exceeded> for Refused {
    fn from(exceeded: Exceeded) -> Refused {
        match exceeded {
            Exceeded::Rate { retry_after_ms, .. } => {
                Refused { retry_after_ms, ..Refused::new(codes::BUSY.name(), exceeded.to_string()) }
            }
            Exceeded::AtOnce { .. } => Refused::new(Refusal::BatchSizeInvalid.code(), exceeded.to_string()),
        }
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Refused {
        let retry_after_ms = problem.retries_after_s().map_or(0, |seconds| seconds.saturating_mul(1_000));
        Refused { retry_after_ms, ..Refused::new(problem.code().name(), problem.detail()) }
    }
}

impl From<DecodeError> for Refused {
    fn from(error: DecodeError) -> Refused {
        Refused::new(error.code(), error.to_string())
    }
}
