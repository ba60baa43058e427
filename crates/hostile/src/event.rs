//! A record of the journal, decoded as an event and folded. Each event has one encoding, and no record can break the
//! ledger's rules.

use std::sync::LazyLock;
use tidegate_machines::ledger::{AccountKind, Command, Event, Guess, Ledger, Transfer};
use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};

const NOW: TimeMs = TimeMs(1_000_000);

/// A small ledger and its journal, as bytes of events.
pub struct Sample {
    /// After all events.
    pub ledger: Ledger,
    /// In order.
    pub events: Vec<Vec<u8>>,
}

/// A shop, a wallet and a candidate; credits bought, a vote, and a refusal; at last the time is mended.
pub static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let transfer = |id, debit, credit, amount| Command::Transfer {
        transfer: Transfer { id, debit, credit, amount, memo: "a memo", label: Default::default() },
        credit_missing: false,
        guess: Guess::NONE,
    };
    let open = |id, kind| Command::OpenAccount { id, asset: "credit", kind };
    let mut sample = Sample { ledger: Ledger::new(ShardIndex(0), 1), events: Vec::new() };
    for command in [
        open("source:shop", AccountKind::Source),
        open("wallet:dave", AccountKind::Wallet),
        open("candidate:1", AccountKind::Collector),
        transfer("buy", "source:shop", "wallet:dave", 10),
        transfer("vote", "wallet:dave", "candidate:1", 3),
        transfer("too much", "wallet:dave", "candidate:1", 30),
    ] {
        let bytes = match sample.ledger.decide(&command, None, NOW) {
            Decision::Append { event, .. } => {
                let mut bytes = Vec::new();
                event.encode(&mut bytes);
                bytes
            }
            other => panic!("{command:?} journals nothing: {other:?}"),
        };
        sample.append(bytes);
    }
    let mut bytes = Vec::new();
    sample.ledger.mend_time(TimeMs(NOW.0 - 5_000), "the clock was ahead").encode(&mut bytes);
    sample.append(bytes);
    sample
});

impl Sample {
    fn append(&mut self, bytes: Vec<u8>) {
        let at = next_place(&self.ledger);
        self.ledger.apply(&Event::decode(&bytes).expect("what was encoded decodes"), at);
        self.events.push(bytes);
    }
}

/// Records have a hundred bytes each.
fn next_place(ledger: &Ledger) -> Place {
    let position = ledger.position().0 + 100;
    Place { position: RecordPosition(position), sequence: RecordSequence(position / 100) }
}

/// Decodes, encodes again, and folds into the ledger of [`SAMPLE`].
pub fn check(bytes: &[u8]) {
    let Ok(event) = Event::decode(bytes) else { return };
    let mut again = Vec::new();
    event.encode(&mut again);
    assert_eq!(again, bytes, "{event:?} has two forms");

    let mut snapshot = Vec::new();
    SAMPLE.ledger.write_snapshot(&mut |part| snapshot.extend_from_slice(part));
    let mut ledger = Ledger::decode_snapshot(&snapshot).expect("our own snapshot");
    let at = next_place(&ledger);
    if ledger.apply_checked(&event, at).is_ok() {
        ledger.assert_sound();
        for totals in ledger.totals() {
            assert_eq!(totals.imbalance(), 0, "{event:?} made or lost money");
        }
        let wallet = ledger.account("wallet:dave").expect("accounts are for ever");
        assert!(wallet.available() >= 0, "{event:?} overdrew a wallet");
    }
}
