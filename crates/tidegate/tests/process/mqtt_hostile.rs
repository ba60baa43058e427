//! Hostile MQTT clients: random bytes, packets too short or too long, CONNECTs that never end, broken WebSocket frames,
//! clients that never read. Each costs little and is disconnected, leaves nothing behind, and well-behaved clients are
//! served meanwhile. `TIDEGATE_HOSTILE_CONNECTIONS` is the number of connections that send random bytes (10,000); a
//! million take two minutes.

use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use tidegate_wire::mqtt::{
    AckKind, ConnectOut, Packet, PublishOut, QoS, ReasonCode, Split, SubscriptionOut, Version, decode_server,
    encode_ack, encode_connect, encode_publish, encode_subscribe, split,
};

use crate::http::Http;
use crate::{PATIENCE, Server, Settings, folder, wait_for};

const MIB: u64 = 1 << 20;
/// How many hostile connections to make; a few seconds' worth if nobody says.
const CONNECTIONS_VARIABLE: &str = "TIDEGATE_HOSTILE_CONNECTIONS";

/// An upgrade to a WebSocket as it should be.
const UPGRADE: &[u8] = b"GET /mqtt HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";

/// A client that keeps to the rules, over a socket without a library, so that it reads when the test wants.
struct TestClient {
    stream: TcpStream,
    received: Vec<u8>,
}

/// What it heard, as far as these tests care.
#[derive(Debug, PartialEq, Eq)]
enum Received {
    Answer,
    Message(Vec<u8>),
}

impl TestClient {
    fn join(server: &Server, client_id: &str) -> TestClient {
        let mut client = TestClient { stream: raw(server.mqtt()), received: Vec::new() };
        client.stream.set_nodelay(true).expect("a socket option");
        client.say(|out| {
            encode_connect(out, Version::V5, &ConnectOut { client_id, clean_start: true, ..ConnectOut::default() });
        });
        assert_eq!(client.next(), Received::Answer);
        client
    }

    fn say(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        encode(&mut out);
        self.stream.write_all(&out).expect("the server reads");
    }

    fn subscribe(&mut self, filter: &str, qos: QoS) {
        let wanted = [SubscriptionOut { filter, qos, ..SubscriptionOut::default() }];
        self.say(|out| encode_subscribe(out, Version::V5, 1, None, &wanted));
        assert_eq!(self.next(), Received::Answer);
    }

    fn publish(&mut self, topic: &str, qos: QoS, payload: &[u8]) {
        let packet_id = if qos == QoS::AtMostOnce { 0 } else { 1 };
        self.say(|out| {
            let publish = PublishOut { topic, qos, packet_id, payload, ..PublishOut::default() };
            encode_publish(out, Version::V5, &publish);
        });
    }

    fn next(&mut self) -> Received {
        loop {
            if let Split::Packet(length) = split(&self.received, u32::MAX).expect("the server writes packets") {
                let packet = decode_server(&self.received[..length], Version::V5).expect("the server writes packets");
                let mut taken = None;
                let heard = match packet {
                    Packet::ConnAck(connack) => {
                        assert!(!connack.reason.is_error(), "{connack:?}");
                        Received::Answer
                    }
                    Packet::SubAck(_) | Packet::PubAck(_) => Received::Answer,
                    Packet::Publish(publish) => {
                        taken = Some(publish.packet_id).filter(|_| publish.qos == QoS::AtLeastOnce);
                        Received::Message(publish.payload.to_vec())
                    }
                    other => panic!("the server says {other:?}"),
                };
                self.received.drain(..length);
                if let Some(id) = taken {
                    self.say(|out| encode_ack(out, Version::V5, AckKind::PubAck, id, ReasonCode::SUCCESS, None));
                }
                return heard;
            }
            let mut more = [0; 16 << 10];
            let count = self.stream.read(&mut more).expect("the server says something");
            assert!(count > 0, "the server ends a client that keeps to the rules");
            self.received.extend_from_slice(&more[..count]);
        }
    }

    /// Says something to itself.
    fn echoes(&mut self, payload: &[u8]) {
        self.publish("echo", QoS::AtMostOnce, payload);
        assert_eq!(self.next(), Received::Message(payload.to_vec()));
    }
}

fn raw(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the door is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
    stream
}

fn set_option<T>(stream: &TcpStream, option: libc::c_int, value: T) {
    // SAFETY: the value lives through the call and its size is told.
    let set = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    assert_eq!(set, 0, "a socket takes an option");
}

/// Ends a connection at once and without a trace, so that a million of them do not use up the ports.
fn reset(stream: TcpStream) {
    set_option(&stream, libc::SO_LINGER, libc::linger { l_onoff: 1, l_linger: 0 });
}

/// Reads until the server ends the connection.
fn is_ended(stream: &mut TcpStream) {
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server does not end the connection: {error}"),
    }
}

/// A server for MQTT, with some more lines for its `[mqtt]`.
fn settings(folder: &tempfile::TempDir, mqtt: &str) -> Settings {
    let sections = format!("[mqtt]\n{mqtt}\n[listener.websocket]\nanonymous = true\n");
    Settings { mqtt: true, workers: 2, sections, ..Settings::new(folder.path()) }
}

/// Says when it ends that something is over.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Members that come, are sent something, and go without a word: also what another worker sends to one that is gone.
#[test]
fn what_members_of_a_share_group_leave_behind_reaches_who_stays() {
    const BURSTS: usize = 100;
    const OF_BURST: usize = 100;
    let folder = folder();
    let server = Server::start(&settings(&folder, ""));
    let member = |name: &str| {
        let mut member = TestClient::join(&server, name);
        member.subscribe("$share/g/t", QoS::AtLeastOnce);
        member
    };
    let mut stays = member("stays");
    let (is_over, heard_by_it) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut heard = HashSet::new();
            while heard.len() < BURSTS * OF_BURST {
                match stays.next() {
                    Received::Message(payload) => drop(heard.insert(payload)),
                    Received::Answer => panic!("nothing was asked"),
                }
                heard_by_it.store(heard.len(), Ordering::Relaxed);
            }
        });
        for name in ["one", "two", "three"] {
            let (member, is_over) = (&member, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    drop(member(name));
                }
            });
        }
        // Also if something is missing.
        let _over = Over(&is_over);
        let mut publisher = TestClient::join(&server, "publisher");
        for burst in 0..BURSTS {
            (0..OF_BURST).for_each(|nth| {
                publisher.publish("t", QoS::AtLeastOnce, (burst * OF_BURST + nth).to_string().as_bytes());
            });
            (0..OF_BURST).for_each(|_| assert_eq!(publisher.next(), Received::Answer));
            // Before more than its inbox takes comes to it alone.
            let all = (burst + 1) * OF_BURST;
            wait_for("it has all", || (heard_by_it.load(Ordering::Relaxed) == all).then_some(()));
        }
    });
    assert!(server.terminate().status.success());
}

/// The sum of a metric over all workers.
fn metric(server: &Server, name: &str) -> f64 {
    let text = Http::connect(server.http).and_then(|mut http| http.get("/metrics")).expect("the door answers").body;
    let text = text.as_str().expect("a text");
    let lines = text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
    lines.map(|line| line.rsplit_once(' ').expect("a value").1.parse::<f64>().expect("a number")).sum()
}

fn wait_until_open(server: &Server, sockets: f64) {
    wait_for("all others are gone", || (metric(server, "tidegate_mqtt_sockets_open") == sockets).then_some(()));
}

/// What hostile clients send, and whether the server ends them for it at once.
fn rubbish(number: usize) -> (Vec<u8>, bool) {
    let client_id = format!("hostile {number}");
    let mut connect = Vec::new();
    let version = if number.is_multiple_of(2) { Version::V5 } else { Version::V311 };
    encode_connect(&mut connect, version, &ConnectOut { client_id: &client_id, ..ConnectOut::default() });
    let after_connect = |packet: &[u8]| [&connect, packet].concat();
    match number % 16 {
        0 => (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), true),
        1 => (vec![0xff; 64], true),
        2 => (vec![0x10, 0xff, 0xff, 0xff, 0xff], true),
        // 255 MiB follow.
        3 => (vec![0x10, 0xff, 0xff, 0xff, 0x7f], true),
        4 => (connect[..connect.len() / 2].to_vec(), false),
        5 => (Vec::new(), false),
        6 => (after_connect(&connect), true),
        7 => (after_connect(&[0x30, 0xff, 0xff, 0xff, 0x7f]), true),
        // PUBLISH with QoS 3, SUBSCRIBE without a filter, a filter that is none, a topic that is no UTF-8.
        8 => (after_connect(&[0x36, 0x02, 0, 0]), true),
        9 => (after_connect(&[0x82, 0x02, 0, 1]), true),
        10 => (after_connect(b"\x82\x0a\0\x01\0\0\x04a/#b\0"), true),
        11 => (after_connect(&[0x30, 0x05, 0, 2, 0xc0, 0x80, 0]), true),
        // Half a PUBLISH of some size, a PUBACK for nothing, what only a server says.
        12 => (after_connect(&[&[0x30, 0x80, 0x40][..], &[b'x'; 1_000]].concat()), false),
        13 => (after_connect(&[0x40, 0x02, 0, 9]), false),
        14 => (after_connect(&[0x20, 0x02, 0, 0]), true),
        _ => (connect.iter().map(|byte| byte ^ number as u8).collect(), false),
    }
}

/// A hostile connection to the WebSocket path; the server ends it.
fn websocket_rubbish(server: &Server, number: usize) -> TcpStream {
    let mut stream = raw(server.http);
    let masked_connect = b"\x82\x85\0\0\0\0\x10\xff\xff\xff\xff";
    let behind: &[u8] = match number % 5 {
        // No mask; 2^63 bytes; a ping of 126; a continuation of nothing; MQTT that is none.
        0 => b"\x82\x02\xc0\0",
        1 => b"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",
        2 => b"\x89\xfe\0\x7e\0\0\0\0",
        3 => b"\x80\x80\0\0\0\0",
        _ => masked_connect,
    };
    stream.write_all(&[UPGRADE, behind].concat()).expect("the socket takes it");
    stream
}

#[test]
fn rubbish_leaves_nothing_behind() {
    const BATCH: usize = 64;
    const ROUNDS: usize = 5;
    let connections: usize = std::env::var(CONNECTIONS_VARIABLE).map_or(10_000, |text| text.parse().expect("a number"));
    let folder = folder();
    let server = Server::start(&settings(&folder, "handshake_timeout_ms = 60000"));
    let mut good = TestClient::join(&server, "good");
    good.subscribe("echo", QoS::AtMostOnce);
    let batches = connections.div_ceil(ROUNDS * BATCH);
    let mut rss = Vec::new();
    for _ in 0..ROUNDS {
        for batch in 0..batches {
            let numbers = batch * BATCH..(batch + 1) * BATCH;
            let mut open: Vec<_> = numbers
                .map(|number| {
                    // One in 64 by the door that costs the server most.
                    if number.is_multiple_of(BATCH) {
                        return (websocket_rubbish(&server, batch), true);
                    }
                    let (bytes, ends) = rubbish(number);
                    let mut stream = raw(server.mqtt());
                    // The server may have ended it in the middle.
                    let _ = stream.write_all(&bytes);
                    (stream, ends)
                })
                .collect();
            good.echoes(b"still here");
            open.iter_mut().filter(|(_, ends)| *ends).for_each(|(stream, _)| is_ended(stream));
            open.into_iter().for_each(|(stream, _)| reset(stream));
        }
        wait_until_open(&server, 1.0);
        rss.push(server.rss_bytes());
    }
    let made = (batches * BATCH * (ROUNDS - 2)) as u64;
    let grown = rss[ROUNDS - 1].saturating_sub(rss[1]);
    println!("{made} connections made the process grow by {grown} bytes; after each round: {rss:?}");
    assert!(grown < 2 * MIB, "{made} connections made the process grow by {grown} bytes; after each round: {rss:?}");
    assert!(metric(&server, "tidegate_mqtt_protocol_errors_total") > made as f64 / 4.0);
    good.echoes(b"and still here");
    assert!(server.terminate().status.success());
}

#[test]
fn who_never_finishes_connect_is_ended() {
    const STRANGERS: usize = 300;
    let folder = folder();
    let server = Server::start(&settings(&folder, "handshake_timeout_ms = 1000"));
    let mut good = TestClient::join(&server, "good");
    good.subscribe("echo", QoS::AtMostOnce);
    let before = server.rss_bytes();
    // "60 KB follow": some send nothing more, some go on with a byte now and then, some were silent from the beginning.
    let mut strangers: Vec<_> = (0..STRANGERS).map(|_| raw(server.mqtt())).collect();
    for stranger in strangers.iter_mut().step_by(3) {
        stranger.write_all(&[0x10, 0xe0, 0xd4, 0x03]).expect("the socket takes it");
    }
    good.echoes(b"hello");
    let grown = server.rss_bytes().saturating_sub(before);
    assert!(grown < 4 * MIB, "{STRANGERS} strangers cost {grown} bytes");
    wait_for("a byte now and then does not keep a stranger", || {
        let slow = strangers.iter_mut().step_by(6).filter_map(|stranger| stranger.write_all(&[0]).err()).count();
        good.echoes(b"still here");
        (slow == STRANGERS / 6).then_some(())
    });
    strangers.iter_mut().for_each(is_ended);
    good.echoes(b"and still here");
    wait_until_open(&server, 1.0);
}

#[test]
fn who_never_reads_slows_nobody_and_costs_bounded_memory() {
    const STUCK: usize = 8;
    const BURSTS: usize = 500;
    const BURST: usize = 32;
    /// Far more than the system keeps for a socket, over all bursts.
    const PAYLOAD: [u8; 1 << 10] = [b'x'; 1 << 10];
    let folder = folder();
    let server = Server::start(&settings(&folder, "outbox_bytes_max = 262144"));
    let (mut speaker, mut reader) = (TestClient::join(&server, "speaker"), TestClient::join(&server, "reader"));
    reader.subscribe("news/#", QoS::AtMostOnce);
    let mut speak = || {
        let since = Instant::now();
        for _ in 0..BURSTS {
            (0..BURST).for_each(|_| speaker.publish("news/today", QoS::AtMostOnce, &PAYLOAD));
            // Whoever reads misses nothing.
            (0..BURST).for_each(|_| assert_eq!(reader.next(), Received::Message(PAYLOAD.to_vec())));
        }
        since.elapsed()
    };
    let alone = speak();
    let before = server.rss_bytes();
    let stuck: Vec<_> = (0..STUCK)
        .map(|number| {
            let mut stuck = TestClient::join(&server, &format!("stuck {number}"));
            set_option(&stuck.stream, libc::SO_RCVBUF, 4_096);
            stuck.subscribe("news/#", QoS::AtMostOnce);
            stuck
        })
        .collect();
    let beside = speak();
    assert!(beside < alone * 10 + PATIENCE / 10, "{alone:?} alone, {beside:?} beside {STUCK} that never read");
    let grown = server.rss_bytes().saturating_sub(before);
    // An outbox that has doubled, and what was written of a turn.
    let bound = STUCK as u64 * 2 * MIB + 8 * MIB;
    assert!(grown < bound, "{STUCK} clients that never read cost {grown} bytes, more than {bound}");
    let dropped = wait_for("what they did not read is counted", || {
        let dropped = metric(&server, "tidegate_mqtt_dropped_outbox_total");
        (dropped > 0.0).then_some(dropped)
    });
    assert!(dropped <= (STUCK * BURSTS * BURST) as f64, "only they missed something: {dropped}");
    drop(stuck);
    wait_until_open(&server, 2.0);
}

#[test]
fn who_never_reads_what_must_arrive_is_sent_away() {
    const PAYLOAD: [u8; 4 << 10] = [b'x'; 4 << 10];
    let folder = folder();
    let server = Server::start(&settings(
        &folder,
        "outbox_bytes_max = 65536\nclean_inbox_messages_max = 100\nclean_inbox_policy = \"refuse\"",
    ));
    let (mut speaker, mut stuck) = (TestClient::join(&server, "speaker"), TestClient::join(&server, "stuck"));
    set_option(&stuck.stream, libc::SO_RCVBUF, 4_096);
    stuck.subscribe("news/#", QoS::AtLeastOnce);
    wait_for("it is sent away", || {
        for _ in 0..200 {
            speaker.publish("news/today", QoS::AtLeastOnce, &PAYLOAD);
            assert_eq!(speaker.next(), Received::Answer);
        }
        (metric(&server, "tidegate_mqtt_slow_closed_total") == 1.0).then_some(())
    });
    // The server has closed its end, whatever the other one does.
    wait_until_open(&server, 1.0);
    drop(stuck);
}

/// It reads, but too slowly: what is said last reaches it all the same, behind what it was sent before.
#[test]
fn a_slow_reader_that_loses_a_message_is_told_if_the_configuration_says_so() {
    const PAYLOAD: [u8; 4 << 10] = [b'x'; 4 << 10];
    let folder = folder();
    let server = Server::start(&settings(&folder, "outbox_bytes_max = 65536\nslow_reader = \"disconnect\""));
    let (mut speaker, mut slow) = (TestClient::join(&server, "speaker"), TestClient::join(&server, "slow"));
    slow.subscribe("news/#", QoS::AtMostOnce);
    let TestClient { mut stream, mut received } = slow;
    let reader = std::thread::spawn(move || {
        let mut some = [0; 64 << 10];
        loop {
            match stream.read(&mut some) {
                Ok(0) => return received,
                Ok(count) => received.extend_from_slice(&some[..count]),
                Err(error) => panic!("the connection ends without its last words: {error}"),
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    wait_for("it is sent away", || {
        for _ in 0..200 {
            speaker.publish("news/today", QoS::AtLeastOnce, &PAYLOAD);
            assert_eq!(speaker.next(), Received::Answer);
        }
        (metric(&server, "tidegate_mqtt_slow_closed_total") == 1.0).then_some(())
    });
    let (bytes, mut at, mut last) = (reader.join().expect("it reads to the end"), 0, None);
    while let Split::Packet(length) = split(&bytes[at..], u32::MAX).expect("the server writes packets") {
        last = Some(decode_server(&bytes[at..at + length], Version::V5).expect("the server writes packets"));
        at += length;
    }
    let is_told = matches!(&last, Some(Packet::Disconnect(goodbye)) if goodbye.reason.0 == 0x97);
    assert!(is_told && at == bytes.len(), "{last:?}");
    assert_eq!(metric(&server, "tidegate_mqtt_dropped_outbox_total"), 1.0, "the first one lost was the last");
}
