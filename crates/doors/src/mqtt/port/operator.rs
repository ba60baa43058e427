//! What operators ask of this port: most of it is for its broker; who comes from where, only the port knows.

use std::collections::VecDeque;
use std::net::IpAddr;

use slab::Slab;
use tidegate_broker::operator::SessionRow;
use tidegate_broker::{ConnectionKey, OperatorTicket};
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_runtime::{Address, Context};
use tidegate_shard::Unavailable;

use super::actions::WEBSOCKET;
use super::read::place_of;
use super::{CarriesMqtt, MqttPort};
use crate::mqtt::address_drains::{AddressDrains, Count, Network};
use crate::operator::{DrainOfNetwork, OperatorMessage, Peer, PeerRow, PortAnswer, PortCall, port_answer};

/// Who waits for an answer: an edge's client, and its number for the call.
type Asker = (Address, u64);

/// Calls that are not answered, and drains of networks.
#[derive(Default)]
pub(super) struct Operators {
    /// Calls of the broker; a ticket is a place in it.
    asked: Slab<Asker>,
    /// Counts of connections; the front one goes on.
    counts: VecDeque<(Asker, Count)>,
    answers: Vec<(Asker, Result<PortAnswer, Unavailable>)>,
    pub drains: AddressDrains,
}

impl Operators {
    /// Whether nobody waits for an answer.
    pub fn are_quiet(&self) -> bool {
        self.asked.is_empty() && self.counts.is_empty() && self.answers.is_empty()
    }

    /// Whether there is something to go on with.
    pub fn has_more(&self) -> bool {
        !self.counts.is_empty() || !self.answers.is_empty()
    }
}

impl<L: LogStore> MqttPort<L> {
    /// A call has come.
    pub(super) fn take_call(&mut self, from: Address, message: OperatorMessage, now: TimeMs) {
        let OperatorMessage::Call { number, call } = message else { unreachable!("a port asks no operator") };
        let asker = (from, number);
        match call {
            PortCall::Broker(call) => {
                let ticket = OperatorTicket(self.operators.asked.insert(asker) as u64);
                self.broker.operate(ticket, call);
            }
            PortCall::BeginDrain { network, per_second } => {
                let network = self.network(network);
                match self.operators.drains.begin(network, per_second, now) {
                    true => self.operators.counts.push_back((asker, Count::new(network))),
                    false => self.operators.answers.push((asker, Ok(PortAnswer::TooManyDrains))),
                }
            }
            PortCall::ReadDrain { network } => {
                let network = self.network(network);
                self.operators.counts.push_back((asker, Count::new(network)));
            }
            PortCall::EndDrain { network } => {
                let answer = if self.operators.drains.end(network) { PortAnswer::Done } else { PortAnswer::NotFound };
                self.operators.answers.push((asker, Ok(answer)));
            }
            PortCall::ListDrains => {
                let all = self.operators.drains.list();
                self.operators.answers.push((asker, Ok(PortAnswer::Drains(all))));
            }
        }
    }

    fn network(&self, address: IpAddr) -> Network {
        Network { address, mark: self.admission.mark(address) }
    }

    /// Sends clients of drained networks away, as the rates allow. To be called at each tick.
    pub(super) fn drain_networks(&mut self, now: TimeMs) {
        for key in self.operators.drains.step(&mut self.sockets, self.workers, now) {
            self.broker.send_away(key, now);
        }
    }

    /// Goes on with counts, and tells what the broker has done. Whether there was anything.
    pub(super) fn answer_operators<P: CarriesMqtt>(&mut self, context: &mut Context<'_, P>) -> bool {
        let mut worked = false;
        if let Some((asker, mut count)) = self.operators.counts.pop_front() {
            worked = true;
            match count.step(&mut self.sockets) {
                Some(connections) => {
                    let per_second = self.operators.drains.rate(count.network());
                    let drain = DrainOfNetwork { per_second, connections };
                    self.operators.answers.push((asker, Ok(PortAnswer::Drain(drain))));
                }
                None => self.operators.counts.push_back((asker, count)),
            }
        }
        for (OperatorTicket(place), answer) in self.broker.take_operated() {
            let asker = self.operators.asked.remove(place as usize);
            let answer = port_answer(answer, |session| self.peer_row(session));
            self.operators.answers.push((asker, answer));
        }
        for ((to, number), answer) in self.operators.answers.drain(..) {
            worked = true;
            context.send(to, P::pack(OperatorMessage::Answer { number, answer }));
        }
        worked
    }

    fn peer_row(&mut self, session: SessionRow) -> PeerRow {
        let peer = session.connection.and_then(|connection| self.peer(connection.key));
        PeerRow { session, peer }
    }

    fn peer(&mut self, key: ConnectionKey) -> Option<Peer> {
        let socket = self.sockets.get(key)?;
        let address = place_of(socket)?;
        let listener = self.settings.listeners.get(usize::from(socket.listener.0));
        Some(Peer { address, listener: listener.map_or(WEBSOCKET.into(), |listener| listener.name.clone()) })
    }
}
