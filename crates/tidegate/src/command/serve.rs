//! `tidegate serve`

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use tidegate_gateway::audit_loop::Schedule;
use tidegate_gateway::auth::{Authenticator, Secret};
use tidegate_gateway::node::{Node, NodeOptions};
use tidegate_gateway::status::{Phase, Status};
use tidegate_gateway::tls::server_config;
use tidegate_machines::ledger::Transfer;
use tidegate_shard::message::{Request, TransferBatch};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{Config, Overrides, Seed};

/// How often a serving process looks whether a journal has failed, to say so once.
const LOOK: Duration = Duration::from_millis(500);

/// Serves until a signal, then stops gracefully.
pub fn run(file: Option<&Path>, overrides: &Overrides) -> Result<ExitCode> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_env("TIDEGATE_LOG").unwrap_or_else(|_| "info".into()))
        .with_writer(std::io::stderr)
        .init();
    let config = Config::load(file, overrides)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // From before the start: a signal during a long replay is not lost.
    let (mut terminate, mut interrupt) = {
        let _entered = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };

    let bar = ProgressBar::no_length().with_style(
        ProgressStyle::with_template("replaying {bar:40} {human_pos}/{human_len} records {per_sec} {eta}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let node = Node::start(options(&config)?, || authenticator(&config), &mut |status| show(&bar, status))?;
    bar.finish_and_clear();
    announce(&config, &node);

    let mut failure_told = false;
    runtime.block_on(async {
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                () = tokio::time::sleep(LOOK) => {
                    if node.status().phase() == Phase::Failed && !failure_told {
                        failure_told = true;
                        tracing::error!(reason = node.status().failure(), "a journal failed; nothing is decided any more, restart the process");
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

fn options(config: &Config) -> Result<NodeOptions> {
    let tls = |wanted: bool, protocols: &[&str]| match &config.tls {
        Some(tls) if wanted => server_config(&tls.cert_file, &tls.key_file, protocols).map(Some),
        _ => Ok(None),
    };
    Ok(NodeOptions {
        data: config.data.dir.clone(),
        shards: config.data.shards,
        segment_bytes: config.data.segment_bytes,
        ids_filter_bytes_max: config.limits.ids_filter_bytes_max,
        workers: config.limits.workers as u16,
        edges: config.limits.edge_threads as u16,
        http: config.listen.http,
        binary: config.listen.binary,
        http_tls: tls(config.tls.as_ref().is_some_and(|tls| tls.http), &["http/1.1"])?,
        binary_tls: tls(config.tls.as_ref().is_some_and(|tls| tls.binary), &[])?,
        http_limits: config.limits.http,
        binary_connections_max: config.limits.binary_connections_max,
        mqtt: None,
        open_paths: config.open_paths.clone(),
        schedule: Schedule {
            audit_interval: config.data.audit_interval,
            snapshot_interval: config.data.snapshot_interval,
        },
        seed: seed_requests(&config.seed),
    })
}

fn authenticator(config: &Config) -> Result<Authenticator> {
    let secret = Secret::load_or_create(&config.jwt_secret_file)
        .with_context(|| format!("the key that signs tokens, {}", config.jwt_secret_file.display()))?;
    Ok(Authenticator::new(config.auth_settings(secret)))
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
    tracing::info!(data = %config.data.dir.display(), shards = config.data.shards, "serving");
}
