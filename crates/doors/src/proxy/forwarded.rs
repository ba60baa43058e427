//! Whose request it is that an HTTP proxy forwards: `X-Forwarded-For`, or `Forwarded` of RFC 7239.
//!
//! ```text
//!   X-Forwarded-For: 203.0.113.9, 198.51.100.4, 10.0.0.2      peer: 10.0.0.1
//!                    who knows   the client ◀── trusted ◀──── trusted
//! ```
//!
//! Each proxy appends whom it was asked by, so the list is read from its end, and only as far as it is trusted. What
//! stands before that, the client itself may have written; it is not even parsed.
//!
//! Why only one of the two headers: a proxy that writes one of them passes on the other as its client wrote it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::TrustedProxies;

/// By which header a proxy says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// By none: each request is its peer's.
    #[default]
    Off,
    /// `X-Forwarded-For`.
    XForwardedFor,
    /// `Forwarded`.
    Forwarded,
}

impl ForwardedHeader {
    /// Its name; `None` for none.
    pub fn name(self) -> Option<&'static str> {
        match self {
            ForwardedHeader::Off => None,
            ForwardedHeader::XForwardedFor => Some("x-forwarded-for"),
            ForwardedHeader::Forwarded => Some("forwarded"),
        }
    }
}

impl ForwardedHeader {
    /// Whether a request came to the proxy over TLS, by the last value of a header, which is the proxy's own word;
    /// `None` if that says nothing.
    pub fn over_tls<'a>(self, last_value_of: impl Fn(&str) -> Option<&'a str>) -> Option<bool> {
        let protocol = match self {
            ForwardedHeader::Off => None,
            ForwardedHeader::XForwardedFor => last_value_of("x-forwarded-proto")?.rsplit(',').next(),
            ForwardedHeader::Forwarded => {
                let element = last_value_of("forwarded")?.rsplit(',').next()?;
                let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
                pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("proto")).map(|(_, value)| value)
            }
        }?;
        match protocol.trim_matches([' ', '\t', '"']) {
            https if https.eq_ignore_ascii_case("https") => Some(true),
            http if http.eq_ignore_ascii_case("http") => Some(false),
            _ => None,
        }
    }
}

/// Whose word is taken, and by which header. `Default`: nobody's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardedRule {
    trusted: TrustedProxies,
    header: ForwardedHeader,
}

/// Whose a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Its peer's: that is no trusted proxy, or it says nothing.
    Peer,
    /// A client's behind trusted proxies.
    Client(IpAddr),
    /// A trusted proxy says it in a way that cannot be read. Counted as the proxy's; that of a proxy of this machine
    /// has no address, so that it is not taken for one of this machine's programs.
    Unclear(IpAddr),
}

impl ForwardedRule {
    /// `trusted` proxies say it by this header.
    pub fn new(trusted: TrustedProxies, header: ForwardedHeader) -> ForwardedRule {
        ForwardedRule { trusted, header }
    }

    /// The header, if this peer's is read.
    pub fn header_of(&self, peer: IpAddr) -> Option<&'static str> {
        self.header.name().filter(|_| self.trusted.contains(peer))
    }

    /// By which header they say it.
    pub fn header(&self) -> ForwardedHeader {
        self.header
    }

    /// The proxies that say it.
    pub fn proxies(&self) -> TrustedProxies {
        if self.header == ForwardedHeader::Off { TrustedProxies::default() } else { self.trusted.clone() }
    }

    /// Whose the request of a trusted `peer` is, that has these values of the header, in their order.
    pub fn origin<'a>(&self, peer: IpAddr, values: impl DoubleEndedIterator<Item = &'a [u8]>) -> Origin {
        let peer = peer.to_canonical();
        let unclear = Origin::Unclear(if peer.is_loopback() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { peer });
        let mut last = None;
        // Whether the request has never left this machine, as far as the list was read.
        let mut is_of_this_machine = peer.is_loopback();
        for value in values.rev() {
            let Ok(mut rest) = std::str::from_utf8(value) else { return unclear };
            while !rest.is_empty() {
                let (before, element) = split_last(rest);
                rest = before;
                let Some(address) = self.address_of(element.trim_matches([' ', '\t'])) else { return unclear };
                if address.is_loopback() && !is_of_this_machine {
                    return unclear;
                }
                is_of_this_machine &= address.is_loopback();
                if !self.trusted.contains(address) {
                    return Origin::Client(address);
                }
                last = Some(address);
            }
        }
        // All are trusted: the first of them asks for itself.
        last.map_or(Origin::Peer, Origin::Client)
    }

    /// The address that an element of the list names.
    fn address_of(&self, element: &str) -> Option<IpAddr> {
        let node = match self.header {
            ForwardedHeader::Forwarded => {
                let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
                let (_, node) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
                let node = node.trim();
                node.strip_prefix('"').and_then(|quoted| quoted.strip_suffix('"')).unwrap_or(node)
            }
            ForwardedHeader::Off | ForwardedHeader::XForwardedFor => element,
        };
        let with_port = || node.parse::<SocketAddr>().ok().map(|node| node.ip());
        let bracketed = || node.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
        let address: IpAddr = node.parse().ok().or_else(with_port).or_else(bracketed)?;
        Some(address.to_canonical())
    }
}

/// The list without its last element, and that element. Quotes are read from the end, so those that a client has left
/// open hide nothing that a proxy has appended.
fn split_last(list: &str) -> (&str, &str) {
    let mut is_quoted = false;
    for (at, byte) in list.bytes().enumerate().rev() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => return (&list[..at], &list[at + 1..]),
            _ => {}
        }
    }
    ("", list)
}
