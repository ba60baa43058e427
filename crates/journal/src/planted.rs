//! A bug that is planted on purpose, so that the simulator can show that it would find one like it.
//!
//! Without the feature `planted-bugs` there is no switch: the question is a constant `false`, and no code is left of it.

#[cfg(feature = "planted-bugs")]
mod switch {
    use std::cell::Cell;

    thread_local! {
        static TORN_TAIL_ACCEPTED: Cell<bool> = const { Cell::new(false) };
    }

    /// Takes a group for good whose header survived a crash, on this thread, whatever became of its records.
    pub fn accept_torn_tails(accept: bool) {
        TORN_TAIL_ACCEPTED.set(accept);
    }

    pub(crate) fn torn_tails_are_accepted() -> bool {
        TORN_TAIL_ACCEPTED.get()
    }
}

#[cfg(feature = "planted-bugs")]
pub use switch::accept_torn_tails;
#[cfg(feature = "planted-bugs")]
pub(crate) use switch::torn_tails_are_accepted;

#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn torn_tails_are_accepted() -> bool {
    false
}
