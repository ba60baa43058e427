//! How a client connects: over TCP, TLS or WebSocket, one step after the other on a blocking socket. Not measured; the
//! connects case, which is measured, has its own loop.

use super::packet::{self, Arrival, ConnectOptions};
use anyhow::{Context, Result, bail, ensure};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

/// A broker that does not answer a newcomer within this has failed.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Clients come from so many loopback addresses: each has some 28,000 ports to go out from, and a broker that bounds
/// what comes from one address sees more than one.
const SOURCES: usize = 16;

/// Connects the client of this index from one of the loopback addresses.
pub fn dial(address: SocketAddr, index: usize) -> Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    let source = Ipv4Addr::new(127, 0, 0, 1 + (index % SOURCES) as u8);
    socket.bind(&SocketAddrV4::new(source, 0).into()).with_context(|| format!("no port left on {source}"))?;
    socket.connect(&address.into()).with_context(|| format!("client {index} could not connect to {address}"))?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket.into())
}

/// As [`dial`], for a caller that waits for answers.
pub fn dial_blocking(address: SocketAddr, index: usize) -> Result<TcpStream> {
    let socket = dial(address, index)?;
    socket.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    Ok(socket)
}

/// Connects and subscribes over TCP.
pub fn connect(address: SocketAddr, index: usize, options: &ConnectOptions) -> Result<TcpStream> {
    let mut socket = dial_blocking(address, index)?;
    connect_and_subscribe(&mut socket, options).with_context(|| format!("client {index}"))?;
    Ok(socket)
}

/// Sends CONNECT and SUBSCRIBE and waits for all answers. All is sent at once, as MQTT allows: one round trip.
pub fn connect_and_subscribe(stream: &mut (impl Read + Write), options: &ConnectOptions) -> Result<()> {
    let subscribes = options.subscribes();
    let mut hello = options.connect();
    hello.extend(subscribes.iter().flatten());
    stream.write_all(&hello)?;
    stream.flush()?;

    let (mut bytes, mut filled) = ([0; 1024], 0);
    let (mut connected, mut subscribed) = (false, 0);
    while !connected || subscribed < subscribes.len() {
        let read = stream.read(&mut bytes[filled..]).context("no answer from the broker")?;
        ensure!(read > 0, "the broker closed the connection");
        filled += read;
        let mut taken = 0;
        while let Some(length) = packet::split(&bytes[taken..filled])? {
            match packet::read(&bytes[taken..taken + length])? {
                Arrival::ConnectAck { session_present: false } if !connected => connected = true,
                Arrival::SubscribeAck if connected => subscribed += 1,
                other => bail!("an unexpected answer: {other:?}"),
            }
            taken += length;
        }
        bytes.copy_within(taken..filled, 0);
        filled -= taken;
    }
    ensure!(filled == 0 && subscribed == subscribes.len(), "more answers than questions");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::io;

    /// A scripted broker: it sends given pieces and records what it received.
    struct Scripted {
        says: VecDeque<&'static [u8]>,
        heard: Vec<u8>,
    }

    impl Read for Scripted {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let piece = self.says.pop_front().unwrap_or(&[]);
            bytes[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.heard.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn run_script(says: &[&'static [u8]]) -> (Result<()>, Vec<u8>) {
        let mut broker = Scripted { says: says.iter().copied().collect(), heard: Vec::new() };
        let options = ConnectOptions::new("me".to_owned(), vec!["a/+".to_owned()]);
        (connect_and_subscribe(&mut broker, &options), broker.heard)
    }

    #[test]
    fn both_answers_are_waited_for_however_they_are_cut() {
        let (entered, heard) = run_script(&[&[0x20, 2], &[0, 0, 0x90], &[3, 0, 1, 0]]);
        entered.unwrap();
        assert_eq!(heard, b"\x10\x0e\x00\x04MQTT\x04\x02\x04\xb0\x00\x02me\x82\x08\x00\x01\x00\x03a/+\x00");
    }

    #[test]
    fn who_is_refused_left_alone_or_answered_twice_is_not_in() {
        let scripts: [&[&'static [u8]]; 6] = [
            &[b"\x20\x02\x00\x05"],
            &[b"\x20\x02\x00\x00", b"\x90\x03\x00\x01\x80"],
            &[b"\x20\x02\x00\x00"],
            &[b"\x20\x02\x01\x00", b"\x90\x03\x00\x01\x00"],
            &[b"\x90\x03\x00\x01\x00", b"\x20\x02\x00\x00"],
            &[b"\x20\x02\x00\x00\x90\x03\x00\x01\x00\x90\x03\x00\x01\x00"],
        ];
        for says in scripts {
            assert!(run_script(says).0.is_err(), "{says:02x?}");
        }
    }
}
