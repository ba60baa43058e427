//! What operators ask of the MQTT ports of all workers, and the client that asks them.
//!
//! ```text
//!   PortCall ─▶ OperatorClient ─┬─ about one client id or topic ─▶ the worker that has it ─┐
//!                               └─ a list, a drain ─────────────▶ every worker ────────────┴─▶ one PortAnswer
//! ```
//!
//! Promise: a page over all workers leaves nobody out. Each worker says how far its part of the page reaches, and the
//! page ends where the first of them ends.
//!
//! Invariant: who may ask was checked before.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use slab::Slab;
use tidegate_broker::operator::{Filters, SessionRow};
use tidegate_broker::{OperatorAnswer, OperatorCall, ReasonCode};
use tidegate_machines::shard_of;
use tidegate_machines::topic::Message;
use tidegate_runtime::limits::CLIENT_REQUESTS_MAX;
use tidegate_runtime::{Address, Client, Outgoing, Replies, ShardAddresses};
use tidegate_shard::Unavailable;

/// A call to a port, or its answer.
pub enum OperatorMessage {
    /// Asks.
    Call {
        /// The asker's number.
        number: u64,
        /// What.
        call: PortCall,
    },
    /// Answers.
    Answer {
        /// The asker's number.
        number: u64,
        /// What came of it.
        answer: Result<PortAnswer, Unavailable>,
    },
}

/// What a port is asked.
#[derive(Clone, Debug)]
pub enum PortCall {
    /// What its broker does.
    Broker(OperatorCall),
    /// Sends the clients of a network away, so many per second over all workers, and refuses new ones.
    BeginDrain {
        /// An address, or of IPv6 a /64.
        network: IpAddr,
        /// At least 1.
        per_second: u32,
    },
    /// Lets the clients of a network stay again.
    EndDrain {
        /// Which.
        network: IpAddr,
    },
    /// How far that is.
    ReadDrain {
        /// Of which network.
        network: IpAddr,
    },
    /// The networks whose clients are sent away.
    ListDrains,
}

/// What a port answers.
#[derive(Debug)]
pub enum PortAnswer {
    /// Sessions, and the client id behind which there are more.
    Sessions(Vec<PeerRow>, Option<Box<str>>),
    /// A session, and its filters.
    Session(Box<PeerRow>, Filters),
    /// Retained messages, and the topic behind which there are more.
    Retained(Vec<Arc<Message>>, Option<Box<str>>),
    /// It is done.
    Done,
    /// It will be done.
    Begun,
    /// Nobody, or nothing, has that name.
    NotFound,
    /// The message is with all who must keep it.
    Published {
        /// Whether anybody subscribes to its topic, or it is retained.
        matched: bool,
    },
    /// The message is refused.
    Refused(ReasonCode),
    /// The state of a drain.
    Drain(DrainOfNetwork),
    /// All drains: networks, and clients per second.
    Drains(Vec<(IpAddr, u32)>),
    /// There are as many drains as there may be.
    TooManyDrains,
}

/// How far the clients of a network are sent away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainOfNetwork {
    /// Clients per second over all workers; `None` as long as they may stay.
    pub per_second: Option<u32>,
    /// Connections from there.
    pub connections: u64,
}

/// A session, and where its client comes from.
#[derive(Debug)]
pub struct PeerRow {
    /// The session.
    pub session: SessionRow,
    /// Its client's address and listener, while it is connected.
    pub peer: Option<Peer>,
}

/// Where a client comes from.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// The listener that it came by.
    pub listener: Box<str>,
}

/// A request under way.
struct Asked {
    /// The caller's token; `None` once it was cancelled.
    token: Option<u64>,
    /// Answers that have not come.
    missing: usize,
    /// Rows of a page.
    limit: usize,
    answers: Vec<Result<PortAnswer, Unavailable>>,
}

/// Asks the MQTT ports.
pub struct OperatorClient {
    /// The port of each worker.
    ports: Vec<Address>,
    /// By shard of topics: the port of the worker that has it.
    shards: ShardAddresses,
    asked: Slab<Asked>,
    /// Who makes the next list that any of them can make.
    next: usize,
}

impl OperatorClient {
    /// A client of these ports, over which these shards of topics are spread.
    pub fn new(ports: Vec<Address>, shards: ShardAddresses) -> OperatorClient {
        assert!(!ports.is_empty(), "somebody answers");
        OperatorClient { ports, shards, asked: Slab::new(), next: 0 }
    }

    /// Whom a call is for.
    fn receivers(&mut self, call: &PortCall) -> Vec<Address> {
        let of_key = |key: &str| vec![self.shards.of(shard_of(key, self.shards.count()))];
        match call {
            PortCall::Broker(
                OperatorCall::ReadSession { client_id }
                | OperatorCall::Disconnect { client_id }
                | OperatorCall::EndSession { client_id },
            ) => of_key(client_id),
            PortCall::Broker(OperatorCall::Publish { message, .. }) => of_key(message.topic()),
            // Every worker has all of them.
            PortCall::Broker(OperatorCall::ListRetained(_)) | PortCall::ListDrains => {
                self.next = (self.next + 1) % self.ports.len();
                vec![self.ports[self.next]]
            }
            PortCall::Broker(OperatorCall::ListSessions(_))
            | PortCall::BeginDrain { .. }
            | PortCall::EndDrain { .. }
            | PortCall::ReadDrain { .. } => self.ports.clone(),
        }
    }
}

impl Client for OperatorClient {
    type Request = PortCall;
    type Reply = Result<PortAnswer, Unavailable>;
    type Message = OperatorMessage;

    fn has_room(&self) -> bool {
        self.asked.len() < CLIENT_REQUESTS_MAX
    }

    fn pending(&self) -> usize {
        self.asked.len()
    }

    fn start(
        &mut self,
        token: u64,
        call: PortCall,
        out: &mut Outgoing<OperatorMessage>,
        replies: &mut Replies<Self::Reply>,
    ) {
        if !self.has_room() {
            return replies.push((token, Err(Unavailable::Busy)));
        }
        let receivers = self.receivers(&call);
        let limit = match &call {
            PortCall::Broker(OperatorCall::ListSessions(list)) => list.limit,
            _ => usize::MAX,
        };
        let asked = Asked { token: Some(token), missing: receivers.len(), limit, answers: Vec::new() };
        let number = self.asked.insert(asked) as u64;
        out.extend(receivers.into_iter().map(|to| (to, OperatorMessage::Call { number, call: call.clone() })));
    }

    fn deliver(
        &mut self,
        _from: Address,
        message: OperatorMessage,
        _out: &mut Outgoing<OperatorMessage>,
        replies: &mut Replies<Self::Reply>,
    ) {
        let OperatorMessage::Answer { number, answer } = message else { unreachable!("nobody calls a client") };
        let asked = &mut self.asked[number as usize];
        asked.missing -= 1;
        asked.answers.push(answer);
        if asked.missing == 0 {
            let Asked { token, limit, answers, .. } = self.asked.remove(number as usize);
            if let Some(token) = token {
                replies.push((token, merged(answers, limit)));
            }
        }
    }

    fn cancel(&mut self, token: u64, _out: &mut Outgoing<Self::Message>) {
        let of_token = self.asked.iter_mut().map(|(_, asked)| asked).find(|asked| asked.token == Some(token));
        if let Some(asked) = of_token {
            asked.token = None;
        }
    }
}

/// The answers of several ports as one; of those that differ in kind, the first.
fn merged(answers: Vec<Result<PortAnswer, Unavailable>>, limit: usize) -> Result<PortAnswer, Unavailable> {
    let mut answers = answers.into_iter();
    let mut all = answers.next().expect("somebody was asked")?;
    for answer in answers {
        match (&mut all, answer?) {
            (PortAnswer::Sessions(rows, next), PortAnswer::Sessions(more, its_next)) => {
                rows.extend(more);
                *next = match (next.take(), its_next) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
            }
            (PortAnswer::Drain(drain), PortAnswer::Drain(more)) => drain.connections += more.connections,
            // Of ends of a drain, of which some found none: all have it, or none.
            _ => {}
        }
    }
    if let PortAnswer::Sessions(rows, next) = &mut all {
        cut_page(rows, next, limit);
    }
    Ok(all)
}

/// Leaves what comes first, up to where the part of every worker reaches.
fn cut_page(rows: &mut Vec<PeerRow>, next: &mut Option<Box<str>>, limit: usize) {
    rows.sort_unstable_by(|one, other| one.session.client_id.cmp(&other.session.client_id));
    if let Some(next) = next {
        rows.retain(|row| row.session.client_id <= *next);
    }
    if rows.len() > limit.max(1) {
        rows.truncate(limit.max(1));
        *next = rows.last().map(|row| row.session.client_id.clone());
    }
}

/// What a broker answers, in the words of a port that adds nothing to it.
pub fn port_answer(
    answer: OperatorAnswer,
    mut peer: impl FnMut(SessionRow) -> PeerRow,
) -> Result<PortAnswer, Unavailable> {
    Ok(match answer {
        OperatorAnswer::Sessions(rows, next) => PortAnswer::Sessions(rows.into_iter().map(peer).collect(), next),
        OperatorAnswer::Session(row, filters) => PortAnswer::Session(Box::new(peer(*row)), filters),
        OperatorAnswer::Retained(messages, next) => PortAnswer::Retained(messages, next),
        OperatorAnswer::Done => PortAnswer::Done,
        OperatorAnswer::Begun => PortAnswer::Begun,
        OperatorAnswer::NotFound => PortAnswer::NotFound,
        OperatorAnswer::Published { matched } => PortAnswer::Published { matched },
        OperatorAnswer::Refused(reason) => PortAnswer::Refused(reason),
        OperatorAnswer::Busy => return Err(Unavailable::Busy),
        OperatorAnswer::DiskFull => return Err(Unavailable::DiskFull),
        OperatorAnswer::Failed => return Err(Unavailable::ShardFailed),
    })
}

#[cfg(test)]
mod tests;
