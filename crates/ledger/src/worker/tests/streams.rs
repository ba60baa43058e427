//! Histories that are streamed: page after page as the reader has room, the same rows as page by page.

use tidegate_machines::ledger::HistoryRow;

use super::*;
use crate::limits::{ENDPOINT_STREAMS_MAX, HISTORY_PART_ROWS_MAX, PAGE_ROWS_MAX};

/// Rows of a part.
const PART: usize = HISTORY_PART_ROWS_MAX as usize;
/// Many parts and a rest, over two shards.
const VOTES: usize = 2 * PAGE_ROWS_MAX as usize + 345;
const TOKEN: u64 = 7;
const COLLECTOR: &str = "candidate";

/// A node of two shards, each with a part of the collector: the votes of one source and of the other, in turn.
fn with_votes() -> TestWorker {
    let (mut node, sources) = collector_of_two_shards(COLLECTOR);
    let vote = |number: usize| (format!("vote-{number}"), sources[number / 50 % 2].clone(), COLLECTOR.to_owned());
    let all: Vec<_> = (0..VOTES).map(vote).collect();
    for votes in all.chunks(50) {
        node.now.0 += 1;
        assert_eq!(node.ask(transfers(votes)), Reply::Outcomes(vec![Outcome::Applied; votes.len()]));
    }
    node
}

fn stream(before: Option<&str>, rows_max: Option<u64>) -> Request {
    Request::StreamHistory { id: COLLECTOR.into(), before: before.map(Into::into), rows_max }
}

/// A page as clients ask for it.
fn page(node: &mut TestWorker, before: Option<&str>, limit: u32) -> (Vec<HistoryRow>, Option<Box<str>>) {
    let request =
        Request::ReadHistory { id: COLLECTOR.into(), before: before.map(Into::into), limit, times: TimeSpan::ALL };
    match node.ask(request) {
        Reply::History { rows, next, .. } => (rows, next),
        other => panic!("{other:?}"),
    }
}

/// The parts in which so many rows come: how many rows each has, and whether it is the last.
fn shape_of(rows: usize) -> Vec<(usize, bool)> {
    (0..rows.div_ceil(PART)).map(|part| PART.min(rows - part * PART)).map(|of| (of, of < PART)).collect()
}

/// The whole history by pages.
fn pages(node: &mut TestWorker) -> Vec<HistoryRow> {
    let (mut all, mut next) = page(node, None, PAGE_ROWS_MAX);
    while let Some(before) = next {
        let (rows, after) = page(node, Some(&before), 789);
        all.extend(rows);
        next = after;
    }
    all
}

impl TestWorker {
    fn open_stream(&mut self, request: Request) {
        let finished = self.replies_after(|node, finished| {
            node.worker.start(TOKEN, request, &mut Outgoing::new(), finished);
        });
        assert!(finished.is_empty(), "a stream waits for its reader: {finished:?}");
    }

    /// The reader has room for `count` more: the parts that come.
    fn read(&mut self, count: usize) -> Vec<(Vec<HistoryRow>, bool)> {
        let replies = self.replies_after(|node, _| {
            (0..count).for_each(|_| node.worker.router.more(TOKEN, &mut node.worker.made));
        });
        let part = |reply| match reply {
            (TOKEN, Reply::HistoryPart { rows, is_last, .. }) => (rows, is_last),
            other => panic!("{other:?}"),
        };
        replies.into_iter().map(part).collect()
    }

    /// What comes until nothing happens any more.
    fn replies_after(&mut self, act: impl FnOnce(&mut TestWorker, &mut Finished)) -> Finished {
        let mut finished = Finished::new();
        act(self, &mut finished);
        self.worker.pass_on(&mut Outgoing::new(), &mut finished);
        (0..64).for_each(|_| self.turn(&mut finished));
        finished
    }
}

#[test]
fn a_stream_has_the_rows_of_the_pages_and_no_more_than_its_reader_lets_it() {
    let mut node = with_votes();
    let expected = pages(&mut node);
    assert_eq!((expected.len(), expected[0].balance_after), (VOTES, VOTES as i64));

    node.open_stream(stream(None, None));
    assert_eq!(node.worker.pending(), 1, "it is a request like others");
    let mut parts = node.read(2);
    assert_eq!(parts.len(), 2, "a page for each that the reader has room for");
    assert!(node.read(0).is_empty() && node.worker.pending() == 1, "it waits for its reader");
    assert!(node.worker.shards().iter().all(Shard::is_idle), "and asks nothing meanwhile");
    (0..VOTES / PART).for_each(|_| parts.extend(node.read(1)));
    let shape: Vec<_> = parts.iter().map(|(rows, is_last)| (rows.len(), *is_last)).collect();
    assert_eq!(shape, shape_of(VOTES));
    let rows: Vec<HistoryRow> = parts.into_iter().flat_map(|(rows, _)| rows).collect();
    assert!(rows == expected, "the same rows in the same order, with the same balances");
    assert!(node.worker.is_idle(), "after its last part it is forgotten");
    assert!(node.read(1).is_empty(), "a reader that has not seen the end yet changes nothing");
}

#[test]
fn a_stream_begins_behind_a_cursor_and_ends_after_so_many_rows() {
    let mut node = with_votes();
    let expected = pages(&mut node);
    let (_, cursor) = page(&mut node, None, 300);
    let cursor = cursor.expect("there are more rows");
    for (rows_max, shape) in [
        (Some(0), vec![(1, true)]),
        (Some(PART as u64), vec![(PART, true)]),
        (Some(PART as u64 + 1), vec![(PART, false), (1, true)]),
        (Some(1_000_000), shape_of(VOTES - 300)),
        (None, shape_of(VOTES - 300)),
    ] {
        node.open_stream(stream(Some(&cursor), rows_max));
        let parts: Vec<_> = (0..=VOTES / PART).flat_map(|_| node.read(1)).collect();
        assert_eq!(parts.iter().map(|(rows, last)| (rows.len(), *last)).collect::<Vec<_>>(), shape, "{rows_max:?}");
        let rows: Vec<HistoryRow> = parts.into_iter().flat_map(|(rows, _)| rows).collect();
        assert!(rows == expected[300..300 + rows.len()], "{rows_max:?}");
    }
    let mut refused = |request| {
        node.replies_after(|node, finished| {
            node.worker.start(TOKEN, request, &mut Outgoing::new(), finished);
            node.worker.router.more(TOKEN, &mut node.worker.made);
        })
    };
    let forged = refused(stream(Some("1.1.0"), None));
    assert_eq!(forged, [(TOKEN, Reply::Refused(Refusal::CursorInvalid))]);
    let nobody = refused(Request::StreamHistory { id: "nobody".into(), before: None, rows_max: None });
    assert_eq!(nobody, [(TOKEN, Reply::Refused(Refusal::AccountNotFound))]);
    assert!(node.worker.is_idle());
}

#[test]
fn a_stream_that_nobody_reads_any_more_is_forgotten_at_once_or_with_the_answers_that_it_awaits() {
    let mut node = with_votes();
    node.open_stream(stream(None, None));
    assert_eq!(node.read(1).len(), 1);
    node.worker.router.cancel(TOKEN);
    assert!(node.worker.is_idle(), "nothing was under way");

    node.open_stream(stream(None, None));
    node.worker.router.more(TOKEN, &mut node.worker.made);
    node.worker.router.cancel(TOKEN);
    assert_eq!(node.worker.pending(), 1, "its shards were asked");
    // The token is free: another stream may have it before the answers are there.
    node.open_stream(stream(None, Some(3)));
    assert_eq!(node.worker.pending(), 1, "the answers of the first were awaited, and dropped");
    let parts = node.read(1);
    assert_eq!((parts[0].0.len(), parts[0].1), (3, true));
    assert!(node.worker.is_idle());
}

#[test]
fn streams_leave_room_for_other_requests() {
    let mut node = with_votes();
    for token in 0..ENDPOINT_STREAMS_MAX as u64 {
        node.worker.start(token, stream(None, None), &mut Outgoing::new(), &mut Finished::new());
    }
    let one_more = node.replies_after(|node, finished| {
        node.worker.start(1_000, stream(None, None), &mut Outgoing::new(), finished);
    });
    assert_eq!(one_more, [(1_000, Reply::Unavailable(Unavailable::Busy))]);
    assert_eq!(page(&mut node, None, 10).0.len(), 10);
    node.worker.router.cancel(0);
    node.worker.start(1_000, stream(None, None), &mut Outgoing::new(), &mut Finished::new());
    assert_eq!(node.worker.pending(), ENDPOINT_STREAMS_MAX);
}

#[test]
fn a_stream_ends_with_the_failure_of_a_shard() {
    let mut node = with_votes();
    node.open_stream(stream(None, None));
    assert_eq!(node.read(1).len(), 1);
    node.disk.fail_next_sync();
    assert_eq!(node.ask(open("another", AccountKind::Wallet)), FAILED);
    let replies = node.replies_after(|node, _| node.worker.router.more(TOKEN, &mut node.worker.made));
    assert_eq!(replies, [(TOKEN, FAILED)]);
    assert_eq!(node.worker.pending(), 0);
}
