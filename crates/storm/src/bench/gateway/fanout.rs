//! One publisher, many subscribers to one topic, QoS 0, as fast as possible; every subscriber must get every message in
//! order.

use super::broker::{Broker, Kind};
use super::{Settings, report_costs};
use crate::mqtt::drive::{Links, Traffic, drive};
use crate::mqtt::handshake;
use crate::mqtt::link::Link;
use crate::mqtt::packet::{Arrival, ConnectOptions, Publish, QoS};
use crate::mqtt::stamp::{Expected, PAYLOAD_BYTES, Stamp};
use crate::report::Report;
use anyhow::{Result, bail};

/// Bytes that may wait in the publisher for its socket: it always has something to send, and is not a queue of its own.
const UNSENT_BYTES_MAX: usize = 16 * 1024;

const TOPIC: &str = "show/all";

/// The publisher is client 0, the subscribers follow.
struct Fanout {
    publish: Publish,
    published: u64,
    /// Messages that the slowest subscriber may be behind.
    window: u64,
    expected: Vec<Expected>,
}

/// Measures one broker.
pub fn measure(broker: &Broker, kind: Kind, settings: &Settings, report: &mut Report) -> Result<()> {
    let mut links = Vec::new();
    for index in 0..=settings.subscribers {
        let filters = if index == 0 { vec![] } else { vec![TOPIC.to_owned()] };
        let options = ConnectOptions::new(format!("fanout-{index}"), filters);
        links.push(Link::new(handshake::connect(broker.tcp, index, &options)?)?);
    }
    let mut fanout = Fanout {
        publish: Publish::new(TOPIC, QoS::Zero, PAYLOAD_BYTES),
        published: 0,
        window: settings.fanout_window,
        expected: vec![Expected::default(); settings.subscribers],
    };
    let measured = drive(links, &mut fanout, settings.plan(), || broker.processor_time())?;
    report.add(&kind.key("fanout_delivered_per_s"), measured.per_second());
    report_costs(kind, "fanout", &measured, report);
    Ok(())
}

impl Fanout {
    fn slowest(&self) -> u64 {
        self.expected.iter().map(|expected| expected.count()).min().unwrap_or(0)
    }
}

impl Traffic for Fanout {
    fn arrived(&mut self, link: usize, arrival: Arrival<'_>, _: &mut Vec<u8>, _: u64) -> Result<()> {
        match arrival {
            Arrival::Publish { payload, .. } if link > 0 => self.expected[link - 1].take(Stamp::read(payload)?.number),
            other => bail!("unexpected: {other:?}"),
        }
    }

    fn publish(&mut self, links: &mut Links, now_ns: u64) -> Result<()> {
        let end = self.slowest() + self.window;
        while self.published < end && links.unsent_bytes(0) < UNSENT_BYTES_MAX {
            let stamp = Stamp { publisher: 0, number: self.published, due_ns: now_ns };
            self.publish.append(links.outbox(0), 0, |payload| stamp.write(payload));
            self.published += 1;
        }
        Ok(())
    }

    fn delivered(&self) -> u64 {
        self.expected.iter().map(|expected| expected.count()).sum()
    }

    fn outstanding(&self) -> u64 {
        self.published * self.expected.len() as u64 - self.delivered()
    }
}
