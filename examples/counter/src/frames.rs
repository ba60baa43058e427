//! Counters on the binary port: the body of a frame is JSON, as over HTTP.

use serde::Deserialize;
use tidegate_doors::auth::Identity;
use tidegate_doors::binary::Refused;
use tidegate_doors::binary::frames::FrameRoom;
use tidegate_doors::json::{decode, encode};
use tidegate_runtime::direct::DirectClient;
use tidegate_shard::Unavailable;

use crate::family::CounterService;
use crate::http::{Answered, check_right, worded};
use crate::machine::{Action, Command};

/// What a frame asks: `{"add":{"name":"visits","amount":1}}` or `{"read":{"name":"visits"}}`.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Asked {
    Add { name: Box<str>, amount: u64, expires_in_ms: Option<u64> },
    Read { name: Box<str> },
}

/// Counters, for the clients of one worker's binary port.
pub struct CounterFrames;

impl FrameRoom for CounterFrames {
    type Client = DirectClient<CounterService>;

    fn family(&self) -> u32 {
        1_024
    }

    fn request(&self, identity: &Identity, body: &[u8]) -> Result<Command, Refused> {
        let command = match decode(body)? {
            Asked::Add { name, amount, expires_in_ms } => {
                Command { name, action: Action::Add { amount, expires_in_ms } }
            }
            Asked::Read { name } => Command { name, action: Action::Read },
        };
        check_right(identity, &command)?;
        Ok(command)
    }

    fn reply(&self, reply: Result<Answered, Unavailable>) -> Result<Vec<u8>, Refused> {
        Ok(encode(&worded(reply?)?))
    }
}
