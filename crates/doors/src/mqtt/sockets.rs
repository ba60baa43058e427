//! The sockets of one worker, under the keys that its broker gave their connections.
//!
//! Why chunks: a vector that grows needs its old and its new memory at once while it copies. With millions of clients,
//! that would be the largest allocation of the process.

use std::net::TcpStream;

use tidegate_broker::{ConnectionKey, ReasonCode};

use crate::admission::{AddressMark, ListenerIndex, Standing};
use crate::stream::Stream;
use crate::turns::CallerMark;

/// Places of a chunk.
const CHUNK: usize = 1_024;

/// One client's socket and what the shell knows of it.
pub(super) struct Socket {
    pub stream: Stream<TcpStream>,
    pub mark: AddressMark,
    /// Whose turn is this connection's: its address's, and when it is known, its user's.
    pub caller: CallerMark,
    generation: u32,
    pub listener: ListenerIndex,
    flags: u16,
}

/// A fact about a socket.
#[derive(Clone, Copy)]
pub(super) struct Flag(u16);

impl Flag {
    /// There may be something to read from it.
    pub const READABLE: Flag = Flag(1);
    /// It waits for its turn.
    pub const LISTED: Flag = Flag(2);
    /// It takes nothing until its next event.
    pub const BLOCKED: Flag = Flag(4);
    /// The poll tells when it takes something again.
    pub const WATCHED: Flag = Flag(8);
    /// Let in only to be told that there are too many clients.
    pub const OVER_QUOTA: Flag = Flag(16);
    /// Let in only to be told that there is no time.
    pub const BUSY: Flag = Flag(32);
    /// It was read to its end; what came before is still served.
    pub const ENDED: Flag = Flag(64);
    /// The client sends nothing more. The poll says so once, so the socket is read until its end is met.
    pub const CLOSED: Flag = Flag(128);
    /// The poll knows it. One that was accepted is read first: its client mostly has said who it is, and may belong to
    /// another worker.
    pub const POLLED: Flag = Flag(256);
    /// It has sent something.
    pub const HEARD: Flag = Flag(512);
}

impl Socket {
    /// A socket that was let in; `refusal` if only to be told why it may not stay.
    pub fn new(
        stream: Stream<TcpStream>,
        listener: ListenerIndex,
        mark: AddressMark,
        refusal: Option<ReasonCode>,
    ) -> Socket {
        let caller = CallerMark::default();
        let mut socket = Socket { stream, mark, caller, generation: 0, listener, flags: 0 };
        match refusal {
            None => {}
            Some(ReasonCode::SERVER_BUSY) => socket.set(Flag::BUSY, true),
            Some(_) => socket.set(Flag::OVER_QUOTA, true),
        }
        socket
    }

    pub fn has(&self, flag: Flag) -> bool {
        self.flags & flag.0 != 0
    }

    /// Sets it, and says what it was.
    pub fn replace(&mut self, flag: Flag, on: bool) -> bool {
        let before = self.has(flag);
        self.set(flag, on);
        before
    }

    pub fn set(&mut self, flag: Flag, on: bool) {
        self.flags = if on { self.flags | flag.0 } else { self.flags & !flag.0 };
    }

    /// What it is counted as.
    pub fn standing(&self) -> Standing {
        self.refusal().map_or(Standing::Served, |_| Standing::Told)
    }

    /// Why it may not stay.
    pub fn refusal(&self) -> Option<ReasonCode> {
        if self.has(Flag::OVER_QUOTA) {
            return Some(ReasonCode::QUOTA_EXCEEDED);
        }
        self.has(Flag::BUSY).then_some(ReasonCode::SERVER_BUSY)
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Sockets {
    chunks: Vec<Box<[Option<Socket>]>>,
    len: usize,
}

impl Sockets {
    pub fn insert(&mut self, key: ConnectionKey, mut socket: Socket) {
        socket.generation = key.generation;
        let (chunk, place) = (key.index as usize / CHUNK, key.index as usize % CHUNK);
        while self.chunks.len() <= chunk {
            self.chunks.push((0..CHUNK).map(|_| None).collect());
        }
        let before = self.chunks[chunk][place].replace(socket);
        assert!(before.is_none(), "a broker names one connection at a time so");
        self.len += 1;
    }

    /// The one with this key, if it is still there.
    pub fn get(&mut self, key: ConnectionKey) -> Option<&mut Socket> {
        self.slot(key.index)?.as_mut().filter(|socket| socket.generation == key.generation)
    }

    /// The one that stands at this place now.
    pub fn at(&mut self, index: u32) -> Option<(ConnectionKey, &mut Socket)> {
        let socket = self.slot(index)?.as_mut()?;
        Some((ConnectionKey { index, generation: socket.generation }, socket))
    }

    pub fn remove(&mut self, key: ConnectionKey) -> Option<Socket> {
        let slot = self.slot(key.index)?;
        let socket = slot.take_if(|socket| socket.generation == key.generation)?;
        self.len -= 1;
        Some(socket)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// One more than the greatest index at which a socket may stand.
    pub fn places(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    fn slot(&mut self, index: u32) -> Option<&mut Option<Socket>> {
        Some(&mut self.chunks.get_mut(index as usize / CHUNK)?[index as usize % CHUNK])
    }
}

const _: () = assert!(size_of::<Option<Socket>>() <= 32, "an idle client's place in the table");

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_late_word_finds_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = |refusal| {
            let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            Socket::new(Stream::accept(tcp, None).unwrap(), ListenerIndex(0), AddressMark::default(), refusal)
        };
        let key = |generation| ConnectionKey { index: 5_000, generation };
        let mut sockets = Sockets::default();
        sockets.insert(key(1), socket(None));
        assert_eq!(sockets.get(key(1)).unwrap().refusal(), None);
        assert!(sockets.get(key(2)).is_none() && sockets.remove(key(2)).is_none());
        assert!(sockets.remove(key(1)).is_some());
        sockets.insert(key(2), socket(Some(ReasonCode::SERVER_BUSY)));
        assert!(sockets.get(key(1)).is_none());
        assert_eq!(sockets.at(5_000).unwrap().1.refusal(), Some(ReasonCode::SERVER_BUSY));
        assert!(sockets.at(6_000).is_none() && sockets.at(5_001).is_none());
        assert_eq!(sockets.len(), 1);
    }
}
