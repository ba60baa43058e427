use super::super::account::AccountSlot;
use super::super::outcome::Refusal;
use super::super::request::AccountKind;
use super::super::settings::{AccountRules, MetadataPatch};
use super::super::state::Ledger;
use super::*;
use crate::{Machine, OutboundNumber, RecordPosition, TimeMs};

const TIME: TimeMs = TimeMs(1_800_000_000_123);

fn ties_of(event: Event<'_>, shard: u16) -> Vec<Tie> {
    let mut all = Vec::new();
    ties(&event, ShardIndex(shard), &mut |tie| all.push(tie));
    all
}

/// The credit of `events.md`: number 7 of shard 1, decided at position 5000 there.
fn credit() -> Event<'static> {
    Event::decode(
        b"\xaa\x7b\x50\x5c\x18\xa3\x01\x02t2\x01\x07\x7b\x50\x5c\x18\xa3\x01\x88\x27\x01a\x00\x00\x0a\x05\x02hi",
    )
    .expect("it is documented")
}

#[test]
fn a_credit_rests_on_its_debit_and_a_confirmation_on_the_credit() {
    let taken_in = ties_of(credit(), 0);
    let debit = Fact::Record { shard: ShardIndex(1), position: RecordPosition(5_000) };
    assert_eq!(taken_in, [Tie::Is(received(ShardIndex(1), ShardIndex(0), 7)), Tie::RestsOn(debit)]);
    let confirmed = Event::CreditsConfirmed { time: TIME, to: ShardIndex(0), number: OutboundNumber(7) };
    let Tie::Is(fact) = taken_in[0] else { unreachable!("it was compared") };
    assert_eq!(ties_of(confirmed, 1), [Tie::RestsOn(fact)]);
    assert_ne!(ties_of(confirmed, 2), [Tie::RestsOn(fact)], "another shard's credit of that number");
}

#[test]
fn a_decision_rests_on_the_claim_of_its_id_and_an_adoption_on_the_opening() {
    let digest = [1; 16];
    let claim = Event::IdClaimed { time: TIME, id: "t5", owner: ShardIndex(1), digest };
    let refused = Event::Refused { time: TIME, id: "t5", digest, refusal: Refusal::Overflow };
    let [Tie::Is(claimed)] = ties_of(claim, 0)[..] else { panic!("a claim is one fact") };
    assert_eq!(ties_of(refused, 1), [Tie::RestsOn(claimed)]);
    let (id, asset, kind, slot) = ("wallet:dave", "credit", AccountKind::Wallet, AccountSlot(0));
    let [Tie::Is(opened)] = ties_of(Event::AccountOpened { time: TIME, slot, id, asset, kind }, 0)[..] else {
        panic!("an opening is one fact")
    };
    let adopted = Event::AccountAdopted { time: TIME, slot, id, asset, kind, home: ShardIndex(0) };
    assert_eq!(ties_of(adopted, 1), [Tie::RestsOn(opened)]);
    assert_ne!(claimed, opened);
}

#[test]
fn what_a_shard_keeps_to_rests_on_the_change_at_home() {
    let change = |revision| {
        let (rules, metadata, home) = (AccountRules::default(), MetadataPatch::NONE, ShardIndex(0));
        Event::AccountChanged { time: TIME, slot: AccountSlot(0), id: "wallet:dave", home, revision, rules, metadata }
    };
    let [Tie::Is(changed)] = ties_of(change(2), 0)[..] else { panic!("a change is one fact") };
    assert_eq!(ties_of(change(2), 1), [Tie::RestsOn(changed)]);
    assert_ne!(ties_of(change(3), 1), [Tie::RestsOn(changed)], "another revision");
}

#[test]
fn facts_of_two_ids_are_two_and_a_shard_asks_the_machine_for_them() {
    let (digest, owner) = ([1; 16], ShardIndex(1));
    let claims = ["t5", "t6"].map(|id| Event::IdClaimed { time: TIME, id, owner, digest });
    assert_ne!(ties_of(claims[0], 0), ties_of(claims[1], 0));
    for event in claims.into_iter().chain([credit()]) {
        let mut all = Vec::new();
        Ledger::ties(&event, ShardIndex(0), &mut |tie| all.push(tie));
        assert_eq!(all, ties_of(event, 0));
        assert_eq!(Ledger::decided_at(&event), Some(event.time()));
    }
    assert_eq!(Machine::time(&Ledger::new(ShardIndex(0), 1)), TimeMs(0));
}
