//! `[mqtt]`, `[listener.…]` and `[topics]`: every bound with its default and the range in which it makes sense.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use tidegate_broker::{BrokerLimits, DrainPlan, InboxPolicy as CleanInboxPolicy};
use tidegate_gateway::auth::Pattern;
use tidegate_gateway::mqtt::{AdmissionLimits, Origins};
use tidegate_ledger::announcer::AnnounceRules;
use tidegate_machines::topic::{InboxLimits, InboxPolicy};

use super::access::one_of;
use super::error::ConfigError;
use super::limits::in_range;
use super::raw::{RawConfig, RawMqtt, RawTopics};
use super::settled::Listen;
use super::source::Source;

/// MQTT as the server uses it.
#[derive(Clone, Debug, PartialEq)]
pub struct Mqtt {
    /// Over TCP.
    pub tcp: Door,
    /// Over TLS.
    pub tls: Door,
    /// Over WebSocket, on the HTTP door.
    pub websocket: Option<WebSocket>,
    /// Bounds of one worker's broker.
    pub limits: BrokerLimits,
    /// Bounds of sessions that outlive their connections.
    pub inbox: InboxLimits,
    /// Bounds at the door.
    pub admission: AdmissionLimits,
    /// How clients are sent away when the server stops.
    pub drain: DrainPlan,
    /// Milliseconds for that.
    pub drain_timeout_ms: u64,
    /// Topic shards of a new directory.
    pub topic_shards: u16,
    /// Accounts that are announced.
    pub announce: AnnounceRules,
}

/// Who may come in through one listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Door {
    /// Whether without credentials.
    pub anonymous: bool,
    /// Clients at once.
    pub connections_max: usize,
    /// Clients per second; 0 for no bound.
    pub connections_per_s: u32,
    /// Bytes of a packet; 0 for the broker's bound.
    pub packet_bytes_max: u32,
}

/// MQTT over WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocket {
    /// Path on the HTTP door.
    pub path: Box<str>,
    /// Which pages.
    pub origins: Origins,
    /// Who.
    pub door: Door,
}

/// Reads numbers of one section.
struct Numbers<'a> {
    source: &'a Source,
    section: &'static str,
}

impl Numbers<'_> {
    fn read<T: TryFrom<u64>>(
        &self,
        key: &str,
        written: Option<u64>,
        default: u64,
        range: RangeInclusive<u64>,
    ) -> Result<T, ConfigError> {
        let number = in_range(self.source, &format!("{}.{key}", self.section), written, default, range)?;
        Ok(T::try_from(number).unwrap_or_else(|_| unreachable!("{}.{key}: its range fits its type", self.section)))
    }
}

impl Mqtt {
    /// Fills in defaults and checks ranges. `listen` says which doors are on loopback.
    pub fn settle(raw: &RawConfig, source: &Source, listen: &Listen, workers: usize) -> Result<Mqtt, ConfigError> {
        let numbers = Numbers { source, section: "mqtt" };
        let limits = limits(&raw.mqtt, &numbers)?;
        let listeners = Listeners { source, connections_max: limits.connections_max };
        let (mqtt, mqtts, websocket) = (&raw.listener.mqtt, &raw.listener.mqtts, &raw.listener.websocket);
        let web_door = listeners.door(
            "websocket",
            ("http", listen.http),
            websocket.anonymous,
            [websocket.connections_max, websocket.connects_per_s, None],
        )?;
        let tcp = listeners.door(
            "mqtt",
            ("mqtt", listen.mqtt),
            mqtt.anonymous,
            [mqtt.connections_max, mqtt.connects_per_s, mqtt.packet_bytes_max],
        )?;
        let tls = listeners.door(
            "mqtts",
            ("mqtts", listen.mqtts),
            mqtts.anonymous,
            [mqtts.connections_max, mqtts.connects_per_s, mqtts.packet_bytes_max],
        )?;
        let path = websocket_path(raw.listen.websocket.as_deref(), source)?;
        let origins = origins(websocket.origins.as_deref().unwrap_or_default(), source)?;
        Ok(Mqtt {
            tcp,
            tls,
            websocket: path.filter(|_| listen.http.is_some()).map(|path| WebSocket { path, origins, door: web_door }),
            inbox: inbox(&raw.mqtt, &numbers)?,
            admission: AdmissionLimits {
                connections_max: limits.connections_max,
                connections_per_address_max: numbers.read(
                    "connections_per_address_max",
                    raw.mqtt.connections_per_address_max,
                    0,
                    0..=u64::from(u32::MAX),
                )?,
                turn_ms_max: numbers.read("overload_turn_ms", raw.mqtt.overload_turn_ms, 500, 0..=60_000)?,
            },
            drain: DrainPlan {
                per_second: numbers.read("drain_per_s", raw.mqtt.drain_per_s, 2_000, 1..=u64::from(u32::MAX))?,
                server_reference: raw.mqtt.server_reference.as_deref().filter(|text| !text.is_empty()).map(Box::from),
            },
            drain_timeout_ms: numbers.read("drain_timeout_ms", raw.mqtt.drain_timeout_ms, 5_000, 0..=24 * 3_600_000)?,
            topic_shards: topic_shards(&raw.topics, source, workers)?,
            announce: announce(&raw.topics, source)?,
            limits,
        })
    }
}

fn limits(raw: &RawMqtt, numbers: &Numbers<'_>) -> Result<BrokerLimits, ConfigError> {
    let default = BrokerLimits::default();
    let policies = policies::<CleanInboxPolicy>();
    let policy = one_of(numbers.source, "mqtt.clean_inbox_policy", raw.clean_inbox_policy.as_deref(), &policies)?;
    Ok(BrokerLimits {
        connections_max: numbers.read(
            "connections_max",
            raw.connections_max,
            default.connections_max as u64,
            1..=1 << 24,
        )?,
        handshake_ms: numbers.read(
            "handshake_timeout_ms",
            raw.handshake_timeout_ms,
            default.handshake_ms,
            10..=3_600_000,
        )?,
        // A packet of MQTT holds no more than 256 MiB.
        packet_bytes_max: numbers.read(
            "packet_bytes_max",
            raw.packet_bytes_max,
            default.packet_bytes_max.into(),
            128..=256 << 20,
        )?,
        receive_maximum: numbers.read(
            "receive_maximum",
            raw.receive_maximum,
            default.receive_maximum.into(),
            1..=65_535,
        )?,
        window_max: numbers.read("inflight_max", raw.inflight_max, default.window_max.into(), 1..=65_535)?,
        topic_alias_maximum: numbers.read(
            "topic_alias_max",
            raw.topic_alias_max,
            default.topic_alias_maximum.into(),
            0..=65_535,
        )?,
        topic_aliases_out_max: numbers.read(
            "topic_alias_out_max",
            raw.topic_alias_out_max,
            default.topic_aliases_out_max.into(),
            0..=65_535,
        )?,
        keep_alive_max_s: numbers.read(
            "keep_alive_max_s",
            raw.keep_alive_max_s,
            default.keep_alive_max_s.into(),
            0..=65_535,
        )?,
        session_expiry_max_s: numbers.read(
            "session_expiry_max_s",
            raw.session_expiry_max_s,
            default.session_expiry_max_s.into(),
            0..=u64::from(u32::MAX - 1),
        )?,
        outbox_bytes_max: numbers.read(
            "outbox_bytes_max",
            raw.outbox_bytes_max,
            default.outbox_bytes_max as u64,
            1 << 10..=1 << 30,
        )?,
        pressure_bytes_max: numbers.read(
            "pressure_bytes_max",
            raw.pressure_bytes_max,
            default.pressure_bytes_max,
            1 << 20..=1 << 40,
        )?,
        clean_inbox_messages_max: numbers.read(
            "clean_inbox_messages_max",
            raw.clean_inbox_messages_max,
            default.clean_inbox_messages_max.into(),
            1..=u64::from(u32::MAX),
        )?,
        clean_inbox_bytes_max: numbers.read(
            "clean_inbox_bytes_max",
            raw.clean_inbox_bytes_max,
            default.clean_inbox_bytes_max as u64,
            1 << 10..=1 << 40,
        )?,
        clean_inbox_policy: policy.unwrap_or(default.clean_inbox_policy),
        subscriptions_max: numbers.read(
            "subscriptions_max",
            raw.subscriptions_max,
            default.subscriptions_max as u64,
            1..=10_000_000,
        )?,
        publishes_per_s: numbers.read(
            "publishes_per_s",
            raw.publishes_per_s,
            default.publishes_per_s.into(),
            0..=u64::from(u32::MAX),
        )?,
        publish_bytes_per_s: numbers.read(
            "publish_bytes_per_s",
            raw.publish_bytes_per_s,
            default.publish_bytes_per_s,
            0..=1 << 40,
        )?,
        sys_interval_ms: 1_000
            * numbers.read::<u64>("sys_interval_s", raw.sys_interval_s, default.sys_interval_ms / 1_000, 0..=86_400)?,
    })
}

fn inbox(raw: &RawMqtt, numbers: &Numbers<'_>) -> Result<InboxLimits, ConfigError> {
    let default = InboxLimits::default();
    let policies = policies::<InboxPolicy>();
    Ok(InboxLimits {
        messages_max: numbers.read(
            "inbox_messages_max",
            raw.inbox_messages_max,
            default.messages_max.into(),
            1..=u64::from(u32::MAX),
        )?,
        bytes_max: numbers.read("inbox_bytes_max", raw.inbox_bytes_max, default.bytes_max, 1 << 10..=1 << 40)?,
        age_max_ms: 1_000
            * numbers.read::<u64>(
                "inbox_age_max_s",
                raw.inbox_age_max_s,
                default.age_max_ms / 1_000,
                0..=3_155_760_000,
            )?,
        policy: one_of(numbers.source, "mqtt.inbox_policy", raw.inbox_policy.as_deref(), &policies)?
            .unwrap_or(default.policy),
    })
}

/// The policies of full inboxes, in memory and in the journal.
trait Policy: Copy {
    const DROP_OLDEST: Self;
    const DROP_NEWEST: Self;
    const REFUSE: Self;
}

impl Policy for CleanInboxPolicy {
    const DROP_OLDEST: Self = Self::DropOldest;
    const DROP_NEWEST: Self = Self::DropNewest;
    const REFUSE: Self = Self::Refuse;
}

impl Policy for InboxPolicy {
    const DROP_OLDEST: Self = Self::DropOldest;
    const DROP_NEWEST: Self = Self::DropNewest;
    const REFUSE: Self = Self::Refuse;
}

fn policies<P: Policy>() -> [(&'static str, P); 3] {
    [("drop_oldest", P::DROP_OLDEST), ("drop_newest", P::DROP_NEWEST), ("refuse", P::REFUSE)]
}

/// Reads the sections of listeners.
struct Listeners<'a> {
    source: &'a Source,
    connections_max: usize,
}

impl Listeners<'_> {
    /// One listener, whose address stands at `listen.{listen.0}`. `written` are its bounds: clients, clients per second, bytes.
    fn door(
        &self,
        name: &str,
        listen: (&str, Option<SocketAddr>),
        anonymous: Option<bool>,
        written: [Option<u64>; 3],
    ) -> Result<Door, ConfigError> {
        let number =
            |key: &str, written, most| in_range(self.source, &format!("listener.{name}.{key}"), written, 0, 0..=most);
        let [connections_max, connects_per_s, packet_bytes_max] = written;
        let connections_max = number("connections_max", connections_max, 1 << 24)? as usize;
        let anonymous = anonymous.unwrap_or(false);
        match listen {
            (key, Some(address)) if anonymous && !address.ip().is_loopback() => {
                let path = format!("listener.{name}.anonymous");
                let message = format!(
                    "{path} = true: clients without credentials may only come from this machine, but listen.{key} is {address}; \
                     bind it to 127.0.0.1, or set anonymous to false"
                );
                return Err(self.source.error_at(&path, message));
            }
            _ => {}
        }
        Ok(Door {
            anonymous,
            connections_max: if connections_max == 0 { self.connections_max } else { connections_max },
            connections_per_s: number("connects_per_s", connects_per_s, u64::from(u32::MAX))? as u32,
            packet_bytes_max: number("packet_bytes_max", packet_bytes_max, 256 << 20)? as u32,
        })
    }
}

fn websocket_path(written: Option<&str>, source: &Source) -> Result<Option<Box<str>>, ConfigError> {
    match written.unwrap_or("/mqtt") {
        "off" => Ok(None),
        path if path.starts_with('/') && path.len() > 1 && path.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(Some(path.into()))
        }
        path => {
            let message = format!("listen.websocket = {path:?}: expected a path such as \"/mqtt\", or \"off\"");
            Err(source.error_at("listen.websocket", message))
        }
    }
}

fn origins(written: &[String], source: &Source) -> Result<Origins, ConfigError> {
    let is_origin = |origin: &str| {
        let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
        host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@', '*']))
    };
    match written {
        [] => Ok(Origins::SameHost),
        [all] if all == "*" => Ok(Origins::Any),
        listed => match listed.iter().find(|origin| !is_origin(origin)) {
            Some(wrong) => {
                let path = "listener.websocket.origins";
                let message = format!(
                    "{path}: {wrong:?}: expected origins such as \"https://example.org\" or \"http://localhost:3000\", or \"*\" alone"
                );
                Err(source.error_at(path, message))
            }
            None => Ok(Origins::Listed(listed.iter().map(|origin| origin.as_str().into()).collect())),
        },
    }
}

fn topic_shards(raw: &RawTopics, source: &Source, workers: usize) -> Result<u16, ConfigError> {
    let shards = in_range(source, "topics.shards", raw.shards, 0, 0..=1_024)?;
    Ok(if shards == 0 { workers as u16 } else { shards as u16 })
}

fn announce(raw: &RawTopics, source: &Source) -> Result<AnnounceRules, ConfigError> {
    let per_s = in_range(source, "topics.announcements_per_s", raw.announcements_per_s, 10, 1..=1_000)?;
    let account = |text: &String| match Pattern::parse(text) {
        Some(_) => Ok(text.as_str().into()),
        None => {
            let message = format!(
                "topics.announce: {text:?}: expected \"*\", a beginning such as \"wallet:*\", or one account id"
            );
            Err(source.error_at("topics.announce", message))
        }
    };
    let accounts = raw.announce.iter().flatten().map(account).collect::<Result<_, _>>()?;
    Ok(AnnounceRules { accounts, interval_ms: 1_000 / per_s })
}
