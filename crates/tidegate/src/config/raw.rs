//! What can be written: every section and key, with its type and its meaning, once. The structs, the check for unknown keys, the
//! words of a type error and the test that `config/dev.toml` documents every key all come from these tables.

use serde::Deserialize;

/// What a value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Zero or more.
    Integer,
    /// In quotes.
    Text,
    /// `true` or `false`.
    Flag,
    /// Of quoted texts.
    TextList,
}

impl Expected {
    /// As an error says it.
    pub fn words(self) -> &'static str {
        match self {
            Expected::Integer => "an integer, zero or more",
            Expected::Text => "a quoted text",
            Expected::Flag => "true or false",
            Expected::TextList => "a list of quoted texts",
        }
    }
}

/// Types that a key can have.
trait Written {
    const EXPECTED: Expected;
}

impl Written for u64 {
    const EXPECTED: Expected = Expected::Integer;
}
impl Written for String {
    const EXPECTED: Expected = Expected::Text;
}
impl Written for bool {
    const EXPECTED: Expected = Expected::Flag;
}
impl Written for Vec<String> {
    const EXPECTED: Expected = Expected::TextList;
}

/// One key of a section.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What its value must be.
    pub expected: Expected,
    /// What it means, with the unit.
    pub meaning: &'static str,
}

/// One section, `[path]` or `[[path]]`.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// As written between the brackets.
    pub path: &'static str,
    /// Whether it is written `[[path]]`, any number of times.
    pub repeated: bool,
    /// Its keys.
    pub keys: &'static [Key],
}

macro_rules! section {
    ($(#[$about:meta])* $name:ident { $($key:ident: $type:ty = $meaning:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $(#[doc = $meaning] pub $key: Option<$type>,)*
        }

        impl $name {
            const KEYS: &[Key] = &[
                $(Key { name: stringify!($key), expected: <$type as Written>::EXPECTED, meaning: $meaning },)*
            ];
        }
    };
}

section! {
    /// `[listen]`
    RawListen {
        http: String = "address and port of the HTTP/JSON door, or \"off\"",
        binary: String = "address and port of the binary door, or \"off\"",
        mqtt: String = "address and port of MQTT over TCP, or \"off\"",
        mqtts: String = "address and port of MQTT over TLS, or \"off\"",
        websocket: String = "path of MQTT over WebSocket on the HTTP door, or \"off\"",
    }
}

section! {
    /// `[tls]`
    RawTls {
        cert_file: String = "PEM file with the certificate chain",
        key_file: String = "PEM file with the private key",
        http: bool = "whether the HTTP door speaks TLS",
        binary: bool = "whether the binary door speaks TLS",
        client_ca_file: String = "PEM file with the authorities whose client certificates are good for listen.mqtts",
        client_certificate: String = "\"optional\" or \"required\", for listen.mqtts",
    }
}

section! {
    /// `[listener.mqtt]` and `[listener.mqtts]`
    RawListener {
        anonymous: bool = "whether clients without credentials may come in; only on loopback",
        connections_max: u64 = "clients at once; 0 for mqtt.connections_max",
        connects_per_s: u64 = "clients taken per second; 0 for no bound",
        packet_bytes_max: u64 = "bytes of a packet from a client; 0 for mqtt.packet_bytes_max",
    }
}

section! {
    /// `[listener.websocket]`
    RawWebSocket {
        anonymous: bool = "whether clients without credentials may come in; only on loopback",
        connections_max: u64 = "clients at once; 0 for mqtt.connections_max",
        connects_per_s: u64 = "clients taken per second; 0 for no bound",
        origins: Vec<String> = "pages of which other origins may connect, such as `https://example.org`; \"*\" for all",
    }
}

section! {
    /// `[mqtt]`
    RawMqtt {
        ordinary_topics: String = "who may use topics without $ where no rule speaks: \"anyone\", \"authenticated\" or \"nobody\"",
        certificate_users: String = "whose client certificates are good: \"listed\" (users of this file) or \"any\"",
        connections_max: u64 = "clients at once, over all listeners and workers",
        connections_per_address_max: u64 = "clients at once of one address; 0 for no bound",
        overload_turn_ms: u64 = "milliseconds of a worker's turn above which new clients are refused; 0 for no bound",
        handshake_timeout_ms: u64 = "milliseconds from accept to CONNECT, TLS included",
        packet_bytes_max: u64 = "bytes of a packet from a client; larger ones may be too large to be kept for who is away (0x97)",
        receive_maximum: u64 = "publications of QoS 1 and 2 that a client may have unanswered",
        inflight_max: u64 = "publications of QoS 1 and 2 under way to one client",
        topic_alias_max: u64 = "topic aliases that a client may set",
        topic_alias_out_max: u64 = "topic aliases that the server sets for a client",
        keep_alive_max_s: u64 = "seconds of the longest keep-alive; 0 for no bound",
        session_expiry_max_s: u64 = "seconds that a session lives without a connection, at most",
        subscriptions_max: u64 = "subscriptions of one session",
        outbox_bytes_max: u64 = "bytes that wait for one client's socket; beyond, QoS 0 is dropped and QoS 1 and 2 wait",
        pressure_bytes_max: u64 = "bytes on their way to clients that take them, per worker, above which publishers are paused",
        inbox_messages_max: u64 = "messages that wait for a session that outlives its connection",
        inbox_bytes_max: u64 = "bytes that wait for a session that outlives its connection",
        inbox_age_max_s: u64 = "seconds that a message waits for a session; 0 for no bound",
        inbox_policy: String = "what makes room in a full inbox: \"drop_oldest\", \"drop_newest\" or \"refuse\"",
        clean_inbox_messages_max: u64 = "messages that wait for a session that ends with its connection",
        clean_inbox_bytes_max: u64 = "bytes that wait for a session that ends with its connection",
        clean_inbox_policy: String = "the same as inbox_policy; \"refuse\" disconnects the client",
        publishes_per_s: u64 = "publications per second of one client; 0 for no bound",
        publish_bytes_per_s: u64 = "bytes of publications per second of one client; 0 for no bound",
        sys_interval_s: u64 = "seconds between figures on $SYS; 0 for none",
        server_reference: String = "where clients that are sent away should go",
        drain_per_s: u64 = "clients sent away per second when the server stops",
        drain_timeout_ms: u64 = "milliseconds that a stopping server spends on that",
    }
}

section! {
    /// `[topics]`
    RawTopics {
        shards: u64 = "topic shards of a new data directory; 0 for one per worker",
        announce: Vec<String> = "accounts announced on $ledger/accounts/ID, as in grants",
        announcements_per_s: u64 = "announcements per second and account, at most",
    }
}

section! {
    /// `[[acl]]`
    RawAcl {
        effect: String = "\"permit\" or \"deny\"",
        action: String = "\"publish\", \"subscribe\" or \"both\"",
        topics: Vec<String> = "topic filters; %c is the client id, %u the user name",
        user: String = "only the user of this name",
        role: String = "only \"viewer\", \"service\", \"certificate\" or \"anonymous\"",
        client_id: String = "only clients of this id, or whose id begins so: \"sensor-*\"",
    }
}

/// `[listener]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawListeners {
    /// MQTT over TCP.
    pub mqtt: RawListener,
    /// MQTT over TLS.
    pub mqtts: RawListener,
    /// MQTT over WebSocket.
    pub websocket: RawWebSocket,
}

section! {
    /// `[data]`
    RawData {
        dir: String = "directory of journals and snapshots",
        shards: u64 = "shards of a new data directory; one that exists keeps its own",
        segment_bytes: u64 = "bytes of one segment file of the journal",
        snapshot_interval_s: u64 = "seconds between snapshots; 0 for none by time",
        audit_interval_s: u64 = "seconds between reconciliations of all balances; 0 for none",
    }
}

section! {
    /// `[limits]`
    RawLimits {
        workers: u64 = "pinned threads that own the binary connections and the shards; 0 for one per core, at most one per shard",
        edge_threads: u64 = "threads that serve HTTP",
        ids_filter_bytes_max: u64 = "bytes of memory for the filter that says which ids were never used, over all shards",
        binary_connections_max: u64 = "open connections per worker",
        http_connections_max: u64 = "open connections per edge thread",
        http_body_bytes_max: u64 = "bytes of a request's body",
        http_head_bytes_max: u64 = "bytes of a request's head",
        http_headers_max: u64 = "header fields of a request",
        http_head_timeout_ms: u64 = "milliseconds for a request's head to arrive, and for a connection to be idle",
        http_body_timeout_ms: u64 = "milliseconds for a request's body to arrive",
        http_request_timeout_ms: u64 = "milliseconds for the ledger to answer",
        tls_handshake_timeout_ms: u64 = "milliseconds for a TLS handshake",
        drain_timeout_ms: u64 = "milliseconds that requests get to finish when the server stops",
        tokens_cached_max: u64 = "tokens per edge thread whose signature need not be checked again",
        kinds_cached_max: u64 = "accounts per edge thread whose kind need not be asked again",
        logins_concurrent_max: u64 = "threads that check passwords, each with the memory of one hash (19 MiB)",
        logins_waiting_max: u64 = "log-ins that wait for such a thread before more are refused",
    }
}

section! {
    /// `[auth]`
    RawAuth {
        jwt_secret_file: String = "file with the key that signs tokens; made with mode 0600 if it does not exist",
        token_ttl_s: u64 = "seconds that a log-in is good for",
        open_paths: Vec<String> = "paths served without a token, of /openapi.json, /metrics and /demo",
    }
}

section! {
    /// `[[user]]`
    RawUser {
        name: String = "log-in name",
        password_hash: String = "argon2id hash; `tidegate hash-password` makes one",
        role: String = "\"viewer\" or \"service\"",
        wallets: Vec<String> = "a viewer's own wallets",
        grants: Vec<String> = "what a user of role service may do",
    }
}

section! {
    /// `[[service]]`
    RawService {
        name: String = "name, for logs",
        token: String = "the token itself; only for development",
        token_sha256: String = "SHA-256 of the token in hex: printf %s TOKEN | sha256sum",
        grants: Vec<String> = "what it may do",
    }
}

section! {
    /// `[[seed.account]]`
    RawSeedAccount {
        id: String = "account id",
        asset: String = "unit of measure",
        kind: String = "\"wallet\", \"source\" or \"collector\"",
    }
}

section! {
    /// `[[seed.transfer]]`
    RawSeedTransfer {
        id: String = "transfer id; it makes seeding again a duplicate",
        debit: String = "account to take from",
        credit: String = "account to give to",
        amount: u64 = "minor units",
        memo: String = "free text for the history",
    }
}

/// `[seed]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawSeed {
    /// Accounts to open.
    pub account: Vec<RawSeedAccount>,
    /// Transfers to make.
    pub transfer: Vec<RawSeedTransfer>,
}

/// A whole file as it was written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawConfig {
    /// Where to listen.
    pub listen: RawListen,
    /// Certificates.
    pub tls: RawTls,
    /// Where data lives.
    pub data: RawData,
    /// Bounds.
    pub limits: RawLimits,
    /// The listeners of MQTT.
    pub listener: RawListeners,
    /// Bounds of MQTT.
    pub mqtt: RawMqtt,
    /// Topics.
    pub topics: RawTopics,
    /// Who may use which topics.
    pub acl: Vec<RawAcl>,
    /// Tokens.
    pub auth: RawAuth,
    /// People.
    pub user: Vec<RawUser>,
    /// Programs.
    pub service: Vec<RawService>,
    /// What a new ledger begins with.
    pub seed: RawSeed,
}

/// Every section of a file.
pub const SECTIONS: &[Section] = &[
    Section { path: "listen", repeated: false, keys: RawListen::KEYS },
    Section { path: "tls", repeated: false, keys: RawTls::KEYS },
    Section { path: "data", repeated: false, keys: RawData::KEYS },
    Section { path: "limits", repeated: false, keys: RawLimits::KEYS },
    Section { path: "listener.mqtt", repeated: false, keys: RawListener::KEYS },
    Section { path: "listener.mqtts", repeated: false, keys: RawListener::KEYS },
    Section { path: "listener.websocket", repeated: false, keys: RawWebSocket::KEYS },
    Section { path: "mqtt", repeated: false, keys: RawMqtt::KEYS },
    Section { path: "topics", repeated: false, keys: RawTopics::KEYS },
    Section { path: "acl", repeated: true, keys: RawAcl::KEYS },
    Section { path: "auth", repeated: false, keys: RawAuth::KEYS },
    Section { path: "user", repeated: true, keys: RawUser::KEYS },
    Section { path: "service", repeated: true, keys: RawService::KEYS },
    Section { path: "seed.account", repeated: true, keys: RawSeedAccount::KEYS },
    Section { path: "seed.transfer", repeated: true, keys: RawSeedTransfer::KEYS },
];
