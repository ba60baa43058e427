//! Snapshots: reading gives the same state, and damage is found.

use proptest::prelude::*;
use proptest::sample::Index;

use super::cluster::Cluster;
use super::node::Node;
use crate::ledger::{
    AccountChange, AccountKind, AccountStatus, Command, Guess, Hold, Ledger, MetadataPatch, Mismatch, Outcome,
    SnapshotError, Transfer, shard_of,
};
use crate::machine::tests::{place, read_changed, read_forged, restore, snapshot};
use crate::{Machine, OutboundNumber, ShardIndex};

/// Three shards with all kinds of state: two assets, holds, credits pending and confirmed.
pub fn cluster() -> Cluster {
    let mut cluster = Cluster::new(3);
    for (id, kind) in [("shop", AccountKind::Source), ("c", AccountKind::Collector)] {
        cluster.open(id, "credit", kind);
    }
    let wallets: Vec<String> = (0..12).map(|n| format!("w{n}")).collect();
    for wallet in &wallets {
        cluster.open(wallet, "credit", AccountKind::Wallet);
    }
    cluster.open("mint", "euro", AccountKind::Source);
    for (n, wallet) in wallets.iter().enumerate() {
        let id = format!("fund {n}");
        cluster.transfer(Transfer {
            id: &id,
            debit: "shop",
            credit: wallet,
            amount: 100,
            memo: "",
            label: Default::default(),
        });
    }
    for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        cluster.deliver(from, to, 0, 100);
        cluster.confirm(from, to);
    }
    for (n, wallet) in wallets.iter().enumerate() {
        let (id, credit) = (format!("hold {n}"), wallets[(n + 1) % 12].as_str());
        cluster.place(Hold {
            id: &id,
            debit: wallet,
            credit,
            amount: 7,
            expires_in_ms: 100 - n as u64,
            memo: "m",
            label: Default::default(),
        });
        let id = format!("move {n}");
        cluster.transfer(Transfer { id: &id, debit: wallet, credit, amount: 3, memo: "", label: Default::default() });
        let id = format!("vote {n}");
        cluster.transfer(Transfer {
            id: &id,
            debit: wallet,
            credit: "c",
            amount: 1,
            memo: "",
            label: Default::default(),
        });
    }
    let (mut patch, metadata) = (Vec::new(), [("plan".into(), Some("gold".into()))].into());
    let metadata = MetadataPatch::write(&metadata, &mut patch).expect("a patch");
    let (status, balance_max) = (Some(AccountStatus::Frozen), Some(Some(1_000)));
    let change = AccountChange { status, balance_max, metadata, ..AccountChange::default() };
    assert_eq!(cluster.change("w3", change), Outcome::Applied);
    let home = cluster.home("euro");
    cluster.nodes[home].ask(Command::DeclareAsset { asset: "euro", decimals: 2 });
    cluster
}

#[test]
fn a_snapshot_comes_back_the_same() {
    for node in cluster().nodes {
        node.check();
        let restored: Ledger = restore(&snapshot(&node.ledger));
        assert_eq!(restored.totals(), node.ledger.totals());
        assert!(restored.figures(0, 99).eq(node.ledger.figures(0, 99)));
        assert_eq!(restored.next_expiry(), node.ledger.next_expiry());
        assert_eq!(restored.assets(), node.ledger.assets());
    }
}

#[test]
fn an_empty_ledger_comes_back() {
    let bytes = snapshot(&Ledger::new(ShardIndex(2), 3));
    assert_eq!(snapshot(&restore::<Ledger>(&bytes)), bytes);
}

#[test]
fn a_large_snapshot_comes_in_chunks() {
    let mut node = super::node::Node::new(0, 1);
    for n in 0..5_000 {
        let id = format!("wallet with a long name:{n}");
        node.outcome(crate::ledger::Command::OpenAccount { id: &id, asset: "credit", kind: AccountKind::Wallet });
    }
    let mut sizes = Vec::new();
    Machine::write_snapshot(&node.ledger, &mut |chunk| sizes.push(chunk.len()));
    assert!(sizes.len() > 2 && sizes.iter().all(|size| *size < 70_000), "{sizes:?}");
}

#[test]
fn every_cut_and_every_addition_is_found() {
    let bytes = snapshot(&cluster().nodes[0].ledger);
    for cut in 0..bytes.len() {
        assert!(Ledger::read_snapshot(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(Ledger::read_snapshot(&longer).err(), Some(SnapshotError::Damaged("bytes after the end")));
}

#[test]
fn another_layout_is_named() {
    assert_eq!(Ledger::read_snapshot(&[9]).err(), Some(SnapshotError::UnknownVersion(9)));
}

#[test]
fn every_changed_byte_is_an_error_or_keeps_the_rules() {
    for node in cluster().nodes {
        let bytes = snapshot(&node.ledger);
        for at in 0..bytes.len() {
            for change in [1, 2, 0x40, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= change;
                read_forged::<Ledger>(&bytes);
            }
        }
    }
}

proptest! {
    #[test]
    fn changed_bytes_are_an_error_or_keep_the_rules(changes in proptest::collection::vec(any::<(Index, u8)>(), 1..6)) {
        thread_local!(static BYTES: Vec<u8> = snapshot(&cluster().nodes[1].ledger));
        BYTES.with(|bytes| read_changed::<Ledger>(bytes, &changes));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut bytes = bytes;
        if let Some(version) = bytes.first_mut() {
            *version = 1;
        }
        read_forged::<Ledger>(&bytes);
    }
}

/// The auditor's case: records are whole, but one of them is not what its predecessors lead to.
#[test]
fn a_record_that_is_missing_or_changed_does_not_fold() {
    for node in cluster().nodes {
        let events: Vec<_> = node.records.iter().map(|r| Ledger::decode(r).expect("encoded")).collect();
        for skip in 0..events.len() {
            let mut ledger = Ledger::new(node.ledger.shard(), 3);
            let kept = events.iter().enumerate().filter(|(nth, _)| *nth != skip);
            let found =
                kept.map(|(nth, event)| Machine::apply_checked(&mut ledger, event, place(nth))).find(Result::is_err);
            // A refusal or claim leaves nothing in the state; that one is missing is seen by the journal's hash chain.
            let traceless = ["refused", "id_claimed"].contains(&events[skip].name());
            assert!(found.is_some() || traceless || snapshot(&ledger) != snapshot(&node.ledger), "{:?}", events[skip]);
        }
    }
}

#[test]
fn a_mismatch_names_the_account_and_leaves_the_state() {
    let node = cluster().nodes.swap_remove(0);
    let (mut ledger, next) = (node.replay(), node.records.len());
    let before = snapshot(&ledger);
    let mut events = node.records.iter().map(|r| Ledger::decode(r).expect("encoded"));
    let transfer = events.rfind(|event| event.name() == "transferred").expect("some");
    let Err(Mismatch { account: Some(_), figure, .. }) = Machine::apply_checked(&mut ledger, &transfer, place(next))
    else {
        panic!("a transfer folded twice")
    };
    assert!(["previous record", "time at least"].contains(&figure), "{figure}");
    assert!(Machine::apply_checked(&mut ledger, &transfer, place(next - 1)).is_err(), "positions increase");
    assert_eq!(snapshot(&ledger), before);
}

#[test]
fn sums_above_64_bits_and_the_most_decimals_come_back() {
    let mut node = Node::new(0, 1);
    for (id, kind) in [("shop", AccountKind::Source), ("wallet", AccountKind::Wallet)] {
        node.outcome(Command::OpenAccount { id, asset: "credit", kind });
    }
    assert_eq!(node.outcome(Command::DeclareAsset { asset: "credit", decimals: 18 }), Outcome::Applied);
    for n in 0..6 {
        let (debit, credit) = if n % 2 == 0 { ("shop", "wallet") } else { ("wallet", "shop") };
        let (id, amount) = (format!("t{n}"), i64::MAX as u64);
        let transfer = Transfer { id: &id, debit, credit, amount, memo: "", label: Default::default() };
        assert_eq!(
            node.outcome(Command::Transfer { transfer, credit_missing: false, guess: Guess::NONE }),
            Outcome::Applied
        );
    }
    let after: Ledger = restore(&snapshot(&node.ledger));
    for ledger in [&node.ledger, &after] {
        let wallet = ledger.account("wallet").expect("it is open");
        let moved = 3 * i64::MAX as u128;
        assert_eq!((wallet.balance, wallet.credited, wallet.debited), (0, moved, moved));
        assert_eq!(ledger.assets()[0].decimals, Some(18));
    }
}

#[test]
fn what_two_shards_sent_each_other_of_two_assets_comes_back() {
    let mut cluster = Cluster::new(2);
    let accounts: Vec<(String, String, &str)> = ["credit", "euro", "seat"]
        .map(|asset| {
            let on = |shard: u16| {
                let is_there = |id: &String| shard_of(id, 2) == ShardIndex(shard);
                (0..).map(|n| format!("{asset} {n}")).find(is_there).expect("half of them")
            };
            (on(0), on(1), asset)
        })
        .into();
    for (n, (here, there, asset)) in accounts.iter().enumerate() {
        cluster.open(here, asset, AccountKind::Source);
        cluster.open(there, asset, AccountKind::Wallet);
        for round in 0..2 {
            let (id, amount) = (format!("{asset} {round}"), 1 + n as u64);
            let transfer =
                Transfer { id: &id, debit: here, credit: there, amount, memo: "", label: Default::default() };
            assert_eq!(cluster.transfer(transfer), Outcome::Applied);
        }
    }
    cluster.deliver(0, 1, 0, 4);
    cluster.confirm(0, 1);
    for node in &cluster.nodes {
        let after: Ledger = restore(&snapshot(&node.ledger));
        let moved = |ledger: &Ledger| {
            let sums = |totals: crate::ledger::AssetTotals| (totals.asset, totals.sent, totals.received);
            ledger.totals().into_iter().map(sums).collect::<Vec<_>>()
        };
        assert_eq!(moved(&after), moved(&node.ledger));
        let under_way = |ledger: &Ledger| ledger.outbound(ShardIndex(1), OutboundNumber(0), 9).count();
        if node.ledger.shard() == ShardIndex(0) {
            assert_eq!((under_way(&after), under_way(&node.ledger)), (2, 2));
        }
    }
}
