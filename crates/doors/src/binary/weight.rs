//! What a request takes while it is under way, and what its answer is worth.

use tidegate_ledger::limits::PAGE_ROWS_MAX;
use tidegate_ledger::message::Request;
use tidegate_wire::limits::FRAME_BYTES_MAX;

use super::limits::{BYTES_PER_ITEM_MAX, FRAME_BYTES_OF_ANYBODY, REPLY_BYTES, ROWS_PER_WORK};
use crate::auth::Identity;
use crate::turns::Weight;

/// What this request takes, which came in a frame of so many bytes.
pub fn weight(request: &Request, bytes: usize) -> Weight {
    let pages = usize::from(rows(request).is_some());
    let reads = if request.journal_bytes() == 0 { 1 + work_of_rows(request) as usize } else { 0 };
    Weight { pages, reads, bytes }
}

/// Bytes of the largest frame of this caller: what is longer asks more than one request of them may, and is refused by
/// its length.
pub fn frame_bytes_max(caller: &Identity) -> usize {
    let of_items = |items| (items as usize + 1).saturating_mul(BYTES_PER_ITEM_MAX);
    caller.items_max().map_or(FRAME_BYTES_MAX, |items| of_items(items).clamp(FRAME_BYTES_OF_ANYBODY, FRAME_BYTES_MAX))
}

/// What it is worth to answer a request, beyond what each frame is worth.
pub fn work_of_rows(request: &Request) -> isize {
    rows(request).map_or(0, |rows| (rows as usize / ROWS_PER_WORK) as isize)
}

/// Bytes of a row of a page with its ids and memo, about.
const ROW_BYTES: usize = 512;
/// Bytes of an outcome: one that is not refused has four, a refusal says why.
const OUTCOME_BYTES: usize = 16;

/// Bytes of the reply to this request, about. They count as unsent from its frame on: otherwise who asks and does not
/// read would be owed what hundreds of requests are answered with.
pub fn reply_bytes(request: &Request) -> usize {
    let outcomes = match request {
        Request::Transfers { batch, .. } => batch.len(),
        Request::PlaceHolds(holds) | Request::PlaceLinkedHolds(holds) => holds.len(),
        Request::PostHolds(posts) => posts.len(),
        Request::VoidHolds(ids) => ids.len(),
        _ => 0,
    };
    REPLY_BYTES + outcomes * OUTCOME_BYTES + rows(request).map_or(0, |rows| rows as usize * ROW_BYTES)
}

/// The rows of the page that is asked for; `None` if it is no page.
fn rows(request: &Request) -> Option<u32> {
    match request {
        // Rows of other times are looked at, too.
        Request::ReadHistory { times, .. } if !times.is_all() => Some(PAGE_ROWS_MAX),
        Request::ReadHistory { limit, .. } | Request::ListAccounts { limit, .. } | Request::ListHolds { limit, .. } => {
            Some(*limit)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_ledger::limits::ENDPOINT_REQUESTS_MAX;
    use tidegate_ledger::message::TimeSpan;

    use super::*;
    use crate::turns::limits::READS_OF_CALLER_MAX;
    use crate::turns::{CallerName, Turns};

    /// How many of these one caller may have under way.
    fn most_under_way(request: &Request) -> usize {
        let mut turns: Turns<CallerName, usize> = Turns::default();
        let caller = turns.join(CallerName::Viewer("a".into()));
        let weight = weight(request, 24);
        let mut under_way = 0;
        while turns.may_begin(caller) {
            turns.start(caller, weight);
            under_way += 1;
        }
        turns.end(caller, weight);
        assert!(turns.may_begin(caller), "one has ended");
        under_way
    }

    #[test]
    fn requests_owe_about_what_their_replies_have() {
        let voids = Request::VoidHolds(vec!["a".into(); 1_000]);
        assert_eq!(reply_bytes(&voids), REPLY_BYTES + 1_000 * OUTCOME_BYTES);
        let list = Request::ListAccounts { prefix: "".into(), after: None, limit: 1_000 };
        assert_eq!(reply_bytes(&list), REPLY_BYTES + 1_000 * ROW_BYTES);
        assert_eq!(reply_bytes(&Request::ReadAudit), REPLY_BYTES);
    }

    #[test]
    fn reads_of_one_caller_are_few_before_the_shards() {
        let list = |limit| Request::ListAccounts { prefix: "".into(), after: None, limit };
        assert_eq!(most_under_way(&Request::ReadAccount { id: "a".into() }), READS_OF_CALLER_MAX);
        let history = |limit, times| Request::ReadHistory { id: "a".into(), before: None, limit, times };
        assert_eq!(most_under_way(&history(1_000, TimeSpan::ALL)), 3);
        let yesterday = TimeSpan::new(Some(1), Some(2)).expect("a span");
        assert_eq!(most_under_way(&history(1, yesterday)), 3, "rows of other times are looked at, too");
        assert_eq!((most_under_way(&list(1_000)), most_under_way(&list(100))), (3, 20));
        let writes = Request::VoidHolds(vec!["a".into()]);
        let most = ENDPOINT_REQUESTS_MAX * 3 / 4;
        assert_eq!(most_under_way(&writes), most, "who writes waits for the disk, not for others");
    }
}
