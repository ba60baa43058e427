//! Transfers, case by case.

use super::*;

#[test]
fn a_wallet_spends_what_it_has_and_no_more() {
    at_the_shop(
        "v1: a>c 6; v2: a>c 5; v3: a>c 1; show a; show c; show shop",
        expect![[r#"
        c1: shop>a 5 -> applied
        v1: a>c 6 -> refused: insufficient_funds available=5
        v2: a>c 5 -> applied
        v3: a>c 1 -> refused: insufficient_funds available=0
        show a -> balance 0, held 0, credited 5, debited 5
        show c -> balance 5, held 0, credited 5, debited 0
        show shop -> balance -5, held 0, credited 0, debited 5
    "#]],
    );
}

#[test]
fn the_same_id_gives_the_same_answer_for_ever() {
    at_the_shop(
        "v1: a>c 6; f1: shop>a 10; v1: a>c 6; v1: a>c 7; v2: a>c 5; v2: a>c 5; v2: a>b 5; v2: a>c 5 memo",
        expect![[r#"
            c1: shop>a 5 -> applied
            v1: a>c 6 -> refused: insufficient_funds available=5
            f1: shop>a 10 -> applied
            v1: a>c 6 -> refused: insufficient_funds available=5
            v1: a>c 7 -> refused: id_reused
            v2: a>c 5 -> applied
            v2: a>c 5 -> duplicate
            v2: a>b 5 -> refused: id_reused
            v2: a>c 5 memo -> refused: id_reused
        "#]],
    );
}

#[test]
fn an_answer_does_not_change_when_an_account_is_opened_later() {
    at_the_shop(
        "t1: a>d 1; t2: d>a 1; open wallet d; t1: a>d 1; t2: d>a 1; t3: a>d 1",
        expect![[r#"
        c1: shop>a 5 -> applied
        t1: a>d 1 -> refused: credit_account_not_found
        t2: d>a 1 -> refused: debit_account_not_found
        t1: a>d 1 -> refused: credit_account_not_found
        t2: d>a 1 -> refused: debit_account_not_found
        t3: a>d 1 -> applied
    "#]],
    );
}

#[test]
fn forms_are_refused_each_time_and_leave_the_id_free() {
    at_the_shop(
        "t1: a>c 0; t1: a>c 9223372036854775808; t1: a>a 1; t1: a>x/y 1; t1: a>c 1",
        expect![[r#"
        c1: shop>a 5 -> applied
        t1: a>c 0 -> refused: amount_invalid
        t1: a>c 9223372036854775808 -> refused: amount_invalid
        t1: a>a 1 -> refused: same_account
        t1: a>x/y 1 -> refused: account_id_invalid
        t1: a>c 1 -> applied
    "#]],
    );
}

#[test]
fn a_malformed_account_is_told_before_what_is_unknown() {
    at_the_shop(
        "t1: nobody>x/y 1; t1: x/y>c 1; t1: a>c 1; t1: a>x/y 1",
        expect![[r#"
        c1: shop>a 5 -> applied
        t1: nobody>x/y 1 -> refused: account_id_invalid
        t1: x/y>c 1 -> refused: account_id_invalid
        t1: a>c 1 -> applied
        t1: a>x/y 1 -> refused: account_id_invalid
    "#]],
    );
}

#[test]
fn collectors_are_credit_only_and_assets_do_not_mix() {
    at_the_shop(
        "open wallet e euro; t1: a>c 1; t2: c>a 1; t3: a>e 1; hold h1: c>a 1 for 9; hold h2: a>e 1 for 9",
        expect![[r#"
            c1: shop>a 5 -> applied
            t1: a>c 1 -> applied
            t2: c>a 1 -> refused: collector_credit_only
            t3: a>e 1 -> refused: asset_mismatch
            hold h1: c>a 1 for 9 -> refused: collector_credit_only
            hold h2: a>e 1 for 9 -> refused: asset_mismatch
        "#]],
    );
}

#[test]
fn sources_together_issue_no_more_than_a_balance_can_hold() {
    check(
        "open source s; open source t; open wallet a; t1: s>a max; t2: s>a 1; t3: t>a 1; t4: a>s 1; t5: t>a 1; \
         t6: s>t 1; \
         show s; show t; show a",
        expect![[r#"
            t1: s>a max -> applied
            t2: s>a 1 -> refused: overflow
            t3: t>a 1 -> refused: overflow
            t4: a>s 1 -> applied
            t5: t>a 1 -> applied
            t6: s>t 1 -> refused: overflow
            show s -> balance -9223372036854775806, held 0, credited 1, debited 9223372036854775807
            show t -> balance -1, held 0, credited 0, debited 1
            show a -> balance 9223372036854775807, held 0, credited 9223372036854775808, debited 1
        "#]],
    );
}

#[test]
fn what_a_source_holds_counts_as_issued() {
    check(
        "open source s; open wallet a; hold h1: s>a max for 1000; t1: s>a 1; post h1 5; t2: s>a 1; show s; show a",
        expect![[r#"
            hold h1: s>a max for 1000 -> applied
            t1: s>a 1 -> refused: overflow
            post h1 5 -> applied
            t2: s>a 1 -> applied
            show s -> balance -6, held 0, credited 0, debited 6
            show a -> balance 6, held 0, credited 6, debited 0
        "#]],
    );
}

#[test]
fn money_that_a_source_took_in_can_be_issued_again() {
    check(
        "open source s; open source t; open wallet a; t1: s>t 7; t2: t>a 7; t3: t>a max; t4: s>a max; show s; show t",
        expect![[r#"
            t1: s>t 7 -> applied
            t2: t>a 7 -> applied
            t3: t>a max -> refused: overflow
            t4: s>a max -> refused: overflow
            show s -> balance -7, held 0, credited 0, debited 7
            show t -> balance 0, held 0, credited 7, debited 7
        "#]],
    );
}

#[test]
fn the_clock_may_go_back_and_time_does_not() {
    let mut node = Node::new(0, 1);
    for step in SHOP.split(';').map(str::trim).filter(|step| !step.is_empty()) {
        run(&mut node, step);
    }
    let before = node.ledger.time();
    node.now = 5;
    assert_eq!(run(&mut node, "v1: a>c 1"), "applied");
    assert_eq!(node.ledger.time(), before);
    node.now = u64::MAX;
    assert_eq!(run(&mut node, "v2: a>c 1"), "applied");
    assert_eq!(node.ledger.time().0, crate::ledger::TIME_MS_MAX);
    assert_eq!(run(&mut node, "hold h: a>c 1 for 1000"), "applied");
    node.check();
}

#[test]
#[should_panic(expected = "the prior event is about another id")]
fn a_prior_of_another_id_is_a_bug() {
    let mut node = Node::new(0, 1);
    for step in SHOP.split(';').map(str::trim).filter(|step| !step.is_empty()) {
        run(&mut node, step);
    }
    let prior = node.prior("c1").expect("applied");
    let transfer = Transfer { id: "c2", debit: "a", credit: "c", amount: 1, memo: "", label: Default::default() };
    node.ledger.decide(
        &Command::Transfer { transfer, credit_missing: false, guess: Guess::NONE },
        Some(&prior),
        crate::TimeMs(0),
    );
}

#[test]
fn code_and_user_data_are_content() {
    at_the_shop(
        "t1: a>b 1 code=7 data=order-7; t1: a>b 1 code=7 data=order-7; t1: a>b 1 code=8 data=order-7; t1: a>b 1;
        t2: a>b 9 code=7; t2: a>b 9; t2: a>b 9 code=7",
        expect![[r#"
            c1: shop>a 5 -> applied
            t1: a>b 1 code=7 data=order-7 -> applied
            t1: a>b 1 code=7 data=order-7 -> duplicate
            t1: a>b 1 code=8 data=order-7 -> refused: id_reused
            t1: a>b 1 -> refused: id_reused
            t2: a>b 9 code=7 -> refused: insufficient_funds available=4
            t2: a>b 9 -> refused: id_reused
            t2: a>b 9 code=7 -> refused: insufficient_funds available=4
        "#]],
    );
}
