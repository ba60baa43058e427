//! From the broker's outboxes to sockets: one write for each client and turn, however many packets it carries.

use std::io;
use std::os::fd::AsRawFd;

use mio::Interest;
use mio::unix::SourceFd;
use tidegate_broker::ConnectionKey;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_runtime::PortSockets;

use super::read::address_of;
use super::{LINGERING, MqttPort, READ_BYTES_MAX, SOCKETS, TURN_WORK_MIN, TURN_WRITTEN_MAX, monotonic_ms};
use crate::admission::Standing;
use crate::linger::{Ends, Linger};
use crate::mqtt::lingering::LingeringSocket;
use crate::mqtt::sockets::{Flag, Socket};
use crate::turns::limits::WORK_IN_TURN_MAX;

impl<L: LogStore> MqttPort<L> {
    /// One write, and what it means. Returns how many bytes the socket took.
    pub(super) fn write(&mut self, key: ConnectionKey, now: TimeMs) -> usize {
        let Some(socket) = self.sockets.get(key) else { return 0 };
        if socket.has(Flag::BLOCKED) {
            return 0;
        }
        self.metrics.writes.increment();
        let Ok(written) = socket.stream.write(self.broker.unsent(key), &mut self.scratch) else {
            // Its end is met by the next visit: this worker then knows all that the client may have learned from
            // another one.
            [Flag::BLOCKED, Flag::READABLE, Flag::ENDED].into_iter().for_each(|flag| socket.set(flag, true));
            self.line_up(key);
            return 0;
        };
        if written.blocked {
            socket.set(Flag::BLOCKED, true);
            // Registered for writability at the first full socket, and edge-triggered from then on. Most sockets are
            // never full and are never registered for it.
            if !socket.replace(Flag::WATCHED, true) && self.watch_both(key).is_err() {
                self.lose(key, now);
                return 0;
            }
        }
        if written.taken > 0 {
            self.latency.wrote(key);
        }
        written.taken
    }

    /// Closes a socket, after the last packets were written as far as it took them. It stays, and stays counted, until
    /// its client has ended: so that this gets the reason.
    pub(super) fn close(&mut self, key: ConnectionKey) {
        self.verdicts.forget(key);
        self.latency.forget(key);
        self.newcomers.leave(key);
        let Some(mut socket) = self.sockets.remove(key) else { return };
        let now_ms = monotonic_ms();
        let mut linger = Linger::begin(&mut socket.stream, &mut self.scratch, now_ms);
        if self.stopping {
            linger.hurry(now_ms);
        }
        // Most clients have ended, or do so when they read the end: they cost one read.
        let ends = linger.go_on(&mut socket.stream, &mut self.scratch, &mut READ_BYTES_MAX.clone());
        let place = self.lingering.next_place();
        if ends == Ends::Now || poll_both(self.poll(), &mut socket, LINGERING | place).is_err() {
            return self.admission.leave(socket.listener, socket.mark, socket.standing());
        }
        let (standing, address) = (socket.standing(), address_of(&mut socket));
        let Socket { stream, listener, mark, .. } = socket;
        let joins = standing == Standing::Served;
        let line = joins.then(|| self.newcomers.join_lingering(place, listener, address));
        self.lingering.insert(LingeringSocket { stream, linger, listener, mark, line, is_listed: false, number: 0 });
        if ends == Ends::Reads {
            self.lingering.list(place);
        }
    }

    /// Has the poll say also when a connection takes something again.
    fn watch_both(&mut self, key: ConnectionKey) -> io::Result<()> {
        let (poll, socket) = (self.poll.as_ref(), self.sockets.get(key));
        let (Some(poll), Some(socket)) = (poll, socket) else { return Ok(()) };
        poll_both(poll, socket, SOCKETS | key.index as usize)
    }

    /// Adapts how much the next turn does to how much this turn wrote. One byte read may cause a thousand bytes to
    /// write, and all of them wait in outboxes until the end of the turn.
    pub(super) fn adapt(&mut self, written: usize) {
        if written > TURN_WRITTEN_MAX {
            self.turn_work = (self.turn_work / 2).max(TURN_WORK_MIN);
        } else if written < TURN_WRITTEN_MAX / 4 {
            self.turn_work = (self.turn_work * 2).min(WORK_IN_TURN_MAX);
        }
    }
}

/// Has the poll say both when a socket has something and when it takes something, whether it knows the socket or not.
fn poll_both(poll: &PortSockets, socket: &mut Socket, token: usize) -> io::Result<()> {
    let fd = socket.stream.socket().as_raw_fd();
    let (source, both) = (&mut SourceFd(&fd), Interest::READABLE | Interest::WRITABLE);
    match socket.replace(Flag::POLLED, true) {
        true => poll.reregister(source, token, both),
        false => poll.register(source, token, both),
    }
}
