//! A shard that has lost the claims of ids on which another one has decided, and nothing that any sum would show.

use std::fs;
use std::path::Path;

use tidegate_client::{Hold, Outcome, Transfer};
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::shard_of;

use crate::losses::{no_backup, refused_until_accepted};
use crate::timeline::{copy, forget_ends};
use crate::votes::{connect, open_show};
use crate::{Server, Settings, audit, folder};

const PAYER: &str = "wallet:dave";
const VOTES: usize = 40;

fn vote(id: &str, amount: u64) -> Transfer<'_> {
    Transfer { id, debit: PAYER, credit: "candidate:1", amount, memo: "", code: 0, user_data: "" }
}

fn ids(name: &str) -> Vec<String> {
    (0..VOTES).map(|number| format!("{name}-{number}")).collect()
}

/// Everything that is beside the log of a ledger shard.
const BESIDE: [&str; 4] = ["journal", "ids", "snapshots", "ends"];

/// Votes and holds of one wallet; then what the other shard has of its log is that of before.
fn put_back(settings: &Settings, before: &Path) {
    let server = Server::start(settings);
    open_show(&mut connect(&server));
    // The candidate has its part on the wallet's shard from here on.
    assert!(connect(&server).transfer(&vote("first", 1)).expect("it is decided").is_done());
    assert!(server.terminate().status.success());
    copy(&settings.data, before);
    let server = Server::start(settings);
    let mut client = connect(&server);
    for id in ids("vote") {
        assert_eq!(client.transfer(&vote(&id, 1)).expect("it is decided"), Outcome::Applied);
    }
    for id in ids("hold") {
        assert_eq!(client.hold(&hold(&id)).expect("it is decided"), Outcome::Applied);
    }
    assert!(server.terminate().status.success());
    let ShardIndex(payer) = shard_of(PAYER, settings.shards);
    for folder in BESIDE {
        let log = format!("{folder}/ledger-{}", 1 - payer);
        let (from, to) = (before.join(&log), settings.data.join(&log));
        if from.is_dir() {
            fs::remove_dir_all(&to).expect("nobody uses it");
            copy(&from, &to);
        }
    }
    forget_ends(&settings.data);
}

fn hold(id: &str) -> Hold<'_> {
    Hold { transfer: vote(id, 1), expires_in_ms: 10_000_000_000 }
}

#[test]
fn a_shard_that_has_lost_claims_of_ids_is_refused_until_they_are_claimed_again() {
    let folder = folder();
    let settings = Settings { shards: 2, workers: 2, snapshot_interval_s: 0, ..Settings::new(folder.path()) };
    put_back(&settings, &folder.path().join("before"));
    let ShardIndex(payer) = shard_of(PAYER, 2);
    let words = format!("records of ledger shard {} are lost: shard {payer} has decided on ", 1 - payer);
    let wrong = audit(&settings.data);
    assert!(wrong.status.code() == Some(2) && wrong.log.contains(&words), "{wrong}");
    no_backup(&settings, &words);
    let accepted = refused_until_accepted(&settings, &[&words]);
    assert!(accepted.log.contains("ids that other shards have decided on are claimed again"), "{accepted}");
    let agreed = audit(&settings.data);
    assert!(agreed.status.success(), "{agreed}");

    let server = Server::start(&settings);
    let mut client = connect(&server);
    for id in ids("vote") {
        assert_eq!(client.read_transfer(&id).expect("its home knows it").amount, 1, "{id}");
        let other = client.transfer(&vote(&id, 2)).expect("it is decided");
        assert!(!other.is_done(), "{id} stands for one content for ever: {other:?}");
        assert_eq!(client.transfer(&vote(&id, 1)).expect("it is decided"), Outcome::Duplicate, "{id}");
    }
    for id in ids("hold") {
        assert_eq!(client.read_hold(&id).expect("its home knows it").remaining, 1, "{id}");
        assert!(client.void(&id).expect("it is decided").is_done(), "{id}");
    }
    let dave = client.account(PAYER).expect("it is there");
    assert_eq!(dave.held, 0);
    assert!(server.terminate().status.success());
    assert!(audit(&settings.data).status.success());
}
