//! The rules, case by case. One step a `;`:
//!
//! `open wallet a [asset]`, `t1: a>b 5 [memo]`, `hold h1: a>b 5 for 1000`, `post h1 [3]`, `void h1`, `expire h1`,
//! `clock 5000`, `mend 5000` (an operator sets the time), `linked t1: a>b 5 & t2: b>c 5`, `show a`, `rows a`,
//! `set a frozen max=10 plan:gold`, `settings a`, `declare eur 2`, `assets`, `holds a`.

mod accounts;
mod groups;
mod holds;
mod transfers;

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
