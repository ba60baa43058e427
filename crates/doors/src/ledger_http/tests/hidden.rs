//! What lists and histories do not tell a viewer about others, and what is counted of refusals.

use super::server::{SERVICE, TestServer};
use crate::auth::quota::{QuotaLimits, Rate};
use crate::ledger_http::limits::LIST_SCAN_ACCOUNTS_MAX;

#[test]
fn a_list_that_ends_among_accounts_of_others_goes_on_without_naming_them() {
    let server = TestServer::open();
    let dave = server.log_in("dave");
    let aliens = LIST_SCAN_ACCOUNTS_MAX as usize + 10;
    let item = |number| format!(r#"{{"id":"alien:{number:05}","asset":"credit","kind":"wallet"}}"#);
    let items: Vec<String> = (0..aliens).map(item).collect();
    let opened = server.ask(SERVICE, "POST", "/v1/accounts", &format!(r#"{{"accounts":[{}]}}"#, items.join(",")));
    assert_eq!(opened.status, 200, "{opened:?}");
    let page = server.ask(&dave, "GET", "/v1/accounts", "").json();
    assert_eq!(page["accounts"].as_array().unwrap().len(), 0, "all that was looked at are others'");
    let next = page["next"].as_str().unwrap().to_owned();
    assert!(next.starts_with('/') && !next.contains("alien"), "{next}");
    let page = server.ask(&dave, "GET", &format!("/v1/accounts?after={next}"), "").json();
    assert_eq!(page["accounts"][0]["id"], "candidate:1", "it goes on where it ended: {page}");
    let carol = server.log_in("carol");
    let foreign = server.ask(&carol, "GET", &format!("/v1/accounts?after={next}"), "");
    assert!(foreign.summary().ends_with("cursor_invalid"), "{foreign:?}");
    let forged = server.ask(&dave, "GET", "/v1/accounts?after=/AAAA", "");
    assert!(forged.summary().ends_with("cursor_invalid"), "{forged:?}");
}

#[test]
fn a_page_does_not_tell_whether_others_have_accounts_behind_it() {
    let server = TestServer::open();
    let dave = server.log_in("dave");
    let page = || server.ask(&dave, "GET", "/v1/accounts?prefix=wallet:dave&limit=1", "").json();
    let before = page();
    assert_eq!(before["accounts"][0]["id"], "wallet:dave");
    let opened =
        server.ask(SERVICE, "POST", "/v1/accounts", r#"{"id":"wallet:dave-2","asset":"credit","kind":"wallet"}"#);
    assert_eq!(opened.status, 201, "{opened:?}");
    assert_eq!(page(), before);
}

fn vote(viewer: &str) -> String {
    format!(r#"{{"id":"by-{viewer}","debit":"wallet:{viewer}","credit":"candidate:1","amount":1}}"#)
}

#[test]
fn a_collectors_history_names_nobody_else_to_a_viewer() {
    let server = TestServer::open();
    for viewer in ["dave", "carol"] {
        let token = server.log_in(viewer);
        assert_eq!(server.ask(&token, "POST", "/v1/transfers", &vote(viewer)).status, 201);
    }
    let dave = server.log_in("dave");
    let path = "/v1/accounts/candidate:1/transfers";
    let rows = server.ask(&dave, "GET", path, "").json()["transfers"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 2);
    let [of_carol, of_dave] = [&rows[0], &rows[1]];
    assert_eq!((of_dave["id"].as_str(), of_dave["debit"].as_str()), (Some("by-dave"), Some("wallet:dave")));
    assert_eq!((of_carol["id"].as_str(), of_carol["debit"].as_str()), (Some(""), Some("")));
    assert_eq!((of_carol["amount"].as_u64(), of_carol["balance_after"].as_u64()), (Some(1), Some(2)), "what came in");
    let all = server.ask(SERVICE, "GET", path, "").json();
    assert_eq!(all["transfers"][0]["debit"], "wallet:carol", "a service that may read it sees its moves: {all}");
}

#[test]
fn refusals_are_counted_by_code_and_those_of_quotas_by_bound() {
    let requests = Rate { per_s: 1, burst: 3 };
    let server = TestServer::with_quota(QuotaLimits { requests, ..QuotaLimits::NONE });
    let dave = server.log_in("dave");
    let statuses: Vec<u16> = (0..5).map(|_| server.ask(&dave, "GET", "/v1/accounts/wallet:dave", "").status).collect();
    assert_eq!(statuses[3..], [429, 429]);
    assert_eq!(server.ask("wrong", "GET", "/v1/accounts", "").status, 401);
    assert_eq!(server.ask(SERVICE, "GET", "/v1/accounts/wallet:none", "").status, 404);
    let shown = server.ask(SERVICE, "GET", "/metrics", "").body;
    for line in [
        r#"tidegate_door_refusals_total{door="http",worker="edge-0",code="too_many_requests"} 2"#,
        r#"tidegate_door_refusals_total{door="http",worker="edge-0",code="token_invalid"} 1"#,
        r#"tidegate_door_refusals_total{door="http",worker="edge-0",code="account_not_found"} 1"#,
        r#"tidegate_quota_refusals_total{door="http",worker="edge-0",bound="requests"} 2"#,
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
}
