//! Composes a server: its rooms, and the messages that its threads send each other.
//!
//! ```text
//!   config ─▶ settings of each room ─▶ [binary, MQTT, HTTP, ledger] ─▶ Node::start: open, recover, place, spawn, begin
//! ```

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use tidegate_broker::{BrokerMessage, TOPICS};
use tidegate_doors::admission::let_in_max;
use tidegate_doors::auth::{Authenticator, Secret, SecretError};
use tidegate_doors::binary::{BinaryRoom, BinarySettings};
use tidegate_doors::edge::ChangeFeedsRoom;
use tidegate_doors::handshakes::Handshakes;
use tidegate_doors::http::HttpLimits;
use tidegate_doors::http_room::{HttpDoor, HttpSettings, WebSockets, open_ledger, open_operator};
use tidegate_doors::listener;
use tidegate_doors::mqtt::{Arrival, MqttListener, MqttRoom, MqttSettings, WebSocketSettings};
use tidegate_doors::operator::OperatorMessage;
use tidegate_doors::proxy::{ProxyRule, TrustedProxies};
use tidegate_doors::roster_room::{RosterParcel, RosterRoom, open_roster};
use tidegate_doors::security;
use tidegate_doors::stream::{DoorTls, HandshakeGate};
use tidegate_doors::tls::{server_config, server_config_with_clients};
use tidegate_journal::JournalError;
use tidegate_journal::directory::{Directory, ShardCount, Wanted};
use tidegate_journal::disk::RealDisk;
use tidegate_journal::disk::owner::cause_words;
use tidegate_journal::key::KEY_FILE;
use tidegate_journal::witness::check_folder_of_new;
use tidegate_ledger::operation::Message;
use tidegate_ledger::room::{Schedule, Seed as LedgerSeed, SeedKind, ShownCollector};
use tidegate_ledger::{LEDGER, LedgerOptions, LedgerRoom};
use tidegate_pacer::bidders::BidderMessage;
use tidegate_pacer::family::CampaignMessage;
use tidegate_queue::QueueMessage;
use tidegate_roster::ROSTER;
use tidegate_runtime::threads::now_ms;
use tidegate_runtime::{Address, Carries, Node, NodeOptions, Room, Status};
use tidegate_telemetry::Registry;

use crate::archiving::{ArchiveMetrics, Archiving};
use crate::auth_hook::AuthHook;
use crate::command::archive::check_target;
use crate::command::reload::Files;
use crate::config::{Config, Door, Seed, Tls, TopicsKeys, candidate_places};
use crate::extension::{Extension, KnownFamily, Opened};
use crate::identity_keys::IdentityKeys;
use crate::metrics;
use crate::open_files::{DoorConnections, Needs, OpenFiles, ROSTER_LOGS};
use crate::pacing::plan_rules;
use crate::private;

/// Parcels that can carry the messages of all rooms of the server.
pub trait Parcels:
    Carries<Message>
    + Carries<BrokerMessage>
    + Carries<Box<Arrival>>
    + Carries<OperatorMessage>
    + Carries<RosterParcel>
    + Carries<QueueMessage>
    + Carries<CampaignMessage>
    + Carries<BidderMessage>
{
}

impl<P> Parcels for P where
    P: Carries<Message>
        + Carries<BrokerMessage>
        + Carries<Box<Arrival>>
        + Carries<OperatorMessage>
        + Carries<RosterParcel>
        + Carries<QueueMessage>
        + Carries<CampaignMessage>
        + Carries<BidderMessage>
{
}

/// The numbers of the ports on each worker.
const BINARY_PORT: u16 = 0;
const MQTT_PORT: u16 = 1;

/// A running server, its authenticator, and the key that signs tokens.
pub struct Served<P> {
    /// The server.
    pub node: Node<P>,
    /// Who may come in.
    pub authenticator: Arc<Authenticator>,
    /// The key.
    pub secret: Secret,
    /// What fetches the keys of identity providers.
    pub identity_keys: IdentityKeys,
    /// What asks the log-in hook.
    pub auth_hook: AuthHook,
    /// What archives old segments, if something does.
    pub archiving: Option<Archiving>,
    /// All that is counted.
    pub registry: Registry,
}

/// Starts a server as `config` says, with at most `open_files_max` open files; returns when it serves. `progress` is
/// called now and then while the logs are replayed.
pub fn start<P: Parcels>(
    config: &Config,
    files: &Files,
    open_files_max: usize,
    extensions: &[&dyn Extension<P>],
    progress: &mut dyn FnMut(&Status),
) -> Result<Served<P>> {
    let counted: Vec<_> = extensions.iter().map(|extension| extension.metrics()).collect();
    let registry = metrics::registry(&counted);
    let handshakes = Handshakes::new(config.limits.handshakes, &registry);
    let mut mqtt = mqtt(config, files, &handshakes)?;
    let opened = extensions.iter().map(|extension| extension.open(config.document()));
    let opened: Vec<Opened<P>> = opened.collect::<Result<_>>()?;
    let mut wanted = Vec::from(wanted(config, mqtt.as_ref()));
    wanted.extend(opened.iter().flat_map(|extension| &extension.logs).copied());
    // A port in use is found before anything is made.
    let addresses = [config.listen.http, config.listen.binary, config.listen.mqtt, config.listen.mqtts];
    addresses.into_iter().flatten().try_for_each(|address| listener::listen(address, 1).map(drop))?;
    if let Some(folder) = &config.data.witness
        && Directory::would_be_new(&config.data.dir)?
    {
        check_folder_of_new(&RealDisk, folder, &config.data.dir).map_err(|error| anyhow!("data.witness: {error}"))?;
    }
    let had_key = config.data.dir.join(KEY_FILE).exists();
    let directory = Directory::open_or_create(&config.data.dir, &wanted, now_ms().0).map_err(|error| match error {
        missing @ JournalError::Damaged { .. } => {
            let data = config.data.dir.display();
            let ways = format!("tidegate accept-loss --data {data} --reason TEXT");
            anyhow!("{missing}. What can be done: `{ways}` says so, and changes nothing")
        }
        other => other.into(),
    })?;
    let data = config.data.dir.display();
    if !had_key && !directory.is_new() {
        tracing::warn!(
            "there was no file KEY in {data}: a new one is made. Tokens of bids and cursors of lists that were given \
             out are no good any more, and money that [pacing.ledger] holds is not found. If there is a copy of the \
             file, stop, put it back, and start again"
        );
    }
    if directory.is_new() {
        tracing::warn!(
            "a NEW, empty data directory was made: {data}. If a ledger should be there, stop: is its disk mounted, and \
             is the path right?"
        );
    }
    let closed = private::close(&config.data.dir).with_context(|| format!("the mode of {data}"))?;
    if let Some(mode) = closed.mode {
        tracing::warn!("{data} had mode {mode:o}: others could read it; it has 700 now");
    }
    if closed.inside > 0 {
        let count = closed.inside;
        tracing::warn!(count, "files and folders in {data} could be read by others; they have modes 600 and 700 now");
    }
    if let Some((path, cause)) = closed.open.first() {
        let (path, more) = (path.display(), closed.open.len() - 1);
        tracing::warn!(%path, cause, more, "others may read this, and its mode cannot be changed");
    }
    told_of_kept_shards(config, &directory);
    let connections = connections(config, &directory, &wanted, mqtt.as_mut(), open_files_max)?;
    // Not before the directory is locked: it may hold the key.
    let secret = Secret::load_or_create(&config.auth.jwt_secret_file)
        .map_err(|error| match error {
            SecretError::File { path, cause } => anyhow!("cannot use it: {}", cause_words(&path, &cause)),
            short => anyhow!(short),
        })
        .with_context(|| format!("the key that signs tokens, {}", config.auth.jwt_secret_file.display()))?;
    let authenticator = Arc::new(Authenticator::new(config.auth_settings(secret.clone())));
    let options = NodeOptions {
        workers: config.limits.workers as u16,
        registry,
        witness: config.data.witness.clone(),
        scrub_bytes_per_s: config.scrub_bytes_per_s,
        disk_reserve_bytes: config.data.disk_reserve_bytes,
    };
    security::begin(&options.registry);
    let rooms = rooms(config, files, mqtt, connections, &handshakes, &authenticator, opened)?;
    if let Some(archive) = &config.archive {
        check_target(&archive.to).context("archive.to")?;
    }
    let node = Node::start(&options, directory, rooms, progress)?;
    // Also where nothing is archived: the page of metrics is that of every server.
    let metrics = ArchiveMetrics::register(&options.registry);
    let identity_keys = IdentityKeys::start(authenticator.clone(), options.registry.clone())?;
    let auth_hook = AuthHook::start(&authenticator, &options.registry)?;
    let archiving = config.archive.clone().map(|settings| {
        let known = KnownFamily::all(extensions).iter().map(|known| known.copied).collect();
        Archiving::start(settings, config.data.dir.clone(), known, metrics, node.status().clone())
    });
    Ok(Served {
        node,
        authenticator,
        secret,
        identity_keys,
        auth_hook,
        archiving: archiving.transpose()?,
        registry: options.registry,
    })
}

/// Says which settings of a new directory this one, which has its own, does not follow.
fn told_of_kept_shards(config: &Config, directory: &Directory) {
    let wanted = config.document().section::<TopicsKeys>().map_or(0, |keys| keys.shards);
    let kept = directory.shards(TOPICS);
    if wanted != 0 && kept != wanted {
        tracing::warn!(
            kept,
            "topics.shards = {wanted} holds for new data directories; this one keeps its {kept} shards of topics"
        );
    }
}

/// Divides the open files, says how, and lets MQTT know. Returns what each door has.
fn connections(
    config: &Config,
    directory: &Directory,
    wanted: &[Wanted],
    mqtt: Option<&mut MqttSettings>,
    open_files_max: usize,
) -> Result<DoorConnections> {
    let logs = wanted.iter().map(|wanted| usize::from(directory.shards(wanted.family))).sum();
    let (needs, asked) = (Needs::of(config, logs, directory.shards(LEDGER).into()), DoorConnections::asked(config));
    let divided = OpenFiles::divide(open_files_max, needs, asked).map_err(anyhow::Error::msg)?;
    let OpenFiles { limit, kept, connections, is_short } = divided;
    let DoorConnections { http, binary, mqtt: of_mqtt } = connections;
    if is_short {
        tracing::warn!(
            limit,
            kept,
            "the limit of open files is low for so many shards: journals and indexes of ids may have to wait for \
             descriptors; raise it (ulimit -n, LimitNOFILE of systemd)"
        );
    }
    let cut = if connections == asked { "as configured" } else { "fewer than configured, by the limit of open files" };
    tracing::info!(limit, kept, http, binary, mqtt = of_mqtt, "connections: {cut}");
    if let Some(mqtt) = mqtt {
        mqtt.admission.connections_max = of_mqtt;
        mqtt.limits.connections_max = let_in_max(of_mqtt);
    }
    Ok(connections)
}

/// The logs of the ledger: a directory with another number of them is refused.
pub fn wanted_of_ledger(config: &Config) -> Wanted {
    Wanted { family: LEDGER, shards: config.data.shards, count: ShardCount::Fixed { setting: "data.shards" } }
}

/// The logs of a new directory; one that has its own keeps its number of topic shards.
fn wanted(config: &Config, mqtt: Option<&MqttSettings>) -> [Wanted; 3] {
    let topic_shards = mqtt.map_or(config.limits.workers as u16, |mqtt| mqtt.topic_shards);
    [
        wanted_of_ledger(config),
        Wanted { family: TOPICS, shards: topic_shards, count: ShardCount::Kept },
        Wanted { family: ROSTER, shards: ROSTER_LOGS, count: ShardCount::Kept },
    ]
}

/// The rooms, those with ports in the order of their ports.
fn rooms<P: Parcels>(
    config: &Config,
    files: &Files,
    mqtt: Option<MqttSettings>,
    connections: DoorConnections,
    handshakes: &Arc<Handshakes>,
    authenticator: &Arc<Authenticator>,
    opened: Vec<Opened<P>>,
) -> Result<Vec<Box<dyn Room<P>>>> {
    let workers = config.limits.workers as u16;
    let has_tls = |door: fn(&Tls) -> bool| config.tls.as_ref().is_some_and(door);
    let binary = BinarySettings {
        address: config.listen.binary,
        tls: tls(files, has_tls(|tls| tls.binary), &[], handshakes.at("binary", TrustedProxies::default()))?,
        connections_max: (connections.binary / usize::from(workers)).max(1),
        connections_per_address_max: config.limits.binary_connections_per_address_max,
        proxy: config.proxies.binary.clone(),
    };
    // One worker gets the figures of the whole ledger, because it adds up the parts of a collector.
    let announce = mqtt.as_ref().map(|mqtt| (mqtt.announce.clone(), Address::new(0, MQTT_PORT)));
    let ledger = LedgerRoom::new(LedgerOptions {
        segment_bytes: config.data.segment_bytes,
        ids_filter_bytes_max: config.limits.ids_filter_bytes_max,
        announce,
        schedule: Schedule { audit_interval: config.audit_interval, snapshot_interval: config.data.snapshot_interval },
        seed: seeds(&config.seed),
        shown: shown(config),
    });
    let at_http = vec![open_ledger(ledger.changes(), &config.limits.http)];
    let (mut others, mut at_http, mut at_binary) = (Vec::new(), at_http, Vec::new());
    at_http.extend(mqtt.as_ref().map(|_| open_operator(MQTT_PORT)));
    at_http.push(open_roster());
    for Opened { room, http, frames, .. } in opened {
        others.push(room);
        at_http.extend(http);
        at_binary.extend(frames);
    }
    let binary = BinaryRoom::new(binary, authenticator.clone(), at_binary);
    let (reader, feeds) = ChangeFeedsRoom::new(ledger.changes());
    let reader = mqtt.is_some().then_some(reader);
    let mqtt = mqtt.map(|mqtt| MqttRoom::new(mqtt, authenticator.clone(), MQTT_PORT, workers));
    let mqtt = mqtt.map(|mqtt| mqtt.following(Arc::new(feeds)));
    let door = mqtt.as_ref().and_then(MqttRoom::websocket);
    let websockets = door.map(|door| WebSockets { door, port: MQTT_PORT });
    let http = http(config, files, connections.http, handshakes)?
        .map(|http| HttpDoor::new(http, authenticator.clone(), websockets, at_http));

    let mut rooms: Vec<Box<dyn Room<P>>> = Vec::new();
    assert!(rooms.len() == usize::from(BINARY_PORT), "the binary port has its place");
    rooms.push(Box::new(binary));
    if let Some(mqtt) = mqtt {
        assert!(rooms.len() == usize::from(MQTT_PORT), "the MQTT port has its place");
        rooms.push(Box::new(mqtt));
    }
    rooms.extend(reader.map(|reader| -> Box<dyn Room<P>> { Box::new(reader) }));
    rooms.extend(http.map(|http| -> Box<dyn Room<P>> { Box::new(http) }));
    rooms.push(Box::new(ledger));
    rooms.push(Box::new(RosterRoom::new(config.limits.api_allowed, authenticator.clone())));
    rooms.extend(others);
    Ok(rooms)
}

fn http(
    config: &Config,
    files: &Files,
    connections_max: usize,
    handshakes: &Arc<Handshakes>,
) -> Result<Option<HttpSettings>> {
    let Some(address) = config.listen.http else { return Ok(None) };
    let edges = config.limits.edge_threads;
    let gate = handshakes.at("http", config.proxies.http.all());
    let connections_max = (connections_max / usize::from(edges)).max(1);
    Ok(Some(HttpSettings {
        address,
        tls: tls(files, config.tls.as_ref().is_some_and(|tls| tls.http), &["http/1.1"], gate)?,
        proxies: config.proxies.http.clone(),
        edges,
        limits: HttpLimits { connections_max, ..config.limits.http },
        open_paths: config.auth.open_paths.clone(),
        cors: config.cors.clone(),
        demo: Arc::new(config.demo.clone()),
    }))
}

fn tls(files: &Files, wanted: bool, protocols: &[&str], gate: Arc<dyn HandshakeGate>) -> Result<Option<DoorTls>> {
    let certificate = files.certificate.as_ref().filter(|_| wanted);
    let of_door = |certificate| Ok(DoorTls { config: server_config(certificate, protocols)?, gate });
    certificate.map(of_door).transpose()
}

/// The settings of the MQTT port; `None` if no address is configured for it.
fn mqtt(config: &Config, files: &Files, handshakes: &Arc<Handshakes>) -> Result<Option<MqttSettings>> {
    let mqtt = &config.mqtt;
    let listener = |name: &str, address, tls, door: &Door, proxy: &ProxyRule| MqttListener {
        name: name.into(),
        address,
        tls,
        clients: None,
        anonymous: door.anonymous,
        connections_max: door.connections_max,
        connections_per_s: door.connections_per_s,
        packet_bytes_max: door.packet_bytes_max,
        proxy: proxy.clone(),
    };
    let proxies = &config.proxies;
    let mut listeners = Vec::new();
    listeners.extend(config.listen.mqtt.map(|address| listener("mqtt", address, None, &mqtt.tcp, &proxies.mqtt)));
    if let (Some(address), Some(certificate)) = (config.listen.mqtts, &files.certificate) {
        let tls = server_config_with_clients(certificate, &files.clients)?;
        let tls = DoorTls { config: tls, gate: handshakes.at("mqtts", TrustedProxies::default()) };
        let door = listener("mqtts", address, Some(tls), &mqtt.tls, &proxies.mqtts);
        listeners.push(MqttListener { clients: Some(Arc::clone(&files.clients)), ..door });
    }
    let websocket = mqtt.websocket.as_ref().map(|websocket| WebSocketSettings {
        path: websocket.path.clone(),
        origins: websocket.origins.clone(),
        anonymous: websocket.door.anonymous,
        connections_max: websocket.door.connections_max,
        connections_per_s: websocket.door.connections_per_s,
    });
    if listeners.is_empty() && websocket.is_none() {
        return Ok(None);
    }
    Ok(Some(MqttSettings {
        listeners,
        proxies: proxies.of_mqtt(),
        websocket,
        topic_shards: mqtt.topic_shards,
        limits: mqtt.limits.clone(),
        inbox: mqtt.inbox.clone(),
        announce: mqtt.announce.clone(),
        plan_rules: plan_rules(&config.document().section()?),
        holdings: mqtt.holdings,
        admission: mqtt.admission.clone(),
        drain: mqtt.drain.clone(),
        drain_timeout_ms: mqtt.drain_timeout_ms,
    }))
}

/// The candidates of the voting pages.
fn shown(config: &Config) -> Vec<ShownCollector> {
    let candidates = &config.demo.candidates;
    let places = candidate_places(config.document(), candidates.len());
    let shown = candidates.iter().zip(places);
    shown.map(|(candidate, at)| ShownCollector { at, id: candidate.id.clone() }).collect()
}

/// What the ledger begins with.
pub fn seeds(seed: &Seed) -> Vec<LedgerSeed> {
    let assets = seed.assets.iter().zip(&seed.asset_places).map(|(asset, at)| LedgerSeed {
        at: at.clone(),
        what: SeedKind::Asset { name: asset.name.clone(), decimals: asset.decimals },
    });
    let accounts = seed.accounts.iter().zip(&seed.account_places).map(|(account, at)| LedgerSeed {
        at: at.clone(),
        what: SeedKind::Account { id: account.id.clone(), asset: account.asset.clone(), kind: account.kind },
    });
    let transfers = seed.transfers.iter().zip(&seed.transfer_places).map(|(transfer, at)| LedgerSeed {
        at: at.clone(),
        what: SeedKind::Transfer {
            id: transfer.id.clone(),
            debit: transfer.debit.clone(),
            credit: transfer.credit.clone(),
            amount: transfer.amount,
            memo: transfer.memo.clone(),
        },
    });
    assets.chain(accounts).chain(transfers).collect()
}
