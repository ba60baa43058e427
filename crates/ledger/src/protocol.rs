//! The protocol of the ledger's shards: messages become calls and notes, and released answers become messages.

use tidegate_disk::Disk;
use tidegate_machines::ShardIndex;
use tidegate_runtime::{Address, Protocol, Received, ShardAddresses};
use tidegate_shard::Released;

use crate::operation::Message;
use crate::service::{LedgerService, Note, Output, Ticket};

/// Speaks for one shard.
#[derive(Clone)]
pub struct LedgerProtocol {
    shards: ShardAddresses,
    /// The address that gets [`Message::Figures`] of all shards: one, because it sums the parts of a collector.
    announcer: Option<Address>,
}

impl LedgerProtocol {
    /// For a shard that finds the others in `shards`, and tells `announcer` new figures.
    pub fn new(shards: ShardAddresses, announcer: Option<Address>) -> LedgerProtocol {
        LedgerProtocol { shards, announcer }
    }
}

impl<D: Disk> Protocol<LedgerService<D>> for LedgerProtocol {
    type Message = Message;

    #[inline]
    fn receive(&self, _from: Address, message: Message) -> Received<LedgerService<D>> {
        match message {
            Message::Call { from, ticket, caller, operation, .. } => {
                Received::Call(Ticket::Call { from, ticket, caller }, operation)
            }
            Message::Pull { by, after, .. } => Received::Note(Note::Pull { by, after }),
            Message::Credits { from, credits, .. } => {
                Received::Note(Note::Credits { from, credits: credits.into_inner() })
            }
            Message::Answer { .. } | Message::Figures { .. } => unreachable!("a shard asks no client"),
        }
    }

    #[inline]
    fn answer(&self, shard: ShardIndex, (ticket, released): Released<LedgerService<D>>) -> Option<(Address, Message)> {
        Some(match (ticket, released) {
            (Ticket::Call { from, ticket, .. }, answer) => {
                let answer = answer.map(|output| output.map(Output::into_answer));
                (from, Message::Answer { ticket, shard, answer })
            }
            // Nobody was promised any of these: the other shard asks again.
            (Ticket::Credits { .. } | Ticket::Pull { .. } | Ticket::Figures, Err(_)) => return None,
            (Ticket::Credits { to }, Ok(output)) => {
                let credits = output.map(Output::into_credits);
                (self.shards.of(to), Message::Credits { shard: to, from: shard, credits })
            }
            (Ticket::Pull { from }, Ok(output)) => {
                let after = output.map(Output::into_watermark).into_inner();
                (self.shards.of(from), Message::Pull { shard: from, by: shard, after })
            }
            (Ticket::Figures, Ok(output)) => {
                let accounts = output.map(Output::into_figures);
                (self.announcer?, Message::Figures { shard, accounts })
            }
        })
    }
}
