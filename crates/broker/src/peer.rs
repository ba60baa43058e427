//! The talk between workers.

/// One thing told.
#[derive(Debug)]
pub(crate) enum Item {
    /// All subscriptions that this worker recovered have been told.
    ReplicaComplete,
}
