//! The data directory.
