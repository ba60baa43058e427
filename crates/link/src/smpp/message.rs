//! What a message of the queue is to an SMSC.

use tidegate_queue::Received;
use tidegate_smpp::{Address, Coded, Part, parts};

use super::keys::SmppLink;
use crate::attributes::Attributes;

/// The attribute that says to whom.
const TO: &str = "to";
/// The attribute that says from whom.
const FROM: &str = "from";

/// A message that can be sent.
#[derive(Debug)]
pub struct ShortMessages {
    /// To whom.
    pub destination: Address,
    /// From whom.
    pub source: Address,
    /// How its text is written.
    pub coding: tidegate_smpp::Coding,
    /// Its text.
    pub parts: Vec<Part>,
    /// For how long the SMSC may try.
    pub validity_s: Option<u64>,
}

/// Reads a message; an error says why it can never be sent.
pub fn short_messages(link: &SmppLink, received: &Received) -> Result<ShortMessages, String> {
    let message = &*received.message;
    let attributes = Attributes::read(&message.attributes);
    let address = |name: &str, text: &str, usual| {
        Address::read(text, usual).map_err(|error| format!("the attribute {name:?} is {text:?}: {error}"))
    };
    let to = attributes.get(TO).ok_or_else(|| format!("it has no attribute {TO:?}, which says to whom"))?;
    let destination = address(TO, to, link.dest_type)?;
    let source = attributes.get(FROM).map(|from| address(FROM, from, link.source_type)).transpose()?;
    let text = std::str::from_utf8(&message.body).map_err(|_| "its body is no text in UTF-8".to_owned())?;
    let coded = Coded::first(text, &link.codings)
        .ok_or_else(|| "its text has characters that the alphabets of this link have not".to_owned())?;
    // What is sent again has the reference that it had, so that a phone joins what it got before with the rest.
    let reference = received.delivery.lease.key.number() as u16;
    let parts = parts(&coded, link.numbering, reference, link.parts_max).map_err(|error| error.to_string())?;
    let validity_s = received.expires_in_ms.map(|ms| ms / 1_000);
    let source = source.unwrap_or_else(|| link.source.clone());
    Ok(ShortMessages { destination, source, coding: coded.coding, parts, validity_s })
}
