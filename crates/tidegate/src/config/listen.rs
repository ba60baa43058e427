//! `[listen]`: addresses of the doors.

use std::net::SocketAddr;

use tidegate_config::{Address, ConfigError, Document, Text, config};
use tidegate_pacer::limits::PacingDemoKeys;

use super::settled::Overrides;

config! {
    /// `[listen]`, as far as HTTP and the binary port go.
    pub struct ListenKeys in "listen" {
        http: Address = "127.0.0.1:8080", .., restart,
            "address and port of the HTTP/JSON door (API, /healthz, /metrics, /openapi.json), or \"off\"";
        binary: Address = "127.0.0.1:7420", .., restart,
            "address and port of the binary door (frames of tidegate.proto), or \"off\"";
    }
}

config! {
    /// `[listen]`, as far as MQTT goes.
    pub struct MqttListenKeys in "listen" {
        mqtt: Address = "127.0.0.1:1883", .., restart, "address and port of MQTT 3.1.1 and 5 over TCP, or \"off\"";
        // No address by default: without certificates it could not serve.
        mqtts: Address = "off", .., restart, "address and port of MQTT over TLS, or \"off\"; needs [tls]";
        websocket: Text = "/mqtt", .., restart, "path of MQTT over WebSocket on the HTTP door, or \"off\"";
    }
}

/// Addresses of the doors; `None` for a door that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// HTTP/JSON.
    pub http: Option<SocketAddr>,
    /// Binary.
    pub binary: Option<SocketAddr>,
    /// MQTT over TCP.
    pub mqtt: Option<SocketAddr>,
    /// MQTT over TLS.
    pub mqtts: Option<SocketAddr>,
}

/// The addresses of the file, or those of the flags.
pub fn settle(document: &Document, overrides: &Overrides) -> Result<Listen, ConfigError> {
    let (keys, mqtt): (ListenKeys, MqttListenKeys) = (document.section()?, document.section()?);
    let listen = Listen {
        http: overrides.http.map_or(keys.http, |flag| flag.0),
        binary: overrides.binary.map_or(keys.binary, |flag| flag.0),
        mqtt: overrides.mqtt.map_or(mqtt.mqtt, |flag| flag.0),
        mqtts: overrides.mqtts.map_or(mqtt.mqtts, |flag| flag.0),
    };
    check_apart(document, &listen)?;
    check_demo(document, &listen)?;
    Ok(listen)
}

/// That nobody bids on other machines while a synthetic market spends the money of campaigns.
fn check_demo(document: &Document, listen: &Listen) -> Result<(), ConfigError> {
    let PacingDemoKeys { day_s } = document.section()?;
    let doors = [("http", listen.http), ("binary", listen.binary), ("mqtt", listen.mqtt), ("mqtts", listen.mqtts)];
    let open = doors.into_iter().find_map(|(door, address)| Some((door, address.filter(|at| !at.ip().is_loopback())?)));
    match open {
        Some((door, address)) if day_s > 0 => {
            let message = format!(
                "pacing.demo.day_s = {day_s}: a synthetic market spends money, and listen.{door} = {address} is open \
                 to other machines; bind all doors to 127.0.0.1, or set day_s to 0"
            );
            Err(document.error_at("pacing.demo.day_s", message))
        }
        _ => Ok(()),
    }
}

/// That no door takes the address of another: the second could not be bound, when the data directory is made already.
fn check_apart(document: &Document, listen: &Listen) -> Result<(), ConfigError> {
    let doors = [("http", listen.http), ("binary", listen.binary), ("mqtt", listen.mqtt), ("mqtts", listen.mqtts)];
    let mut taken: Vec<(&str, SocketAddr)> = Vec::new();
    for (door, address) in doors {
        let Some(address) = address else { continue };
        if let Some((other, theirs)) = taken.iter().find(|(_, theirs)| overlap(*theirs, address)) {
            let path = format!("listen.{door}");
            let message = format!("{path} = {address}: listen.{other} = {theirs} takes it; give it another port");
            return Err(document.error_at(&path, message));
        }
        taken.push((door, address));
    }
    Ok(())
}

/// Whether not both can be listened to. `[::]` takes IPv4, too, as Linux is by default; port 0 is one that is free.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let takes = |all: SocketAddr, other: SocketAddr| all.ip().is_unspecified() && (all.is_ipv6() || other.is_ipv4());
    let is_one_ip = one.ip() == other.ip() || takes(one, other) || takes(other, one);
    one.port() == other.port() && one.port() != 0 && is_one_ip
}

/// The path of MQTT over WebSocket; `None` for none.
pub fn websocket_path(document: &Document) -> Result<Option<Box<str>>, ConfigError> {
    let keys: MqttListenKeys = document.section()?;
    match &*keys.websocket {
        "off" => Ok(None),
        path if path.starts_with('/') && path.len() > 1 && path.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(Some(path.into()))
        }
        path => {
            let message = format!("listen.websocket = {path:?}: expected a path such as \"/mqtt\", or \"off\"");
            Err(document.error_at("listen.websocket", message))
        }
    }
}
