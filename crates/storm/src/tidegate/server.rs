//! A Tidegate server of the bench: fresh data on the real disk, free ports, ended by its process id.

use super::http;
use crate::process::{self, Server};
use crate::sqs;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The service token that the bench's configuration grants everything.
pub const TOKEN: &str = "storm-service-token";
/// The token of another service, which may ask as much.
pub const OTHER_TOKEN: &str = "other-service-token";

/// A replay of a large journal may take its time; a server that is not up after this has failed.
const READY_TIME_MAX: Duration = Duration::from_secs(300);

/// Time between snapshots of a measured server.
pub const SNAPSHOT_INTERVAL_S: u64 = 20;

/// Where things are.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The server's binary.
    pub program: PathBuf,
    /// Configuration, data and log go here.
    pub directory: PathBuf,
    /// What it is told.
    pub configuration: Configuration,
}

/// What a bench needs the server to be.
#[derive(Clone, Debug)]
pub enum Configuration {
    /// A ledger.
    Ledger {
        /// Ledger shards of a new data directory.
        shards: u16,
        /// Seconds between snapshots; [`SNAPSHOT_INTERVAL_S`] where nothing else is measured.
        snapshot_interval_s: u64,
    },
    /// A node whose queue is forwarded to that of the same name of another node.
    Linked {
        /// The queue.
        queue: &'static str,
        /// The binary port of the other one.
        to: SocketAddr,
    },
    /// A pacer.
    Pacer,
    /// A broker.
    Gateway {
        /// Where MQTT over TLS listens.
        tls: SocketAddr,
        /// Its certificate, PEM.
        cert_file: PathBuf,
        /// The key, PEM.
        key_file: PathBuf,
    },
}

/// In the line of the server's log that says what a shard of the ledger replayed.
const RECOVERED: &str = "recovered family=\"ledger\"";

/// What a start read of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Records behind the snapshot.
    pub events: u64,
    /// Records before it that were read for the index of ids alone.
    pub ids_only: u64,
}

/// A number in a line of the server's log.
fn field(line: &str, name: &str) -> Result<u64> {
    let mut fields = line.split_whitespace().filter_map(|field| field.split_once('='));
    let (_, value) = fields.find(|(of, _)| *of == name).with_context(|| format!("no {name} in: {line}"))?;
    value.parse().with_context(|| format!("{name} is no number in: {line}"))
}

/// A running server.
pub struct Tidegate {
    server: Server,
    paths: Paths,
    binary: SocketAddr,
    http: SocketAddr,
    mqtt: SocketAddr,
}

impl Tidegate {
    /// Starts with no data.
    pub fn start_fresh(paths: &Paths) -> Result<Tidegate> {
        process::fresh_directory(&paths.directory)?;
        std::fs::write(paths.config(), paths.configuration.text())?;
        Ok(Tidegate::start(paths.clone())?.0)
    }

    /// Kills it, lets `between` at the data, starts it again; also how long it took until it was healthy.
    pub fn restart(self, between: impl FnOnce(&Path) -> Result<()>) -> Result<(Tidegate, Duration)> {
        let paths = self.paths.clone();
        self.server.kill()?;
        between(&paths.data())?;
        Tidegate::start(paths)
    }

    fn start(paths: Paths) -> Result<(Tidegate, Duration)> {
        let (binary, http, mqtt) = (process::free_address()?, process::free_address()?, process::free_address()?);
        let mut command = Command::new(&paths.program);
        command.arg("serve").arg("--config").arg(paths.config()).arg("--data").arg(paths.data());
        command.args(["--binary", &binary.to_string(), "--http", &http.to_string(), "--mqtt", &mqtt.to_string()]);
        let started = Instant::now();
        let mut server = Server::start("tidegate", &mut command, &paths.directory.join("log"))?;
        server.wait_until(READY_TIME_MAX, || http::is_healthy(http))?;
        Ok((Tidegate { server, paths, binary, http, mqtt }, started.elapsed()))
    }

    /// The binary port.
    pub fn binary(&self) -> SocketAddr {
        self.binary
    }

    /// The HTTP port.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// The MQTT port.
    pub fn mqtt(&self) -> SocketAddr {
        self.mqtt
    }

    /// The process alone.
    pub fn into_server(self) -> Server {
        self.server
    }

    /// Its data directory.
    pub fn data(&self) -> PathBuf {
        self.paths.data()
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        self.server.resident_bytes()
    }

    /// Bytes that it has written to disks.
    pub fn written_bytes(&self) -> Result<u64> {
        self.server.written_bytes()
    }

    /// Processor time it has used.
    pub fn processor_time(&self) -> Result<Duration> {
        self.server.processor_time()
    }

    /// For how long its workers were ready to run and had no core, since it started.
    pub fn workers_without_a_core(&self) -> Result<Duration> {
        self.server.time_without_a_core("worker-")
    }

    /// What its last start replayed of the ledger, over all shards, as its log says.
    pub fn replayed(&self) -> Result<Replayed> {
        let log = std::fs::read_to_string(self.paths.directory.join("log"))?;
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(RECOVERED)).collect();
        let shards = match self.paths.configuration {
            Configuration::Ledger { shards, .. } => usize::from(shards),
            Configuration::Linked { .. } | Configuration::Pacer | Configuration::Gateway { .. } => 1,
        };
        let last = lines.len().checked_sub(shards).context("the server's log does not say what it replayed")?;
        let mut sum = Replayed::default();
        for line in &lines[last..] {
            sum.events += field(line, "records")?;
            sum.ids_only += field(line, "records_for_index_only")?;
        }
        Ok(sum)
    }

    /// What the program says it is.
    pub fn version(program: &Path) -> Result<String> {
        let output = Command::new(program).arg("--version").output();
        let output =
            output.with_context(|| format!("could not run {}: `make release` builds it", program.display()))?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

impl Paths {
    fn config(&self) -> PathBuf {
        self.directory.join("config.toml")
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }
}

impl Configuration {
    fn text(&self) -> String {
        match self {
            // All bounds as the server ships, but for the number of shards. The first snapshot comes after a run of the
            // usual size, so that a restart finds one of the whole journal; in longer runs it is written during the
            // run, as in any server.
            Configuration::Ledger { shards, snapshot_interval_s } => format!(
                "[data]\n\
                 shards = {shards}\n\
                 snapshot_interval_s = {snapshot_interval_s}\n\
                 \n\
                 [[service]]\n\
                 name = \"storm\"\n\
                 token = \"{TOKEN}\"\n\
                 grants = [\"*\"]\n\
                 \n\
                 [[service]]\n\
                 name = \"other\"\n\
                 token = \"{OTHER_TOKEN}\"\n\
                 grants = [\"*\"]\n\
                 \n\
                 [[sqs_key]]\n\
                 access_key = \"{}\"\n\
                 secret_key = \"{}\"\n\
                 service = \"storm\"\n",
                sqs::KEY.id,
                sqs::KEY.secret
            ),
            Configuration::Linked { queue, to } => format!(
                "[[queue]]\n\
                 name = \"{queue}\"\n\
                 \n\
                 [[link]]\n\
                 name = \"onward\"\n\
                 from = \"{queue}\"\n\
                 address = \"{to}\"\n\
                 to = \"{queue}\"\n\
                 token = \"{TOKEN}\"\n\
                 \n\
                 [[service]]\n\
                 name = \"storm\"\n\
                 token = \"{TOKEN}\"\n\
                 grants = [\"*\"]\n"
            ),
            // All bounds as the server ships.
            Configuration::Pacer => format!(
                "[pacing.openrtb]\n\
                 notice_base_url = \"http://bench\"\n\
                 \n\
                 [[service]]\n\
                 name = \"storm\"\n\
                 token = \"{TOKEN}\"\n\
                 grants = [\"*\"]\n"
            ),
            // All bounds as the server ships, but those of one address, which here is that of all clients. A path of a
            // file is written as TOML writes it literally.
            Configuration::Gateway { tls, cert_file, key_file } => format!(
                "[listen]\n\
                 mqtts = \"{tls}\"\n\
                 \n\
                 [tls]\n\
                 cert_file = '{}'\n\
                 key_file = '{}'\n\
                 \n\
                 [listener.mqtt]\n\
                 anonymous = true\n\
                 \n\
                 [listener.mqtts]\n\
                 anonymous = true\n\
                 \n\
                 [listener.websocket]\n\
                 anonymous = true\n\
                 \n\
                 [limits]\n\
                 tls_handshakes_per_address_per_s = 0\n\
                 \n\
                 [kept.address]\n\
                 sessions_max = 0\n\
                 sessions_bytes_max = 0\n\
                 filters_max = 0\n\
                 filters_bytes_max = 0\n\
                 retained_max = 0\n\
                 retained_bytes_max = 0\n\
                 queued_max = 0\n\
                 queued_bytes_max = 0\n\
                 unread_bytes_max = 0\n",
                cert_file.display(),
                key_file.display()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_line_of_the_log() {
        let line = "INFO tidegate_runtime::recovery: recovered family=\"ledger\" shard=0 sequence=15 records=4 \
                    records_for_index_only=7 took_ms=45";
        assert!(line.contains(RECOVERED));
        assert_eq!((field(line, "records").unwrap(), field(line, "records_for_index_only").unwrap()), (4, 7));
        assert!(field(line, "bytes").is_err());
    }
}
