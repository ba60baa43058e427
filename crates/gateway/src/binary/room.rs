//! The binary port as a room of a node: its listener, and a port for each worker.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Result;
use rustls::ServerConfig;
use tidegate_ledger::operation::Message;
use tidegate_ledger::room;
use tidegate_runtime::{Address, Carries, Port, Room, Site};

use super::port::BinaryPort;
use super::{BINARY, BinaryMetrics};
use crate::auth::Authenticator;
use crate::listener::listen;

/// What the binary port is told.
pub struct BinarySettings {
    /// Where it listens; `None` keeps it shut.
    pub address: Option<SocketAddr>,
    /// Certificates; `None` for plain TCP.
    pub tls: Option<Arc<ServerConfig>>,
    /// Connections per worker.
    pub connections_max: usize,
}

/// The binary ports of all workers.
pub struct BinaryRoom {
    settings: BinarySettings,
    authenticator: Arc<Authenticator>,
    /// One per worker.
    listeners: Vec<TcpListener>,
}

impl BinaryRoom {
    /// Ports that do as `settings` say.
    pub fn new(settings: BinarySettings, authenticator: Arc<Authenticator>) -> BinaryRoom {
        BinaryRoom { settings, authenticator, listeners: Vec::new() }
    }
}

impl<P: Carries<Message>> Room<P> for BinaryRoom {
    fn has_port(&self) -> bool {
        true
    }

    fn open(&mut self, site: &mut Site<P>) -> Result<()> {
        if let Some(address) = self.settings.address {
            self.listeners = listen(address, site.placement().workers().into())?;
            site.listening("binary", self.listeners[0].local_addr()?);
        }
        Ok(())
    }

    fn port(&mut self, site: &mut Site<P>, me: Address) -> Result<Box<dyn Port<P>>> {
        Ok(Box::new(BinaryPort::new(
            me,
            room::client(site, me),
            self.listeners.pop(),
            self.settings.tls.clone(),
            self.authenticator.clone(),
            self.settings.connections_max,
            BinaryMetrics::register(site.registry(), BINARY, me.endpoint.0),
        )))
    }
}
