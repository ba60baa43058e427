//! Errors, one kind for each thing the caller can do about them.

use std::io;
use std::time::Duration;
use tidegate_wire::{BadFrame, FrameError};

/// Why a call failed. A refusal of the ledger is not an error but an [`crate::Outcome`].
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server answered the whole request with an error.
    #[error("the server says {0}")]
    Server(ServerError),
    /// Nothing came, or could be sent, for as long as [`crate::Timeouts`] says. Whether the request was served is
    /// unknown; the connection is whole, and the call to receive or flush can be repeated.
    #[error("no progress within the time-out; whether the request was served is unknown")]
    TimedOut,
    /// The server closed the connection. Whether requests in flight were served is unknown: ask again with the same
    /// ids on a new one, and tell wins and losses again. Only bids are not asked again: their auction is over.
    #[error(
        "the server closed the connection with {in_flight} requests in flight; their outcome is unknown: connect, and \
         send again what has an id or a token, but no bid requests"
    )]
    Closed {
        /// How many requests had no reply yet.
        in_flight: usize,
    },
    /// As many requests are in flight as the server takes; receive a reply first.
    #[error("{in_flight_max} requests are in flight, the most that this server takes; receive a reply first")]
    TooManyInFlight {
        /// The server's bound.
        in_flight_max: usize,
    },
    /// The request is longer than the server reads; nothing was sent.
    #[error("the request has {bytes} bytes, but the server reads {bytes_max}; send it in parts")]
    RequestTooLarge {
        /// Of the request.
        bytes: usize,
        /// The server's bound.
        bytes_max: usize,
    },
    /// The request carries more items than the server takes; nothing was sent.
    #[error("the request carries {items} items, but the server takes {items_max}; send it in parts")]
    TooManyItems {
        /// Of the request.
        items: usize,
        /// The server's bound.
        items_max: usize,
    },
    /// A packet for the pacer has no items; nothing was sent.
    #[error("the packet has no items; send 1 to 256")]
    NoItems,
    /// The reply is of another kind than the request, or has the wrong number of outcomes.
    #[error("the reply does not fit the request: {0}")]
    ReplyMismatch(String),
    /// The bytes are not frames: this is not the binary port, or not this protocol.
    #[error("the bytes received are no frames of this protocol: {0}")]
    Frame(#[from] FrameError),
    /// An HTTP server answers.
    #[error("an HTTP server answers there: give the address of the binary port, which the log of the server says")]
    Http,
    /// A frame is not a reply.
    #[error("a reply could not be read: {0}")]
    Reply(#[from] BadFrame),
    /// The socket failed.
    #[error("the connection failed: {0}")]
    Io(#[source] io::Error),
    /// TLS could not be set up.
    #[cfg(feature = "tls")]
    #[error("TLS could not be set up: {0}")]
    Tls(#[from] rustls::Error),
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        match error.kind() {
            // A socket with a time-out says one or the other, depending on the system.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::TimedOut,
            _ => ClientError::Io(error),
        }
    }
}

/// What the server said instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// Stable name: `busy`, `forbidden`, `account_not_found` ...
    pub code: String,
    /// For people.
    pub detail: String,
    /// When asking again makes sense; `None` when it does not. For bids it never does: ask then for those of other
    /// auctions.
    pub retry_after: Option<Duration>,
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)?;
        match self.retry_after {
            Some(after) => write!(f, " (ask again in {} ms, with the same ids)", after.as_millis()),
            None => Ok(()),
        }
    }
}
