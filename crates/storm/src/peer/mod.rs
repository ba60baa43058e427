//! What people use instead of a ledger, doing the same job for every transfer: balance check, exactly once by id, a history
//! row, synced to disk before the reply. Where a choice was needed it favours the peer; each file says which.

pub mod postgres;
pub mod redis;
