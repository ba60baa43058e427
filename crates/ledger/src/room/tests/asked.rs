//! A client whose answers are still durable ones, so that they can be passed on.

use slab::Slab;
use tidegate_machines::ShardIndex;
use tidegate_runtime::{Address, Client, Replies, ShardAddresses};
use tidegate_shard::{Caller, Durable};

use crate::message::Unavailable;
use crate::operation::{Answer, Message, Operation, Outgoing};

/// Asks the shard that each request names.
pub struct RawClient {
    me: Address,
    shards: ShardAddresses,
    asked: Slab<u64>,
}

impl RawClient {
    /// For the member at `me`.
    pub fn new(me: Address, shards: ShardAddresses) -> RawClient {
        RawClient { me, shards, asked: Slab::new() }
    }
}

impl Client for RawClient {
    type Request = (ShardIndex, Operation);
    type Reply = Result<Durable<Answer>, Unavailable>;
    type Message = Message;

    fn has_room(&self) -> bool {
        true
    }

    fn pending(&self) -> usize {
        self.asked.len()
    }

    fn start(
        &mut self,
        token: u64,
        (shard, operation): Self::Request,
        out: &mut Outgoing,
        _replies: &mut Replies<Self::Reply>,
    ) {
        let ticket = self.asked.insert(token) as u64;
        out.push((
            self.shards.of(shard),
            Message::Call { from: self.me, ticket, caller: Caller::SERVER, shard, operation },
        ));
    }

    fn deliver(&mut self, _from: Address, message: Message, _out: &mut Outgoing, replies: &mut Replies<Self::Reply>) {
        let Message::Answer { ticket, answer, .. } = message else { unreachable!("everything else is for shards") };
        replies.push((self.asked.remove(ticket as usize), answer));
    }
}
