//! Encoded packets decode to the same packet, in both versions and both directions. Random bytes, and packets with
//! changed bytes, are refused without a panic.

use crate::mqtt::Version::{V5, V311};
use crate::mqtt::*;
use proptest::prelude::*;

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![Just(V311), Just(V5)]
}

fn qos() -> impl Strategy<Value = QoS> {
    (0u8..3).prop_map(|bits| QoS::of(bits).expect("0, 1 or 2"))
}

/// A text that a topic may be.
fn topic() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z/]{1,40}", "[^\\x00+#]{1,20}", "[a-z]{120,300}"]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z]{1,20}", "[^\\x00]{1,30}", "[a-z]{120,300}"]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![prop::collection::vec(any::<u8>(), 0..30), prop::collection::vec(any::<u8>(), 100..20_000)]
}

/// The properties that go on unchanged.
#[derive(Clone, Debug)]
struct Forwardable {
    payload_format: Option<u8>,
    response_topic: Option<String>,
    correlation_data: Option<Vec<u8>>,
    content_type: Option<String>,
    user: Vec<(String, String)>,
}

prop_compose! {
    fn forwardable()(
        payload_format in prop::option::of(0u8..2),
        response_topic in prop::option::of(topic()),
        correlation_data in prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
        content_type in prop::option::of(text()),
        user in prop::collection::vec((text(), text()), 0..4),
    ) -> Forwardable {
        Forwardable { payload_format, response_topic, correlation_data, content_type, user }
    }
}

fn push_field(block: &mut Vec<u8>, id: u8, bytes: &[u8]) {
    block.push(id);
    block.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    block.extend_from_slice(bytes);
}

impl Forwardable {
    fn block(&self) -> Vec<u8> {
        let mut block = Vec::new();
        // User properties around the others: their order among each other is what must stay.
        let (first, others) = self.user.split_at(self.user.len() / 2);
        first.iter().for_each(|(name, value)| push_user_property(&mut block, name, value));
        if let Some(format) = self.payload_format {
            block.extend_from_slice(&[0x01, format]);
        }
        if let Some(topic) = &self.response_topic {
            push_field(&mut block, 0x08, topic.as_bytes());
        }
        if let Some(data) = &self.correlation_data {
            push_field(&mut block, 0x09, data);
        }
        if let Some(content) = &self.content_type {
            push_field(&mut block, 0x03, content.as_bytes());
        }
        others.iter().for_each(|(name, value)| push_user_property(&mut block, name, value));
        block
    }

    fn check(&self, read: &PublishProperties<'_>) {
        assert_eq!(read.payload_format, self.payload_format);
        assert_eq!(read.response_topic, self.response_topic.as_deref());
        assert_eq!(read.correlation_data, self.correlation_data.as_deref());
        assert_eq!(read.content_type, self.content_type.as_deref());
        let user: Vec<_> = self.user.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(read.user().collect::<Vec<_>>(), user);
        let mut forwarded = Vec::new();
        read.forwardable(&mut forwarded);
        assert_eq!(forwarded, self.block());
    }
}

/// The one packet that `out` is.
fn whole(out: &[u8]) -> &[u8] {
    assert_eq!(split(out, u32::MAX), Ok(Split::Packet(out.len())));
    assert_eq!(split(&out[..out.len() - 1], u32::MAX), Ok(Split::NeedMore));
    out
}

proptest! {
    #[test]
    fn publish(
        version in version(), dup: bool, qos in qos(), retain: bool, topic in topic(), packet_id in 1u16..,
        topic_alias in prop::option::of(1u16..), message_expiry_s: Option<u32>,
        subscription_ids in prop::collection::vec(1u32..=268_435_455, 0..3),
        properties in forwardable(), payload in bytes(),
        from_client: bool,
    ) {
        let block = properties.block();
        let subscription_ids = if from_client { vec![] } else { subscription_ids };
        let publish = PublishOut {
            dup, qos, retain, topic: &topic, packet_id, topic_alias, message_expiry_s,
            subscription_ids: &subscription_ids, properties: &block, payload: &payload,
        };
        let mut out = b"before".to_vec();
        let encoded = encode_publish(&mut out, version, &PublishOut { packet_id: 0, ..publish });
        let packet = &mut out[6..];
        prop_assert_eq!(encoded.len, packet.len());
        prop_assert_eq!(encoded.packet_id_at.is_some(), qos > QoS::AtMostOnce);
        // As a fan-out does it.
        if let Some(at) = encoded.packet_id_at {
            packet[at..at + 2].copy_from_slice(&packet_id.to_be_bytes());
        }
        let decode = if from_client { decode_client } else { decode_server };
        let Ok(Packet::Publish(read)) = decode(whole(packet), version) else { panic!("{:?}", decode(packet, version)) };
        prop_assert_eq!((read.qos, read.retain, read.topic, read.payload), (qos, retain, &topic[..], &payload[..]));
        prop_assert_eq!(read.dup, dup && qos > QoS::AtMostOnce);
        prop_assert_eq!(read.packet_id, if qos == QoS::AtMostOnce { 0 } else { packet_id });
        if version == V311 {
            prop_assert_eq!(read.properties.user().count(), 0);
        } else {
            prop_assert_eq!(read.properties.topic_alias, topic_alias);
            prop_assert_eq!(read.properties.message_expiry_s, message_expiry_s);
            prop_assert_eq!(read.properties.subscription_ids().collect::<Vec<_>>(), subscription_ids);
            properties.check(&read.properties);
            properties.check(&PublishProperties::read(&block).expect("what was written"));
        }
    }

    #[test]
    fn connect(
        version in version(), clean_start: bool, keep_alive_s: u16, client_id in "[a-z]{1,30}|[^\\x00]{1,10}",
        will in prop::option::of((
            topic(), prop::collection::vec(any::<u8>(), 0..300), qos(),
            any::<(bool, Option<u32>, Option<u32>)>(), forwardable(),
        )),
        user_name in prop::option::of(text()), password in prop::option::of(prop::collection::vec(any::<u8>(), 0..50)),
        numbers: (Option<u32>, Option<u16>, Option<bool>, Option<bool>), receive_maximum in prop::option::of(1u16..),
        packet_bytes_max in prop::option::of(1u32..), method in prop::option::of(text()),
        user in prop::collection::vec((text(), text()), 0..3),
    ) {
        let (session_expiry_s, topic_alias_maximum, request_response_information, request_problem_information) =
            numbers;
        let user_name = user_name.or(password.as_ref().filter(|_| version == V311).map(|_| "user".to_owned()));
        let mut user_block = Vec::new();
        user.iter().for_each(|(name, value)| push_user_property(&mut user_block, name, value));
        let will_block = will.as_ref().map(|will| will.4.block()).unwrap_or_default();
        let out_will = will.as_ref().map(|(topic, payload, qos, (retain, delay_s, message_expiry_s), _)| WillOut {
            topic, payload, qos: *qos, retain: *retain, delay_s: *delay_s, message_expiry_s: *message_expiry_s,
            properties: &will_block,
        });
        let connect = ConnectOut {
            clean_start, keep_alive_s, client_id: &client_id, will: out_will, user_name: user_name.as_deref(),
            password: password.as_deref(), session_expiry_s, receive_maximum, packet_bytes_max, topic_alias_maximum,
            request_response_information, request_problem_information, authentication_method: method.as_deref(),
            authentication_data: method.as_ref().map(|_| &b"data"[..]), user: &user_block,
        };
        let mut out = Vec::new();
        encode_connect(&mut out, version, &connect);
        let read = decode_connect(whole(&out)).expect("a CONNECT");
        prop_assert_eq!((read.version, read.clean_start, read.keep_alive_s), (version, clean_start, keep_alive_s));
        prop_assert_eq!(
            (read.client_id, read.user_name, read.password),
            (&client_id[..], user_name.as_deref(), password.as_deref())
        );
        prop_assert_eq!(read.will.is_some(), will.is_some());
        if let (Some(read), Some((topic, payload, qos, (retain, delay_s, expiry_s), properties))) = (read.will, &will) {
            prop_assert_eq!(
                (read.topic, read.payload, read.qos, read.retain),
                (&topic[..], &payload[..], *qos, *retain)
            );
            if version == V5 {
                prop_assert_eq!((read.delay_s, read.properties.message_expiry_s), (delay_s.unwrap_or(0), *expiry_s));
                properties.check(&read.properties);
            }
        }
        if version == V311 {
            prop_assert_eq!(read.session_expiry_s, if clean_start { 0 } else { u32::MAX });
            return Ok(());
        }
        prop_assert_eq!(read.session_expiry_s, session_expiry_s.unwrap_or(0));
        prop_assert_eq!(read.receive_maximum, receive_maximum.unwrap_or(u16::MAX));
        prop_assert_eq!(read.packet_bytes_max, packet_bytes_max);
        prop_assert_eq!(read.topic_alias_maximum, topic_alias_maximum.unwrap_or(0));
        prop_assert_eq!(read.request_response_information, request_response_information.unwrap_or(false));
        prop_assert_eq!(read.request_problem_information, request_problem_information.unwrap_or(true));
        prop_assert_eq!(read.authentication_method, method.as_deref());
        prop_assert_eq!(read.user().map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>(), user);
    }

    #[test]
    fn connack(
        version in version(), session_present: bool, refused: bool, bools: [Option<bool>; 4],
        text in prop::option::of(text()), session_expiry_s: Option<u32>,
        receive_maximum in prop::option::of(1u16..), packet_bytes_max in prop::option::of(1u32..),
        qos in prop::option::of(qos()), numbers: (Option<u16>, Option<u16>),
    ) {
        let reason = if refused { ReasonCode::NOT_AUTHORIZED } else { ReasonCode::SUCCESS };
        let text = text.as_deref();
        let connack = ConnAckOut {
            session_present, reason, session_expiry_s, receive_maximum, maximum_qos: qos, retain_available: bools[0],
            packet_bytes_max, assigned_client_id: text, topic_alias_maximum: numbers.0, reason_string: text,
            wildcard_available: bools[1], subscription_ids_available: bools[2], shared_available: bools[3],
            server_keep_alive_s: numbers.1, response_information: text, server_reference: text,
            authentication_method: text, authentication_data: None,
        };
        let mut out = Vec::new();
        encode_connack(&mut out, version, &connack);
        let Ok(Packet::ConnAck(read)) = decode_server(whole(&out), version) else { panic!("{out:02x?}") };
        prop_assert_eq!((read.session_present, read.reason), (session_present && !refused, reason));
        if version == V5 {
            prop_assert_eq!((read.session_expiry_s, read.packet_bytes_max), (session_expiry_s, packet_bytes_max));
            prop_assert_eq!(read.receive_maximum, receive_maximum.unwrap_or(u16::MAX));
            prop_assert_eq!(read.maximum_qos, qos.unwrap_or(QoS::ExactlyOnce));
            let available = [
                read.retain_available, read.wildcard_available, read.subscription_ids_available, read.shared_available,
            ];
            prop_assert_eq!(available, bools.map(|bool| bool.unwrap_or(true)));
            prop_assert_eq!((read.topic_alias_maximum, read.server_keep_alive_s), (numbers.0.unwrap_or(0), numbers.1));
            for read in [
                read.assigned_client_id, read.reason_string, read.response_information, read.server_reference,
                read.authentication_method,
            ] {
                prop_assert_eq!(read, text);
            }
        }
    }

    #[test]
    fn acks(version in version(), packet_id in 1u16.., text in prop::option::of(text()), failed: bool) {
        for (kind, failure) in [
            (AckKind::PubAck, ReasonCode::QUOTA_EXCEEDED),
            (AckKind::PubRec, ReasonCode::NO_MATCHING_SUBSCRIBERS),
            (AckKind::PubRel, ReasonCode::PACKET_IDENTIFIER_NOT_FOUND),
            (AckKind::PubComp, ReasonCode::PACKET_IDENTIFIER_NOT_FOUND),
        ] {
            let reason = if failed { failure } else { ReasonCode::SUCCESS };
            let mut out = Vec::new();
            encode_ack(&mut out, version, kind, packet_id, reason, text.as_deref());
            for decode in [decode_client, decode_server] {
                let read = match decode(whole(&out), version) {
                    Ok(Packet::PubAck(ack)) if kind == AckKind::PubAck => ack,
                    Ok(Packet::PubRec(ack)) if kind == AckKind::PubRec => ack,
                    Ok(Packet::PubRel(ack)) if kind == AckKind::PubRel => ack,
                    Ok(Packet::PubComp(ack)) if kind == AckKind::PubComp => ack,
                    other => panic!("{other:?}"),
                };
                prop_assert_eq!(read.packet_id, packet_id);
                if version == V5 {
                    prop_assert_eq!((read.reason, read.reason_string), (reason, text.as_deref()));
                }
            }
        }
    }

    #[test]
    fn subscribe_and_unsubscribe(
        version in version(), packet_id in 1u16.., subscription_id in prop::option::of(1u32..=268_435_455),
        wanted in prop::collection::vec(
            ("[a-z/]{1,20}(/#)?|[+]/[a-z]{1,5}", qos(), any::<(bool, bool)>(), 0u8..3), 1..20
        ),
    ) {
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(filter, qos, (no_local, retain_as_published), retain_handling)| SubscriptionOut {
                filter, qos: *qos, no_local: *no_local, retain_as_published: *retain_as_published,
                retain_handling: *retain_handling,
            })
            .collect();
        let mut out = Vec::new();
        encode_subscribe(&mut out, version, packet_id, subscription_id, &wanted);
        let Ok(Packet::Subscribe(read)) = decode_client(whole(&out), version) else { panic!("{out:02x?}") };
        prop_assert_eq!(read.packet_id, packet_id);
        prop_assert_eq!(read.subscription_id, subscription_id.filter(|_| version == V5));
        prop_assert_eq!(read.subscriptions().count(), wanted.len());
        // Whoever has looked at some goes on behind them.
        let Ok(Packet::Subscribe(again)) = decode_client_again(whole(&out), version) else { panic!("{out:02x?}") };
        let mut looked_at = again.subscriptions();
        for done in 0..=wanted.len() {
            prop_assert!(again.subscriptions_from(looked_at.at()).eq(read.subscriptions().skip(done)));
            looked_at.next();
        }
        for (read, wanted) in read.subscriptions().zip(&wanted) {
            prop_assert_eq!((read.filter, read.qos), (wanted.filter, wanted.qos));
            if version == V5 {
                prop_assert_eq!(
                    (read.no_local, read.retain_as_published, read.retain_handling),
                    (wanted.no_local, wanted.retain_as_published, wanted.retain_handling)
                );
            }
        }
        let filters: Vec<&str> = wanted.iter().map(|wanted| wanted.filter).collect();
        out.clear();
        encode_unsubscribe(&mut out, version, packet_id, &filters);
        let Ok(Packet::Unsubscribe(read)) = decode_client(whole(&out), version) else { panic!("{out:02x?}") };
        prop_assert_eq!(read.packet_id, packet_id);
        prop_assert_eq!(read.filters().collect::<Vec<_>>(), &filters[..]);
        let Ok(Packet::Unsubscribe(again)) = decode_client_again(whole(&out), version) else { panic!("{out:02x?}") };
        let mut looked_at = again.filters();
        for done in 0..=filters.len() {
            prop_assert!(again.filters_from(looked_at.at()).eq(filters[done..].iter().copied()));
            looked_at.next();
        }
    }

    #[test]
    fn suback_and_unsuback(
        version in version(), packet_id in 1u16.., text in prop::option::of(text()),
        granted in prop::collection::vec(0u8..4, 1..200),
    ) {
        let reason = |&qos: &u8| if qos < 3 { ReasonCode(qos) } else { ReasonCode::NOT_AUTHORIZED };
        let reasons: Vec<_> = granted.iter().map(reason).collect();
        let mut out = Vec::new();
        encode_suback(&mut out, version, packet_id, &reasons, text.as_deref());
        let Ok(Packet::SubAck(read)) = decode_server(whole(&out), version) else { panic!("{out:02x?}") };
        prop_assert_eq!(read.packet_id, packet_id);
        if version == V5 {
            prop_assert_eq!(read.reason_string, text.as_deref());
            prop_assert_eq!(read.reasons().collect::<Vec<_>>(), reasons.clone());
        } else {
            // One word for each failure.
            let of_v311 = |reason: &ReasonCode| match reason.is_error() {
                true => ReasonCode::UNSPECIFIED_ERROR,
                false => *reason,
            };
            let failures = reasons.iter().map(of_v311);
            prop_assert_eq!(read.reasons().collect::<Vec<_>>(), failures.collect::<Vec<_>>());
        }
        let reason = |&qos: &u8| if qos < 3 { ReasonCode::SUCCESS } else { ReasonCode::NO_SUBSCRIPTION_EXISTED };
        let reasons: Vec<_> = granted.iter().map(reason).collect();
        out.clear();
        encode_unsuback(&mut out, version, packet_id, &reasons, text.as_deref());
        let Ok(Packet::UnsubAck(read)) = decode_server(whole(&out), version) else { panic!("{out:02x?}") };
        prop_assert_eq!(read.packet_id, packet_id);
        prop_assert_eq!(read.reasons().collect::<Vec<_>>(), if version == V5 { reasons } else { vec![] });
    }

    #[test]
    fn disconnect(text in prop::option::of(text()), session_expiry_s: Option<u32>) {
        let mut out = Vec::new();
        encode_disconnect(&mut out, V5, ReasonCode::DISCONNECT_WITH_WILL, session_expiry_s, text.as_deref(), None);
        let Ok(Packet::Disconnect(read)) = decode_client(whole(&out), V5) else { panic!("{out:02x?}") };
        prop_assert_eq!((read.reason, read.session_expiry_s), (ReasonCode::DISCONNECT_WITH_WILL, session_expiry_s));
        prop_assert_eq!(read.reason_string, text.as_deref());
        out.clear();
        encode_disconnect(&mut out, V5, ReasonCode::USE_ANOTHER_SERVER, None, text.as_deref(), text.as_deref());
        let Ok(Packet::Disconnect(read)) = decode_server(whole(&out), V5) else { panic!("{out:02x?}") };
        prop_assert_eq!((read.reason, read.server_reference), (ReasonCode::USE_ANOTHER_SERVER, text.as_deref()));
        out.clear();
        encode_disconnect(&mut out, V311, ReasonCode::NORMAL_DISCONNECTION, session_expiry_s, text.as_deref(), None);
        prop_assert_eq!(&out, &[0xe0, 0]);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        harmless(&bytes);
    }

    /// Whole packets of each type with random bodies: nearly all of them reach the decoders.
    #[test]
    fn any_body(first: u8, body in prop::collection::vec(prop_oneof![0u8..40, any::<u8>()], 0..120)) {
        let mut packet = vec![first, body.len() as u8];
        packet.extend_from_slice(&body);
        harmless(&packet);
    }

    #[test]
    fn a_changed_connect(at in 0usize..80, byte: u8, version in version()) {
        let mut out = Vec::new();
        let will =
            WillOut { topic: "w", payload: b"gone", qos: QoS::AtLeastOnce, delay_s: Some(5), ..WillOut::default() };
        let connect = ConnectOut {
            client_id: "client", will: Some(will), user_name: Some("user"), password: Some(b"password"),
            session_expiry_s: Some(60), receive_maximum: Some(10), ..ConnectOut::default()
        };
        encode_connect(&mut out, version, &connect);
        let at = at % out.len();
        out[at] = byte;
        harmless(&out);
    }
}

/// Decodes in all ways and looks at everything that is handed out.
fn harmless(bytes: &[u8]) {
    let _ = split(bytes, 1_000);
    if let Ok(connect) = decode_connect(bytes) {
        assert!(connect.user().count() <= bytes.len());
        assert!(connect.receive_maximum > 0);
    }
    for version in [V311, V5] {
        for decode in [decode_client, decode_server] {
            let Ok(packet) = decode(bytes, version) else { continue };
            match packet {
                Packet::Publish(publish) => {
                    assert_eq!(publish.packet_id == 0, publish.qos == QoS::AtMostOnce);
                    let mut forwarded = Vec::new();
                    publish.properties.forwardable(&mut forwarded);
                    let read = PublishProperties::read(&forwarded).expect("what goes on can be read");
                    assert_eq!(read.user().count(), publish.properties.user().count());
                }
                Packet::Subscribe(subscribe) => {
                    assert!(subscribe.subscriptions().count() > 0);
                    assert!(subscribe.subscriptions().all(|wanted| check_filter(wanted.filter).is_ok()));
                }
                Packet::Unsubscribe(unsubscribe) => {
                    assert!(unsubscribe.filters().all(|filter| check_filter(filter).is_ok()));
                }
                Packet::SubAck(suback) => assert!(suback.reasons().len() > 0),
                _ => {}
            }
        }
    }
}

#[test]
fn small_packets() {
    let mut out = Vec::new();
    encode_pingreq(&mut out);
    assert!(matches!(decode_client(whole(&out), V5), Ok(Packet::PingReq)));
    out.clear();
    encode_pingresp(&mut out);
    assert!(matches!(decode_server(whole(&out), V311), Ok(Packet::PingResp)));
    out.clear();
    encode_auth(&mut out, ReasonCode::CONTINUE_AUTHENTICATION, "SCRAM", Some(b"data"));
    let Ok(Packet::Auth(auth)) = decode_client(whole(&out), V5) else { panic!("{out:02x?}") };
    assert_eq!((auth.method, auth.data), (Some("SCRAM"), Some(&b"data"[..])));
}

#[test]
fn a_reason_has_a_name_and_a_return_code() {
    assert_eq!(ReasonCode::QUOTA_EXCEEDED.name(), "quota_exceeded");
    assert_eq!(ReasonCode(0x7f).name(), "unknown");
    for code in 0..=5 {
        assert_eq!(ReasonCode::of_connect_return_code(code).map(ReasonCode::connect_return_code), Some(code));
    }
    assert_eq!(ReasonCode::of_connect_return_code(6), None);
    assert_eq!(ReasonCode::SERVER_BUSY.connect_return_code(), 3);
}
