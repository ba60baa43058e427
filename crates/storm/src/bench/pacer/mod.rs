//! `storm bench-pacer`: every case of the pacer bench, our server and the others in turn, for the number of runs; then
//! the medians. The load is that of `storm hammer`, on the same cores as the server.
//!
//! ```text
//!   ours ──▶ Tidegate, binary port: packets of ten, of one, many campaigns, a reload under load
//!      └───▶ Tidegate, HTTP: OpenRTB
//!   peers ─▶ a banker in Redis, a pacer in Go: packets of ten
//! ```

mod ours;
mod peers;

use super::subject::Subject;
use crate::hammer::frames::Frames;
use crate::hammer::openrtb::OpenRtb;
use crate::hammer::{Campaigns, Load, Measured, Target, find, measure};
use crate::peer::banker::Banker;
use crate::peer::pacer_go::PacerGo;
use crate::report::Report;
use crate::tidegate::server::TOKEN;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::time::Duration;

/// Requests in a packet, as exchanges send them.
const PACKET: usize = 10;
/// Requests of OpenRTB a second at which searches begin.
const FIRST_OPENRTB: f64 = 20_000.0;
/// Of these, so many at least are bid on; the places of the others are not bought.
const OPENRTB_BID_PERCENT_MIN: u64 = 30;
/// Users that the requests are of.
const USERS: u32 = 1_000_000;

/// What to measure and how.
#[derive(clap::Args)]
pub struct Settings {
    /// The server that is measured, and where files go.
    #[command(flatten)]
    pub subject: Subject,
    /// The program of the pacer in Go.
    #[arg(long, default_value = "target/peers/pacer-go")]
    pub pacer_go: PathBuf,
    /// Cases to run.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Case::ALL)]
    pub cases: Vec<Case>,
    /// Servers to measure; one that is not installed is left out.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Kind::ALL)]
    pub servers: Vec<Kind>,
    /// Runs of each case; the median is reported.
    #[arg(long, env = "RUNS", default_value_t = 3)]
    pub runs: u32,
    /// Seconds of each load that is measured.
    #[arg(long, default_value_t = 6.0)]
    pub seconds: f64,
    /// Connections.
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    /// Campaigns.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub campaigns: u32,
    /// Campaigns of the case that has many.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub many_campaigns: u32,
    /// Latency of a packet that 99 of 100 must hold at the highest rate, in milliseconds.
    #[arg(long, default_value_t = 2.0)]
    pub p99_ms: f64,
    /// Share of the bids that win.
    #[arg(long, default_value_t = 0.1)]
    pub win_share: f64,
    /// Most packets in a row on one connection.
    #[arg(long, default_value_t = 8)]
    pub burst: u32,
    /// Microseconds from one turn of the load to the next, at least.
    #[arg(long, default_value_t = 100)]
    pub turn_us: u64,
}

/// One row of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Case {
    /// Packets of ten: the highest rate, and the latency at half of it.
    Bids,
    /// Packets of one.
    Singles,
    /// Ten times as many campaigns, with frequency caps; then all of them are reloaded at half of that rate.
    Campaigns,
    /// OpenRTB over HTTP.
    Openrtb,
}

impl Case {
    const ALL: [Case; 4] = [Case::Bids, Case::Singles, Case::Campaigns, Case::Openrtb];

    /// Whether a server takes part.
    fn suits(self, kind: Kind) -> bool {
        match kind {
            Kind::Tidegate => true,
            Kind::Redis => self == Case::Bids,
            Kind::Go => matches!(self, Case::Bids | Case::Openrtb),
        }
    }
}

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Ours.
    Tidegate,
    /// A script in Redis that checks and decrements.
    Redis,
    /// A pacer in Go, with a mutex for each campaign.
    Go,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Tidegate, Kind::Redis, Kind::Go];

    /// What it says it is; for one that is not installed, the error says how to install it.
    fn version(self, settings: &Settings) -> Result<String> {
        match self {
            Kind::Tidegate => settings.subject.version(),
            Kind::Redis => Banker::version(),
            Kind::Go => PacerGo::version(&settings.pacer_go),
        }
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        clap::ValueEnum::to_possible_value(self).expect("no case is skipped").get_name().fmt(f)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        clap::ValueEnum::to_possible_value(self).expect("no server is skipped").get_name().fmt(f)
    }
}

/// Runs the cases and reports.
pub fn run(settings: &Settings) -> Result<()> {
    let bench = Bench { settings, out: settings.subject.out()? };
    let (servers, versions) = bench.installed()?;
    let mut report = Report::default();
    for run in 1..=settings.runs {
        for case in &settings.cases {
            for kind in servers.iter().copied().filter(|kind| case.suits(*kind)) {
                eprintln!("run {run} of {}: {case}, {kind}", settings.runs);
                bench.measure(*case, kind, &mut report).with_context(|| format!("case {case} of {kind}"))?;
            }
        }
    }
    let peers = ["peer_redis_bids_per_s", "peer_go_bids_per_s"].map(str::to_owned);
    report.derive_ratio("bids_to_redis_ratio", "bids_per_s", &peers[0]);
    report.derive_ratio("bids_to_go_ratio", "bids_per_s", &peers[1]);
    report.derive_ratio_to_best("bids_to_best_peer_ratio", "bids_per_s", &peers);
    report.derive_ratio("openrtb_to_go_ratio", "openrtb_bids_per_s", "peer_go_openrtb_bids_per_s");
    report.derive_ratio("bids_10k_campaigns_ratio", "bids_10k_campaigns_per_s", "bids_per_s");
    settings.subject.publish("pacer", &versions, &report)
}

/// What every case needs.
struct Bench<'a> {
    settings: &'a Settings,
    out: PathBuf,
}

impl Bench<'_> {
    /// The servers that can be measured, and what they say they are. One line tells of each that is missing.
    fn installed(&self) -> Result<(Vec<Kind>, Vec<String>)> {
        let (mut kinds, mut versions) = (Vec::new(), Vec::new());
        let takes_part = |kind: Kind| self.settings.cases.iter().any(|case| case.suits(kind));
        for kind in self.settings.servers.iter().copied().filter(|kind| takes_part(*kind)) {
            match kind.version(self.settings) {
                Ok(version) => {
                    kinds.push(kind);
                    versions.push(version);
                }
                Err(error) if kind == Kind::Tidegate => return Err(error),
                Err(error) => eprintln!("{kind} is left out: {error:#}"),
            }
        }
        Ok((kinds, versions))
    }

    fn measure(&self, case: Case, kind: Kind, report: &mut Report) -> Result<()> {
        match (case, kind) {
            (Case::Bids, Kind::Tidegate) => ours::bids(self, report),
            (Case::Singles, _) => ours::singles(self, report),
            (Case::Campaigns, _) => ours::campaigns(self, report),
            (Case::Openrtb, Kind::Go) => peers::go_openrtb(self, report),
            (Case::Openrtb, _) => ours::openrtb(self, report),
            (Case::Bids, Kind::Redis) => peers::redis(self, report),
            (Case::Bids, Kind::Go) => peers::go(self, report),
        }
    }

    /// The load of a search that begins at a rate.
    fn load(&self, bids_per_s: f64) -> Load {
        Load {
            connections: self.settings.connections,
            bids_per_s,
            burst: self.settings.burst,
            turn: Duration::from_micros(self.settings.turn_us),
            warm_up: Duration::from_secs(1),
            measured: Duration::from_secs_f64(self.settings.seconds),
            ..Load::default()
        }
    }

    fn p99_max(&self) -> Duration {
        Duration::from_secs_f64(self.settings.p99_ms / 1e3)
    }

    /// Requests in our frames.
    fn frames(&self, campaigns: &Campaigns, packet: usize) -> Frames {
        Frames::new(campaigns, packet, USERS, 0).winning(self.settings.win_share)
    }

    /// The same for our server, which wants a token.
    fn frames_with_token(&self, campaigns: &Campaigns, packet: usize) -> Frames {
        self.frames(campaigns, packet).with_token(Some(TOKEN.to_owned()))
    }

    /// The highest rate that holds the latency.
    fn peak(&self, target: &Target<'_>, first: f64, frames: impl FnMut() -> Frames) -> Result<Measured> {
        find(target, self.load(first), self.p99_max(), frames)
    }

    /// The same for OpenRTB, one request at a time on each connection.
    fn openrtb_peak(&self, target: &Target<'_>) -> Result<Measured> {
        let load = Load { pipeline: 1, ..self.load(FIRST_OPENRTB) };
        let requests = || OpenRtb::new(USERS, Some(TOKEN)).winning(self.settings.win_share);
        let peak = find(target, load, self.p99_max(), requests)?;
        let (bids, asked) = (peak.answers.bids, peak.answers.requests());
        ensure!(bids * 100 >= asked * OPENRTB_BID_PERCENT_MIN, "of {asked} requests only {bids} were bid on");
        Ok(peak)
    }

    /// What half of a rate brings.
    fn at_half(&self, target: &Target<'_>, peak: f64, mut frames: Frames) -> Result<Measured> {
        measure(target, self.load(peak / 2.0), &mut frames)
    }
}
