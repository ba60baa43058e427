//! The bounds of the ledger's pages and streams.

use std::time::Duration;

use tidegate_ledger::limits::{CHANGE_ROW_BYTES_PER_STEP, HISTORY_PART_ROWS_MAX};

use crate::held_bytes::HeldBytesLimits;

/// Accounts that a viewer's list looks at before it answers with what it found and a cursor.
pub const LIST_SCAN_ACCOUNTS_MAX: u32 = 5_000;
/// Accounts or rows of one page.
pub const PAGE_ROWS_MAX: u32 = 1_000;
/// Accounts or rows of a page when the request does not say.
pub const PAGE_ROWS_DEFAULT: u32 = 100;
/// Rows of a page that is read at once; larger ones are read in turn by caller.
pub const SMALL_PAGE_ROWS_MAX: u32 = 127;
/// Pages, of [`PAGE_ROWS_MAX`] rows, that one request for a time goes back through a history.
pub const HISTORY_PAGES_BACK_MAX: usize = 50;
/// How far the clock of a client may be ahead of this host's: the balance at a time within that is answered.
pub const CLOCKS_DIFFER_MS_MAX: u64 = 60_000;
/// Parts of a history, of [`HISTORY_PART_ROWS_MAX`] rows, that wait for one client to read them.
pub const HISTORY_PARTS_UNREAD_MAX: usize = 2;
/// Streams of changes that one MQTT client's name has at once.
pub const STREAMS_OF_CALLER_MAX: usize = 8;
/// Streams of changes of MQTT clients, over all callers.
pub const CHANGE_STREAMS_MAX: usize = 64;
/// Pages of changes that one caller may ask for at once at one edge thread: all but two of them wait.
pub const CHANGE_PAGES_OF_CALLER_MAX: usize = 64;
/// How long a page of changes waits for those of others.
pub const CHANGE_PAGE_WAIT_MAX: Duration = Duration::from_secs(5);
/// Bytes of journal that the readers of changes at one edge thread take in a second together: enough to stay with the
/// fastest ledger and to read gigabytes in a minute, too little to take a core from those who serve.
pub const CHANGE_BYTES_PER_S: u64 = 64 << 20;
/// Memory of what the readers of changes at one edge thread have read ahead, together; a reader for which there is no
/// room keeps nothing between two parts, and reads it again.
pub const CHANGE_READ_BYTES: HeldBytesLimits = HeldBytesLimits { all_max: 32 << 20, of_viewer_max: 4 << 20 };
/// How long a reader whose client does not take the next part keeps what it has read ahead.
pub const CHANGE_READ_KEPT_FOR: Duration = Duration::from_secs(1);
/// How often a stream of changes without news says that it is there.
pub const CHANGE_HEARTBEAT: Duration = Duration::from_secs(5);
/// Parts, of up to [`tidegate_ledger::limits::CHANGE_RECORDS_PER_STEP`] records, that one page of changes looks at.
pub const CHANGE_PAGE_PARTS_MAX: usize = 64;

const _: () = assert!(STREAMS_OF_CALLER_MAX * 2 <= CHANGE_STREAMS_MAX);
// What waits for clients who do not read, without what was read ahead, is little beside that.
const _: () = assert!(CHANGE_ROW_BYTES_PER_STEP * CHANGE_STREAMS_MAX * 4 <= CHANGE_READ_BYTES.all_max);
const _: () = assert!(HISTORY_PART_ROWS_MAX <= PAGE_ROWS_MAX);
const _: () = assert!(PAGE_ROWS_DEFAULT <= SMALL_PAGE_ROWS_MAX && SMALL_PAGE_ROWS_MAX <= PAGE_ROWS_MAX);
// With the row that says whether there is a next page.
const _: () = assert!((SMALL_PAGE_ROWS_MAX as usize) < tidegate_ledger::limits::HISTORY_ROWS_AT_ONCE);
const _: () = assert!(PAGE_ROWS_DEFAULT <= PAGE_ROWS_MAX && PAGE_ROWS_MAX <= LIST_SCAN_ACCOUNTS_MAX);
