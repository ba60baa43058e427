//! `tidegate publish`: a message to an MQTT topic.

use std::io::Read;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};

use super::door::Door;
use super::failure::Failure;
use super::table::{Columns, Shown};
use crate::command::number::whole;

/// The message.
#[derive(Args)]
pub struct PublishArguments {
    /// Topic, without wildcards.
    topic: String,
    /// Payload; `-` reads it from standard input. Without one the message is empty, which clears a retained one.
    #[arg(default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    payload: String,
    /// How surely it is delivered: 0, 1 or 2.
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole::<u8>(0..=2, "a QoS"))]
    qos: u8,
    /// Keep it for those who subscribe later.
    #[arg(long)]
    retain: bool,
    /// Seconds until it is worth nothing; never if absent.
    #[arg(long, value_name = "SECONDS", value_parser = whole::<u32>(1..=u64::from(u32::MAX), "seconds"))]
    expires_in_s: Option<u32>,
}

pub(super) fn run(door: &Door, shown: &Shown, arguments: PublishArguments) -> Result<(), Failure> {
    let PublishArguments { topic, payload, qos, retain, expires_in_s } = arguments;
    let mut body = json!({ "topic": topic, "qos": qos, "retain": retain });
    match &*payload {
        "-" => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
            body["payload_base64"] = STANDARD.encode(bytes).into();
        }
        text => body["payload"] = text.into(),
    }
    if let Some(seconds) = expires_in_s {
        body["expires_in_s"] = seconds.into();
    }
    let mut published = door.post("/v1/publish", &body)?;
    if !shown.is_json() {
        published["topic"] = Value::String(topic);
    }
    shown.rows(Columns::PUBLISHED, &[published], true)
}
