//! The clock of the host, where the time of the shard is ahead of it.
//!
//! ```text
//!   clock of the host   ──────┬──────────▶  what a client sees: times that it names, and those that it is shown
//!   time of the shard   ──────┴── lead ──▶  what records have: decides when something is over
//! ```
//!
//! Promise: nothing comes early by the clock of the host because the time of the shard is ahead of it. Why it may be:
//! the time of records does not go back when that clock does (docs/decisions/0016-time.md).
//!
//! Where it is the clock of the host that is ahead, the time of the shard counts for both: one of the two is wrong, and
//! only an operator knows which.

use tidegate_journal::LogStore;
use tidegate_machines::queue::{Delivery, MessageView, Queues};
use tidegate_machines::{Machine, TimeMs};
use tidegate_shard::Turn;

use super::{QueueService, QueueTurn};
use crate::limits::AHEAD_MS_MIN;
use crate::protocol::RequestTicket;

impl<T: RequestTicket> QueueService<T> {
    /// By how much the time of the shard is ahead of the clock of the host, in milliseconds.
    pub(super) fn ahead_ms<L: LogStore>(&self, turn: &QueueTurn<'_, T, L>) -> u64 {
        let ahead_ms = self.wall.map_or(0, |wall| decided_at(turn).0.saturating_sub(wall.0));
        if ahead_ms < AHEAD_MS_MIN { 0 } else { ahead_ms }
    }

    /// What the clock of the host says, unless it is ahead of the shard.
    pub(super) fn host_time<L: LogStore>(&self, turn: &QueueTurn<'_, T, L>) -> TimeMs {
        TimeMs(decided_at(turn).0 - self.ahead_ms(turn))
    }
}

/// The time at which a command would be decided now: a clock may be set back.
fn decided_at<L: LogStore>(turn: &Turn<'_, Queues, L>) -> TimeMs {
    turn.now().max(turn.state().time())
}

/// A time of the shard as clients are shown it.
fn shown(at: TimeMs, ahead_ms: u64) -> TimeMs {
    TimeMs(at.0.saturating_sub(ahead_ms))
}

/// A message as clients are shown it. When it was sent stands in its key and is as the record says.
pub(super) fn view_shown(view: MessageView, ahead_ms: u64) -> MessageView {
    let time = |at: Option<TimeMs>| at.map(|at| shown(at, ahead_ms));
    MessageView { until: time(view.until), expires_at: time(view.expires_at), ..view }
}

/// A delivery as its receiver is shown it.
pub(super) fn delivery_shown(delivery: Delivery, ahead_ms: u64) -> Delivery {
    Delivery { until: shown(delivery.until, ahead_ms), ..delivery }
}
