//! Asks shards of queues.
//!
//! ```text
//!   a request ─▶ the shard of its queue, or of its key        a list of all ─▶ all shards ─▶ one answer
//!   who went away ─▶ Forget; what was handed out to it all the same is given back
//! ```

use slab::Slab;
use tidegate_machines::queue::{Lease, Refusal, Rejection};
use tidegate_machines::{ShardIndex, shard_of};
use tidegate_runtime::limits::CLIENT_REQUESTS_MAX;
use tidegate_runtime::placement::ShardAddresses;
use tidegate_runtime::{Address, Client, Outgoing, Replies};
use tidegate_shard::{Caller, Durable, Unavailable};

use crate::call::{Answer, Call, Found, MessagePage, Read, Receive, Received};
use crate::limits::ANSWER_BYTES_MAX;
use crate::protocol::QueueMessage;

/// A request.
#[derive(Clone, Debug)]
pub enum QueueRequest {
    /// One that is answered as soon as it is decided.
    Call(Call),
    /// One that may wait for messages.
    Receive(Receive),
}

/// A request, and on whose behalf it is asked: callers of a queue take turns before its shard.
#[derive(Clone, Debug)]
pub struct CallerRequest {
    /// On whose behalf.
    pub caller: Caller,
    /// What is asked.
    pub request: QueueRequest,
}

impl From<QueueRequest> for CallerRequest {
    /// A request of the server itself.
    fn from(request: QueueRequest) -> CallerRequest {
        CallerRequest { caller: Caller::SERVER, request }
    }
}

/// What is replied.
pub type QueueReply = Result<Answer, Unavailable>;

/// A request under way.
struct Asked {
    /// The caller's token; `None` if it went away.
    token: Option<u64>,
    /// On whose behalf it was asked.
    caller: Caller,
    /// The shard that was asked, and the queue, of a receiver.
    receives: Option<(ShardIndex, Box<str>)>,
    /// Answers of other shards that are still to come.
    others: usize,
    /// What shards have answered so far.
    rows: Option<QueueReply>,
    /// Rows that the caller wants.
    limit: usize,
}

/// Asks the shards of queues.
pub struct QueueClient {
    shards: ShardAddresses,
    asked: Slab<Asked>,
}

/// Which shard a call is for; `None` for all of them.
fn shard_of_call(call: &Call, shards: u16) -> Option<ShardIndex> {
    if let Some(queue) = call.queue() {
        return Some(shard_of(queue, shards));
    }
    match call {
        // One of a key that no shard has is answered by whichever is asked.
        Call::Cancel { key, .. } | Call::Reschedule { key, .. } | Call::Read(Read::Message(key)) => {
            Some(ShardIndex(key.shard().0 % shards))
        }
        _ => None,
    }
}

/// Whether a call would have messages go from one shard to another.
fn is_of_two_shards(call: &Call, shards: u16) -> bool {
    let differ = |one: &str, other: &str| shard_of(one, shards) != shard_of(other, shards);
    match call {
        Call::SetQueue { name, settings } => settings.dead_letter.as_ref().is_some_and(|target| differ(name, target)),
        Call::Redrive { from, to, .. } | Call::Route { from, to, .. } => differ(from, to),
        _ => false,
    }
}

impl QueueClient {
    /// A client of these shards.
    pub fn new(shards: ShardAddresses) -> QueueClient {
        QueueClient { shards, asked: Slab::new() }
    }

    /// Asks all shards for a list. `rows` is an empty one.
    fn ask_all(
        &mut self,
        token: u64,
        (caller, call): (Caller, &Call),
        (rows, limit): (Answer, usize),
        out: &mut Outgoing<QueueMessage>,
    ) {
        let shards = self.shards.count();
        let rows = Some(Ok(rows));
        let asked = Asked { token: Some(token), caller, receives: None, others: usize::from(shards), rows, limit };
        let number = self.asked.insert(asked) as u64;
        for shard in 0..shards {
            out.push((self.shards.of(ShardIndex(shard)), QueueMessage::Call { number, caller, call: call.clone() }));
        }
    }

    /// Gives back what a receiver got that is not there any more.
    fn give_back(
        &mut self,
        caller: Caller,
        (shard, queue): (ShardIndex, Box<str>),
        answer: &QueueReply,
        out: &mut Outgoing<QueueMessage>,
    ) {
        let Ok(Answer::Received(received)) = answer else { return };
        let Some(call) = give_back(queue, received) else { return };
        let asked = Asked { token: None, caller, receives: None, others: 0, rows: None, limit: 0 };
        let number = self.asked.insert(asked) as u64;
        out.push((self.shards.of(shard), QueueMessage::Call { number, caller, call }));
    }
}

impl Client for QueueClient {
    type Request = CallerRequest;
    type Reply = QueueReply;
    type Message = QueueMessage;

    fn has_room(&self) -> bool {
        self.asked.len() < CLIENT_REQUESTS_MAX
    }

    fn pending(&self) -> usize {
        self.asked.len()
    }

    fn start(
        &mut self,
        token: u64,
        CallerRequest { caller, request }: CallerRequest,
        out: &mut Outgoing<QueueMessage>,
        replies: &mut Replies<QueueReply>,
    ) {
        if !self.has_room() {
            return replies.push((token, Err(Unavailable::Busy)));
        }
        let shards = self.shards.count();
        let asked = |receives| Asked { token: Some(token), caller, receives, others: 0, rows: None, limit: 0 };
        match request {
            QueueRequest::Call(call) if is_of_two_shards(&call, shards) => {
                replies.push((token, Ok(Answer::refused(Refusal::OnTwoShards))));
            }
            QueueRequest::Receive(receive) => {
                let shard = shard_of(&receive.queue, shards);
                let number = self.asked.insert(asked(Some((shard, receive.queue.clone())))) as u64;
                out.push((self.shards.of(shard), QueueMessage::Receive { number, caller, receive }));
            }
            QueueRequest::Call(call) => match (shard_of_call(&call, shards), &call) {
                (Some(shard), _) => {
                    let number = self.asked.insert(asked(None)) as u64;
                    out.push((self.shards.of(shard), QueueMessage::Call { number, caller, call }));
                }
                (None, Call::Read(Read::Queues { limit, .. })) => {
                    self.ask_all(token, (caller, &call), (Answer::Queues(Vec::new()), *limit), out);
                }
                (None, Call::Read(Read::Browse(browse))) => {
                    let limit = browse.rows_max();
                    self.ask_all(token, (caller, &call), (Answer::Page(MessagePage::default()), limit), out);
                }
                (None, _) => unreachable!("only lists are asked of all shards"),
            },
        }
    }

    fn deliver(
        &mut self,
        _from: Address,
        message: QueueMessage,
        out: &mut Outgoing<QueueMessage>,
        replies: &mut Replies<QueueReply>,
    ) {
        let QueueMessage::Answer { number, answer } = message else { unreachable!("nobody calls a client") };
        let answer = answer.map(Durable::into_inner);
        let asked = &mut self.asked[number as usize];
        if let Some(rows) = asked.rows.take() {
            asked.rows = Some(joined(rows, answer));
            asked.others -= 1;
            if asked.others > 0 {
                return;
            }
            let Asked { token, rows, limit, .. } = self.asked.remove(number as usize);
            let reply = rows.expect("it was put there just now").map(|rows| in_order(rows, limit));
            replies.extend(token.map(|token| (token, reply)));
            return;
        }
        let Asked { token, caller, receives, .. } = self.asked.remove(number as usize);
        match (token, receives) {
            (Some(token), _) => replies.push((token, answer)),
            (None, Some(of)) => self.give_back(caller, of, &answer, out),
            (None, None) => {}
        }
    }

    fn cancel(&mut self, token: u64, out: &mut Outgoing<QueueMessage>) {
        let of_token = self.asked.iter_mut().find(|(_, asked)| asked.token == Some(token));
        let Some((number, asked)) = of_token else { return };
        asked.token = None;
        if let Some((shard, queue)) = &asked.receives {
            let (number, caller, queue) = (number as u64, asked.caller, queue.clone());
            out.push((self.shards.of(*shard), QueueMessage::Forget { number, caller, queue }));
        }
    }
}

/// Gives back what a receiver got that is not there any more, so that the next one gets it at once. `None` if it got
/// nothing.
pub fn give_back(queue: Box<str>, received: &[Received]) -> Option<Call> {
    let leases: Vec<Lease> = received.iter().map(|received| received.delivery.lease).collect();
    // It never heard of them: that counts against no message.
    let (then, reason) = (Rejection::Back(0), "the receiver went away".into());
    (!leases.is_empty()).then_some(Call::Reject { queue, leases, then, reason })
}

/// The first rows of a list that all shards have answered.
fn in_order(rows: Answer, limit: usize) -> Answer {
    match rows {
        Answer::Queues(mut rows) => {
            rows.sort_by(|one, other| one.0.name.cmp(&other.0.name));
            rows.truncate(limit);
            Answer::Queues(rows)
        }
        Answer::Page(mut page) => {
            page.rows.sort_by_key(|found| found.view.key);
            // What the other shards have behind the end of the shortest list comes again on the next page.
            let whole = page.rows.partition_point(|found| page.next.is_none_or(|next| found.view.key < next));
            let end = whole.min(limit).min(fitting(&page.rows));
            if let Some(last) = page.rows[..end].last()
                && (end < whole || end == limit && page.next.is_some())
            {
                page.next = Some(last.view.key.next());
            }
            page.rows.truncate(end);
            Answer::Page(page)
        }
        other => other,
    }
}

/// How many of these have a page's bytes together; one in any case.
fn fitting(rows: &[Found]) -> usize {
    let bytes = |found: &Found| found.message.as_ref().map_or(0, |message| message.bytes() as u64);
    let sums = rows.iter().scan(0, |sum, found| {
        *sum += bytes(found);
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= ANSWER_BYTES_MAX).count().max(1).min(rows.len())
}

fn joined(rows: QueueReply, more: QueueReply) -> QueueReply {
    match (rows?, more?) {
        (Answer::Page(mut page), Answer::Page(more)) => {
            page.rows.extend(more.rows);
            page.next = page.next.into_iter().chain(more.next).min();
            page.looked_at += more.looked_at;
            Ok(Answer::Page(page))
        }
        (Answer::Queues(mut rows), Answer::Queues(more)) => {
            rows.extend(more);
            Ok(Answer::Queues(rows))
        }
        (_, other) => Ok(other),
    }
}
