//! How a thread that serves rings goes to sleep without missing a message, and how others avoid waking one that is
//! awake.
//!
//! ```text
//!   consumer                                        producer
//!   announce: asleep = true                         push
//!   ───────────── fence ─────────────               ───────────── fence ─────────────
//!   look at the rings again                         asleep?  yes: take it back, wake (write to an eventfd)
//!     something there: asleep = false, serve                 no: nothing to do
//!     nothing: sleep (epoll_wait)
//! ```
//!
//! Promise: if the consumer found nothing after it announced, then the producer of whatever came later sees the
//! announcement and wakes it. Why: a wake-up is a system call of about a microsecond, as much as several transfers; a
//! busy consumer needs none. With both fences sequentially consistent, "I did not see your push" and "I did not see
//! your announcement" cannot both be true (Dekker); release and acquire alone would allow it.

use super::CachePadded;
use super::atomic::{AtomicBool, Ordering, fence};

/// One consumer thread's announcement that it is about to sleep. Any number of producers may look at it.
#[derive(Debug)]
pub struct SleepFlag {
    asleep: CachePadded<AtomicBool>,
}

impl SleepFlag {
    /// A flag of a consumer that is awake.
    pub fn new() -> SleepFlag {
        SleepFlag { asleep: CachePadded(AtomicBool::new(false)) }
    }

    /// Consumer: announces sleep, then asks `has_work` once more. `true`: go to sleep, a wake-up will come; call
    /// [`SleepFlag::awake`] afterwards, for whatever reason you woke. `false`: there is work, the announcement is taken
    /// back.
    #[must_use = "true means sleep, false means serve"]
    pub fn sleep_unless(&self, has_work: impl FnOnce() -> bool) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if has_work() {
            self.awake();
            return false;
        }
        true
    }

    /// Consumer: no wake-ups are needed now.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Producer, after its pushes (once for many): calls `wake` if the consumer sleeps or is about to. Returns whether
    /// it did. Of several producers only one calls.
    pub fn wake(&self, wake: impl FnOnce()) -> bool {
        fence(Ordering::SeqCst);
        let announced = self.asleep.load(Ordering::Relaxed)
            && self.asleep.compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if announced {
            wake();
        }
        announced
    }
}

impl Default for SleepFlag {
    fn default() -> SleepFlag {
        SleepFlag::new()
    }
}
