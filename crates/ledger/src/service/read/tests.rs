use std::path::Path;

use tidegate_disk::FakeDisk;
use tidegate_journal::{Position, Sequence};
use tidegate_machines::ledger::{AccountKind, Command};
use tidegate_machines::{Decision, Machine, Place, RecordSequence, ShardIndex, TimeMs};

use super::*;
use crate::family::LEDGER;
use crate::ids::{BuilderKind, IdIndex, IdSeed, IdsOptions};

#[test]
fn a_list_is_turned_away_until_the_accounts_of_a_rush_are_sorted() {
    let mut ledger = Ledger::new(ShardIndex(0), 1);
    let options = IdsOptions { builder: BuilderKind::Stepped, ..IdsOptions::new(IdSeed([1, 2]), LEDGER.log(1, 0)) };
    let ids = IdIndex::open(FakeDisk::new(1), Path::new("/ids"), options, Position(0), &mut |_, _| {});
    let mut service = LedgerService::new(&ledger, ids.expect("it is new").index, Sequence(0));
    let list = |service: &mut LedgerService<FakeDisk>, ledger: &Ledger| match service.list(ledger, "", None, 1) {
        Served::TurnedAway(reason) => Err(reason),
        _ => Ok(()),
    };
    assert_eq!(list(&mut service, &ledger), Ok(()));
    let sorted = ACCOUNTS_SORTED_PER_STEP;
    for number in 0..2 * u64::from(sorted) + 1 {
        let id = format!("wallet:{number}");
        let command = Command::OpenAccount { id: &id, asset: "credit", kind: AccountKind::Wallet };
        let Decision::Append { event, .. } = ledger.decide(&command, None, TimeMs(1_000)) else { panic!("{id}") };
        let (position, sequence) = (RecordPosition(64 * (number + 1)), RecordSequence(number + 1));
        ledger.apply(&event, Place { position, sequence });
    }
    assert_eq!([(); 3].map(|()| list(&mut service, &ledger)), [Err(Unavailable::Busy), Err(Unavailable::Busy), Ok(())]);
}
