//! Many subscriptions with wildcards, and publishes that match exactly one of them, picked at random: the cost of
//! matching.

use super::broker::{Broker, Kind};
use super::{Settings, report_costs};
use crate::mqtt::drive::{Links, Traffic, drive};
use crate::mqtt::handshake;
use crate::mqtt::link::Link;
use crate::mqtt::packet::{Arrival, ConnectOptions, Publish, QoS};
use crate::mqtt::stamp::{PAYLOAD_BYTES, Stamp};
use crate::report::Report;
use anyhow::{Context, Result, bail, ensure};

/// Clients that publish, each with so many messages on their way.
const PUBLISHERS: usize = 4;
const WINDOW: u64 = 512;

/// Clients that share the subscriptions. As many however many there are, so that only the matching differs.
const SUBSCRIBERS: usize = 100;

/// Where the number of a subscription stands in a topic.
const NUMBER_AT: std::ops::Range<usize> = 6..12;

/// The one topic that subscription `number` matches.
fn topic(number: u32) -> String {
    format!("match/{number:06}/east/state")
}

/// Three shapes of filters, all in one tree.
fn filter(number: u32) -> String {
    match number % 3 {
        0 => format!("match/{number:06}/+/state"),
        1 => format!("match/{number:06}/#"),
        _ => format!("+/{number:06}/east/state"),
    }
}

/// The first clients publish; subscription n belongs to subscriber n modulo their number.
struct Matching {
    subscriptions: u32,
    publish: Publish,
    publishers: Vec<Publisher>,
    chance: u64,
}

struct Publisher {
    published: u64,
    delivered: u64,
    /// By subscriber: one more than the number of the last message from here.
    next_at_least: Vec<u64>,
}

/// Measures one broker; the figure is named for its case.
pub fn measure(
    broker: &Broker,
    kind: Kind,
    figure: &str,
    subscriptions: u32,
    settings: &Settings,
    report: &mut Report,
) -> Result<()> {
    let mut links = Vec::new();
    for index in 0..PUBLISHERS + SUBSCRIBERS {
        let subscriber = index.checked_sub(PUBLISHERS);
        let own = |subscriber: usize| (subscriber as u32..subscriptions).step_by(SUBSCRIBERS).map(filter).collect();
        let filters = subscriber.map_or(vec![], own);
        let options = ConnectOptions::new(format!("match-{index:03}"), filters);
        links.push(Link::new(handshake::connect(broker.tcp, index, &options)?)?);
    }
    let publisher = || Publisher { published: 0, delivered: 0, next_at_least: vec![0; SUBSCRIBERS] };
    let mut traffic = Matching {
        subscriptions,
        publish: Publish::new(&topic(0), QoS::Zero, PAYLOAD_BYTES),
        publishers: std::iter::repeat_with(publisher).take(PUBLISHERS).collect(),
        chance: 0x9E37_79B9_7F4A_7C15,
    };
    let measured = drive(links, &mut traffic, settings.plan(), || broker.processor_time())?;
    report.add(&kind.key(&format!("{figure}_per_s")), measured.per_second());
    report_costs(kind, figure, &measured, report);
    Ok(())
}

impl Matching {
    /// A subscription picked at random (xorshift64).
    #[inline]
    fn any(&mut self) -> u32 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        (((self.chance >> 32) * u64::from(self.subscriptions)) >> 32) as u32
    }
}

impl Traffic for Matching {
    #[inline]
    fn arrived(&mut self, link: usize, arrival: Arrival<'_>, _: &mut Vec<u8>, _: u64) -> Result<()> {
        let Arrival::Publish { topic, payload, .. } = arrival else { bail!("unexpected: {arrival:?}") };
        let subscriber = link.checked_sub(PUBLISHERS).context("a message for a publisher")?;
        let number = digits(topic.get(NUMBER_AT).context("a topic that nobody published to")?);
        ensure!(number as usize % SUBSCRIBERS == subscriber, "subscription {number} is not of subscriber {subscriber}");
        let stamp = Stamp::read(payload)?;
        let publisher = self.publishers.get_mut(stamp.publisher as usize).context("no such publisher")?;
        let next_at_least = &mut publisher.next_at_least[subscriber];
        ensure!(stamp.number >= *next_at_least, "message {} came twice or late", stamp.number);
        *next_at_least = stamp.number + 1;
        publisher.delivered += 1;
        Ok(())
    }

    fn publish(&mut self, links: &mut Links, now_ns: u64) -> Result<()> {
        for index in 0..PUBLISHERS {
            // In batches: a message for each delivery would be a system call for each.
            let on_the_way = self.publishers[index].published - self.publishers[index].delivered;
            if on_the_way > WINDOW / 2 {
                continue;
            }
            for _ in on_the_way..WINDOW {
                let number = self.any();
                let stamp = Stamp { publisher: index as u32, number: self.publishers[index].published, due_ns: now_ns };
                write_digits(number, &mut self.publish.topic()[NUMBER_AT]);
                self.publish.append(links.outbox(index), 0, |payload| stamp.write(payload));
                self.publishers[index].published += 1;
            }
        }
        Ok(())
    }

    fn delivered(&self) -> u64 {
        self.publishers.iter().map(|publisher| publisher.delivered).sum()
    }

    fn outstanding(&self) -> u64 {
        self.publishers.iter().map(|publisher| publisher.published - publisher.delivered).sum()
    }
}

#[inline]
fn digits(text: &[u8]) -> u32 {
    text.iter().fold(0, |number, digit| number * 10 + u32::from(digit.wrapping_sub(b'0')))
}

#[inline]
fn write_digits(mut number: u32, text: &mut [u8]) {
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_subscription_stands_where_it_is_read() {
        let mut topic = topic(12_345).into_bytes();
        assert_eq!(digits(&topic[NUMBER_AT]), 12_345);
        write_digits(199_999, &mut topic[NUMBER_AT]);
        assert_eq!(topic, super::topic(199_999).into_bytes());
    }
}
