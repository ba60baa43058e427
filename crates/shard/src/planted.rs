//! Bugs that are planted on purpose, so that the simulator can show that it would find their like.
//!
//! Each is one line in the code that it breaks. Without the feature `planted-bugs` there is no switch: the question is a
//! constant `false`, and no code is left of it.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// An answer leaves when its group is submitted, not when it is durable.
    ReplyBeforeSync,
    /// A replay forgets which ids were used.
    IdsLostOverRestart,
    /// A hold whose time is over keeps its money.
    HoldNotReleased,
    /// A pull confirms one credit more than the other shard has.
    WatermarkOffByOne,
    /// A group that a crash tore is taken for good.
    TornTailAccepted,
}

#[cfg(feature = "planted-bugs")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants `bug` into all code that runs on this thread, instead of the one that was there.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
        tidegate_journal::planted::accept_torn_tails(bug == Some(Bug::TornTailAccepted));
    }

    #[inline]
    pub(crate) fn is_planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "planted-bugs")]
pub(crate) use switch::is_planted;
#[cfg(feature = "planted-bugs")]
pub use switch::plant;

#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub(crate) const fn is_planted(_: Bug) -> bool {
    false
}
