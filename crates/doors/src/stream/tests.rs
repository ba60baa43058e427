//! Streams over a socket in memory; a test sets how many bytes each read gives and each write takes.

use std::collections::VecDeque;

use tidegate_wire::websocket::{Opcode, encode_client_frame};

use super::*;

/// A socket without a kernel.
#[derive(Default)]
struct Pipe {
    /// What the client has sent.
    up: VecDeque<u8>,
    /// The client has closed its side.
    ended: bool,
    /// What it got.
    down: Vec<u8>,
    /// How much it takes before it is read.
    room: usize,
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.up.is_empty() && !self.ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.up.read(into)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        self.down.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn plain() -> Stream<Pipe> {
    Stream::accept(Pipe { room: usize::MAX, ..Pipe::default() }, None).unwrap()
}

fn websocket(read: &[u8]) -> Stream<Pipe> {
    Stream::websocket(Pipe { room: usize::MAX, ..Pipe::default() }, None, read.to_vec())
}

fn frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_client_frame(opcode, [1, 2, 3, 4], payload, &mut frame);
    frame
}

/// A frame that is not the last of its message.
fn first_part(payload: &[u8]) -> Vec<u8> {
    let mut frame = frame(Opcode::Binary, payload);
    frame[0] &= 0x7f;
    frame
}

/// Reads until the pipe is silent or ended.
fn read_all(stream: &mut Stream<Pipe>, bytes_max: usize) -> io::Result<(Vec<u8>, bool)> {
    let (mut scratch, mut all) = (Scratch::new(), Vec::new());
    loop {
        let heard = stream.read(&mut scratch, bytes_max)?;
        all.extend_from_slice(scratch.bytes(&heard));
        if heard.ended || stream.socket.up.is_empty() && !stream.socket.ended {
            return Ok((all, heard.ended));
        }
    }
}

#[test]
fn an_idle_plain_client_costs_a_descriptor_and_a_pointer() {
    assert_eq!(size_of::<Stream<std::net::TcpStream>>(), 16);
    assert!(size_of::<Layers>() <= 112, "{} bytes", size_of::<Layers>());
}

#[test]
fn a_short_read_says_that_there_is_no_more() {
    let (mut stream, mut scratch) = (plain(), Scratch::new());
    stream.socket.up.extend(b"packets");
    let heard = stream.read(&mut scratch, 7).unwrap();
    assert_eq!((scratch.bytes(&heard), heard.more, heard.ended), (&b"packets"[..], true, false));
    let heard = stream.read(&mut scratch, 7).unwrap();
    assert_eq!((scratch.bytes(&heard), heard.more), (&b""[..], false));
    stream.socket.up.extend(b"more");
    stream.socket.ended = true;
    let heard = stream.read(&mut scratch, 7).unwrap();
    assert_eq!((scratch.bytes(&heard), heard.more, heard.ended), (&b"more"[..], false, false));
    assert!(stream.read(&mut scratch, 7).unwrap().ended);
}

#[test]
fn a_socket_takes_what_it_takes() {
    let (mut stream, mut scratch) = (plain(), Scratch::new());
    stream.socket.room = 3;
    assert_eq!(stream.write(b"packets", &mut scratch).unwrap(), Written { taken: 3, blocked: true });
    assert_eq!(stream.write(b"kets", &mut scratch).unwrap(), Written { taken: 0, blocked: true });
    stream.socket.room = 100;
    assert_eq!(stream.write(b"kets", &mut scratch).unwrap(), Written { taken: 4, blocked: false });
    assert_eq!(stream.socket.down, b"packets");
}

#[test]
fn frames_mean_bytes_however_they_are_cut() {
    for bytes_max in [1, 2, 5, 1_000] {
        let mut stream = websocket(&frame(Opcode::Binary, b"read ahead, "));
        stream.socket.up.extend(first_part(b"a message "));
        stream.socket.up.extend(frame(Opcode::Ping, b"there?"));
        stream.socket.up.extend(frame(Opcode::Continuation, b"in parts"));
        assert!(stream.is_ahead());
        let (bytes, ended) = read_all(&mut stream, bytes_max).unwrap();
        assert_eq!((&bytes[..], ended), (&b"read ahead, a message in parts"[..], false));
        assert!(!stream.is_ahead());
        assert_eq!(stream.socket.down, b"\x8a\x06there?", "a pong between the frames of a message");
    }
}

#[test]
fn what_was_read_ahead_needs_no_event() {
    let (mut stream, mut scratch) = (websocket(&frame(Opcode::Binary, b"CONNECT")), Scratch::new());
    let heard = stream.read(&mut scratch, 100).unwrap();
    assert_eq!(scratch.bytes(&heard), b"CONNECT");
}

#[test]
fn a_close_is_answered_and_what_came_before_it_counts() {
    let mut stream = websocket(&[]);
    stream.socket.up.extend(frame(Opcode::Binary, b"DISCONNECT"));
    stream.socket.up.extend(frame(Opcode::Close, &1000u16.to_be_bytes()));
    assert_eq!(read_all(&mut stream, 1_000).unwrap(), (b"DISCONNECT".to_vec(), true));
    assert_eq!(stream.socket.down, b"\x88\x02\x03\xe8");
    // Nothing follows our close frame.
    stream.close(&mut Scratch::new());
    assert_eq!(stream.socket.down.len(), 4);
}

#[test]
fn rubbish_is_answered_with_its_close_code() {
    let mut stream = websocket(&[]);
    stream.socket.up.extend(frame(Opcode::Text, b"hello"));
    read_all(&mut stream, 1_000).unwrap_err();
    assert_eq!(stream.socket.down[..4], *b"\x88\x2c\x03\xeb");
}

#[test]
fn packets_are_framed_and_wait_for_the_socket() {
    let (mut stream, mut scratch) = (websocket(&[]), Scratch::new());
    read_all(&mut stream, 1).unwrap();
    stream.socket.room = 4;
    assert_eq!(stream.write(b"packets", &mut scratch).unwrap(), Written { taken: 7, blocked: true });
    assert_eq!(stream.write(b"", &mut scratch).unwrap(), Written { taken: 0, blocked: true });
    stream.socket.room = 100;
    assert_eq!(stream.write(b"!", &mut scratch).unwrap(), Written { taken: 1, blocked: false });
    assert_eq!(stream.socket.down, b"\x82\x07packets\x82\x01!");
    stream.close(&mut scratch);
    assert_eq!(stream.socket.down[12..], *b"\x88\x02\x03\xe8");
}

#[test]
fn who_pings_and_never_reads_is_let_go() {
    let mut stream = websocket(&[]);
    read_all(&mut stream, 1).unwrap();
    stream.socket.room = 0;
    let pings = frame(Opcode::Ping, &[0; 125]).repeat(1_000);
    stream.socket.up.extend(pings);
    let (_, ended) = read_all(&mut stream, 4_096).unwrap();
    assert!(ended);
}

/// Frames without a byte cost the work that they are, like records without a byte.
#[test]
fn a_frame_is_worth_more_than_its_bytes() {
    let cost_of = |frames: Vec<u8>| {
        let (mut stream, mut scratch) = (websocket(&[]), Scratch::new());
        stream.read(&mut scratch, 1).unwrap();
        stream.socket().up.extend(frames);
        stream.read(&mut scratch, 64 << 10).unwrap();
        scratch.cost()
    };
    let tiny = frame(Opcode::Binary, b"").repeat(1_000);
    assert!(cost_of(tiny.clone()) >= tiny.len() + 1_000 * super::websocket::FRAME_COST);
    let one = frame(Opcode::Binary, &[0; 6_000]);
    assert!(cost_of(one.clone()) <= one.len() + 2 * super::websocket::FRAME_COST);
    let pings = frame(Opcode::Ping, b"").repeat(1_000);
    assert!(cost_of(pings) >= 1_000 * super::websocket::FRAME_COST);
}
