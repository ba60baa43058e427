//! What both doors of the pacer say: rights.

/// How grants name the pacer: `room:pacer:write:bids`.
pub const BIDS: &str = "pacer";
/// How grants name campaigns: `room:campaigns:read:shoes`.
pub const CAMPAIGNS: &str = "campaigns";
