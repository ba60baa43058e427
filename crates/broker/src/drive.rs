//! One turn of one worker around its broker. Whoever runs a broker runs it by this: the real port, the simulator, the
//! fuzzer, the tests, and the load that holds millions of clients in memory. So what tests run is what the port runs.
//!
//! ```text
//!   hear:  a socket was read ─▶ take_messages ─▶ Broker::serve, or Broker::closed
//!   turn:  take_answers ─▶ Broker::step ─▶ write_logs ─▶ actions: act, until there are none ─▶ ask
//!          ─▶ for each worker whose ring has room: send
//!          ─▶ if all had room: write to who can take something, then close
//! ```
//!
//! A worker takes its messages at the beginning of its loop as well, before it reads from sockets.
//!
//! Promise: when a client has received an answer, every worker knows what was answered. Nothing is written while a
//! message waits for a full ring, and messages are taken between reading from a socket and decoding what was read. So
//! they are before the broker is told that a client is gone: its will goes to whoever had subscribed by then.
//!
//! Invariant: nothing here knows what a socket, a ring or a service is: a [`Shell`] does.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;

use crate::limits::{CLOSING_MAX, LAST_BYTES_EVERY_MS, LAST_BYTES_MS};
use crate::{Action, Broker, BrokerMessage, ConnectionKey};

/// Rounds of writing in one turn: what a socket took may let the broker send more to it.
const ROUNDS_PER_TURN: usize = 4;

/// What is around one worker's broker: sockets, rings to other workers, and services.
pub trait Shell<L: LogStore> {
    /// The broker.
    fn driven(&mut self) -> &mut Driven<L>;

    /// Gives the broker all messages of other workers' brokers that have come ([`Broker::deliver`]).
    fn take_messages(&mut self, now: TimeMs);

    /// Whether the ring to `worker` takes a message.
    fn has_room(&mut self, worker: u16) -> bool;

    /// Sends a message to another worker's broker, for whom there is room.
    fn send(&mut self, worker: u16, message: BrokerMessage);

    /// All messages of this turn were sent.
    fn sent_messages(&mut self) {}

    /// Does what the broker asks for; [`Action::Close`] never comes here.
    fn act(&mut self, action: Action, now: TimeMs);

    /// Gives the broker what was answered since to what it has asked. Whether there was anything.
    fn take_answers(&mut self, _now: TimeMs) -> bool {
        false
    }

    /// Asks services what the actions were about.
    fn ask(&mut self, _now: TimeMs) {}

    /// Lets the logs of the broker's shards write, where nobody else does. Whether they did anything.
    fn write_logs(&mut self) -> bool {
        false
    }

    /// Writes what [`Broker::unsent`] holds, as far as the client takes it without waiting; returns how many bytes that
    /// were. One that does not take all of it is written to again when it is [`Driven::is_writable`]. Of one that is
    /// gone the shell tells the broker.
    fn write(&mut self, key: ConnectionKey, now: TimeMs) -> usize;

    /// The next write to this client is to be tried, whether or not it said that it takes something: one that takes
    /// little at a time says so late.
    fn try_again(&mut self, _key: ConnectionKey) {}

    /// The broker is done with this connection, and has forgotten its key: its socket is to be closed.
    fn close(&mut self, key: ConnectionKey, now: TimeMs);
}

/// A broker, and what its turns keep.
pub struct Driven<L: LogStore> {
    broker: Broker<L>,
    /// Connections whose clients may take something again.
    writable: Vec<ConnectionKey>,
    /// Connections that are to be closed once their clients have taken the last bytes.
    closing: Vec<Closing>,
    /// Used again and again.
    actions: Vec<Action>,
    flushable: Vec<ConnectionKey>,
}

impl<L: LogStore> Driven<L> {
    /// A broker that nothing has happened to.
    pub fn new(broker: Broker<L>) -> Driven<L> {
        Driven { broker, writable: Vec::new(), closing: Vec::new(), actions: Vec::new(), flushable: Vec::new() }
    }

    /// The client of this connection may take something again.
    pub fn is_writable(&mut self, key: ConnectionKey) {
        self.writable.push(key);
    }

    /// The broker alone.
    pub fn into_broker(self) -> Broker<L> {
        self.broker
    }
}

impl<L: LogStore> Deref for Driven<L> {
    type Target = Broker<L>;

    fn deref(&self) -> &Broker<L> {
        &self.broker
    }
}

impl<L: LogStore> DerefMut for Driven<L> {
    fn deref_mut(&mut self) -> &mut Broker<L> {
        &mut self.broker
    }
}

/// A connection that is to be closed.
#[derive(Clone, Copy, Debug)]
struct Closing {
    key: ConnectionKey,
    since: TimeMs,
    /// When its last bytes were last written, as far as they were taken.
    tried_at: TimeMs,
}

/// What came of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turned {
    /// Whether there was anything to do.
    pub worked: bool,
    /// Bytes that clients took; `None`: a ring was full, so nothing was written.
    pub written_bytes: Option<usize>,
}

/// Bytes were read from a socket, or its end: for about so much work of them is done as it `may`. Returns how much it
/// was.
pub fn hear<L: LogStore, S: Shell<L>>(
    shell: &mut S,
    key: ConnectionKey,
    bytes: &[u8],
    may: isize,
    now: TimeMs,
) -> isize {
    // Taken between reading and decoding: this worker then knows all that the client may have learned from another
    // worker.
    shell.take_messages(now);
    if bytes.is_empty() { 0 } else { shell.driven().serve(key, bytes, may, now) }
}

/// Everything that does not come from a socket: answers, shards, timers; then what the broker asks for, tells
/// its peers, and has for its clients.
pub fn turn<L: LogStore, S: Shell<L>>(shell: &mut S, now: TimeMs) -> Turned {
    let mut worked = shell.take_answers(now);
    worked |= shell.driven().step(now);
    worked |= shell.write_logs();
    worked |= act(shell, now);
    shell.ask(now);
    let (clear, told) = tell_peers(shell);
    worked |= told;
    let mut written_bytes = None;
    if clear {
        let (wrote, bytes) = write(shell, now);
        worked |= wrote;
        written_bytes = Some(bytes);
    }
    Turned { worked, written_bytes }
}

/// Does what the broker asks for, until it asks for nothing more. Whether there was anything.
fn act<L: LogStore, S: Shell<L>>(shell: &mut S, now: TimeMs) -> bool {
    let mut worked = false;
    loop {
        let driven = shell.driven();
        let mut actions = std::mem::take(&mut driven.actions);
        actions.extend(driven.broker.actions());
        let is_over = actions.is_empty();
        for action in actions.drain(..) {
            worked = true;
            match action {
                Action::Close { key } => {
                    shell.driven().closing.push(Closing { key, since: now, tried_at: TimeMs(0) });
                }
                action => shell.act(action, now),
            }
        }
        shell.driven().actions = actions;
        if is_over {
            return worked;
        }
    }
}

/// Sends what the broker has for its peers. Whether all rings had room, and whether there was anything.
fn tell_peers<L: LogStore, S: Shell<L>>(shell: &mut S) -> (bool, bool) {
    let (mut clear, mut told) = (true, false);
    for peer in shell.driven().peers() {
        if !shell.has_room(peer) {
            clear = false;
        } else if let Some(message) = shell.driven().take_batch(peer) {
            told = true;
            shell.send(peer, message);
        }
    }
    if told {
        // The receivers work while this worker writes to its clients.
        shell.sent_messages();
    }
    (clear, told)
}

/// Writes to clients what they take, and closes those that are to be closed. Whether there was anything, and the bytes.
fn write<L: LogStore, S: Shell<L>>(shell: &mut S, now: TimeMs) -> (bool, usize) {
    let driven = shell.driven();
    let mut worked = !driven.writable.is_empty();
    let mut bytes = 0;
    for key in std::mem::take(&mut driven.writable) {
        bytes += write_to(shell, key, now);
    }
    for _ in 0..ROUNDS_PER_TURN {
        let driven = shell.driven();
        let mut flushable = std::mem::take(&mut driven.flushable);
        driven.broker.take_flushable(&mut flushable);
        let is_over = flushable.is_empty();
        worked |= !is_over;
        for key in flushable.drain(..) {
            bytes += write_to(shell, key, now);
        }
        shell.driven().flushable = flushable;
        if is_over {
            break;
        }
    }
    let (closed, closed_bytes) = close(shell, now);
    (worked | closed, bytes + closed_bytes)
}

/// Closes connections whose clients have the last bytes, such as the reason, or do not take them for too long. Whether
/// there were any, and the bytes.
fn close<L: LogStore, S: Shell<L>>(shell: &mut S, now: TimeMs) -> (bool, usize) {
    let (mut worked, mut bytes) = (false, 0);
    let closing = std::mem::take(&mut shell.driven().closing);
    let too_many = closing.len().saturating_sub(CLOSING_MAX);
    for (nth, Closing { key, since, mut tried_at }) in closing.into_iter().enumerate() {
        if now.0.saturating_sub(tried_at.0) >= LAST_BYTES_EVERY_MS {
            tried_at = now;
            shell.try_again(key);
            bytes += write_to(shell, key, now);
        }
        let may_wait = nth >= too_many && now.0.saturating_sub(since.0) < LAST_BYTES_MS;
        if may_wait && !shell.driven().unsent(key).is_empty() {
            shell.driven().closing.push(Closing { key, since, tried_at });
            continue;
        }
        worked = true;
        shell.driven().closed(key, now);
        shell.close(key, now);
    }
    (worked, bytes)
}

fn write_to<L: LogStore, S: Shell<L>>(shell: &mut S, key: ConnectionKey, now: TimeMs) -> usize {
    let taken = shell.write(key, now);
    if taken > 0 {
        shell.driven().sent(key, taken, now);
    }
    taken
}

/// Messages on their way between the brokers of workers that run in one thread: in order, and with room for all.
#[derive(Debug)]
pub struct Rings {
    /// By receiver, with the sender of each.
    to: Vec<VecDeque<(u16, BrokerMessage)>>,
}

impl Rings {
    /// Nothing is on its way between so many workers.
    pub fn new(workers: u16) -> Rings {
        Rings { to: (0..workers).map(|_| VecDeque::new()).collect() }
    }

    /// A message sets out.
    pub fn send(&mut self, from: u16, to: u16, message: BrokerMessage) {
        assert!(from != to, "nobody talks to itself");
        self.to[usize::from(to)].push_back((from, message));
    }

    /// The next message for a worker, and whose it is.
    pub fn take(&mut self, to: u16) -> Option<(u16, BrokerMessage)> {
        self.to[usize::from(to)].pop_front()
    }
}
