//! From the broker's outboxes to sockets: one write for each client and turn, however many packets it carries.

use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use mio::Interest;
use mio::unix::SourceFd;
use tidegate_broker::ConnectionKey;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;

use super::{MqttPort, SOCKETS, TURN_WORK_MIN, TURN_WRITTEN_MAX};
use crate::mqtt::sockets::Flag;
use crate::turns::limits::WORK_IN_TURN_MAX;

/// How long a closed socket stays open for reading, so that its client gets the last packets.
const LINGER: Duration = Duration::from_millis(500);
/// The most sockets that stay so; when there is one more, the oldest is dropped.
const LINGERING_MAX: usize = 1_024;

impl<L: LogStore> MqttPort<L> {
    /// One write, and what it means. Returns how many bytes the socket took.
    pub(super) fn write(&mut self, key: ConnectionKey, now: TimeMs) -> usize {
        let Some(socket) = self.sockets.get(key) else { return 0 };
        if socket.has(Flag::BLOCKED) {
            return 0;
        }
        self.metrics.writes.increment();
        let Ok(written) = socket.stream.write(self.broker.unsent(key), &mut self.scratch) else {
            self.lose(key, now);
            return 0;
        };
        if written.blocked {
            socket.set(Flag::BLOCKED, true);
            // Registered for writability at the first full socket, and edge-triggered from then on. Most sockets are
            // never full and are never registered for it.
            if !socket.replace(Flag::WATCHED, true) {
                let fd = socket.stream.socket().as_raw_fd();
                let both = Interest::READABLE | Interest::WRITABLE;
                if self.poll().reregister(&mut SourceFd(&fd), SOCKETS | key.index as usize, both).is_err() {
                    self.lose(key, now);
                    return 0;
                }
            }
        }
        if written.taken > 0 {
            self.latency.wrote(key);
        }
        written.taken
    }

    /// Closes a socket, after the last packets were written as far as it took them.
    pub(super) fn close(&mut self, key: ConnectionKey) {
        self.verdicts.forget(key);
        self.latency.forget(key);
        let Some(mut socket) = self.sockets.remove(key) else { return };
        self.admission.leave(socket.listener, socket.mark);
        socket.stream.close(&mut self.scratch);
        if socket.has(Flag::READABLE) {
            // Closing it with unread bytes would reset the connection, and the client might not get the reason.
            let tcp = socket.stream.into_socket();
            if tcp.shutdown(Shutdown::Write).is_ok() {
                self.lingering.push_back((Instant::now(), tcp));
            }
            if self.lingering.len() > LINGERING_MAX {
                self.lingering.pop_front();
            }
        }
    }

    /// Lets go of sockets that have been closed for long enough.
    pub(super) fn end_lingering(&mut self, now: Instant) {
        while self.lingering.front().is_some_and(|(since, _)| now.duration_since(*since) >= LINGER) {
            self.lingering.pop_front();
        }
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
