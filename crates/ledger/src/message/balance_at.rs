//! What an account had at a time.

use tidegate_machines::TimeMs;
use tidegate_machines::ledger::{HistoryRow, Mend};

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub enum BalanceAt {
    /// The balance of then.
    Known {
        /// The last row that was written by then, with the balance of all parts after it; `None` if there is none.
        last: Option<Box<HistoryRow>>,
        /// When that row was written at the latest: what it says, unless its clock was wrong.
        written_by: TimeMs,
        /// What open holds reserved then, minor units. `None` if the cursor was given by an earlier version, which did
        /// not write it down.
        held: Option<u64>,
    },
    /// Nobody can tell, because the clock was wrong when a row was written: perhaps before, perhaps behind that time.
    Untold {
        /// The mend of that clock. From its time on, it is known again.
        mend: Mend,
        /// It is known up to this time; `None` if at no time before.
        until: Option<TimeMs>,
    },
    /// All rows that were looked at are later.
    Further {
        /// Where to go on.
        next: Box<str>,
    },
}
