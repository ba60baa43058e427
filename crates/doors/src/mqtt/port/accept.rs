//! Accepts clients from listeners, and ends connections that give way to them.

use std::io;
use std::net::{IpAddr, TcpStream};

use mio::Interest;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_runtime::PortSockets;

use super::read::address_of;
use super::{LISTENERS, MqttPort};
use crate::mqtt::admission::{Entry, ListenerIndex, Standing, monotonic_ns};
use crate::mqtt::newcomers::Newcomer;
use crate::mqtt::sockets::Socket;
use crate::security::{self, SecurityEvent};
use crate::stream::Stream;

/// Clients that one listener lets in before others get their turn.
const ACCEPTS_PER_TURN: usize = 128;

/// One worker's end of a listener.
pub(super) struct Door {
    listener: mio::net::TcpListener,
    number: usize,
    /// Somebody may wait before it.
    waited_for: bool,
    /// No client is accepted before the next tick: there are too many clients, or no free descriptors.
    shut: bool,
}

impl Door {
    pub fn new(number: usize, listener: std::net::TcpListener) -> Door {
        Door { listener: mio::net::TcpListener::from_std(listener), number, waited_for: true, shut: false }
    }

    pub fn register(&mut self, sockets: &PortSockets) -> io::Result<()> {
        sockets.register(&mut self.listener, LISTENERS | self.number, Interest::READABLE)
    }

    pub fn somebody_waits(&mut self) {
        self.waited_for = true;
    }

    /// Lets clients in again that could not be let in before.
    pub fn look_again(&mut self) {
        self.shut = false;
    }

    /// Whether a client may be accepted at once.
    pub fn has_more(&self) -> bool {
        self.waited_for && !self.shut
    }
}

impl<L: LogStore> MqttPort<L> {
    /// Lets in who waits before the listeners.
    pub(super) fn accept(&mut self, now: TimeMs) -> bool {
        let mut worked = false;
        for number in 0..self.doors.len() {
            let index = ListenerIndex(number as u8);
            for _ in 0..ACCEPTS_PER_TURN {
                let door = &mut self.doors[number];
                if !door.has_more() {
                    break;
                }
                let throttle = self.admission.throttle(index);
                if !throttle.take(monotonic_ns()) {
                    door.shut = true;
                    self.metrics.turned_away.increment("throttle");
                    break;
                }
                match door.listener.accept() {
                    Ok((tcp, from)) => {
                        worked = true;
                        self.accept_client(index, tcp.into(), from.ip(), now);
                    }
                    Err(error) => {
                        throttle.give_back();
                        match error.kind() {
                            io::ErrorKind::WouldBlock => door.waited_for = false,
                            // The client was gone before it was taken.
                            io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                            // Descriptors have run out: trying again at once would only use up CPU time.
                            _ => {
                                door.shut = true;
                                self.metrics.turned_away.increment("files");
                            }
                        }
                    }
                }
            }
        }
        worked
    }

    fn accept_client(&mut self, index: ListenerIndex, tcp: TcpStream, address: IpAddr, now: TimeMs) {
        self.make_room_for(address, now);
        let entry = self.admission.enter(index, address, Some(self.me.endpoint.0));
        self.give_way_as_asked(now);
        let (mark, refusal) = match entry {
            Entry::Admitted(mark) => (mark, None),
            Entry::Refused(mark, reason) => (mark, Some(reason)),
            Entry::Closed => return self.metrics.turned_away.increment("limit"),
        };
        if refusal.is_some() {
            self.metrics.turned_away.increment("polite");
        }
        let listener = &self.settings.listeners[usize::from(index.0)];
        match Stream::accept(tcp, listener.tls.as_ref().map(|tls| (tls, address))) {
            Ok(stream) => {
                let stream = match listener.proxy.header_of(address) {
                    Some(header) => stream.behind(header),
                    None => stream,
                };
                if let Some(key) = self.admit(Socket::new(stream, index, mark, refusal), address, now) {
                    // It is read before the poll knows it.
                    self.has_news_of(key);
                }
            }
            // The configuration of TLS was found good when it was read.
            Err(_) => {
                let standing = refusal.map_or(Standing::Served, |_| Standing::Told);
                self.admission.leave(index, mark, standing);
            }
        }
    }

    /// If an address has as many connections as it may, its own oldest that has not shown who it is gives way.
    pub(super) fn make_room_for(&mut self, address: IpAddr, now: TimeMs) {
        if let Some(newcomer) = self.newcomers.take_of_full(address) {
            self.give_way(newcomer, "its address has as many connections as it may", now);
        }
    }

    /// Ends as many connections as this worker was asked to since the last time. Whether there were any.
    pub(super) fn give_way_as_asked(&mut self, now: TimeMs) -> bool {
        if !self.newcomers.are_asked() {
            return false;
        }
        for newcomer in self.newcomers.take_asked() {
            self.give_way(newcomer, "the listener, or the server, has as many connections as it may", now);
        }
        true
    }

    /// Ends a connection at once. Nothing can be said to it: before its CONNECT no packet of the server may come.
    fn give_way(&mut self, newcomer: Newcomer, full: &str, now: TimeMs) {
        self.metrics.turned_away.increment("gave_way");
        match newcomer {
            Newcomer::Open(key) => {
                if let Some(socket) = self.sockets.get(key) {
                    let detail =
                        format!("no CONNECT was accepted from it, and it gave way to a new connection: {full}");
                    security::tell(SecurityEvent::GaveWay, "mqtt", address_of(socket), "", &detail);
                }
                self.lose(key, now);
            }
            Newcomer::Lingering(place) => self.lingering.drop(place, &mut self.newcomers),
        }
    }
}
