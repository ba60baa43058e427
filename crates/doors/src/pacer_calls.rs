//! What both doors of the pacer say: rights, and outcomes.

use tidegate_pacer::machine::WinOutcome;
use tidegate_wire::pacer::NoticeOutcome;

/// How grants name the pacer: `room:pacer:write:bids`.
pub const BIDS: &str = "pacer";
/// How grants name campaigns: `room:campaigns:read:shoes`.
pub const CAMPAIGNS: &str = "campaigns";

/// What became of a win, by its name and by its number.
pub const fn outcome_of(outcome: WinOutcome) -> (&'static str, NoticeOutcome) {
    match outcome {
        WinOutcome::Taken => ("taken", NoticeOutcome::Taken),
        WinOutcome::Duplicate => ("duplicate", NoticeOutcome::Duplicate),
        WinOutcome::Late => ("late", NoticeOutcome::Late),
        // The lease has not so much: the token is one that this server has not made.
        WinOutcome::Unfunded => ("token_invalid", NoticeOutcome::TokenInvalid),
    }
}
