//! `storm bench-gateway`: every case of the gateway bench, our broker and the others in turn, for the number of runs;
//! then the medians. Every case starts a broker with fresh data and fails if a message was lost, repeated or overtaken.

mod broker;
mod connects;
mod fanout;
mod idle;
mod matching;
mod pairs;
mod sessions;

use super::subject::{Subject, program};
use crate::mqtt::drive::{Measured, Plan};
use crate::mqtt::tls::Certificate;
use crate::report::Report;
use anyhow::{Context, Result};
use broker::{Brokers, Kind};
use idle::Transport;
use pairs::{Guarantee, OpenLoad};
use std::path::PathBuf;
use std::time::Duration;

/// Messages that come one by one, from clients that know nothing of each other.
const PAIRS_50K: OpenLoad = OpenLoad { name: "pairs_50k_latency", per_second: 50_000.0, pairs: 100, burst: 1 };
/// Four times as many.
const PAIRS_200K: OpenLoad = OpenLoad { name: "pairs_200k_latency", per_second: 200_000.0, ..PAIRS_50K };

/// What to measure and how.
#[derive(clap::Args)]
pub struct Settings {
    /// The server that is measured, and where files go.
    #[command(flatten)]
    pub subject: Subject,
    /// The program of mochi-mqtt.
    #[arg(long, default_value = "target/peers/mochi")]
    pub mochi: PathBuf,
    /// Cases to run.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Case::ALL)]
    pub cases: Vec<Case>,
    /// Brokers to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Kind::ALL)]
    pub brokers: Vec<Kind>,
    /// Runs of each case; the median is reported.
    #[arg(long, env = "RUNS", default_value_t = 3)]
    pub runs: u32,
    /// Seconds of a closed or open load that are measured, after one that is not.
    #[arg(long, default_value_t = 4.0)]
    pub seconds: f64,
    /// Clients of the idle and connects cases. A process that may open 20,000 files serves 17,604.
    #[arg(long, default_value_t = 17_000)]
    pub clients: usize,
    /// Subscribers of the fan-out.
    #[arg(long, default_value_t = 1_000)]
    pub subscribers: usize,
    /// Messages that the slowest subscriber of the fan-out may be behind.
    #[arg(long, default_value_t = 1_000)]
    pub fanout_window: u64,
    /// Pairs.
    #[arg(long, default_value_t = 500)]
    pub pairs: usize,
    /// Messages of one pair that are on their way.
    #[arg(long, default_value_t = 64)]
    pub window: u64,
    /// Microseconds from one turn of a closed load to the next.
    #[arg(long, default_value_t = 1_000)]
    pub turn_us: u64,
    /// Messages in a row from one publisher of the latency case: as many as go out together in the closed case.
    #[arg(long, default_value_t = 32)]
    pub burst: u64,
    /// Messages per second of the latency case, instead of half of what the pairs reached.
    #[arg(long)]
    pub latency_load: Option<f64>,
    /// Wildcard subscriptions of the matching case, which is compared with one of 1,000.
    #[arg(long, default_value_t = 200_000)]
    pub subscriptions: u32,
}

impl Settings {
    fn plan(&self) -> Plan {
        Plan {
            warm_up: Duration::from_secs(1),
            measured: Duration::from_secs_f64(self.seconds),
            turn: Duration::from_micros(self.turn_us),
        }
    }
}

/// One row of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Case {
    /// Memory of an idle client over TCP.
    Idle,
    /// Over TLS 1.3.
    IdleTls,
    /// Over WebSocket.
    IdleWs,
    /// Two million sessions in one process, over transports in memory.
    Sessions,
    /// Clients connecting.
    Connects,
    /// One publisher, a thousand subscribers.
    Fanout,
    /// 500 pairs, QoS 0; then, open, at half of their load: latency.
    PairsQos0,
    /// 100 pairs, QoS 0, 50,000 messages due in a second: latency.
    #[value(name = "pairs-50k")]
    Pairs50k,
    /// The same with 200,000 messages, which only some brokers take.
    #[value(name = "pairs-200k")]
    Pairs200k,
    /// 500 pairs, QoS 1, clean sessions.
    PairsQos1,
    /// 500 pairs, QoS 1 to durable sessions.
    PairsDurable,
    /// 200,000 wildcard subscriptions, and 1,000.
    Match,
}

impl Case {
    const ALL: [Case; 12] = [
        Case::Idle,
        Case::IdleTls,
        Case::IdleWs,
        Case::Sessions,
        Case::Connects,
        Case::Fanout,
        Case::PairsQos0,
        Case::Pairs50k,
        Case::Pairs200k,
        Case::PairsQos1,
        Case::PairsDurable,
        Case::Match,
    ];

    /// Whether a broker can take part.
    fn suits(self, kind: Kind) -> bool {
        match self {
            // Debian builds Mosquitto without WebSocket; one program of mochi-mqtt listens with TLS or without.
            Case::IdleTls => kind != Kind::Mochi,
            Case::IdleWs => kind != Kind::Mosquitto,
            // Other brokers cannot be measured without sockets.
            Case::Sessions => kind == Kind::Tidegate,
            // It takes about 120,000 in a second, so that what is due would only wait.
            Case::Pairs200k => kind != Kind::Mosquitto,
            // It keeps sessions in memory only.
            Case::PairsDurable => kind != Kind::Mochi,
            _ => true,
        }
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        clap::ValueEnum::to_possible_value(self).expect("no case is skipped").get_name().fmt(f)
    }
}

/// Runs the cases and reports.
pub fn run(settings: &Settings) -> Result<()> {
    let out = settings.subject.out()?;
    let mochi = match settings.brokers.contains(&Kind::Mochi) {
        true => program(&settings.mochi, "mochi-mqtt: `scripts/setup.sh mochi` installs it;")?,
        false => settings.mochi.clone(),
    };
    let brokers = Brokers { subject: &settings.subject, mochi, certificate: Certificate::generate(&out)?, out };
    let mut report = Report::default();
    for run in 1..=settings.runs {
        for case in &settings.cases {
            for kind in settings.brokers.iter().copied().filter(|kind| case.suits(*kind)) {
                eprintln!("run {run} of {}: {case}, {kind}", settings.runs);
                measure(*case, kind, &brokers, settings, &mut report)
                    .with_context(|| format!("case {case} of {kind}"))?;
            }
        }
    }
    ratios(&mut report);
    let versions: Vec<String> =
        settings.brokers.iter().map(|kind| brokers.version(*kind).unwrap_or_else(|error| error.to_string())).collect();
    settings.subject.publish("gateway", &versions, &report)
}

fn measure(case: Case, kind: Kind, brokers: &Brokers, settings: &Settings, report: &mut Report) -> Result<()> {
    if case == Case::Sessions {
        return sessions::measure(report);
    }
    let broker = brokers.start(kind)?;
    match case {
        Case::Sessions => unreachable!("it needs no broker"),
        Case::Idle => idle::measure(&broker, kind, &Transport::Plain, settings.clients, report),
        Case::IdleTls => {
            let clients = brokers.certificate.clients()?;
            idle::measure(&broker, kind, &Transport::Tls(&clients), settings.clients, report)
        }
        Case::IdleWs => idle::measure(&broker, kind, &Transport::WebSocket, settings.clients, report),
        Case::Connects => connects::measure(&broker, kind, settings.clients, report),
        Case::Fanout => fanout::measure(&broker, kind, settings, report),
        Case::PairsQos0 => {
            let reached = pairs::measure(&broker, kind, Guarantee::QoS0, settings, report)?;
            drop(broker);
            let broker = brokers.start(kind)?;
            let per_second = settings.latency_load.unwrap_or(reached / 2.0);
            let (pairs, burst) = (settings.pairs, settings.burst);
            let load = OpenLoad { name: "pairs_latency", per_second, pairs, burst };
            pairs::measure_latency(&broker, kind, load, settings, report)
        }
        Case::Pairs50k => pairs::measure_latency(&broker, kind, PAIRS_50K, settings, report),
        Case::Pairs200k => pairs::measure_latency(&broker, kind, PAIRS_200K, settings, report),
        Case::PairsQos1 => pairs::measure(&broker, kind, Guarantee::QoS1, settings, report).map(drop),
        Case::PairsDurable => pairs::measure(&broker, kind, Guarantee::Durable, settings, report).map(drop),
        Case::Match => {
            matching::measure(&broker, kind, "match_1k", 1_000, settings, report)?;
            drop(broker);
            let broker = brokers.start(kind)?;
            matching::measure(&broker, kind, "match", settings.subscriptions, settings, report)
        }
    }
}

/// What a message cost either side in processor time.
fn report_costs(kind: Kind, case: &str, measured: &Measured, report: &mut Report) {
    let nanoseconds = |time: Duration| time.as_nanos() as f64 / measured.delivered as f64;
    report.add(&kind.key(&format!("{case}_server_cpu_ns")), nanoseconds(measured.broker_time));
    report.add(&kind.key(&format!("{case}_client_cpu_ns")), nanoseconds(measured.load_time));
}

/// Ours against the peers', and many subscriptions against few.
fn ratios(report: &mut Report) {
    for kind in Kind::ALL {
        report.derive_ratio(&kind.key("match_ratio"), &kind.key("match_per_s"), &kind.key("match_1k_per_s"));
    }
    for case in ["connects", "fanout_delivered", "pairs_qos0", "pairs_qos1", "pairs_durable"] {
        let figure = format!("{case}_per_s");
        for (peer, name) in [(Kind::Mosquitto, "mosquitto"), (Kind::Mochi, "mochi")] {
            report.derive_ratio(&format!("{case}_to_{name}_ratio"), &figure, &peer.key(&figure));
        }
    }
    for quantile in ["p50", "p99", "p999"] {
        let figure = format!("pairs_50k_latency_{quantile}_ms");
        let ratio = format!("pairs_50k_latency_{quantile}_to_mosquitto_ratio");
        report.derive_ratio(&ratio, &figure, &Kind::Mosquitto.key(&figure));
    }
}
