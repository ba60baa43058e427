//! Parcels from rings, new clients, and bytes from sockets, which are served in turn.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;

use mio::Interest;
use mio::unix::SourceFd;
use tidegate_broker::drive;
use tidegate_broker::{BrokerMessage, ConnectionKey, ConnectionTraits};
use tidegate_journal::LogStore;
use tidegate_ledger::operation::Message;
use tidegate_machines::TimeMs;
use tidegate_pacer::family::CampaignMessage;
use tidegate_queue::QueueMessage;
use tidegate_runtime::{Address, Carries, Context};
use tidegate_wire::proxy::is_header;

use super::shell::PortShell;
use super::{CarriesMqtt, MqttPort, READ_BYTES, READ_BYTES_MAX, SOCKETS};
use crate::admission::{Arrival, Standing, Stay, monotonic_ns};
use crate::handshakes::{tell_failed, tell_missing_header, tell_untrusted_proxy};
use crate::mqtt::sockets::{Flag, Socket};
use crate::operator::OperatorMessage;
use crate::turns::limits::{WORK_IN_ROUND_MAX, WORK_OF_VISIT};
use crate::turns::{CallerName, Lane, work_of_bytes};

/// What is left of a connection that was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Nothing, until it says more.
    Nothing,
    /// There may be more, and it may be served at once.
    More,
    /// There may be more, for which something else must end first.
    Blocked,
}

/// Where a client comes from, as far as it is known yet; with its port, which is 0 where a proxy has not said it.
/// `None` if it has disconnected already.
pub(super) fn place_of(socket: &mut Socket) -> Option<SocketAddr> {
    socket.stream.client().or_else(|| socket.stream.socket().peer_addr().ok())
}

/// Where a client comes from. One that has disconnected already has no address; its requests need no answer.
pub(crate) fn address_of(socket: &mut Socket) -> IpAddr {
    place_of(socket).map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |place| place.ip())
}

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
        let body = match Carries::<OperatorMessage>::unpack(body) {
            Ok(message) => return self.take_call(from, message, now),
            Err(other) => other,
        };
        let body = match Carries::<QueueMessage>::unpack(body) {
            Ok(message) => return self.queues.deliver(from, message),
            Err(other) => other,
        };
        let body = match Carries::<CampaignMessage>::unpack(body) {
            Ok(message) => return self.pacer.deliver(from, message),
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
            self.adopt(*arrival, context);
        }
        worked
    }

    /// A connection that may have something to be served waits for its caller's turn.
    pub(super) fn line_up(&mut self, key: ConnectionKey) {
        let Some(socket) = self.sockets.get(key) else { return };
        if !socket.replace(Flag::LISTED, true) {
            let caller = self.turns.join_in(Lane::of(socket.stream.is_handshaking()), socket.caller);
            self.turns.wait(caller, key);
        }
    }

    /// The same for those who have more packets here than their share of the work.
    pub(super) fn line_up_unserved(&mut self) {
        let mut unserved = std::mem::take(&mut self.unserved);
        self.broker.take_unserved(&mut unserved);
        unserved.drain(..).for_each(|key| self.line_up(key));
        self.unserved = unserved;
    }

    /// Reads from sockets and serves what was read, in turn and up to a turn's worth.
    pub(super) fn serve_sockets<P: CarriesMqtt>(&mut self, context: &mut Context<'_, P>) -> bool {
        let (mut worked, mut blocked) = (false, Vec::new());
        self.turns.begin(self.turn_work);
        while let Some((caller, key, may)) = self.turns.take_next() {
            let (work, left) = self.visit(key, may, context);
            worked |= work > 0;
            self.turns.served(caller, work);
            match left {
                Left::Nothing => {}
                Left::More if work > 0 => self.line_up(key),
                Left::More | Left::Blocked => blocked.push(key),
            }
            self.turns.leave(caller);
        }
        // Looked at again in the next turn: something else may have ended by then.
        blocked.into_iter().for_each(|key| self.line_up(key));
        self.line_up_unserved();
        worked
    }

    /// Serves one connection, for about so much work. Returns how much it was.
    fn visit<P: CarriesMqtt>(&mut self, key: ConnectionKey, may: isize, context: &mut Context<'_, P>) -> (isize, Left) {
        let Some(socket) = self.sockets.get(key) else { return (0, Left::Nothing) };
        socket.set(Flag::LISTED, false);
        let (mut work, now) = (0, context.now());
        while work < may {
            let Some(socket) = self.sockets.get(key) else { return (work, Left::Nothing) };
            let (is_readable, has_ended) = (socket.has(Flag::READABLE), socket.has(Flag::ENDED));
            if self.broker.is_closing(key) {
                if !is_readable {
                    break;
                }
                work += self.discard(key, now);
            } else if self.broker.is_unserved(key) {
                work += self.broker.serve(key, &[], may - work, now);
            } else if has_ended {
                self.lose(key, now);
            } else if is_readable && self.broker.may_read(key) {
                work += self.read(key, may - work, context);
            } else {
                break;
            }
        }
        let Some(socket) = self.sockets.get(key) else { return (work, Left::Nothing) };
        let is_closing = self.broker.is_closing(key);
        let has_ended = socket.has(Flag::ENDED) && !is_closing;
        let has_more = socket.has(Flag::READABLE) || has_ended || self.broker.is_unserved(key);
        if !socket.has(Flag::POLLED) {
            self.unpolled.push(key);
        }
        let left = match has_more {
            false => Left::Nothing,
            true if is_closing || self.broker.may_read(key) => Left::More,
            true => Left::Blocked,
        };
        (work, left)
    }

    /// Reads once from one socket, and serves what came, for about so much work. Returns how much it was.
    fn read<P: CarriesMqtt>(&mut self, key: ConnectionKey, may: isize, context: &mut Context<'_, P>) -> isize {
        let now = context.now();
        self.metrics.reads.increment();
        let bytes_max = self.broker.missing_bytes(key).clamp(READ_BYTES, READ_BYTES_MAX);
        let socket = self.sockets.get(key).expect("it was looked at just now");
        let was_unsaid = socket.stream.is_unsaid();
        let heard = match socket.stream.read(&mut self.scratch, bytes_max) {
            Ok(heard) => heard,
            Err(error) => {
                // This worker then knows all that the client may have learned from another one.
                drive::hear(&mut PortShell { port: self, context }, key, &[], 0, now);
                let Some(socket) = self.sockets.get(key) else { return WORK_OF_VISIT };
                let (address, is_unsaid) = (address_of(socket), socket.stream.is_unsaid());
                let door = self.door_of(key);
                if is_unsaid && error.kind() == io::ErrorKind::InvalidData {
                    self.metrics.turned_away.increment("proxy");
                    tell_missing_header(&error, door, address);
                }
                tell_failed(&error, door, address);
                if error.kind() == io::ErrorKind::InvalidData {
                    // The client broke TLS or WebSocket, and was told so by them.
                    let ended = self.broker.closed(key, now);
                    self.close(key);
                    return WORK_OF_VISIT + work_of_bytes(self.scratch.cost()) + ended;
                }
                let ended = self.lose(key, now);
                return WORK_OF_VISIT + work_of_bytes(self.scratch.cost()) + ended;
            }
        };
        socket.set(Flag::READABLE, heard.more || socket.has(Flag::CLOSED));
        socket.set(Flag::ENDED, heard.ended);
        let is_first = !self.scratch.bytes(&heard).is_empty() && !socket.replace(Flag::HEARD, true);
        if was_unsaid && !socket.stream.is_unsaid() && !self.meet(key, now) {
            return WORK_OF_VISIT + work_of_bytes(self.scratch.cost());
        }
        // Taken out, because the port is the shell that the bytes are heard by.
        let scratch = std::mem::take(&mut self.scratch);
        let bytes = scratch.bytes(&heard);
        let work = WORK_OF_VISIT + work_of_bytes(scratch.cost());
        if is_first && is_header(bytes) && self.newcomers.has(key) {
            self.scratch = scratch;
            self.refuse_proxy(key, now);
            return work;
        }
        self.broker.arrived(monotonic_ns());
        let served = drive::hear(&mut PortShell { port: self, context }, key, bytes, (may - work).max(1), now);
        self.scratch = scratch;
        // One that is told why it is closed may have ended before: it still reads.
        let is_over = heard.ended && !self.broker.is_unserved(key) && !self.broker.is_closing(key);
        let ended = if is_over { self.lose(key, now) } else { 0 };
        work + served + ended
    }

    /// A connection began with a load balancer's word, and its address is not trusted. No packet can say so.
    fn refuse_proxy(&mut self, key: ConnectionKey, now: TimeMs) {
        let door = self.door_of(key);
        if let Some(socket) = self.sockets.get(key) {
            tell_untrusted_proxy(door, address_of(socket));
        }
        self.metrics.turned_away.increment("proxy");
        self.lose(key, now);
    }

    /// The name of a connection's door, as the configuration has it.
    fn door_of(&mut self, key: ConnectionKey) -> &'static str {
        let listener = self.sockets.get(key).map(|socket| usize::from(socket.listener.0));
        let listener = listener.and_then(|listener| self.settings.listeners.get(listener));
        if listener.is_some_and(|listener| listener.tls.is_some()) { "mqtts" } else { "mqtt" }
    }

    /// A load balancer has said whose connection this is: it counts for its client from now on, as if that had come
    /// itself. Returns whether it goes on.
    fn meet(&mut self, key: ConnectionKey, now: TimeMs) -> bool {
        let socket = self.sockets.get(key).expect("it was read just now");
        let address = address_of(socket);
        socket.caller = self.callers.of(&CallerName::of_address(address));
        if socket.standing() == Standing::Told {
            return true;
        }
        self.make_room_for(address, now);
        let Some(socket) = self.sockets.get(key) else { return false };
        let (mark, stay) = self.admission.come_from(socket.listener, socket.mark, address);
        socket.mark = mark;
        self.newcomers.leave(key);
        match stay {
            Stay::Served => self.newcomers.join(key, socket.listener, address),
            Stay::Refused => {
                socket.set(Flag::OVER_QUOTA, true);
                self.metrics.turned_away.increment("polite");
            }
            Stay::Closed => {
                self.metrics.turned_away.increment("limit");
                self.lose(key, now);
            }
        }
        stay != Stay::Closed
    }

    /// Reads once from a connection that is about to be closed, and throws that away: its client may have to send
    /// before it takes the last bytes. Returns how much work it was.
    fn discard(&mut self, key: ConnectionKey, now: TimeMs) -> isize {
        let socket = self.sockets.get(key).expect("it was looked at just now");
        let read = match socket.stream.discard(&mut self.scratch, READ_BYTES_MAX) {
            Ok(Some(read)) if read > 0 => read,
            Ok(_) => {
                socket.set(Flag::READABLE, false);
                0
            }
            Err(_) => {
                self.lose(key, now);
                0
            }
        };
        WORK_OF_VISIT + work_of_bytes(read)
    }

    /// A connection that comes from another worker or from the HTTP door.
    fn adopt<P: CarriesMqtt>(&mut self, arrival: Arrival, context: &mut Context<'_, P>) {
        let now = context.now();
        let Arrival { stream, address, listener, mark, refusal, bytes } = arrival;
        let socket = Socket::new(stream, listener, mark, refusal);
        let admitted = self.admit(socket, address, now).filter(|key| self.watch(*key, now));
        if let Some(key) = admitted {
            drive::hear(&mut PortShell { port: self, context }, key, &bytes, WORK_IN_ROUND_MAX, now);
            // Bytes that its layers have read already cause no event; bytes in the socket do.
            if self.sockets.get(key).is_some_and(|socket| socket.stream.is_ahead()) {
                self.has_news_of(key);
            }
        }
    }

    /// There may be something to read from a connection.
    pub(super) fn has_news_of(&mut self, key: ConnectionKey) {
        if let Some(socket) = self.sockets.get(key) {
            socket.set(Flag::READABLE, true);
            self.line_up(key);
        }
    }

    /// Gives a socket, whose client comes from `address`, to the broker.
    pub(super) fn admit(&mut self, mut socket: Socket, address: IpAddr, now: TimeMs) -> Option<ConnectionKey> {
        let (listener, mark) = (socket.listener, socket.mark);
        socket.caller = self.callers.of(&CallerName::of_address(address));
        // The WebSocket door, which is behind the listeners, takes packets of any size that the broker takes.
        let packet_bytes_max =
            self.settings.listeners.get(usize::from(listener.0)).map_or(0, |listener| listener.packet_bytes_max);
        let standing = socket.standing();
        let Some(key) = self.broker.open(ConnectionTraits { packet_bytes_max }, now) else {
            self.metrics.turned_away.increment("limit");
            self.admission.leave(listener, mark, standing);
            return None;
        };
        if standing == Standing::Served {
            self.newcomers.join(key, listener, address);
        }
        self.sockets.insert(key, socket);
        Some(key)
    }

    /// Has the poll watch those that were read before it knew them, and that stay here.
    pub(super) fn watch_newcomers(&mut self, now: TimeMs) {
        let mut unpolled = std::mem::take(&mut self.unpolled);
        for key in unpolled.drain(..) {
            self.watch(key, now);
        }
        self.unpolled = unpolled;
    }

    /// Has the poll say when there is something to read from a connection, also what is there already. Returns whether
    /// it goes on.
    fn watch(&mut self, key: ConnectionKey, now: TimeMs) -> bool {
        let Some(socket) = self.sockets.get(key) else { return false };
        if socket.has(Flag::POLLED) {
            return true;
        }
        socket.set(Flag::POLLED, true);
        let fd = socket.stream.socket().as_raw_fd();
        let token = SOCKETS | key.index as usize;
        let watched = self.poll().register(&mut SourceFd(&fd), token, Interest::READABLE).is_ok();
        if !watched {
            self.lose(key, now);
        }
        watched
    }

    /// The client is gone. Returns what that was worth.
    pub(super) fn lose(&mut self, key: ConnectionKey, now: TimeMs) -> isize {
        let work = self.broker.closed(key, now);
        self.verdicts.forget(key);
        self.latency.forget(key);
        self.newcomers.leave(key);
        if let Some(socket) = self.sockets.remove(key) {
            self.admission.leave(socket.listener, socket.mark, socket.standing());
        }
        work
    }
}
