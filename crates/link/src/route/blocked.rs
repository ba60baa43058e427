//! Queues that take no messages now: what is for them goes back to its place, and is tried again in turn.
//!
//! ```text
//!   refused ─▶ back for a second, or until its slot ─▶ tried again          slots: so many a second for each queue
//! ```
//!
//! Why slots: messages that go back keep their places, which are before those of others. If all were tried again after
//! a second, a long backlog for one full queue would be tried without end, and nothing behind it would ever be moved.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::target::Fate;

/// After so long, a message is tried again at the earliest.
const AFTER: Duration = Duration::from_secs(1);
/// Between two that are tried again for one queue.
const SLOT: Duration = Duration::from_micros(200);
/// What a queue refuses is said once in so long.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// A queue that takes no messages.
struct Blocked {
    /// When the next message that goes back is tried again.
    next: Instant,
    said: Instant,
}

/// Those of a route.
#[derive(Default)]
pub struct BlockedQueues(BTreeMap<Box<str>, Blocked>);

impl BlockedQueues {
    /// A message goes back, because `queue` does not take it.
    pub fn back(&mut self, route: &str, queue: &str, why: &str) -> Fate {
        let now = Instant::now();
        let say =
            || tracing::warn!(link = route, queue, why, "messages cannot be moved there: they wait, and others pass");
        if !self.0.contains_key(queue) {
            say();
            self.0.insert(queue.into(), Blocked { next: now, said: now });
        }
        let blocked = self.0.get_mut(queue).expect("it was put there just now");
        if now.duration_since(blocked.said) >= SAID_EVERY {
            say();
            blocked.said = now;
        }
        let at = blocked.next.max(now + AFTER);
        blocked.next = at + SLOT;
        Fate::Later { why: format!("{queue}: {why}"), after_ms: (at - now).as_millis() as u64 }
    }

    /// A queue has taken messages.
    pub fn took(&mut self, queue: &str) {
        self.0.remove(queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_goes_back_is_tried_again_in_turn_until_the_queue_takes_something() {
        let mut blocked = BlockedQueues::default();
        let after = |blocked: &mut BlockedQueues, queue: &str| match blocked.back("r", queue, "full") {
            Fate::Later { after_ms, .. } => after_ms,
            _ => unreachable!("it goes back for later"),
        };
        let of_many: Vec<u64> = (0..10_000).map(|_| after(&mut blocked, "full")).collect();
        assert!(of_many.is_sorted() && of_many[0] == 1_000 && of_many[9_999] == 2_999, "{}", of_many[9_999]);
        assert_eq!(after(&mut blocked, "other"), 1_000, "each queue has its own turns");
        blocked.took("full");
        assert_eq!(after(&mut blocked, "full"), 1_000);
    }
}
