//! Pairs of one publisher and one subscriber, each with its own topic, like chats. A closed load, a fixed number of
//! messages in flight per pair, measures throughput; an open load, of which each message is due at a time of its own,
//! measures latency.

use super::broker::{Broker, Kind};
use super::{Settings, report_costs};
use crate::mqtt::drive::{Links, Measured, Plan, Traffic, drive};
use crate::mqtt::handshake;
use crate::mqtt::link::Link;
use crate::mqtt::packet::{self, Arrival, ConnectOptions, Publish, QoS};
use crate::mqtt::stamp::{Expected, PAYLOAD_BYTES, Stamp};
use crate::report::Report;
use crate::schedule::Schedule;
use anyhow::{Result, bail, ensure};
use histogram::Histogram;
use std::time::Duration;

/// From one turn of the open load to the next: what was due or came in between is part of the latency.
const OPEN_TURN: Duration = Duration::from_micros(250);

/// What is promised to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// Nothing.
    QoS0,
    /// Acknowledged, to subscribers whose session ends with their connection.
    QoS1,
    /// Acknowledged, to subscribers whose session outlives their connection.
    Durable,
}

impl Guarantee {
    fn name(self) -> &'static str {
        match self {
            Guarantee::QoS0 => "pairs_qos0",
            Guarantee::QoS1 => "pairs_qos1",
            Guarantee::Durable => "pairs_durable",
        }
    }

    fn qos(self) -> QoS {
        if self == Guarantee::QoS0 { QoS::Zero } else { QoS::One }
    }
}

/// When the next message goes out.
enum Pace {
    /// When half of the last so many of the pair have arrived and were acknowledged.
    Closed { window: u64 },
    /// When it is due, so many in a row from the same publisher.
    Open { schedule: Schedule, burst: u64 },
}

struct Pair {
    publish: Publish,
    published: u64,
    acknowledged: u64,
    expected: Expected,
    is_ready: bool,
}

/// Publishers are the first half of the clients, their subscribers the second, in the same order.
struct Pairs {
    qos: QoS,
    pace: Pace,
    pairs: Vec<Pair>,
    /// Pairs whose window has opened since the last turn.
    ready: Vec<usize>,
    delivered: u64,
    acknowledged: u64,
    measured_from_ns: u64,
    latency_ns: Histogram,
}

/// Measures how much goes through one broker; messages per second.
pub fn measure(
    broker: &Broker,
    kind: Kind,
    guarantee: Guarantee,
    settings: &Settings,
    report: &mut Report,
) -> Result<f64> {
    let pace = Pace::Closed { window: settings.window };
    let (measured, _) = run(broker, guarantee, pace, settings.pairs, settings.plan())?;
    report.add(&kind.key(&format!("{}_per_s", guarantee.name())), measured.per_second());
    report_costs(kind, guarantee.name(), &measured, report);
    Ok(measured.per_second())
}

/// An open load of QoS 0.
#[derive(Clone, Copy, Debug)]
pub struct OpenLoad {
    /// What its figures begin with.
    pub name: &'static str,
    /// Messages that are due in a second.
    pub per_second: f64,
    /// Pairs that share them out.
    pub pairs: usize,
    /// Messages in a row from the same publisher.
    pub burst: u64,
}

/// Measures how long messages take that are due when it says.
pub fn measure_latency(
    broker: &Broker,
    kind: Kind,
    load: OpenLoad,
    settings: &Settings,
    report: &mut Report,
) -> Result<()> {
    let pace = Pace::Open { schedule: Schedule::new(load.per_second), burst: load.burst };
    let plan = Plan { turn: OPEN_TURN, ..settings.plan() };
    let (measured, latency_ns) = run(broker, Guarantee::QoS0, pace, load.pairs, plan)?;
    report.add(&kind.key(&format!("{}_load_per_s", load.name)), measured.per_second());
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
        let bucket = latency_ns.quantile_bucket(quantile).ok().flatten();
        let milliseconds = bucket.map_or(f64::NAN, |bucket| bucket.end() as f64 / 1e6);
        report.add(&kind.key(&format!("{}_{name}_ms", load.name)), milliseconds);
    }
    report_costs(kind, load.name, &measured, report);
    Ok(())
}

fn run(broker: &Broker, guarantee: Guarantee, pace: Pace, pairs: usize, plan: Plan) -> Result<(Measured, Histogram)> {
    let topic = |pair: usize| format!("pair/{pair:05}");
    let mut links = Vec::new();
    for index in 0..2 * pairs {
        let options = match index.checked_sub(pairs) {
            None => ConnectOptions::new(format!("from-{index:05}"), vec![]),
            Some(pair) => ConnectOptions {
                clean: guarantee != Guarantee::Durable,
                qos: guarantee.qos(),
                ..ConnectOptions::new(format!("to-{pair:05}"), vec![topic(pair)])
            },
        };
        links.push(Link::new(handshake::connect(broker.tcp, index, &options)?)?);
    }
    let mut traffic = Pairs {
        qos: guarantee.qos(),
        pace,
        pairs: (0..pairs)
            .map(|pair| Pair {
                publish: Publish::new(&topic(pair), guarantee.qos(), PAYLOAD_BYTES),
                published: 0,
                acknowledged: 0,
                expected: Expected::default(),
                is_ready: true,
            })
            .collect(),
        ready: (0..pairs).collect(),
        delivered: 0,
        acknowledged: 0,
        measured_from_ns: u64::MAX,
        // Seven bits of grouping: buckets 0.8 % wide, up to 2^37 ns = 137 s.
        latency_ns: Histogram::new(7, 37)?,
    };
    let measured = drive(links, &mut traffic, plan, || broker.processor_time())?;
    Ok((measured, traffic.latency_ns))
}

impl Pairs {
    #[inline]
    fn message(&mut self, pair: usize, payload: &[u8], now_ns: u64) -> Result<()> {
        let stamp = Stamp::read(payload)?;
        ensure!(stamp.publisher as usize == pair, "a message of pair {} came to pair {pair}", stamp.publisher);
        self.pairs[pair].expected.take(stamp.number)?;
        self.delivered += 1;
        if stamp.due_ns >= self.measured_from_ns {
            self.latency_ns.increment((now_ns - stamp.due_ns).min((1 << 37) - 1))?;
        }
        Ok(())
    }

    #[inline]
    fn may_go_on(&mut self, pair: usize) {
        if !std::mem::replace(&mut self.pairs[pair].is_ready, true) {
            self.ready.push(pair);
        }
    }
}

impl Traffic for Pairs {
    #[inline]
    fn arrived(&mut self, link: usize, arrival: Arrival<'_>, outbox: &mut Vec<u8>, now_ns: u64) -> Result<()> {
        let pairs = self.pairs.len();
        match arrival {
            Arrival::Publish { duplicate: false, packet_id, payload, .. } if link >= pairs => {
                self.message(link - pairs, payload, now_ns)?;
                if packet_id != 0 {
                    packet::publish_ack(outbox, packet_id);
                }
                self.may_go_on(link - pairs);
            }
            Arrival::PublishAck(packet_id) if link < pairs => {
                let pair = &mut self.pairs[link];
                ensure!(packet_id == id_of(pair.acknowledged), "acknowledgements out of order: {packet_id}");
                pair.acknowledged += 1;
                self.acknowledged += 1;
                self.may_go_on(link);
            }
            other => bail!("unexpected: {other:?}"),
        }
        Ok(())
    }

    fn publish(&mut self, links: &mut Links, now_ns: u64) -> Result<()> {
        match &mut self.pace {
            Pace::Closed { window } => {
                for index in self.ready.drain(..) {
                    let pair = &mut self.pairs[index];
                    pair.is_ready = false;
                    let acknowledged = if self.qos == QoS::Zero { u64::MAX } else { pair.acknowledged };
                    let end = acknowledged.min(pair.expected.count()) + *window;
                    // In batches: a message for each that arrived would be a system call for each.
                    if end - pair.published >= window.div_ceil(2) {
                        while pair.published < end {
                            pair.send(index, now_ns, links);
                        }
                    }
                }
            }
            Pace::Open { schedule, burst } => {
                while let Some((number, due_ns)) = schedule.due(now_ns) {
                    let index = (number / *burst % self.pairs.len() as u64) as usize;
                    self.pairs[index].send(index, due_ns, links);
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, now_ns: u64) {
        self.measured_from_ns = now_ns;
    }

    fn delivered(&self) -> u64 {
        self.delivered
    }

    fn outstanding(&self) -> u64 {
        let published: u64 = self.pairs.iter().map(|pair| pair.published).sum();
        let unacknowledged = if self.qos == QoS::Zero { 0 } else { published - self.acknowledged };
        published - self.delivered + unacknowledged
    }
}

impl Pair {
    #[inline]
    fn send(&mut self, index: usize, due_ns: u64, links: &mut Links) {
        let stamp = Stamp { publisher: index as u32, number: self.published, due_ns };
        self.publish.append(links.outbox(index), id_of(self.published), |payload| stamp.write(payload));
        self.published += 1;
    }
}

/// Packet ids go round, leaving out zero. A window is far shorter than one round.
fn id_of(number: u64) -> u16 {
    (number % 0xFFFF) as u16 + 1
}
