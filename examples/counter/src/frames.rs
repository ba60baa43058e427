//! Counters on the binary port: the body of a frame is JSON, as over HTTP.

use serde::Deserialize;
use tidegate_doors::auth::{Action, Identity};
use tidegate_doors::binary::Refused;
use tidegate_doors::binary::frames::FrameRoom;
use tidegate_machines::ShardIndex;
use tidegate_runtime::direct::DirectClient;
use tidegate_shard::Unavailable;

use crate::family::{CounterService, shard_of};
use crate::http::{Answered, ROOM, outcome};
use crate::limits::REQUEST_BYTES_MAX;
use crate::machine::Command;

/// The number of counters in frames.
pub const FAMILY: u32 = 1_024;

/// A request.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Asked {
    Add { name: Box<str>, amount: u64, expires_in_ms: Option<u64> },
    Read { name: Box<str> },
}

/// Counters, for the clients of one worker's binary port.
pub struct CounterFrames {
    pub(crate) shards: u16,
}

impl FrameRoom for CounterFrames {
    type Client = DirectClient<CounterService>;

    fn family(&self) -> u32 {
        FAMILY
    }

    fn request(&self, identity: &Identity, body: &[u8]) -> Result<(ShardIndex, Command), Refused> {
        if body.len() > REQUEST_BYTES_MAX {
            return Err(Refused::new("body_too_large", format!("a request has at most {REQUEST_BYTES_MAX} bytes")));
        }
        let asked = serde_json::from_slice(body);
        let asked = asked.map_err(|error| Refused::new("body_malformed", format!("the body is JSON: {error}")))?;
        let (action, command) = match asked {
            Asked::Add { name, amount, expires_in_ms } => (Action::Write, Command::Add { name, amount, expires_in_ms }),
            Asked::Read { name } => (Action::Read, Command::Read { name }),
        };
        let (Command::Add { name, .. } | Command::Read { name }) = &command else { unreachable!("no other is read") };
        if !identity.may(ROOM, action, name) {
            return Err(Refused::new("forbidden", format!("this token may not do this with counter {name:?}")));
        }
        Ok((shard_of(name, self.shards), command))
    }

    fn reply(&self, reply: Result<Answered, Unavailable>) -> Result<Vec<u8>, Refused> {
        let answered = reply.map_err(|reason| {
            let (code, detail) = unavailable(reason);
            Refused::new(code, detail)
        })?;
        match outcome(answered) {
            Ok(body) => Ok(serde_json::to_vec(&body).expect("plain data is JSON")),
            Err((code, detail)) => Err(Refused::new(code.name(), detail)),
        }
    }
}
