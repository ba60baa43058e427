//! How much memory clients can make a server use at worst, key by key: for `tidegate doctor --config FILE`.
//!
//! ```text
//!   configuration, connections that the open files allow ─▶ each bound × what one of it takes ─▶ rows, their sum
//! ```
//!
//! Promise: every bound of something that stays in memory until its client, its sender or its time ends it is in a row,
//! with what it takes as the code counts it. Not in it: the accounts of the ledger, which nobody opens without the
//! right to (`docs/decisions/0026-memory.md`), campaigns and their leases for the same reason, what the kernel keeps
//! for sockets, and what is under way between threads for a turn.

use tidegate_broker::limits::COMMAND_BYTES_WAITING_MAX;
use tidegate_broker::{Thing, footprint as broker};
use tidegate_doors::footprint as doors;
use tidegate_journal::limits::{GROUP_BYTES_MAX, GROUPS_IN_FLIGHT_MAX, RECENT_BYTES_MAX};
use tidegate_pacer::limits::{self as pacer, PacingKeys};
use tidegate_queue::{QueuesKeys, limits as queue};

use crate::config::Config;
use crate::open_files::{DoorConnections, Needs, ROSTER_LOGS};

/// The buffers of a journal: the group that fills, and those under way.
const LOG_BYTES: u64 = ((GROUPS_IN_FLIGHT_MAX + 1) * GROUP_BYTES_MAX) as u64;
/// Of a ledger's, in addition: groups for look-ups. Of a shard of topics: commands that wait.
const LEDGER_LOG_BYTES: u64 = LOG_BYTES + RECENT_BYTES_MAX as u64;
const ROSTER_LOG_BYTES: u64 = LOG_BYTES + tidegate_roster::limits::COMMAND_BYTES_WAITING_MAX as u64;
const QUEUE_LOG_BYTES: u64 = LEDGER_LOG_BYTES + queue::CALL_BYTES_WAITING_MAX as u64;
const CAMPAIGN_LOG_BYTES: u64 = LOG_BYTES + pacer::COMMAND_BYTES_WAITING_MAX as u64;
const TOPIC_LOG_BYTES: u64 = LOG_BYTES + COMMAND_BYTES_WAITING_MAX as u64;
/// A shape of filters that is not common: a node for each of its levels, in each worker's tables.
const SHAPE_BYTES: u64 = 1 << 10;

/// Keys that are named where one alone is not enough.
const LARGEST_NAMED: usize = 4;
/// Fewer clients are no advice.
const CLIENTS_MIN: u64 = 16;

/// One bound, and what it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The key that bounds it.
    pub key: &'static str,
    /// Its value.
    pub value: u64,
    /// What it is of, and how many there may be.
    pub of: String,
    /// All of it at once; `None` if there is no bound.
    pub bytes: Option<u64>,
}

/// All of them, the largest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorstCase(pub Vec<Cost>);

impl WorstCase {
    /// Of a server with this configuration, which takes so many connections and has so many logs.
    pub fn of(config: &Config, connections: DoorConnections, needs: Needs) -> WorstCase {
        let mut costs = Vec::new();
        costs.extend(kept(config));
        costs.extend(of_mqtt(config, connections.mqtt as u64));
        costs.extend(of_http(config, connections.http as u64));
        costs.extend(of_binary(config, connections.binary as u64));
        costs.extend(of_threads(config, needs));
        costs.extend(of_queues(&queues(config)));
        costs.extend(of_pacing(&pacing(config)));
        costs.retain(|cost| cost.bytes != Some(0));
        costs.sort_by_key(|cost| std::cmp::Reverse(cost.bytes.unwrap_or(u64::MAX)));
        WorstCase(costs)
    }

    /// The sum; `None` if something has no bound.
    pub fn bytes(&self) -> Option<u64> {
        self.0.iter().try_fold(0u64, |sum, cost| Some(sum.saturating_add(cost.bytes?)))
    }

    /// What is to be set so that the largest fits into `memory_bytes`, if the whole does not.
    pub fn advice(&self, memory_bytes: u64) -> Option<String> {
        let largest = self.0.first()?;
        let Some((bytes, sum)) = largest.bytes.zip(self.bytes()) else {
            return Some(format!("{} = 0 is no bound: set one", largest.key));
        };
        if sum <= memory_bytes {
            return None;
        }
        // A quarter at least: if the others leave less, they come next.
        let room = memory_bytes.saturating_sub(sum - bytes).max(memory_bytes / 4);
        let most = (u128::from(largest.value) * u128::from(room) / u128::from(bytes)).max(1);
        let mut advice = match most < u128::from(largest.value) {
            true => format!(
                "{} dominates: {} of {}. Set it to {most} or less, or as low as your clients need",
                largest.key,
                in_words(bytes),
                in_words(sum)
            ),
            false => {
                let named = |cost: &Cost| format!("{} ({})", cost.key, cost.bytes.map_or_else(String::new, in_words));
                let largest = self.0.iter().take(LARGEST_NAMED).map(named).collect::<Vec<_>>().join(", ");
                format!(
                    "no key alone makes it fit: of {}, the largest are {largest}. Set several of them as low as your \
                     clients need",
                    in_words(sum)
                )
            }
        };
        if let Some(clients) = self.clients_that_fit(memory_bytes) {
            advice += &format!("; with all else as it is, mqtt.connections_max = {clients} fits");
        }
        Some(advice)
    }

    /// How many MQTT clients fit, each with all that it may take; `None` if not even few do.
    fn clients_that_fit(&self, memory_bytes: u64) -> Option<u64> {
        let clients = self.0.iter().find(|cost| cost.key == "mqtt.connections_max")?.value;
        // What waits has a bound of all, whatever their number.
        let is_of_clients = |cost: &&Cost| cost.key.starts_with("mqtt.") && cost.key != "mqtt.waiting_bytes_max";
        let of_clients: u64 = self.0.iter().filter(is_of_clients).filter_map(|cost| cost.bytes).sum();
        let room = memory_bytes.checked_sub(self.bytes()?.checked_sub(of_clients)?)?;
        let fit = u128::from(clients) * u128::from(room) / u128::from(of_clients.max(1));
        u64::try_from(fit).ok().filter(|fit| (CLIENTS_MIN..clients).contains(fit))
    }
}

/// `[kept.all]`, and what the division of memory is about beside it.
fn kept(config: &Config) -> Vec<Cost> {
    let workers = config.limits.workers as u64;
    let of_things = |key, thing, times: u64, of: &str| {
        let bytes = config.mqtt.holdings[thing].all.bytes;
        let at_worst = (bytes > 0).then(|| bytes.saturating_mul(times));
        Cost { key, value: bytes, of: of.to_owned(), bytes: at_worst }
    };
    let shapes = config.mqtt.holdings[Thing::Shape].all.count;
    let filters = config.limits.ids_filter_bytes_max as u64;
    let of_api = config.limits.api_allowed;
    let (services, users) = (of_api.services_max as u64, of_api.users_max as u64);
    vec![
        of_things("kept.all.sessions_bytes_max", Thing::Session, 1, "sessions that outlive their connection"),
        of_things("kept.all.filters_bytes_max", Thing::Filter, workers, "subscriptions, in the tables of each worker"),
        of_things("kept.all.retained_bytes_max", Thing::Retained, 1, "retained messages"),
        of_things("kept.all.delayed_bytes_max", Thing::Delayed, 1, "delayed messages"),
        of_things("kept.all.queued_bytes_max", Thing::Queued, 1, "messages that wait for who is away"),
        of_things("kept.all.unread_bytes_max", Thing::Unread, 1, "half packets"),
        Cost {
            key: "kept.all.shapes_max",
            value: shapes,
            of: "odd shapes of filters".to_owned(),
            bytes: (shapes > 0).then(|| shapes.saturating_mul(SHAPE_BYTES * workers)),
        },
        Cost {
            key: "limits.api_services_max",
            value: services,
            of: "services made through the API, and their journal".to_owned(),
            bytes: Some(services.saturating_mul(doors::ROSTERED_BYTES) + ROSTER_LOG_BYTES),
        },
        cost("limits.api_users_max", users, doors::ROSTERED_BYTES, 1, "users made through the API"),
        cost("limits.ids_filter_bytes_max", filters, 1, 1, "filters over transfer ids"),
    ]
}

/// A bound of `value`, of which each is `each` bytes, `times` over.
fn cost(key: &'static str, value: u64, each: u64, times: u64, of: impl Into<String>) -> Cost {
    let bytes = value.saturating_mul(each).saturating_mul(times);
    Cost { key, value, of: of.into(), bytes: Some(bytes) }
}

fn of_mqtt(config: &Config, connections: u64) -> Vec<Cost> {
    let limits = &config.mqtt.limits;
    let has_layers = config.listen.mqtts.is_some() || config.mqtt.websocket.is_some();
    let each = broker::CONNECTION_BYTES + if has_layers { doors::LAYERS_BYTES } else { 0 };
    let of_each = |what: &str| format!("{what}, of each of {connections} clients");
    let per_client = |key, value: u64, bytes: u64, what: &str| Cost {
        key,
        value,
        of: of_each(what),
        bytes: Some(bytes.saturating_mul(connections)),
    };
    let (received, aliases) = (limits.receive_maximum, limits.topic_alias_maximum);
    let (outbox, inbox) = (limits.outbox_bytes_max as u64, limits.clean_inbox_bytes_max as u64);
    let aliases_out = limits.topic_aliases_out_max;
    let (waiting, workers) = (limits.waiting_bytes_max, config.limits.workers as u64);
    vec![
        cost(
            "mqtt.connections_max",
            connections,
            each,
            1,
            "idle or half begun; fewer than written where files are few",
        ),
        Cost {
            key: "mqtt.waiting_bytes_max",
            value: waiting,
            of: "what clients do not take, and what waits behind that, of each worker".to_owned(),
            bytes: Some(waiting.saturating_mul(workers).min((outbox + inbox).saturating_mul(connections))),
        },
        per_client(
            "mqtt.receive_maximum",
            received.into(),
            broker::unanswered_bytes(received),
            "publications that are not over",
        ),
        per_client(
            "mqtt.inflight_max",
            limits.window_max.into(),
            broker::window_bytes(),
            "what it has not acknowledged",
        ),
        per_client("mqtt.topic_alias_max", aliases.into(), broker::alias_bytes(aliases), "topics that it named"),
        per_client(
            "mqtt.topic_alias_out_max",
            aliases_out.into(),
            broker::alias_bytes_out(aliases_out),
            "topics that were named to it",
        ),
    ]
}

fn of_http(config: &Config, connections: u64) -> Vec<Cost> {
    let (limits, edges) = (&config.limits.http, u64::from(config.limits.edge_threads));
    if config.listen.http.is_none() {
        return Vec::new();
    }
    let is_tls = config.tls.as_ref().is_some_and(|tls| tls.http);
    let each = doors::http_connection_bytes(limits) + if is_tls { doors::LAYERS_BYTES } else { 0 };
    let per_edge = |key, value: usize, each: u64, of: &str| cost(key, value as u64, each, edges, of);
    let bodies = limits.bodies_bytes_max.max(limits.body_bytes_max.saturating_mul(4));
    let hash_bytes = config.users.iter().map(|user| user.password_hash.memory_bytes()).max().unwrap_or(0);
    let logins = &config.limits.logins;
    vec![
        cost("limits.http_connections_max", connections, each, 1, "a head and an unread answer, of all edge threads"),
        per_edge("limits.http_bodies_bytes_max", bodies, 1, "bodies that came in part, of each edge thread"),
        per_edge(
            "limits.http_change_streams_max",
            limits.change_streams_max,
            doors::CHANGE_STREAM_BYTES,
            "unread rows",
        ),
        per_edge(
            "limits.http_history_streams_max",
            limits.history_streams_max,
            doors::HISTORY_STREAM_BYTES,
            "unread rows",
        ),
        per_edge(
            "limits.http_message_streams_max",
            limits.message_streams_max,
            doors::MESSAGE_STREAM_BYTES,
            "a page of messages that is not written yet",
        ),
        per_edge("limits.http_change_pages_max", limits.change_pages_max, doors::PAGE_BYTES, "pages being read"),
        per_edge("limits.tokens_cached_max", limits.tokens_cached_max, doors::TOKEN_BYTES, "tokens, the longest"),
        per_edge("limits.kinds_cached_max", limits.kinds_cached_max, doors::kinds_bytes(1), "ids of accounts"),
        per_edge("limits.edge_threads", 1, doors::CHANGES_READ_BYTES + doors::REQUESTS_BYTES, "read ahead, under way"),
        cost("limits.logins_concurrent_max", logins.concurrent_max as u64, hash_bytes, 1, "memory of a hash"),
        cost(
            "limits.logins_waiting_max",
            logins.waiting_max as u64,
            limits.login_body_bytes_max as u64,
            1,
            "names and passwords",
        ),
    ]
}

fn of_binary(config: &Config, connections: u64) -> Vec<Cost> {
    if config.listen.binary.is_none() {
        return Vec::new();
    }
    let is_tls = config.tls.as_ref().is_some_and(|tls| tls.binary);
    let each = doors::BINARY_CONNECTION_BYTES + if is_tls { doors::LAYERS_BYTES } else { 0 };
    let of = format!("unread replies, of all workers: {connections} connections");
    let all = connections.saturating_mul(each);
    // The key is each worker's.
    let value = connections / (config.limits.workers as u64).max(1);
    vec![Cost { key: "limits.binary_connections_max", value, of, bytes: Some(all) }]
}

/// `[queues]`
fn queues(config: &Config) -> QueuesKeys {
    config.document().section().expect("it was read when the configuration was")
}

fn of_queues(keys: &QueuesKeys) -> Vec<Cost> {
    let shards = u64::from(keys.shards);
    let receivers = keys.receivers_max as u64;
    vec![
        cost(
            "queues.messages_max",
            keys.messages_max,
            2 * queue::MESSAGE_MEMORY_BYTES,
            shards,
            "messages without their bodies; twice while a snapshot is made",
        ),
        cost("queues.ids_max", keys.ids_max, 2 * queue::ID_MEMORY_BYTES, shards, "ids of messages, likewise"),
        cost(
            "queues.ordering_keys_max",
            keys.ordering_keys_max,
            2 * queue::ORDERING_KEY_MEMORY_BYTES,
            shards,
            "ordering keys of messages, likewise",
        ),
        cost("queues.bodies_bytes_max", keys.bodies_bytes_max, 1, shards, "bodies of messages"),
        cost("queues.receivers_max", receivers, queue::RECEIVER_MEMORY_BYTES, shards, "requests that wait"),
        cost("queues.shards", shards, QUEUE_LOG_BYTES, 1, "journals of queues: groups and requests under way"),
        cost("queues.shards", shards, queue::SHARD_MEMORY_BYTES, 1, "schedules, and rates of consumers"),
    ]
}

/// `[pacing]`
fn pacing(config: &Config) -> PacingKeys {
    config.document().section().expect("it was read when the configuration was")
}

fn of_pacing(keys: &PacingKeys) -> Vec<Cost> {
    let (shards, users) = (u64::from(keys.shards), keys.users_max as u64);
    vec![
        Cost {
            key: "pacing.users_max",
            value: users,
            of: "users of frequency caps".to_owned(),
            bytes: Some(pacer::users_memory_bytes(users)),
        },
        cost("pacing.shards", shards, CAMPAIGN_LOG_BYTES, 1, "journals of campaigns: groups and commands under way"),
    ]
}

/// What threads and journals have, whoever asks.
fn of_threads(config: &Config, needs: Needs) -> Vec<Cost> {
    let workers = config.limits.workers as u64;
    let ledgers = needs.indexes as u64;
    let of_rooms = u64::from(queues(config).shards) + u64::from(pacing(config).shards);
    let others = ledgers + u64::from(ROSTER_LOGS) + of_rooms;
    let topics = (needs.logs as u64).saturating_sub(others);
    let ahead = if config.listen.binary.is_some() { doors::BINARY_AHEAD_BYTES + doors::BINARY_KINDS_BYTES } else { 0 };
    vec![
        cost("limits.workers", workers, doors::REQUESTS_BYTES + ahead, 1, "requests under way, frames read ahead"),
        cost("data.shards", ledgers, LEDGER_LOG_BYTES, 1, "journals of the ledger: groups under way"),
        cost("topics.shards", topics, TOPIC_LOG_BYTES, 1, "journals of topics: groups and commands under way"),
    ]
}

/// `1.5 GiB`
pub fn in_words(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let place = (bytes.max(1).ilog2() / 10).min(units.len() as u32 - 1);
    if place == 0 {
        return format!("{bytes} B");
    }
    format!("{:.1} {}", bytes as f64 / (1u64 << (10 * place)) as f64, units[place as usize])
}

#[cfg(test)]
mod tests;
