//! The bytes of a commit group.

/// Bytes of a group's header on disk.
pub const GROUP_HEADER_BYTES: usize = 112;
/// Bytes before each record's payload.
pub const RECORD_HEADER_BYTES: usize = 8;
