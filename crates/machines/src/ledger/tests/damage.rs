//! Damage in memory is found by the next event about it, or by the full check.

use super::cluster::Cluster;
use super::node::Node;
use super::snapshots::cluster;
use crate::ledger::account::AccountSlot;
use crate::ledger::asset::AssetIndex;
use crate::ledger::hold::{HoldId, OpenHold};
use crate::ledger::{AccountKind, Command, Guess, Hold, Label, Ledger, Outcome, Transfer};
use crate::machine::tests::{place, snapshot, words_of_panic};
use crate::{Amount, Machine, OutboundNumber, RecordPosition, ShardIndex, TimeMs};

/// A shard with accounts, holds, and credits in both directions.
fn sound() -> Ledger {
    let Cluster { mut nodes } = cluster();
    let ledger = nodes.swap_remove(0).ledger;
    ledger.assert_sound();
    ledger
}

/// The first slot of an account like this.
fn slot_of(ledger: &Ledger, like: impl Fn(&crate::ledger::account::Account) -> bool) -> AccountSlot {
    let place = ledger.accounts.iter().position(like).expect("there is a bit of everything");
    AccountSlot(place as u32)
}

fn found(damage: impl FnOnce(&mut Ledger), words: &str) {
    let mut ledger = sound();
    damage(&mut ledger);
    let said = words_of_panic(|| ledger.assert_sound());
    assert!(said.contains(words), "{said:?} instead of {words:?}");
}

#[test]
fn the_walk_finds_figures_that_disagree() {
    let wallet = |ledger: &Ledger| slot_of(ledger, |account| account.kind == AccountKind::Wallet && account.held > 0);
    let change = |change: fn(&mut crate::ledger::account::Account)| {
        move |ledger: &mut Ledger| {
            let slot = wallet(ledger);
            change(ledger.accounts.get_mut(slot).expect("a wallet"));
        }
    };
    found(change(|account| account.balance += 1), "is not credited - debited");
    let made = change(|account| (account.balance, account.credited) = (account.balance + 1, account.credited + 1));
    found(made, "money does not add up to zero");
    found(change(|account| account.held += 1), "holds do not add up to what accounts have held");
    found(change(|account| account.credited += 1), "is not credited - debited");
    found(change(|account| account.debited += 1), "is not credited - debited");
    let below_zero = |account: &mut crate::ledger::account::Account| {
        (account.balance, account.debited, account.held) = (-1, account.credited + 1, 0);
    };
    found(change(below_zero), "is below zero");
    found(change(|account| account.held = account.balance as u64 + 1), "is below zero");
    let collector = |change: fn(&mut crate::ledger::account::Account)| {
        move |ledger: &mut Ledger| {
            let slot = slot_of(ledger, |account| account.kind == AccountKind::Collector);
            change(ledger.accounts.get_mut(slot).expect("a collector"));
        }
    };
    let debited = collector(|account| {
        (account.credited, account.debited) = (account.credited + 1, account.debited + 1);
    });
    found(debited, "was debited");
    found(collector(|account| (account.balance, account.credited, account.held) = (9, 9, 1)), "was debited");
    found(change(|account| account.last = RecordPosition(u64::MAX)), "goes beyond the newest event");
    found(change(|account| account.home = ShardIndex(2)), "is at home elsewhere");
    found(change(|account| account.id = "nobody".into()), "is not found where it is");
    found(change(|account| account.asset = AssetIndex(9)), "has an asset that is not there");
}

#[test]
fn the_walk_finds_indices_that_disagree() {
    found(|ledger| ledger.assets.get_mut(AssetIndex(0)).reserve += 1, "may still owe");
    found(|ledger| ledger.time = TimeMs(0), "was placed in the future");
    found(|ledger| ledger.position = RecordPosition(1), "goes beyond the newest event");
    found(|ledger| ledger.holds.remove(&first_hold(ledger)), "holds do not add up");
    found(|ledger| ledger.peers[0].watermark = OutboundNumber(1), "sent itself something");
    found(|ledger| ledger.accounts.get_mut(AccountSlot(1)).expect("open").id = "a".into(), "is not found where it is");
    found(|ledger| ledger.peers.truncate(2), "one peer a shard");
    found(|ledger| ledger.peers[1].sent.clear(), "is under way to shard 1");
    found(|ledger| ledger.peers[1].watermark = OutboundNumber(0), "sent money without a credit");
    let credit = |to: usize, position: fn(&Ledger) -> RecordPosition| {
        move |ledger: &mut Ledger| {
            let slot = slot_of(ledger, |account| account.home == ShardIndex(1) && !account.is_on(ShardIndex(0)));
            let position = position(ledger);
            ledger.peers[to].push(position, slot, Amount::new(1).expect("not zero"));
        }
    };
    found(credit(1, |_| RecordPosition(u64::MAX)), "credit");
    found(credit(2, |ledger| ledger.position), "is not for shard 2");
}

#[test]
fn a_snapshot_of_a_state_that_no_fold_gives_is_refused() {
    let refused = |damage: fn(&mut Ledger), words: &str| {
        let mut ledger = sound();
        damage(&mut ledger);
        let said = Ledger::read_snapshot(&snapshot(&ledger)).map(|_| ()).expect_err("it is refused").to_string();
        assert!(said.contains(words), "{said:?} instead of {words:?}");
    };
    let on_a_collector = |ledger: &mut Ledger| {
        let slot = slot_of(ledger, |account| account.kind == AccountKind::Collector);
        let first = ledger.holds.first().expect("holds are open").clone();
        let (id, placed) = (HoldId::new("another"), RecordPosition(first.placed.0 - 1));
        ledger.holds.insert(OpenHold { id, debit: slot, placed, ..first });
    };
    let on_an_account_of_another_shard = |ledger: &mut Ledger| {
        let slot = slot_of(ledger, |account| !account.is_on(ShardIndex(0)));
        let first = ledger.holds.first().expect("holds are open").clone();
        let (id, placed) = (HoldId::new("another"), RecordPosition(first.placed.0 - 1));
        ledger.holds.insert(OpenHold { id, debit: slot, placed, ..first });
    };
    refused(on_a_collector, "accounts of a hold");
    refused(on_an_account_of_another_shard, "accounts of a hold");
    refused(|ledger| ledger.accounts.get_mut(AccountSlot(0)).expect("open").held += 1, "add up");
    refused(|ledger| ledger.peers[1].sent.clear(), "more credits are under way than were sent");
}

fn first_hold(ledger: &Ledger) -> String {
    ledger.holds.first().expect("holds are open").id.as_str().to_owned()
}

/// A source, a wallet, and five credits in it.
fn shop() -> Node {
    let mut node = Node::new(0, 1);
    for (id, kind) in [("a", AccountKind::Source), ("b", AccountKind::Wallet)] {
        node.outcome(Command::OpenAccount { id, asset: "credit", kind });
    }
    assert_eq!(node.outcome(buy("t1")), Outcome::Applied);
    node
}

fn buy(id: &str) -> Command<'_> {
    let transfer = Transfer { id, debit: "a", credit: "b", amount: 5, memo: "", label: Default::default() };
    Command::Transfer { transfer, credit_missing: false, guess: Guess::NONE }
}

#[test]
fn the_next_event_finds_a_flipped_bit() {
    let mut node = shop();
    let slot = node.ledger.slot("b").expect("open");
    node.ledger.accounts.get_mut(slot).expect("open").balance += 8;
    let said = words_of_panic(|| assert_eq!(node.outcome(buy("t2")), Outcome::Applied));
    assert_eq!(
        said,
        "the record at position 1210 (transferred, account b) does not follow from the records before it: \
         credited - debited is 5, the record says 13"
    );
}

#[test]
fn a_live_event_where_another_stands_is_a_bug() {
    let mut node = shop();
    let event = Ledger::decode(&node.records[2]).expect("was encoded");
    let said = words_of_panic(|| Machine::apply(&mut node.ledger, &event, place(2)));
    assert!(said.contains("position above is 1140, the record says 1140"), "{said}");
}

/// A record that no decision gives: written by a faulty program, or forged with all checksums right.
#[test]
fn a_record_that_spends_what_is_held_or_issues_too_much_does_not_fit() {
    let mut cluster = Cluster::new(1);
    cluster.open("source:s", "credit", AccountKind::Source);
    cluster.open("wallet:a", "credit", AccountKind::Wallet);
    cluster.open("wallet:b", "credit", AccountKind::Wallet);
    cluster.transfer(Transfer {
        id: "grant",
        debit: "source:s",
        credit: "wallet:a",
        amount: 10,
        memo: "",
        label: Label::NONE,
    });
    // What the record does to the state before it, in which the debited account has `held` more held.
    let fits = |before: &Cluster, after: &Cluster, id: &str, held: u64| {
        let record = after.nodes[0].records.last().expect("it was decided");
        let mut ledger = before.nodes[0].ledger.clone();
        let slot = slot_of(&ledger, |account| &*account.id == id);
        let account = ledger.accounts.get_mut(slot).expect("it is open");
        account.held += held;
        if account.kind == AccountKind::Source {
            // What a source has held, it may still owe.
            ledger.assets.get_mut(AssetIndex(0)).reserve += held;
        }
        let at = place(before.nodes[0].records.len());
        ledger.apply_checked(&Ledger::decode(record).expect("a record"), at).map_err(|error| error.to_string())
    };
    let mut spent = cluster.clone();
    spent.transfer(Transfer {
        id: "vote",
        debit: "wallet:a",
        credit: "wallet:b",
        amount: 5,
        memo: "",
        label: Label::NONE,
    });
    let mut placed = cluster.clone();
    let hold = Hold {
        id: "hold",
        debit: "wallet:a",
        credit: "wallet:b",
        amount: 5,
        expires_in_ms: 9,
        memo: "",
        label: Label::NONE,
    };
    placed.place(hold);
    for after in [&spent, &placed] {
        assert_eq!(fits(&cluster, after, "wallet:a", 5), Ok(()));
        let refused = fits(&cluster, after, "wallet:a", 6).unwrap_err();
        assert!(refused.contains("available"), "{refused}");
    }
    let mut issued = cluster.clone();
    issued.transfer(Transfer {
        id: "more",
        debit: "source:s",
        credit: "wallet:a",
        amount: 5,
        memo: "",
        label: Label::NONE,
    });
    let mut reserved = cluster.clone();
    reserved.place(Hold { debit: "source:s", ..hold });
    for after in [&issued, &reserved] {
        assert_eq!(fits(&cluster, after, "source:s", 0), Ok(()));
        let refused = fits(&cluster, after, "source:s", i64::MAX as u64).unwrap_err();
        assert!(refused.contains("issuance at most"), "{refused}");
    }
}
