//! `[quota.viewer]` and `[quota.service]`: what one caller may use up.

use tidegate_config::{ConfigError, Count, Document, PerSecond, config};
use tidegate_doors::auth::quota::{QuotaLimits, Rate};

config! {
    /// `[quota.viewer]`
    pub struct ViewerQuotaKeys in "quota.viewer" {
        requests_per_s: PerSecond<u32> = 50, 0..=1_000_000_000, live,
            "requests of one viewer, each transfer of a batch counted; more is answered 429. 0 for no bound";
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
            "requests of one service, each transfer of a batch counted; 0 for no bound";
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

/// What each viewer, and each service without bounds of its own, may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Viewers.
    pub viewer: QuotaLimits,
    /// Services.
    pub service: QuotaLimits,
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

/// Reads both sections.
pub fn settle(document: &Document) -> Result<Quotas, ConfigError> {
    let viewer: ViewerQuotaKeys = document.section()?;
    let service: ServiceQuotaKeys = document.section()?;
    Ok(Quotas { viewer: limits_of!(viewer), service: limits_of!(service) })
}
