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
    let mut second = std::ptr::null();
    for n in 0..3 * CHUNK_ACCOUNTS as u32 {
        assert_eq!(accounts.push(account(&format!("wallet:{n}"))), AccountSlot(n));
        if n as usize == CHUNK_ACCOUNTS {
            second = std::ptr::from_ref(accounts.get(AccountSlot(n)).expect("just pushed"));
        }
    }
    accounts.assert_sound();
    let there: *const Account = accounts.get(AccountSlot(CHUNK_ACCOUNTS as u32)).expect("pushed");
    assert_eq!(there, second);
    assert_eq!(accounts.find("wallet:9000"), Some(AccountSlot(9_000)));
    assert_eq!(accounts.find("wallet:x"), None);
    let range: Vec<u32> = accounts.range(4_094, 4).map(|(slot, _)| slot.0).collect();
    assert_eq!(range, [4_094, 4_095, 4_096, 4_097]);
    assert_eq!(accounts.range(u32::MAX, 9).count(), 0);
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
