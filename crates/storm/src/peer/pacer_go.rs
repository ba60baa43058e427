//! The pacer in Go of `tests/peers/pacer`, which answers our frames, and OpenRTB over HTTP.

use crate::hammer::Campaigns;
use crate::process::{self, Server};
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A running one.
pub struct PacerGo {
    server: Server,
    address: SocketAddr,
    http: SocketAddr,
}

impl PacerGo {
    /// Starts it on a free port; it has all campaigns up to the highest number.
    pub fn start(program: &Path, log: &Path, campaigns: &Campaigns) -> Result<PacerGo> {
        let (address, http) = (process::free_address()?, process::free_address()?);
        let highest = campaigns.0.iter().max().context("there is no campaign")?;
        let mut command = Command::new(program);
        command.args(["--listen", &address.to_string(), "--http", &http.to_string()]);
        command.args(["--campaigns", &highest.to_string()]);
        let mut server = Server::start("pacer-go", &mut command, log)?;
        server.wait_until(Duration::from_secs(10), || process::accepts(address) && process::accepts(http))?;
        Ok(PacerGo { server, address, http })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it answers OpenRTB.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// Processor time it has used.
    pub fn processor_time(&self) -> Result<Duration> {
        self.server.processor_time()
    }

    /// With which Go it was built.
    pub fn version(program: &Path) -> Result<String> {
        let missing = || format!("no pacer in Go at {}: `scripts/setup.sh pacer_go` builds it", program.display());
        program.canonicalize().with_context(missing)?;
        let output = Command::new("go").arg("version").arg(program).output().context("Go is not installed")?;
        let text = String::from_utf8(output.stdout)?;
        let version = text.trim().rsplit(' ').next().context("no version")?.trim_start_matches("go");
        Ok(format!("a pacer in Go {version}"))
    }
}
