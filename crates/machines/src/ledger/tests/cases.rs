//! The rules, case by case. One step a `;`:
//!
//! `open wallet a [asset]`, `t1: a>b 5 [memo]`, `hold h1: a>b 5 for 1000`, `post h1 [3]`, `void h1`, `expire h1`,
//! `clock 5000`, `mend 5000` (an operator sets the time), `linked t1: a>b 5 & t2: b>c 5`, `show a`, `rows a`,
//! `set a frozen max=10 plan:gold`, `settings a`, `declare eur 2`, `assets`, `holds a`.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};

use super::node::Node;
use crate::ledger::{
    AccountChange, AccountKind, AccountOrder, AccountStatus, AssetView, Command, Content, Guess, Hold, HoldView, Label,
    MetadataPatch, Outcome, Refusal, Ruling, Transfer,
};
use crate::{Machine, RecordPosition};

fn check(script: &str, expected: Expect) {
    let mut node = Node::new(0, 1);
    let mut out = String::new();
    for step in script.split(';').map(str::trim).filter(|step| !step.is_empty()) {
        let said = run(&mut node, step);
        if !said.is_empty() {
            out += &format!("{step} -> {said}\n");
        }
    }
    node.check();
    expected.assert_eq(&out);
}

fn run(node: &mut Node, step: &str) -> String {
    let words: Vec<&str> = step.split_whitespace().collect();
    let mut patch = Vec::new();
    let command = match words[..] {
        ["open", kind, id] => open(kind, id, "credit"),
        ["open", kind, id, asset] => open(kind, id, asset),
        ["post", id] => Command::PostHold { id, amount: None },
        ["post", id, amount] => Command::PostHold { id, amount: Some(number(amount)) },
        ["void", id] => Command::VoidHold { id },
        ["expire", id] => Command::ExpireHold { id },
        ["hold", id, accounts, amount, "for", ms] => {
            let hold = hold(&[id, accounts, amount], ms);
            Command::PlaceHold { hold, credit_missing: false, open_holds_max: u32::MAX }
        }
        ["declare", asset, decimals] => Command::DeclareAsset { asset, decimals: number(decimals) as u8 },
        ["set", id, ref words @ ..] => match change(words, &mut patch) {
            Ok(change) => Command::ChangeAccount { id, change, is_settled: false },
            Err(refusal) => return word(Outcome::Refused(refusal)),
        },
        ["settings", id] => return settings(node, id),
        ["assets"] => return assets(node),
        ["holds", id] => return holds(node, id),
        ["clock", ms] => {
            node.now = number(ms);
            return String::new();
        }
        ["mend", ms] => {
            node.mend_time(number(ms));
            return String::new();
        }
        ["show", id] => return show(node, id),
        ["rows", id] => return rows(node, id),
        ["linked", ..] => {
            let words: Vec<Vec<&str>> =
                step["linked".len()..].split('&').map(|part| part.split_whitespace().collect()).collect();
            let items: Vec<Content<'_>> = words.iter().map(|words| item(words)).collect();
            let outcomes: Vec<_> = node.linked(&items).into_iter().map(word).collect();
            // One a line, if a line would be too long.
            return outcomes.join(if outcomes.concat().len() > 60 { ",\n    " } else { ", " });
        }
        _ => Command::Transfer { transfer: transfer(&words), credit_missing: false, guess: Guess::NONE },
    };
    match node.ask(command) {
        Ruling::Outcome(Outcome::Applied) if matches!(command, Command::OpenAccount { .. }) => String::new(),
        Ruling::Outcome(outcome) => word(outcome),
        other => format!("{other:?}"),
    }
}

fn open<'a>(kind: &str, id: &'a str, asset: &'a str) -> Command<'a> {
    let kind = match kind {
        "wallet" => AccountKind::Wallet,
        "source" => AccountKind::Source,
        "collector" => AccountKind::Collector,
        other => panic!("no kind {other}"),
    };
    Command::OpenAccount { id, asset, kind }
}

fn transfer<'a>(words: &[&'a str]) -> Transfer<'a> {
    let (debit, credit) = words[1].split_once('>').expect("debit>credit");
    let id = words[0].strip_suffix(':').expect("id:");
    let mut transfer = Transfer { id, debit, credit, amount: number(words[2]), memo: "", label: Label::NONE };
    for word in &words[3..] {
        match word.split_once('=') {
            Some(("code", code)) => transfer.label.code = number(code) as u32,
            Some(("data", data)) => transfer.label.user_data = data,
            _ => transfer.memo = word,
        }
    }
    transfer
}

fn item<'a>(words: &[&'a str]) -> Content<'a> {
    match words[..] {
        ["hold", id, accounts, amount, "for", ms] => Content::Hold(hold(&[id, accounts, amount], ms)),
        _ => Content::Transfer(transfer(words)),
    }
}

fn hold<'a>(words: &[&'a str], ms: &str) -> Hold<'a> {
    let Transfer { id, debit, credit, amount, memo, label } = transfer(words);
    Hold { id, debit, credit, amount, expires_in_ms: number(ms), memo, label }
}

/// `open`, `frozen` …, `min=5`, `max=none`, `rev=3`, `key:value`, `key:` (removed).
fn change<'a>(words: &[&str], patch: &'a mut Vec<u8>) -> Result<AccountChange<'a>, Refusal> {
    let limit = |word: &str| (word != "none").then(|| word.parse().expect("a number"));
    let (mut change, mut metadata) = (AccountChange::default(), BTreeMap::new());
    for word in words {
        match (*word, word.split_once('='), word.split_once(':')) {
            ("open", ..) => change.status = Some(AccountStatus::Open),
            ("debits_frozen", ..) => change.status = Some(AccountStatus::DebitsFrozen),
            ("frozen", ..) => change.status = Some(AccountStatus::Frozen),
            ("closed", ..) => change.status = Some(AccountStatus::Closed),
            (_, Some(("min", min)), _) => change.balance_min = Some(limit(min)),
            (_, Some(("max", max)), _) => change.balance_max = Some(limit(max)),
            (_, Some(("rev", revision)), _) => change.if_revision = Some(number(revision)),
            (_, _, Some((key, value))) => {
                metadata.insert(key.into(), (!value.is_empty()).then(|| value.into()));
            }
            _ => panic!("no change {word}"),
        }
    }
    change.metadata = MetadataPatch::write(&metadata, patch)?;
    Ok(change)
}

fn number(word: &str) -> u64 {
    if word == "max" { i64::MAX as u64 } else { word.parse().expect("a number") }
}

fn word(outcome: Outcome) -> String {
    match outcome.as_if_new() {
        Outcome::Applied => "applied".into(),
        Outcome::Duplicate => "duplicate".into(),
        Outcome::Refused(Refusal::InsufficientFunds { available }) => {
            format!("refused: insufficient_funds available={available}")
        }
        Outcome::Refused(Refusal::RevisionStale { revision }) => format!("refused: revision_stale revision={revision}"),
        Outcome::Refused(refusal) => format!("refused: {}", refusal.code()),
        Outcome::RefusedBefore { .. } => unreachable!("taken as if new"),
    }
}

fn settings(node: &Node, id: &str) -> String {
    let Some(settings) = node.ledger.account(id).expect("an account").settings else { return "none".into() };
    let limit = |limit: Option<i64>| limit.map_or("none".into(), |limit| limit.to_string());
    let (status, min, max) = (settings.status, limit(settings.balance_min), limit(settings.balance_max));
    format!("{status:?} min={min} max={max} rev={} {:?}", settings.revision, settings.metadata)
}

fn assets(node: &Node) -> String {
    let asset = |asset: AssetView| {
        format!("\n  {} {:?} issued {} held {}", asset.name, asset.decimals, asset.issued, asset.held)
    };
    node.ledger.assets().into_iter().map(asset).collect()
}

fn holds(node: &Node, id: &str) -> String {
    let hold =
        |hold: HoldView| format!("\n  {} {}>{} {} {:?}", hold.id, hold.debit, hold.credit, hold.amount, hold.state);
    node.ledger.holds_of(id, RecordPosition::NONE).expect("an account").map(hold).collect()
}

fn show(node: &Node, id: &str) -> String {
    let account = node.ledger.account(id).expect("an account");
    let (balance, held) = (account.balance, account.held);
    format!("balance {balance}, held {held}, credited {}, debited {}", account.credited, account.debited)
}

fn rows(node: &Node, id: &str) -> String {
    let row = |row: crate::ledger::HistoryRow| {
        let (id, debit, credit, amount) = (row.id, row.debit, row.credit, row.amount);
        format!("\n  {:?} {id}: {debit}>{credit} {amount} {:?} = {}", row.kind, row.memo, row.balance_after)
    };
    node.history(id).into_iter().map(row).collect()
}

const SHOP: &str = "open source shop; open wallet a; open wallet b; open collector c; c1: shop>a 5;";

fn at_the_shop(script: &str, expected: Expect) {
    check(&format!("{SHOP}{script}"), expected);
}

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
