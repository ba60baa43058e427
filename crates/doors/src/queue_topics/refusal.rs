//! Why something is refused to those who use queues over MQTT: a reason code and a text for each.

use tidegate_broker::{QueueRefusal, ReasonCode};
use tidegate_queue::machine::Refusal;
use tidegate_shard::Unavailable;

/// All of them; a [`QueueRefusal`] is a place in this list.
pub const REFUSALS: &[(ReasonCode, &str)] = &[
    (ReasonCode::TOPIC_NAME_INVALID, "there is no queue of this name: PUT /v1/queues/{name} makes one"),
    (ReasonCode::TOPIC_FILTER_INVALID, "there is no queue of this name: PUT /v1/queues/{name} makes one"),
    (
        ReasonCode::QUOTA_EXCEEDED,
        "the queue, its owner or its server has as many messages, or ids of messages, as it may: try again later",
    ),
    (ReasonCode::QUOTA_EXCEEDED, "the disk of the server is full, nothing can be kept: try again later"),
    (ReasonCode::QUOTA_EXCEEDED, "too much is under way: try again later"),
    (ReasonCode::QUOTA_EXCEEDED, "this user has used up a bound of its own: try again later"),
    (ReasonCode::QUOTA_EXCEEDED, "a message of a queue has at most 262144 bytes, with its attributes"),
    (ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR, "the shard of the queue does not serve for now: try again later"),
    (ReasonCode::PAYLOAD_FORMAT_INVALID, "id and ordering_key have 1 to 128 bytes without control characters"),
    (ReasonCode::PAYLOAD_FORMAT_INVALID, "priority is a number from 0 to 9"),
    (
        ReasonCode::PAYLOAD_FORMAT_INVALID,
        "delay_ms and deliver_at_ms are milliseconds, at most a hundred years ahead, and only one of them is given",
    ),
    (ReasonCode::PAYLOAD_FORMAT_INVALID, "a queue keeps one value for each name of a user property"),
    (ReasonCode::PAYLOAD_FORMAT_INVALID, "the message has expired already"),
    (
        ReasonCode::PAYLOAD_FORMAT_INVALID,
        "a message of a queue has at most 64 attributes: user properties, and the like",
    ),
    (ReasonCode::UNSPECIFIED_ERROR, "the queue does not take this message"),
];

/// No queue to send to.
pub const NO_QUEUE_TO_SEND: QueueRefusal = QueueRefusal(0);
/// No queue to receive from.
pub const NO_QUEUE_TO_RECEIVE: QueueRefusal = QueueRefusal(1);
/// The queue is full.
pub const FULL: QueueRefusal = QueueRefusal(2);
/// The disk is full.
pub const DISK_FULL: QueueRefusal = QueueRefusal(3);
/// A bounded queue on the way is full.
pub const BUSY: QueueRefusal = QueueRefusal(4);
/// A bound of the caller's own.
pub const OVER_BOUND: QueueRefusal = QueueRefusal(5);
/// The message is too large.
pub const TOO_LARGE: QueueRefusal = QueueRefusal(6);
/// The shard does not serve.
pub const NOT_NOW: QueueRefusal = QueueRefusal(7);
/// An id or ordering key that is none.
pub const ID_INVALID: QueueRefusal = QueueRefusal(8);
/// A priority that is none.
pub const PRIORITY_INVALID: QueueRefusal = QueueRefusal(9);
/// A time that is none.
pub const TIME_INVALID: QueueRefusal = QueueRefusal(10);
/// A name twice.
pub const NAME_TWICE: QueueRefusal = QueueRefusal(11);
/// It is worth nothing any more.
pub const EXPIRED: QueueRefusal = QueueRefusal(12);
/// More attributes than there may be.
pub const TOO_MANY: QueueRefusal = QueueRefusal(13);
/// Anything else.
const NOT_TAKEN: QueueRefusal = QueueRefusal(14);

const _: () = assert!(REFUSALS.len() == NOT_TAKEN.0 as usize + 1, "each refusal has its place");

/// What a queue refuses a send with.
pub fn of_send(refusal: &Refusal) -> QueueRefusal {
    match refusal {
        Refusal::QueueNotFound(_) | Refusal::QueueNameInvalid => NO_QUEUE_TO_SEND,
        Refusal::Full(..) => FULL,
        Refusal::BatchTooLarge => TOO_LARGE,
        _ => NOT_TAKEN,
    }
}

/// What the shard of a queue could not do.
pub fn of_unavailable(unavailable: Unavailable) -> QueueRefusal {
    match unavailable {
        Unavailable::Busy => BUSY,
        Unavailable::DiskFull => DISK_FULL,
        Unavailable::ShardFailed | Unavailable::StateDiffers | Unavailable::Recovering | Unavailable::Stopping => {
            NOT_NOW
        }
    }
}
