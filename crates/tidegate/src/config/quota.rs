//! `[quota.viewer]` and `[quota.service]`: what one caller may use up; `[quota.address]`: what those of one address may
//! who have not shown a token.

use tidegate_config::{Bytes, ConfigError, Count, Document, PerSecond, config};
use tidegate_doors::auth::StrangerLimits;
use tidegate_doors::auth::quota::{QuotaLimits, Rate};

config! {
    /// `[quota.viewer]`
    pub struct ViewerQuotaKeys in "quota.viewer" {
        requests_per_s: PerSecond<u32> = 50, 0..=1_000_000_000, live,
            "requests of one viewer, each transfer of a batch counted, and one for 16 rows that are read of histories \
             and lists; more is answered 429. 0 for no bound";
        requests_burst: Count<u32> = 200, 0..=1_000_000_000, live,
            "requests of one viewer at once, after a pause; 0 for what one second gives";
        refusals_per_s: PerSecond<u32> = 10, 0..=1_000_000_000, live,
            "refused requests of one viewer, which stay in the journal for ever; 0 for no bound";
        refusals_burst: Count<u32> = 50, 0..=1_000_000_000, live,
            "refused requests of one viewer at once; 0 for what one second gives";
        journal_bytes_per_s: PerSecond<u32> = 16_384, 0..=1_000_000_000, live,
            "bytes of the journal that one viewer may fill, about; 0 for no bound";
        journal_bytes_burst: Count<u32> = 65_536, 0..=1_000_000_000, live,
            "bytes of the journal that one viewer may fill at once; 0 for what one second gives";
        in_flight_max: Count<u32> = 200, 0..=1_000_000_000, live,
            "requests of one viewer under way, so that others find room; 0 for no bound";
        open_holds_max: Count<u32> = 100, 0..=1_000_000_000, live,
            "open holds of one account, for holds that a viewer places; 0 for no bound";
    }
}

config! {
    /// `[quota.service]`
    pub struct ServiceQuotaKeys in "quota.service" {
        requests_per_s: PerSecond<u32> = 0, 0..=1_000_000_000, live,
            "requests of one service, each transfer of a batch counted, and one for 16 rows that are read of histories \
             and lists; 0 for no bound";
        requests_burst: Count<u32> = 0, 0..=1_000_000_000, live,
            "requests of one service at once, after a pause; 0 for what one second gives";
        refusals_per_s: PerSecond<u32> = 0, 0..=1_000_000_000, live, "refused requests of one service; 0 for no bound";
        refusals_burst: Count<u32> = 0, 0..=1_000_000_000, live,
            "refused requests of one service at once; 0 for what one second gives";
        journal_bytes_per_s: PerSecond<u32> = 0, 0..=1_000_000_000, live,
            "bytes of the journal that one service may fill, about; 0 for no bound";
        journal_bytes_burst: Count<u32> = 0, 0..=1_000_000_000, live,
            "bytes of the journal that one service may fill at once; 0 for what one second gives";
        in_flight_max: Count<u32> = 0, 0..=1_000_000_000, live,
            "transfers, holds and other requests of one service under way; 0 for no bound";
        open_holds_max: Count<u32> = 10_000, 0..=1_000_000_000, live,
            "open holds of one account, for holds that a service places; 0 for no bound";
    }
}

config! {
    /// `[quota.address]`
    pub struct AddressQuotaKeys in "quota.address" {
        requests_per_s: PerSecond<u32> = 50, 0..=1_000_000_000, live,
            "HTTP requests without a good token of one address (IPv6: of one /64): log-ins, open paths, and what is \
             refused, and one more for each 16 KiB of an answer; more is answered 429, but /healthz late. 0 for no \
             bound";
        requests_burst: Count<u32> = 200, 0..=1_000_000_000, live,
            "those of them that may come at once, after a pause; 0 for what one second gives";
        login_bytes_max: Bytes<u32> = 256 << 10, 0..=(1 << 30), live,
            "bytes of log-ins of one address that may be under way, each counted as limits.http_login_body_bytes_max; \
             more is answered 503. 0 for no bound";
    }
}

/// What each viewer, and each service without bounds of its own, may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Viewers.
    pub viewer: QuotaLimits,
    /// Services.
    pub service: QuotaLimits,
    /// Those of one address who have not shown a token.
    pub strangers: StrangerLimits,
}

macro_rules! limits_of {
    ($keys:expr) => {{
        let keys = $keys;
        QuotaLimits {
            requests: Rate { per_s: keys.requests_per_s, burst: keys.requests_burst },
            refusals: Rate { per_s: keys.refusals_per_s, burst: keys.refusals_burst },
            journal_bytes: Rate { per_s: keys.journal_bytes_per_s, burst: keys.journal_bytes_burst },
            in_flight_max: keys.in_flight_max,
            open_holds_max: keys.open_holds_max,
        }
    }};
}

/// Reads the sections.
pub fn settle(document: &Document) -> Result<Quotas, ConfigError> {
    let viewer: ViewerQuotaKeys = document.section()?;
    let service: ServiceQuotaKeys = document.section()?;
    let address: AddressQuotaKeys = document.section()?;
    let strangers = StrangerLimits {
        requests: Rate { per_s: address.requests_per_s, burst: address.requests_burst },
        body_bytes_max: address.login_bytes_max,
    };
    Ok(Quotas { viewer: limits_of!(viewer), service: limits_of!(service), strangers })
}
