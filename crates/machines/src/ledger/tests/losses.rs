//! Losses between two shards, of which one was put back from an older copy: found, and booked so that sums hold.

use super::cluster::Cluster;
use super::shards::at_home_on;
use crate::ledger::{AccountKind, Command, Exchanged, Label, Ledger, LossSide, PeerLoss, Transfer, losses};
use crate::{Amount, Decision, Machine, OutboundNumber, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};

/// Shard 0 sends `amounts` to shard 1, each of them delivered and confirmed; the states of both after each step.
fn history(amounts: &[u64]) -> Vec<Cluster> {
    let mut cluster = Cluster::new(2);
    let (here, there) = (at_home_on(0), at_home_on(1));
    cluster.open(&here, "credit", AccountKind::Source);
    cluster.open(&there, "credit", AccountKind::Wallet);
    let mut states = vec![cluster.clone()];
    for (number, amount) in amounts.iter().enumerate() {
        let id = format!("t{number}");
        let transfer =
            Transfer { id: &id, debit: &here, credit: &there, amount: *amount, memo: "", label: Label::NONE };
        cluster.transfer(transfer);
        cluster.deliver(0, 1, number as u64, 9);
        cluster.confirm(0, 1);
        states.push(cluster.clone());
    }
    states
}

/// The place of the next record of a ledger.
fn next(ledger: &Ledger) -> Place {
    Place { position: RecordPosition(ledger.position().0 + 1), sequence: RecordSequence(1) }
}

/// Books all that `ledger` has lost against `other`, as a tool does; the accounts it was booked against.
fn book(ledger: &mut Ledger, other: &Ledger) -> Vec<Box<str>> {
    let found = ledger.losses_against(other).unwrap();
    let mut accounts = Vec::new();
    for loss in &found {
        loop {
            let (account, slot) = ledger.accepted_loss_account(&loss.asset);
            let event = ledger.book_loss(loss, &account, TimeMs(1));
            let mut bytes = Vec::new();
            Ledger::encode(&event, &mut bytes);
            let at = next(ledger);
            ledger.apply_checked(&Ledger::decode(&bytes).unwrap(), at).unwrap();
            if slot.is_some() {
                accounts.push(account);
                break;
            }
        }
    }
    accounts
}

/// Where what `from` has sent is not what `to` has taken in up to the same credit.
fn strange(from: &Ledger, to: &Ledger) -> String {
    let (sent, received) = (from.exchanged_sums(to.shard()), to.exchanged_sums(from.shard()));
    format!("{:?}", sent.differences(to.watermark(from.shard()), &received)).trim_matches(['[', ']']).to_owned()
}

fn check_between(one: &Ledger, other: &Ledger) {
    for (here, there) in [(one, other), (other, one)] {
        here.assert_sound();
        assert_eq!(here.totals().iter().map(|totals| totals.imbalance()).collect::<Vec<_>>(), [0]);
        assert_eq!(here.losses_against(there), Ok(Vec::new()));
        assert_eq!(losses(here.exchanged(there.shard()), there.exchanged(here.shard())).count(), 0);
        assert_eq!(strange(here, there), "");
    }
    let all = |ledger: &Ledger| ledger.totals()[0].balances;
    assert_eq!(all(one) + all(other), 0, "nothing is on its way, and no money came or went");
}

#[test]
fn shards_of_one_history_have_lost_nothing() {
    for state in history(&[5, 6, 7]) {
        let [one, other] = [0, 1].map(|shard| &state.nodes[shard].ledger);
        assert_eq!((one.losses_against(other), other.losses_against(one)), (Ok(Vec::new()), Ok(Vec::new())));
    }
}

#[test]
fn shards_of_two_histories_whose_numbers_fit_are_told_by_their_sums() {
    let (here, there) = (history(&[5, 6, 7]), history(&[5, 60, 7]));
    for (number, sums) in [(1, ""), (2, "(\"credit\", 11, 65)"), (3, "(\"credit\", 18, 72)")] {
        let (one, other) = (&here[number].nodes[0].ledger, &there[number].nodes[1].ledger);
        assert_eq!((one.losses_against(other), other.losses_against(one)), (Ok(Vec::new()), Ok(Vec::new())));
        assert_eq!(strange(one, other), sums, "after {number} transfers");
    }
}

#[test]
fn lost_debits_are_booked_as_money_that_nobody_paid() {
    let states = history(&[5, 6, 7]);
    let (mut old, new) = (states[1].nodes[0].ledger.clone(), &states[3].nodes[1].ledger);
    let loss = PeerLoss {
        peer: ShardIndex(1),
        side: LossSide::Sent,
        number: OutboundNumber(3),
        asset: "credit".into(),
        amount: Amount::new(13).unwrap(),
    };
    assert_eq!(old.losses_against(new), Ok(vec![loss]));
    let accounts = book(&mut old, new);
    assert!(accounts[0].starts_with("source:accepted-loss:credit:"), "{accounts:?}");
    let source = old.account(&accounts[0]).unwrap();
    assert_eq!((source.balance, source.kind), (-13, AccountKind::Source), "its balance is the loss");
    check_between(&old, new);
    assert_eq!(old.outbound_last(ShardIndex(1)), OutboundNumber(3), "numbers go on where the other stands");
}

#[test]
fn lost_credits_are_booked_as_money_that_nobody_has() {
    let states = history(&[5, 6, 7]);
    let (mut old, new) = (states[1].nodes[1].ledger.clone(), &states[3].nodes[0].ledger);
    let accounts = book(&mut old, new);
    assert_eq!(old.account(&accounts[0]).unwrap().balance, 13);
    check_between(&old, new);
    assert_eq!(old.watermark(ShardIndex(0)), OutboundNumber(3));
    // A snapshot of it is one.
    let mut bytes = Vec::new();
    old.write_snapshot(&mut |part| bytes.extend_from_slice(part));
    assert!(Ledger::read_snapshot(&bytes).unwrap().account(&accounts[0]).is_some());
}

#[test]
fn a_loss_is_booked_once_and_never_backwards() {
    let states = history(&[5, 6, 7]);
    let (mut old, new) = (states[1].nodes[0].ledger.clone(), &states[3].nodes[1].ledger);
    let loss = old.losses_against(new).unwrap().remove(0);
    let accounts = book(&mut old, new);
    assert_eq!(book(&mut old, new), [] as [Box<str>; 0]);
    let backwards = PeerLoss { number: OutboundNumber(2), ..loss.clone() };
    let event = old.book_loss(&backwards, &accounts[0], TimeMs(1));
    let refused = old.clone().apply_checked(&event, next(&old)).unwrap_err();
    assert_eq!((refused.figure, refused.expected, refused.found), ("number at least", 3, 2));
    let wallet = at_home_on(0);
    let event = old.book_loss(&loss, &wallet, TimeMs(1));
    assert!(old.clone().apply_checked(&event, next(&old)).is_ok(), "any source will do");
}

#[test]
fn an_account_is_opened_again_though_its_id_or_asset_is_none_that_a_client_may_open() {
    let mut ledger = Ledger::new(ShardIndex(0), 1);
    let now = TimeMs(1);
    for (id, asset) in [("wallet:*", "credit"), ("wallet:\u{2800}", "credit"), ("wallet:a", "\u{3164}")] {
        let open = Command::OpenAccount { id, asset, kind: AccountKind::Wallet };
        let refused = ledger.decide(&open, None, now);
        assert!(!matches!(refused, Decision::Append { .. }), "{id:?} of {asset:?}: {refused:?}");
        let event = ledger.open_again(id, asset, AccountKind::Wallet, now).expect("it is unknown");
        ledger.apply_checked(&event, next(&ledger)).unwrap();
        assert_eq!(&*ledger.account(id).expect("it is open").asset, asset);
        assert_eq!(ledger.open_again(id, asset, AccountKind::Wallet, now), None, "once");
    }
    let there = at_home_on(1);
    assert_eq!(Ledger::new(ShardIndex(0), 2).open_again(&there, "credit", AccountKind::Wallet, now), None);
}

#[test]
fn each_kind_of_loss_is_told_by_the_numbers_alone() {
    let of = |sent, confirmed, watermark| Exchanged {
        sent: OutboundNumber(sent),
        confirmed: OutboundNumber(confirmed),
        watermark: OutboundNumber(watermark),
    };
    let found = |here, there| losses(here, there).map(|(side, ..)| side).collect::<Vec<_>>();
    assert_eq!(found(of(9, 5, 4), of(4, 4, 7)), [], "between confirmed and sent, all is well");
    assert_eq!(found(of(6, 5, 4), of(4, 4, 7)), [LossSide::Sent]);
    assert_eq!(found(of(9, 5, 3), of(4, 4, 7)), [LossSide::Received]);
    assert_eq!(found(of(6, 5, 3), of(4, 4, 7)), [LossSide::Sent, LossSide::Received]);
}

/// What is on its way is not lost: it is delivered when the old shard asks for it.
#[test]
fn what_was_sent_and_never_confirmed_is_no_loss_of_its_asset() {
    let mut cluster = history(&[5, 6]).pop().unwrap();
    let old = history(&[5, 6])[1].nodes[1].ledger.clone();
    let (here, there) = (at_home_on(0), at_home_on(1));
    cluster.transfer(Transfer {
        id: "on its way",
        debit: &here,
        credit: &there,
        amount: 700,
        memo: "",
        label: Label::NONE,
    });
    let found = old.losses_against(&cluster.nodes[0].ledger).unwrap();
    let lost: Vec<(u64, u64)> = found.iter().map(|loss| (loss.number.0, loss.amount.get())).collect();
    assert_eq!(lost, [(2, 6)]);
}

#[test]
fn an_account_of_another_kind_or_asset_is_never_booked_against() {
    let mut cluster = Cluster::new(2);
    let next = |cluster: &Cluster| cluster.nodes[0].ledger.accepted_loss_account("credit");
    let (wallet, slot) = next(&cluster);
    assert_eq!(slot, None);
    cluster.open(&wallet, "credit", AccountKind::Wallet);
    let (of_points, slot) = next(&cluster);
    assert!(slot.is_none() && of_points != wallet);
    cluster.open(&of_points, "points", AccountKind::Source);
    let (good, slot) = next(&cluster);
    assert!(slot.is_none() && good != wallet && good != of_points);
    cluster.open(&good, "credit", AccountKind::Source);
    let (found, slot) = next(&cluster);
    assert!(slot.is_some() && found == good);
}
