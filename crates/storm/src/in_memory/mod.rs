//! `storm hold-sessions`: millions of clients in one process, with our broker and in-memory transports, because a bench
//! machine does not have two million sockets. It is a separate process, so that its memory is that of the sessions
//! alone.
//!
//! ```text
//!   clients: CONNECT, SUBSCRIBE, PINGREQ ─▶ Broker (one per worker) ─▶ CONNACK, SUBACK, PINGRESP: all checked
//! ```
//!
//! Invariant: this is the only part of the load generator that uses the server's code, and it uses the broker's public
//! interface only.

mod node;

use crate::mqtt::packet::{ConnectOptions, Publish, QoS};
use crate::process;
use anyhow::{Result, ensure};
use node::Node;
use std::time::{Duration, Instant};

/// What to hold, and how long.
#[derive(clap::Args)]
pub struct Settings {
    /// Clients, each with one subscription to a topic of its own.
    #[arg(long, default_value_t = 2_000_000)]
    pub sessions: u32,
    /// Workers, which all know all subscriptions.
    #[arg(long, default_value_t = 2)]
    pub workers: u16,
    /// Seconds in which nothing happens but pings.
    #[arg(long, default_value_t = 60)]
    pub seconds: u16,
    /// Keep-alive; every client pings so often.
    #[arg(long, default_value_t = 60)]
    pub keep_alive_s: u16,
}

/// From one turn of the loop to the next: the pace at which an idle worker looks at its timers.
const TURN: Duration = Duration::from_millis(20);

/// Sessions that are tried at the end: each must get a message.
const TRIED: u32 = 1_000;

/// Holds them and prints the figures as JSON.
pub fn run(settings: &Settings) -> Result<()> {
    let mut node = Node::new(settings.workers, settings.sessions);
    let started = Instant::now();
    for client in 0..settings.sessions {
        let options = ConnectOptions {
            keep_alive_s: settings.keep_alive_s,
            ..ConnectOptions::new(format!("client-{client:07}"), vec![topic(client)])
        };
        node.connect(client, &options)?;
        if client % 200_000 == 0 {
            eprintln!("{client} sessions, {} MB", process::own_resident_bytes()? >> 20);
        }
        // The first must be heard while the last come in.
        if client % 1_000 == 0 {
            node.ping_due(client, settings.keep_alive_s)?;
            node.step()?;
        }
    }
    let entered = started.elapsed();

    let (from, processor_before) = (Instant::now(), process::own_processor_time()?);
    let pings_before = node.pongs();
    while from.elapsed() < Duration::from_secs(settings.seconds.into()) {
        let turn = Instant::now();
        node.ping_due(settings.sessions - 1, settings.keep_alive_s)?;
        node.step()?;
        std::thread::sleep(TURN.saturating_sub(turn.elapsed()));
    }
    let (idle, processor) = (from.elapsed(), process::own_processor_time()? - processor_before);
    let resident = process::own_resident_bytes()?;
    let pings = node.pongs() - pings_before;

    let connected = node.connected();
    ensure!(connected == u64::from(settings.sessions), "of {} clients {connected} are connected", settings.sessions);
    ensure!(node.unanswered() == 0, "{} pings were not answered", node.unanswered());
    try_some(&mut node, settings.sessions)?;

    let figures = serde_json::json!({
        "sessions_2m_rss_bytes": resident,
        "sessions_2m_cpu_percent": processor.as_secs_f64() / idle.as_secs_f64() * 100.0,
        "sessions_2m_bytes_per_session": resident as f64 / f64::from(settings.sessions),
        "sessions_2m_pings_per_s": pings as f64 / idle.as_secs_f64(),
        "sessions_2m_entered_per_s": f64::from(settings.sessions) / entered.as_secs_f64(),
    });
    println!("{figures}");
    Ok(())
}

fn topic(client: u32) -> String {
    format!("room/{client:07}")
}

/// A message to some, published by others, also those of another worker: what is held is alive.
fn try_some(node: &mut Node, sessions: u32) -> Result<()> {
    let step = (sessions / TRIED).max(1);
    for receiver in (0..sessions).step_by(step as usize) {
        let mut packet = Vec::new();
        Publish::new(&topic(receiver), QoS::Zero, 1).append(&mut packet, 0, |payload| payload[0] = b'x');
        node.deliver_one(sessions - 1 - receiver, receiver, &packet)?;
    }
    Ok(())
}
