//! A stream of MQTT, decoded as a client's and as a server's, in both versions.
//!
//! The first byte is not part of the stream: it chooses the side and the version, so that one corpus reaches each
//! decoder.

use tidegate_wire::mqtt::{
    Connect, Packet, PublishProperties, QoS, Split, Version, check_filter, check_topic, decode_client, decode_connect,
    decode_server, filter_covers, filter_matches, split,
};

/// The longest packet that is taken here.
const PACKET_BYTES_MAX: u32 = 1 << 20;

/// Reads what a client sends: CONNECT, then everything else.
pub fn check_client(bytes: &[u8]) {
    let Some((&choice, mut rest)) = bytes.split_first() else { return };
    let mut version = if choice & 1 == 0 { Version::V311 } else { Version::V5 };
    while let Some(packet) = next(&mut rest) {
        if let Ok(connect) = decode_connect(packet) {
            look_at_connect(&connect);
            version = connect.version;
        }
        if let Ok(packet) = decode_client(packet, version) {
            look_at(&packet, version);
        }
    }
    // Without a right length in front nearly every mutation would end in `split`.
    let _ = decode_connect(rest);
    let _ = decode_client(rest, version);
}

/// Reads what a server sends.
pub fn check_server(bytes: &[u8]) {
    let Some((&choice, mut rest)) = bytes.split_first() else { return };
    let version = if choice & 1 == 0 { Version::V311 } else { Version::V5 };
    while let Some(packet) = next(&mut rest) {
        if let Ok(packet) = decode_server(packet, version) {
            look_at(&packet, version);
        }
    }
    let _ = decode_server(rest, version);
}

/// The next packet of a stream. A refused one must be refused for its first bytes alone.
fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    match split(rest, PACKET_BYTES_MAX) {
        Ok(Split::Packet(len)) => {
            assert!(len >= 2 && len <= PACKET_BYTES_MAX as usize);
            let (packet, behind) = rest.split_at(len);
            *rest = behind;
            Some(packet)
        }
        Ok(Split::NeedMore) => None,
        Err(malformed) => {
            assert_eq!(split(&rest[..rest.len().min(5)], PACKET_BYTES_MAX), Err(malformed));
            None
        }
    }
}

fn look_at_connect(connect: &Connect<'_>) {
    assert!(connect.receive_maximum > 0 && connect.packet_bytes_max != Some(0));
    assert!(!connect.client_id.contains('\0'));
    if let Some(will) = &connect.will {
        assert_eq!(check_topic(will.topic), Ok(()));
        forward(&will.properties);
    }
}

fn look_at(packet: &Packet<'_>, version: Version) {
    match packet {
        Packet::Publish(publish) => {
            assert_eq!(publish.packet_id == 0, publish.qos == QoS::AtMostOnce);
            assert!(publish.properties.topic_alias.is_some() || check_topic(publish.topic) == Ok(()));
            assert!(version == Version::V5 || publish.properties.user().next().is_none());
            forward(&publish.properties);
        }
        Packet::Subscribe(subscribe) => {
            assert!(subscribe.packet_id > 0 && subscribe.subscription_id != Some(0));
            let mut previous = None;
            for wanted in subscribe.subscriptions() {
                let filter = check_filter(wanted.filter).expect("it was checked").filter;
                assert!(filter_covers(filter, filter));
                // What a filter covers, it also matches.
                if let Some(previous) = previous.replace(filter)
                    && check_topic(previous) == Ok(())
                {
                    assert_eq!(filter_covers(filter, previous), filter_matches(filter, previous));
                }
            }
            assert!(previous.is_some());
        }
        Packet::Unsubscribe(unsubscribe) => {
            assert!(unsubscribe.filters().count() > 0);
            assert!(unsubscribe.filters().all(|filter| check_filter(filter).is_ok()));
        }
        Packet::PubAck(ack) | Packet::PubRec(ack) | Packet::PubRel(ack) | Packet::PubComp(ack) => {
            assert!(ack.packet_id > 0 && ack.reason.name() != "unknown");
        }
        Packet::SubAck(suback) => assert!(suback.reasons().all(|reason| reason.name() != "unknown")),
        Packet::UnsubAck(unsuback) => assert!(unsuback.reasons().all(|reason| reason.name() != "unknown")),
        Packet::ConnAck(connack) => assert!(!(connack.session_present && connack.reason.is_error())),
        Packet::Disconnect(disconnect) => assert_ne!(disconnect.reason.name(), "unknown"),
        Packet::Auth(auth) => assert!(auth.user().all(|(name, _)| !name.contains('\0'))),
        Packet::PingReq | Packet::PingResp => {}
    }
}

/// What goes on to subscribers can be read again, says the same, and goes on the same.
fn forward(properties: &PublishProperties<'_>) {
    let (mut once, mut twice) = (Vec::new(), Vec::new());
    properties.forwardable(&mut once);
    let read = PublishProperties::read(&once).expect("what goes on can be read");
    assert_eq!(read.content_type, properties.content_type);
    assert_eq!(read.response_topic, properties.response_topic);
    assert_eq!(read.correlation_data, properties.correlation_data);
    assert!(read.user().eq(properties.user()));
    assert_eq!((read.topic_alias, read.message_expiry_s, read.subscription_ids().next()), (None, None, None));
    read.forwardable(&mut twice);
    assert_eq!(once, twice);
}
