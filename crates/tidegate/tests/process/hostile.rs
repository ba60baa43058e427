//! Hostile clients of the binary port: silent, slow, with oversized frames, or never reading. Each costs little and is
//! disconnected, and a well-behaved client is served meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tidegate_client::Client;
use tidegate_wire::encode_request;
use tidegate_wire::proto::{ReadHistory, request_frame::Body};

use crate::votes::{connect, ids, open_show, votes};
use crate::{PATIENCE, SERVICE, Server, Settings, folder, wait_for};

const MIB: u64 = 1 << 20;

fn raw(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.binary).expect("the door is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
    stream
}

/// Shows the token over a raw connection.
fn greeted(server: &Server) -> TcpStream {
    let stream = raw(server);
    let copy = stream.try_clone().expect("a socket can be shared");
    Client::over(copy, SERVICE).expect("the token is good");
    stream
}

/// Reads until the server ends the connection; returns what it said before.
fn last_words(stream: &mut TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Ok(_) => said,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => said,
        Err(error) => panic!("the server does not end the connection: {error}"),
    }
}

fn says(words: &[u8], code: &str) -> bool {
    words.windows(code.len()).any(|window| window == code.as_bytes())
}

#[test]
fn who_never_greets_is_ended() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    open_show(&mut connect(&server));
    let before = server.rss_bytes();
    // Half-open ones, and slow ones that send one byte of a greeting.
    let mut strangers: Vec<_> = (0..200).map(|_| raw(&server)).collect();
    strangers.iter_mut().step_by(2).for_each(|stranger| stranger.write_all(&[100]).expect("the socket takes a byte"));
    connect(&server).ping().expect("others are served");
    let grown = server.rss_bytes().saturating_sub(before);
    assert!(grown < 8 * MIB, "200 strangers cost {grown} bytes");
    for mut stranger in strangers {
        last_words(&mut stranger);
    }
    connect(&server).ping().expect("others are served");
}

#[test]
fn frames_that_are_too_large_are_refused_unread() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    // 9 KiB before the greeting, 5 MiB after it, as varints.
    let mut stranger = raw(&server);
    stranger.write_all(&[0x80, 0x48]).expect("the socket takes it");
    assert!(says(&last_words(&mut stranger), "frame_too_large"));
    let mut client = greeted(&server);
    client.write_all(&[0x80, 0x80, 0xc0, 0x02]).expect("the socket takes it");
    assert!(says(&last_words(&mut client), "frame_too_large"));
    // No length at all, and no protobuf.
    let mut stranger = raw(&server);
    stranger.write_all(&[0xff; 16]).expect("the socket takes it");
    last_words(&mut stranger);
    let mut stranger = raw(&server);
    stranger.write_all(b"\x10GET / HTTP/1.1\r\n").expect("the socket takes it");
    last_words(&mut stranger);
    connect(&server).ping().expect("others are served");
}

#[test]
fn half_a_frame_costs_what_was_sent_and_is_ended() {
    const SLOW: usize = 64;
    const SENT: usize = 64 << 10;
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    connect(&server).ping().expect("the server serves");
    let before = server.rss_bytes();
    let mut slow: Vec<_> = (0..SLOW).map(|_| greeted(&server)).collect();
    for stream in &mut slow {
        // "4 MiB follow", and then only the first of them.
        stream.write_all(&[0x80, 0x80, 0x80, 0x02]).expect("the socket takes it");
        stream.write_all(&vec![0; SENT]).expect("the socket takes it");
    }
    connect(&server).ping().expect("others are served");
    let grown = server.rss_bytes().saturating_sub(before);
    assert!(grown < (SLOW * SENT * 3) as u64 + 16 * MIB, "{SLOW} half frames of {SENT} bytes cost {grown} bytes");
    for mut stream in slow {
        last_words(&mut stream);
    }
    connect(&server).ping().expect("others are served");
}

#[test]
fn who_never_reads_costs_bounded_memory() {
    const GREEDY: usize = 4;
    /// A page of history that a greedy client asks for again and again.
    const ROWS: u32 = 100;
    /// Far more than the system buffers between two sockets.
    const TAKEN_BYTES_MAX: usize = 100 << 20;
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    let mut honest = connect(&server);
    open_show(&mut honest);
    honest.transfers(&votes(&ids("vote", 1_000))).expect("the server serves");
    let page = honest.history("wallet:dave", "", ROWS).expect("a page");
    assert_eq!(page.rows.len(), ROWS as usize);
    let before = server.rss_bytes();

    // Each asks for gigabytes of replies, until the server and the system's socket buffers take no more questions.
    let mut greedy: Vec<_> = (0..GREEDY).map(|_| greeted(&server)).collect();
    let question = history_question(ROWS);
    let mut taken = vec![0_usize; GREEDY];
    for (stream, taken) in greedy.iter_mut().zip(&mut taken) {
        stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a socket takes a time-out");
        let questions = question.repeat(1_000);
        while *taken < TAKEN_BYTES_MAX {
            match stream.write(&questions) {
                Ok(bytes) => *taken += bytes,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(*taken < TAKEN_BYTES_MAX, "the server reads on although nobody takes its replies");
    }
    honest.ping().expect("others are served");
    let grown = server.rss_bytes().saturating_sub(before);
    // Per client: an outbox of 1 MiB that doubled, one turn's reading, eight pages in flight of some 100 KB.
    let bound = GREEDY as u64 * 5 * MIB + 16 * MIB;
    assert!(grown < bound, "{GREEDY} clients that never read cost {grown} bytes, more than {bound}");
    drop(greedy);
    wait_for("what they held is given back", || {
        let text = crate::http::Http::connect(server.http).ok()?.get("/metrics").ok()?.body;
        text.as_str()?
            .lines()
            .any(|line| line.starts_with("tidegate_connections_open{") && line.ends_with(" 1"))
            .then_some(())
    });
    honest.ping().expect("others are served");
}

/// One frame that asks for a page of Dave's history.
fn history_question(rows: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    let question = ReadHistory { id: "wallet:dave".into(), limit: rows, ..ReadHistory::default() };
    encode_request(&mut frame, 1, Body::ReadHistory(question));
    frame
}
