//! Batches of ten in the protocol of Amazon SQS, to our door and to ElasticMQ.

use super::kind::Kind;
use super::{Bench, QUEUE, all_done};
use crate::load::{self, Pressure};
use crate::peer::elasticmq::Elasticmq;
use crate::process;
use crate::report::Report;
use crate::sqs::{BATCH, Batches};
use anyhow::Result;
use std::net::SocketAddr;
use std::time::Duration;

/// Programs with boto3: each waits for the answer to what it has sent.
const CLIENTS: Pressure = Pressure { connections: 64, in_flight: 1 };
/// Part of the messages with which a server is warmed up.
const WARM_UP: u64 = 4;

/// One server.
pub fn measure(bench: &Bench<'_>, kind: Kind, report: &mut Report) -> Result<()> {
    let directory = bench.out.join(kind.name());
    match kind {
        Kind::Tidegate => {
            let tidegate = bench.server()?;
            measure_at(bench, kind, tidegate.http(), || tidegate.processor_time(), report)
        }
        _ => {
            let elasticmq = Elasticmq::start(&bench.settings.elasticmq, &directory, QUEUE)?;
            measure_at(bench, kind, elasticmq.address(), || elasticmq.processor_time(), report)
        }
    }
}

fn measure_at(
    bench: &Bench<'_>,
    kind: Kind,
    address: SocketAddr,
    processor_time: impl Fn() -> Result<Duration>,
    report: &mut Report,
) -> Result<()> {
    // ElasticMQ is slower, and keeps all in memory.
    let batches = bench.settings.messages / BATCH / if kind == Kind::Tidegate { 4 } else { 16 };
    let messages = batches * BATCH;
    let load = |batches| Batches::new(address, QUEUE, batches, bench.settings.bytes);
    load::run(address, CLIENTS, &mut load(batches / WARM_UP))?;
    let (server, client) = (processor_time()?, process::own_processor_time()?);
    let tally = load::run(address, CLIENTS, &mut load(batches))?;
    all_done(&tally, messages)?;
    let per_message = |used: Duration| used.as_nanos() as f64 / messages as f64;
    report.add(&kind.key("sqs_sends_per_s"), tally.per_second());
    report.add(&kind.key("sqs_latency_p50_ms"), tally.latency_ms(0.5));
    report.add(&kind.key("sqs_latency_p99_ms"), tally.latency_ms(0.99));
    report.add(&kind.key("sqs_server_cpu_ns"), per_message(processor_time()? - server));
    report.add(&kind.key("sqs_client_cpu_ns"), per_message(process::own_processor_time()? - client));
    Ok(())
}
