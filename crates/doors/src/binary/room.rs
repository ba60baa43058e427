//! The binary port as a room of a node: its listener, and a port for each worker.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use tidegate_ledger::operation::Message;
use tidegate_ledger::room;
use tidegate_runtime::{Address, Carries, Port, Room, Site};

use super::frames::{Frames, OpenFrames};
use super::port::BinaryPort;
use super::{BINARY, BinaryMetrics};
use crate::admission::{Addresses, ConnectionLimits};
use crate::auth::Authenticator;
use crate::listener::listen;
use crate::proxy::ProxyRule;
use crate::refusal_metrics::RefusalMetrics;
use crate::request_metrics::RequestMetrics;
use crate::stream::DoorTls;

/// What the binary port is told.
pub struct BinarySettings {
    /// Where it listens; `None` keeps it shut.
    pub address: Option<SocketAddr>,
    /// Certificates; `None` for plain TCP.
    pub tls: Option<DoorTls>,
    /// Which connections begin with a load balancer's word.
    pub proxy: ProxyRule,
    /// Connections per worker.
    pub connections_max: usize,
    /// Connections of one address (IPv6: of one /64), over all workers; 0 for three quarters of those of all.
    pub connections_per_address_max: usize,
}

impl BinarySettings {
    /// How many connections `workers` may have together.
    pub fn of_connections(&self, workers: usize) -> ConnectionLimits {
        ConnectionLimits {
            connections_max: self.connections_max * workers,
            connections_per_address_max: self.connections_per_address_max,
        }
    }
}

/// The binary ports of all workers.
pub struct BinaryRoom<P> {
    settings: BinarySettings,
    authenticator: Arc<Authenticator>,
    /// Frames of rooms that the schema does not know.
    rooms: Vec<OpenFrames<P>>,
    /// One per worker.
    listeners: Vec<TcpListener>,
    /// Counted over all workers, once it is known how many there are.
    addresses: Option<Arc<Addresses>>,
}

impl<P: Carries<Message>> BinaryRoom<P> {
    /// Ports that do as `settings` say, and serve frames of `rooms` beside those of the schema.
    pub fn new(
        settings: BinarySettings,
        authenticator: Arc<Authenticator>,
        rooms: Vec<OpenFrames<P>>,
    ) -> BinaryRoom<P> {
        BinaryRoom { settings, authenticator, rooms, listeners: Vec::new(), addresses: None }
    }

    /// The rooms at the port of `me`. Two of one family are an error.
    fn open_rooms(&self, site: &Site<P>, me: Address) -> Result<Vec<Box<dyn Frames<P>>>> {
        let mut rooms: Vec<Box<dyn Frames<P>>> = Vec::new();
        for open in &self.rooms {
            let room = open(site, me);
            let family = room.family();
            if rooms.iter().any(|other| other.family() == family) {
                return Err(anyhow!("two rooms register frames of family {family}; change the number of one of them"));
            }
            rooms.push(room);
        }
        Ok(rooms)
    }
}

impl<P: Carries<Message>> Room<P> for BinaryRoom<P> {
    fn has_port(&self) -> bool {
        true
    }

    fn open(&mut self, site: &mut Site<P>) -> Result<()> {
        if let Some(address) = self.settings.address {
            self.listeners = listen(address, site.placement().workers().into())?;
            site.listening("binary", self.listeners[0].local_addr()?);
        }
        let workers = usize::from(site.placement().workers());
        self.addresses = Some(self.settings.of_connections(workers).addresses_behind(self.settings.proxy.proxies()));
        Ok(())
    }

    fn port(&mut self, site: &mut Site<P>, me: Address) -> Result<Box<dyn Port<P>>> {
        Ok(Box::new(BinaryPort::new(
            me,
            room::client(site, me),
            (self.listeners.pop(), self.addresses.clone().expect("the room was opened")),
            &self.settings,
            self.authenticator.clone(),
            (
                BinaryMetrics::register(site.registry(), BINARY, me.endpoint.0),
                RefusalMetrics::register(site.registry(), BINARY, me.endpoint.0),
                RequestMetrics::register(site.registry(), BINARY),
            ),
            self.open_rooms(site, me)?,
        )))
    }
}
