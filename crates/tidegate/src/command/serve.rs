//! `tidegate serve`

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use tidegate_runtime::{Node, Phase, Status};
use tokio::signal::unix::{SignalKind, signal};

use super::reload::{Files, Reload};
use crate::compose::{self, Parcels, Served};
use crate::config::{Config, Overrides, schema};
use crate::extension::Extension;
use crate::huge_pages::HugePages;
use crate::open_files;

/// How often a serving process looks whether a journal has failed, to say so once.
const LOOK: Duration = Duration::from_millis(500);

/// Serves until SIGTERM or SIGINT, then stops gracefully. SIGHUP reads users, rules and certificates again.
pub fn run<P: Parcels>(
    file: Option<&Path>,
    overrides: &Overrides,
    extensions: &[&dyn Extension<P>],
) -> Result<ExitCode> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_env("TIDEGATE_LOG").unwrap_or_else(|_| "info".into()))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        // A log collector that ends, or a full disk, must not end the server. By default, the library would report the
        // error on the same stream.
        .log_internal_errors(false)
        .init();
    let huge_pages = HugePages::settle();
    let sections: Vec<_> = extensions.iter().map(|extension| extension.sections()).collect();
    let schema = schema(&sections);
    let config = Config::load(file, &schema, overrides)?;
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
    let Served { node, authenticator, secret, archiving } =
        compose::start(&config, &files, open_files_max, extensions, &mut |status| show(&bar, status))?;
    bar.finish_and_clear();
    tracing::info!("huge pages: {huge_pages}");
    announce(&config, &node);
    let mut reload = Reload::new(file, schema, overrides, config, files, authenticator, secret);

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
                        tracing::error!(
                            reason = node.status().failure(),
                            "a journal failed; nothing is decided any more. If it is damaged, stop the process and \
                             run tidegate audit, which names what to restore; else restart it"
                        );
                    }
                }
            }
        }
    });
    tracing::info!("stopping: finishing what was accepted");
    if let Some(archiving) = archiving {
        archiving.stop();
    }
    node.stop()?;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

fn show(bar: &ProgressBar, status: &Status) {
    let (done, total) = status.replayed();
    bar.set_length(total);
    bar.set_position(done);
}

fn announce<P: Send + 'static>(config: &Config, node: &Node<P>) {
    for (name, address) in node.listening() {
        match &**name {
            "http" => {
                let scheme = if config.tls.as_ref().is_some_and(|tls| tls.http) { "https" } else { "http" };
                tracing::info!("HTTP on {scheme}://{address}");
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
