//! Holds, case by case.

use super::*;

#[test]
fn a_hold_reserves_then_posts_part_and_releases_the_rest() {
    at_the_shop(
        "hold h1: a>c 4 for 1000; show a; v1: a>c 2; post h1 3; show a; show c; v2: a>c 2; rows a; rows c",
        expect![[r#"
            c1: shop>a 5 -> applied
            hold h1: a>c 4 for 1000 -> applied
            show a -> balance 5, held 4, credited 5, debited 0
            v1: a>c 2 -> refused: insufficient_funds available=1
            post h1 3 -> applied
            show a -> balance 2, held 0, credited 5, debited 3
            show c -> balance 3, held 0, credited 3, debited 0
            v2: a>c 2 -> applied
            rows a -> 
              Transfer v2: a>c 2 "" = 0
              Post h1: a>c 3 "" = 2
              Hold h1: a>c 4 "" = 5
              Transfer c1: shop>a 5 "" = 5
            rows c -> 
              Transfer v2: a>c 2 "" = 5
              Post h1: a>c 3 "" = 3
        "#]],
    );
}

#[test]
fn a_hold_is_voided() {
    at_the_shop(
        "hold h1: a>c 4 for 1000; void h1; show a; void h1; post h1; hold h1: a>c 4 for 1000; rows a",
        expect![[r#"
            c1: shop>a 5 -> applied
            hold h1: a>c 4 for 1000 -> applied
            void h1 -> applied
            show a -> balance 5, held 0, credited 5, debited 0
            void h1 -> duplicate
            post h1 -> refused: hold_voided
            hold h1: a>c 4 for 1000 -> duplicate
            rows a -> 
              Void h1: a>c 4 "" = 5
              Hold h1: a>c 4 "" = 5
              Transfer c1: shop>a 5 "" = 5
        "#]],
    );
}

#[test]
fn a_hold_expires_by_the_tick() {
    at_the_shop(
        "hold h1: a>c 4 for 1000; expire h1; clock 1001000; expire h1; show a; expire h1; post h1; void h1; rows a",
        expect![[r#"
            c1: shop>a 5 -> applied
            hold h1: a>c 4 for 1000 -> applied
            expire h1 -> AppliedBefore
            expire h1 -> applied
            show a -> balance 5, held 0, credited 5, debited 0
            expire h1 -> AppliedBefore
            post h1 -> refused: hold_expired
            void h1 -> refused: hold_expired
            rows a -> 
              Expire h1: a>c 4 "" = 5
              Hold h1: a>c 4 "" = 5
              Transfer c1: shop>a 5 "" = 5
        "#]],
    );
}

#[test]
fn a_post_after_expiry_is_refused_before_the_tick_ran_and_stays_so() {
    at_the_shop(
        "hold h1: a>c 4 for 1000; clock 1000999; post h1 5; clock 1001000; post h1 5; clock 1; post h1; show a",
        expect![[r#"
            c1: shop>a 5 -> applied
            hold h1: a>c 4 for 1000 -> applied
            post h1 5 -> refused: post_exceeds_hold
            post h1 5 -> refused: hold_expired
            post h1 -> refused: hold_expired
            show a -> balance 5, held 0, credited 5, debited 0
        "#]],
    );
    at_the_shop(
        "hold h1: a>c 4 for 1000; clock 1001000; void h1; clock 1; void h1; show a",
        expect![[r#"
        c1: shop>a 5 -> applied
        hold h1: a>c 4 for 1000 -> applied
        void h1 -> refused: hold_expired
        void h1 -> refused: hold_expired
        show a -> balance 5, held 0, credited 5, debited 0
    "#]],
    );
}

#[test]
fn posts_and_placements_are_repeated_safely() {
    at_the_shop(
        "hold h1: a>c 4 for 1000; hold h1: a>c 4 for 1000; hold h1: a>c 4 for 1001; post h1 3; post h1 3; post h1; \
         post h1 4; \
         void h1; hold h1: a>c 4 for 1000; hold h1: a>b 4 for 1000",
        expect![[r#"
            c1: shop>a 5 -> applied
            hold h1: a>c 4 for 1000 -> applied
            hold h1: a>c 4 for 1000 -> duplicate
            hold h1: a>c 4 for 1001 -> refused: id_reused
            post h1 3 -> applied
            post h1 3 -> duplicate
            post h1 -> refused: hold_posted
            post h1 4 -> refused: hold_posted
            void h1 -> refused: hold_posted
            hold h1: a>c 4 for 1000 -> duplicate
            hold h1: a>b 4 for 1000 -> refused: id_reused
        "#]],
    );
}

#[test]
fn posting_all_is_the_same_as_posting_the_amount() {
    at_the_shop(
        "hold h1: a>c 4 for 1000; post h1; post h1; post h1 4; post h1 3",
        expect![[r#"
        c1: shop>a 5 -> applied
        hold h1: a>c 4 for 1000 -> applied
        post h1 -> applied
        post h1 -> duplicate
        post h1 4 -> duplicate
        post h1 3 -> refused: hold_posted
    "#]],
    );
}

#[test]
fn transfers_and_holds_share_their_ids() {
    at_the_shop(
        "hold x: a>c 1 for 1000; x: a>c 1; y: a>c 1; hold y: a>c 1 for 1000; post y; void y; post z; z: a>c 1; \
         z: a>c 1; \
         hold r: a>c 99 for 1000; r: a>c 99; post r; hold r: a>c 99 for 1000",
        expect![[r#"
            c1: shop>a 5 -> applied
            hold x: a>c 1 for 1000 -> applied
            x: a>c 1 -> refused: id_reused
            y: a>c 1 -> applied
            hold y: a>c 1 for 1000 -> refused: id_reused
            post y -> refused: hold_not_found
            void y -> refused: hold_not_found
            post z -> refused: hold_not_found
            z: a>c 1 -> applied
            z: a>c 1 -> duplicate
            hold r: a>c 99 for 1000 -> refused: insufficient_funds available=2
            r: a>c 99 -> refused: id_reused
            post r -> refused: hold_not_found
            hold r: a>c 99 for 1000 -> refused: insufficient_funds available=2
        "#]],
    );
}

#[test]
fn holds_have_their_form() {
    at_the_shop(
        "hold h: a>c 1 for 0; hold h: a>c 1 for 3155760000001; hold h: a>c 0 for 1; hold h: a>a 1 for 1; \
         hold h: a>c 5 for 1000; \
         post h 0; post h 6; post h max; hold i: a>c 1 for 1000",
        expect![[r#"
            c1: shop>a 5 -> applied
            hold h: a>c 1 for 0 -> refused: expiry_invalid
            hold h: a>c 1 for 3155760000001 -> refused: expiry_invalid
            hold h: a>c 0 for 1 -> refused: amount_invalid
            hold h: a>a 1 for 1 -> refused: same_account
            hold h: a>c 5 for 1000 -> applied
            post h 0 -> refused: amount_invalid
            post h 6 -> refused: post_exceeds_hold
            post h max -> refused: post_exceeds_hold
            hold i: a>c 1 for 1000 -> refused: insufficient_funds available=0
        "#]],
    );
}

#[test]
fn holds_that_expire_together_go_in_the_order_of_their_placement() {
    let mut node = Node::new(0, 1);
    for step in format!("{SHOP} hold h2: a>c 1 for 50; hold h1: a>c 1 for 50; hold h3: a>c 1 for 49").split(';') {
        run(&mut node, step.trim());
    }
    node.now += 50;
    let mut order = Vec::new();
    while let Some(id) = node.expired_hold() {
        assert_eq!(node.outcome(Command::ExpireHold { id: &id }), Outcome::Applied);
        order.push(id);
    }
    assert_eq!(order, ["h3", "h2", "h1"]);
    assert_eq!((node.ledger.open_holds(), node.ledger.next_expiry()), (0, None));
}

#[test]
fn a_hold_on_a_frozen_credit_account_waits() {
    at_the_shop(
        "hold h1: a>b 2 for 100; set b frozen; post h1; set b debits_frozen; post h1; show b",
        expect![[r#"
            c1: shop>a 5 -> applied
            hold h1: a>b 2 for 100 -> applied
            set b frozen -> applied
            post h1 -> refused: credit_account_frozen
            set b debits_frozen -> applied
            post h1 -> applied
            show b -> balance 2, held 0, credited 2, debited 0
        "#]],
    );
}

#[test]
fn holds_keep_what_is_left_to_them_when_the_time_is_mended() {
    // A minute was left to h1 and ten seconds to h2 when the time was set ten years back; h3 was due already.
    at_the_shop(
        "clock 400000000000; hold h3: a>b 1 for 1000; clock 400000060000; hold h1: a>b 1 for 60000;
         hold h2: a>b 1 for 10000; mend 5000000; clock 5000000; expire h3; post h2; clock 5059999; post h1; show a",
        expect![[r#"
            c1: shop>a 5 -> applied
            hold h3: a>b 1 for 1000 -> applied
            hold h1: a>b 1 for 60000 -> applied
            hold h2: a>b 1 for 10000 -> applied
            expire h3 -> applied
            post h2 -> applied
            post h1 -> applied
            show a -> balance 3, held 0, credited 5, debited 2
        "#]],
    );
    at_the_shop(
        "hold h1: a>b 1 for 60000; mend 400000000000; clock 400000059999; post h1; hold h2: a>b 1 for 10000;
         clock 400000069999; post h2",
        expect![[r#"
            c1: shop>a 5 -> applied
            hold h1: a>b 1 for 60000 -> applied
            post h1 -> applied
            hold h2: a>b 1 for 10000 -> applied
            post h2 -> refused: hold_expired
        "#]],
    );
}
