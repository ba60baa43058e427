//! `tidegate serve`

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use tidegate_broker::Thing;
use tidegate_config::Document;
use tidegate_doors::http::PACING_PAGE;
use tidegate_runtime::{Node, Phase, Status};
use tokio::signal::unix::{SignalKind, signal};

use super::check;
use super::reload::{Files, Reload};
use crate::compose::{self, Parcels, Served};
use crate::config::{Config, Overrides, schema};
use crate::extension::{self, Extension};
use crate::huge_pages::HugePages;
use crate::logging::Log;
use crate::open_files;
use crate::openness;
use crate::service_manager::ServiceManager;
use crate::watch::Watch;

/// How often a serving process looks at itself, and whether a journal has failed, to say so once.
const LOOK: Duration = Duration::from_millis(500);

/// What is done with a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It is served.
    Serve,
    /// It is looked at.
    Check,
}

/// Serves until SIGTERM or SIGINT, then stops gracefully. SIGHUP reads users, rules and certificates again.
pub fn run<P: Parcels>(
    file: Option<&Path>,
    overrides: &Overrides,
    extensions: &[&dyn Extension<P>],
    work: Work,
) -> Result<ExitCode> {
    let sections: Vec<_> = extensions.iter().map(|extension| extension.sections()).collect();
    let schema = schema(&sections);
    let config = Config::load(file, &schema, overrides)?;
    if work == Work::Check {
        return check::run(&config, extensions);
    }
    let huge_pages = HugePages::settle();
    let log = Log::begin(&config.log.filter, config.log.format);
    tell_start(file, &config);
    let warnings = openness::warnings(&config).into_iter().chain(config.memory.excess.clone());
    let warnings = warnings.chain(extension::warnings(extensions, config.document())?);
    warnings.for_each(|warning| tracing::warn!("{warning}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // From before the start: a signal during a long replay is not lost.
    let (mut terminate, mut interrupt, mut hang_up) = {
        let _entered = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?)
    };
    let open_files_max = open_files::raise_limit();

    let bar = ProgressBar::no_length().with_style(
        ProgressStyle::with_template("replaying {bar:40} {human_pos}/{human_len} records {per_sec} {eta}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let files = Files::read(&config)?;
    let mut manager = ServiceManager::of_environment();
    let Served { node, authenticator, secret, identity_keys, auth_hook, archiving, registry } =
        compose::start(&config, &files, open_files_max, extensions, &mut |status| show(&bar, &mut manager, status))?;
    bar.finish_and_clear();
    tracing::info!("huge pages: {huge_pages}");
    announce(&config, &node);
    manager.ready();
    let mut watch = Watch::new(&config.data.dir, open_files_max, &registry);
    let check_sections = Box::new(|document: &Document| {
        extensions.iter().try_for_each(|extension| extension.open(document).map(drop))?;
        extension::warnings(extensions, document)
    });
    let mut reload = Reload::new(file, schema, overrides, config, files, authenticator, secret, log, check_sections);

    watch.look(node.status(), reload.files());
    let mut failure_told = false;
    let pace = LOOK.min(manager.pace());
    runtime.block_on(async {
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hang_up.recv() => {
                    reload.run();
                    watch.reloaded();
                }
                () = tokio::time::sleep(pace) => {
                    manager.alive();
                    watch.look(node.status(), reload.files());
                    if node.status().phase() == Phase::Failed && !failure_told {
                        failure_told = true;
                        manager.failed();
                        tracing::error!(
                            reason = node.status().failure(),
                            "a journal failed: nothing of what it has is decided any more, and other rooms go on. If \
                             it is damaged, stop the process and run tidegate audit, which names what to restore; \
                             else restart it"
                        );
                    }
                }
            }
        }
    });
    manager.stopping();
    drop((identity_keys, auth_hook));
    tracing::info!("stopping: finishing what was accepted");
    if let Some(archiving) = archiving {
        archiving.stop();
    }
    node.stop()?;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Which program this is, and what it was told: what whoever reads the log of a stranger asks first.
fn tell_start(file: Option<&Path>, config: &Config) {
    let absolute = file.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.to_owned()));
    let path = absolute.map_or_else(|| "none, all defaults hold".to_owned(), |file| file.display().to_string());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        config = path,
        pid = std::process::id(),
        log = %config.log.filter,
        "starting"
    );
    let (limits, kept) = (&config.limits, |thing| config.mqtt.holdings[thing].all);
    tracing::info!(
        workers = limits.workers,
        edge_threads = limits.edge_threads,
        ids_filter_bytes_max = limits.ids_filter_bytes_max,
        body_bytes_max = limits.http.body_bytes_max,
        logins_concurrent_max = limits.logins.concurrent_max,
        packet_bytes_max = config.mqtt.limits.packet_bytes_max,
        sessions_max = kept(Thing::Session).count,
        retained_bytes_max = kept(Thing::Retained).bytes,
        queued_bytes_max = kept(Thing::Queued).bytes,
        disk_reserve_bytes = config.data.disk_reserve_bytes,
        memory_bytes_max = config.memory.bytes_max.unwrap_or(0),
        host_memory_bytes = config.memory.host_bytes.unwrap_or(0),
        "limits"
    );
}

fn show(bar: &ProgressBar, manager: &mut ServiceManager, status: &Status) {
    let (done, total) = status.replayed();
    manager.replaying(done, total);
    bar.set_length(total);
    bar.set_position(done);
}

fn announce<P: Send + 'static>(config: &Config, node: &Node<P>) {
    for (name, address) in node.listening() {
        match &**name {
            "http" => {
                let scheme = if config.tls.as_ref().is_some_and(|tls| tls.http) { "https" } else { "http" };
                tracing::info!("HTTP on {scheme}://{address}");
                if config.auth.open_paths.iter().any(|path| **path == *PACING_PAGE) {
                    tracing::info!("the page of campaigns on {scheme}://{address}{PACING_PAGE}");
                }
                if let Some(websocket) = &config.mqtt.websocket {
                    tracing::info!("MQTT over WebSocket on {address}{}", websocket.path);
                }
            }
            "binary" => tracing::info!("binary on {address}"),
            "mqtts" => tracing::info!("MQTT over TLS on {address}"),
            _ => tracing::info!("MQTT on {address}"),
        }
    }
    tracing::info!(data = %config.data.dir.display(), shards = config.data.shards, "serving");
}
