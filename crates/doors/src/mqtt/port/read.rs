//! Parcels from rings, new clients, and bytes from sockets.

use std::os::fd::AsRawFd;

use mio::Interest;
use mio::unix::SourceFd;
use tidegate_broker::{BrokerMessage, ConnectionKey, ConnectionTraits};
use tidegate_journal::LogStore;
use tidegate_ledger::operation::Message;
use tidegate_machines::TimeMs;
use tidegate_runtime::{Address, Carries, Context};

use super::{CarriesMqtt, MqttPort, READ_BYTES_MAX, READ_COST_BYTES, SOCKETS};
use crate::admission::Arrival;
use crate::mqtt::sockets::{Flag, Socket};

impl<L: LogStore> MqttPort<L> {
    /// Takes the parcels for this port that have come by the rings.
    pub(super) fn take_parcels<P: CarriesMqtt>(&mut self, context: &mut Context<'_, P>) {
        let now = context.now();
        context.drain_rings(|from, body| self.take_parcel(from, body, now));
    }

    pub(super) fn take_parcel<P: CarriesMqtt>(&mut self, from: Address, body: P, now: TimeMs) {
        let body = match Carries::<BrokerMessage>::unpack(body) {
            Ok(message) => return self.broker.deliver(from.endpoint.0, message, now),
            Err(other) => other,
        };
        let body = match Carries::<Message>::unpack(body) {
            Ok(Message::Figures { shard, accounts }) => {
                return self.figures.extend(accounts.into_inner().into_iter().map(|account| (shard, account)));
            }
            Ok(message) => return self.asker.deliver(from, message),
            Err(other) => other,
        };
        match Carries::<Box<Arrival>>::unpack(body) {
            Ok(arrival) => self.arrivals.push_back(arrival),
            Err(_) => unreachable!("everything else is for others"),
        }
    }

    /// Takes new clients: from listeners, and from other workers or the HTTP door.
    pub(super) fn take_clients<P: CarriesMqtt>(&mut self, context: &mut Context<'_, P>) -> bool {
        if !self.broker.is_serving() {
            return false;
        }
        let now = context.now();
        let mut worked = self.accept(now);
        while let Some(arrival) = self.arrivals.pop_front() {
            worked = true;
            self.take_parcels(context);
            self.adopt(*arrival, now);
        }
        worked
    }

    /// Reads from all sockets that may be read, up to a turn's worth.
    pub(super) fn read_sockets<P: CarriesMqtt>(&mut self, context: &mut Context<'_, P>) -> bool {
        let (mut worked, mut left) = (false, self.turn_bytes);
        for index in std::mem::take(&mut self.ready) {
            let Some((key, _)) = self.sockets.at(index) else { continue };
            if left == 0 || !self.broker.may_read(key) {
                self.ready.push(index);
                continue;
            }
            worked = true;
            left = left.saturating_sub(self.read(index, key, left, context));
        }
        worked
    }

    /// Reads from one socket, at most about `left` bytes. Returns what that cost.
    fn read<P: CarriesMqtt>(
        &mut self,
        index: u32,
        key: ConnectionKey,
        left: usize,
        context: &mut Context<'_, P>,
    ) -> usize {
        let now = context.now();
        self.metrics.reads.increment();
        let (_, socket) = self.sockets.at(index).expect("it was looked at just now");
        let Ok(heard) = socket.stream.read(&mut self.scratch, READ_BYTES_MAX.min(left.max(READ_COST_BYTES))) else {
            self.lose(key, now);
            return READ_COST_BYTES;
        };
        socket.set(Flag::READABLE, heard.more);
        socket.set(Flag::LISTED, heard.more);
        if heard.more {
            self.ready.push(index);
        }
        // Drained between reading and decoding: this worker then knows all that the client may have learned from
        // another worker.
        self.take_parcels(context);
        let bytes = self.scratch.bytes(&heard);
        let cost = bytes.len().max(READ_COST_BYTES);
        if !bytes.is_empty() {
            self.broker.receive(key, bytes, now);
        }
        if heard.ended {
            self.lose(key, now);
        }
        cost
    }

    /// A connection that comes from another worker or from the HTTP door.
    fn adopt(&mut self, arrival: Arrival, now: TimeMs) {
        let Arrival { stream, listener, mark, refusal, bytes } = arrival;
        let socket = Socket::new(stream, listener, mark, refusal);
        if let Some(key) = self.admit(socket, now) {
            if !bytes.is_empty() {
                self.broker.receive(key, &bytes, now);
            }
            // Bytes that its layers have read already cause no event; bytes in the socket do.
            if let Some(socket) = self.sockets.get(key).filter(|socket| socket.stream.is_ahead()) {
                socket.set(Flag::READABLE, true);
                if !socket.replace(Flag::LISTED, true) {
                    self.ready.push(key.index);
                }
            }
        }
    }

    /// Gives a socket to the broker and the poll.
    pub(super) fn admit(&mut self, mut socket: Socket, now: TimeMs) -> Option<ConnectionKey> {
        let (listener, mark) = (socket.listener, socket.mark);
        // The WebSocket door, which is behind the listeners, takes packets of any size that the broker takes.
        let packet_bytes_max =
            self.settings.listeners.get(usize::from(listener.0)).map_or(0, |listener| listener.packet_bytes_max);
        let Some(key) = self.broker.open(ConnectionTraits { packet_bytes_max }, now) else {
            self.metrics.turned_away.increment("limit");
            self.admission.leave(listener, mark);
            return None;
        };
        let fd = socket.stream.socket().as_raw_fd();
        let token = SOCKETS | key.index as usize;
        if self.poll().register(&mut SourceFd(&fd), token, Interest::READABLE).is_err() {
            self.broker.closed(key, now);
            self.admission.leave(listener, mark);
            return None;
        }
        self.sockets.insert(key, socket);
        Some(key)
    }

    /// The client is gone.
    pub(super) fn lose(&mut self, key: ConnectionKey, now: TimeMs) {
        self.broker.closed(key, now);
        self.verdicts.forget(key);
        if let Some(socket) = self.sockets.remove(key) {
            self.admission.leave(socket.listener, socket.mark);
        }
    }
}
