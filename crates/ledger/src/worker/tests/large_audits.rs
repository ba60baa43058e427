//! An audit of more than one question takes: what is behind the first page is compared, counted and named, too.

use std::sync::Arc;

use super::*;
use crate::limits::{AUDIT_ACCOUNTS_PER_QUESTION, AUDIT_DIFFERENCES_MAX, AUDIT_HOLDS_PER_QUESTION};
use crate::message::{AuditReport, AuditState, OpenBatch};
use crate::operation::Answer;

const ACCOUNTS: u32 = 2 * AUDIT_ACCOUNTS_PER_QUESTION + 300;
const HOLDS: u32 = AUDIT_HOLDS_PER_QUESTION + 200;

/// One shard with so many accounts and open holds.
fn large() -> TestWorker {
    let mut node = TestWorker::open(1);
    node.ask(open("source", AccountKind::Source));
    let ids: Vec<String> = (1..ACCOUNTS).map(|number| format!("wallet-{number}")).collect();
    for some in ids.chunks(500) {
        let batch = OpenBatch::copy_of(some.iter().map(|id| (id.as_str(), "credit", AccountKind::Wallet)));
        assert!(matches!(node.ask(Request::OpenAccounts(batch)), Reply::Outcomes(_)));
    }
    let hold = |number: &u32| HoldRequest {
        debit: "source".into(),
        credit: "wallet-1".into(),
        amount: 1,
        expires_in_ms: 1_000_000 + u64::from(*number),
        ..small_hold(&format!("hold-{number}"))
    };
    for some in (0..HOLDS).collect::<Vec<_>>().chunks(400) {
        let placed = node.ask(Request::PlaceHolds(some.iter().map(hold).collect()));
        assert_eq!(placed, Reply::Outcomes(vec![Outcome::Applied; some.len()]));
    }
    node.begin(Vec::new(), &mut Finished::new());
    node
}

/// Of each difference that is named its account, figure, and what live and journal say.
fn named(report: &AuditReport) -> Vec<(&str, &str, i128, i128)> {
    let each = report.differences.iter();
    each.map(|of| (&*of.account, of.figure, of.live, of.journal)).collect()
}

#[test]
fn what_does_not_fit_one_question_is_compared_too() {
    let mut node = large();
    let mut auditor = node.auditor(0);
    let report = node.audit(&mut auditor, |_| {});
    assert_eq!(report.state(), AuditState::Agreed, "{:?}", report.differences);
    assert_eq!((report.accounts_compared, report.holds_compared), (u64::from(ACCOUNTS), u64::from(HOLDS)));

    // The last account drifts, which is on the third page.
    let last = format!("wallet-{}", ACCOUNTS - 1);
    let report = node.audit(&mut auditor, |answer| {
        if let Answer::Figures { figures, more: false, .. } = answer {
            figures.last_mut().expect("it has some").balance += 7;
        }
    });
    assert_eq!(named(&report), [(&*last, "balance", 7, 0)]);
    // The last hold is missing, which is on the second page.
    let report = node.audit(&mut auditor, |answer| {
        if let Answer::OpenHolds { holds, more: false, .. } = answer {
            holds.pop();
        }
    });
    assert_eq!(named(&report), [("source", "present", 0, 1)]);
    assert_eq!(report.holds_compared, u64::from(HOLDS) - 1);
    // One that is moved behind the first page is missing there.
    let report = node.audit(&mut auditor, |answer| {
        if let Answer::OpenHolds { holds, more: true, .. } = answer {
            holds.remove(3);
        }
    });
    assert_eq!(named(&report), [("source", "present", 0, 1)]);
    assert_eq!(node.audit(&mut auditor, |_| {}).state(), AuditState::Agreed);
}

#[test]
fn accounts_that_the_live_state_lacks_are_counted() {
    let mut node = large();
    let mut auditor = node.auditor(0);
    let report = node.audit(&mut auditor, |answer| {
        if let Answer::Figures { figures, .. } = answer {
            figures.pop();
        }
    });
    let (live, all) = (i128::from(ACCOUNTS) - 3, i128::from(ACCOUNTS));
    assert!(named(&report).contains(&("(all accounts)", "count", live, all)), "{:?}", named(&report));
}

#[test]
fn so_many_differences_are_named_and_the_others_are_counted() {
    let mut node = large();
    let mut auditor = node.auditor(0);
    let report = node.audit(&mut auditor, |answer| {
        if let Answer::Figures { figures, .. } = answer {
            figures.iter_mut().for_each(|figures| figures.settings = Some(Arc::default()));
        }
    });
    assert_eq!(report.state(), AuditState::Differs);
    assert_eq!(report.differences.len(), AUDIT_DIFFERENCES_MAX);
    assert_eq!(report.differences_more, u64::from(ACCOUNTS) - AUDIT_DIFFERENCES_MAX as u64);
}
