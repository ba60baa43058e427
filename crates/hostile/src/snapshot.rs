//! A snapshot's file, and its body alone, since raw bytes rarely pass the file's hash.

use tidegate_ledger::LEDGER;
use tidegate_machines::ledger::Ledger;
use tidegate_shard::snapshot;

/// Decodes both; a ledger that comes out of it keeps its rules and can be written and read again.
pub fn check(bytes: &[u8]) {
    if let Ok((_, body)) = snapshot::check(bytes, LEDGER.log(7, 0), &[7; 32]) {
        let _ = Ledger::decode_snapshot(body);
    }
    let Ok(ledger) = Ledger::decode_snapshot(bytes) else { return };
    for totals in ledger.totals() {
        assert_eq!(totals.imbalance(), 0);
    }
    let mut again = Vec::new();
    ledger.write_snapshot(&mut |part| again.extend_from_slice(part));
    Ledger::decode_snapshot(&again).expect("what was read can be written and read again");
}
