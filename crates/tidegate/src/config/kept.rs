//! `[kept.principal]`, `[kept.address]` and `[kept.all]`: how much MQTT clients may leave behind.

use tidegate_broker::{Bound, HoldingLimits, Thing, ThingLimits};
use tidegate_config::{Bytes, ConfigError, Count, Document, config};

config! {
    /// `[kept.principal]`
    pub struct PrincipalKeptKeys in "kept.principal" {
        sessions_max: Count = 10_000, 0..=(1 << 40), restart,
            "sessions that outlive their connection, of one user, service or certificate; more are told 0x97. 0 for no \
             bound";
        sessions_bytes_max: Bytes = 64 << 20, 0..=(1 << 50), restart,
            "bytes of these sessions and their wills; 0 for no bound";
    }
}

config! {
    /// `[kept.address]`
    pub struct AddressKeptKeys in "kept.address" {
        sessions_max: Count = 1_000, 0..=(1 << 40), restart,
            "sessions that outlive their connection, of the anonymous clients of one address (IPv6: of one /64). 0 for \
             no bound";
        sessions_bytes_max: Bytes = 8 << 20, 0..=(1 << 50), restart,
            "bytes of these sessions and their wills; 0 for no bound";
    }
}

config! {
    /// `[kept.all]`
    pub struct AllKeptKeys in "kept.all" {
        sessions_max: Count = 1 << 21, 0..=(1 << 40), restart,
            "sessions that outlive their connection, of all clients; anonymous ones may have half of them. 0 for no \
             bound";
        sessions_bytes_max: Bytes = 2 << 30, 0..=(1 << 50), restart,
            "bytes of these sessions and their wills, of which anonymous clients may have half; 0 for no bound";
    }
}

/// Checks the bounds.
pub fn settle(document: &Document) -> Result<HoldingLimits, ConfigError> {
    let principal: PrincipalKeptKeys = document.section()?;
    let address: AddressKeptKeys = document.section()?;
    let all: AllKeptKeys = document.section()?;
    let bound = |count, bytes| Bound { count, bytes };
    let mut limits = HoldingLimits::NONE;
    limits[Thing::Session] = ThingLimits {
        principal: bound(principal.sessions_max, principal.sessions_bytes_max),
        address: bound(address.sessions_max, address.sessions_bytes_max),
        all: bound(all.sessions_max, all.sessions_bytes_max),
    };
    Ok(limits)
}
