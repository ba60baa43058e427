//! How one kind of server is queried and how it answers. Everything else about a load is the same for all servers.

use super::Outcomes;
use anyhow::Result;

/// One answer taken from the front of what a server sent.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Bytes it took.
    pub bytes: usize,
    /// The tag of the request it belongs to; ignored where a connection answers in the order it was asked.
    pub tag: u32,
    /// The outcomes of the transfers in the request.
    pub outcomes: Outcomes,
}

impl Answer {
    /// The answer to a request of one message, or one transfer, that was taken.
    pub fn one_applied(bytes: usize, tag: u32) -> Answer {
        Answer { bytes, tag, outcomes: Outcomes { applied: 1, ..Outcomes::default() } }
    }
}

/// A protocol and the work to be done over it.
pub trait Dialect {
    /// Whether a connection answers in the order it was asked; else every answer carries its request's tag.
    const IN_ORDER: bool;

    /// Talks to the server before the load begins, such as to log in. The socket still blocks here.
    fn greet(&mut self, socket: &mut std::net::TcpStream) -> Result<()> {
        let _ = socket;
        Ok(())
    }

    /// What is sent and answered next is of this connection. For protocols that count on each connection by itself.
    fn turn_to(&mut self, connection: usize) {
        let _ = connection;
    }

    /// Transfers not yet asked for.
    fn transfers_left(&self) -> u64;

    /// Appends the next request to `out`, marked with `tag` if the protocol can; `false` when there is nothing to ask
    /// now. Asked again after every answer, so one answer may give rise to the next request. What is not answered, such
    /// as an acknowledgement, may be appended in either case.
    fn ask(&mut self, tag: u32, out: &mut Vec<u8>) -> Result<bool>;

    /// Takes one whole answer from the front of `bytes`; `None` when more must arrive first. One that answers several
    /// requests is taken several times, and has bytes only the last time.
    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>>;
}
