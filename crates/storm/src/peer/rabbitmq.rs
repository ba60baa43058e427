//! RabbitMQ as Debian ships it, without plugins: one node with one durable queue, persistent messages, publisher
//! confirms.
//!
//! In its favour: receivers acknowledge many messages at once; it has most of the memory before it slows publishers.

use super::amqp::{self, Consumes, Publishes};
use super::queue::QueueServer;
use super::window::WINDOW;
use crate::load::Pressure;
use crate::process::{self, Server};
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Where Debian puts it: what is on the path insists on a user of its own.
const PROGRAM: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const DEFAULTS: &str = "/usr/lib/rabbitmq/bin/rabbitmq-defaults";
const READY_TIME_MAX: Duration = Duration::from_secs(90);
const QUEUE: &str = "bench";

/// How the queue keeps its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueType {
    /// In a replicated log, here of one node.
    Quorum,
    /// In an index and a store.
    Classic,
}

impl QueueType {
    fn name(self) -> &'static str {
        match self {
            QueueType::Quorum => "quorum",
            QueueType::Classic => "classic",
        }
    }
}

/// A node of our own, and the names of nodes that it needs.
pub struct Rabbitmq {
    _server: Server,
    _names: Server,
    address: SocketAddr,
}

impl Rabbitmq {
    /// Starts it on a free port with its files in `directory`, and makes the queue.
    pub fn start(directory: &Path, queue_type: QueueType) -> Result<Rabbitmq> {
        process::fresh_directory(directory)?;
        let (address, names_port) = (process::free_address()?, process::free_address()?.port().to_string());
        // Erlang would start it as a daemon, which would stay.
        let mut epmd = Command::new("epmd");
        epmd.args(["-port", &names_port]).env("ERL_EPMD_ADDRESS", "127.0.0.1");
        let names = Server::start("epmd", &mut epmd, &directory.join("epmd.log"))?;
        let mut command = command(directory, address)?;
        command.env("ERL_EPMD_PORT", names_port).env("ERL_EPMD_ADDRESS", "127.0.0.1");
        let mut server = Server::start("rabbitmq-server", &mut command, &directory.join("log"))?;
        server.wait_until(READY_TIME_MAX, || amqp::declare(address, QUEUE, queue_type.name()).is_ok())?;
        Ok(Rabbitmq { _server: server, _names: names, address })
    }

    /// What it is, as Debian's package says.
    pub fn version() -> Result<String> {
        let missing = "RabbitMQ is not installed: `scripts/setup.sh rabbitmq` installs it";
        let path = std::fs::canonicalize(DEFAULTS).context(missing)?;
        let folder =
            path.iter().filter_map(|part| part.to_str()).find_map(|part| part.strip_prefix("rabbitmq_server-"));
        Ok(format!("RabbitMQ {}", folder.unwrap_or("?")))
    }
}

fn command(directory: &Path, address: SocketAddr) -> Result<Command> {
    let write = |name: &str, text: &str| -> Result<_> {
        let path = directory.join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    };
    let configuration = format!(
        "listeners.tcp.1 = {address}\n\
         log.console.level = warning\n\
         log.file.level = warning\n\
         vm_memory_high_watermark.relative = 0.7\n\
         disk_free_limit.absolute = 50MB\n"
    );
    let mut command = Command::new(PROGRAM);
    command
        .env("HOME", directory)
        // The program itself and no shell that waits for it, so that its id ends it.
        .env("RABBITMQ_ALLOW_INPUT", "true")
        .env("RABBITMQ_NODENAME", "storm@localhost")
        .env("RABBITMQ_DIST_PORT", process::free_address()?.port().to_string())
        .env("RABBITMQ_CONFIG_FILE", write("rabbitmq.conf", &configuration)?)
        .env("RABBITMQ_CONF_ENV_FILE", write("rabbitmq-env.conf", "")?)
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", write("enabled_plugins", "[].\n")?)
        .env("RABBITMQ_MNESIA_BASE", directory.join("data"))
        .env("RABBITMQ_LOG_BASE", directory.join("logs"))
        .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-noinput");
    Ok(command)
}

impl QueueServer for Rabbitmq {
    const RECEIVERS: Pressure = Pressure { connections: 16, in_flight: WINDOW as usize };
    type Sends = Publishes;
    type Receives = Consumes;

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn sends(&self, messages: u64, bytes: usize) -> Publishes {
        Publishes::new(QUEUE, messages, bytes)
    }

    fn receives(&self, messages: u64) -> Consumes {
        Consumes::new(QUEUE, messages)
    }
}
