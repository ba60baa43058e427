//! Bounds, and the keys that set them.

use tidegate_config::{Bytes, Count, Milliseconds, NoDefault, Optional, Seconds, Text, config};

config! {
    /// `[pacing]`.
    pub struct PacingKeys in "pacing" {
        shards: Count<u16> = 1, 1..=256, restart,
            "shards of campaigns in a new directory; one that exists keeps its number, and a start with another is \
             refused";
        campaigns_max: Count<usize> = 20_000, 1..=1_000_000, restart, "campaigns of one shard";
        campaigns_of_owner_max: Optional<Count<usize>> = NoDefault, .., restart,
            "one user or service makes no new campaign of a shard while it has changed so many of these last; without \
             it, three quarters of pacing.campaigns_max";
        win_deadline_ms: Milliseconds = 10_000, 100..=3_600_000, restart,
            "how long after its bid a win counts; what bids reserve returns when it has passed. Until then each bid \
             takes two bits of memory: a million bids a second for an hour take 0.9 GB";
        lease_ms: Milliseconds = 1_000, 100..=60_000, restart,
            "for about how long a worker leases the money of a campaign";
        account_prefix: Text = "campaign:", .., restart,
            "what the ids of the accounts begin with that campaigns may spend of";
        spend_prefix: Text = "spend:", .., restart,
            "what the ids of the accounts begin with that get what campaigns spend";
        users_max: Count<usize> = 1_048_576, 8..=268_435_456, restart,
            "users that are remembered for frequency caps, over all campaigns; 8 bytes each. One in two million users \
             is taken for another one and counted too often; where there are more users than these, some are \
             forgotten, and may be shown more than the cap (tidegate_pacer_users_forgotten_total)";
        decisions_bytes_max: Bytes = 1 << 30, 0..=(1 << 44), restart,
            "bytes of the files pacer-decisions/ in data.dir, which `tidegate pacer replay` reads; the oldest are \
             deleted. 0 for none";
        decision_sample_one_in: Count<u32> = 10_000, 0..=4_294_967_295, restart,
            "of so many bid requests one is recorded, chosen by its id and campaign; 0 for none";
    }
}

impl PacingKeys {
    /// How many campaigns of a shard one user or service may have changed last.
    pub fn campaigns_of_owner_max(&self) -> usize {
        self.campaigns_of_owner_max.unwrap_or(self.campaigns_max / 4 * 3).max(1)
    }
}

config! {
    /// `[pacing.demo]`.
    pub struct PacingDemoKeys in "pacing.demo" {
        day_s: Seconds = 0, 0..=86_400, restart,
            "if not 0, a synthetic market: seven campaigns, made by the server itself, bid in days of so many seconds, \
             and spend the money of the accounts \"even\", \"traffic_shaped\" … behind pacing.account_prefix. For \
             demonstrations: refused unless all doors are on loopback";
    }
}

/// Bytes of the name of who has changed a campaign: of a longer one, the first.
pub const BY_BYTES_MAX: usize = 128;
/// Bytes of a campaign's id.
pub const ID_BYTES_MAX: usize = 64;
/// Flights of a campaign.
pub const FLIGHTS_MAX: usize = 64;
/// Keys that a campaign is aimed at.
pub const KEYS_MAX: usize = 64;
/// Bytes of the name of an account or a zone.
pub const NAME_BYTES_MAX: usize = 128;
/// Money of a campaign, in micros: what an account of the ledger can have.
pub const BUDGET_MICROS_MAX: u64 = i64::MAX as u64;
/// A lease is bid with for so many times `pacing.lease_ms`, or this long if that is more, and no longer: so it is known
/// after a crash until when bids of it may win.
pub const LEASE_LIVES: u64 = 4;
/// As above.
pub const LEASE_LIFE_MS_MIN: u64 = 10_000;
/// With the highest `pacing.lease_ms` that may be.
pub const LEASE_LIFE_MS_MAX: u64 = LEASE_LIVES * 60_000;
const _: () = assert!(LEASE_LIFE_MS_MIN <= LEASE_LIFE_MS_MAX);
/// Leases of a shard that are not settled.
pub const LEASES_MAX: usize = 1 << 20;
/// Commands that may wait for a shard.
pub const COMMANDS_WAITING_MAX: usize = 4_096;
/// Their bytes.
pub const COMMAND_BYTES_WAITING_MAX: usize = 16 << 20;
/// Work that a shard does in one step, in wins: less than half a millisecond, for which the bids of its worker wait.
pub const WORK_IN_STEP_MAX: usize = 2_048;
/// Work of a lease that is opened, retired, closed or forgotten.
pub const WORK_OF_LEASE: usize = 4;
/// Work of a change of a campaign: its plan is compared, written and kept.
pub const WORK_OF_CHANGE: usize = 32;
/// Work of a look at one campaign, or at a page of them.
pub const WORK_OF_PAGE: usize = 64;
/// Memory of the table of so many users of frequency caps: buckets of eight cells of eight bytes, a power of two.
pub const fn users_memory_bytes(users: u64) -> u64 {
    users.div_ceil(8).next_power_of_two() * 64
}
/// Bytes of the plans that a shard tells at once: copying them takes about as long as a step may.
pub const PAGE_BYTES_MAX: usize = 256 << 10;
/// Bytes of a segment of a log.
pub const SEGMENT_BYTES: u64 = 16 << 20;
/// Bid requests, wins or losses of one frame.
pub const ITEMS_MAX: usize = 256;
/// Names in one list of a plan's `openrtb`.
pub const OPENRTB_NAMES_MAX: usize = 64;
/// Bytes of one of them.
pub const OPENRTB_NAME_BYTES_MAX: usize = 255;
/// Creatives of a campaign.
pub const CREATIVES_MAX: usize = 16;
/// Bytes of the markup of a creative.
pub const MARKUP_BYTES_MAX: usize = 32 << 10;
/// Bytes of the markup of all creatives of a campaign.
pub const OPENRTB_PLAN_BYTES_MAX: usize = 64 << 10;
/// Domains of all creatives of a campaign, and as many categories, each counted once with those that it is below: what
/// is compared with the lists of a request.
pub const OPENRTB_COMPARED_MAX: usize = 1_024;
/// Impressions of an OpenRTB request.
pub const IMPRESSIONS_MAX: usize = 64;
/// Sizes of a banner that are looked at, and deals of an impression.
pub const SIZES_MAX: usize = 64;
/// Deals of an impression.
pub const DEALS_MAX: usize = 64;
/// Campaigns that are looked at for one impression, from the highest price down.
pub const CANDIDATES_MAX: usize = 2 * CANDIDATES_OF_OWNER_MAX;
/// The same for all impressions of a request, each of which has an equal part.
pub const CANDIDATES_OF_REQUEST_MAX: usize = 8 * CANDIDATES_MAX;
/// Those of them that were changed last by the same user or service: the others are not kept from being looked at.
pub const CANDIDATES_OF_OWNER_MAX: usize = 1_024;
