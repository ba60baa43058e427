//! What the ledger machine costs, in nanoseconds of processor time: no journal, no index, one core (Linux only).
//!
//! `cargo run --release -p tidegate-machines --example ledger_speed`

mod speed;

use std::hint::black_box;

use speed::{cpu_ns, report};
use tidegate_machines::ledger::{AccountKind, Command, Event, Guess, Hold, Ledger, Transfer, id_hash, id_hash_keyed};
use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};

const ACCOUNTS: usize = 10_000;
const TRANSFERS: usize = 4_000_000;
const HOLDS: usize = 1_000_000;
/// Snapshots written and read: the clock of processor time is too coarse for one.
const SNAPSHOTS: usize = 50;
/// Holds that are open at once.
const HOLDS_OPEN: usize = 100_000;

/// The part of a journal that the machine needs: records and where they stand.
struct Records {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Records {
    fn append(&mut self, ledger: &mut Ledger, command: &Command<'_>, prior: Option<&Event<'_>>) {
        let Decision::Append { event, .. } = Machine::decide(ledger, command, prior, TimeMs(1_800_000_000_000)) else {
            panic!("{command:?} was not applied");
        };
        Ledger::encode(&event, &mut self.bytes);
        Machine::apply(ledger, &event, place(self.bytes.len(), self.ends.len()));
        self.ends.push(self.bytes.len());
    }
}

fn place(end: usize, sequence: usize) -> Place {
    Place { position: RecordPosition(end as u64), sequence: RecordSequence(sequence as u64) }
}

fn main() {
    let mut ledger = Ledger::new(ShardIndex(0), 1);
    // Memory is touched before, as a shard's recycled group buffers are.
    let mut records = Records { bytes: vec![1; 500_000_000], ends: vec![1; 8_000_000] };
    records.bytes.truncate(1);
    records.ends.truncate(1);
    let wallets: Vec<String> = (0..ACCOUNTS).map(|n| format!("wallet:{n}")).collect();
    let ids: Vec<String> = (0..TRANSFERS).map(|n| format!("{:016x}", n as u64 * 0x9e37_79b9_7f4a_7c15)).collect();
    records.append(
        &mut ledger,
        &Command::OpenAccount { id: "source", asset: "credit", kind: AccountKind::Source },
        None,
    );
    for (n, wallet) in wallets.iter().enumerate() {
        records.append(
            &mut ledger,
            &Command::OpenAccount { id: wallet, asset: "credit", kind: AccountKind::Wallet },
            None,
        );
        let (id, memo) = (format!("fund:{n}"), "");
        let transfer =
            Transfer { id: &id, debit: "source", credit: wallet, amount: 1 << 40, memo, label: Default::default() };
        records.append(&mut ledger, &Command::Transfer { transfer, credit_missing: false, guess: Guess::NONE }, None);
    }

    let mut random = 88_172_645_463_325_252_u64;
    let mut pick = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 32) as usize % ACCOUNTS
    };
    let pairs: Vec<(usize, usize)> = (0..TRANSFERS)
        .map(|_| (pick(), pick()))
        .map(|(a, b)| (a, if a == b { (b + 1) % ACCOUNTS } else { b }))
        .collect();

    let before = records.bytes.len();
    let begun = cpu_ns();
    for (id, &(debit, credit)) in ids.iter().zip(&pairs) {
        let transfer = Transfer {
            id,
            debit: &wallets[debit],
            credit: &wallets[credit],
            amount: 10,
            memo: "",
            label: Default::default(),
        };
        records.append(&mut ledger, &Command::Transfer { transfer, credit_missing: false, guess: Guess::NONE }, None);
    }
    report("decide, encode, apply a transfer", begun, TRANSFERS);
    println!("{:>10.1} bytes a transfer", (records.bytes.len() - before) as f64 / TRANSFERS as f64);

    let begun = cpu_ns();
    for (id, &(debit, credit)) in ids.iter().zip(&pairs) {
        let transfer = Transfer {
            id,
            debit: &wallets[debit],
            credit: &wallets[credit],
            amount: 10,
            memo: "",
            label: Default::default(),
        };
        let command = Command::Transfer { transfer, credit_missing: false, guess: Guess::NONE };
        black_box(Machine::decide(&ledger, &command, None, TimeMs(0)));
    }
    report("decide alone", begun, TRANSFERS);

    let mut replayed = Ledger::new(ShardIndex(0), 1);
    let begun = cpu_ns();
    for (nth, window) in records.ends.windows(2).enumerate() {
        let event = Ledger::decode(&records.bytes[window[0]..window[1]]).expect("encoded above");
        Machine::apply_checked(&mut replayed, &event, place(window[1], nth + 1)).expect("decided above");
    }
    report("replay: decode, apply a record", begun, records.ends.len());

    let begun = cpu_ns();
    for id in &ids {
        black_box(id_hash(id));
    }
    report("hash of an id of 16 bytes", begun, TRANSFERS);
    let begun = cpu_ns();
    for id in &ids {
        black_box(id_hash_keyed(id, [1, 2]));
    }
    report("keyed hash of an id of 16 bytes", begun, TRANSFERS);

    let hold_ids: Vec<String> = (0..HOLDS).map(|n| format!("hold:{n:011}")).collect();
    let placed: Vec<usize> = (records.ends.len() - 1..).take(HOLDS).collect();
    let begun = cpu_ns();
    for n in 0..HOLDS + HOLDS_OPEN {
        if n < HOLDS {
            let (debit, credit) = (&wallets[pairs[n].0], &wallets[pairs[n].1]);
            let hold = Hold {
                id: &hold_ids[n],
                debit,
                credit,
                amount: 10,
                expires_in_ms: 60_000,
                memo: "",
                label: Default::default(),
            };
            records.append(
                &mut ledger,
                &Command::PlaceHold { hold, credit_missing: false, open_holds_max: u32::MAX },
                None,
            );
        }
        if n >= HOLDS_OPEN {
            // While both are asked for, a placement is every second record.
            let nth = n - HOLDS_OPEN;
            let record = if nth < HOLDS_OPEN { placed[nth] } else { placed[HOLDS_OPEN] + 2 * (nth - HOLDS_OPEN) };
            let bytes = records.bytes[records.ends[record]..records.ends[record + 1]].to_vec();
            let prior = Ledger::decode(&bytes).expect("encoded above");
            records.append(&mut ledger, &Command::PostHold { id: &hold_ids[nth], amount: None }, Some(&prior));
        }
    }
    report("place and post a hold", begun, HOLDS);

    let mut bytes = Vec::new();
    let begun = cpu_ns();
    for _ in 0..SNAPSHOTS {
        bytes.clear();
        ledger.write_snapshot(&mut |chunk| bytes.extend_from_slice(chunk));
    }
    report("write an account to a snapshot", begun, SNAPSHOTS * ACCOUNTS);
    let begun = cpu_ns();
    for _ in 0..SNAPSHOTS {
        black_box(Ledger::read_snapshot(&bytes).expect("written above"));
    }
    report("read an account of a snapshot", begun, SNAPSHOTS * ACCOUNTS);
}
