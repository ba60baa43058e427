//! `[listen]`: addresses of the doors.

use std::net::SocketAddr;

use tidegate_config::{Address, ConfigError, Document, Text, config};

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
    Ok(Listen {
        http: overrides.http.map_or(keys.http, |flag| flag.0),
        binary: overrides.binary.map_or(keys.binary, |flag| flag.0),
        mqtt: overrides.mqtt.map_or(mqtt.mqtt, |flag| flag.0),
        mqtts: overrides.mqtts.map_or(mqtt.mqtts, |flag| flag.0),
    })
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
