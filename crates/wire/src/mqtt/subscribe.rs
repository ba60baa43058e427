//! SUBSCRIBE, UNSUBSCRIBE and their acknowledgements. A packet's list is checked once, completely, and then iterated
//! from its bytes: a list of ten thousand filters allocates nothing.

use crate::mqtt::ack::reason_properties;
use crate::mqtt::property::{self, IdSet, UserProperties, Value, id};
use crate::mqtt::reader::Reader;
use crate::mqtt::{Malformed, QoS, ReasonCode, Version, check_filter};

/// A SUBSCRIBE packet; has at least one subscription.
#[derive(Clone, Debug)]
pub struct Subscribe<'a> {
    /// Never zero.
    pub packet_id: u16,
    /// To be sent with each message that comes for one of these subscriptions; never zero.
    pub subscription_id: Option<u32>,
    block: &'a [u8],
    list: &'a [u8],
}

/// One subscription of a SUBSCRIBE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription<'a> {
    /// A valid filter, with its `$share/group/`.
    pub filter: &'a str,
    /// The highest QoS that the client wants.
    pub qos: QoS,
    /// Not what this client published itself.
    /// `[MQTT-3.8.3-3]`: No Local: a message is not sent to the client id that published it.
    pub no_local: bool,
    /// Whether messages keep the retain flag that they were published with.
    pub retain_as_published: bool,
    /// Retained messages on subscribing: 0 always, 1 if the subscription is new, 2 never.
    pub retain_handling: u8,
}

const ALLOWED: IdSet = IdSet::of(&[id::SUBSCRIPTION_ID, id::USER_PROPERTY]);

impl<'a> Subscribe<'a> {
    /// The subscriptions, in order.
    pub fn subscriptions(&self) -> Subscriptions<'a> {
        self.subscriptions_from(0)
    }

    /// The same from a place on that [`Subscriptions::at`] gave.
    pub fn subscriptions_from(&self, at: usize) -> Subscriptions<'a> {
        Subscriptions(ListReader::new(self.list, at))
    }

    /// Names and values of the application.
    pub const fn user(&self) -> UserProperties<'a> {
        UserProperties::new(self.block)
    }

    pub(crate) fn decode(body: &'a [u8], version: Version) -> Result<Subscribe<'a>, Malformed> {
        let subscribe = Subscribe::decode_again(body, version)?;
        let mut reader = Reader::new(subscribe.list);
        while !reader.is_empty() {
            // [MQTT-3.8.3-1]: topic filters are UTF-8 strings.
            let filter = reader.text()?;
            let options = reader.u8()?;
            check_options(options, version)?;
            // MQTT 3.1.1 knows no shared subscriptions, but we give them to its clients too.
            let parts = check_filter(filter)?;
            if parts.share_group.is_some() && options & option::NO_LOCAL != 0 {
                return Err(Malformed::protocol("MQTT-3.8.3-4", "no local on a shared subscription"));
            }
        }
        Ok(subscribe)
    }

    /// Of a packet that was decoded before: its list is not checked again.
    pub(crate) fn decode_again(body: &'a [u8], version: Version) -> Result<Subscribe<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let packet_id = reader.packet_id()?;
        let mut subscription_id = None;
        let mut block: &[u8] = &[];
        if version == Version::V5 {
            block = property::take(&mut reader, ALLOWED, property::USER, |_, value| {
                if let Value::Varint(value) = value {
                    if value == 0 {
                        return Err(Malformed::protocol("MQTT5 3.8.2.1.2", "subscription identifier 0"));
                    }
                    subscription_id = Some(value);
                }
                Ok(())
            })?;
        }
        let list = reader.rest();
        if list.is_empty() {
            return Err(Malformed::protocol("MQTT-3.8.3-2", "SUBSCRIBE without a topic filter"));
        }
        Ok(Subscribe { packet_id, subscription_id, block, list })
    }
}

/// The subscription options byte.
pub(crate) mod option {
    pub(crate) const QOS: u8 = 0x03;
    pub(crate) const NO_LOCAL: u8 = 0x04;
    pub(crate) const RETAIN_AS_PUBLISHED: u8 = 0x08;
    pub(crate) const RETAIN_HANDLING: u8 = 0x30;
    pub(crate) const RESERVED: u8 = 0xc0;
}

fn check_options(options: u8, version: Version) -> Result<(), Malformed> {
    if version == Version::V311 && options > 2 {
        return Err(Malformed::packet("MQTT-3.1.1 3.8.3-4", "a requested QoS other than 0, 1 and 2"));
    }
    if options & option::RESERVED != 0 {
        return Err(Malformed::packet("MQTT-3.8.3-5", "reserved subscription options are set"));
    }
    if options & option::QOS == 3 {
        return Err(Malformed::protocol("MQTT5 3.8.3.1", "a subscription with QoS 3"));
    }
    if options & option::RETAIN_HANDLING == option::RETAIN_HANDLING {
        return Err(Malformed::protocol("MQTT5 3.8.3.1", "retain handling 3"));
    }
    Ok(())
}

/// Reads a list of filters, from any place of it on.
#[derive(Clone, Debug)]
struct ListReader<'a> {
    list_bytes: usize,
    rest: Reader<'a>,
}

impl<'a> ListReader<'a> {
    fn new(list: &'a [u8], at: usize) -> ListReader<'a> {
        ListReader { list_bytes: list.len(), rest: Reader::new(&list[at.min(list.len())..]) }
    }

    fn at(&self) -> usize {
        self.list_bytes - self.rest.len()
    }
}

/// Iterates over the subscriptions of a SUBSCRIBE.
#[derive(Clone, Debug)]
pub struct Subscriptions<'a>(ListReader<'a>);

impl Subscriptions<'_> {
    /// The place behind the last subscription that was given, to go on from.
    pub fn at(&self) -> usize {
        self.0.at()
    }
}

impl<'a> Iterator for Subscriptions<'a> {
    type Item = Subscription<'a>;

    fn next(&mut self) -> Option<Subscription<'a>> {
        let filter = self.0.rest.text().ok()?;
        let options = self.0.rest.u8().ok()?;
        Some(Subscription {
            filter,
            qos: QoS::of(options & option::QOS)?,
            no_local: options & option::NO_LOCAL != 0,
            retain_as_published: options & option::RETAIN_AS_PUBLISHED != 0,
            retain_handling: (options & option::RETAIN_HANDLING) >> 4,
        })
    }
}

/// An UNSUBSCRIBE packet; has at least one filter.
#[derive(Clone, Debug)]
pub struct Unsubscribe<'a> {
    /// Never zero.
    pub packet_id: u16,
    block: &'a [u8],
    list: &'a [u8],
}

impl<'a> Unsubscribe<'a> {
    /// The filters, in order, with their `$share/group/`.
    pub fn filters(&self) -> Filters<'a> {
        self.filters_from(0)
    }

    /// The same from a place on that [`Filters::at`] gave.
    pub fn filters_from(&self, at: usize) -> Filters<'a> {
        Filters(ListReader::new(self.list, at))
    }

    /// Names and values of the application.
    pub const fn user(&self) -> UserProperties<'a> {
        UserProperties::new(self.block)
    }

    pub(crate) fn decode(body: &'a [u8], version: Version) -> Result<Unsubscribe<'a>, Malformed> {
        let unsubscribe = Unsubscribe::decode_again(body, version)?;
        let mut reader = Reader::new(unsubscribe.list);
        while !reader.is_empty() {
            // [MQTT-3.10.3-1]: topic filters are UTF-8 strings.
            check_filter(reader.text()?)?;
        }
        Ok(unsubscribe)
    }

    /// Of a packet that was decoded before: its list is not checked again.
    pub(crate) fn decode_again(body: &'a [u8], version: Version) -> Result<Unsubscribe<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let packet_id = reader.packet_id()?;
        let block = match version {
            Version::V5 => property::take(&mut reader, property::USER, property::USER, |_, _| Ok(()))?,
            Version::V311 => &[],
        };
        let list = reader.rest();
        if list.is_empty() {
            return Err(Malformed::protocol("MQTT-3.10.3-2", "UNSUBSCRIBE without a topic filter"));
        }
        Ok(Unsubscribe { packet_id, block, list })
    }
}

/// Iterates over the filters of an UNSUBSCRIBE.
#[derive(Clone, Debug)]
pub struct Filters<'a>(ListReader<'a>);

impl Filters<'_> {
    /// The place behind the last filter that was given, to go on from.
    pub fn at(&self) -> usize {
        self.0.at()
    }
}

impl<'a> Iterator for Filters<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.0.rest.text().ok()
    }
}

/// A SUBACK packet.
#[derive(Clone, Debug)]
pub struct SubAck<'a> {
    /// Of the SUBSCRIBE.
    pub packet_id: u16,
    /// For people.
    pub reason_string: Option<&'a str>,
    codes: &'a [u8],
}

impl<'a> SubAck<'a> {
    /// The result of each subscription, in order. Every failure of MQTT 3.1.1 is [`ReasonCode::UNSPECIFIED_ERROR`].
    pub fn reasons(&self) -> impl ExactSizeIterator<Item = ReasonCode> + use<'a> {
        self.codes.iter().map(|&code| ReasonCode(code))
    }

    pub(crate) fn decode(body: &'a [u8], version: Version) -> Result<SubAck<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let packet_id = reader.packet_id()?;
        let mut reason_string = None;
        if version == Version::V5 {
            reason_string = reason_properties(&mut reader)?.0;
        }
        let codes = reader.rest();
        if codes.is_empty() {
            return Err(Malformed::protocol("MQTT-3.8.4-6", "SUBACK without a reason code"));
        }
        let known = |code: &u8| match version {
            Version::V5 => matches!(code, 0..=2 | 0x80 | 0x83 | 0x87 | 0x8f | 0x91 | 0x97 | 0x9e | 0xa1 | 0xa2),
            Version::V311 => matches!(code, 0..=2 | 0x80),
        };
        if !codes.iter().all(known) {
            return Err(Malformed::protocol("MQTT-3.9.3-2", "a reason code that SUBACK does not have"));
        }
        Ok(SubAck { packet_id, reason_string, codes })
    }
}

/// An UNSUBACK packet.
#[derive(Clone, Debug)]
pub struct UnsubAck<'a> {
    /// Of the UNSUBSCRIBE.
    pub packet_id: u16,
    /// For people.
    pub reason_string: Option<&'a str>,
    codes: &'a [u8],
}

impl<'a> UnsubAck<'a> {
    /// The result of each filter, in order; empty in MQTT 3.1.1, which does not send it.
    pub fn reasons(&self) -> impl ExactSizeIterator<Item = ReasonCode> + use<'a> {
        self.codes.iter().map(|&code| ReasonCode(code))
    }

    pub(crate) fn decode(body: &'a [u8], version: Version) -> Result<UnsubAck<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let packet_id = reader.packet_id()?;
        if version == Version::V311 {
            reader.end()?;
            return Ok(UnsubAck { packet_id, reason_string: None, codes: &[] });
        }
        let (reason_string, _) = reason_properties(&mut reader)?;
        let codes = reader.rest();
        if codes.is_empty() {
            return Err(Malformed::protocol("MQTT-3.11.3-1", "UNSUBACK without a reason code"));
        }
        if !codes.iter().all(|code| matches!(code, 0x00 | 0x11 | 0x80 | 0x83 | 0x87 | 0x8f | 0x91)) {
            return Err(Malformed::protocol("MQTT-3.11.3-2", "a reason code that UNSUBACK does not have"));
        }
        Ok(UnsubAck { packet_id, reason_string, codes })
    }
}
