//! `storm hammer`: an open load of bid requests for a pacer, and the search for the highest rate that holds a latency.
//!
//! ```text
//!   Schedule ──▶ a packet is due ──▶ Protocol::ask ──▶ outbox ──▶ socket        one thread, one poll loop
//!      Measured ◀── latency from when it was due ◀── Protocol::answer ◀── socket
//!                     └─▶ some bids win ──▶ Protocol::notify ──▶ outbox
//! ```
//!
//! Why open: a client that waits for answers slows down with the server, and then measures fast moments more often than
//! slow ones (coordinated omission). Here a packet has a time at which it is due, whatever became of those before it.
//!
//! Why turns: client and server share the cores. A client that wakes for each packet takes from the server the
//! processor time that is to be measured. What is due or has come within a turn is handled together; the turn is a part
//! of the latency that is reported.
//!
//! Invariant: what is asked depends on the flags alone, never on chance.

mod answers;
mod campaigns;
mod connection;
pub mod frames;
mod load;
mod lottery;
pub mod openrtb;
mod protocol;
mod search;
mod summary;
#[cfg(test)]
mod tests;

pub use answers::Answers;
pub use campaigns::Campaigns;
pub use load::{Load, Measured, Target, measure};
pub use protocol::{Answer, Protocol, To, Won};
pub use search::find;
pub use summary::Summary;

use anyhow::{Context, Result, ensure};
use frames::Frames;
use openrtb::OpenRtb;
use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_wire::limits::PACER_ITEMS_MAX;

/// Bid requests a second: more can be neither sent nor counted in time.
const RATE_MAX: f64 = 1e8;

/// What to ask, how often, and of whom.
#[derive(clap::Args)]
pub struct Settings {
    /// The binary port of the pacer; with --openrtb, its HTTP port.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7420")]
    address: String,
    /// Asks in JSON of OpenRTB 2.6 over HTTP. A campaign bids that buys the sites, apps and sizes of these requests:
    /// site-0.example, com.example.app0, 300x250 and so on. A win is billed by the burl of its bid.
    #[arg(long, conflicts_with_all = ["campaigns", "packet", "key"])]
    openrtb: bool,
    /// With --openrtb: most requests without an answer on one connection. Exchanges send the next one behind the
    /// answer.
    #[arg(long, requires = "openrtb", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pipeline: u16,
    /// The token of a service that may ask for bids. Without one no Hello is sent, as for the peers of the bench.
    #[arg(long)]
    token: Option<String>,
    /// Numbers of the campaigns, such as 1-1000 or 3,7,20-29, as GET /v1/campaigns/{id} says them.
    #[arg(long, default_value = "1-1000")]
    campaigns: Campaigns,
    /// Bid requests in a packet.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=PACER_ITEMS_MAX as i64))]
    packet: u16,
    /// Connections.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Bid requests a second. With --find: where the search begins.
    #[arg(long, value_name = "BIDS_PER_S", default_value_t = 100_000.0)]
    rate: f64,
    /// Searches the highest rate that holds --p99-ms, and measures it.
    #[arg(long)]
    find: bool,
    /// Latency of a packet, from when it was due, that 99 of 100 must hold.
    #[arg(long, default_value_t = 2.0)]
    p99_ms: f64,
    /// Seconds that are measured, after one that is not.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Share of the bids that win: their tokens come back with a second price.
    #[arg(long, default_value_t = 0.1)]
    win_share: f64,
    /// Users that the requests are of.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    users: u32,
    /// The hash that all requests carry as what campaigns are aimed at. 0: none.
    #[arg(long, default_value_t = 0)]
    key: u64,
    /// Most packets in a row on one connection; more that are due together go to the next.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    burst: u16,
    /// Microseconds from one turn of the load to the next, at least.
    #[arg(long, default_value_t = 100)]
    turn_us: u64,
    /// Writes the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures, and prints what came of it.
pub fn run(settings: &Settings) -> Result<()> {
    settings.check()?;
    // A file that cannot be written is said before the load, not behind it.
    let mut json = settings.json.as_ref().map(|path| create(path)).transpose()?;
    // The server may be on another machine, so what it costs there is not known.
    let target = Target { address: resolve(&settings.address)?, processor_time: &|| Ok(Duration::ZERO) };
    let measured = match settings.openrtb {
        true => settings
            .measure(&target, || OpenRtb::new(settings.users, settings.token.as_deref()).winning(settings.win_share))?,
        false => settings.measure(&target, || {
            let frames = Frames::new(&settings.campaigns, usize::from(settings.packet), settings.users, settings.key);
            frames.winning(settings.win_share).with_token(settings.token.clone())
        })?,
    };
    let summary = Summary::of(&measured);
    if let Some((file, path)) = &mut json {
        let text = serde_json::to_string_pretty(&summary.json())?;
        writeln!(file, "{text}").with_context(|| format!("could not write {}", path.display()))?;
    }
    std::io::stdout().write_all(summary.table().as_bytes()).context("could not write the figures to the output")
}

/// A new file for the figures.
fn create(path: &Path) -> Result<(File, &Path)> {
    let file = File::create(path).with_context(|| format!("--json {}: could not make this file", path.display()))?;
    Ok((file, path))
}

impl Settings {
    fn check(&self) -> Result<()> {
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        ensure!(is_positive(self.rate), "--rate {}: give the bid requests a second, such as 1e6", self.rate);
        ensure!(self.rate <= RATE_MAX, "--rate {}: give at most {RATE_MAX:e}", self.rate);
        ensure!(is_positive(self.seconds), "--seconds {}: give how long to measure, such as 10", self.seconds);
        ensure!(is_positive(self.p99_ms), "--p99-ms {}: give a latency in milliseconds, such as 2", self.p99_ms);
        ensure!((0.0..=1.0).contains(&self.win_share), "--win-share {}: give a share from 0 to 1", self.win_share);
        Ok(())
    }

    fn measure<P: Protocol>(&self, target: &Target<'_>, protocol: impl Fn() -> P) -> Result<Measured> {
        match self.find {
            true => find(target, self.load(), Duration::from_secs_f64(self.p99_ms / 1e3), protocol),
            false => measure(target, self.load(), &mut protocol()),
        }
    }

    fn load(&self) -> Load {
        Load {
            connections: usize::from(self.connections),
            bids_per_s: self.rate,
            burst: u32::from(self.burst),
            pipeline: if self.openrtb { usize::from(self.pipeline) } else { usize::MAX },
            turn: Duration::from_micros(self.turn_us),
            warm_up: Duration::from_secs(1),
            measured: Duration::from_secs_f64(self.seconds),
            ..Load::default()
        }
    }
}

fn resolve(address: &str) -> Result<SocketAddr> {
    let mut addresses = address
        .to_socket_addrs()
        .with_context(|| format!("--address {address}: give the binary port as HOST:PORT, such as 127.0.0.1:7420"))?;
    addresses.next().with_context(|| format!("--address {address}: the host has no address"))
}
