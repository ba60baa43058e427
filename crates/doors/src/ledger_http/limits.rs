//! The bounds of the ledger's pages.

/// Accounts that a viewer's list looks at before it answers with what it found and a cursor.
pub const LIST_SCAN_ACCOUNTS_MAX: u32 = 5_000;
/// Accounts or rows of one page.
pub const PAGE_ROWS_MAX: u32 = 1_000;
/// Accounts or rows of a page when the request does not say.
pub const PAGE_ROWS_DEFAULT: u32 = 100;
/// Parts of a history, of [`PAGE_ROWS_MAX`] rows, that wait for one client to read them.
pub const HISTORY_PARTS_UNREAD_MAX: usize = 2;

const _: () = assert!(PAGE_ROWS_DEFAULT <= PAGE_ROWS_MAX && PAGE_ROWS_MAX <= LIST_SCAN_ACCOUNTS_MAX);
