//! The header of the PROXY protocol, versions 1 and 2, by which a load balancer says whose connection it forwards.
//! Source: <https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt>.
//!
//! ```text
//!   v1   PROXY TCP4 192.0.2.7 198.51.100.1 40000 1883\r\n                 at most 107 bytes
//!   v2   signature (12) │ version, command │ family │ length (2) │ addresses │ TLVs
//! ```
//!
//! Promise: [`decode`] is given all bytes that have come so far, and its verdict on a header does not depend on how
//! many bytes follow or where they were cut. It looks at no more than [`HEADER_BYTES_MAX`] bytes.
//!
//! TLVs are skipped: what they say (a certificate, a checksum) is the balancer's word, and nothing here needs it.
//!
//! Invariant: nothing here decides who may send such a header. `core::net` has addresses, and no sockets.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of the longest header that is taken. A header of version 1 has 107 at most; one of version 2 has 232 without
/// its TLVs, for which the rest is.
pub const HEADER_BYTES_MAX: usize = 1_024;

/// Bytes of a header of version 1, with its end of line.
const LINE_BYTES_MAX: usize = 107;
/// What a header of version 1 begins with.
const WORD: &[u8] = b"PROXY ";
/// What a header of version 2 begins with.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The signature, version and command, family, length.
const FIXED_BYTES: usize = SIGNATURE.len() + 4;

/// Source, destination and both ports.
const IPV4_BYTES: usize = 12;
const IPV6_BYTES: usize = 36;
/// Two paths of sockets.
const UNIX_BYTES: usize = 216;

const _: () = assert!(LINE_BYTES_MAX <= HEADER_BYTES_MAX && FIXED_BYTES + UNIX_BYTES <= HEADER_BYTES_MAX);

/// Which versions are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// Only version 1, a line of text.
    V1,
    /// Only version 2, in binary.
    V2,
    /// Both.
    Either,
}

/// A whole header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whose connection it is. `None` if it is the balancer's own (`LOCAL`), as when it checks the server's health, or
    /// it does not say (`UNKNOWN`, no family, a Unix socket).
    pub source: Option<SocketAddr>,
    /// How many bytes it has; the client's own follow.
    pub bytes: usize,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// They begin otherwise, or with a version that is not taken.
    #[error("does not begin as a header of the PROXY protocol of a version that is taken here")]
    Beginning,
    /// A line that is too long, or has other words or addresses.
    #[error("is no header of the PROXY protocol, version 1")]
    Line,
    /// No version 2, or a command that it does not have.
    #[error("has a version or command that the PROXY protocol, version 2, does not have")]
    Command,
    /// A family, or a transport, that no TCP connection has.
    #[error("has a family of addresses that no TCP connection has")]
    Family,
    /// Fewer bytes than the addresses need, or more than are taken.
    #[error("has too few bytes for its addresses, or more than are taken")]
    Length,
}

/// Reads the header at the beginning of a connection, of which `bytes` have come so far. `None` if more must come.
pub fn decode(bytes: &[u8], versions: Versions) -> Result<Option<Header>, HeaderError> {
    let (v1, v2) = (begins(bytes, WORD), begins(bytes, SIGNATURE));
    match versions {
        Versions::V1 | Versions::Either if v1 => decode_line(bytes),
        Versions::V2 | Versions::Either if v2 => decode_binary(bytes),
        _ => Err(HeaderError::Beginning),
    }
}

/// Whether `bytes` begin as a header does, of either version.
pub fn is_header(bytes: &[u8]) -> bool {
    bytes.starts_with(WORD) || bytes.starts_with(SIGNATURE)
}

/// Whether `bytes` begin with `word`, as far as they have come.
fn begins(bytes: &[u8], word: &[u8]) -> bool {
    let common = bytes.len().min(word.len());
    bytes[..common] == word[..common]
}

fn decode_line(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    let seen = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = seen.iter().position(|byte| !matches!(byte, b' '..=b'~')) else {
        return if seen.len() < LINE_BYTES_MAX { Ok(None) } else { Err(HeaderError::Line) };
    };
    match &seen[end..] {
        [b'\r'] if seen.len() < LINE_BYTES_MAX => Ok(None),
        [b'\r', b'\n', ..] => {
            let line = seen[..end].strip_prefix(WORD).ok_or(HeaderError::Line)?;
            let line = core::str::from_utf8(line).map_err(|_| HeaderError::Line)?;
            Ok(Some(Header { source: source_of_line(line)?, bytes: end + 2 }))
        }
        _ => Err(HeaderError::Line),
    }
}

/// The source of a line behind its first word.
fn source_of_line(line: &str) -> Result<Option<SocketAddr>, HeaderError> {
    let words: Vec<&str> = line.split(' ').collect();
    let (family, rest) = words.split_first().ok_or(HeaderError::Line)?;
    // "the receiver must ignore anything presented before the CRLF".
    if *family == "UNKNOWN" {
        return Ok(None);
    }
    let [source, destination, source_port, destination_port] = *rest else { return Err(HeaderError::Line) };
    let address = |word: &str| match *family {
        "TCP4" => word.parse::<Ipv4Addr>().map(IpAddr::V4).map_err(|_| HeaderError::Line),
        "TCP6" => word.parse::<Ipv6Addr>().map(IpAddr::V6).map_err(|_| HeaderError::Line),
        _ => Err(HeaderError::Line),
    };
    let port = |word: &str| {
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
        word.parse::<u16>().ok().filter(|_| is_number).ok_or(HeaderError::Line)
    };
    address(destination)?;
    port(destination_port)?;
    Ok(Some(SocketAddr::new(address(source)?, port(source_port)?)))
}

fn decode_binary(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    // Each byte is looked at as soon as it is there.
    let is_local = match bytes.get(12) {
        Some(0x20) => true,
        None | Some(0x21) => false,
        Some(_) => return Err(HeaderError::Command),
    };
    let addresses_bytes = match bytes.get(13) {
        // The balancer's own connection: "the receiver must ignore the rest".
        _ if is_local => 0,
        None | Some(0x00) => 0,
        Some(0x11) => IPV4_BYTES,
        Some(0x21) => IPV6_BYTES,
        Some(0x31) => UNIX_BYTES,
        Some(_) => return Err(HeaderError::Family),
    };
    let Some(&[high, low]) = bytes.get(14..16) else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length < addresses_bytes || FIXED_BYTES + length > HEADER_BYTES_MAX {
        return Err(HeaderError::Length);
    }
    let Some(addresses) = bytes.get(FIXED_BYTES..FIXED_BYTES + length) else { return Ok(None) };
    Ok(Some(Header { source: source_of(addresses, addresses_bytes), bytes: FIXED_BYTES + length }))
}

/// The source of the addresses of a family that takes so many bytes.
fn source_of(addresses: &[u8], addresses_bytes: usize) -> Option<SocketAddr> {
    let port = |at: usize| Some(u16::from_be_bytes(*addresses.get(at..)?.first_chunk()?));
    match addresses_bytes {
        IPV4_BYTES => Some(SocketAddr::new(IpAddr::from(*addresses.first_chunk::<4>()?), port(8)?)),
        IPV6_BYTES => Some(SocketAddr::new(IpAddr::from(*addresses.first_chunk::<16>()?), port(32)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
