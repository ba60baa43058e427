//! mochi-mqtt, a broker in Go that uses all cores: the program that its authors ship, with its defaults, which cannot
//! be changed from outside. One of them matters: it drops messages when more than 8,192 wait for a client, so no case
//! lets more wait.

use crate::process::{self, Server};
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Starts it with a plain and a WebSocket listener.
pub fn start(program: &Path, directory: &Path, tcp: SocketAddr, websocket: SocketAddr) -> Result<Server> {
    let mut command = Command::new(program);
    command.args(["-tcp", &tcp.to_string(), "-ws", &websocket.to_string()]);
    command.args(["-info", &process::free_address()?.to_string()]);
    let mut server = Server::start("mochi", &mut command, &directory.join("log"))?;
    server.wait_until(Duration::from_secs(10), || process::accepts(tcp) && process::accepts(websocket))?;
    Ok(server)
}

/// What it is, as its module says.
pub fn version(program: &Path) -> Result<String> {
    let output = Command::new("go").arg("version").arg("-m").arg(program).output().context("Go is not installed")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let module = text.lines().find_map(|line| line.trim().strip_prefix("mod\t")).context("mochi says no version")?;
    let version = module.split('\t').nth(1).unwrap_or("?");
    Ok(format!("mochi-mqtt {version}"))
}
