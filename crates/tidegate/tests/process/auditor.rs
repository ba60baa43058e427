//! The online auditor finds a balance that was changed in memory, and reports the account, the difference, and since
//! when.

use std::fs;

use serde_json::{Value, json};

use crate::http::Http;
use crate::votes::{CREDITS, connect, open_show};
use crate::{Server, Settings, audit, folder, wait_for};

#[test]
fn a_balance_changed_in_memory_is_found_and_named() {
    let folder = folder();
    let order = folder.path().join("tamper");
    let environment = vec![("TIDEGATE_TAMPER".to_owned(), order.display().to_string())];
    let settings = Settings { audit_interval_s: 1, environment, ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    let mut http = Http::connect(server.http).expect("the door is open");
    let mut report = || http.get("/v1/audit").expect("the door answers").body;

    // Opened accounts and sold credits: six records, all of them audited and found right. An audit that was under way
    // meanwhile may end at the sixth and have compared fewer accounts; the next one has not.
    let finished = |report: &Value| report["shards"][0]["finished_at_ms"].as_u64();
    let first = wait_for("an audit of all records", || Some(report()).filter(|report| sequence(report) >= 6));
    let clean = wait_for("another audit", || Some(report()).filter(|report| finished(report) > finished(&first)));
    assert_eq!(clean["agreed"], true, "{clean}");
    assert_eq!(clean["shards"][0]["accounts_compared"], 4, "{clean}");
    let agreed_at = sequence(&clean);

    let written = folder.path().join("tamper.new");
    fs::write(&written, "wallet:dave +5").expect("the folder takes a file");
    fs::rename(written, &order).expect("a file gets its name");
    wait_for("the balance is changed", || (!order.exists()).then_some(()));

    let found = wait_for("the auditor notices", || Some(report()).filter(|report| report["agreed"] == false));
    let right = json!([{
        "account": "wallet:dave", "figure": "balance", "live": CREDITS + 5, "journal": CREDITS,
        "agreed_at_sequence": agreed_at,
    }]);
    assert_eq!(found["shards"][0]["differences"], right, "{found}");
    let metrics = wait_for("metrics show it", || {
        let text = http.get("/metrics").expect("the door answers").body;
        text.as_str().filter(|text| text.contains("tidegate_audit_differences{shard=\"0\"} 1\n")).map(str::to_owned)
    });
    assert!(!metrics.is_empty());
    let health = wait_for("health says it", || {
        let health = http.get("/healthz").expect("the door answers");
        (health.body["status"] == "degraded").then_some(health)
    });
    assert_eq!((health.status, &health.body["audit"]), (200, &json!("differs")), "it serves: {health:?}");
    wait_for("the log tells the operator", || {
        server.log().contains("a live figure is not what the journal says").then_some(())
    });

    // Nothing new is decided on a balance that is wrong; what was decided before is answered.
    let mut transfer = |id: &str, debit: &str, credit: &str, amount: u64| {
        let body = json!({ "id": id, "debit": debit, "credit": credit, "amount": amount });
        let answer = http.post("/v1/transfers", &body).expect("the door answers");
        (answer.status, answer.body)
    };
    let (status, body) = transfer("vote-of-too-much", "wallet:dave", "candidate:1", CREDITS + 5);
    assert_eq!((status, &body["code"]), (503, &json!("state_differs")), "{body}");
    let (status, body) = transfer("wallet:dave", "source:shop", "wallet:dave", CREDITS);
    assert_eq!((status, &body["outcome"]), (200, &json!("duplicate")), "{body}");
    let ready = http.get("/readyz").expect("the door answers");
    assert_eq!((ready.status, &ready.body["reasons"]), (503, &json!(["state_differs"])), "{ready:?}");

    // The journal is the truth: it agrees with itself, and a new start has the right balance.
    assert!(server.terminate().status.success());
    assert!(audit(&settings.data).status.success());
    let server = Server::start(&settings);
    assert_eq!(connect(&server).account("wallet:dave").expect("it is there").balance, CREDITS as i64);
    let mut http = Http::connect(server.http).expect("the door is open");
    let body = json!({ "id": "vote", "debit": "wallet:dave", "credit": "candidate:1", "amount": 1 });
    assert_eq!(http.post("/v1/transfers", &body).expect("the door answers").status, 201, "it decides again");
}

#[test]
fn a_server_serves_before_its_auditor_has_read_the_snapshot() {
    let folder = folder();
    let settings = Settings { snapshot_interval_s: 1, audit_interval_s: 1, ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let mut http = Http::connect(server.http).expect("the door is open");
    for first in (0..40_000).step_by(8_000) {
        let account = |n| json!({ "id": format!("wallet:{n}"), "asset": "credit", "kind": "wallet" });
        let accounts: Vec<Value> = (first..first + 8_000).map(account).collect();
        let answer = http.post("/v1/accounts", &json!({ "accounts": accounts })).expect("the door answers");
        assert_eq!(answer.body["outcomes"].as_array().map(Vec::len), Some(8_000), "{}", answer.body);
    }
    let newest = settings.data.join("snapshots/ledger-0/snapshot-00000000000000040000.tgs");
    wait_for("a snapshot of all accounts", || newest.exists().then_some(()));
    assert!(server.terminate().status.success());

    // The auditor's thread has the lowest priority, but the system may run it first now and then.
    let served_first = |_| {
        let server = Server::start(&settings);
        let begins = |log: &str| log.find("the auditor begins behind this record");
        wait_for("the auditor begins", || begins(&server.log()).map(drop));
        let log = server.terminate().log;
        let begun = begins(&log).expect("it has begun");
        assert!(log[begun..].lines().next().is_some_and(|line| line.contains("sequence=40000")), "{log}");
        log.find("serving data=").is_some_and(|serving| serving < begun)
    };
    assert!((0..5).any(served_first), "the server waits for its auditor at each start");
}

fn sequence(report: &Value) -> u64 {
    report["shards"][0]["sequence"].as_u64().expect("a number")
}
