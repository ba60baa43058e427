//! Bounds of open holds, remembered refusals, ids of spaces, and ids of older journals.

use super::node::Node;
use crate::ledger::limits::TRANSFER_ID_BYTES_MAX;
use crate::ledger::{
    AccountKind, AccountSlot, Command, Content, Event, Guess, Hold, HoldFacts, Label, Outcome, Refusal, Ruling,
    Transfer, is_transfer_id,
};
use crate::{ID_SPACE_BYTES_MAX, IdSpace, Machine, TimeMs};

fn shop() -> Node {
    let mut node = Node::new(0, 1);
    for (id, kind) in [("s", AccountKind::Source), ("w", AccountKind::Wallet), ("c", AccountKind::Collector)] {
        assert_eq!(node.outcome(Command::OpenAccount { id, asset: "credit", kind }), Outcome::Applied);
    }
    assert_eq!(node.outcome(transfer("buy", "s", "w", 10)), Outcome::Applied);
    node
}

fn transfer<'a>(id: &'a str, debit: &'a str, credit: &'a str, amount: u64) -> Command<'a> {
    Command::Transfer {
        transfer: Transfer { id, debit, credit, amount, memo: "", label: Label::NONE },
        credit_missing: false,
        guess: Guess::NONE,
    }
}

fn hold(id: &str, open_holds_max: u32) -> Command<'_> {
    let hold = Hold { id, debit: "w", credit: "c", amount: 1, expires_in_ms: 1_000, memo: "", label: Label::NONE };
    Command::PlaceHold { hold, credit_missing: false, open_holds_max }
}

#[test]
fn an_account_has_so_many_open_holds_and_no_more() {
    let mut node = shop();
    assert_eq!(node.outcome(hold("h1", 2)), Outcome::Applied);
    assert_eq!(node.outcome(hold("h2", 2)), Outcome::Applied);
    assert_eq!(node.outcome(hold("h3", 2)), Outcome::Refused(Refusal::TooManyHolds));
    assert_eq!(node.outcome(hold("h2", 2)), Outcome::Duplicate, "what is open is no further hold");
    assert_eq!(node.outcome(hold("h4", 3)), Outcome::Applied, "another caller may have a higher bound");
    assert_eq!(node.outcome(Command::VoidHold { id: "h1" }), Outcome::Applied);
    assert_eq!(node.outcome(Command::PostHold { id: "h2", amount: None }), Outcome::Applied);
    assert_eq!(node.outcome(hold("h5", 2)), Outcome::Applied, "a hold that is closed does not count");
    assert_eq!(node.outcome(hold("h3", 2)), Outcome::Refused(Refusal::TooManyHolds), "refused for ever");
    node.check();
    let again = node.replay();
    assert_eq!(again.open_holds(), 2);
    again.assert_sound();
}

#[test]
fn a_refusal_that_is_remembered_says_when_it_was_decided_and_what_there_was() {
    let mut node = shop();
    let refusal = Refusal::InsufficientFunds { available: 10 };
    let said = node.ask(transfer("t", "w", "c", 11));
    assert_eq!(said, Ruling::Outcome(Outcome::Refused(refusal)));
    let decided_at = TimeMs(node.now);
    node.now += 5_000;
    assert_eq!(node.outcome(transfer("buy-2", "s", "w", 90)), Outcome::Applied);
    let again = node.ask(transfer("t", "w", "c", 11));
    assert_eq!(again, Ruling::Outcome(Outcome::RefusedBefore { refusal, decided_at }));
    assert_eq!(node.outcome(transfer("t", "w", "c", 12)), Outcome::Refused(Refusal::IdReused));
}

#[test]
fn an_id_is_unique_within_its_space() {
    let mut node = shop();
    let (dave, carol) = (IdSpace::new("dave").unwrap(), IdSpace::new("carol").unwrap());
    assert_eq!(
        (dave.name(), dave.is_empty(), IdSpace::new("").map(|space| space.is_empty())),
        ("dave", false, Some(true))
    );
    let ids = [dave.whole("order-18"), carol.whole("order-18"), "order-18".into()];
    for id in &ids {
        assert_eq!(node.outcome(transfer(id, "w", "c", 1)), Outcome::Applied, "{id:?}");
        assert_eq!(node.outcome(transfer(id, "w", "c", 1)), Outcome::Duplicate, "{id:?}");
    }
    let event = node.prior(&ids[0]).unwrap();
    let (row, _) = node.ledger.history_row("w", &event).unwrap();
    assert_eq!((&*row.id_space, &*row.id), ("dave", "order-18"));
    node.check();
}

#[test]
fn the_longest_id_in_the_longest_space_fits_everywhere() {
    let mut node = shop();
    let id = IdSpace::new(&"s".repeat(64)).unwrap().whole(&"i".repeat(64));
    let memo = "m".repeat(256);
    let placed =
        Hold { id: &id, debit: "w", credit: "c", amount: 1, expires_in_ms: 1_000, memo: &memo, label: Label::NONE };
    let place = Command::PlaceHold { hold: placed, credit_missing: false, open_holds_max: 9 };
    assert_eq!(node.outcome(place), Outcome::Applied);
    let mut body = Vec::new();
    node.ledger.write_snapshot(&mut |part: &[u8]| body.extend_from_slice(part));
    assert_eq!(<crate::ledger::Ledger as Machine>::read_snapshot(&body).unwrap().open_holds(), 1);
    node.check();
}

#[test]
fn what_an_older_journal_has_replays_and_can_be_asked_again() {
    let mut node = shop();
    for (slot, id, asset) in [(3, "wallet:\u{3164}", "cre\u{a0}dit"), (4, " w", "credit "), (5, "..", "credit")] {
        let (time, slot, kind) = (TimeMs(node.now), AccountSlot(slot), AccountKind::Wallet);
        node.append(&Event::AccountOpened { time, slot, id, asset, kind });
        assert!(node.ledger.account(id).is_some());
    }
    node.check();
    node.replay().assert_sound();
    let account = Command::OpenAccount { id: "\u{3164}", asset: "credit", kind: AccountKind::Wallet };
    assert_eq!(node.outcome(account), Outcome::Refused(Refusal::AccountIdInvalid), "a new one is refused");
    assert_eq!(node.outcome(transfer("t\u{a0}", "w", "c", 1)), Outcome::Refused(Refusal::IdInvalid));
    // What has such an account goes on with it.
    assert_eq!(node.outcome(transfer("t", "s", "..", 1)), Outcome::Applied);
    assert_eq!(node.outcome(transfer(".", "s", "..", 1)), Outcome::Refused(Refusal::IdInvalid));
}

#[test]
fn a_hold_with_an_old_id_is_posted_and_repeated() {
    let mut node = shop();
    let id = "h\u{a0}1";
    assert_eq!(node.outcome(hold(id, 9)), Outcome::Refused(Refusal::IdInvalid), "new ones are not");
    let credit = node.ledger.slot("c").unwrap();
    let debit = node.ledger.slot("w").unwrap();
    let prev = node.ledger.last_position("w").unwrap();
    let placed = Event::HoldPlaced {
        time: TimeMs(node.now),
        hold: HoldFacts {
            id,
            credit,
            amount: crate::Amount::new(1).unwrap(),
            expires_in_ms: 1_000,
            memo: "",
            label: Label::NONE,
        },
        debit: crate::ledger::AccountStep { slot: debit, prev, after: 10 },
    };
    node.append(&placed);
    assert_eq!(node.outcome(hold(id, 9)), Outcome::Duplicate);
    assert_eq!(node.outcome(Command::PostHold { id, amount: None }), Outcome::Applied);
    node.check();
}

#[test]
fn a_linked_group_of_holds_keeps_to_the_bound_as_a_whole() {
    let mut node = shop();
    assert_eq!(node.outcome(hold("h1", 3)), Outcome::Applied);
    let of = |id| Hold { id, debit: "w", credit: "c", amount: 1, expires_in_ms: 1_000, memo: "", label: Label::NONE };
    let refused = node.linked_within(&["h2", "h3", "h4"].map(|id| Content::Hold(of(id))), 3);
    let failed = Outcome::Refused(Refusal::LinkedFailed);
    assert_eq!(refused, [failed, failed, Outcome::Refused(Refusal::TooManyHolds)]);
    let placed = node.linked_within(&["h5", "h6"].map(|id| Content::Hold(of(id))), 3);
    assert_eq!(placed, [Outcome::Applied; 2]);
    assert_eq!(node.outcome(hold("h7", 3)), Outcome::Refused(Refusal::TooManyHolds));
}

#[test]
fn an_id_and_its_space_are_both_short_and_printable() {
    let in_space = |space: &str, id: &str| is_transfer_id(&format!("{space}\u{1f}{id}"));
    let (space, id) = ("x".repeat(ID_SPACE_BYTES_MAX), "x".repeat(TRANSFER_ID_BYTES_MAX));
    assert!(in_space(&space, &id));
    assert!(!in_space(&format!("{space}x"), &id) && !in_space(&space, &format!("{id}x")));
    assert!(!in_space("two\nlines", &id) && !in_space(&space, "two\nlines") && !in_space(&space, ""));
}
