//! Histories by time, and balances at a time.

use serde_json::Value;
use tidegate_machines::ledger::Mend;
use tidegate_machines::{DamagedPlace, RecordPosition, RecordSequence, TimeMs};

use super::history_lines::begin;
use super::server::{SERVICE, TestServer};
use crate::ledger_http::limits::{HISTORY_PAGES_BACK_MAX, PAGE_ROWS_MAX};

/// A server whose `wallet:dave` has so many rows, a thousand seconds apart; the first one is the sale of ten.
fn dated(rows: usize) -> TestServer {
    let server = TestServer::open();
    server.backend.lengthen("wallet:dave", rows - 1);
    server.backend.date("wallet:dave");
    server
}

fn times(page: &Value) -> Vec<u64> {
    page["transfers"].as_array().unwrap().iter().map(|row| row["time_ms"].as_u64().unwrap() / 1_000_000).collect()
}

const PATH: &str = "/v1/accounts/wallet:dave";

#[test]
fn a_span_of_time_is_read_page_by_page() {
    let server = dated(3_500);
    let page = |query: &str| server.ask(SERVICE, "GET", &format!("{PATH}/transfers?{query}"), "").json();
    let span = "from_time=1970-01-01T00:33:20Z&to_time=1970-01-01T01%3A23%3A20Z";
    assert_eq!(times(&page(span)), [5, 4, 3, 2], "2,000 to 5,000 seconds");
    assert_eq!(page(span).get("next"), None);
    let mut found = Vec::new();
    let mut query = "from_time=500000000&to_time=2500000000&limit=999".to_owned();
    loop {
        let page = page(&query);
        found.extend(times(&page));
        let Some(next) = page["next"].as_str() else { break };
        query = format!("from_time=500000000&to_time=2500000000&limit=999&before={next}");
    }
    assert!(found.iter().copied().eq((500..=2_500).rev()), "{} rows", found.len());
    assert_eq!(times(&page("to_time=1000000")), [1]);
    assert_eq!(times(&page("to_time=999999")), [] as [u64; 0]);
    assert_eq!(times(&page("from_time=3499000000")), [3_500, 3_499]);

    let (lines, is_whole) = begin(
        server.connect(),
        SERVICE,
        &format!("{PATH}/transfers?from_time=1000000000&to_time=2999999999&limit=1500"),
    )
    .rows();
    let seconds: Vec<u64> = lines.iter().map(|row| row["time_ms"].as_u64().unwrap() / 1_000_000).collect();
    assert!(is_whole && seconds.iter().copied().eq((1_500..=2_999).rev()), "{} lines", lines.len());
}

#[test]
fn the_balance_at_a_time_is_that_after_the_last_row_of_it() {
    let server = dated(2_500);
    let at = |query: &str| server.ask(SERVICE, "GET", &format!("{PATH}?{query}"), "");
    let balance = |query: &str| {
        let body = at(query).json();
        (body["balance"].as_i64().unwrap(), body["last_time_ms"].as_u64().unwrap_or(0) / 1_000_000)
    };
    assert_eq!(balance("at=0"), (0, 0), "before the first row");
    assert_eq!(balance("at=1970-01-01T00:16:40Z"), (10, 1), "the row of that very time counts");
    assert_eq!(balance("at=2999999"), (11, 2));
    assert_eq!(balance("at=1970-01-02T00:00:00Z"), (10 + 85, 86));
    assert_eq!(balance("at=2001-01-01T00:00:00Z"), (10 + 2_499, 2_500), "behind the newest row");
    let body = at("at=2999999").json();
    assert_eq!((&body["id"], &body["at_ms"]), (&"wallet:dave".into(), &2_999_999.into()));
    assert_eq!((&body["held"], &body["available"]), (&0.into(), &11.into()));

    let signs = |query: &str| {
        let body = at(query).json();
        (body.get("before_first_row").cloned(), body.get("to_come").cloned())
    };
    assert_eq!(signs("at=0"), (Some(true.into()), None), "nobody takes it for the balance of an open account");
    assert_eq!(signs("at=2999999"), (None, None));

    let dave = server.log_in("dave");
    let path = "/v1/accounts/wallet:carol?at=1";
    assert_eq!(server.ask(&dave, "GET", path, "").summary(), "404 account_not_found");
    assert_eq!(at("at=yesterday").summary(), "422 query_invalid");
    assert_eq!(at("before=1").summary(), "422 query_invalid");
    let history = |query: &str| server.ask(SERVICE, "GET", &format!("{PATH}/transfers?{query}"), "").summary();
    assert_eq!(history("from_time=2&to_time=1"), "422 query_invalid");
    assert_eq!(history("from_time=tomorrow"), "422 query_invalid");
}

#[test]
fn a_balance_at_a_time_to_come_is_refused_or_says_that_it_is_one() {
    let server = dated(3);
    let at = |at_ms: u64| server.ask(SERVICE, "GET", &format!("{PATH}?at={at_ms}"), "");
    let now = crate::http::time::now_ms();
    let minute = crate::ledger_http::limits::CLOCKS_DIFFER_MS_MAX;
    assert_eq!(at(now).json().get("to_come"), None);
    assert_eq!(at(now + minute / 2).json()["to_come"], true, "the clock of another host may show it already");
    for far in [now + 2 * minute, u64::MAX] {
        let refused = at(far);
        assert_eq!(refused.summary(), "422 time_to_come");
        let problem = refused.json();
        assert!(problem["field"] == "at" && problem["detail"].as_str().unwrap().contains("clock says 20"), "{problem}");
    }
    // A ledger whose clock is ahead of the host's has rows of such a time: they are known.
    server.backend.redate("wallet:dave", now + 10 * minute);
    assert_eq!(at(now + 10 * minute).json().get("to_come"), None);
    assert_eq!(at(now + 10 * minute + 1).summary(), "422 time_to_come");
}

#[test]
fn a_balance_of_then_whose_history_is_away_is_refused_with_what_was_asked_and_what_to_do() {
    let server = dated(3);
    let place = |what: &str, is_away: bool| DamagedPlace {
        file: "archive: 00aa/ledger-0/segment-0.tgj".into(),
        offset: 0,
        what: what.into(),
        lost: "all records of this part of the log".into(),
        is_away,
    };
    server.backend.set_damaged(place("cannot open: No such file or directory", true));
    let refused = server.ask(SERVICE, "GET", &format!("{PATH}?at=1000000"), "");
    assert_eq!(refused.summary(), "500 damaged");
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    for part in [
        "the balance of \"wallet:dave\" at 1970-01-01T00:16:40Z needs its history of then: ",
        "archive: 00aa/ledger-0/segment-0.tgj: cannot open: No such file or directory; it has all records of this",
        "an operator must make its archive or disk reachable, or restore the file from a copy, and then ask this again",
        "ask without `at`",
    ] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    assert!(!detail.contains("damaged") && !detail.contains("nothing:"), "{detail}");
    assert_eq!(server.ask(SERVICE, "GET", PATH, "").status, 200);
    // A file that is there and has rotted is another matter.
    server.backend.set_damaged(place("record 3 does not match its checksum", false));
    let problem = server.ask(SERVICE, "GET", &format!("{PATH}/transfers"), "").json();
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("is damaged at offset 0: record 3") && detail.contains("from a copy"), "{detail}");
}

#[test]
fn what_is_far_back_takes_several_requests_and_each_says_where_to_go_on() {
    let bound = HISTORY_PAGES_BACK_MAX * PAGE_ROWS_MAX as usize;
    let server = dated(bound + 10);
    let before = server.backend.asked();
    let far = server.ask(SERVICE, "GET", &format!("{PATH}?at=5000000"), "");
    assert_eq!(far.summary(), "422 history_too_long");
    assert!(server.backend.asked() - before <= HISTORY_PAGES_BACK_MAX + 1, "one request costs so much and no more");
    let next = far.json()["next"].as_str().unwrap().to_owned();
    let found = server.ask(SERVICE, "GET", &format!("{PATH}?at=5000000&before={next}"), "").json();
    assert_eq!((&found["balance"], &found["last_time_ms"]), (&14.into(), &5_000_000.into()));
    let empty = server.ask(SERVICE, "GET", &format!("{PATH}/transfers?to_time=5000000"), "").json();
    assert_eq!((times(&empty), empty["next"].as_str()), (vec![], Some(&*next)));
}

#[test]
fn where_nobody_can_tell_the_balance_of_a_time_the_answer_says_why_and_what_is_known() {
    let server = dated(3);
    let (was, to) = (TimeMs(2_111_875_200_000), TimeMs(1_795_323_012_123));
    let mend = Mend { position: RecordPosition(4_096), sequence: RecordSequence(48_113), was, to };
    server.backend.set_mend(mend, Some(TimeMs(1_795_320_000_005)));
    let ask = || server.ask(SERVICE, "GET", &format!("{PATH}?at=2026-11-22T04:45:00Z"), "");
    assert_eq!(ask().summary(), "422 time_uncertain");
    let problem = ask().json();
    let detail = problem["detail"].as_str().unwrap();
    for part in [
        "the balance of \"wallet:dave\" at 2026-11-22T04:45:00.000Z",
        "mended from 2036-12-03T00:00:00.000Z to 2026-11-22T04:50:12.123Z (sequence 48113)",
        "Ask for a time up to 2026-11-22T04:00:00.005Z, or from 2026-11-22T04:50:12.123Z on; without `at`",
    ] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    assert_eq!(problem["field"], "at");
    server.backend.set_mend(mend, None);
    let problem = ask().json();
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("Ask for a time from 2026-11-22T04:50:12.123Z on"), "{detail}");
    assert_eq!(server.ask(SERVICE, "GET", PATH, "").status, 200);
}

#[test]
fn a_row_that_a_wrong_clock_dated_lets_no_time_to_come_be_answered() {
    let server = dated(3);
    let now = crate::http::time::now_ms();
    let year = 365 * 86_400_000;
    server.backend.redate("wallet:dave", now + 10 * year);
    server.backend.mended_by(now - year);
    let at = |at_ms: u64| server.ask(SERVICE, "GET", &format!("{PATH}?at={at_ms}"), "");
    let then = at(now).json();
    assert_eq!((&then["balance"], then["last_time_ms"].as_u64()), (&12.into(), Some(now + 10 * year)));
    assert_eq!(at(now + year).summary(), "422 time_to_come", "though that row says a later time");
}
