//! What became of an id: its home knows, or says which shard decides it.

use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::{Refusal, shard_of};

use super::stage::Next;
use crate::message::Reply;
use crate::operation::{KnownId, Operation};

/// A question about one id.
pub(super) struct Lookup {
    id: Box<str>,
    /// Whether a hold is asked for, or a transfer.
    hold: bool,
    known: Option<(ShardIndex, KnownId)>,
    asked_owner: bool,
}

impl Lookup {
    pub(super) fn transfer(id: Box<str>) -> Lookup {
        Lookup { id, hold: false, known: None, asked_owner: false }
    }

    pub(super) fn hold(id: Box<str>) -> Lookup {
        Lookup { id, hold: true, known: None, asked_owner: false }
    }

    pub(super) fn begin(&self, shard_count: u16) -> Vec<(ShardIndex, Operation)> {
        vec![(shard_of(&self.id, shard_count), Operation::ReadId { id: self.id.clone() })]
    }

    pub(super) fn collect(&mut self, shard: ShardIndex, known: KnownId) {
        self.known = Some((shard, known));
    }

    pub(super) fn complete(&mut self) -> Next {
        let (shard, known) = self.known.take().expect("the shard that was asked has answered");
        let missing = if self.hold { Refusal::HoldNotFound } else { Refusal::TransferNotFound };
        Next::Reply(match known {
            KnownId::ElsewhereAt(owner) if !self.asked_owner => {
                self.asked_owner = true;
                return Next::Calls(vec![(owner, Operation::ReadId { id: self.id.clone() })]);
            }
            KnownId::ElsewhereAt(owner) => unreachable!("shard {owner} decides an id that it says is another's"),
            KnownId::Transfer(transfer) if !self.hold => {
                Reply::Transfer { shard: shard.0, transfer: Box::new(transfer) }
            }
            KnownId::Hold(hold) if self.hold => Reply::Hold { shard: shard.0, hold: Box::new(hold) },
            // Claimed and not decided yet counts as new: nothing is known to have been done.
            KnownId::New | KnownId::Transfer(_) | KnownId::Hold(_) => Reply::Refused(missing),
        })
    }
}
