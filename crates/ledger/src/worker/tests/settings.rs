//! Settings of accounts, assets and look-ups over three shards: what one shard was told, all keep to.

use tidegate_machines::ledger::{AccountStatus, HoldState, Label, TransferState};

use super::*;
use crate::message::ChangeRequest;

const SHARDS: u16 = 3;

/// An account id that lives on a shard.
fn on(shard: u16, name: &str) -> String {
    (0..).map(|n| format!("{name}{n}")).find(|id| shard_of(id, SHARDS).0 == shard).expect("ids are spread")
}

fn open(node: &mut TestWorker, id: &str, kind: AccountKind) {
    let opened = node.ask(Request::OpenAccount { id: id.into(), asset: "credit".into(), kind });
    assert!(matches!(opened, Reply::AccountOpened { created: true, .. }), "{opened:?}");
}

fn pay(node: &mut TestWorker, id: &str, debit: &str, credit: &str, amount: u64) -> Outcome {
    let label = Label { code: 7, user_data: "order-7" };
    let transfer = Transfer { id, debit, credit, amount, memo: "", label };
    match node.ask(Request::Transfers { linked: false, batch: TransferBatch::copy_of([transfer]) }) {
        Reply::Outcomes(outcomes) => outcomes[0],
        other => panic!("{other:?}"),
    }
}

fn hold(id: &str, debit: &str, credit: &str, amount: u64) -> HoldRequest {
    HoldRequest {
        id: id.into(),
        debit: debit.into(),
        credit: credit.into(),
        amount,
        expires_in_ms: 100_000,
        memo: "seat".into(),
        open_holds_max: u32::MAX,
        code: 8,
        user_data: "".into(),
    }
}

fn set(node: &mut TestWorker, id: &str, change: ChangeRequest) -> Reply {
    node.ask(Request::ChangeAccount { id: id.into(), change })
}

fn status(status: AccountStatus) -> ChangeRequest {
    ChangeRequest { status: Some(status), ..ChangeRequest::default() }
}

fn refused(refusal: Refusal) -> Reply {
    Reply::Refused(refusal)
}

/// Steps until every credit has arrived and is confirmed.
fn settle(node: &mut TestWorker) {
    for _ in 0..4 {
        node.now = TimeMs(node.now.0 + 1_000);
        node.begin(Vec::new(), &mut Finished::new());
    }
}

#[test]
fn a_frozen_account_is_frozen_on_every_shard() {
    let mut node = TestWorker::open(SHARDS);
    let (shop, wallet, other) = (on(0, "shop"), on(1, "wallet"), on(2, "shop"));
    open(&mut node, &shop, AccountKind::Source);
    open(&mut node, &other, AccountKind::Source);
    open(&mut node, &wallet, AccountKind::Wallet);
    assert_eq!(pay(&mut node, "t1", &shop, &wallet, 5), Outcome::Applied);
    let Reply::AccountChanged { changed: true, account } = set(&mut node, &wallet, status(AccountStatus::Frozen))
    else {
        panic!("it was open");
    };
    assert_eq!(account.status(), AccountStatus::Frozen);
    // One shard had credited it before, the other hears of it for the first time.
    let frozen = Outcome::Refused(Refusal::CreditAccountFrozen);
    assert_eq!(pay(&mut node, "t2", &shop, &wallet, 5), frozen);
    assert_eq!(pay(&mut node, "t3", &other, &wallet, 5), frozen);
    assert_eq!(pay(&mut node, "t4", &wallet, &shop, 1), Outcome::Refused(Refusal::DebitAccountFrozen));
    // What was decided before arrives.
    settle(&mut node);
    let Reply::Account(account) = node.ask(Request::ReadAccount { id: (&*wallet).into() }) else {
        panic!("it is there")
    };
    assert_eq!((account.balance, account.status()), (5, AccountStatus::Frozen));
    let again = set(&mut node, &wallet, status(AccountStatus::Frozen));
    assert!(matches!(again, Reply::AccountChanged { changed: false, .. }), "{again:?}");
    // The whole of it comes back after a restart.
    let mut node = TestWorker::over(node.disk, SHARDS);
    assert_eq!(pay(&mut node, "t5", &other, &wallet, 5), frozen);
    assert!(matches!(
        set(&mut node, &wallet, status(AccountStatus::Open)),
        Reply::AccountChanged { changed: true, .. }
    ));
    assert_eq!(pay(&mut node, "t6", &other, &wallet, 5), Outcome::Applied);
}

#[test]
fn an_account_is_closed_when_nothing_is_on_its_way_to_it() {
    let mut node = TestWorker::open(SHARDS);
    let (shop, wallet) = (on(0, "shop"), on(1, "wallet"));
    open(&mut node, &shop, AccountKind::Source);
    open(&mut node, &wallet, AccountKind::Wallet);
    // All in one turn, so that the credit is under way when the account is closed.
    let label = Label::NONE;
    let transfer = Transfer { id: "t1", debit: &shop, credit: &wallet, amount: 5, memo: "", label };
    let replies = node.ask_all(vec![
        Request::Transfers { linked: false, batch: TransferBatch::copy_of([transfer]) },
        Request::ChangeAccount { id: (&*wallet).into(), change: status(AccountStatus::Closed) },
    ]);
    match &replies[1] {
        // The credit came first, or was under way, or was refused because the account was closed.
        Reply::Refused(Refusal::AccountNotEmpty | Refusal::AccountInTransit) => {}
        Reply::AccountChanged { .. } => {
            let Reply::Outcomes(outcomes) = &replies[0] else { panic!("{replies:?}") };
            let refused =
                matches!(outcomes[0], Outcome::Refused(Refusal::CreditAccountFrozen | Refusal::CreditAccountClosed));
            assert!(refused, "{outcomes:?}");
        }
        other => panic!("{other:?}"),
    }
    settle(&mut node);
    set(&mut node, &wallet, status(AccountStatus::Open));
    let Reply::Account(account) = node.ask(Request::ReadAccount { id: (&*wallet).into() }) else {
        panic!("it is there")
    };
    if account.balance > 0 {
        assert_eq!(set(&mut node, &wallet, status(AccountStatus::Closed)), refused(Refusal::AccountNotEmpty));
        assert_eq!(pay(&mut node, "t2", &wallet, &shop, account.balance as u64), Outcome::Applied);
    }
    settle(&mut node);
    let closed = set(&mut node, &wallet, status(AccountStatus::Closed));
    let Reply::AccountChanged { changed: true, account } = closed else { panic!("{closed:?}") };
    assert_eq!(account.status(), AccountStatus::Closed);
    assert_eq!(pay(&mut node, "t3", &shop, &wallet, 5), Outcome::Refused(Refusal::CreditAccountClosed));
}

#[test]
fn a_collector_is_frozen_with_all_its_parts() {
    let mut node = TestWorker::open(SHARDS);
    open(&mut node, "c", AccountKind::Collector);
    for shard in 0..SHARDS {
        let shop = on(shard, "shop");
        open(&mut node, &shop, AccountKind::Source);
        assert_eq!(pay(&mut node, &format!("t{shard}"), &shop, "c", 5), Outcome::Applied);
    }
    let frozen = set(&mut node, "c", status(AccountStatus::Frozen));
    let Reply::AccountChanged { changed: true, account } = frozen else { panic!("{frozen:?}") };
    assert_eq!((account.balance, account.status()), (15, AccountStatus::Frozen), "the sum of the parts");
    for shard in 0..SHARDS {
        let outcome = pay(&mut node, &format!("u{shard}"), &on(shard, "shop"), "c", 5);
        assert_eq!(outcome, Outcome::Refused(Refusal::CreditAccountFrozen), "on shard {shard}");
    }
    assert_eq!(set(&mut node, "c", status(AccountStatus::Closed)), refused(Refusal::SettingNotAllowed));
}

#[test]
fn a_limit_that_another_shard_would_have_to_check_is_refused() {
    let mut node = TestWorker::open(SHARDS);
    let (near, far, wallet) = (on(1, "shop"), on(0, "shop"), on(1, "wallet"));
    open(&mut node, &near, AccountKind::Source);
    open(&mut node, &far, AccountKind::Source);
    open(&mut node, &wallet, AccountKind::Wallet);
    let limit = ChangeRequest { balance_max: Some(Some(6)), ..ChangeRequest::default() };
    assert!(matches!(set(&mut node, &wallet, limit), Reply::AccountChanged { changed: true, .. }));
    assert_eq!(pay(&mut node, "t1", &near, &wallet, 7), Outcome::Refused(Refusal::BalanceAboveMax));
    assert_eq!(pay(&mut node, "t2", &near, &wallet, 6), Outcome::Applied);
    assert_eq!(pay(&mut node, "t3", &far, &wallet, 1), Outcome::Refused(Refusal::LimitAcrossShards));
}

#[test]
fn what_became_of_an_id_is_found_wherever_it_was_decided() {
    let mut node = TestWorker::open(SHARDS);
    let (shop, wallet) = (on(0, "shop"), on(1, "wallet"));
    open(&mut node, &shop, AccountKind::Source);
    open(&mut node, &wallet, AccountKind::Wallet);
    let ids: Vec<String> = (0..12).map(|n| format!("t{n}")).collect();
    for id in &ids {
        assert_eq!(pay(&mut node, id, &shop, &wallet, 5), Outcome::Applied);
    }
    assert!(matches!(pay(&mut node, "poor", &wallet, &shop, 5_000), Outcome::Refused(_)));
    let holds: Vec<HoldRequest> = (0..5).map(|n| hold(&format!("h{n}"), &shop, &wallet, 1 + n)).collect();
    assert_eq!(node.ask(Request::PlaceLinkedHolds(holds)), Reply::Outcomes(vec![Outcome::Applied; 5]));
    node.ask(Request::PostHolds(vec![("h1".into(), Some(1))]));
    node.ask(Request::VoidHolds(vec!["h2".into()]));
    // Once with the records in memory, once after a start, when they are read from the disk.
    for _ in 0..2 {
        for id in &ids {
            let found = node.ask(Request::ReadTransfer { id: (&**id).into() });
            let Reply::Transfer { shard: 0, transfer } = found else { panic!("{found:?}") };
            assert_eq!((&*transfer.debit, &*transfer.credit, transfer.amount), (&*shop, &*wallet, 5));
            assert_eq!((transfer.code, &*transfer.user_data, transfer.state), (7, "order-7", TransferState::Applied));
        }
        let found = node.ask(Request::ReadTransfer { id: "poor".into() });
        let Reply::Transfer { transfer, .. } = found else { panic!("{found:?}") };
        assert!(matches!(transfer.state, TransferState::Refused(Refusal::InsufficientFunds { .. })), "{transfer:?}");
        for missing in ["nobody", "h1"] {
            let found = node.ask(Request::ReadTransfer { id: missing.into() });
            assert_eq!(found, refused(Refusal::TransferNotFound), "{missing}");
        }
        let states: Vec<HoldState> = (0..4)
            .map(|n| match node.ask(Request::ReadHold { id: format!("h{n}").into() }) {
                Reply::Hold { hold, .. } => {
                    assert_eq!((&*hold.memo, hold.code), ("seat", 8));
                    hold.state
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(matches!(states[0], HoldState::Open { .. }), "{states:?}");
        assert_eq!(states[1..3], [HoldState::Posted { amount: 1 }, HoldState::Voided]);
        assert_eq!(node.ask(Request::ReadHold { id: "t1".into() }), refused(Refusal::HoldNotFound));
        let page = |node: &mut TestWorker, after| match node.ask(Request::ListHolds {
            account: (&*shop).into(),
            after,
            limit: 2,
        }) {
            // After the restart, their records are on the disk only.
            Reply::Holds { holds, next } => {
                assert!(holds.iter().all(|hold| (&*hold.memo, hold.code) == ("seat", 8)), "{holds:?}");
                (holds.into_iter().map(|hold| hold.id).collect::<Vec<_>>(), next)
            }
            other => panic!("{other:?}"),
        };
        let (first, next) = page(&mut node, None);
        assert_eq!(first, ["h0".into(), "h3".into()]);
        assert_eq!(page(&mut node, next), (vec!["h4".into()], None));
        node = TestWorker::over(node.disk, SHARDS);
    }
}

#[test]
fn assets_are_summed_over_shards() {
    let mut node = TestWorker::open(SHARDS);
    let declare = |node: &mut TestWorker, asset: &str, decimals| {
        node.ask(Request::DeclareAsset { asset: asset.into(), decimals })
    };
    assert_eq!(declare(&mut node, "credit", 2), Reply::AssetDeclared { created: true });
    assert_eq!(declare(&mut node, "credit", 2), Reply::AssetDeclared { created: false });
    assert_eq!(declare(&mut node, "credit", 3), refused(Refusal::AssetExists));
    declare(&mut node, "eur", 0);
    for shard in 0..SHARDS {
        let shop = on(shard, "shop");
        open(&mut node, &shop, AccountKind::Source);
        let wallet = on((shard + 1) % SHARDS, "wallet");
        open(&mut node, &wallet, AccountKind::Wallet);
        assert_eq!(pay(&mut node, &format!("t{shard}"), &shop, &wallet, 5), Outcome::Applied);
        node.ask(Request::PlaceHolds(vec![hold(&format!("h{shard}"), &shop, &wallet, 2)]));
    }
    let Reply::Assets(assets) = node.ask(Request::ListAssets) else { panic!("a list") };
    let figures: Vec<_> = assets.iter().map(|a| (&*a.name, a.decimals, a.issued, a.held)).collect();
    assert_eq!(figures, [("credit", Some(2), 15, 6), ("eur", Some(0), 0, 0)]);
}

#[test]
fn the_digest_of_settings_tells_apart_what_is_set() {
    let mut node = TestWorker::open(1);
    open(&mut node, "wallet", AccountKind::Wallet);
    let form = |node: &TestWorker| crate::auditor::settings_form(node.worker.shards()[0].state_ahead());
    let before = form(&node);
    let change = ChangeRequest { status: Some(AccountStatus::Frozen), ..ChangeRequest::default() };
    node.ask(Request::ChangeAccount { id: "wallet".into(), change });
    node.begin(Vec::new(), &mut Finished::new());
    assert_ne!(form(&node), before);
}
