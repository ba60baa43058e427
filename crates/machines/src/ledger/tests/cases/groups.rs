//! Linked groups, case by case.

use super::*;

#[test]
fn a_linked_group_is_all_or_nothing() {
    at_the_shop(
        "linked t1: a>b 5 & t2: b>c 4 & t3: b>c 1; show a; show b; show c",
        expect![[r#"
        c1: shop>a 5 -> applied
        linked t1: a>b 5 & t2: b>c 4 & t3: b>c 1 -> applied, applied, applied
        show a -> balance 0, held 0, credited 5, debited 5
        show b -> balance 0, held 0, credited 5, debited 5
        show c -> balance 5, held 0, credited 5, debited 0
    "#]],
    );
    at_the_shop(
        "linked t: a>b 5 & u: b>c 4 & v: b>c 2; show a; show b; t: a>b 5; v: b>c 2; t: a>b 1",
        expect![[r#"
            c1: shop>a 5 -> applied
            linked t: a>b 5 & u: b>c 4 & v: b>c 2 -> refused: linked_failed,
                refused: linked_failed,
                refused: insufficient_funds available=1
            show a -> balance 5, held 0, credited 5, debited 0
            show b -> balance 0, held 0, credited 0, debited 0
            t: a>b 5 -> refused: linked_failed
            v: b>c 2 -> refused: insufficient_funds available=1
            t: a>b 1 -> refused: id_reused
        "#]],
    );
}

#[test]
fn a_member_with_a_wrong_form_fails_the_group_and_keeps_its_id_free() {
    at_the_shop(
        "linked t1: a>b 1 & t2: a>b 0; t1: a>b 1; t2: a>b 1",
        expect![[r#"
        c1: shop>a 5 -> applied
        linked t1: a>b 1 & t2: a>b 0 -> refused: linked_failed, refused: amount_invalid
        t1: a>b 1 -> refused: linked_failed
        t2: a>b 1 -> applied
    "#]],
    );
}

#[test]
fn a_linked_group_keeps_the_issuance_cap() {
    check(
        "open source s; open source t; open wallet a; linked x: s>a max & y: t>a 1; \
         linked v: s>a max & w: a>t max & z: t>a max",
        expect![[r#"
            linked x: s>a max & y: t>a 1 -> refused: linked_failed, refused: overflow
            linked v: s>a max & w: a>t max & z: t>a max -> applied, applied, applied
        "#]],
    );
}

#[test]
fn a_linked_group_may_hold() {
    at_the_shop(
        "linked hold h1: a>b 3 for 100 & t1: a>c 2; linked hold h2: a>b 1 for 100 & t2: shop>a 1; show a; holds a;
        linked t3: shop>a 2 & hold h3: a>b 2 for 100; h3: a>b 2; holds a; set a max=4;
        linked t4: a>b 1 & t5: shop>a 1; linked t6: a>b 1 & t7: shop>a 2; post h1; holds a; show a",
        expect![[r#"
            c1: shop>a 5 -> applied
            linked hold h1: a>b 3 for 100 & t1: a>c 2 -> applied, applied
            linked hold h2: a>b 1 for 100 & t2: shop>a 1 -> refused: insufficient_funds available=0,
                refused: linked_failed
            show a -> balance 3, held 3, credited 5, debited 2
            holds a -> 
              h1 a>b 3 Open { expires_at_ms: 1000100 }
            linked t3: shop>a 2 & hold h3: a>b 2 for 100 -> applied, applied
            h3: a>b 2 -> refused: id_reused
            holds a -> 
              h1 a>b 3 Open { expires_at_ms: 1000100 }
              h3 a>b 2 Open { expires_at_ms: 1000100 }
            set a max=4 -> applied
            linked t4: a>b 1 & t5: shop>a 1 -> refused: insufficient_funds available=0,
                refused: linked_failed
            linked t6: a>b 1 & t7: shop>a 2 -> refused: insufficient_funds available=0,
                refused: linked_failed
            post h1 -> applied
            holds a -> 
              h3 a>b 2 Open { expires_at_ms: 1000100 }
            show a -> balance 2, held 2, credited 7, debited 5
        "#]],
    );
}
