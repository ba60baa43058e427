//! `[listener.…]`: the settings of each MQTT listener.

use std::net::SocketAddr;

use tidegate_config::{Bytes, ConfigError, Count, Document, Flag, PerSecond, Texts, config};
use tidegate_doors::mqtt::Origins;

use super::listen::{Listen, websocket_path};

config! {
    /// `[listener.…]`, what all have.
    pub struct ListenerKeys in "listener.mqtt" | "listener.mqtts" | "listener.websocket" {
        anonymous: Flag = false, .., restart,
            "whether clients without credentials may come in; only where the listener is on loopback";
        connections_max: Count<usize> = 0, 0..=(1 << 24), restart, "clients at once; 0 for mqtt.connections_max";
        connects_per_s: PerSecond<u32> = 0, 0..=4_294_967_295, restart,
            "clients taken per second; who comes faster waits. 0 for no bound";
    }
}

config! {
    /// `[listener.mqtt]` and `[listener.mqtts]`
    pub struct PacketKeys in "listener.mqtt" | "listener.mqtts" {
        packet_bytes_max: Bytes<u32> = 0, 0..=(256 << 20), restart,
            "bytes of a packet from a client; 0 for mqtt.packet_bytes_max";
    }
}

config! {
    /// `[listener.websocket]`
    pub struct WebSocketKeys in "listener.websocket" {
        origins: Texts = &[], .., restart,
            "pages of these other origins may connect, such as \"https://example.org\"; [\"*\"] for all. Own pages \
             always may, with anonymous only those of localhost and its addresses";
    }
}

/// Who may come in through one listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Door {
    /// Whether without credentials.
    pub anonymous: bool,
    /// Clients at once.
    pub connections_max: usize,
    /// Clients per second; 0 for no bound.
    pub connections_per_s: u32,
    /// Bytes of a packet; 0 for the broker's bound.
    pub packet_bytes_max: u32,
}

/// MQTT over WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocket {
    /// Path on the HTTP door.
    pub path: Box<str>,
    /// Which pages.
    pub origins: Origins,
    /// Who.
    pub door: Door,
}

/// The three listeners.
pub struct Listeners {
    /// Over TCP.
    pub tcp: Door,
    /// Over TLS.
    pub tls: Door,
    /// Over WebSocket, on the HTTP door.
    pub websocket: Option<WebSocket>,
}

/// Checks each listener. `connections_max` is the bound of all listeners together.
pub fn settle(document: &Document, listen: &Listen, connections_max: usize) -> Result<Listeners, ConfigError> {
    let door = |name, at, address| door(document, name, at, address, connections_max);
    let web = door("listener.websocket", "listen.http", listen.http)?;
    let mut tcp = door("listener.mqtt", "listen.mqtt", listen.mqtt)?;
    let mut tls = door("listener.mqtts", "listen.mqtts", listen.mqtts)?;
    tcp.packet_bytes_max = document.section_at::<PacketKeys>("listener.mqtt")?.packet_bytes_max;
    tls.packet_bytes_max = document.section_at::<PacketKeys>("listener.mqtts")?.packet_bytes_max;
    let path = websocket_path(document)?;
    let origins = origins(document)?;
    let websocket = path.filter(|_| listen.http.is_some()).map(|path| WebSocket { path, origins, door: web });
    Ok(Listeners { tcp, tls, websocket })
}

/// One listener, whose address is `address`, from the key `at`.
fn door(
    document: &Document,
    name: &str,
    at: &str,
    address: Option<SocketAddr>,
    connections_max: usize,
) -> Result<Door, ConfigError> {
    let keys: ListenerKeys = document.section_at(name)?;
    if let Some(address) = address.filter(|address| keys.anonymous && !address.ip().is_loopback()) {
        let path = format!("{name}.anonymous");
        let message = format!(
            "{path} = true: clients without credentials may only come from this machine, but {at} is {address}; \
             bind it to 127.0.0.1, or set anonymous to false"
        );
        return Err(document.error_at(&path, message));
    }
    Ok(Door {
        anonymous: keys.anonymous,
        connections_max: if keys.connections_max == 0 { connections_max } else { keys.connections_max },
        connections_per_s: keys.connects_per_s,
        packet_bytes_max: 0,
    })
}

fn origins(document: &Document) -> Result<Origins, ConfigError> {
    let keys: WebSocketKeys = document.section()?;
    match &keys.origins[..] {
        [] => Ok(Origins::SameHost),
        [all] if &**all == "*" => Ok(Origins::Any),
        listed => match listed.iter().find(|origin| !is_origin(origin)) {
            Some(wrong) => {
                let path = "listener.websocket.origins";
                let message = format!(
                    "{path}: {wrong:?}: expected origins such as \"https://example.org\" or \"http://localhost:3000\", \
                     or \"*\" alone"
                );
                Err(document.error_at(path, message))
            }
            None => Ok(Origins::Listed(listed.into())),
        },
    }
}

/// Whether a browser may name a page's origin so.
pub(super) fn is_origin(origin: &str) -> bool {
    let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@', '*']))
}
