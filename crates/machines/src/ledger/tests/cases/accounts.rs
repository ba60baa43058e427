//! Accounts and assets, case by case.

use super::*;

#[test]
fn accounts_are_opened_once() {
    at_the_shop(
        "open wallet a; open source a; open wallet a euro; open wallet x/y",
        expect![[r#"
        c1: shop>a 5 -> applied
        open wallet a -> duplicate
        open source a -> refused: account_exists
        open wallet a euro -> refused: account_exists
        open wallet x/y -> refused: account_id_invalid
    "#]],
    );
}

#[test]
fn accounts_are_listed_in_byte_order() {
    let mut node = Node::new(0, 1);
    for id in ["b", "a:2", "a:10", "a", "ä", "a:1"] {
        node.outcome(Command::OpenAccount { id, asset: "credit", kind: AccountKind::Wallet });
    }
    let mut order = AccountOrder::default();
    order.catch_up(&node.ledger, u32::MAX);
    let list = |prefix, after, limit| -> Vec<String> {
        order.list(&node.ledger, prefix, after, limit).into_iter().map(|account| account.id.into()).collect()
    };
    assert_eq!(list("", None, 9), ["a", "a:1", "a:10", "a:2", "b", "ä"]);
    assert_eq!(list("a:", None, 2), ["a:1", "a:10"]);
    assert_eq!(list("a:", Some("a:10"), 9), ["a:2"]);
    assert_eq!(list("a:", Some("a"), 1), ["a:1"]);
    assert_eq!(list("a:", Some("zzz"), 9), [""; 0]);
    assert_eq!(list("x", None, 9), [""; 0]);
}

#[test]
fn nothing_leaves_or_enters_what_is_frozen() {
    at_the_shop(
        "hold h1: a>b 1 for 100; hold h2: a>b 1 for 100; hold h3: b>a 0 for 100;
        set a debits_frozen; t1: a>b 1; t1: a>b 1; t2: shop>a 1; post h1; hold h4: a>b 1 for 100;
        set a frozen; t3: shop>a 1; hold h5: shop>a 1 for 100; void h1; clock 2000000; expire h2; show a;
        set a open; t1: a>b 1; t4: a>b 1; settings a",
        expect![[r#"
            c1: shop>a 5 -> applied
            hold h1: a>b 1 for 100 -> applied
            hold h2: a>b 1 for 100 -> applied
            hold h3: b>a 0 for 100 -> refused: amount_invalid
            set a debits_frozen -> applied
            t1: a>b 1 -> refused: debit_account_frozen
            t1: a>b 1 -> refused: debit_account_frozen
            t2: shop>a 1 -> applied
            post h1 -> refused: debit_account_frozen
            hold h4: a>b 1 for 100 -> refused: debit_account_frozen
            set a frozen -> applied
            t3: shop>a 1 -> refused: credit_account_frozen
            hold h5: shop>a 1 for 100 -> refused: credit_account_frozen
            void h1 -> applied
            expire h2 -> applied
            show a -> balance 6, held 0, credited 6, debited 0
            set a open -> applied
            t1: a>b 1 -> refused: debit_account_frozen
            t4: a>b 1 -> applied
            settings a -> Open min=none max=none rev=3 {}
        "#]],
    );
}

#[test]
fn only_an_empty_account_is_closed_and_it_can_be_opened_again() {
    at_the_shop(
        "set a closed; hold h1: a>b 5 for 100; set b closed; t1: a>b 1; post h1; void h1; t2: a>shop 5; set a closed;
        t3: shop>a 1; t4: a>b 1; set c closed; set a frozen; set a open; t5: shop>a 1;
        t3: shop>a 1; settings a; settings shop",
        expect![[r#"
            c1: shop>a 5 -> applied
            set a closed -> refused: account_not_empty
            hold h1: a>b 5 for 100 -> applied
            set b closed -> applied
            t1: a>b 1 -> refused: credit_account_closed
            post h1 -> refused: credit_account_closed
            void h1 -> applied
            t2: a>shop 5 -> applied
            set a closed -> applied
            t3: shop>a 1 -> refused: credit_account_closed
            t4: a>b 1 -> refused: debit_account_closed
            set c closed -> refused: setting_not_allowed
            set a frozen -> refused: setting_not_allowed
            set a open -> applied
            t5: shop>a 1 -> applied
            t3: shop>a 1 -> refused: credit_account_closed
            settings a -> Open min=none max=none rev=2 {}
            settings shop -> none
        "#]],
    );
}

#[test]
fn a_balance_stays_within_its_limits() {
    at_the_shop(
        "set a max=6 min=2; t1: shop>a 2; t2: shop>a 1; t3: a>b 5; hold h1: a>b 4 for 100; t4: a>b 1; post h1;
        set a max=none min=none; t5: a>b 2; set shop min=-7; t6: shop>a 2; t7: shop>a 1; hold h2: shop>a 1 for 100;
        set a min=-1; set a min=5 max=4; set c max=9; set b max=6; hold h3: shop>b 1 for 100; settings b;
        set shop min=-100; hold h4: shop>b 1 for 100; post h4; hold h5: shop>b 1 for 100",
        expect![[r#"
            c1: shop>a 5 -> applied
            set a max=6 min=2 -> applied
            t1: shop>a 2 -> refused: balance_above_max
            t2: shop>a 1 -> applied
            t3: a>b 5 -> refused: balance_below_min
            hold h1: a>b 4 for 100 -> applied
            t4: a>b 1 -> refused: balance_below_min
            post h1 -> applied
            set a max=none min=none -> applied
            t5: a>b 2 -> applied
            set shop min=-7 -> applied
            t6: shop>a 2 -> refused: balance_below_min
            t7: shop>a 1 -> applied
            hold h2: shop>a 1 for 100 -> refused: balance_below_min
            set a min=-1 -> refused: limits_invalid
            set a min=5 max=4 -> refused: limits_invalid
            set c max=9 -> refused: setting_not_allowed
            set b max=6 -> applied
            hold h3: shop>b 1 for 100 -> refused: balance_below_min
            settings b -> Open min=none max=6 rev=1 {}
            set shop min=-100 -> applied
            hold h4: shop>b 1 for 100 -> refused: balance_above_max
            post h4 -> refused: hold_not_found
            hold h5: shop>b 1 for 100 -> refused: balance_above_max
        "#]],
    );
}

#[test]
fn a_change_has_a_revision_and_says_when_nothing_is_new() {
    at_the_shop(
        "settings a; set a plan:gold seat:4; set a plan:gold; set a seat: rev=1; set a plan:iron rev=1; settings a;
        set nobody open; set a/b open; set a rev=0 frozen; set a k1:1 k2:1 k3:1 k4:1 k5:1 k6:1 k7:1 k8:1;
        set a l1:1 l2:1 l3:1 l4:1 l5:1 l6:1 l7:1; set a m1:1; set a plan: m1:1;
        set a k5: k6: k7: k8: l1: l2: l3: l4: l5: l6: l7:; settings a",
        expect![[r#"
            c1: shop>a 5 -> applied
            settings a -> none
            set a plan:gold seat:4 -> applied
            set a plan:gold -> duplicate
            set a seat: rev=1 -> applied
            set a plan:iron rev=1 -> refused: revision_stale revision=2
            settings a -> Open min=none max=none rev=2 {"plan": "gold"}
            set nobody open -> refused: account_not_found
            set a/b open -> refused: account_id_invalid
            set a rev=0 frozen -> refused: revision_stale revision=2
            set a k1:1 k2:1 k3:1 k4:1 k5:1 k6:1 k7:1 k8:1 -> applied
            set a l1:1 l2:1 l3:1 l4:1 l5:1 l6:1 l7:1 -> applied
            set a m1:1 -> refused: metadata_invalid
            set a plan: m1:1 -> applied
            set a k5: k6: k7: k8: l1: l2: l3: l4: l5: l6: l7: -> applied
            settings a -> Open min=none max=none rev=6 {"k1": "1", "k2": "1", "k3": "1", "k4": "1", "m1": "1"}
        "#]],
    );
}

#[test]
fn an_asset_is_declared_once() {
    at_the_shop(
        "assets; declare eur 2; declare eur 2; declare eur 3; declare eur 19; declare credit 0; open source mint eur;
        open wallet e eur; t1: mint>e 500; hold h1: e>mint 200 for 100; assets; t2: e>mint 100; post h1 50; assets",
        expect![[r#"
            c1: shop>a 5 -> applied
            assets -> 
              credit None issued 5 held 0
            declare eur 2 -> applied
            declare eur 2 -> duplicate
            declare eur 3 -> refused: asset_exists
            declare eur 19 -> refused: decimals_invalid
            declare credit 0 -> applied
            t1: mint>e 500 -> applied
            hold h1: e>mint 200 for 100 -> applied
            assets -> 
              credit Some(0) issued 5 held 0
              eur Some(2) issued 500 held 200
            t2: e>mint 100 -> applied
            post h1 50 -> applied
            assets -> 
              credit Some(0) issued 5 held 0
              eur Some(2) issued 350 held 0
        "#]],
    );
}
