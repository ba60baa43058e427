use std::sync::Arc;

use tidegate_machines::ledger::{AccountKind, AccountRules, AccountSettings};

use super::*;

fn wallet(status: AccountStatus) -> AccountView {
    let rules = AccountRules { status, ..AccountRules::default() };
    AccountView {
        id: "wallet".into(),
        asset: "credit".into(),
        kind: AccountKind::Wallet,
        balance: 0,
        held: 0,
        credited: 0,
        debited: 0,
        settings: Some(Arc::new(AccountSettings { revision: 3, rules, ..AccountSettings::default() })),
    }
}

/// A change that closes the wallet; its home has frozen it.
fn closing(shard_count: u16) -> (Changing, Next) {
    let change = ChangeRequest { status: Some(AccountStatus::Closed), ..ChangeRequest::default() };
    let mut changing = Changing::new("wallet".into(), change, shard_count);
    assert_eq!(changing.begin().len(), 1, "the home is asked first");
    changing.collect(Answer::Changed { changed: true, account: wallet(AccountStatus::Frozen) });
    let next = changing.complete();
    (changing, next)
}

#[test]
fn an_account_is_closed_only_if_every_other_shard_sends_nothing_and_will_send_nothing() {
    for (told, is_settled) in [
        ([(0, true), (0, true)], true),
        ([(1, true), (0, true)], false),
        ([(0, true), (1, true)], false),
        ([(0, false), (0, true)], false),
        ([(0, true), (0, false)], false),
        ([(2, false), (0, true)], false),
    ] {
        let (mut changing, next) = closing(3);
        assert!(matches!(&next, Next::Calls(calls) if calls.len() == 2), "the others are told");
        for (under_way, is_frozen) in told {
            changing.collect(Answer::Adopted { under_way, is_frozen, part: None });
        }
        match changing.complete() {
            Next::Calls(calls) => {
                assert!(is_settled && calls.len() == 1, "{told:?}");
                let Operation::ChangeAccount { change, is_settled, .. } = &calls[0].1 else { panic!("{calls:?}") };
                assert_eq!((change.status, change.if_revision), (Some(AccountStatus::Closed), Some(3)));
                assert!(is_settled);
            }
            Next::Reply(reply) => {
                assert!(!is_settled && reply == Reply::Refused(Refusal::AccountInTransit), "{told:?}: {reply:?}");
            }
        }
    }
}

#[test]
fn the_only_shard_has_nobody_to_tell() {
    let (_, next) = closing(1);
    let Next::Calls(calls) = next else { panic!("its home closes it") };
    assert!(matches!(&calls[..], [(ShardIndex(0), Operation::ChangeAccount { is_settled: true, .. })]), "{calls:?}");
}
