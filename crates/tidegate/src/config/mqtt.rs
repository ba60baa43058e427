//! `[mqtt]`: every bound of the broker and of its door.

use tidegate_broker::{
    BrokerLimits, DrainPlan, HoldingLimits, InboxPolicy as CleanInboxPolicy, ShareStrategy, SlowReader,
};
use tidegate_config::{
    Bytes, ConfigError, Count, Document, Milliseconds, NoDefault, Optional, PerSecond, Seconds, Text, config, words,
};
use tidegate_doors::mqtt::AdmissionLimits;
use tidegate_ledger::announcer::AnnounceRules;
use tidegate_machines::topic::{InboxLimits, InboxPolicy};

use super::kept;
use super::listen::Listen;
use super::listeners::{self, Door, WebSocket};
use super::topics;

words! {
    /// What a full inbox in the journal does.
    pub struct InboxPolicyWord(InboxPolicy) {
        "drop_oldest" => InboxPolicy::DropOldest,
        "drop_newest" => InboxPolicy::DropNewest,
        "refuse" => InboxPolicy::Refuse,
    }
}

words! {
    /// What a full inbox in memory does.
    pub struct CleanInboxPolicyWord(CleanInboxPolicy) {
        "drop_oldest" => CleanInboxPolicy::DropOldest,
        "drop_newest" => CleanInboxPolicy::DropNewest,
        "refuse" => CleanInboxPolicy::Refuse,
    }
}

words! {
    /// What happens to a client that loses a message by its slowness.
    pub struct SlowReaderWord(SlowReader) {
        "drop" => SlowReader::Drop,
        "disconnect" => SlowReader::Disconnect,
    }
}

words! {
    /// How share groups divide their messages.
    pub struct ShareStrategyWord(ShareStrategy) {
        "round_robin" => ShareStrategy::RoundRobin,
        "sticky" => ShareStrategy::Sticky,
        "hash_topic" => ShareStrategy::HashTopic,
        "hash_client" => ShareStrategy::HashClient,
    }
}

/// So many of the largest packets may wait for all: then one finds room beside any others, whoever it is for.
const WAITING_PACKETS_MIN: u64 = 4;

config! {
    /// `[mqtt]`
    pub struct MqttKeys in "mqtt" {
        connections_max: Count<usize> = 1 << 21, 1..=(1 << 24), restart,
            "clients at once, over all listeners and workers; more are told 0x97. At the bound, a connection without \
             an accepted CONNECT gives way to a new one";
        connections_per_address_max: Count<u32> = 0, 0..=4_294_967_295, restart,
            "clients at once of one address (IPv6: of one /64); more are told 0x97. 0 for no bound";
        overload_turn_ms: Milliseconds<u32> = 500, 0..=60_000, restart,
            "a worker whose turns take longer tells new clients 0x89 until it has caught up; 0 for no bound";
        handshake_timeout_ms: Milliseconds = 10_000, 10..=3_600_000, restart,
            "milliseconds from accept to CONNECT, TLS included";
        // A packet of MQTT holds no more than 256 MiB.
        packet_bytes_max: Bytes<u32> = 512 << 10, 128..=(256 << 20), restart,
            "bytes of a packet from a client; larger ones may be too large to be kept for who is away (0x97)";
        receive_maximum: Count<u16> = 1_024, 1..=65_535, restart,
            "publications of QoS 1 and 2 that a client may have unanswered";
        inflight_max: Count<u16> = 1_024, 1..=65_535, restart,
            "publications of QoS 1 and 2 under way to one client, whatever it allows";
        topic_alias_max: Count<u16> = 32, 0..=65_535, restart, "topic aliases that a client may set";
        topic_alias_out_max: Count<u16> = 16, 0..=65_535, restart,
            "topic aliases that the server sets for a client that allows them";
        keep_alive_max_s: Seconds<u16> = 0, 0..=65_535, restart,
            "seconds of the longest keep-alive; 0 for no bound. MQTT 5 clients are told; 3.1.1 ones cannot be, and are \
             disconnected after one and a half of it without a packet, whatever they asked for";
        session_expiry_max_s: Seconds<u32> = 604_800, 0..=4_294_967_294, restart,
            "seconds that a session lives without a connection, at most";
        subscriptions_max: Count<usize> = 10_000, 1..=10_000_000, restart, "subscriptions of one session";
        outbox_bytes_max: Bytes<usize> = 1 << 20, 1024..=(1 << 30), restart,
            "bytes that wait for one client's socket; beyond, QoS 0 is dropped and QoS 1 and 2 wait in the inbox";
        pressure_bytes_max: Bytes = 64 << 20, (1 << 20)..=(1 << 40), restart,
            "bytes on their way to clients that take them, per worker; above, publishers are not read. At most half of \
             mqtt.waiting_bytes_max";
        waiting_bytes_max: Bytes = 1 << 30, 65_536..=(1 << 40), restart,
            "bytes that wait in memory for all connected clients together, per worker: for their sockets, and in the \
             inboxes of sessions that end with their connection. The more wait, the less may for each; a quarter is \
             left to clients that take what they are sent, half to those with a user. At least four times \
             mqtt.packet_bytes_max. Without this key: a part of \
             limits.memory_bytes_max";
        inbox_messages_max: Count<u32> = 10_000, 1..=4_294_967_295, restart,
            "messages that wait for a session that outlives its connection (in the journal)";
        inbox_bytes_max: Bytes = 16 << 20, 1024..=(1 << 40), restart,
            "bytes that wait for a session that outlives its connection (in the journal)";
        inbox_age_max_s: Seconds = 0, 0..=3_155_760_000, restart,
            "seconds that a message waits for a session; 0 for no bound";
        inbox_policy: InboxPolicyWord = "drop_oldest", .., restart,
            "what makes room in such an inbox; with \"refuse\" the publisher is told 0x97 when one inbox or more took \
             nothing: subscribers with room have got the message, and get it again if it is sent again";
        inbox_refuse_away_s: Seconds = 60, 0..=3_155_760_000, restart,
            "with inbox_policy = \"refuse\": seconds after a client has gone for which its full inbox refuses \
             messages; after that they are lost to it, and taken for others";
        inbox_refuse_stalled_s: Seconds = 60, 0..=3_155_760_000, restart,
            "with inbox_policy = \"refuse\": seconds for which a connected client that takes nothing of what it is \
             sent has its full inbox refuse messages; after that they are lost to it, and taken for others";
        clean_inbox_messages_max: Count<u32> = 1_000, 1..=4_294_967_295, restart,
            "messages that wait for a session that ends with its connection (in memory); as many that came by share \
             groups are kept until they are acknowledged, so that another member can get them";
        clean_inbox_bytes_max: Bytes<usize> = 1 << 20, 1024..=(1 << 40), restart,
            "bytes that wait for a session that ends with its connection (in memory); the same again of share groups, \
             as above";
        clean_inbox_policy: CleanInboxPolicyWord = "drop_newest", .., restart,
            "what makes room in such an inbox; \"refuse\" disconnects the client with 0x97";
        slow_reader: SlowReaderWord = "drop", .., restart,
            "when a connected client takes its messages so slowly that one is lost to it: \"drop\" counts the message, \
             \"disconnect\" tells the client by 0x97";
        share_strategy: ShareStrategyWord = "round_robin", .., restart,
            "which member of a share group gets a message: \"round_robin\" one after the other, those first that have \
             room at once; \"sticky\" always the same; \"hash_topic\" one for each topic; \"hash_client\" one for \
             each publisher's client id. What goes by a key stays with its member while that is connected";
        share_stalled_s: Seconds = 30, 0..=86_400, restart,
            "seconds after which a connected member of a share group that takes nothing of what it was sent counts as \
             away, and what waits with QoS 1 for one that is away is given to another; 0 for no bound";
        publishes_per_s: PerSecond<u32> = 0, 0..=4_294_967_295, restart,
            "publications per second of one client; one that is faster is read more slowly. 0 for no bound";
        publish_bytes_per_s: PerSecond = 0, 0..=(1 << 40), restart,
            "bytes of publications per second of one client; one that is faster is read more slowly. 0 for no bound";
        sys_interval_s: Seconds = 10, 0..=86_400, restart, "seconds between figures on $SYS; 0 for none";
        server_reference: Optional<Text> = NoDefault, .., restart,
            "where clients that are sent away should go, such as \"mqtt2.example.org:1883\"; without it none is named";
        drain_per_s: PerSecond<u32> = 2_000, 1..=4_294_967_295, restart,
            "clients sent away per second when the server stops; `tidegate drain --rate N` does it without stopping";
        drain_timeout_ms: Milliseconds = 5_000, 0..=86_400_000, restart,
            "milliseconds that a stopping server spends on that; who is left then is disconnected at once";
    }
}

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
    /// Bounds of what clients leave behind.
    pub holdings: HoldingLimits,
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

impl Mqtt {
    /// Everything about MQTT for `workers` workers. `listen` says which doors are on loopback.
    pub fn settle(document: &Document, listen: &Listen, workers: usize) -> Result<Mqtt, ConfigError> {
        let keys: MqttKeys = document.section()?;
        let listeners = listeners::settle(document, listen, keys.connections_max)?;
        let (topic_shards, announce) = topics::settle(document, workers)?;
        Ok(Mqtt {
            tcp: listeners.tcp,
            tls: listeners.tls,
            websocket: listeners.websocket,
            limits: limits(&keys),
            inbox: InboxLimits {
                messages_max: keys.inbox_messages_max,
                bytes_max: keys.inbox_bytes_max,
                age_max_ms: 1_000 * keys.inbox_age_max_s,
                policy: keys.inbox_policy,
                refuse_away_ms: 1_000 * keys.inbox_refuse_away_s,
            },
            holdings: kept::settle(document)?,
            admission: AdmissionLimits {
                connections_max: keys.connections_max,
                connections_per_address_max: keys.connections_per_address_max,
                turn_ms_max: keys.overload_turn_ms,
            },
            drain: DrainPlan {
                per_second: keys.drain_per_s,
                server_reference: keys.server_reference.filter(|text| !text.is_empty()),
            },
            drain_timeout_ms: keys.drain_timeout_ms,
            topic_shards,
            announce,
        })
    }
}

fn limits(keys: &MqttKeys) -> BrokerLimits {
    // The largest packet finds a share of it, whoever it is for.
    let waiting_bytes_max = keys.waiting_bytes_max.max(WAITING_PACKETS_MIN * u64::from(keys.packet_bytes_max));
    BrokerLimits {
        connections_max: keys.connections_max,
        handshake_ms: keys.handshake_timeout_ms,
        packet_bytes_max: keys.packet_bytes_max,
        receive_maximum: keys.receive_maximum,
        window_max: keys.inflight_max,
        topic_alias_maximum: keys.topic_alias_max,
        topic_aliases_out_max: keys.topic_alias_out_max,
        keep_alive_max_s: keys.keep_alive_max_s,
        session_expiry_max_s: keys.session_expiry_max_s,
        outbox_bytes_max: keys.outbox_bytes_max,
        pressure_bytes_max: keys.pressure_bytes_max.min(waiting_bytes_max / 2),
        waiting_bytes_max,
        clean_inbox_messages_max: keys.clean_inbox_messages_max,
        clean_inbox_bytes_max: keys.clean_inbox_bytes_max,
        clean_inbox_policy: keys.clean_inbox_policy,
        refuse_stalled_ms: (keys.inbox_policy == InboxPolicy::Refuse).then_some(1_000 * keys.inbox_refuse_stalled_s),
        slow_reader: keys.slow_reader,
        share_strategy: keys.share_strategy,
        share_stalled_ms: 1_000 * keys.share_stalled_s,
        subscriptions_max: keys.subscriptions_max,
        publishes_per_s: keys.publishes_per_s,
        publish_bytes_per_s: keys.publish_bytes_per_s,
        sys_interval_ms: 1_000 * keys.sys_interval_s,
    }
}
