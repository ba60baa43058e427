//! What askers and shards of queues send each other.

use tidegate_machines::ShardIndex;
use tidegate_runtime::Address;
use tidegate_runtime::shard_resident::{Protocol, Received};
use tidegate_shard::{Caller, Durable, Released, Unavailable};

use crate::call::{Answer, Call, Receive};
use crate::service::{Note, QueueService};

/// What the owner of a shard knows a request by.
pub trait RequestTicket: Clone + PartialEq {
    /// On whose behalf it is asked: callers take turns.
    fn caller(&self) -> Caller;
}

/// Identifies a request at its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Who asked.
    pub from: Address,
    /// The asker's number.
    pub number: u64,
    /// On whose behalf.
    pub caller: Caller,
}

impl RequestTicket for Ticket {
    fn caller(&self) -> Caller {
        self.caller
    }
}

/// A message between an asker and a shard; `number` is the asker's for the request.
pub enum QueueMessage {
    /// Asks.
    Call {
        /// The request.
        number: u64,
        /// On whose behalf.
        caller: Caller,
        /// What.
        call: Call,
    },
    /// Asks for messages.
    Receive {
        /// The request.
        number: u64,
        /// On whose behalf.
        caller: Caller,
        /// Which.
        receive: Receive,
    },
    /// Does not want the answer any more.
    Forget {
        /// The request.
        number: u64,
        /// On whose behalf it was asked.
        caller: Caller,
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
            QueueMessage::Call { number, caller, call } => Received::Call(Ticket { from, number, caller }, call),
            QueueMessage::Receive { number, caller, receive } => {
                Received::Note(Note::Receive(Ticket { from, number, caller }, receive))
            }
            QueueMessage::Forget { number, caller, queue } => {
                Received::Note(Note::Forget(Ticket { from, number, caller }, queue))
            }
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
