//! The bounds of one caller, with a clock of the test where it matters.

use tidegate_ledger::message::Reply;

use super::*;
use crate::auth::{Identity, Rights};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

fn rate(per_s: u32, burst: u32) -> Rate {
    Rate { per_s, burst }
}

fn taken(bucket: &Bucket, now_ns: u64) -> usize {
    (0..10_000).take_while(|_| bucket.take(now_ns, 1).is_ok()).count()
}

#[test]
fn a_burst_and_then_the_rate() {
    let bucket = Bucket::new(rate(50, 200));
    assert_eq!(taken(&bucket, S), 200);
    assert_eq!(bucket.take(S, 1), Err(20 * MS), "one comes each 20 ms");
    assert_eq!(taken(&bucket, 2 * S), 50);
    assert_eq!(taken(&bucket, 100 * S), 200, "a long pause earns one burst");
    assert_eq!(taken(&Bucket::new(rate(10, 0)), S), 10, "without a burst: what a second gives");
    assert_eq!(taken(&Bucket::new(rate(0, 0)), S), 10_000, "no bound");
}

#[test]
fn what_was_taken_beyond_the_rest_is_owed() {
    let bucket = Bucket::new(rate(10, 50));
    assert_eq!(bucket.take(S, 1_000), Ok(()), "the bucket was full");
    assert_eq!(bucket.look(S), Err(95 * S + 100 * MS));
    bucket.charge(S, 10);
    assert!(bucket.take(96 * S, 1).is_err() && bucket.take(98 * S, 1).is_ok());
}

#[test]
fn threads_together_get_no_more_than_one() {
    let bucket = Bucket::new(rate(1, 10_000));
    let taken: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| taken(&bucket, S))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(taken, 10_000);
}

fn limits() -> QuotaLimits {
    QuotaLimits { requests: rate(1, 8), refusals: rate(1, 4), journal_bytes: rate(1, 1_000), ..QuotaLimits::NONE }
}

fn of(answer: Result<impl Sized, Exceeded>) -> &'static str {
    match answer {
        Ok(_) => "fine",
        Err(Exceeded::Rate { of, .. }) => of,
        Err(Exceeded::AtOnce { .. }) => "at once",
    }
}

#[test]
fn requests_refusals_and_bytes_are_bounded() {
    let quota = Quota::new(limits()).unwrap();
    assert_eq!(of(quota.admit(9, 0)), "at once");
    for _ in 0..8 {
        assert_eq!(of(quota.arrive()), "fine");
    }
    assert_eq!(of(quota.arrive()), "requests");

    let quota = Quota::new(limits()).unwrap();
    assert_eq!(of(quota.arrive()), "fine");
    quota.charge_refusals(4);
    assert_eq!(of(quota.arrive()), "refused requests");

    let quota = Quota::new(limits()).unwrap();
    assert_eq!(of(quota.admit(1, 999)), "fine");
    assert_eq!(of(quota.admit(1, 999)), "fine", "what is left may be overdrawn once");
    assert_eq!(of(quota.admit(1, 1)), "bytes to be journaled");
}

#[test]
fn requests_under_way_are_bounded_until_they_are_answered() {
    let quota = Quota::new(QuotaLimits { in_flight_max: 4, ..QuotaLimits::NONE }).unwrap();
    let (one, two) = (quota.admit(3, 0).unwrap(), quota.admit(1, 0).unwrap());
    assert_eq!(of(quota.admit(1, 0)), "requests under way");
    drop(one);
    assert_eq!(of(quota.admit(3, 0)), "fine");
    drop(two);
    assert_eq!(of(quota.admit(5, 0)), "at once");
    assert!(quota.admit(4, 0).is_ok());
}

#[test]
fn no_bounds_cost_nothing() {
    assert!(Quota::new(QuotaLimits::NONE).is_none());
    assert!(Quota::new(QuotaLimits { open_holds_max: 100, ..QuotaLimits::NONE }).is_none());
}

#[test]
fn rows_that_were_read_are_owed_at_whatever_port() {
    let quota = Quota::new(QuotaLimits { requests: rate(1, 40), ..QuotaLimits::NONE });
    let caller = Identity::new("dave", Rights::Viewer { wallets: Vec::new() }).with_quota(quota, 1);
    let read = |rows_read| Reply::History { rows: Vec::new(), next: None, held: None, rows_read };
    for _ in 0..20 {
        assert!(caller.arrive().is_ok());
        caller.answered(&read(ROWS_PER_REQUEST - 1));
    }
    assert!(!caller.owes(), "a small page is one request");
    caller.answered(&read(1_000));
    assert!(caller.owes() && of(caller.arrive()) == "requests");
}

#[test]
fn a_stream_leaves_half_of_the_burst_to_other_requests() {
    let quota = Quota::new(QuotaLimits { requests: rate(10, 100), ..QuotaLimits::NONE }).unwrap();
    assert_eq!(quota.pause_of_stream(), Duration::ZERO);
    quota.charge(50);
    assert!(quota.pause_of_stream() <= Duration::from_millis(100));
    quota.charge(50);
    let pause = quota.pause_of_stream();
    assert!((Duration::from_millis(4_500)..=Duration::from_secs(5)).contains(&pause), "{pause:?}");
    let bucket = Bucket::new(rate(10, 100));
    assert_eq!(
        (bucket.wait_for(S, 1_000), Bucket::new(rate(0, 0)).wait_for(S, 5)),
        (0, 0),
        "never more than the burst"
    );
}
