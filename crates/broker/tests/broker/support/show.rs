//! What a client received, as a line.

use std::fmt::Write;

use tidegate_wire::mqtt::{Ack, Packet, Publish, QoS, ReasonCode};

pub fn show(packet: &Packet<'_>) -> String {
    match packet {
        Packet::ConnAck(ack) => connack(ack),
        Packet::Publish(publish) => show_publish(publish),
        Packet::PubAck(ack) => show_ack("PUBACK", ack),
        Packet::PubRec(ack) => show_ack("PUBREC", ack),
        Packet::PubRel(ack) => show_ack("PUBREL", ack),
        Packet::PubComp(ack) => show_ack("PUBCOMP", ack),
        Packet::SubAck(ack) => {
            let codes: Vec<String> = ack.reasons().map(code).collect();
            format!("SUBACK {} {}", ack.packet_id, codes.join(" "))
        }
        Packet::UnsubAck(ack) => {
            let codes: Vec<String> = ack.reasons().map(code).collect();
            format!("UNSUBACK {} {}", ack.packet_id, codes.join(" ")).trim_end().to_owned()
        }
        Packet::PingResp => "PINGRESP".to_owned(),
        Packet::Disconnect(bye) => {
            let mut line = format!("DISCONNECT {}", reason(bye.reason));
            if let Some(reference) = bye.server_reference {
                write!(line, " reference={reference}").unwrap();
            }
            line
        }
        other => format!("{other:?}"),
    }
}

/// The words for people that came with a packet.
pub fn why<'a>(packet: &Packet<'a>) -> Option<&'a str> {
    match packet {
        Packet::ConnAck(ack) => ack.reason_string,
        Packet::PubAck(ack) | Packet::PubRec(ack) | Packet::PubRel(ack) | Packet::PubComp(ack) => ack.reason_string,
        Packet::SubAck(ack) => ack.reason_string,
        Packet::UnsubAck(ack) => ack.reason_string,
        Packet::Disconnect(bye) => bye.reason_string,
        _ => None,
    }
}

fn connack(ack: &tidegate_wire::mqtt::ConnAck<'_>) -> String {
    let mut line = format!("CONNACK {}", reason(ack.reason));
    if ack.session_present {
        line += " present";
    }
    if let Some(id) = ack.assigned_client_id {
        // Drawn at random: only its length is known.
        write!(line, " assigned={}", "x".repeat(id.len())).unwrap();
    }
    if let Some(seconds) = ack.session_expiry_s {
        write!(line, " expiry={seconds}").unwrap();
    }
    if let Some(seconds) = ack.server_keep_alive_s {
        write!(line, " keepalive={seconds}").unwrap();
    }
    if let Some(reference) = ack.server_reference {
        write!(line, " reference={reference}").unwrap();
    }
    line
}

fn show_publish(publish: &Publish<'_>) -> String {
    let topic = if publish.topic.is_empty() { "-" } else { publish.topic };
    let mut line = format!("PUBLISH {topic} {}", String::from_utf8_lossy(publish.payload)).trim_end().to_owned();
    if publish.qos != QoS::AtMostOnce {
        write!(line, " qos={} id={}", publish.qos as u8, publish.packet_id).unwrap();
    }
    if publish.retain {
        line += " retain";
    }
    if publish.dup {
        line += " dup";
    }
    let properties = &publish.properties;
    if let Some(alias) = properties.topic_alias {
        write!(line, " alias={alias}").unwrap();
    }
    if let Some(seconds) = properties.message_expiry_s {
        write!(line, " expiry={seconds}").unwrap();
    }
    if let Some(format) = properties.payload_format {
        write!(line, " format={format}").unwrap();
    }
    if let Some(content_type) = properties.content_type {
        write!(line, " type={content_type}").unwrap();
    }
    if let Some(topic) = properties.response_topic {
        write!(line, " response={topic}").unwrap();
    }
    if let Some(data) = properties.correlation_data {
        write!(line, " correlation={}", String::from_utf8_lossy(data)).unwrap();
    }
    for (name, value) in properties.user() {
        write!(line, " up={name}={value}").unwrap();
    }
    let ids: Vec<String> = properties.subscription_ids().map(|id| id.to_string()).collect();
    if !ids.is_empty() {
        write!(line, " sid={}", ids.join(",")).unwrap();
    }
    line
}

fn show_ack(name: &str, ack: &Ack<'_>) -> String {
    match ack.reason {
        ReasonCode::SUCCESS => format!("{name} {}", ack.packet_id),
        other => format!("{name} {} {}", ack.packet_id, reason(other)),
    }
}

fn reason(reason: ReasonCode) -> String {
    if reason == ReasonCode::SUCCESS { "success".to_owned() } else { format!("{reason:?}") }
}

fn code(reason: ReasonCode) -> String {
    if reason.0 <= 2 { reason.0.to_string() } else { format!("{reason:?}") }
}
