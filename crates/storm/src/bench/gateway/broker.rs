//! The brokers that are measured, each started with fresh data for every case.

use crate::bench::subject::Subject;
use crate::mqtt::tls::Certificate;
use crate::peer::{mochi, mosquitto};
use crate::process::{self, Server};
use crate::tidegate::server::Configuration;
use anyhow::Result;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Ours.
    Tidegate,
    /// From Debian.
    Mosquitto,
    /// From the Go packages.
    Mochi,
}

impl Kind {
    /// All, ours first.
    pub const ALL: [Kind; 3] = [Kind::Tidegate, Kind::Mosquitto, Kind::Mochi];

    /// The key of a figure of this broker.
    pub fn key(self, figure: &str) -> String {
        match self {
            Kind::Tidegate => figure.to_owned(),
            Kind::Mosquitto => format!("peer_mosquitto_{figure}"),
            Kind::Mochi => format!("peer_mochi_{figure}"),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        clap::ValueEnum::to_possible_value(self).expect("no broker is skipped").get_name().fmt(f)
    }
}

/// Where the programs are and where files may go.
pub struct Brokers<'a> {
    /// Our server.
    pub subject: &'a Subject,
    /// mochi-mqtt.
    pub mochi: PathBuf,
    /// Configurations, data and logs.
    pub out: PathBuf,
    /// For those that speak TLS.
    pub certificate: Certificate,
}

/// A running broker; dropping it ends it.
pub struct Broker {
    server: Server,
    /// MQTT over TCP.
    pub tcp: SocketAddr,
    /// MQTT over TLS.
    pub tls: Option<SocketAddr>,
    /// MQTT over WebSocket, and the path at which it is asked for.
    pub websocket: Option<(SocketAddr, &'static str)>,
}

impl Brokers<'_> {
    /// Starts one without data.
    pub fn start(&self, kind: Kind) -> Result<Broker> {
        let directory = self.out.join(kind.to_string());
        if kind == Kind::Tidegate {
            return self.start_tidegate(&directory);
        }
        process::fresh_directory(&directory)?;
        let (tcp, other) = (process::free_address()?, process::free_address()?);
        match kind {
            Kind::Mosquitto => {
                let server = mosquitto::start(&directory, tcp, other, &self.certificate)?;
                Ok(Broker { server, tcp, tls: Some(other), websocket: None })
            }
            _ => {
                let server = mochi::start(&self.mochi, &directory, tcp, other)?;
                Ok(Broker { server, tcp, tls: None, websocket: Some((other, "/")) })
            }
        }
    }

    fn start_tidegate(&self, directory: &Path) -> Result<Broker> {
        let tls = process::free_address()?;
        let configuration = Configuration::Gateway {
            tls,
            cert_file: self.certificate.cert_file.clone(),
            key_file: self.certificate.key_file.clone(),
        };
        let tidegate = self.subject.start(directory, configuration)?;
        let (tcp, http) = (tidegate.mqtt(), tidegate.http());
        Ok(Broker { server: tidegate.into_server(), tcp, tls: Some(tls), websocket: Some((http, "/mqtt")) })
    }

    /// What a broker says it is.
    pub fn version(&self, kind: Kind) -> Result<String> {
        match kind {
            Kind::Tidegate => self.subject.version(),
            Kind::Mosquitto => mosquitto::version(),
            Kind::Mochi => mochi::version(&self.mochi),
        }
    }
}

impl Broker {
    /// Processor time it has used.
    pub fn processor_time(&self) -> Result<Duration> {
        self.server.processor_time()
    }

    /// Resident memory once it no longer changes: what a broker frees or fills in the background is counted.
    pub fn settled_bytes(&self) -> Result<u64> {
        const STILL: Duration = Duration::from_millis(1_500);
        const STEP: Duration = Duration::from_millis(100);
        let mut last = self.server.resident_bytes()?;
        let mut still = Duration::ZERO;
        // A broker that never rests is measured as it is.
        for _ in 0..200 {
            std::thread::sleep(STEP);
            let now = self.server.resident_bytes()?;
            still = if now == last { still + STEP } else { Duration::ZERO };
            last = now;
            if still >= STILL {
                break;
            }
        }
        Ok(last)
    }
}
