//! The keys of TLS handshakes, at all doors.

use tidegate_config::{ConfigError, Count, Document, PerSecond, config};
use tidegate_doors::handshakes::HandshakeLimits;

config! {
    /// `[limits]`, as far as TLS goes.
    pub struct HandshakeKeys in "limits" {
        tls_handshakes_per_address_per_s: PerSecond<u32> = 100, 0..=1_000_000, restart,
            "TLS handshakes per second of one address (IPv6: of one /64), over all doors; more are closed before they \
             cost anything. Behind a load balancer they are its clients' if [proxy] says so; one in front of a mobile \
             network is an address of thousands. 0 for no bound";
        tls_handshakes_per_address_burst: Count<u32> = 1_000, 0..=1_000_000, restart,
            "those of them that may come at once, after a pause, as when all come back; 0 for what one second gives";
    }
}

/// Reads them.
pub fn settle(document: &Document) -> Result<HandshakeLimits, ConfigError> {
    let keys: HandshakeKeys = document.section()?;
    Ok(HandshakeLimits { per_s: keys.tls_handshakes_per_address_per_s, burst: keys.tls_handshakes_per_address_burst })
}
