//! The bounds of the ledger's pages.

/// Accounts that a viewer's list looks at before it answers with what it found and a cursor.
pub const LIST_SCAN_ACCOUNTS_MAX: u32 = 5_000;
/// Accounts or rows of one page.
pub const PAGE_ROWS_MAX: u32 = 1_000;
/// Accounts or rows of a page when the request does not say.
pub const PAGE_ROWS_DEFAULT: u32 = 100;
/// Parts of a history, of [`PAGE_ROWS_MAX`] rows, that wait for one client to read them.
pub const HISTORY_PARTS_UNREAD_MAX: usize = 2;
/// Histories that one caller reads as a stream at once, at one edge thread, which has at most
/// [`tidegate_ledger::limits::ENDPOINT_STREAMS_MAX`] for all.
pub const STREAMS_OF_CALLER_MAX: usize = 8;

const _: () = assert!(STREAMS_OF_CALLER_MAX * 2 <= tidegate_ledger::limits::ENDPOINT_STREAMS_MAX);
const _: () = assert!(PAGE_ROWS_DEFAULT <= PAGE_ROWS_MAX && PAGE_ROWS_MAX <= LIST_SCAN_ACCOUNTS_MAX);
