//! What an idle client costs: the growth of the broker's resident memory when many clients connect and subscribe, each
//! to its own topic, divided by their number. The kernel's socket buffers are not counted.
//!
//! Why from half of them on: a broker gives back what its start took when the first clients come. Ours then had
//! less memory with 18,000 clients than with none, and each seemed to cost nothing.

use super::broker::{Broker, Kind};
use crate::mqtt::packet::ConnectOptions;
use crate::mqtt::tls::Clients;
use crate::mqtt::{handshake, websocket};
use crate::report::Report;
use anyhow::{Context, Result, ensure};

/// The transport of the clients.
pub enum Transport<'a> {
    /// TCP.
    Plain,
    /// TLS 1.3.
    Tls(&'a Clients),
    /// WebSocket.
    WebSocket,
}

/// Measures one broker.
pub fn measure(
    broker: &Broker,
    kind: Kind,
    transport: &Transport<'_>,
    clients: usize,
    report: &mut Report,
) -> Result<()> {
    let (mut before, first) = (0, clients / 2);
    let mut sockets = Vec::with_capacity(clients);
    for index in 0..clients {
        if index == first {
            before = broker.settled_bytes()?;
        }
        let options = ConnectOptions::new(format!("idle-{index:06}"), vec![format!("idle/{index:06}")]);
        sockets.push(match transport {
            Transport::Plain => handshake::connect(broker.tcp, index, &options)?,
            Transport::Tls(tls) => tls.connect(broker.tls.context("it has no TLS door")?, index, &options)?,
            Transport::WebSocket => {
                let (address, path) = broker.websocket.context("it has no WebSocket door")?;
                websocket::connect(address, path, index, &options)?
            }
        });
    }
    let after = broker.settled_bytes()?;
    let figure = match transport {
        Transport::Plain => "idle_bytes_per_connection",
        Transport::Tls(_) => "idle_tls_bytes_per_connection",
        Transport::WebSocket => "idle_ws_bytes_per_connection",
    };
    ensure!(after > before, "{after} bytes with {clients} clients, {before} with {first}: no growth to divide");
    report.add(&kind.key(figure), (after - before) as f64 / (clients - first) as f64);
    Ok(())
}
