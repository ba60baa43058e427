//! What the journal did, as plain numbers. Why not metrics: the journal depends on nothing that could report them.

/// One batch: the groups that were written together and made durable by one sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchFacts {
    /// Groups in the batch.
    pub groups: u32,
    /// Records in them.
    pub records: u32,
    /// Bytes written, headers included.
    pub bytes: u32,
    /// Time to checksum, hash and copy, in nanoseconds.
    pub seal_ns: u64,
    /// Time of the write call, in nanoseconds.
    pub write_ns: u64,
    /// Time of the sync call, in nanoseconds.
    pub sync_ns: u64,
}
