//! A session as JSON.

use serde::Serialize;
use utoipa::ToSchema;

use super::page::owner_text;
use crate::operator::PeerRow;

/// A session, and its client if that is connected.
#[derive(Serialize, ToSchema)]
pub struct SessionBody<'a> {
    /// Client id.
    #[schema(example = "tv-4711")]
    client_id: &'a str,
    /// Whose it is: `user:NAME`, `service:NAME`, `provided:NAME`, `certificate:NAME`, or `address:NETWORK` of one who
    /// has not said who it is; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "user:dave")]
    owner: Option<String>,
    /// Whether its client is connected.
    connected: bool,
    /// From where; like the other members of a connection, absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "203.0.113.7")]
    address: Option<String>,
    /// From which port.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u16, required = false)]
    port: Option<u16>,
    /// By which listener: `mqtt`, `mqtts` or `websocket`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "mqtt")]
    listener: Option<&'a str>,
    /// `3.1.1` or `5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "5")]
    protocol: Option<&'static str>,
    /// Keep alive in seconds; 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u16, required = false)]
    keep_alive_s: Option<u16>,
    /// Since when it is connected, to the second, milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    connected_at_ms: Option<u64>,
    /// When its last packet came, to the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    last_packet_at_ms: Option<u64>,
    /// Whether the session outlives its connection.
    durable: bool,
    /// For how many seconds; 0 if it does not; absent if without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, required = false)]
    expiry_s: Option<u32>,
    /// Since when its client is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    disconnected_at_ms: Option<u64>,
    /// When it ends, if its client does not come back; absent while that is connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    expires_at_ms: Option<u64>,
    /// Subscriptions.
    subscriptions: u32,
    /// Messages of QoS 1 and 2 that were sent to the client and not acknowledged.
    in_flight: u32,
    /// Messages that wait for the client; of a durable session, with those in flight.
    inbox_messages: u64,
    /// Their bytes.
    inbox_bytes: u64,
}

impl<'a> From<&'a PeerRow> for SessionBody<'a> {
    fn from(PeerRow { session, peer }: &'a PeerRow) -> SessionBody<'a> {
        let ms = |seconds: u32| u64::from(seconds) * 1_000;
        let connection = session.connection.as_ref();
        let expiry_s = Some(session.expiry_s).filter(|expiry_s| *expiry_s != u32::MAX);
        let disconnected_at_ms = session.detached_at.map(|at| at.0).filter(|_| connection.is_none());
        SessionBody {
            client_id: &session.client_id,
            owner: session.owner.as_ref().map(owner_text),
            connected: connection.is_some(),
            address: peer.as_ref().map(|peer| peer.address.ip().to_canonical().to_string()),
            port: peer.as_ref().map(|peer| peer.address.port()),
            listener: peer.as_ref().map(|peer| &*peer.listener),
            protocol: connection.map(|connection| if connection.is_v5 { "5" } else { "3.1.1" }),
            keep_alive_s: connection.map(|connection| connection.keep_alive_s),
            connected_at_ms: connection.map(|connection| ms(connection.since_s)),
            last_packet_at_ms: connection.map(|connection| ms(connection.last_packet_s)),
            durable: session.is_durable,
            expiry_s,
            disconnected_at_ms,
            expires_at_ms: disconnected_at_ms.zip(expiry_s).map(|(at, expiry_s)| at + ms(expiry_s)),
            subscriptions: session.subscriptions,
            in_flight: session.in_flight,
            inbox_messages: session.inbox_messages,
            inbox_bytes: session.inbox_bytes,
        }
    }
}
