//! What an idle client costs: resident memory of the broker before and after so many connected and subscribed, each to a topic
//! of its own, divided by their number. The kernel's socket buffers are not the broker's and not counted.

use super::broker::{Broker, Kind};
use crate::mqtt::packet::Guest;
use crate::mqtt::tls::Clients;
use crate::mqtt::{entry, websocket};
use crate::report::Report;
use anyhow::{Context, Result};

/// By which way the clients come.
pub enum Way<'a> {
    /// TCP.
    Plain,
    /// TLS 1.3.
    Tls(&'a Clients),
    /// WebSocket.
    WebSocket,
}

/// Measures one broker.
pub fn measure(broker: &Broker, kind: Kind, way: &Way<'_>, clients: usize, report: &mut Report) -> Result<()> {
    let before = broker.settled_bytes()?;
    let mut sockets = Vec::with_capacity(clients);
    for index in 0..clients {
        let guest = Guest::new(format!("idle-{index:06}"), vec![format!("idle/{index:06}")]);
        sockets.push(match way {
            Way::Plain => entry::enter(broker.tcp, index, &guest)?,
            Way::Tls(tls) => tls.enter(broker.tls.context("it has no TLS door")?, index, &guest)?,
            Way::WebSocket => {
                let (address, path) = broker.websocket.context("it has no WebSocket door")?;
                websocket::enter(address, path, index, &guest)?
            }
        });
    }
    let after = broker.settled_bytes()?;
    let figure = match way {
        Way::Plain => "idle_bytes_per_connection",
        Way::Tls(_) => "idle_tls_bytes_per_connection",
        Way::WebSocket => "idle_ws_bytes_per_connection",
    };
    report.add(&kind.key(figure), after.saturating_sub(before) as f64 / sockets.len() as f64);
    Ok(())
}
