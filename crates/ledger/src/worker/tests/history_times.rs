//! Histories by time, and what was held at each moment of them.

use tidegate_machines::ledger::HistoryRow;

use super::*;
use crate::limits::{FIRST_ROWS_LOOKED_AT, HISTORY_TIME_SLACK_MS, PAGE_ROWS_MAX};

const COLLECTOR: &str = "candidate";

struct Page {
    rows: Vec<HistoryRow>,
    next: Option<Box<str>>,
    held: Option<u64>,
    rows_read: usize,
}

fn page(node: &mut TestWorker, id: &str, before: Option<&str>, limit: u32, times: TimeSpan) -> Page {
    let request = Request::ReadHistory { id: id.into(), before: before.map(Into::into), limit, times };
    match node.ask(request) {
        Reply::History { rows, next, held, rows_read } => Page { rows, next, held, rows_read },
        other => panic!("{other:?}"),
    }
}

/// All rows of a span, in pages of `limit`, and how many pages it took.
fn span(node: &mut TestWorker, id: &str, limit: u32, times: TimeSpan) -> (Vec<HistoryRow>, usize) {
    let (mut rows, mut before, mut pages) = (Vec::new(), None::<Box<str>>, 0);
    loop {
        let page = page(node, id, before.as_deref(), limit, times);
        assert!(page.rows.len() <= limit as usize);
        rows.extend(page.rows);
        (before, pages) = (page.next, pages + 1);
        if before.is_none() {
            return (rows, pages);
        }
    }
}

/// Two shards with a part of the collector each; a vote a minute from each of the two sources in turn.
fn with_votes(votes: usize) -> TestWorker {
    let (mut node, sources) = collector_of_two_shards(COLLECTOR);
    for number in 0..votes {
        node.now.0 += HISTORY_TIME_SLACK_MS;
        let vote = (format!("vote-{number}"), sources[number % 2].clone(), COLLECTOR.to_owned());
        assert_eq!(node.ask(transfers(&[vote])), Reply::Outcomes(vec![Outcome::Applied]));
    }
    node
}

#[test]
fn a_span_of_a_collector_has_the_rows_of_all_its_parts_and_ends_where_it_ends() {
    let mut node = with_votes(60);
    let (all, _) = span(&mut node, COLLECTOR, 1_000, TimeSpan::ALL);
    assert_eq!(all.len(), 60);
    let (oldest, newest) = (all[59].time_ms, all[0].time_ms);
    for (from, to) in [(None, None), (Some(all[40].time_ms), Some(all[20].time_ms)), (None, Some(all[55].time_ms))] {
        let times = TimeSpan::new(from, to).expect("a span");
        let expected: Vec<HistoryRow> = all.iter().filter(|row| times.contains(row.time_ms)).cloned().collect();
        for limit in [1, 7, 1_000] {
            let (found, pages) = span(&mut node, COLLECTOR, limit, times);
            assert!(found == expected, "{from:?} to {to:?} by {limit}: {} rows", found.len());
            // The cursor behind a full page may have nothing of the span behind it.
            assert!(pages <= expected.len() / limit as usize + 1, "{pages} pages");
        }
    }
    for times in [(Some(newest + 1), None), (None, Some(oldest - 1)), (Some(oldest + 1), Some(oldest + 2))] {
        let times = TimeSpan::new(times.0, times.1).expect("a span");
        let page = page(&mut node, COLLECTOR, None, 10, times);
        assert_eq!((page.rows.len(), page.next), (0, None), "{times:?}");
    }
}

#[test]
fn a_page_of_old_times_looks_at_so_many_rows_and_says_where_to_go_on() {
    let mut node = TestWorker::open(1);
    node.ask_all(vec![open("source", AccountKind::Source), open("wallet", AccountKind::Wallet)]);
    node.ask(sale("first"));
    let first = node.now.0;
    node.now.0 += 10;
    let sales: Vec<_> =
        (0..2 * PAGE_ROWS_MAX).map(|n| (format!("later-{n}"), "source".to_owned(), "wallet".to_owned())).collect();
    sales.chunks(50).for_each(|some| drop(node.ask(transfers(some))));

    let times = TimeSpan::new(None, Some(first)).expect("a span");
    let mut before = None::<Box<str>>;
    // The first page looks at few rows: most questions are about what was a moment ago.
    for most in [FIRST_ROWS_LOOKED_AT, PAGE_ROWS_MAX as usize] {
        let page = page(&mut node, "wallet", before.as_deref(), 1, times);
        assert!(page.rows.is_empty() && page.next.is_some(), "all of so many rows are later");
        assert_eq!(page.rows_read, most + 1, "and one more says whether there is a next page");
        before = page.next;
    }
    let last = page(&mut node, "wallet", before.as_deref(), 1, times);
    assert_eq!((last.rows.len(), &*last.rows[0].id, last.next), (1, "first", None));
    assert_eq!(last.rows_read, PAGE_ROWS_MAX as usize - FIRST_ROWS_LOOKED_AT + 1, "the page is worth what is left");
    let now = TimeSpan::new(None, Some(node.now.0)).expect("a span");
    assert_eq!(page(&mut node, "wallet", None, 1, now).rows_read, FIRST_ROWS_LOOKED_AT + 1);
}

fn hold(id: &str, amount: u64, expires_in_ms: u64) -> Request {
    Request::PlaceHolds(vec![HoldRequest {
        debit: "wallet".into(),
        credit: "source".into(),
        amount,
        expires_in_ms,
        ..small_hold(id)
    }])
}

#[test]
fn what_was_held_is_known_at_each_moment_of_a_history() {
    let mut node = TestWorker::open(1);
    node.ask_all(vec![open("source", AccountKind::Source), open("wallet", AccountKind::Wallet)]);
    (0..20).for_each(|n| drop(node.ask(sale(&format!("sale-{n}")))));
    // Each at a time of its own, with what is held from then on.
    let mut figures = vec![(node.now.0, 0)];
    let mut at = |node: &mut TestWorker, held: u64, requests: Vec<Request>| {
        node.now.0 += 10;
        requests.into_iter().for_each(|request| drop(node.ask(request)));
        figures.push((node.now.0, held));
    };
    at(&mut node, 5, vec![hold("h1", 5, 1_000_000)]);
    at(&mut node, 8, vec![hold("h2", 3, 1_000_000)]);
    at(&mut node, 10, vec![hold("h3", 2, 35)]);
    at(&mut node, 5, vec![Request::PostHolds(vec![("h1".into(), Some(1))])]);
    at(&mut node, 2, vec![Request::VoidHolds(vec!["h2".into()])]);
    at(&mut node, 2, vec![sale("last")]);
    // The third hold expires.
    at(&mut node, 0, vec![sale("very-last")]);

    for (time, held) in &figures {
        let times = TimeSpan::new(None, Some(*time)).expect("a span");
        for later in [0, 9] {
            let times = TimeSpan::new(None, Some(time + later)).expect("a span");
            assert_eq!(page(&mut node, "wallet", None, 1, times).held, Some(*held), "at {time} + {later}");
        }
        // The same, when it is looked for behind cursors of pages of one row.
        let mut before = None::<Box<str>>;
        loop {
            let newest = page(&mut node, "wallet", before.as_deref(), 1, TimeSpan::ALL);
            if times.contains(newest.rows[0].time_ms) {
                assert_eq!(newest.held, Some(*held), "row by row at {time}");
                break;
            }
            before = newest.next;
        }
    }
    let before_all = page(&mut node, "wallet", None, 1, TimeSpan::new(None, Some(1)).expect("a span"));
    assert_eq!((before_all.rows.len(), before_all.next, before_all.held), (0, None, Some(0)));
    // The account that a post credits holds nothing.
    assert_eq!(page(&mut node, "source", None, 1, TimeSpan::ALL).held, Some(0));
}
