//! A client of the binary port, as far as tests need one.

use std::io::{Read, Write};
use std::net::TcpStream;

use tidegate_wire::limits::FRAME_BYTES_MAX;
use tidegate_wire::proto::{self, request_frame};
use tidegate_wire::{Split, encode_request, split};

use crate::{PATIENCE, SERVICE, Server};

/// A connection to the binary port that has shown its token, and what it has read.
pub struct Binary {
    pub stream: TcpStream,
    said: Vec<u8>,
}

impl Binary {
    /// With the token that may do everything.
    pub fn connect(server: &Server) -> Binary {
        Binary::with(server, SERVICE)
    }

    /// With this token.
    pub fn with(server: &Server, token: &str) -> Binary {
        let stream = TcpStream::connect(server.binary).expect("the port is open");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
        let mut binary = Binary { stream, said: Vec::new() };
        let mut hello = Vec::new();
        encode_request(&mut hello, 1, request_frame::Body::Hello(proto::Hello { token: token.into() }));
        binary.stream.write_all(&hello).expect("the server reads");
        binary.frame();
        binary
    }

    /// The next frame.
    pub fn frame(&mut self) -> Vec<u8> {
        loop {
            if let Split::Frame(range) = split(&self.said, FRAME_BYTES_MAX).expect("a frame") {
                let frame = self.said[range.clone()].to_vec();
                self.said.drain(..range.end);
                return frame;
            }
            let mut some = [0; 4096];
            let count = self.stream.read(&mut some).expect("the server answers");
            assert!(count > 0, "the server has closed the connection");
            self.said.extend_from_slice(&some[..count]);
        }
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }
}
