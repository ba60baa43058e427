//! Packets that a client may send, made from bytes of the script.

use tidegate_wire::mqtt::*;

use super::Script;
use super::client::Client;

const CLIENT_IDS: [&str; 4] = ["anna", "bert", "", "{tag}carl"];
const FILTERS: [&str; 15] = [
    "a",
    "a/b",
    "a/+",
    "#",
    "+/b",
    "$share/g/a/#",
    "$share/g/+/b",
    "$queue/a/b",
    "$SYS/#",
    "$ledger/accounts/candidate",
    "$ledger/accounts/wallet",
    "secret/x",
    "a/b/c/d/e/f",
    "$out/jobs",
    "$out/#",
];
const TOPICS: [&str; 12] = [
    "a",
    "a/b",
    "b/b",
    "a/b/c/d/e/f",
    "$ledger/transfers",
    "$delayed/1/a/b",
    "secret/x",
    "$ledger/accounts/candidate",
    "$delayed/x/a",
    "",
    "$in/jobs",
    "$out/jobs",
];
const NUMBERS: [u32; 6] = [0, 1, 2, 20, 100, u32::MAX];
const REASONS: [u8; 6] = [0x00, 0x10, 0x80, 0x87, 0x92, 0x97];

/// The packet that verb number `verb` stands for; what is encoded is legal by itself, but perhaps not now.
pub fn packet(verb: u8, client: &mut Client, script: &mut Script<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let version = client.packets_version;
    match verb {
        11 => connect(client, script, &mut out),
        12 => subscribe(version, script, &mut out),
        13 => encode_unsubscribe(&mut out, version, id(script), &[script.choice(&FILTERS)]),
        14..=16 => publish(version, script, &mut out),
        17 => encode_pingreq(&mut out),
        18 => {
            let kind = script.choice(&[AckKind::PubAck, AckKind::PubRec, AckKind::PubRel, AckKind::PubComp]);
            encode_ack(&mut out, version, kind, id(script), ReasonCode(script.choice(&REASONS)), None);
        }
        _ => {
            let flags = script.byte();
            if flags & 7 == 7 {
                encode_auth(&mut out, ReasonCode::REAUTHENTICATE, "SCRAM", None);
            } else {
                let expiry_s = (flags & 8 != 0).then(|| script.choice(&NUMBERS));
                let reason = if flags & 1 == 0 { ReasonCode::SUCCESS } else { ReasonCode::DISCONNECT_WITH_WILL };
                encode_disconnect(&mut out, version, reason, expiry_s, None, None);
            }
        }
    }
    out
}

/// Mostly small, so that ids meet again.
fn id(script: &mut Script<'_>) -> u16 {
    match script.byte() {
        0 => 1,
        255 => u16::MAX,
        small => u16::from(small % 24) + 1,
    }
}

fn connect(client: &mut Client, script: &mut Script<'_>, out: &mut Vec<u8>) {
    let (flags, more) = (script.byte(), script.byte());
    client.packets_version = if flags & 1 == 0 { Version::V5 } else { Version::V311 };
    let will = (flags & 2 != 0).then(|| WillOut {
        topic: script.choice(&TOPICS[..6]),
        payload: b"gone",
        qos: script.choice(&[QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce]),
        retain: more & 1 != 0,
        delay_s: (more & 2 != 0).then_some(1),
        ..WillOut::default()
    });
    let user_name = (more & 4 != 0).then(|| script.choice(&["dave", "nobody"]));
    let connect = ConnectOut {
        clean_start: flags & 4 != 0,
        keep_alive_s: if flags & 8 == 0 { 0 } else { 2 },
        client_id: script.choice(&CLIENT_IDS),
        will,
        user_name,
        session_expiry_s: (flags & 16 != 0).then(|| script.choice(&NUMBERS)),
        receive_maximum: (flags & 32 != 0).then(|| script.choice(&[1, 2, 7])),
        packet_bytes_max: (flags & 64 != 0).then(|| script.choice(&[32, 100, 1_000])),
        topic_alias_maximum: (flags & 128 != 0).then(|| script.choice(&[1, 2, 100])),
        request_problem_information: (more & 8 != 0).then_some(false),
        authentication_method: (more & 0xf0 == 0xf0).then_some("SCRAM"),
        ..ConnectOut::default()
    };
    encode_connect(out, client.packets_version, &connect);
}

fn subscribe(version: Version, script: &mut Script<'_>, out: &mut Vec<u8>) {
    let flags = script.byte();
    let count = 1 + usize::from(flags >> 6);
    let wanted: Vec<_> = (0..count)
        .map(|_| SubscriptionOut {
            filter: script.choice(&FILTERS),
            qos: script.choice(&[QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce]),
            no_local: flags & 1 != 0,
            retain_as_published: flags & 2 != 0,
            retain_handling: (flags >> 2) % 3,
        })
        .collect();
    let subscription_id = (flags & 32 != 0).then(|| u32::from(script.byte()) + 1);
    encode_subscribe(out, version, id(script), subscription_id, &wanted);
}

fn publish(version: Version, script: &mut Script<'_>, out: &mut Vec<u8>) {
    let flags = script.byte();
    let qos = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce, QoS::AtLeastOnce][usize::from(flags & 3)];
    let topic = script.choice(&TOPICS);
    let mut properties = Vec::new();
    if flags & 16 != 0 {
        push_user_property(&mut properties, "name", "value");
    }
    if flags & 32 != 0 {
        // Response topic, as whoever asks the ledger has it.
        properties.extend_from_slice(b"\x08\x00\x03a/b");
    }
    let payload = vec![b'x'; [0, 1, 40, 900][usize::from(flags >> 6)]];
    let publish = PublishOut {
        dup: flags & 4 != 0 && qos != QoS::AtMostOnce,
        qos,
        retain: flags & 8 != 0,
        topic,
        packet_id: if qos == QoS::AtMostOnce { 0 } else { id(script) },
        topic_alias: (topic.is_empty() || flags & 64 != 0).then(|| u16::from(script.byte() % 4)),
        message_expiry_s: (flags & 128 != 0).then(|| script.choice(&NUMBERS)),
        properties: &properties,
        payload: &payload,
        ..PublishOut::default()
    };
    encode_publish(out, version, &publish);
}
