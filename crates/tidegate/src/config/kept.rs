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
        filters_max: Count = 1_000_000, 0..=(1 << 40), restart,
            "subscriptions of one user, service or certificate; more are told 0x97. 0 for no bound";
        filters_bytes_max: Bytes = 256 << 20, 0..=(1 << 50), restart,
            "bytes of these subscriptions; 0 for no bound";
        retained_max: Count = 100_000, 0..=(1 << 40), restart,
            "retained messages of one user, service or certificate, with delayed ones and wills that are to be; more \
             are told 0x97. 0 for no bound";
        retained_bytes_max: Bytes = 256 << 20, 0..=(1 << 50), restart,
            "bytes of memory that these messages take; 0 for no bound";
        delayed_max: Count = 100_000, 0..=(1 << 40), restart,
            "messages under $delayed that wait for their time, and wills that wait for room on the disk, of one user, \
             service or certificate; more are told 0x97. 0 for no bound";
        delayed_bytes_max: Bytes = 64 << 20, 0..=(1 << 50), restart,
            "bytes of memory that these messages take; 0 for no bound";
        queued_max: Count = 1 << 22, 0..=(1 << 40), restart,
            "messages that wait in the journal for the sessions of one user, service or certificate, counted for each \
             session. Beyond, none are kept for sessions without a connection; 0 for no bound";
        queued_bytes_max: Bytes = 4 << 30, 0..=(1 << 50), restart,
            "bytes of memory that these messages take; 0 for no bound";
        unread_bytes_max: Bytes = 256 << 20, 0..=(1 << 50), restart,
            "bytes of packets without the rest, of one user, service or certificate; beyond, connections are closed \
             with 0x97. The first 4 KiB of each do not count. 0 for no bound";
        shapes_max: Count = 1_024, 0..=(1 << 40), restart,
            "shapes of filters (levels, and which are +) that nobody had before, of one user, service or certificate; \
             common ones are free: up to 8 levels, up to 16 with two +, up to 32 with one. 0 for no bound";
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
        filters_max: Count = 100_000, 0..=(1 << 40), restart,
            "subscriptions of the anonymous clients of one address (IPv6: of one /64). 0 for no bound";
        filters_bytes_max: Bytes = 32 << 20, 0..=(1 << 50), restart,
            "bytes of these subscriptions; 0 for no bound";
        retained_max: Count = 10_000, 0..=(1 << 40), restart,
            "retained messages of the anonymous clients of one address. 0 for no bound";
        retained_bytes_max: Bytes = 16 << 20, 0..=(1 << 50), restart,
            "bytes of memory that these messages take; 0 for no bound";
        delayed_max: Count = 10_000, 0..=(1 << 40), restart,
            "messages under $delayed that wait for their time, of the anonymous clients of one address. 0 for no bound";
        delayed_bytes_max: Bytes = 16 << 20, 0..=(1 << 50), restart,
            "bytes of memory that these messages take; 0 for no bound";
        queued_max: Count = 1 << 20, 0..=(1 << 40), restart,
            "messages that wait in the journal for the sessions of the anonymous clients of one address, counted for \
             each session; 0 for no bound";
        queued_bytes_max: Bytes = 256 << 20, 0..=(1 << 50), restart,
            "bytes of memory that these messages take; 0 for no bound";
        unread_bytes_max: Bytes = 64 << 20, 0..=(1 << 50), restart,
            "bytes of packets without the rest, of the anonymous clients of one address; 0 for no bound";
        shapes_max: Count = 256, 0..=(1 << 40), restart,
            "such shapes of the anonymous clients of one address. 0 for no bound";
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
        filters_max: Count = 1 << 24, 0..=(1 << 40), restart,
            "subscriptions of all clients; anonymous ones may have half of them. 0 for no bound";
        filters_bytes_max: Bytes = 4 << 30, 0..=(1 << 50), restart,
            "bytes of these subscriptions, of which anonymous clients may have half; 0 for no bound";
        retained_max: Count = 1 << 22, 0..=(1 << 40), restart,
            "retained messages of all clients; anonymous ones may have half of them. 0 for no bound";
        retained_bytes_max: Bytes = 4 << 30, 0..=(1 << 50), restart,
            "bytes of memory that these messages take, of which anonymous clients may have half; 0 for no bound";
        delayed_max: Count = 1 << 20, 0..=(1 << 40), restart,
            "messages under $delayed that wait for their time, of all clients; anonymous ones may have half of them. \
             0 for no bound";
        delayed_bytes_max: Bytes = 1 << 30, 0..=(1 << 50), restart,
            "bytes of memory that these messages take, of which anonymous clients may have half; 0 for no bound";
        queued_max: Count = 1 << 25, 0..=(1 << 40), restart,
            "messages that wait in the journal, counted for each session, of which anonymous clients may have half; 0 \
             for no bound";
        queued_bytes_max: Bytes = 16 << 30, 0..=(1 << 50), restart,
            "bytes of memory that these messages take, of which anonymous clients may have half; 0 for no bound";
        unread_bytes_max: Bytes = 1 << 30, 0..=(1 << 50), restart,
            "bytes of packets without the rest, of which anonymous clients may have half; 0 for no bound";
        shapes_max: Count = 16_384, 0..=(1 << 40), restart,
            "such shapes of all clients, of which anonymous ones may have half: what a publication visits at most, a \
             millisecond's worth. 0 for no bound";
    }
}

/// Checks the bounds.
pub fn settle(document: &Document) -> Result<HoldingLimits, ConfigError> {
    let principal: PrincipalKeptKeys = document.section()?;
    let address: AddressKeptKeys = document.section()?;
    let all: AllKeptKeys = document.section()?;
    // What is bounded by count, by bytes, or both: a key of the same name in each section.
    macro_rules! bounds {
        ($($count:ident)?, $($bytes:ident)?) => {{
            let [principal, address, all] = [
                Bound { count: 0 $(+ principal.$count)?, bytes: 0 $(+ principal.$bytes)? },
                Bound { count: 0 $(+ address.$count)?, bytes: 0 $(+ address.$bytes)? },
                Bound { count: 0 $(+ all.$count)?, bytes: 0 $(+ all.$bytes)? },
            ];
            ThingLimits { principal, address, all }
        }};
    }
    let mut limits = HoldingLimits::NONE;
    limits[Thing::Session] = bounds!(sessions_max, sessions_bytes_max);
    limits[Thing::Filter] = bounds!(filters_max, filters_bytes_max);
    limits[Thing::Retained] = bounds!(retained_max, retained_bytes_max);
    limits[Thing::Delayed] = bounds!(delayed_max, delayed_bytes_max);
    limits[Thing::Queued] = bounds!(queued_max, queued_bytes_max);
    limits[Thing::Unread] = bounds!(, unread_bytes_max);
    limits[Thing::Shape] = bounds!(shapes_max,);
    Ok(limits)
}
