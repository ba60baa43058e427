//! How the writing of an index goes: counted, and told to the log when it begins to fail and when it works again.
//!
//! ```text
//!   builder ─ failed(error) ─▶ a warning in the log, once ─▶ failing, until a manifest is written or nothing is to do
//! ```
//!
//! Why here: the builder tries again for ever, so without this a folder that cannot be written is seen in one counter
//! only.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::IdsError;

/// The writing of one index. The builder's thread tells it, others look.
pub(super) struct Writing {
    shard: u16,
    /// I/O errors that the builder met.
    retries: AtomicU64,
    failing: AtomicBool,
}

impl Writing {
    /// Of the index of the log of `shard`.
    pub(super) fn of(shard: u16) -> Writing {
        Writing { shard, retries: AtomicU64::new(0), failing: AtomicBool::new(false) }
    }

    /// The builder met an I/O error and will try again.
    pub(super) fn failed(&self, error: &IdsError) {
        self.retries.fetch_add(1, Ordering::Relaxed);
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                shard = self.shard,
                cause = %error,
                "runs of ids cannot be written; it is tried again. Nothing is lost: until it works, memory grows with \
                 each new id, and a restart takes longer"
            );
        }
    }

    /// The builder has written a manifest, or has nothing to do.
    pub(super) fn works(&self) {
        // A load where nearly always nothing is stored.
        if self.is_failing() && self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!(shard = self.shard, "runs of ids can be written again");
        }
    }

    /// How often the builder met an I/O error and tried again.
    pub(super) fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Whether the last thing that it tried failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }
}
