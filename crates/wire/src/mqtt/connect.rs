//! CONNECT: the client, its version, and its will.

use crate::mqtt::fixed_header::{kind, open};
use crate::mqtt::property::{self, IdSet, UserProperties, Value, id};
use crate::mqtt::reader::Reader;
use crate::mqtt::{ConnectError, Malformed, PublishProperties, QoS, ReasonCode, Version, check_topic};

/// A CONNECT packet. What only MQTT 5 can say has, for MQTT 3.1.1, the value that means the same.
#[derive(Clone, Debug)]
pub struct Connect<'a> {
    /// Which text the connection follows.
    pub version: Version,
    /// Whether a session that there is shall be forgotten. MQTT 3.1.1 calls it clean session.
    pub clean_start: bool,
    /// The client promises to send something in so many seconds; zero: it promises nothing.
    pub keep_alive_s: u16,
    /// May be empty: then the server assigns one.
    /// `[MQTT-3.1.3-6]`: an empty client id is allowed: the server assigns one.
    pub client_id: &'a str,
    /// The message for when the client is lost.
    pub will: Option<Will<'a>>,
    /// The user name.
    pub user_name: Option<&'a str>,
    /// How it shows that.
    pub password: Option<&'a [u8]>,
    /// How long the session outlives the connection; `u32::MAX`: without limit, which is what MQTT 3.1.1 means without
    /// clean session.
    pub session_expiry_s: u32,
    /// How many QoS 1 and 2 messages the client takes before it acknowledges; never zero.
    pub receive_maximum: u16,
    /// The longest packet that the client takes, in bytes; never zero.
    pub packet_bytes_max: Option<u32>,
    /// How many topic aliases the client remembers.
    pub topic_alias_maximum: u16,
    /// Whether it wants response information in the CONNACK.
    pub request_response_information: bool,
    /// Whether it wants reason strings and user properties on others than PUBLISH, CONNACK and DISCONNECT.
    /// `[MQTT-3.1.2-29]`: with Request Problem Information 0, reason strings and user properties only on PUBLISH,
    /// CONNACK and DISCONNECT.
    pub request_problem_information: bool,
    /// Enhanced authentication: which.
    pub authentication_method: Option<&'a str>,
    /// Enhanced authentication: its first data.
    pub authentication_data: Option<&'a [u8]>,
    block: &'a [u8],
}

impl<'a> Connect<'a> {
    /// Names and values of the application.
    pub const fn user(&self) -> UserProperties<'a> {
        UserProperties::new(self.block)
    }
}

/// The message that the server sends for a client that was lost.
#[derive(Clone, Copy, Debug)]
pub struct Will<'a> {
    /// A valid topic name.
    pub topic: &'a str,
    /// Any bytes.
    pub payload: &'a [u8],
    /// How surely it shall arrive.
    pub qos: QoS,
    /// Whether it is to be kept.
    pub retain: bool,
    /// How long the server waits whether the client comes back.
    pub delay_s: u32,
    /// As those of a PUBLISH.
    pub properties: PublishProperties<'a>,
}

/// The flags of byte 8.
mod flag {
    pub(super) const RESERVED: u8 = 0x01;
    pub(super) const CLEAN_START: u8 = 0x02;
    pub(super) const WILL: u8 = 0x04;
    pub(super) const WILL_QOS: u8 = 0x18;
    pub(super) const WILL_RETAIN: u8 = 0x20;
    pub(super) const PASSWORD: u8 = 0x40;
    pub(super) const USER_NAME: u8 = 0x80;
}

const ALLOWED: IdSet = IdSet::of(&[
    id::SESSION_EXPIRY,
    id::RECEIVE_MAXIMUM,
    id::MAXIMUM_PACKET_SIZE,
    id::TOPIC_ALIAS_MAXIMUM,
    id::REQUEST_RESPONSE_INFORMATION,
    id::REQUEST_PROBLEM_INFORMATION,
    id::USER_PROPERTY,
    id::AUTHENTICATION_METHOD,
    id::AUTHENTICATION_DATA,
]);

/// Decodes the first packet of a connection.
pub fn decode_connect(packet: &[u8]) -> Result<Connect<'_>, ConnectError> {
    let unread = |malformed| ConnectError::Malformed { version: None, malformed };
    let (first, body) = open(packet, None).map_err(unread)?;
    if first >> 4 != kind::CONNECT {
        return Err(unread(Malformed::protocol("MQTT-3.1.0-1", "the first packet is not CONNECT")));
    }
    let mut reader = Reader::new(body);
    let name = reader.binary().map_err(unread)?;
    let level = reader.u8().map_err(unread)?;
    let version = match (name, level) {
        (b"MQTT", 4) => Version::V311,
        (b"MQTT", 5) => Version::V5,
        (b"MQTT", level) | (b"MQIsdp", level @ 0..=3) => return Err(ConnectError::UnsupportedVersion { level }),
        _ => return Err(unread(Malformed::packet("MQTT-3.1.2-1", "the protocol name is not MQTT"))),
    };
    let read = || {
        // Once more: only now it is known whether the length may be padded.
        open(packet, Some(version))?;
        read(reader, version)
    };
    read().map_err(|malformed| ConnectError::Malformed { version: Some(version), malformed })
}

/// What follows the version.
fn read(mut reader: Reader<'_>, version: Version) -> Result<Connect<'_>, Malformed> {
    let flags = reader.u8()?;
    let has = |flag: u8| flags & flag != 0;
    let will_qos = check_flags(flags, version)?;
    let mut connect = Connect {
        version,
        clean_start: has(flag::CLEAN_START),
        keep_alive_s: reader.u16()?,
        client_id: "",
        will: None,
        user_name: None,
        password: None,
        session_expiry_s: 0,
        receive_maximum: u16::MAX,
        packet_bytes_max: None,
        topic_alias_maximum: 0,
        request_response_information: false,
        request_problem_information: true,
        authentication_method: None,
        authentication_data: None,
        block: &[],
    };
    match version {
        Version::V5 => read_properties(&mut reader, &mut connect)?,
        Version::V311 if !connect.clean_start => connect.session_expiry_s = u32::MAX,
        Version::V311 => {}
    }
    // The fields in the order of their flags, the client id first and as UTF-8.
    // [MQTT-3.1.3-1]: the payload fields of CONNECT are in the order of the standard.
    // [MQTT-3.1.3-3]: the client id is present, as the first payload field.
    // [MQTT-3.1.3-4]: the client id is a UTF-8 string.
    connect.client_id = reader.text()?;
    if version == Version::V311 && connect.client_id.is_empty() && !connect.clean_start {
        return Err(Malformed::because(
            ReasonCode::CLIENT_IDENTIFIER_NOT_VALID,
            "MQTT-3.1.1 3.1.3-8",
            "an empty client identifier without clean session",
        ));
    }
    // [MQTT-3.1.2-9]: with the will flag, the payload has will properties, will topic and will payload.
    // A missing field shows as one that ends beyond the packet.
    if has(flag::WILL) {
        let (properties, delay_s) = match version {
            Version::V5 => PublishProperties::take_will(&mut reader)?,
            Version::V311 => Default::default(),
        };
        // [MQTT-3.1.3-11]: the will topic is a UTF-8 string.
        let topic = reader.text()?;
        check_topic(topic)?;
        let payload = reader.binary()?;
        connect.will =
            Some(Will { topic, payload, qos: will_qos, retain: has(flag::WILL_RETAIN), delay_s, properties });
    }
    // [MQTT-3.1.2-17]: with the user name flag there is a user name.
    // [MQTT-3.1.3-12]: the user name is a UTF-8 string.
    if has(flag::USER_NAME) {
        connect.user_name = Some(reader.text()?);
    }
    // [MQTT-3.1.2-19]: with the password flag there is a password.
    if has(flag::PASSWORD) {
        connect.password = Some(reader.binary()?);
    }
    // A field whose flag is clear must not be there.
    // [MQTT-3.1.2-16]: without the user name flag there is no user name.
    // [MQTT-3.1.2-18]: without the password flag there is no password.
    reader.end()?;
    Ok(connect)
}

/// Checks the connect flags; gives the will's QoS.
fn check_flags(flags: u8, version: Version) -> Result<QoS, Malformed> {
    if flags & flag::RESERVED != 0 {
        return Err(Malformed::packet("MQTT-3.1.2-3", "the reserved connect flag is set"));
    }
    if flags & flag::WILL == 0 {
        if flags & flag::WILL_QOS != 0 {
            return Err(Malformed::packet("MQTT-3.1.2-11", "a will QoS without a will"));
        }
        if flags & flag::WILL_RETAIN != 0 {
            return Err(Malformed::packet("MQTT-3.1.2-13", "will retain without a will"));
        }
    }
    // MQTT 5 lets a password stand alone.
    if version == Version::V311 && flags & (flag::USER_NAME | flag::PASSWORD) == flag::PASSWORD {
        return Err(Malformed::packet("MQTT-3.1.1 3.1.2-22", "a password without a user name"));
    }
    QoS::of((flags & flag::WILL_QOS) >> 3).ok_or(Malformed::packet("MQTT-3.1.2-12", "a will with QoS 3"))
}

fn read_properties<'a>(reader: &mut Reader<'a>, connect: &mut Connect<'a>) -> Result<(), Malformed> {
    let block = property::take(reader, ALLOWED, property::USER, |id, value| {
        match (id, value) {
            (id::SESSION_EXPIRY, Value::Four(seconds)) => connect.session_expiry_s = seconds,
            (id::RECEIVE_MAXIMUM, Value::Two(0)) => {
                return Err(Malformed::protocol("MQTT5 3.1.2.11.3", "receive maximum 0"));
            }
            (id::RECEIVE_MAXIMUM, Value::Two(count)) => connect.receive_maximum = count,
            (id::MAXIMUM_PACKET_SIZE, Value::Four(0)) => {
                return Err(Malformed::protocol("MQTT5 3.1.2.11.4", "maximum packet size 0"));
            }
            (id::MAXIMUM_PACKET_SIZE, Value::Four(bytes)) => connect.packet_bytes_max = Some(bytes),
            (id::TOPIC_ALIAS_MAXIMUM, Value::Two(count)) => connect.topic_alias_maximum = count,
            (id::REQUEST_RESPONSE_INFORMATION, Value::Byte(byte)) => {
                connect.request_response_information =
                    switch(byte, "MQTT5 3.1.2.11.6", "request response information other than 0 and 1")?;
            }
            (id::REQUEST_PROBLEM_INFORMATION, Value::Byte(byte)) => {
                connect.request_problem_information =
                    switch(byte, "MQTT5 3.1.2.11.7", "request problem information other than 0 and 1")?;
            }
            (id::AUTHENTICATION_METHOD, Value::Text(method)) => connect.authentication_method = Some(method),
            (id::AUTHENTICATION_DATA, Value::Binary(data)) => connect.authentication_data = Some(data),
            _ => {}
        }
        Ok(())
    })?;
    connect.block = block;
    if connect.authentication_data.is_some() && connect.authentication_method.is_none() {
        return Err(Malformed::protocol("MQTT5 3.1.2.11.10", "authentication data without a method"));
    }
    Ok(())
}

/// A byte that says yes or no, and nothing else.
pub(crate) fn switch(byte: u8, statement: &'static str, what: &'static str) -> Result<bool, Malformed> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed::protocol(statement, what)),
    }
}
