//! One worker of a process, as its broker sees it: the sockets of its clients, and the rings.

use std::sync::Arc;

use tidegate_broker::drive::{Driven, Shell};
use tidegate_broker::{Access, Action, Admitted, BrokerMessage, ConnectionKey, Principal, Rights};
use tidegate_machines::TimeMs;
use tidegate_wire::mqtt::filter_covers;

use super::node::{Link, Node};
use super::oracle::ClientIndex;
use super::peer::Peer;
use super::plan::Plan;
use crate::harness::Store;
use crate::violation::{Violation, must};

/// A packet of the largest message here, on top of a full outbox.
const PACKET_BYTES_MAX: usize = 4_096;

/// Who a client is shows in its name.
#[derive(Debug)]
struct SimRights {
    user: String,
    client: ClientIndex,
}

impl Rights for SimRights {
    fn user(&self) -> Option<&str> {
        Some(&self.user)
    }

    fn may_publish(&self, _client_id: &str, _topic: &str) -> Access {
        Access::Allowed
    }

    fn may_subscribe(&self, _client_id: &str, filter: &str) -> Access {
        let own = format!("private/{}/#", self.client);
        match filter.starts_with("private") && !filter_covers(&own, filter) {
            true => Access::Denied,
            false => Access::Allowed,
        }
    }
}

/// A connection that moves to another worker, with what was read of it.
pub struct Move {
    pub from: Link,
    pub to: u16,
    pub bytes: Box<[u8]>,
}

/// See the module's description.
pub struct Worker<'w, S: Store> {
    pub node: &'w mut Node<S>,
    pub peers: &'w mut [Peer],
    pub plan: &'w Plan,
    pub worker: u16,
    /// Connections that are to move.
    pub moves: Vec<Move>,
    /// A promise that was broken while bytes were written.
    pub broken: Result<(), Violation>,
}

impl<'w, S: Store> Worker<'w, S> {
    /// For one turn.
    pub fn new(node: &'w mut Node<S>, peers: &'w mut [Peer], plan: &'w Plan, worker: u16) -> Worker<'w, S> {
        Worker { node, peers, plan, worker, moves: Vec::new(), broken: Ok(()) }
    }

    /// Lets the broker write to all of its clients: a socket that was full takes more without a new packet.
    pub fn poll_sockets(&mut self) {
        for (at, key) in self.peers.iter().filter_map(|peer| peer.link).filter(|(at, _)| *at == self.worker) {
            let driven = self.node.broker(at);
            if !driven.unsent(key).is_empty() {
                driven.is_writable(key);
            }
        }
    }

    fn peer(&mut self, key: ConnectionKey) -> Option<&mut Peer> {
        let link = Some((self.worker, key));
        self.peers.iter_mut().find(|peer| peer.link == link)
    }
}

impl<S: Store> Shell<S::Log> for Worker<'_, S> {
    fn driven(&mut self) -> &mut Driven<S::Log> {
        self.node.broker(self.worker)
    }

    fn take_messages(&mut self, now: TimeMs) {
        self.node.take_messages(self.worker, now);
    }

    fn has_room(&mut self, _worker: u16) -> bool {
        true
    }

    fn send(&mut self, worker: u16, message: BrokerMessage) {
        self.node.send(self.worker, worker, message);
    }

    fn act(&mut self, action: Action, now: TimeMs) {
        match action {
            Action::Authenticate { key, user_name, .. } => {
                let user = String::from(user_name.expect("simulated clients have names"));
                // Who is no client has no number, and nothing of its own.
                let client =
                    user.strip_prefix("client-").map_or(ClientIndex::MAX, |number| number.parse().expect("a number"));
                let principal = Principal::user(&user);
                let rights = Arc::new(SimRights { user, client });
                self.driven().verdict(key, Ok(Admitted { rights, principal, may_claim: false, ends_at: None }), now);
            }
            Action::HandOff { key, worker: to, bytes } => {
                self.moves.push(Move { from: (self.worker, key), to, bytes });
            }
            Action::Close { .. } => unreachable!("a turn closes"),
            Action::Request { .. } | Action::Confirm { .. } => {
                unreachable!("no service is behind these brokers, and no right has a condition")
            }
            Action::FindPlace { .. } | Action::Feed { .. } | Action::FeedMore { .. } | Action::FeedEnd { .. } => {
                unreachable!("no source is behind these brokers")
            }
            Action::Send { .. }
            | Action::FindQueue { .. }
            | Action::Receive { .. }
            | Action::ReceiveMore { .. }
            | Action::Settle { .. }
            | Action::ReceiveStop { .. }
            | Action::ReceiveEnd { .. } => unreachable!("no queues are behind these brokers"),
        }
    }

    fn write(&mut self, key: ConnectionKey, _now: TimeMs) -> usize {
        let (outbox_bytes_max, pipe_bytes) = (self.plan.outbox_bytes_max, self.plan.pipe_bytes);
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.link == Some((self.worker, key))) else { return 0 };
        let unsent = self.node.broker(self.worker).unsent(key);
        let holds = must(unsent.len() <= outbox_bytes_max + 2 * PACKET_BYTES_MAX, "memory bounds hold", || {
            format!("an outbox of {} bytes", unsent.len())
        });
        if self.broken.is_ok() {
            self.broken = holds;
        }
        peer.socket.down.write(unsent, pipe_bytes)
    }

    fn close(&mut self, key: ConnectionKey, _now: TimeMs) {
        if let Some(peer) = self.peer(key) {
            peer.socket.closed_by_server = true;
            peer.link = None;
        }
    }
}
