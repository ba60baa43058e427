//! What one viewer may use up over HTTP.

use super::server::{SERVICE, TestServer};
use crate::auth::quota::{QuotaLimits, Rate};

fn vote(id: usize, amount: u64) -> String {
    format!(r#"{{"id":"vote-{id}","debit":"wallet:dave","credit":"candidate:3","amount":{amount}}}"#)
}

fn rate(burst: u32) -> Rate {
    Rate { per_s: 1, burst }
}

/// Asks until the server has enough, and says what it answered then and how much the ledger was asked.
fn flood(quota: QuotaLimits, body: impl Fn(usize) -> String) -> (String, usize) {
    let server = TestServer::with_quota(quota);
    let dave = server.log_in("dave");
    let mut client = server.connect();
    let before = server.backend.asked();
    for number in 0..400 {
        let answer = client.ask(&dave, "POST", "/v1/transfers", &body(number));
        if answer.status == 429 {
            assert!(answer.head.contains("\r\nretry-after: "), "{answer:?}");
            let asked = server.backend.asked() - before;
            assert_eq!(client.ask(&dave, "GET", "/v1/accounts/wallet:dave", "").status, 429, "at all paths");
            assert_eq!(server.backend.asked() - before, asked, "what is over a bound asks the ledger nothing");
            let carol = server.log_in("carol");
            assert_eq!(server.ask(&carol, "GET", "/v1/accounts/wallet:carol", "").status, 200, "others are served");
            assert_eq!(server.ask(SERVICE, "GET", "/v1/accounts/wallet:dave", "").status, 200);
            return (answer.json()["detail"].as_str().unwrap().to_owned(), asked);
        }
    }
    panic!("four hundred requests in a moment were all served");
}

#[test]
fn requests_are_bounded() {
    let (detail, asked) = flood(QuotaLimits { requests: rate(20), ..QuotaLimits::NONE }, |_| vote(1, 1));
    assert!(detail.contains("too many requests") && asked <= 25, "{detail}: {asked}");
}

#[test]
fn refusals_are_bounded() {
    let quota = QuotaLimits { refusals: rate(10), ..QuotaLimits::NONE };
    let (detail, asked) = flood(quota, |number| vote(number, 1_000_000));
    assert!(detail.contains("too many refused requests") && asked <= 15, "{detail}: {asked}");
    let (_, asked) = flood(quota, |_| vote(0, 1).replace("candidate:3", "wallet:carol"));
    assert!(asked <= 15, "what rights refuse counts: {asked}");
}

#[test]
fn journal_bytes_are_bounded() {
    let quota = QuotaLimits { journal_bytes: rate(2_000), ..QuotaLimits::NONE };
    let server = TestServer::with_quota(quota);
    let dave = server.log_in("dave");
    let statuses: Vec<u16> =
        (0..100).map(|number| server.ask(&dave, "POST", "/v1/transfers", &vote(number, 1)).status).collect();
    let served = statuses.iter().filter(|status| **status != 429).count();
    assert!((5..=40).contains(&served), "{statuses:?}");
    assert_eq!(server.ask(&dave, "GET", "/v1/accounts/wallet:dave", "").status, 200, "reads journal nothing");
}

#[test]
fn a_request_with_more_than_a_caller_may_ever_ask_is_no_matter_of_time() {
    let server = TestServer::with_quota(QuotaLimits { requests: rate(3), ..QuotaLimits::NONE });
    let dave = server.log_in("dave");
    let four = format!(r#"{{"transfers":[{}]}}"#, (0..4).map(|number| vote(number, 1)).collect::<Vec<_>>().join(","));
    let answer = server.ask(&dave, "POST", "/v1/transfers", &four);
    assert_eq!(answer.summary(), "422 batch_size_invalid");
    assert!(answer.json()["detail"].as_str().unwrap().contains("at most 3"), "{answer:?}");
}
