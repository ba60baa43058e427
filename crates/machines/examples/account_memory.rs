//! What an account costs: memory by a counting allocator, and processor time to open, find and restore it (Linux only).
//!
//! `cargo run --release -p tidegate-machines --example account_memory [ACCOUNTS]`

mod speed;

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use speed::{cpu_ns, report};
use tidegate_machines::ledger::{AccountKind, AccountOrder, Command, Ledger};
use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};

struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let accounts: usize = std::env::args().nth(1).map_or(1_000_000, |text| text.parse().expect("a number of accounts"));
    let time = TimeMs(1_800_000_000_000);
    let ids: Vec<String> = (0..accounts).map(|n| format!("wallet:user-{:07}", n * 7_919 % accounts)).collect();
    let mut ledger = Ledger::new(ShardIndex(0), 1);
    let (before, begun, mut longest) = (BYTES.load(Ordering::Relaxed), cpu_ns(), 0);
    for (n, id) in ids.iter().enumerate() {
        let at = Instant::now();
        let command = Command::OpenAccount { id, asset: "credit", kind: AccountKind::Wallet };
        let Decision::Append { event, .. } = Machine::decide(&ledger, &command, None, time) else {
            panic!("{id} was not opened");
        };
        let place = Place { position: RecordPosition(64 * n as u64 + 64), sequence: RecordSequence(n as u64 + 1) };
        Machine::apply(&mut ledger, &event, place);
        longest = longest.max(at.elapsed().as_micros());
    }
    report("open an account", begun, accounts);
    println!("{longest:>10} us the longest of them");
    let bytes_of = |before: usize| (BYTES.load(Ordering::Relaxed) - before) as f64 / accounts as f64;
    println!("{:>10.1} bytes an account", bytes_of(before));

    let begun = cpu_ns();
    for id in ids.iter().rev() {
        black_box(ledger.slot(id));
    }
    report("find an account", begun, accounts);

    let (before, begun, mut longest) = (BYTES.load(Ordering::Relaxed), cpu_ns(), 0);
    let mut order = AccountOrder::default();
    loop {
        let at = Instant::now();
        let left = order.catch_up(&ledger, 2_048);
        longest = longest.max(at.elapsed().as_micros());
        if left == 0 {
            break;
        }
    }
    report("sort an account", begun, accounts);
    println!("{longest:>10} us the longest 2,048 of them");
    println!("{:>10.1} bytes an account in order", bytes_of(before));

    let (mut body, begun) = (Vec::new(), cpu_ns());
    ledger.write_snapshot(&mut |chunk| body.extend_from_slice(chunk));
    report("write an account to a snapshot", begun, accounts);
    println!("{:>10.1} bytes an account in a snapshot", body.len() as f64 / accounts as f64);
    let (before, begun) = (BYTES.load(Ordering::Relaxed), cpu_ns());
    let restored = Ledger::read_snapshot(&body).expect("written above");
    report("read an account of a snapshot", begun, accounts);
    println!("{:>10.1} bytes an account restored", bytes_of(before));
    black_box(restored);
}
