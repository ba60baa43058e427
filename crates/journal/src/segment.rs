//! The bytes of a segment file around its groups.

/// Bytes of a segment file before its first group.
pub const SEGMENT_HEADER_BYTES: usize = 4096;
