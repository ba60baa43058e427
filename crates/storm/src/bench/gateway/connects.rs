//! How fast clients connect: TCP, CONNECT, CONNACK; the connections stay open.

use super::broker::{Broker, Kind};
use crate::mqtt::handshake;
use crate::mqtt::link::Link;
use crate::mqtt::packet::{Arrival, ConnectOptions};
use crate::process;
use crate::report::Report;
use anyhow::{Context, Result, bail, ensure};
use mio::{Events, Interest, Poll, Token};
use std::time::{Duration, Instant};

/// Clients that connect at the same time: fewer than any broker's backlog (Mosquitto's is 100), so that the kernel
/// refuses none.
const AT_ONCE: usize = 96;

/// A broker that accepts no client for this long has failed.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Measures one broker.
pub fn measure(broker: &Broker, kind: Kind, clients: usize, report: &mut Report) -> Result<()> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(AT_ONCE);
    let mut links: Vec<Link> = Vec::with_capacity(clients);
    let mut buffer = vec![0; 1024];
    let mut inside = 0;
    let (broker_before, load_before) = (broker.processor_time()?, process::own_processor_time()?);
    let started = Instant::now();
    while inside < clients {
        while links.len() < clients && links.len() - inside < AT_ONCE {
            links.push(connect(broker, &poll, links.len())?);
        }
        poll.poll(&mut events, Some(SILENCE_MAX))?;
        ensure!(!events.is_empty(), "of {clients} clients {inside} are inside, the next are not answered");
        for event in &events {
            let take = |arrival: Arrival<'_>, _: &mut Vec<u8>| match arrival {
                Arrival::ConnectAck { session_present: false } => {
                    inside += 1;
                    Ok(())
                }
                other => bail!("an unexpected answer to CONNECT: {other:?}"),
            };
            links[event.token().0].receive(&mut buffer, take).context("while connecting")?;
        }
    }
    let elapsed = started.elapsed();
    let microseconds = |time: Duration| time.as_secs_f64() * 1e6 / clients as f64;
    report.add(&kind.key("connects_per_s"), clients as f64 / elapsed.as_secs_f64());
    report.add(&kind.key("connect_server_cpu_us"), microseconds(broker.processor_time()? - broker_before));
    report.add(&kind.key("connect_client_cpu_us"), microseconds(process::own_processor_time()? - load_before));
    Ok(())
}

fn connect(broker: &Broker, poll: &Poll, index: usize) -> Result<Link> {
    let options = ConnectOptions::new(format!("connect-{index:06}"), vec![]);
    let mut link = Link::new(handshake::dial(broker.tcp, index)?)?;
    link.outbox().extend(options.connect());
    link.flush()?;
    poll.registry().register(link.socket(), Token(index), Interest::READABLE)?;
    Ok(link)
}
