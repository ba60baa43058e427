//! Sends one operation to one shard, without the router. The auditor uses it.

use slab::Slab;
use tidegate_machines::ShardIndex;
use tidegate_runtime::{Address, Client, Replies, ShardAddresses};
use tidegate_shard::Durable;

use crate::limits::ENDPOINT_REQUESTS_MAX;
use crate::message::Unavailable;
use crate::operation::{Answer, Message, Operation, Outgoing};

/// A client whose requests name their shard.
pub struct OperationClient {
    me: Address,
    shards: ShardAddresses,
    /// The caller's token of each request.
    asked: Slab<u64>,
}

impl OperationClient {
    /// For the member at `me`, of these shards.
    pub fn new(me: Address, shards: ShardAddresses) -> OperationClient {
        OperationClient { me, shards, asked: Slab::new() }
    }
}

impl Client for OperationClient {
    type Request = (ShardIndex, Operation);
    type Reply = Result<Answer, Unavailable>;
    type Message = Message;

    fn has_room(&self) -> bool {
        self.asked.len() < ENDPOINT_REQUESTS_MAX
    }

    fn pending(&self) -> usize {
        self.asked.len()
    }

    fn start(
        &mut self,
        token: u64,
        (shard, operation): Self::Request,
        out: &mut Outgoing,
        replies: &mut Replies<Self::Reply>,
    ) {
        if !self.has_room() {
            return replies.push((token, Err(Unavailable::Busy)));
        }
        let ticket = self.asked.insert(token) as u64;
        out.push((self.shards.of(shard), Message::Call { from: self.me, ticket, shard, operation }));
    }

    fn deliver(&mut self, _from: Address, message: Message, _out: &mut Outgoing, replies: &mut Replies<Self::Reply>) {
        let Message::Answer { ticket, answer, .. } = message else { unreachable!("everything else is for shards") };
        replies.push((self.asked.remove(ticket as usize), answer.map(Durable::into_inner)));
    }
}
