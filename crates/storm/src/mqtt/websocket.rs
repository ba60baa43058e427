//! MQTT over WebSocket, client side: the upgrade, then masked binary frames around the same bytes.

use super::handshake;
use super::packet::ConnectOptions;
use anyhow::{Context, Result, ensure};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Of a frame that a broker sends to a newcomer; its answers are a few bytes.
const FRAME_BYTES_MAX: usize = 1024;

/// Bytes of the answer to an upgrade.
const HEAD_BYTES_MAX: usize = 4096;

/// Connects and subscribes.
pub fn connect(address: SocketAddr, path: &str, index: usize, options: &ConnectOptions) -> Result<TcpStream> {
    let mut socket = handshake::dial_blocking(address, index)?;
    upgrade(&mut socket, path).with_context(|| format!("client {index}: no upgrade to WebSocket"))?;
    let mut stream = Framed { socket, unread: Vec::new() };
    handshake::connect_and_subscribe(&mut stream, options)
        .with_context(|| format!("client {index}, over WebSocket"))?;
    Ok(stream.socket)
}

fn upgrade(socket: &mut TcpStream, path: &str) -> Result<()> {
    // The key is that of RFC 6455, section 1.3: a bench needs no nonce against caches.
    write!(
        socket,
        "GET {path} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Protocol: mqtt\r\n\r\n",
        socket.peer_addr()?
    )?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < HEAD_BYTES_MAX, "an endless answer");
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head);
    ensure!(
        head.starts_with("HTTP/1.1 101") && head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        "the answer was {head:?}"
    );
    Ok(())
}

/// Bytes in frames: one masked frame for each write.
struct Framed {
    socket: TcpStream,
    unread: Vec<u8>,
}

impl Write for Framed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mask = [0x5A, 0x17, 0xC3, 0x88];
        let mut frame = vec![0x82];
        match bytes.len() {
            short @ 0..126 => frame.push(0x80 | short as u8),
            long => {
                let long = u16::try_from(long).map_err(|_| io::Error::other("a frame of a bench is short"))?;
                frame.push(0x80 | 126);
                frame.extend(long.to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(bytes.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.socket.write_all(&frame)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl Read for Framed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.unread.is_empty() {
            let mut head = [0; 2];
            self.socket.read_exact(&mut head)?;
            let length = match head[1] {
                126 => {
                    let mut length = [0; 2];
                    self.socket.read_exact(&mut length)?;
                    usize::from(u16::from_be_bytes(length))
                }
                short => usize::from(short),
            };
            if head[0] != 0x82 || length > FRAME_BYTES_MAX {
                return Err(io::Error::other(format!("not a binary frame of one piece: {head:02x?}")));
            }
            self.unread.resize(length, 0);
            self.socket.read_exact(&mut self.unread)?;
        }
        let taken = bytes.len().min(self.unread.len());
        bytes[..taken].copy_from_slice(&self.unread[..taken]);
        self.unread.drain(..taken);
        Ok(taken)
    }
}
