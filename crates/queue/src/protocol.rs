//! What askers and shards of queues send each other.

use tidegate_machines::ShardIndex;
use tidegate_runtime::Address;
pub use tidegate_runtime::direct::Ticket;
use tidegate_runtime::shard_resident::{Protocol, Received};
use tidegate_shard::{Durable, Released, Unavailable};

use crate::call::{Answer, Call, Receive};
use crate::service::{Note, QueueService};

/// A message between an asker and a shard; `number` is the asker's for the request.
pub enum QueueMessage {
    /// Asks.
    Call {
        /// The request.
        number: u64,
        /// What.
        call: Call,
    },
    /// Asks for messages.
    Receive {
        /// The request.
        number: u64,
        /// Which.
        receive: Receive,
    },
    /// Does not want the answer any more.
    Forget {
        /// The request.
        number: u64,
        /// Of which queue.
        queue: Box<str>,
    },
    /// Answers.
    Answer {
        /// The request.
        number: u64,
        /// Durable, or why there is none.
        answer: Result<Durable<Answer>, Unavailable>,
    },
}

/// Speaks for a shard.
pub struct QueueProtocol;

impl Protocol<QueueService<Ticket>> for QueueProtocol {
    type Message = QueueMessage;

    fn receive(&self, from: Address, message: QueueMessage) -> Received<QueueService<Ticket>> {
        match message {
            QueueMessage::Call { number, call } => Received::Call(Ticket { from, number }, call),
            QueueMessage::Receive { number, receive } => {
                Received::Note(Note::Receive(Ticket { from, number }, receive))
            }
            QueueMessage::Forget { number, queue } => Received::Note(Note::Forget(Ticket { from, number }, queue)),
            QueueMessage::Answer { .. } => unreachable!("a shard asks nobody"),
        }
    }

    fn answer(
        &self,
        _shard: ShardIndex,
        (ticket, answer): Released<QueueService<Ticket>>,
    ) -> Option<(Address, QueueMessage)> {
        Some((ticket.from, QueueMessage::Answer { number: ticket.number, answer }))
    }
}
