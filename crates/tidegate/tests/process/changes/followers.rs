//! Followers of several shards over MQTT: what comes again says so and has the packet id that it had, whichever shard
//! is read first this time.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;
use tidegate_client::{AccountKind, Transfer};
use tidegate_wire::mqtt::{
    AckKind, ConnectOut, Packet, QoS, ReasonCode, Split, SubscriptionOut, Version, decode_server, encode_ack,
    encode_connect, encode_subscribe, split,
};

use super::all;
use crate::votes::{connect, ids};
use crate::{PATIENCE, SERVICE, Server, Settings, folder};

const SOURCES: usize = 8;

/// A change: its shard, and its sequence there.
type Change = (u64, u64);

/// A message with a change.
struct Heard {
    change: Change,
    packet_id: u16,
    is_dup: bool,
}

/// One connection of a durable session.
struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    fn open(server: &Server) -> Connection {
        let stream = TcpStream::connect(server.mqtt()).expect("the door is open");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        let mut connection = Connection { stream, received: Vec::new() };
        let connect = ConnectOut {
            client_id: "follower",
            user_name: Some("service"),
            password: Some(SERVICE.as_bytes()),
            session_expiry_s: Some(3_600),
            ..ConnectOut::default()
        };
        connection.say(|out| encode_connect(out, Version::V5, &connect));
        connection.hear(|packet| match packet {
            Packet::ConnAck(ack) => assert_eq!(ack.reason, ReasonCode::SUCCESS),
            other => panic!("{other:?}"),
        });
        connection
    }

    fn subscribe(&mut self) {
        let wanted =
            [SubscriptionOut { filter: "$ledger/changes/*", qos: QoS::AtLeastOnce, ..SubscriptionOut::default() }];
        self.say(|out| encode_subscribe(out, Version::V5, 9, None, &wanted));
        self.hear(|packet| match packet {
            Packet::SubAck(ack) => assert!(ack.reasons().eq([ReasonCode(1)]), "QoS 1 is granted"),
            other => panic!("{other:?}"),
        });
    }

    fn next(&mut self) -> Heard {
        self.hear(|packet| {
            let Packet::Publish(publish) = packet else { panic!("{packet:?}") };
            let row: Value = serde_json::from_slice(publish.payload).expect("JSON");
            let number = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name} in {row}"));
            let change = (number("shard"), number("sequence"));
            Heard { change, packet_id: publish.packet_id, is_dup: publish.dup }
        })
    }

    fn acknowledge(&mut self, packet_id: u16) {
        self.say(|out| encode_ack(out, Version::V5, AckKind::PubAck, packet_id, ReasonCode::SUCCESS, None));
    }

    fn say(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        encode(&mut out);
        self.stream.write_all(&out).expect("the server reads");
    }

    fn hear<T>(&mut self, read: impl FnOnce(Packet<'_>) -> T) -> T {
        loop {
            if let Split::Packet(length) = split(&self.received, u32::MAX).expect("the server writes packets") {
                let packet: Vec<u8> = self.received.drain(..length).collect();
                return read(decode_server(&packet, Version::V5).expect("the server writes packets"));
            }
            let mut chunk = [0; 16 << 10];
            let count = self.stream.read(&mut chunk).expect("the server sends in time");
            assert!(count > 0, "the server has closed the connection");
            self.received.extend_from_slice(&chunk[..count]);
        }
    }
}

/// What the client knows, over all its connections.
#[derive(Default)]
struct Follower {
    /// All changes that it got, with the packet ids that they came with.
    seen: BTreeMap<Change, u16>,
    /// What it has not acknowledged.
    works_on: BTreeMap<u16, Change>,
    again: usize,
}

impl Follower {
    fn take(&mut self, heard: &Heard) {
        let Heard { change, packet_id, is_dup } = *heard;
        if let Some(before) = self.seen.insert(change, packet_id) {
            assert!(is_dup, "{change:?} comes again and does not say so");
            assert_eq!(before, packet_id, "{change:?} comes again with another packet id");
            self.again += 1;
        }
        let before = self.works_on.insert(packet_id, change);
        let is_its = before.is_none_or(|before| before == change);
        assert!(is_its, "{packet_id} is the id of {before:?}, which is under work, and of {change:?}");
    }

    /// Hears so many messages, and acknowledges each `nth` of them, the last one first.
    fn hear(&mut self, connection: &mut Connection, count: usize, nth: usize) {
        let heard: Vec<Heard> = (0..count).map(|_| connection.next()).collect();
        heard.iter().for_each(|heard| self.take(heard));
        for heard in heard.iter().rev().step_by(nth) {
            self.works_on.remove(&heard.packet_id);
            connection.acknowledge(heard.packet_id);
        }
    }
}

/// Transfers from all sources in turn, so many in each request.
fn transfer(server: &Server, name: &str, count: usize, in_request: usize) {
    let (mut client, ids) = (connect(server), ids(name, count));
    let debits: Vec<String> = (0..SOURCES).map(|source| format!("source:{source}")).collect();
    let transfers: Vec<Transfer<'_>> = ids
        .iter()
        .zip(debits.iter().cycle())
        .map(|(id, debit)| Transfer { id, debit, credit: "candidate:1", amount: 1, memo: "", code: 0, user_data: "" })
        .collect();
    for some in transfers.chunks(in_request) {
        assert!(client.transfers(some).expect("they are decided").iter().all(|outcome| outcome.is_done()));
    }
}

#[test]
fn what_comes_again_of_several_shards_has_the_packet_id_that_it_had() {
    let folder = folder();
    let settings = Settings { shards: 4, workers: 2, mqtt: true, ..Settings::new(folder.path()) };
    let mut server = Server::start(&settings);
    let mut client = connect(&server);
    for source in 0..SOURCES {
        client.open_account(&format!("source:{source}"), "credit", AccountKind::Source).expect("it opens");
    }
    client.open_account("candidate:1", "credit", AccountKind::Collector).expect("it opens");

    let mut follower = Follower::default();
    let mut connection = Connection::open(&server);
    connection.subscribe();
    // One after the other, so that they come as they happen, from all shards in turn.
    transfer(&server, "one", 200, 1);
    follower.hear(&mut connection, 200, usize::MAX);
    drop(connection);
    // Each shard has more behind it than a part of a stream has.
    transfer(&server, "more", 3_000, 100);

    follower.hear(&mut Connection::open(&server), 150, usize::MAX);
    follower.hear(&mut Connection::open(&server), 150, 3);
    server.kill();
    server = Server::start(&settings);
    follower.hear(&mut Connection::open(&server), 150, 2);
    let mut connection = Connection::open(&server);
    while follower.seen.len() < 3_200 {
        follower.hear(&mut connection, 10, 1);
    }
    assert!(follower.again >= 200, "{} came again: too few for a test", follower.again);

    let rows = all(&server, SERVICE, "kinds=transfer");
    let number = |row: &Value, name: &str| row[name].as_u64().expect("a number");
    let mut changes: Vec<Change> = rows.iter().map(|row| (number(row, "shard"), number(row, "sequence"))).collect();
    changes.sort_unstable();
    assert!(changes.iter().eq(follower.seen.keys()), "{} changes, {} seen", changes.len(), follower.seen.len());
    let shards = changes.chunk_by(|one, next| one.0 == next.0).count();
    assert!(shards > 2, "{shards} shards have something");
    assert!(server.terminate().status.success());
}
