//! Writes the small, well-formed seeds from which the fuzzer starts: `cargo test -p tidegate-hostile -- --ignored
//! write_seeds`. They are checked in, so this runs only when a format changes.

use std::fs;
use std::path::Path;
use tidegate_hostile::event::SAMPLE;
use tidegate_hostile::{decisions, learned, openrtb, pacer, queues, roster, topics};
use tidegate_journal::group::GroupHeader;
use tidegate_journal::segment::{Mark, MarkKind, SegmentHeader};
use tidegate_journal::stream::message::{MessageHeader, MessageKind};
use tidegate_journal::{ChainHash, Cursor, LogId, Lost, Notice, NoticeKind, Position, Sequence};
use tidegate_machines::queue::Queues;
use tidegate_machines::topic::Topics;
use tidegate_machines::{Machine, ShardIndex};
use tidegate_roster::Roster;
use tidegate_wire::mqtt::*;
use tidegate_wire::proto::{self, AccountKind, reply_frame, request_frame};
use tidegate_wire::websocket::{CloseCode, Opcode, encode_client_frame, encode_close, encode_pong, frame_header};
use tidegate_wire::{
    HoldsEncoder, OutcomesEncoder, PostHoldsEncoder, RoomRef, TransferRef, TransfersEncoder, encode_reply,
    encode_request, encode_room,
};

#[test]
#[ignore = "writes into the tree"]
fn write_seeds() {
    frames();
    roster();
    queues();
    learned::samples().iter().for_each(|(name, bytes)| write("pacer_learned", name, bytes));
    decisions::samples().iter().for_each(|(name, bytes)| write("pacer_decisions", name, bytes));
    pacer::samples().iter().for_each(|(name, body)| write("pacer", name, body));
    openrtb::samples().iter().for_each(|(name, body)| write("openrtb", name, body));
    for (index, event) in SAMPLE.events.iter().enumerate() {
        write("event", &format!("{index}"), event);
        write("group", &format!("one_record_{index}"), &group_of(&[event]));
    }
    write("group", "all_records", &group_of(&SAMPLE.events.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    write("group", "empty", &group_of(&[]));
    journal();
    let mut snapshot = Vec::new();
    SAMPLE.ledger.write_snapshot(&mut |part| snapshot.extend_from_slice(part));
    write("snapshot", "sample", &snapshot);
    write("snapshot", "cut", &snapshot[..snapshot.len() / 2]);
    let mut flipped = snapshot.clone();
    flipped[snapshot.len() / 3] ^= 4;
    write("snapshot", "flipped", &flipped);
    for (index, sample) in tidegate_ledger::ids::hostile::samples().iter().enumerate() {
        write("ids", &format!("{index}"), sample);
    }
    // Offsets: the segment's header, the first group's, a record, the chain of a later group, the mark behind the last
    // one.
    for (name, offset) in
        [("header", 3u16), ("first_group", 4096), ("record", 4096 + 130), ("chain", 4096 + 400), ("tail", 5900)]
    {
        write("segment", name, &[&offset.to_le_bytes()[..], b"\xff\0\xff\0"].concat());
    }
    stream();
    topics();
    http_bodies();
    http_heads();
    mqtt();
    mqtt_sessions();
    websocket();
    proxy();
    smpp();
}

/// Answers, a receipt, a part of a message of a phone, a packet that cannot be read, texts that take several parts.
fn smpp() {
    let packet = |command: u32, sequence: u32, body: &[u8]| {
        let head = [16 + body.len() as u32, command, 0, sequence].map(u32::to_be_bytes).concat();
        [&head[..], body].concat()
    };
    let deliver = |esm_class: u8, coding: u8, text: &[u8], tlvs: &[u8]| {
        let head = [b"\0\x01\x01491701234567\0\0\x0024680\0", &[esm_class, 0, 0, 0, 0, 0, 0, coding, 0][..]].concat();
        packet(5, 9, &[&head[..], &[text.len() as u8], text, tlvs].concat())
    };
    let receipt = b"id:0A1b sub:001 dlvrd:001 submit date:2611270101 done date:2611270102 stat:DELIVRD err:000 text:";
    let answers = [packet(0x8000_0004, 1, b"0A1b\0"), packet(0x8000_0015, 2, b""), packet(0x15, 3, b"")].concat();
    write("smpp", "answers", &answers);
    write("smpp", "receipt", &deliver(4, 0, receipt, b"\x00\x1e\0\x05\x30\x41\x31\x62\0\x04\x27\0\x01\x02"));
    write("smpp", "part", &deliver(0x40, 8, b"\x05\0\x03\x07\x02\x01\0a\0b", b""));
    write("smpp", "sar", &deliver(0, 0, b"hi", b"\x02\x0c\0\x02\0\x07\x02\x0e\0\x01\x02\x02\x0f\0\x01\x01"));
    write("smpp", "unreadable", &packet(5, 9, b"\xff\xff\xff\xff"));
    write("smpp", "gsm", format!("{}€{}", "a".repeat(152), "b".repeat(200)).as_bytes());
    write("smpp", "ucs2", format!("{}🦀{}", "Ł".repeat(66), "b".repeat(80)).as_bytes());
}

/// Messages of a log in a stream, and fields from which the target makes some.
fn stream() {
    let log = LogId { directory: 7, family: 2, shard: 3 };
    let epoch = MessageHeader { log, number: 9, kind: MessageKind::Epoch { writer: 77 } };
    write("stream", "epoch", &epoch.encode(&[]));
    let kind = MessageKind::Part { epoch: 9, settled: 11, first: 12, part: 1, parts: 3, chain: ChainHash([5; 32]) };
    write("stream", "part", &MessageHeader { log, number: 13, kind }.encode(b"some bytes of a group"));
    let [epoch, settled, first] = [3u64 << 20, 5, 7].map(u64::to_le_bytes);
    let rest = [1, 0, 2, 0, 4, 0, 6, 8];
    write("stream", "fields", &[&epoch[..], &settled, &first, &rest, b"payload"].concat());
}

/// What a log has on disk, whole: a segment header, a mark, a group.
fn journal() {
    let log = LogId { directory: 7, family: 2, shard: 3 };
    let place = Cursor { position: Position(70_000), sequence: Sequence(41), chain: ChainHash([9; 32]) };
    let page = SegmentHeader { log, first: place }.encode();
    let mark = Mark { log, kind: MarkKind::Sealed, end: place }.encode();
    let body = group_of(&[b"a record", b"another"]).split_off(4);
    let mut header = GroupHeader {
        log,
        first_sequence: Sequence(42),
        base: place.position,
        synced_up_to: place.position,
        record_count: 2,
        body_bytes: body.len() as u32,
        previous: place.chain,
        chain: ChainHash::default(),
    };
    let hashed = blake3::Hasher::new().update(&header.encode()[..80]).update(&body).finalize();
    header.chain = ChainHash(hashed.into());
    let group = [&header.encode()[..], &body].concat();
    let lost = Some(Lost { from: Sequence(43), to: Some(Sequence(50)) });
    let notice = Notice { kind: NoticeKind::LossAccepted, time_ms: 7, lost, text: "disk 2 was replaced".into() };
    // As the target takes it: a count of no records, then the body of a group.
    let notice = [&0u32.to_le_bytes()[..], &group_of(&[&notice.encode()]).split_off(4)].concat();
    for (name, bytes) in [("segment_header", &page[..76]), ("mark", &mark), ("sealed", &group), ("notice", &notice)] {
        write("group", name, bytes);
    }
}

/// As the targets want it: a byte for the version, then a stream.
fn mqtt() {
    let mut block = vec![0x01, 1];
    push_user_property(&mut block, "name", "über");
    for (version, name) in [(Version::V311, "v311"), (Version::V5, "v5")] {
        let mut out = vec![u8::from(version == Version::V5)];
        let will =
            WillOut { topic: "gone/c1", payload: b"x", delay_s: Some(5), properties: &block, ..WillOut::default() };
        let connect = ConnectOut {
            client_id: "c1",
            keep_alive_s: 60,
            will: Some(will),
            user_name: Some("user"),
            password: Some(b"password"),
            session_expiry_s: Some(600),
            receive_maximum: Some(20),
            ..ConnectOut::default()
        };
        encode_connect(&mut out, version, &connect);
        write("mqtt_client", &format!("{name}_connect"), &out);
        let wanted = [
            SubscriptionOut { filter: "a/+/#", qos: QoS::ExactlyOnce, no_local: true, ..SubscriptionOut::default() },
            SubscriptionOut { filter: "$share/g/b", retain_handling: 2, ..SubscriptionOut::default() },
        ];
        encode_subscribe(&mut out, version, 1, Some(300), &wanted);
        encode_unsubscribe(&mut out, version, 2, &["a/+/#", "$queue/b"]);
        let publish = PublishOut {
            qos: QoS::AtLeastOnce,
            topic: "a/b",
            packet_id: 3,
            topic_alias: Some(1),
            message_expiry_s: Some(60),
            properties: &block,
            payload: b"payload",
            ..PublishOut::default()
        };
        encode_publish(&mut out, version, &publish);
        let known = if version == Version::V5 { "" } else { "a/b" };
        encode_publish(&mut out, version, &PublishOut { topic: known, qos: QoS::AtMostOnce, ..publish });
        acks(&mut out, version);
        encode_pingreq(&mut out);
        if version == Version::V5 {
            encode_auth(&mut out, ReasonCode::REAUTHENTICATE, "SCRAM", Some(b"data"));
        }
        encode_disconnect(&mut out, version, ReasonCode::DISCONNECT_WITH_WILL, Some(60), Some("bye"), None);
        write("mqtt_client", &format!("{name}_conversation"), &out);

        let mut out = vec![u8::from(version == Version::V5)];
        let connack = ConnAckOut {
            session_present: true,
            receive_maximum: Some(100),
            assigned_client_id: Some("c1"),
            maximum_qos: Some(QoS::AtLeastOnce),
            server_keep_alive_s: Some(30),
            ..ConnAckOut::default()
        };
        encode_connack(&mut out, version, &connack);
        write("mqtt_server", &format!("{name}_connack"), &out);
        encode_suback(&mut out, version, 1, &[ReasonCode::GRANTED_QOS_2, ReasonCode::NOT_AUTHORIZED], Some("no"));
        encode_unsuback(&mut out, version, 2, &[ReasonCode::SUCCESS, ReasonCode::NO_SUBSCRIPTION_EXISTED], None);
        encode_publish(&mut out, version, &PublishOut { subscription_ids: &[1, 300], topic_alias: None, ..publish });
        acks(&mut out, version);
        encode_pingresp(&mut out);
        if version == Version::V5 {
            encode_disconnect(&mut out, version, ReasonCode::USE_ANOTHER_SERVER, None, None, Some("other:1883"));
        }
        write("mqtt_server", &format!("{name}_conversation"), &out);
    }
}

/// As the target wants it: a byte for the bounds, then commands: verb, client, what the verb needs.
fn mqtt_sessions() {
    // Anna in MQTT 5, clean; Bert in MQTT 3.1.1, durable; Anna again by another connection, with a will and small
    // bounds.
    let anna: &[u8] = &[11, 0, 4, 0, 0];
    let bert: &[u8] = &[11, 1, 1, 0, 1];
    let anna_again: &[u8] = &[11, 2, 0b1111_0110, 1, 1, 2, 0, 4, 1, 2, 1];
    // a/b and # with QoS 2 and 1; the second is a share group.
    let wide: &[u8] = &[12, 0, 0b0110_0000, 1, 2, 3, 1, 6, 1];
    let bert_wants: &[u8] = &[12, 1, 0b0100_0000, 1, 2, 5, 1, 1];
    // To a/b: QoS 0, 1 retained, 2; and the release of the last.
    let publish: &[u8] = &[14, 0, 0, 1, 14, 0, 0b0100_1001, 1, 3, 1, 14, 0, 2, 1, 4, 18, 0, 2, 4, 0];
    let answering: &[u8] = &[5, 0, 5, 1, 5, 2];
    let (many, some) = ([14, 1, 0b1100_0000, 1].repeat(40), [14, 1, 0b1100_0001, 1, 3].repeat(9));
    let all: [(&str, Vec<&[u8]>); 10] = [
        ("good_day", vec![&[0], answering, anna, bert, wide, bert_wants, publish, &[17, 0, 19, 0, 0]]),
        ("asleep", vec![&[1], anna, bert, bert_wants, &[1, 1], publish, &[7, 0, 1], bert, &[6, 0, 9, 9]]),
        ("take_over", vec![&[2], anna, wide, anna_again, publish, &[1, 2, 6, 0, 99, 99]]),
        ("crash", vec![&[0], answering, anna, bert, bert_wants, publish, &[7, 0, 0], bert, publish, &[7, 0, 1], bert]),
        ("stuck", vec![&[7], anna, wide, bert, bert_wants, &[2, 0], &many, &[2, 0]]),
        ("slow", vec![&[4], &[3, 0, 0, 4, 1, 0], anna, wide, bert, publish, &some]),
        ("spoilt", vec![&[0], anna, bert, &[9, 0, 0, 0x40], publish, &[9, 1, 3, 0xff], bert_wants, &[11, 0, 0, 0, 0]]),
        (
            "rubbish",
            vec![&[0], anna, &[10, 0, 4, 0xff, 0xff, 0xff, 0xff], &[10, 3, 2, 0x10, 0x40], bert, &[6, 0, 255, 99]],
        ),
        (
            "late",
            vec![&[8], &[8, 0], anna, wide, publish, bert, &[0, 0], bert_wants, &[14, 1, 33, 4, 2], &[0, 0, 8, 0]],
        ),
        // Packets of 32 bytes at most, and publications beyond that.
        (
            "small_reader",
            vec![
                &[0, 11, 0, 0b0100_0100, 0, 0, 0, 12, 0, 0, 3, 0, 0, 11, 1, 5, 0, 1],
                &[14, 1, 0b1000_0000, 1, 3, 14, 1, 1, 1, 4],
            ],
        ),
    ];
    for (name, commands) in all {
        write("mqtt_session", name, &commands.concat());
    }
}

fn acks(out: &mut Vec<u8>, version: Version) {
    encode_ack(out, version, AckKind::PubAck, 3, ReasonCode::NO_MATCHING_SUBSCRIBERS, None);
    encode_ack(out, version, AckKind::PubRec, 4, ReasonCode::QUOTA_EXCEEDED, Some("full"));
    encode_ack(out, version, AckKind::PubRel, 5, ReasonCode::SUCCESS, None);
    encode_ack(out, version, AckKind::PubComp, 6, ReasonCode::PACKET_IDENTIFIER_NOT_FOUND, None);
}

/// As the target wants it: a byte for side and length of a piece, then frames.
fn websocket() {
    let mut out = vec![2 << 1];
    let key = [1, 2, 3, 4];
    encode_client_frame(Opcode::Binary, key, b"\xc0\0", &mut out);
    encode_client_frame(Opcode::Ping, key, b"are you there", &mut out);
    encode_client_frame(Opcode::Binary, key, &[b'x'; 200], &mut out);
    encode_client_frame(Opcode::Pong, key, b"", &mut out);
    write("websocket", "client", &out);
    encode_client_frame(Opcode::Close, key, b"\x03\xe8bye", &mut out);
    write("websocket", "client_closes", &out);
    let mut fragments = vec![6 << 1];
    for (first, payload) in [(0x02, &b"\xc0"[..]), (0x00, b""), (0x89, b"ping"), (0x80, b"\0")] {
        let start = fragments.len();
        encode_client_frame(Opcode::Binary, key, payload, &mut fragments);
        fragments[start] = first;
    }
    write("websocket", "fragments", &fragments);
    let mut server = vec![1];
    frame_header(2, Opcode::Binary, &mut server);
    server.extend_from_slice(b"\xd0\0");
    encode_pong(b"are you there", &mut server);
    encode_close(CloseCode::GOING_AWAY, "drain", &mut server);
    write("websocket", "server", &server);
}

/// Headers, with the first bytes of a client behind them.
fn proxy() {
    write("proxy", "v1", b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 1883\r\n\x10\x0c");
    write("proxy", "v1_ipv6", b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 1883\r\n");
    write("proxy", "v1_unknown", b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n");
    let v2 = |command: u8, family: u8, addresses: &[u8]| {
        [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[command, family], &(addresses.len() as u16).to_be_bytes(), addresses].concat()
    };
    write("proxy", "v2", &v2(0x21, 0x11, b"\xc0\0\x02\x07\xc6\x33\x64\x01\x9c\x40\x07\x5b"));
    write("proxy", "v2_tlv", &v2(0x21, 0x11, b"\xc0\0\x02\x07\xc6\x33\x64\x01\x9c\x40\x07\x5b\x03\0\x04abcd"));
    write("proxy", "v2_ipv6", &v2(0x21, 0x21, &[0x20; 36]));
    write("proxy", "v2_local", &v2(0x20, 0, b""));
}

fn frames() {
    let transfer = TransferRef {
        id: b"t1",
        debit: b"wallet:dave",
        credit: b"candidate:1",
        amount: 5,
        memo: b"hello",
        ..Default::default()
    };
    let mut out = Vec::new();
    let mut frame = TransfersEncoder::begin(&mut out, 7, true);
    frame.push(&transfer);
    frame.push(&TransferRef { id: "über".as_bytes(), memo: b"", ..transfer });
    frame.finish();
    write("frames", "transfers", &out);

    out.clear();
    let mut frame = HoldsEncoder::begin(&mut out, 8, false);
    frame.push(&transfer, 60_000);
    frame.finish();
    let mut frame = PostHoldsEncoder::begin(&mut out, 9);
    frame.push(b"t1", Some(2));
    frame.push(b"t2", None);
    frame.finish();
    write("frames", "holds_then_posts", &out);

    out.clear();
    let account =
        |id: &str| proto::OpenAccount { id: id.into(), asset: "credit".into(), kind: AccountKind::Wallet as i32 };
    encode_request(&mut out, 1, request_frame::Body::Hello(proto::Hello { token: "token".into() }));
    encode_request(&mut out, 2, request_frame::Body::OpenAccount(account("wallet:dave")));
    let voids = proto::VoidHolds { ids: vec!["a".into(), "b".into()], id_space: None };
    encode_request(&mut out, 3, request_frame::Body::VoidHolds(voids));
    let history = proto::ReadHistory { id: "wallet:dave".into(), before: "x".into(), limit: 5, ..Default::default() };
    encode_request(&mut out, 4, request_frame::Body::ReadHistory(history.clone()));
    let (from_ms, to_ms) = (Some(0), Some(u64::MAX));
    encode_request(&mut out, 5, request_frame::Body::ReadHistory(proto::ReadHistory { from_ms, to_ms, ..history }));
    write("frames", "conversation", &out);

    out.clear();
    let mut frame = OutcomesEncoder::begin(&mut out, 7, 3);
    frame.applied();
    frame.duplicate();
    frame.refused("insufficient_funds", 3);
    frame.finish();
    let error = proto::Error { code: "busy".into(), detail: "later".into(), retry_after_ms: 100 };
    encode_reply(&mut out, 8, reply_frame::Body::Error(error));
    write("frames", "replies", &out);

    out.clear();
    encode_room(&mut out, 10, RoomRef { family: 1_024, body: b"add" });
    encode_room(&mut out, 11, RoomRef { family: u32::MAX, body: b"" });
    write("frames", "rooms", &out);
}

/// As the target wants it: the number of records, then the records with their length and room for a checksum.
fn group_of(records: &[&[u8]]) -> Vec<u8> {
    let mut bytes = (records.len() as u32).to_le_bytes().to_vec();
    for record in records {
        bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(record);
    }
    bytes
}

fn topics() {
    for (index, event) in topics::SAMPLE.events.iter().enumerate() {
        write("topic_event", &format!("{index}"), event);
    }
    let snapshot = topics::snapshot_of(&topics::SAMPLE.topics);
    write("topic_snapshot", "sample", &snapshot);
    write("topic_snapshot", "cut", &snapshot[..snapshot.len() / 2]);
    let empty = topics::snapshot_of(&Topics::new(ShardIndex(0)));
    write("topic_snapshot", "empty", &empty);
}

fn roster() {
    let (roster, records) = roster::sample();
    for (index, record) in records.iter().enumerate() {
        write("roster_event", &format!("{index}"), record);
    }
    let snapshot = roster::snapshot_of(&roster);
    write("roster_snapshot", "sample", &snapshot);
    write("roster_snapshot", "cut", &snapshot[..snapshot.len() / 2]);
    write("roster_snapshot", "empty", &roster::snapshot_of(&Roster::new(ShardIndex(0), 1)));
}

fn queues() {
    for (index, record) in queues::SAMPLE.events.iter().enumerate() {
        write("queue_event", &format!("{index}"), record);
    }
    let snapshot = &queues::SAMPLE.snapshot;
    write("queue_snapshot", "sample", snapshot);
    write("queue_snapshot", "cut", &snapshot[..snapshot.len() / 2]);
    write("queue_snapshot", "empty", &queues::snapshot_of(&Queues::new(ShardIndex(0), 1)));
}

fn http_bodies() {
    for (name, body) in [
        ("transfer", r#"{"id":"t1","debit":"wallet:dave","credit":"candidate:1","amount":1,"memo":"hello"}"#),
        ("batch", r#"{"transfers":[{"id":"t1","debit":"a","credit":"b","amount":1}],"linked":true}"#),
        ("account", r#"{"id":"wallet:dave","asset":"credit","kind":"wallet"}"#),
        ("hold", r#"{"id":"h1","debit":"a","credit":"b","amount":1,"expires_in_ms":1000}"#),
        ("post", r#"{"amount":1}"#),
        ("login", r#"{"user":"dave","password":"dave"}"#),
        ("escapes", r#"{"id":"\u0000\ud83d\ude00","debit":"\"","credit":"b","amount":1e3}"#),
        ("deep", &format!("{}1{}", "[".repeat(200), "]".repeat(200))),
        ("large_number", r#"{"id":"t","debit":"a","credit":"b","amount":18446744073709551616}"#),
    ] {
        write("http_body", name, body.as_bytes());
    }
}

/// As the target wants it: header fields and a body, or a whole request.
fn http_heads() {
    for (name, bytes) in [
        ("plain", "host: a\r\nauthorization: Bearer t\r\ncontent-length: 2\r\n\r\n{}"),
        ("kept_alive", "Host: a\r\nConnection: Keep-Alive\r\nX:\t y \r\nx: \r\nContent-Length: 002\r\n\r\n{}"),
        ("two_lengths", "host: a\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}"),
        ("chunked", "host: a\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("folded", "host: a\r\ncontent-length: 2\r\nx: a\r\n b\r\n\r\n{}"),
        ("bare_line_feed", "host: a\ncontent-length: 2\r\nx : a\r\n\r\n{}"),
        ("whole", "POST /v1/transfers HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}POST /v1"),
    ] {
        write("http_plain", name, bytes.as_bytes());
    }
}

fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), bytes).unwrap();
}
