//! Whose connections and requests they are that load balancers forward to the HTTP door.
//!
//! ```text
//!   accept ─▶ counted at the balancer's address ─▶ its header ─▶ counted at the client's ─▶ TLS? ─▶ requests
//!                                                                   each may name another client ◀──┘
//! ```

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use axum::http::HeaderMap;
use tidegate_wire::proxy::HEADER_BYTES_MAX;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::door::Door;
use super::parting::EdgePlace;
use super::serve::turn_away;
use crate::handshakes::tell_missing_header;
use crate::proxy::{Forwarded, ForwardedRule, HeaderReader, Origin, ProxyRule, TrustedProxies};

/// Load balancers before the HTTP door. `Default`: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpProxies {
    /// Which connections begin with a header of the PROXY protocol.
    pub connections: ProxyRule,
    /// In which requests a header says whose they are.
    pub requests: ForwardedRule,
}

impl HttpProxies {
    /// All whose word is taken here.
    pub fn all(&self) -> TrustedProxies {
        let proxies = self.connections.proxies();
        if proxies.is_empty() { self.requests.proxies() } else { proxies }
    }
}

/// Where the client of a connection comes from that was accepted just now: counts it there, once a load balancer has
/// said so. `None` if the connection is over.
pub(super) async fn meet(stream: &mut TcpStream, place: &EdgePlace, door: &Door, tls: bool) -> Option<IpAddr> {
    // A client that has disconnected already has no address. Its request needs no answer.
    let peer = stream.peer_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
    let Some(header) = door.proxies.connections.header_of(peer) else { return Some(peer) };
    let forwarded = tokio::select! {
        biased;
        () = place.parting.wait() => return None,
        read = tokio::time::timeout(door.limits.handshake_timeout, read(stream, header)) => match read {
            Ok(Ok(forwarded)) => forwarded,
            Ok(Err(error)) => {
                door.metrics.proxy_headers_refused.increment();
                tell_missing_header(&error, if tls { "https" } else { "http" }, peer);
                return None;
            }
            Err(_) => {
                door.metrics.proxy_headers_refused.increment();
                return None;
            }
        },
    };
    let Forwarded::Client(client) = forwarded else { return Some(peer) };
    match place.come_from(client.ip()) {
        Ok(gives_way) => {
            if gives_way {
                door.metrics.connections_gave_way.increment();
            }
            Some(client.ip())
        }
        Err(crowded) => {
            door.metrics.connections_refused.increment();
            turn_away(stream, tls, crowded);
            None
        }
    }
}

/// Reads the header, and nothing of what follows.
async fn read(stream: &mut TcpStream, mut header: HeaderReader) -> io::Result<Forwarded> {
    let mut seen = [0; HEADER_BYTES_MAX];
    loop {
        let bytes = stream.peek(&mut seen).await?;
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (used, forwarded) = header.take(&seen[..bytes])?;
        stream.read_exact(&mut seen[..used]).await?;
        if let Some(forwarded) = forwarded {
            return Ok(forwarded);
        }
    }
}

/// Where the sender of a request comes from; `None` if that is where its connection comes from.
pub(super) fn sender(door: &Door, peer: IpAddr, headers: &HeaderMap) -> Option<IpAddr> {
    let rule = &door.proxies.requests;
    let name = rule.header_of(peer)?;
    // As a list, because the values of a header can be read from one side only.
    let values: Vec<&[u8]> = headers.get_all(name).iter().map(|value| value.as_bytes()).collect();
    match rule.origin(peer, values.into_iter()) {
        Origin::Peer => None,
        Origin::Client(address) => Some(address),
        Origin::Unclear(address) => {
            door.metrics.forwarded_unclear.increment();
            Some(address)
        }
    }
}

/// Whether the sender of a request that a proxy forwards spoke TLS to that proxy; `None` if it does not say.
pub(super) fn over_tls(door: &Door, peer: IpAddr, headers: &HeaderMap) -> Option<bool> {
    let rule = &door.proxies.requests;
    rule.header_of(peer)?;
    let value = |name: &str| headers.get_all(name).iter().next_back().and_then(|value| value.to_str().ok());
    rule.header().over_tls(value)
}
