//! A disk in memory that breaks its promises exactly where real ones may.

/// A disk in memory with seeded faults.
#[derive(Clone, Debug)]
pub struct FakeDisk;
