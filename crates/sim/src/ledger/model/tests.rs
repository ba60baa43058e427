//! The oracle is told lies, and must notice each.

use expect_test::{Expect, expect};
use tidegate_ledger::message::Reply;
use tidegate_machines::TimeMs;
use tidegate_machines::ledger::{AccountKind, AccountView, HistoryRow, Outcome, Refusal, RowKind};

use super::{Census, Model};
use crate::ledger::ask::{Ask, Content, Item};

const FUNDS: Refusal = Refusal::InsufficientFunds { available: 1 };

fn open(id: &str, kind: AccountKind) -> Ask {
    Ask::Open { id: id.into(), asset: "credit".into(), kind }
}

fn item(id: &str, amount: u64) -> Item {
    let content = Content {
        debit: "wallet:a".into(),
        credit: "wallet:b".into(),
        amount,
        memo: String::new(),
        expires_in_ms: None,
    };
    Item { id: id.into(), content }
}

fn pay(id: &str, amount: u64) -> Ask {
    Ask::Transfers { linked: false, items: vec![item(id, amount)] }
}

fn view(id: &str, balance: i64, debited: u128) -> AccountView {
    let credited = (i128::from(balance) + debited as i128) as u128;
    AccountView {
        id: id.into(),
        asset: "credit".into(),
        kind: AccountKind::Wallet,
        balance,
        held: 0,
        credited,
        debited,
        settings: None,
    }
}

/// Two wallets that are known to be open.
fn two_wallets() -> Model {
    let mut model = Model::new(1);
    for id in ["wallet:a", "wallet:b"] {
        let ask = open(id, AccountKind::Wallet);
        let sent = model.sent(&ask);
        let reply = Reply::AccountOpened { created: true, account: view(id, 0, 0) };
        model.answered(&ask, &sent, &reply).expect("nothing is wrong with that");
    }
    model
}

/// Sends and answers one after the other; the broken promise, or "kept".
fn tell(story: &[(Ask, Reply)]) -> String {
    let mut model = two_wallets();
    for (ask, reply) in story {
        let sent = model.sent(ask);
        if let Err(violation) = model.answered(ask, &sent, reply) {
            return violation.property.to_owned();
        }
    }
    "kept".to_owned()
}

fn outcome(outcome: Outcome) -> Reply {
    Reply::Outcomes(vec![outcome])
}

/// The refusal for want of funds, as decided at this time.
fn before(decided_at: u64) -> Outcome {
    Outcome::RefusedBefore { refusal: FUNDS, decided_at: TimeMs(decided_at) }
}

fn check(story: &[(Ask, Reply)], expected: &Expect) {
    expected.assert_eq(&tell(story));
}

#[test]
fn an_honest_node_keeps_its_promises() {
    let story = [
        (pay("t", 5), outcome(Outcome::Refused(FUNDS))),
        (pay("t", 5), outcome(before(0))),
        (pay("t", 6), outcome(Outcome::Refused(Refusal::IdReused))),
        (pay("u", 5), outcome(Outcome::Applied)),
        (pay("u", 5), outcome(Outcome::Duplicate)),
    ];
    check(&story, &expect!["kept"]);
}

#[test]
fn each_lie_is_noticed() {
    let twice = [(pay("t", 5), outcome(Outcome::Applied)), (pay("t", 5), outcome(Outcome::Applied))];
    check(&twice, &expect!["the same id is applied once"]);

    let early = [(pay("t", 5), outcome(Outcome::Duplicate))];
    check(&early, &expect!["nothing is done before it is asked"]);

    let other = [(pay("t", 5), outcome(Outcome::Refused(FUNDS))), (pay("t", 5), outcome(Outcome::Duplicate))];
    check(&other, &expect!["the same id has the same answer"]);

    let reused = [(pay("t", 5), outcome(Outcome::Applied)), (pay("t", 6), outcome(Outcome::Refused(FUNDS)))];
    check(&reused, &expect!["an id stands for one content"]);

    let forgotten = [(pay("t", 5), outcome(Outcome::Refused(FUNDS))), (pay("t", 5), outcome(Outcome::Refused(FUNDS)))];
    check(&forgotten, &expect!["a remembered refusal says that it is one"]);

    let unasked = [(pay("t", 5), outcome(before(0)))];
    check(&unasked, &expect!["nothing is done before it is asked"]);

    let later = [(pay("t", 5), outcome(Outcome::Refused(FUNDS))), (pay("t", 5), outcome(before(1)))];
    check(&later, &expect!["a remembered refusal says when it was decided"]);

    let rich = [(pay("t", 1), outcome(Outcome::Refused(FUNDS)))];
    check(&rich, &expect!["a refusal has its reason"]);

    let lost = [(Ask::Read { id: "wallet:a".into() }, Reply::Refused(Refusal::AccountNotFound))];
    check(&lost, &expect!["no acknowledged account is lost"]);

    let stale = [
        (pay("t", 5), outcome(Outcome::Applied)),
        (Ask::Read { id: "wallet:a".into() }, Reply::Account(view("wallet:a", 5, 0))),
    ];
    check(&stale, &expect!["what was seen or acknowledged is never taken back"]);

    let negative = [(Ask::Read { id: "wallet:a".into() }, Reply::Account(view("wallet:a", -1, 5)))];
    check(&negative, &expect!["no wallet below zero"]);

    let group = Ask::Transfers { linked: true, items: vec![item("t", 5), item("u", 5)] };
    let split = Reply::Outcomes(vec![Outcome::Applied, Outcome::Refused(Refusal::LinkedFailed)]);
    check(&[(group, split)], &expect!["a linked group is all or nothing"]);
}

fn row(id: &str, amount: u64, balance_after: i64) -> HistoryRow {
    HistoryRow {
        id: id.into(),
        id_space: "".into(),
        kind: RowKind::Transfer,
        debit: "wallet:a".into(),
        credit: "wallet:b".into(),
        amount,
        memo: "".into(),
        time_ms: 1,
        balance_after,
        code: 0,
        user_data: "".into(),
    }
}

/// The census after `t` was acknowledged and `u` was sent and never answered.
fn census(rows: &[HistoryRow], balance: i64) -> String {
    let mut model = two_wallets();
    let ask = pay("t", 5);
    let sent = model.sent(&ask);
    model.answered(&ask, &sent, &outcome(Outcome::Applied)).expect("nothing is wrong with that");
    model.sent(&pay("u", 7));
    let mut census = Census::new();
    census.insert("wallet:a".into(), (view("wallet:a", 0, 0), Vec::new()));
    census.insert("wallet:b".into(), (view("wallet:b", balance, 0), rows.to_vec()));
    model.compare(&census, false).map_or_else(|violation| violation.property.to_owned(), |()| "kept".to_owned())
}

/// A refusal of `t` with one unit available, decided in between of two rows; what the history says was available.
fn refused_with(available: i64) -> String {
    let mut model = two_wallets();
    let ask = pay("t", 5);
    let content =
        Content { debit: "wallet:b".into(), credit: "wallet:a".into(), ..item("in", available as u64).content };
    let first = Ask::Transfers { linked: false, items: vec![Item { id: "in".into(), content }] };
    let mut census = Census::new();
    let row = HistoryRow {
        debit: "wallet:b".into(),
        credit: "wallet:a".into(),
        code: available as u32,
        ..row("in", available as u64, available)
    };
    census.insert("wallet:a".into(), (view("wallet:a", available, 0), vec![row.clone()]));
    let other = HistoryRow { balance_after: -available, ..row };
    let source = AccountView { kind: AccountKind::Source, ..view("wallet:b", -available, available as u128) };
    census.insert("wallet:b".into(), (source, vec![other]));
    let tell = |model: &mut Model, ask: &Ask, said: Outcome| {
        let sent = model.sent(ask);
        model.answered(ask, &sent, &outcome(said)).expect("nothing is wrong with that")
    };
    tell(&mut model, &first, Outcome::Applied);
    model.time_passes(9, 9);
    tell(&mut model, &ask, Outcome::Refused(FUNDS));
    tell(&mut model, &ask, before(9));
    model.check_refused_funds(&census).map_or_else(|violation| violation.property.to_owned(), |()| "kept".to_owned())
}

#[test]
fn a_refusal_that_names_other_funds_than_the_history_is_found() {
    expect!["kept"].assert_eq(&refused_with(1));
    expect!["a refusal names what was available then"].assert_eq(&refused_with(7));
}

#[test]
fn a_census_finds_what_is_lost_or_there_twice() {
    expect!["no acknowledged transfer is lost or applied twice"].assert_eq(&census(&[], 0));
    expect!["no acknowledged transfer is lost or applied twice"].assert_eq(&census(&[row("t", 5, 5)], 5));
    expect!["the same id is applied once"].assert_eq(&census(&[row("t", 5, 10), row("t", 5, 5)], 10));
    expect!["history adds up to the balance"].assert_eq(&census(&[row("t", 5, 5)], 6));
    expect!["history adds up to the balance"].assert_eq(&census(&[row("t", 5, 6)], 6));
    expect!["history shows what was asked"].assert_eq(&census(&[row("t", 6, 6)], 6));
}
