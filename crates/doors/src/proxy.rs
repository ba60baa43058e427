//! Whose connection it is that a load balancer forwards, if the balancer is trusted to say so.
//!
//! ```text
//!   peer is trusted?  no ──▶ its own address; its bytes are those of the door's protocol
//!         │ yes
//!         ├─ PROXY protocol ─▶ HeaderReader: before anything else, TLS included ─▶ the client's address
//!         └─ HTTP header ────▶ ForwardedRule: in each request                   ─▶ the client's address
//! ```
//!
//! Promise: nobody but a trusted address has a say in who they are. A client behind a proxy of this machine is never
//! taken for a program of this machine, and a proxy elsewhere cannot name this machine as a client's.
//!
//! Why a trusted peer must send the header: one that may leave it out can be asked to forward a connection that begins
//! with a header of its client's making.

mod forwarded;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

pub use tidegate_wire::proxy::Versions;
use tidegate_wire::proxy::{Header, HeaderError, decode};

pub use forwarded::{ForwardedHeader, ForwardedRule, Origin};

/// Addresses with the same first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    prefix_bits: u8,
}

impl AddressRange {
    fn contains(&self, address: IpAddr) -> bool {
        let (first, address, width) = match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => (first.to_bits().into(), address.to_bits().into(), 32),
            (IpAddr::V6(first), IpAddr::V6(address)) => (first.to_bits(), address.to_bits(), 128),
            _ => return false,
        };
        let other_bits: u128 = first ^ address;
        other_bits.checked_shr(width - u32::from(self.prefix_bits)).is_none_or(|differing| differing == 0)
    }
}

impl AddressRange {
    /// Whether so many addresses are in it that they cannot all be of load balancers: more than the widest ranges that
    /// are private, 10.0.0.0/8 (RFC 1918) and fc00::/7 (RFC 4193).
    pub fn is_wide(&self) -> bool {
        self.prefix_bits < if self.first.is_ipv4() { 8 } else { 7 }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix_bits)
    }
}

impl FromStr for AddressRange {
    type Err = &'static str;

    /// From an address, or an address, `/`, and how many of its first bits count.
    fn from_str(text: &str) -> Result<AddressRange, &'static str> {
        const EXPECTED: &str = "expected an address such as \"::1\", or a range of them such as \"10.0.0.0/8\"";
        let (first, bits) = text.split_once('/').map_or((text, None), |(first, bits)| (first, Some(bits)));
        let first: IpAddr = first.parse().map_err(|_| EXPECTED)?;
        let width = if first.is_ipv4() { 32 } else { 128 };
        let prefix_bits = bits.map_or(Ok(width), |bits| bits.parse().map_err(|_| EXPECTED))?;
        match prefix_bits <= width {
            true => Ok(AddressRange { first, prefix_bits }),
            false => Err(EXPECTED),
        }
    }
}

/// The load balancers whose word is taken. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Arc<[AddressRange]>);

impl TrustedProxies {
    /// Those of these ranges.
    pub fn new(ranges: Vec<AddressRange>) -> TrustedProxies {
        TrustedProxies(ranges.into())
    }

    /// Whether this one is among them.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|range| range.contains(address))
    }

    /// Their ranges.
    pub fn ranges(&self) -> &[AddressRange] {
        &self.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Which connections of a door begin with a header of the PROXY protocol. `Default`: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyRule(Option<(TrustedProxies, Versions)>);

impl ProxyRule {
    /// Those of `trusted` balancers, in one of these versions.
    pub fn new(trusted: TrustedProxies, versions: Versions) -> ProxyRule {
        ProxyRule(Some((trusted, versions)))
    }

    /// What reads the header that `peer` must send first; `None` if it sends none.
    pub fn header_of(&self, peer: IpAddr) -> Option<HeaderReader> {
        let (trusted, versions) = self.0.as_ref()?;
        let is_of_this_machine = peer.to_canonical().is_loopback();
        trusted.contains(peer).then(|| HeaderReader { versions: *versions, is_of_this_machine, bytes: Vec::new() })
    }

    /// The balancers that send it.
    pub fn proxies(&self) -> TrustedProxies {
        self.0.as_ref().map(|(trusted, _)| trusted.clone()).unwrap_or_default()
    }
}

/// What is wrong with the beginning of a trusted balancer's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// It is no header.
    #[error("what the load balancer sent first {0}")]
    Header(#[from] HeaderError),
    /// A balancer elsewhere says that its client is a program of this machine.
    #[error("a load balancer elsewhere names a client's address that only programs of its own machine have")]
    Loopback,
}

impl From<ProxyError> for io::Error {
    fn from(error: ProxyError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

/// Whose connection it is, once the header is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// The balancer's own: it keeps the address of its socket.
    Nobody,
    /// This client's.
    Client(SocketAddr),
}

/// Reads the header of one connection, in pieces.
#[derive(Debug)]
pub struct HeaderReader {
    versions: Versions,
    /// The balancer is a program of this machine.
    is_of_this_machine: bool,
    /// What came before and was not whole.
    bytes: Vec<u8>,
}

impl HeaderReader {
    /// Takes the bytes of the header at the beginning of `wire`. Says how many those are, and when the header is
    /// whole, whose connection it is.
    pub fn take(&mut self, wire: &[u8]) -> Result<(usize, Option<Forwarded>), ProxyError> {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&wire[..wire.len().min(tidegate_wire::proxy::HEADER_BYTES_MAX)]);
        let Some(Header { source, bytes }) = decode(&self.bytes, self.versions)? else {
            // All of it is the header's: a decoder that wants more has seen fewer bytes than the longest has.
            return Ok((wire.len(), None));
        };
        let forwarded = match source {
            None => Forwarded::Nobody,
            Some(source) => {
                let client = SocketAddr::new(source.ip().to_canonical(), source.port());
                if client.ip().is_loopback() && !self.is_of_this_machine {
                    return Err(ProxyError::Loopback);
                }
                Forwarded::Client(client)
            }
        };
        Ok((bytes - before, Some(forwarded)))
    }
}

#[cfg(test)]
mod tests;
