//! What a subscription and a retained topic cost one worker, counted at the allocator: `cargo run --release --example
//! trie_memory`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use tidegate_broker::SessionIndex;
use tidegate_broker::retained::{Retainable, Retained};
use tidegate_broker::subscriptions::{Entry, Subscriptions};

/// The system's allocator, counting.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static IS_FIRST: AtomicBool = AtomicBool::new(true);

// SAFETY: each call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`, and what `alloc` gave is the system's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    println!(
        "{:<58} {:>9} {:>7} {:>7} {:>8}",
        "filters, one subscription each unless said", "count", "bytes", "peak", "resident"
    );
    let uuid = |n: u32| format!("user/{:08x}-1c3a-4f0e-9d2b-{:012x}", n.wrapping_mul(0x9E37_79B9), n);
    subscriptions("bench/idle/000123", 2_000_000, |n| format!("bench/idle/{n:06}"));
    subscriptions("bench/idle/000123, just after the table's round began", 2_200_000, |n| format!("bench/idle/{n:06}"));
    subscriptions("chat/inbox/user-000123", 2_000_000, |n| format!("chat/inbox/user-{n:06}"));
    subscriptions("user/{uuid}", 1_000_000, uuid);
    subscriptions("user/{uuid}/#", 1_000_000, |n| uuid(n) + "/#");
    subscriptions("site/+/dev-123456/temp", 1_000_000, |n| format!("site/+/dev-{n:06}/temp"));
    subscriptions("chat/room/123456, two subscribers each", 1_000_000, |n| format!("chat/room/{:06}", n / 2));
    subscriptions("chat/room/123456, ten subscribers each", 1_000_000, |n| format!("chat/room/{:06}", n / 10));
    subscriptions("news/today, a thousand times a thousand subscribers", 1_000_000, |n| {
        format!("news/{:06}", n / 1_000)
    });
    subscriptions("news/today, all on one filter", 1_000_000, |_| "news/today".into());
    subscriptions("1,000 subscriptions bench/idle/000123", 1_000, |n| format!("bench/idle/{n:06}"));
    retained("retained: site/7/dev-123456/temp", 1_000_000, |n| format!("site/7/dev-{n:06}/temp"));
    retained("retained: site/dev-123456", 1_000_000, |n| format!("site/dev-{n:06}"));
}

fn subscriptions(what: &str, count: u32, filter: impl Fn(u32) -> String) {
    measure(what, count, || {
        let mut all = Subscriptions::new(1);
        for session in 0..count {
            all.insert(
                None,
                &filter(session),
                Entry { session: SessionIndex::new(session), worker: (session % 2) as u8, ..Entry::default() },
            );
        }
        all
    });
}

/// A message of which only the pointer to it is counted, as the tree holds it.
struct Pointer(&'static Text);

/// What a thin pointer can point to.
struct Text(&'static str);

static TEXT: Text = Text("21.5");

impl Retainable for Pointer {
    fn expires_at_ms(&self) -> Option<u64> {
        None
    }

    fn bytes(&self) -> usize {
        self.0.0.len()
    }
}

fn retained(what: &str, count: u32, topic: impl Fn(u32) -> String) {
    measure(what, count, || {
        let mut all = Retained::new(1);
        for nth in 0..count {
            all.set(&topic(nth), Pointer(&TEXT));
        }
        all
    });
}

fn measure<T>(what: &str, count: u32, make: impl FnOnce() -> T) {
    let (before, resident) = (NOW.load(Relaxed), resident_bytes());
    PEAK.store(before, Relaxed);
    let made = make();
    let each = |bytes: usize| bytes as f64 / f64::from(count);
    let (now, peak) = (NOW.load(Relaxed) - before, PEAK.load(Relaxed) - before);
    // Later cases live in memory that earlier ones gave back: only the first says what the system gave for it.
    let is_first = IS_FIRST.swap(false, Relaxed);
    let grown = if is_first { format!("{:.1}", each(resident_bytes() - resident)) } else { "-".into() };
    println!("{what:<58} {count:>9} {:>7.1} {:>7.1} {grown:>8}", each(now), each(peak));
    drop(made);
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}
