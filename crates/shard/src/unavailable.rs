//! Why a shard does not serve a call.

/// Why a request could not be served now. Nothing is known to have been done; a retry with the same ids is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// A bounded queue on the way is full.
    Busy,
    /// No room on the disk for another commit group.
    DiskFull,
    /// The journal of the shard failed (a sync error, or damage); the process must be restarted.
    ShardFailed,
    /// An audit found that what the shard holds in memory is not what its journal says: nothing new is decided on it. A
    /// restart makes it anew from the journal.
    StateDiffers,
    /// Still replaying the journal.
    Recovering,
    /// The process is stopping.
    Stopping,
}
