//! The other server, over its binary port.

use std::net::TcpStream;

use prost::Message as _;
use tidegate_client::{Client, ClientError};
use tidegate_machines::TimeMs;
use tidegate_queue::Received;
use tidegate_queue::machine::limits::{BATCH_BYTES_MAX, MESSAGE_OVERHEAD_BYTES};
use tidegate_queue::machine::{KEY_CHARS, MessageKey};
use tidegate_wire::queue as wire;

use crate::keys::LinkSettings;

/// The family of frames of queues.
const FAMILY: u32 = 4;

/// A connection to the other server.
pub struct Remote(Client<TcpStream>);

/// Why messages were not taken there.
pub struct NotTaken {
    /// In words.
    pub why: String,
    /// The connection is of no more use.
    pub is_over: bool,
}

impl From<ClientError> for NotTaken {
    fn from(error: ClientError) -> NotTaken {
        NotTaken { is_over: !matches!(error, ClientError::Server(_)), why: error.to_string() }
    }
}

impl Remote {
    /// Connects.
    pub fn connect(settings: &LinkSettings) -> Result<Remote, NotTaken> {
        Ok(Remote(Client::connect(&*settings.address, &settings.token)?))
    }

    /// Sends messages; they are durable there when this is done. Those that were taken before are not taken again.
    pub fn send(&mut self, queue: &str, messages: &[Received]) -> Result<(), NotTaken> {
        for part in parts(messages) {
            let send = wire::Send { queue: queue.into(), messages: part.iter().map(message).collect() };
            let request = wire::QueueRequest { request: Some(wire::queue_request::Request::Send(send)) };
            let reply = self.0.room(FAMILY, &request.encode_to_vec())?;
            let taken = match wire::QueueReply::decode(&*reply).map(|reply| reply.reply) {
                Ok(Some(wire::queue_reply::Reply::Sent(sent))) => sent.receipts.len(),
                _ => 0,
            };
            if taken != part.len() {
                let why = format!("{} messages were sent, and the other server answered for {taken}", part.len());
                return Err(NotTaken { why, is_over: true });
            }
        }
        Ok(())
    }
}

/// Messages in parts that one request takes.
fn parts(messages: &[Received]) -> impl Iterator<Item = &[Received]> {
    let mut rest = messages;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|received| {
            // The id there may be longer than the one here.
            bytes += received.message.bytes() + MESSAGE_OVERHEAD_BYTES + KEY_CHARS;
            bytes <= BATCH_BYTES_MAX
        });
        let (part, behind) = rest.split_at(fits.count().max(1).min(rest.len()));
        rest = behind;
        (!part.is_empty()).then_some(part)
    })
}

/// The id that a message has on all nodes behind the first: the key that it got there.
fn id_of(received: &Received) -> String {
    match received.message.id.as_deref().filter(|id| id.parse::<MessageKey>().is_ok()) {
        Some(first) => first.to_owned(),
        None => received.delivery.lease.key.to_string(),
    }
}

fn message(received: &Received) -> wire::Message {
    let message = &*received.message;
    wire::Message {
        body: message.body.to_vec(),
        id: id_of(received),
        ordering_key: message.ordering_key.as_deref().unwrap_or_default().to_owned(),
        priority: Some(message.priority.into()),
        // It has waited here.
        deliver_at_ms: 0,
        expires_at_ms: message.expires_at.map_or(0, |TimeMs(at)| at),
        attributes: message.attributes.to_vec(),
    }
}
