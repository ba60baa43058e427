use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::ledger::AccountKind;
use crate::ledger::asset::AssetIndex;
use crate::{RecordPosition, ShardIndex};

pub fn account(id: &str) -> Account {
    Account {
        is_restricted: false,
        credited: 0,
        debited: 0,
        id: id.into(),
        balance: 0,
        held: 0,
        last: RecordPosition::NONE,
        asset: AssetIndex(0),
        home: ShardIndex(0),
        kind: AccountKind::Wallet,
    }
}

#[test]
fn accounts_stay_where_they_are_as_others_come() {
    let mut accounts = Accounts::default();
    let address = |accounts: &Accounts, slot| std::ptr::from_ref(accounts.get(slot).expect("pushed"));
    let first = 1 << FIRST_CHUNK_BITS;
    let mut places = Vec::new();
    for n in 0..7 * first {
        assert_eq!(accounts.push(account(&format!("wallet:{n}"))), AccountSlot(n));
        // Where the second and the third chunk begin, and in the midst of each.
        if [first, 2 * first, 3 * first, 5 * first].contains(&n) {
            places.push((AccountSlot(n), address(&accounts, AccountSlot(n))));
        }
    }
    accounts.assert_sound();
    assert_eq!(accounts.chunks.iter().map(|chunk| chunk.len()).collect::<Vec<_>>(), [4_096, 8_192, 16_384, 0]);
    assert!(places.iter().all(|(slot, place)| address(&accounts, *slot) == *place));
    assert_eq!(accounts.find("wallet:9000"), Some(AccountSlot(9_000)));
    assert_eq!(accounts.find("wallet:x"), None);
    let range: Vec<u32> = accounts.range(4_094, 4).map(|(slot, _)| slot.0).collect();
    assert_eq!(range, [4_094, 4_095, 4_096, 4_097]);
    assert_eq!(accounts.range(u32::MAX, 9).count(), 0);
}

#[test]
fn memory_of_the_accounts_to_come_is_asked_for_once_and_in_time() {
    let (mut accounts, mut asked, mut times) = (Accounts::default(), 0, 0);
    for n in 0..16 * TOUCHED_AT_ONCE {
        accounts.push(account(&format!("{n}")));
        while accounts.pages_ahead(&mut asked).is_some() {
            times += 1;
        }
        let wanted = accounts.len() + (accounts.len() / TOUCHED_AHEAD_PART).min(TOUCHED_AHEAD_MAX);
        // Less than a huge page is not worth it; nor is what is taken by now.
        assert!(asked + TOUCHED_AT_ONCE > wanted || asked == 0 && wanted < accounts.len() + TOUCHED_AT_ONCE);
        assert!(asked <= wanted);
    }
    // From 8 huge pages on; what was asked for where a chunk ended was less than one.
    assert_eq!((times, asked >= 16 * TOUCHED_AT_ONCE), (10, true));
}

#[test]
fn the_last_slot_has_a_place() {
    assert_eq!(Place::of(AccountSlot(0)), Place { chunk: 0, at: 0 });
    assert_eq!(Place::of(AccountSlot(4_095)), Place { chunk: 0, at: 4_095 });
    assert_eq!(Place::of(AccountSlot(4_096)), Place { chunk: 1, at: 0 });
    assert_eq!(Place::of(AccountSlot(u32::MAX)), Place { chunk: 20, at: 4_095 });
}

#[test]
fn gross_sums_pass_64_bits() {
    let mut accounts = Accounts::default();
    let slot = accounts.push(Account { debited: 7, credited: 3, balance: -4, ..account("source") });
    assert_eq!(accounts.gross(slot), (3, 7));
    accounts.add_turns(slot, 1);
    accounts.add_turns(slot, 2);
    assert_eq!(accounts.gross(slot), ((3 << 64) + 3, (3 << 64) + 7));
}

proptest! {
    /// As a map from ids to numbers.
    #[test]
    fn finds_what_a_map_finds(ids in proptest::collection::vec("[a-c:é]{1,40}", 1..300)) {
        let (mut accounts, mut model) = (Accounts::default(), HashMap::new());
        for id in &ids {
            let next = AccountSlot(model.len() as u32);
            let slot = *model.entry(id.clone()).or_insert(next);
            prop_assert_eq!(accounts.find(id), (slot != next).then_some(slot));
            if slot == next {
                accounts.push(account(id));
            }
        }
        accounts.assert_sound();
        prop_assert!(model.iter().all(|(id, slot)| accounts.find(id) == Some(*slot)));
    }
}
