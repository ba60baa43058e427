//! How a connection ends that the server closes: so that its client gets the last bytes, also while it still sends.
//!
//! ```text
//!   the last bytes, the closing bytes of TLS and WebSocket ─▶ socket ─▶ its sending half is shut down
//!   what the client still sends ─▶ read and thrown away ─▶ the client's end, or a bound ─▶ closed
//! ```
//!
//! Promise: whoever reads what it was sent learns why it was closed, as long as it has sent no more behind that than
//! [`LINGER_BYTES_MAX`], and goes within [`LINGER_MS`]. An end costs no memory beside its socket, and the place of a
//! connection until it is over: it stays counted among the connections of its door.
//!
//! Why: a socket that is closed while bytes are unread, or that gets more of them later, answers with a reset. A reset
//! makes the client's kernel forget what the client has not read yet: the reason above all.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use crate::stream::{Scratch, Stream};

/// How long a connection that was closed may take to end, in milliseconds.
pub const LINGER_MS: u64 = 5_000;
/// The same while the process stops.
pub const LINGER_STOPPING_MS: u64 = 1_000;
/// Bytes that are thrown away for one such connection.
pub const LINGER_BYTES_MAX: usize = 16 << 20;
/// Bytes of one read that is thrown away.
const READ_BYTES: usize = 64 << 10;

/// A socket whose sending half can be shut down.
pub trait ShutDown: Read + Write {
    /// Says that nothing more is sent.
    fn shut_down_sending(&self) -> io::Result<()>;
}

impl ShutDown for std::net::TcpStream {
    fn shut_down_sending(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl ShutDown for mio::net::TcpStream {
    fn shut_down_sending(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// Where the end of one connection stands.
#[derive(Clone, Copy, Debug)]
pub struct Linger {
    until_ms: u64,
    /// Bytes that may still be thrown away.
    bytes_left: usize,
    /// All was sent, and the sending half is shut down.
    is_shut: bool,
}

/// What is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The client has ended, or may not go on: the socket is to be dropped.
    Now,
    /// When the client says more, or takes more.
    Later,
    /// There is more to be read at once.
    Reads,
}

impl Linger {
    /// Begins at `now_ms`: the closing bytes of the layers are sent, as far as the socket takes them now.
    pub fn begin<S: ShutDown>(stream: &mut Stream<S>, scratch: &mut Scratch, now_ms: u64) -> Linger {
        stream.close(scratch);
        Linger { until_ms: now_ms + LINGER_MS, bytes_left: LINGER_BYTES_MAX, is_shut: false }
    }

    /// Until when it may last.
    pub fn until_ms(&self) -> u64 {
        self.until_ms
    }

    /// The process stops.
    pub fn hurry(&mut self, now_ms: u64) {
        self.until_ms = self.until_ms.min(now_ms + LINGER_STOPPING_MS);
    }

    /// Whether its time is over.
    pub fn is_overdue(&self, now_ms: u64) -> bool {
        now_ms >= self.until_ms
    }

    /// Sends what is unsent, and throws away what has come: at most `bytes_max`, from which it takes what it has read.
    pub fn go_on<S: ShutDown>(&mut self, stream: &mut Stream<S>, scratch: &mut Scratch, bytes_max: &mut usize) -> Ends {
        // A client that cannot be written to gets no reason either.
        if self.shut_down(stream, scratch).is_err() {
            return Ends::Now;
        }
        while self.bytes_left > 0 {
            if *bytes_max == 0 {
                return Ends::Reads;
            }
            match stream.discard(scratch, READ_BYTES.min(*bytes_max).min(self.bytes_left)) {
                Ok(None) => return Ends::Later,
                Ok(Some(0)) | Err(_) => return Ends::Now,
                Ok(Some(bytes)) => {
                    self.bytes_left -= bytes;
                    *bytes_max -= bytes;
                }
            }
        }
        Ends::Now
    }

    fn shut_down<S: ShutDown>(&mut self, stream: &mut Stream<S>, scratch: &mut Scratch) -> io::Result<()> {
        if !self.is_shut && !stream.write(&[], scratch)?.blocked {
            stream.socket().shut_down_sending()?;
            self.is_shut = true;
        }
        Ok(())
    }
}
