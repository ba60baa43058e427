//! Requests, borrowed from the caller's strings.

use tidegate_wire::TransferRef;

/// Move `amount` from `debit` to `credit`, exactly once for this `id`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// Chosen by you, 1 to 64 bytes, never reused (a UUID, a ULID). A retry carries the same one.
    pub id: &'a str,
    /// Account to take from.
    pub debit: &'a str,
    /// Account to give to.
    pub credit: &'a str,
    /// Minor units, 1 to `i64::MAX`.
    pub amount: u64,
    /// For the history, at most 256 bytes; empty for none.
    pub memo: &'a str,
    /// The reason, as you number your reasons; 0 for none.
    pub code: u32,
    /// A key of another system, at most 64 bytes; empty for none.
    pub user_data: &'a str,
}

impl<'a> Transfer<'a> {
    pub(crate) fn as_wire(&self) -> TransferRef<'a> {
        TransferRef {
            id: self.id.as_bytes(),
            debit: self.debit.as_bytes(),
            credit: self.credit.as_bytes(),
            amount: self.amount,
            memo: self.memo.as_bytes(),
            code: self.code,
            user_data: self.user_data.as_bytes(),
        }
    }
}

/// Reserve the amount of a transfer until it is posted or voided, or `expires_in_ms` have passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold<'a> {
    /// What a post will do; its `id` is the hold's.
    pub transfer: Transfer<'a>,
    /// Lifetime in milliseconds.
    pub expires_in_ms: u64,
}
