//! The other server: what is asked of it, and what its answers mean for messages.

use prost::Message as _;
use tidegate_client::ClientError;
use tidegate_planted::{Bug, is_planted};
use tidegate_queue::Received;
use tidegate_queue::machine::KEY_CHARS;
use tidegate_queue::machine::limits::{BATCH_BYTES_MAX, MESSAGE_OVERHEAD_BYTES, VIA_PLACE_BYTES_MAX};
use tidegate_runtime::threads::now_ms;
use tidegate_wire::queue as wire;

use super::Exchange;
use crate::identity::id_of;
use crate::server::why_of;
use crate::target::Fate;

/// The other server, as long as the connection lasts.
pub struct Remote<E>(pub E);

/// When a message is tried again whose ordering key was one too many there.
const KEYS_RETRY_MS: u64 = 30_000;

/// Why messages were not taken there.
struct NotTaken {
    /// In words.
    why: String,
    /// What that means.
    cause: Cause,
}

enum Cause {
    /// The connection is of no more use.
    Over,
    /// The queue there has no room for as many.
    Full,
    /// It takes no more ordering keys; it may take messages without.
    Keys,
    /// The other server, or its queue, takes nothing now.
    Away,
    /// The messages are such that it takes none of them, or not all.
    Messages,
}

impl From<ClientError> for NotTaken {
    fn from(error: ClientError) -> NotTaken {
        let cause = match &error {
            ClientError::Server(refused) if matches!(&*refused.code, "message_invalid" | "messages_too_many") => {
                Cause::Messages
            }
            ClientError::Server(refused) if &*refused.code == "queue_full" => Cause::Full,
            ClientError::Server(refused) if &*refused.code == "ordering_keys_full" => Cause::Keys,
            ClientError::RequestTooLarge { .. } => Cause::Messages,
            ClientError::Server(_) => Cause::Away,
            _ => Cause::Over,
        };
        NotTaken { why: why_of(&error), cause }
    }
}

impl<E: Exchange> Remote<E> {
    /// Sends messages; those that are taken are durable there when this is done. What becomes of each, and why the
    /// connection is of no more use, if it is. Those that were taken before are not taken again.
    pub async fn give(&mut self, queue: &str, messages: &[Received]) -> (Vec<Fate>, Option<String>) {
        let mut fates = Vec::with_capacity(messages.len());
        // Of the parts that are still to be sent, the first one is the last here.
        let mut left: Vec<&[Received]> = parts(messages).collect();
        left.reverse();
        while let Some(part) = left.pop() {
            match self.send(queue, part).await {
                Ok(()) => fates.extend(part.iter().map(|_| taken())),
                // Halves, until what there is room for is there, or the message that is refused alone: others are as
                // good as before, and a few requests find it.
                Err(NotTaken { cause: Cause::Full | Cause::Keys | Cause::Messages, .. }) if part.len() > 1 => {
                    left.extend(part.chunks(part.len().div_ceil(2)).rev());
                }
                Err(NotTaken { cause: Cause::Keys, why }) => fates.push(Fate::Later { why, after_ms: KEYS_RETRY_MS }),
                Err(not_taken) => match judged(not_taken, fates, messages.len()) {
                    Judged::Dead(so_far) => fates = so_far,
                    Judged::All(fates, over) => return (fates, over),
                },
            }
        }
        (fates, None)
    }

    async fn send(&mut self, queue: &str, part: &[Received]) -> Result<(), NotTaken> {
        let send = wire::Send { queue: queue.into(), messages: part.iter().map(message).collect() };
        let request = wire::QueueRequest { request: Some(wire::queue_request::Request::Send(send)) };
        let reply = self.0.exchange(request.encode_to_vec()).await?;
        let taken = match wire::QueueReply::decode(&*reply).map(|reply| reply.reply) {
            Ok(Some(wire::queue_reply::Reply::Sent(sent))) => sent.receipts.len(),
            _ => 0,
        };
        if taken != part.len() {
            let why = format!("{} messages were sent, and the other server answered for {taken}", part.len());
            return Err(NotTaken { why, cause: Cause::Over });
        }
        Ok(())
    }
}

/// What follows from a failure to send one message, or from one that is not about messages.
fn judged(not_taken: NotTaken, mut fates: Vec<Fate>, messages: usize) -> Judged {
    let NotTaken { why, cause } = not_taken;
    if let Cause::Messages = cause {
        fates.push(Fate::Dead { why });
        return Judged::Dead(fates);
    }
    let left = messages - fates.len();
    if is_planted(Bug::LinkTrustsSilence) && matches!(cause, Cause::Over) {
        fates.extend((0..left).map(|_| taken()));
        return Judged::All(fates, Some(why));
    }
    fates.extend((0..left).map(|_| Fate::Back { why: why.clone(), after_ms: 0, is_away: true }));
    Judged::All(fates, matches!(cause, Cause::Over).then_some(why))
}

/// What follows from a failure, with the fates so far.
enum Judged {
    /// One message is refused for good.
    Dead(Vec<Fate>),
    /// All further messages go back.
    All(Vec<Fate>, Option<String>),
}

fn taken() -> Fate {
    Fate::Taken { reference: Box::default() }
}

/// Messages in parts that one request takes.
fn parts(messages: &[Received]) -> impl Iterator<Item = &[Received]> {
    let mut rest = messages;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|received| {
            // The id there may be longer than the one here, and the way is.
            bytes += received.message.bytes() + MESSAGE_OVERHEAD_BYTES + KEY_CHARS + VIA_PLACE_BYTES_MAX;
            bytes <= BATCH_BYTES_MAX
        });
        let (part, behind) = rest.split_at(fits.count().max(1).min(rest.len()));
        rest = behind;
        (!part.is_empty()).then_some(part)
    })
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
        // By the clock of this host: the other node knows none of the queue's.
        expires_at_ms: received.expires_in_ms.map_or(0, |ms| now_ms().0.saturating_add(ms)),
        attributes: message.attributes.to_vec(),
        via: message.via.as_deref().unwrap_or_default().to_owned(),
    }
}
