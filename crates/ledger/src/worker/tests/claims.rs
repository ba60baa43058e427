//! The home of ids is put back from an older copy, and has lost claims on which the other shard has decided. No sum
//! between the two shards shows it.

use super::alone::{HERE, THERE, on};
use super::losses::{Files, accept, applied, files, find, put_back, transfer};
use super::*;
use crate::claims::used_twice;

/// Accounts of the shard that decides, and one pair of the home.
fn accounts(shard: ShardIndex) -> (String, String) {
    (on(shard, "source"), on(shard, "wallet"))
}

/// Ids of which the first shard is the home, as its name would have it.
fn id(name: &str) -> String {
    on(HERE, name)
}

/// Transfers and a hold that the second shard decides on ids of the first one: before the copy, and after it.
fn story() -> (Files, Files) {
    let (source, wallet) = accounts(THERE);
    let mut node = TestWorker::open(2);
    for shard in [HERE, THERE] {
        let (source, wallet) = accounts(shard);
        node.ask(open(&source, AccountKind::Source));
        node.ask(open(&wallet, AccountKind::Wallet));
    }
    applied(&mut node, transfer(&id("before"), &source, &wallet));
    node.begin(Vec::new(), &mut Finished::new());
    let then = files(&node.disk);
    applied(&mut node, transfer(&id("after"), &source, &wallet));
    let hold = HoldRequest {
        debit: source.as_str().into(),
        credit: wallet.as_str().into(),
        amount: 2,
        expires_in_ms: 1_000_000,
        ..small_hold(&id("held"))
    };
    applied(&mut node, Request::PlaceHolds(vec![hold]));
    // It needs no claim: its home decides.
    let (source, wallet) = accounts(HERE);
    applied(&mut node, transfer(&id("own"), &source, &wallet));
    node.begin(Vec::new(), &mut Finished::new());
    (then, files(&node.disk))
}

#[test]
fn claims_that_are_lost_are_found_and_made_again() {
    let (then, now) = story();
    assert!(find(&put_back(HERE, &now, &now)).claims.is_empty(), "nothing is lost");
    let disk = put_back(HERE, &then, &now);
    let found = find(&disk);
    let ids: Vec<&str> = found.claims.iter().map(|claim| &*claim.id).collect();
    assert_eq!(ids, [id("after"), id("held")]);
    assert!(
        matches!(&found.proofs[..], [(0, words)] if words.contains("shard 1 has decided on 2 of its ids")),
        "{found:?}"
    );
    let (settled, said) = accept(&disk);
    assert_eq!((settled.claimed, settled.booked), (2, 0), "{said:?}");
    assert!(find(&disk).claims.is_empty() && find(&disk).proofs.is_empty());

    let mut node = TestWorker::over(disk, 2);
    let (source, wallet) = accounts(THERE);
    let again = node.ask(transfer(&id("after"), &source, &wallet));
    assert_eq!(again, Reply::Outcomes(vec![Outcome::Duplicate]));
    let (source, wallet) = accounts(HERE);
    let other = node.ask(transfer(&id("after"), &source, &wallet));
    assert_eq!(other, Reply::Outcomes(vec![Outcome::Refused(Refusal::IdReused)]));
    assert_eq!(node.ask(Request::VoidHolds(vec![id("held").into()])), Reply::Outcomes(vec![Outcome::Applied]));
}

#[test]
fn an_id_that_was_used_again_is_named_and_left_alone() {
    let (then, now) = story();
    let mut node = TestWorker::over(put_back(HERE, &then, &now), 2);
    let (source, wallet) = accounts(HERE);
    applied(&mut node, transfer(&id("after"), &source, &wallet));
    node.begin(Vec::new(), &mut Finished::new());
    let found = find(&node.disk);
    let used: Vec<(&str, bool)> = found.claims.iter().map(|claim| (&*claim.id, claim.is_used_again)).collect();
    assert_eq!(used, [(&*id("after"), true), (&*id("held"), false)]);
    let words = used_twice(&found.claims);
    assert!(
        words.len() == 1 && words[0].contains(&id("after")) && words[0].contains("stands for something else"),
        "{words:?}"
    );
    let (settled, _) = accept(&node.disk);
    assert_eq!(settled.claimed, 1);
    assert!(find(&node.disk).proofs.is_empty(), "nothing more can be done");
}
