//! `tidegate serve`

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use tidegate_gateway::audit_loop::Schedule;
use tidegate_gateway::auth::{Authenticator, Secret};
use tidegate_gateway::mqtt::{MqttListener, MqttSettings, WebSocketSettings};
use tidegate_gateway::node::{Node, NodeOptions};
use tidegate_gateway::status::{Phase, Status};
use tidegate_gateway::tls::{server_config, server_config_with_clients};
use tidegate_ledger::message::{Request, TransferBatch};
use tidegate_machines::ledger::Transfer;
use tokio::signal::unix::{SignalKind, signal};

use super::reload::{Files, Reload};
use crate::config::{Config, Door, Overrides, Seed};
use crate::huge_pages::HugePages;
use crate::metrics;

/// How often a serving process looks whether a journal has failed, to say so once.
const LOOK: Duration = Duration::from_millis(500);

/// Serves until SIGTERM or SIGINT, then stops gracefully. SIGHUP reads users, rules and certificates again.
pub fn run(file: Option<&Path>, overrides: &Overrides) -> Result<ExitCode> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_env("TIDEGATE_LOG").unwrap_or_else(|_| "info".into()))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        // A collector of logs that goes away, or a full disk, must not end a server: the library would say so on the same stream.
        .log_internal_errors(false)
        .init();
    let huge_pages = HugePages::settle();
    let config = Config::load(file, overrides)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // From before the start: a signal during a long replay is not lost.
    let (mut terminate, mut interrupt, mut hang_up) = {
        let _entered = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?)
    };
    raise_open_files();

    let bar = ProgressBar::no_length().with_style(
        ProgressStyle::with_template("replaying {bar:40} {human_pos}/{human_len} records {per_sec} {eta}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let files = Files::read(&config)?;
    let mut known = None;
    let node = Node::start(
        options(&config, &files)?,
        || {
            let secret = secret(&config)?;
            let authenticator = Arc::new(Authenticator::new(config.auth_settings(secret.clone())));
            known = Some((authenticator.clone(), secret));
            Ok(authenticator)
        },
        &mut |status| show(&bar, status),
    )?;
    let (authenticator, secret) = known.context("a node that has started knows who may come in")?;
    bar.finish_and_clear();
    tracing::info!("huge pages: {huge_pages}");
    announce(&config, &node);
    let mut reload = Reload::new(file, overrides, config, files, authenticator, secret);

    let mut failure_told = false;
    runtime.block_on(async {
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hang_up.recv() => reload.run(),
                () = tokio::time::sleep(LOOK) => {
                    if node.status().phase() == Phase::Failed && !failure_told {
                        failure_told = true;
                        tracing::error!(reason = node.status().failure(), "a journal failed; nothing is decided any more. If it is damaged, stop the process and run tidegate audit, which names what to restore; else restart it");
                    }
                }
            }
        }
    });
    tracing::info!("stopping: finishing what was accepted");
    node.stop()?;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

fn options(config: &Config, files: &Files) -> Result<NodeOptions> {
    let tls = |wanted: bool, protocols: &[&str]| match &files.certificate {
        Some(certificate) if wanted => server_config(certificate, protocols).map(Some),
        _ => Ok(None),
    };
    Ok(NodeOptions {
        data: config.data.dir.clone(),
        shards: config.data.shards,
        segment_bytes: config.data.segment_bytes,
        ids_filter_bytes_max: config.limits.ids_filter_bytes_max,
        workers: config.limits.workers as u16,
        edges: config.limits.edge_threads,
        http: config.listen.http,
        binary: config.listen.binary,
        http_tls: tls(config.tls.as_ref().is_some_and(|tls| tls.http), &["http/1.1"])?,
        binary_tls: tls(config.tls.as_ref().is_some_and(|tls| tls.binary), &[])?,
        http_limits: config.limits.http,
        binary_connections_max: config.limits.binary_connections_max,
        mqtt: mqtt(config, files)?,
        open_paths: config.auth.open_paths.clone(),
        schedule: Schedule { audit_interval: config.audit_interval, snapshot_interval: config.data.snapshot_interval },
        seed: seed_requests(&config.seed),
        registry: metrics::registry(),
    })
}

/// What the MQTT port is told; `None` when no door leads to it.
fn mqtt(config: &Config, files: &Files) -> Result<Option<MqttSettings>> {
    let mqtt = &config.mqtt;
    let listener = |name: &str, address, tls, door: &Door| MqttListener {
        name: name.into(),
        address,
        tls,
        anonymous: door.anonymous,
        connections_max: door.connections_max,
        connections_per_s: door.connections_per_s,
        packet_bytes_max: door.packet_bytes_max,
    };
    let mut listeners = Vec::new();
    listeners.extend(config.listen.mqtt.map(|address| listener("mqtt", address, None, &mqtt.tcp)));
    if let (Some(address), Some(certificate)) = (config.listen.mqtts, &files.certificate) {
        let tls = server_config_with_clients(certificate, &files.clients)?;
        listeners.push(listener("mqtts", address, Some(tls), &mqtt.tls));
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
        websocket,
        topic_shards: mqtt.topic_shards,
        limits: mqtt.limits.clone(),
        inbox: mqtt.inbox.clone(),
        announce: mqtt.announce.clone(),
        admission: mqtt.admission.clone(),
        drain: mqtt.drain.clone(),
        drain_timeout_ms: mqtt.drain_timeout_ms,
    }))
}

fn secret(config: &Config) -> Result<Secret> {
    Secret::load_or_create(&config.auth.jwt_secret_file)
        .with_context(|| format!("the key that signs tokens, {}", config.auth.jwt_secret_file.display()))
}

/// Each client is an open file. Systems give a thousand unless asked for more, up to a limit that only the operator can raise.
fn raise_open_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls take a pointer to a live struct of theirs. A failure leaves the limit as it was.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

fn seed_requests(seed: &Seed) -> Vec<Request> {
    let accounts = seed.accounts.iter().map(|account| Request::OpenAccount {
        id: account.id.clone(),
        asset: account.asset.clone(),
        kind: account.kind,
    });
    let transfers = seed.transfers.iter().map(|transfer| Request::Transfers {
        linked: false,
        batch: TransferBatch::copy_of([Transfer {
            id: &transfer.id,
            debit: &transfer.debit,
            credit: &transfer.credit,
            amount: transfer.amount,
            memo: &transfer.memo,
        }]),
    });
    accounts.chain(transfers).collect()
}

fn show(bar: &ProgressBar, status: &Status) {
    let (done, total) = status.replayed();
    bar.set_length(total);
    bar.set_position(done);
}

fn announce(config: &Config, node: &Node) {
    if let Some(address) = node.http() {
        let scheme = if config.tls.as_ref().is_some_and(|tls| tls.http) { "https" } else { "http" };
        tracing::info!("HTTP on {scheme}://{address}");
    }
    if let Some(address) = node.binary() {
        tracing::info!("binary on {address}");
    }
    for (name, address) in node.mqtt() {
        let kind = if &**name == "mqtts" { "MQTT over TLS" } else { "MQTT" };
        tracing::info!("{kind} on {address}");
    }
    if let (Some(websocket), Some(address)) = (&config.mqtt.websocket, node.http()) {
        tracing::info!("MQTT over WebSocket on {address}{}", websocket.path);
    }
    tracing::info!(data = %config.data.dir.display(), shards = config.data.shards, "serving");
}
