//! A server with a script: it sends what it was told to, in pieces, and records what it received.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use tidegate_wire::encode_reply;
use tidegate_wire::proto::{self, Welcome, reply_frame};

use crate::client::Client;

/// What the script does when it is read.
pub(crate) enum Say {
    Bytes(Vec<u8>),
    Nothing,
}

/// What it is to say, and what it has heard.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) says: VecDeque<Say>,
    pub(crate) heard: Vec<u8>,
}

impl Read for Script {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.says.pop_front() {
            Some(Say::Bytes(bytes)) => {
                // Three bytes at a time: no reply comes whole.
                let count = bytes.len().min(3).min(into.len());
                into[..count].copy_from_slice(&bytes[..count]);
                if count < bytes.len() {
                    self.says.push_front(Say::Bytes(bytes[count..].to_vec()));
                }
                Ok(count)
            }
            Some(Say::Nothing) => Err(io::ErrorKind::WouldBlock.into()),
            None => Ok(0),
        }
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Seven bytes at a time, to see that the rest follows.
        let count = bytes.len().min(7);
        self.heard.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reply, whole.
pub(crate) fn reply(correlation: u64, body: reply_frame::Body) -> Say {
    let mut out = Vec::new();
    encode_reply(&mut out, correlation, body);
    Say::Bytes(out)
}

/// The server's error.
pub(crate) fn error(correlation: u64, code: &str, retry_after_ms: u32) -> Say {
    reply(correlation, reply_frame::Body::Error(proto::Error { code: code.into(), detail: "d".into(), retry_after_ms }))
}

fn welcome() -> Say {
    let (frame_bytes_max, transfers_max, in_flight_max) = (1_000, 3, 4);
    let server = "test".into();
    reply(1, reply_frame::Body::Welcome(Welcome { frame_bytes_max, transfers_max, in_flight_max, server }))
}

/// A client that was let in, as correlation 1, by a server that goes on with `says`.
pub(crate) fn client(says: impl IntoIterator<Item = Say>) -> Client<Script> {
    let says = std::iter::once(welcome()).chain(says).collect();
    Client::over(Script { says, heard: vec![] }, "token").expect("the script says welcome")
}
