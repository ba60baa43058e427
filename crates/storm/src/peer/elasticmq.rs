//! ElasticMQ, which people test programs for SQS with.
//!
//! In its favour: as its authors ship it, it keeps all in memory and syncs nothing; it checks no signature.

use crate::process::{self, Server};
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The archive that tells its version, before that version.
const ARCHIVE: &str = "elasticmq-server_2.13-";
/// A virtual machine takes its time to start.
const READY_TIME_MAX: Duration = Duration::from_secs(60);

/// A server of our own.
pub struct Elasticmq {
    server: Server,
    address: SocketAddr,
}

impl Elasticmq {
    /// Starts it on a free port with one queue.
    pub fn start(archives: &Path, directory: &Path, queue: &str) -> Result<Elasticmq> {
        process::fresh_directory(directory)?;
        let address = process::free_address()?;
        let path = directory.join("elasticmq.conf");
        std::fs::write(&path, configuration(address, queue))?;
        let mut command = Command::new("java");
        command.arg(format!("-Dconfig.file={}", path.display())).arg("-cp").arg(archives.join("*"));
        command.arg("org.elasticmq.server.Main");
        let mut server = Server::start("elasticmq", &mut command, &directory.join("log"))?;
        server.wait_until(READY_TIME_MAX, || process::accepts(address))?;
        Ok(Elasticmq { server, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Processor time it has used.
    pub fn processor_time(&self) -> Result<Duration> {
        self.server.processor_time()
    }

    /// What it is, as the name of its archive says.
    pub fn version(archives: &Path) -> Result<String> {
        let missing = || format!("no ElasticMQ in {}: `scripts/setup.sh elasticmq` installs it", archives.display());
        Command::new("java").arg("-version").output().context("Java is not installed: `scripts/setup.sh elasticmq`")?;
        let files = std::fs::read_dir(archives).with_context(missing)?.flatten();
        let mut names = files.filter_map(|file| file.file_name().into_string().ok());
        let version = names.find_map(|name| Some(name.strip_prefix(ARCHIVE)?.strip_suffix(".jar")?.to_owned()));
        Ok(format!("ElasticMQ {}", version.with_context(missing)?))
    }
}

fn configuration(address: SocketAddr, queue: &str) -> String {
    format!(
        "include classpath(\"application.conf\")\n\
         node-address {{ protocol = http, host = \"127.0.0.1\", port = {port}, context-path = \"\" }}\n\
         rest-sqs {{ enabled = true, bind-hostname = \"127.0.0.1\", bind-port = {port} }}\n\
         rest-stats {{ enabled = false }}\n\
         queues {{ {queue} {{ }} }}\n",
        port = address.port()
    )
}
