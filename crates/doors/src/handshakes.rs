//! Bounds how often those of one address begin a TLS handshake, over all doors that speak TLS.
//!
//! ```text
//!   first bytes of TLS ─▶ may_begin(client's address) ─┬─ yes ─▶ the handshake
//!                                                      └─ no ──▶ counted, told to the security log, closed
//! ```
//!
//! Promise: whoever begins handshakes faster than its address may costs an accept and a read, and no signature and no
//! key exchange. Those of other addresses have theirs. A load balancer's connections are its clients': one that says
//! whose each is (PROXY protocol) has no part in it, and one that only says it in requests has no bound.
//!
//! Why at the first bytes and not at the accept: a connection that says nothing costs none of it. Why one count for all
//! doors: the processor that signs is the same.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use tidegate_telemetry::{Registry, metrics};

use crate::address_rates::AddressRates;
use crate::admission::monotonic_ns;
use crate::proxy::TrustedProxies;
use crate::security::{self, SecurityEvent};
use crate::stream::{HandshakeFailed, HandshakeGate};

metrics! {
    /// What is counted of them, at all doors.
    pub struct HandshakeMetrics() {
        refused: SharedCounterFamily(door: "http" "mqtts" "binary")
            "tidegate_tls_handshakes_refused_total"
            "Connections closed before their TLS handshake, because their address begins too many, by door.";
    }
}

/// How many handshakes an address may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeLimits {
    /// In each second; 0 for no bound.
    pub per_s: u32,
    /// At once, after a pause; 0 for what one second gives.
    pub burst: u32,
}

/// The counts of all addresses. See the [module](self).
pub struct Handshakes {
    limits: HandshakeLimits,
    rates: AddressRates,
    metrics: HandshakeMetrics,
}

/// One door's.
struct AtDoor {
    all: Arc<Handshakes>,
    door: &'static str,
    proxies: TrustedProxies,
}

impl Handshakes {
    /// None yet. Registers what it counts.
    pub fn new(limits: HandshakeLimits, registry: &Registry) -> Arc<Handshakes> {
        let at_once = if limits.burst == 0 { limits.per_s } else { limits.burst };
        let rates = AddressRates::new(limits.per_s, at_once);
        Arc::new(Handshakes { limits, rates, metrics: HandshakeMetrics::register(registry) })
    }

    /// Who may begin one at `door`; these load balancers' own addresses are not counted there.
    pub fn at(self: &Arc<Handshakes>, door: &'static str, proxies: TrustedProxies) -> Arc<dyn HandshakeGate> {
        Arc::new(AtDoor { all: self.clone(), door, proxies })
    }
}

impl HandshakeGate for AtDoor {
    fn may_begin(&self, address: IpAddr) -> bool {
        if self.proxies.contains(address) || self.all.rates.take(address, monotonic_ns()).is_ok() {
            return true;
        }
        let HandshakeLimits { per_s, .. } = self.all.limits;
        self.all.metrics.refused.increment(self.door);
        let detail = format!("its address begins more than {per_s} TLS handshakes per second");
        security::tell(SecurityEvent::HandshakeRefused, self.door, address, "", &detail);
        false
    }
}

/// Says why the connection of this address ended, if it was because its TLS handshake failed.
pub fn tell_failed(error: &io::Error, door: &'static str, address: IpAddr) {
    match HandshakeFailed::of(error) {
        None => {}
        Some(failed) if failed.is_proxy_header => tell_untrusted_proxy(door, address),
        Some(failed) => {
            security::tell(SecurityEvent::HandshakeFailed, door, address, "", &failed.to_string());
        }
    }
}

/// Says that a connection of this address began with a header of the PROXY protocol, which it may not.
pub fn tell_untrusted_proxy(door: &'static str, address: IpAddr) {
    let detail = format!(
        "it sent a header of the PROXY protocol; if this is a load balancer, list it in proxy.trusted and set \
         proxy.{door}"
    );
    security::tell(SecurityEvent::ProxyNotTrusted, door, address, "", &detail);
}

/// Says that what a load balancer sent first is no header, if it is that which ended the connection.
pub fn tell_missing_header(error: &io::Error, door: &'static str, balancer: IpAddr) {
    if error.kind() == io::ErrorKind::InvalidData {
        let detail =
            format!("{error}. Let it send the PROXY protocol to this door, or set proxy.{door} = \"off\" and restart");
        security::tell(SecurityEvent::ProxyHeaderMissing, door, balancer, "", &detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_doors_count_together_and_balancers_do_not() {
        let registry = Registry::of(&[HandshakeMetrics::ROWS]);
        let handshakes = Handshakes::new(HandshakeLimits { per_s: 1, burst: 10 }, &registry);
        let balancers = TrustedProxies::new(vec!["10.0.0.0/8".parse().expect("a range")]);
        let (http, mqtts) = (handshakes.at("http", balancers), handshakes.at("mqtts", TrustedProxies::default()));
        let begun = |gate: &Arc<dyn HandshakeGate>, address: &str| {
            let address = address.parse().expect("an address");
            (0..50).filter(|_| gate.may_begin(address)).count()
        };
        assert_eq!((begun(&http, "192.0.2.1"), begun(&mqtts, "192.0.2.1"), begun(&mqtts, "192.0.2.2")), (10, 0, 10));
        assert_eq!((begun(&http, "10.0.0.1"), begun(&mqtts, "10.0.0.1")), (50, 10));
    }
}
