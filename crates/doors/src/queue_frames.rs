//! Queues on the binary port: sending, receiving, and what becomes of leases. The bodies of the frames are those of
//! `queue.proto`.
//!
//! Queues are made and looked through over HTTP.

use std::sync::Arc;

use prost::Message as _;
use tidegate_machines::TimeMs;
use tidegate_queue::machine::limits::PRIORITY_DEFAULT;
use tidegate_queue::machine::{Lease, LeaseRefusal, Message, MessageKey, Outcome, Rejection, When};
use tidegate_queue::{Answer, Call, CallerRequest, QueueClient, QueueReply, QueueRequest, Receive, Received};
use tidegate_wire::queue as wire;
use tidegate_wire::queue::queue_reply::Reply;

use crate::auth::{Identity, QueueAction};
use crate::binary::Refused;
use crate::binary::frames::{FrameRoom, QUEUE_FAMILY, RoomCost, Waits};
use crate::queue_attributes::is_object_or_nothing;
use crate::queue_calls::consumer_of;
use crate::queue_http::{check_right, problem};

/// Messages or leases of a request whose decoding, and the answer to them, is as much work as a frame.
const ITEMS_PER_WORK: usize = 4;

/// Queues, for the clients of one worker's binary port.
pub struct QueueFrames;

fn malformed(what: &str) -> Refused {
    Refused::new("frame_malformed", what)
}

fn lease(lease: &wire::Lease) -> Result<Lease, Refused> {
    let key: [u8; 16] = (&*lease.key).try_into().map_err(|_| malformed("the key of a lease has 16 bytes"))?;
    Ok(Lease { key: MessageKey::from_bits(u128::from_be_bytes(key)), attempt: lease.attempt })
}

fn leases(leases: &[wire::Lease]) -> Result<Vec<Lease>, Refused> {
    leases.iter().map(lease).collect()
}

/// Attributes that other doors could not show are refused. A link may have such of before.
fn check_attributes(messages: &[wire::Message]) -> Result<(), Refused> {
    match messages.iter().position(|message| !is_object_or_nothing(&message.attributes)) {
        None => Ok(()),
        Some(index) => {
            let what = format!("message {index}: its attributes are a JSON object, as over HTTP, or no bytes");
            Err(Refused::new("message_invalid", what))
        }
    }
}

fn message(message: wire::Message) -> Result<Arc<Message>, Refused> {
    let text = |text: String| (!text.is_empty()).then(|| text.into_boxed_str());
    let time = |at: u64| (at > 0).then_some(When::At(TimeMs(at)));
    let priority = message.priority.unwrap_or(PRIORITY_DEFAULT.into());
    Ok(Arc::new(Message {
        id: text(message.id),
        ordering_key: text(message.ordering_key),
        priority: priority.try_into().map_err(|_| malformed("a priority is 0 to 9"))?,
        visible_at: time(message.deliver_at_ms),
        expires_at: time(message.expires_at_ms),
        via: text(message.via),
        // Walks speak HTTP.
        origin_id: None,
        attributes: message.attributes.into(),
        body: message.body.into(),
    }))
}

fn delivery(received: &Received) -> wire::Delivery {
    let (Lease { key, attempt }, message) = (received.delivery.lease, &*received.message);
    wire::Delivery {
        lease: Some(wire::Lease { key: key.bits().to_be_bytes().into(), attempt }),
        lease_until_ms: received.delivery.until.0,
        message: Some(wire::Message {
            body: message.body.to_vec(),
            id: message.sender_id().unwrap_or_default().into(),
            ordering_key: message.ordering_key.as_deref().unwrap_or_default().into(),
            priority: Some(message.priority.into()),
            deliver_at_ms: 0,
            expires_at_ms: 0,
            attributes: message.attributes.to_vec(),
            via: message.via.as_deref().unwrap_or_default().into(),
        }),
    }
}

fn received_frame(messages: &[Received]) -> Reply {
    Reply::Received(wire::Received { deliveries: messages.iter().map(delivery).collect() })
}

fn encode(reply: Reply) -> Vec<u8> {
    wire::QueueReply { reply: Some(reply) }.encode_to_vec()
}

/// Reads a request of `identity`, and checks whether they may make it.
fn read_request(identity: &Identity, body: &[u8]) -> Result<QueueRequest, Refused> {
    use wire::queue_request::Request;
    let request = wire::QueueRequest::decode(body).map_err(|error| malformed(&error.to_string()))?;
    let request = request.request.ok_or_else(|| malformed("the frame asks nothing that this server knows"))?;
    let may = |action, queue: &str| check_right(identity, action, queue).map_err(Refused::from);
    Ok(QueueRequest::Call(match request {
        Request::Send(wire::Send { queue, messages }) => {
            may(QueueAction::Send, &queue)?;
            // Each message counts as a request.
            identity.charge(messages.len().saturating_sub(1) as u32);
            if !identity.rights().may_with_queue(QueueAction::Relay, &queue) {
                check_attributes(&messages)?;
            }
            let messages = messages.into_iter().map(message).collect::<Result<_, _>>()?;
            Call::Send { queue: queue.into(), messages }
        }
        Request::Receive(wire::Receive { queue, max, lease_ms, wait_ms, consumer }) => {
            may(QueueAction::Receive, &queue)?;
            return Ok(QueueRequest::Receive(Receive {
                queue: queue.into(),
                max: max.max(1) as usize,
                lease_ms: (lease_ms > 0).then_some(lease_ms),
                consumer: if consumer.is_empty() { consumer_of(identity) } else { consumer.into() },
                wait_ms,
            }));
        }
        Request::Acknowledge(wire::Acknowledge { queue, leases: of }) => {
            may(QueueAction::Receive, &queue)?;
            Call::Acknowledge { queue: queue.into(), leases: leases(&of)? }
        }
        Request::Extend(wire::Extend { queue, leases: of, lease_ms }) => {
            may(QueueAction::Receive, &queue)?;
            Call::Extend { queue: queue.into(), leases: leases(&of)?, lease_ms }
        }
        Request::Reject(wire::Reject { queue, leases: of, reason, delay_ms, dead }) => {
            may(QueueAction::Receive, &queue)?;
            let then = if dead { Rejection::Dead } else { Rejection::Retry(delay_ms) };
            Call::Reject { queue: queue.into(), leases: leases(&of)?, then, reason: reason.into() }
        }
    }))
}

impl FrameRoom for QueueFrames {
    type Client = QueueClient;

    fn family(&self) -> u32 {
        QUEUE_FAMILY
    }

    fn request(&self, identity: &Identity, body: &[u8]) -> Result<CallerRequest, Refused> {
        read_request(identity, body).map(|request| identity.asks_queues(request))
    }

    fn cost(request: &CallerRequest) -> RoomCost {
        let QueueRequest::Call(call) = &request.request else { return RoomCost::default() };
        RoomCost { bytes: call.weight(), work: call.items() / ITEMS_PER_WORK }
    }

    fn waits(request: &CallerRequest) -> Option<Waits<QueueClient>> {
        // Who does not wait gets what there is: it may have closed its side because it has sent all its requests.
        let QueueRequest::Receive(Receive { queue, wait_ms: 1.., .. }) = &request.request else { return None };
        let (caller, queue, of_queue) = (request.caller, queue.clone(), queue.clone());
        let may_still = move |client: &Identity| Ok(check_right(client, QueueAction::Receive, &of_queue)?);
        let give_back = move |reply: &QueueReply| {
            let Ok(Answer::Received(received)) = reply else { return None };
            let call = tidegate_queue::give_back(queue.clone(), received)?;
            Some(CallerRequest { caller, request: QueueRequest::Call(call) })
        };
        let (answer, may_still) = (encode(received_frame(&[])), Box::new(may_still));
        Some(Waits { answer, may_still, give_back: Box::new(give_back) })
    }

    fn reply(&self, reply: QueueReply) -> Result<Vec<u8>, Refused> {
        let reply = match reply? {
            Answer::Outcome(Outcome::Refused(refusal)) => return Err(problem(&refusal).into()),
            Answer::Outcome(Outcome::Sent(receipts)) => {
                let receipt = |receipt: &tidegate_queue::machine::Receipt| wire::Receipt {
                    key: receipt.key.bits().to_be_bytes().into(),
                    duplicate: receipt.is_duplicate,
                };
                Reply::Sent(wire::Sent { receipts: receipts.iter().map(receipt).collect() })
            }
            Answer::Received(messages) => received_frame(&messages),
            Answer::Outcome(Outcome::Leases(outcomes)) => {
                let outcome = |outcome: &Result<(), LeaseRefusal>| match outcome {
                    Ok(()) => wire::LeaseOutcome::Done,
                    Err(LeaseRefusal::Lost | LeaseRefusal::NotNow) => wire::LeaseOutcome::Lost,
                    Err(LeaseRefusal::Unknown) => wire::LeaseOutcome::Unknown,
                };
                let outcomes = outcomes.iter().map(|of| i32::from(outcome(of))).collect();
                Reply::Leases(wire::Leases { outcomes })
            }
            other => unreachable!("the binary port asks for nothing that is answered so: {other:?}"),
        };
        Ok(encode(reply))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_shard::Caller;

    use super::*;

    #[test]
    fn a_frame_costs_as_the_messages_in_it() {
        let cost = |count: usize| {
            let messages = (0..count).map(|_| Arc::new(Message::default())).collect();
            let request = QueueRequest::Call(Call::Send { queue: "jobs".into(), messages });
            QueueFrames::cost(&CallerRequest { caller: Caller::SERVER, request })
        };
        assert_eq!((cost(1).work, cost(1_000).work), (0, 250));
        assert!(cost(1_000).bytes >= 1_000 * size_of::<Message>(), "{:?}", cost(1_000));
    }
}
