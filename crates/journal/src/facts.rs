//! What the journal did, as plain numbers. Why not metrics: the journal depends on nothing that could report them.

/// One batch: the groups that were written together and made durable by one sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchFacts {
    /// Groups in the batch.
    pub groups: u32,
    /// Records in them.
    pub records: u32,
    /// Bytes of the groups, headers included.
    pub bytes: u32,
    /// Time to checksum, hash, copy and write, in nanoseconds.
    pub write_ns: u64,
    /// Time of the sync, in nanoseconds.
    pub sync_ns: u64,
    /// From the submission of the first group until all were durable, in nanoseconds.
    pub durable_ns: u64,
}
