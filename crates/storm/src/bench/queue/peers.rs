//! The same messages through the servers that people use today.
//!
//! A peer is as fast as it gets: a first load finds out how fast it is about, a second one warms it up, and the third
//! is measured. So each takes about as long, whether it syncs a thousand times a second or half a million times.

use super::kind::Kind;
use super::{Bench, Case, LOCKSTEP, SENDERS, all_done};
use crate::load::{self, Tally};
use crate::peer::beanstalkd::Beanstalkd;
use crate::peer::nats::Nats;
use crate::peer::queue::QueueServer;
use crate::peer::rabbitmq::{QueueType, Rabbitmq};
use crate::peer::redis_stream::RedisStream;
use crate::report::Report;
use anyhow::Result;

/// Messages of the load that finds out how fast a peer is.
const FIRST_MESSAGES: u64 = 5_000;
/// Part of the measured time for which a peer is warmed up.
const WARM_UP: f64 = 0.25;

/// One case of one peer.
pub fn measure(bench: &Bench<'_>, case: Case, kind: Kind, report: &mut Report) -> Result<()> {
    let directory = bench.out.join(kind.name());
    match kind {
        Kind::Redis => measure_with(&RedisStream::start(&directory)?, bench, case, kind, report),
        Kind::RabbitmqQuorum => {
            measure_with(&Rabbitmq::start(&directory, QueueType::Quorum)?, bench, case, kind, report)
        }
        Kind::RabbitmqClassic => {
            measure_with(&Rabbitmq::start(&directory, QueueType::Classic)?, bench, case, kind, report)
        }
        Kind::Beanstalkd => measure_with(&Beanstalkd::start(&directory)?, bench, case, kind, report),
        Kind::Nats => measure_with(&Nats::start(&bench.settings.nats, &directory)?, bench, case, kind, report),
        Kind::Tidegate | Kind::Elasticmq => unreachable!("no case of peers suits {kind}"),
    }
}

fn measure_with(
    server: &impl QueueServer,
    bench: &Bench<'_>,
    case: Case,
    kind: Kind,
    report: &mut Report,
) -> Result<()> {
    let (seconds, bytes) = (bench.settings.peer_seconds, bench.settings.bytes);
    let mut messages = FIRST_MESSAGES;
    for seconds in [WARM_UP * seconds, seconds] {
        let per_s = one_load(server, case, messages, bytes)?.per_s;
        messages = ((per_s * seconds) as u64).clamp(FIRST_MESSAGES, bench.settings.messages);
    }
    let measured = one_load(server, case, messages, bytes)?;
    let figure = match case {
        Case::Sends => "sends",
        Case::Lockstep => "lockstep_sends",
        _ => "end_to_end",
    };
    report.add(&kind.key(&format!("{figure}_per_s")), measured.per_s);
    if let Some(ms) = measured.latency_p99_ms {
        report.add(&kind.key(&format!("{figure}_latency_p99_ms")), ms);
    }
    Ok(())
}

struct Measured {
    per_s: f64,
    /// From a send to its answer.
    latency_p99_ms: Option<f64>,
}

impl Measured {
    fn sends(tally: &Tally) -> Measured {
        Measured { per_s: tally.per_second(), latency_p99_ms: Some(tally.latency_ms(0.99)) }
    }
}

fn one_load(server: &impl QueueServer, case: Case, messages: u64, bytes: usize) -> Result<Measured> {
    let pressure = match case {
        Case::Sends => SENDERS,
        Case::Lockstep => LOCKSTEP,
        _ => return end_to_end(server, messages, bytes),
    };
    let tally = load::run(server.address(), pressure, &mut server.sends(messages, bytes))?;
    all_done(&tally, messages)?;
    Ok(Measured::sends(&tally))
}

/// Senders and receivers at once. The time is that of whoever ends last.
fn end_to_end<S: QueueServer>(server: &S, messages: u64, bytes: usize) -> Result<Measured> {
    let (address, mut sends) = (server.address(), server.sends(messages, bytes));
    let (sent, received) = std::thread::scope(|scope| {
        let sender = scope.spawn(move || load::run(address, SENDERS, &mut sends));
        let received = load::run(address, S::RECEIVERS, &mut server.receives(messages));
        (sender.join().expect("the sender does not panic"), received)
    });
    let (sent, received) = (sent?, received?);
    all_done(&sent, messages)?;
    all_done(&received, messages)?;
    Ok(Measured { per_s: sent.per_second().min(received.per_second()), latency_p99_ms: None })
}
