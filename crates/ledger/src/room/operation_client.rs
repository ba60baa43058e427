//! Sends one operation to one shard, without the router. The auditor uses it.

use slab::Slab;
use tidegate_machines::ShardIndex;
use tidegate_runtime::{Address, Client, Replies, ShardAddresses};
use tidegate_shard::{Caller, Durable};

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
        out.push((
            self.shards.of(shard),
            Message::Call { from: self.me, ticket, caller: Caller::SERVER, shard, operation },
        ));
    }

    fn deliver(&mut self, _from: Address, message: Message, _out: &mut Outgoing, replies: &mut Replies<Self::Reply>) {
        let Message::Answer { ticket, answer, .. } = message else { unreachable!("everything else is for shards") };
        replies.push((self.asked.remove(ticket as usize), answer.map(Durable::into_inner)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_goes_to_who_asked_and_no_more_are_asked_than_can_wait() {
        let (me, shard) = (Address::new(0, 0), Address::new(3, 0));
        let mut client = OperationClient::new(me, ShardAddresses::new([me, shard]));
        let (mut out, mut replies) = (Outgoing::new(), Replies::new());
        let mut ask = |client: &mut OperationClient, token, replies: &mut _| {
            client.start(token, (ShardIndex(1), Operation::ReadDurableEnd), &mut out, replies);
            out.pop()
        };
        let Some((to, Message::Call { from, ticket, shard: ShardIndex(1), .. })) = ask(&mut client, 70, &mut replies)
        else {
            panic!("the shard is asked")
        };
        assert_eq!((to, from, client.pending()), (shard, me, 1));
        assert!(ask(&mut client, 71, &mut replies).is_some());
        let failed = Message::Answer { ticket, shard: ShardIndex(1), answer: Err(Unavailable::ShardFailed) };
        client.deliver(shard, failed, &mut Outgoing::new(), &mut replies);
        assert_eq!(std::mem::take(&mut replies), [(70, Err(Unavailable::ShardFailed))]);
        assert_eq!(client.pending(), 1);

        while client.has_room() {
            assert!(ask(&mut client, 72, &mut replies).is_some());
        }
        assert_eq!((client.pending(), replies.len()), (ENDPOINT_REQUESTS_MAX, 0));
        assert!(ask(&mut client, 73, &mut replies).is_none());
        assert_eq!(replies, [(73, Err(Unavailable::Busy))]);
    }
}
