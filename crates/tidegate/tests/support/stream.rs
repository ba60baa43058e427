//! An answer of the HTTP door that goes on: its lines, as they come.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::PATIENCE;

/// A stream that is being read.
pub struct Stream {
    stream: BufReader<TcpStream>,
    /// Status line and headers, in lower case.
    pub head: String,
    chunk: Vec<u8>,
    is_over: bool,
}

impl Stream {
    /// Asks with these header lines, and reads the head.
    pub fn open(address: SocketAddr, token: &str, path: &str, accept: &str, more: &str) -> Stream {
        let tcp = TcpStream::connect(address).expect("the door is open");
        tcp.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\naccept: {accept}\r\n{more}\r\n"
        );
        let mut stream = Stream { stream: BufReader::new(tcp), head: String::new(), chunk: Vec::new(), is_over: false };
        stream.stream.get_mut().write_all(request.as_bytes()).expect("the server reads");
        while !stream.head.ends_with("\r\n\r\n") {
            let mut line = String::new();
            if stream.stream.read_line(&mut line).unwrap_or(0) == 0 {
                stream.is_over = true;
                break;
            }
            stream.head += &line.to_ascii_lowercase();
        }
        // What has one part only comes whole.
        let length = stream.head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if let Some(length) = length.and_then(|length| length.parse().ok()) {
            stream.chunk = vec![0; length];
            stream.stream.read_exact(&mut stream.chunk).expect("a whole body");
            stream.is_over = true;
        }
        stream
    }

    /// The status; 0 if the connection ended before.
    pub fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// The next whole line without its end; `None` when the stream has ended or broken.
    pub fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.chunk.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.chunk.drain(..=end).collect();
                return Some(String::from_utf8(line).expect("text").trim_end().to_owned());
            }
            if self.is_over {
                return None;
            }
            match self.next_chunk() {
                Some(chunk) if !chunk.is_empty() => self.chunk.extend(chunk),
                _ => self.is_over = true,
            }
        }
    }

    /// The next row of lines.
    pub fn row(&mut self) -> Option<Value> {
        self.line().map(|line| serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    fn next_chunk(&mut self) -> Option<Vec<u8>> {
        let mut length = String::new();
        if self.stream.read_line(&mut length).ok()? == 0 {
            return None;
        }
        let length = usize::from_str_radix(length.trim_end(), 16).ok()?;
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).ok()?;
        chunk.truncate(length);
        Some(chunk)
    }
}
