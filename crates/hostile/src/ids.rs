//! The manifest and the runs of an index of ids, under checksums that are right.

/// Decodes them.
pub fn check(bytes: &[u8]) {
    tidegate_ledger::ids::hostile::decode(bytes);
}
