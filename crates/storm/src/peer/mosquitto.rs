//! Mosquitto as Debian ships it: one thread, one epoll loop.
//!
//! In its favour: no bound on messages that wait for a client or are in flight (it would drop messages, and a run with
//! losses fails), no Nagle, no log. Its journal of sessions is a file written on exit and every half hour, so its
//! acknowledgement of a message for a durable session promises less than ours: nothing is synced.

use crate::mqtt::tls::Certificate;
use crate::process::{self, Server};
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Where Debian puts it, which is not on everyone's path.
const PROGRAM: &str = "/usr/sbin/mosquitto";

/// Starts it with a plain and a TLS listener, its files in `directory`.
pub fn start(directory: &Path, tcp: SocketAddr, tls: SocketAddr, certificate: &Certificate) -> Result<Server> {
    let (path, data) = (directory.join("mosquitto.conf"), directory.display());
    let configuration = format!(
        "user root\n\
         allow_anonymous true\n\
         log_dest none\n\
         persistence true\n\
         persistence_location {data}/\n\
         max_inflight_messages 0\n\
         max_queued_messages 0\n\
         set_tcp_nodelay true\n\
         listener {} 127.0.0.1\n\
         listener {} 127.0.0.1\n\
         certfile {}\n\
         keyfile {}\n\
         tls_version tlsv1.3\n",
        tcp.port(),
        tls.port(),
        certificate.cert_file.display(),
        certificate.key_file.display()
    );
    std::fs::write(&path, configuration)?;
    let mut command = Command::new(PROGRAM);
    command.arg("-c").arg(&path);
    let mut server = Server::start("mosquitto", &mut command, &directory.join("log"))?;
    server.wait_until(Duration::from_secs(10), || process::accepts(tcp))?;
    Ok(server)
}

/// What it is.
pub fn version() -> Result<String> {
    let output = Command::new(PROGRAM).arg("-h").output().context("mosquitto is not installed")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().nth(2).context("mosquitto says no version")?;
    Ok(format!("Mosquitto {version}"))
}
