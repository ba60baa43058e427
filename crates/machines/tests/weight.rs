//! What a shard of topics says that it takes, compared with what it asks of the allocator. A test binary of its own,
//! with one test: whatever else runs would be counted, too.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_machines::topic::{
    Command, InboxLimits, Kept, Message, MessageMeta, Principal, Receiver, Slot, Topics, entry_bytes,
};
use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};

const NOW: TimeMs = TimeMs(1_800_000_000_000);
const SESSIONS: u32 = 12;

static BYTES: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, counting pieces as large as size classes make them: the next of eight steps in a doubling.
struct Counting;

fn class(layout: Layout) -> u64 {
    let bytes = layout.size().next_multiple_of(8);
    let step = (bytes.next_power_of_two() / 16).max(if bytes > 8 { 16 } else { 8 });
    bytes.next_multiple_of(step) as u64
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(class(layout), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES.fetch_sub(class(layout), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Shard(Topics, u64);

impl Shard {
    fn run(&mut self, command: &Command) {
        let Decision::Append { event, .. } = Machine::decide(&self.0, command, &InboxLimits::default(), NOW) else {
            panic!("{command:?} is refused")
        };
        self.1 += 1;
        let place = Place { position: RecordPosition(64 * self.1), sequence: RecordSequence(self.1) };
        Machine::apply(&mut self.0, &event, place);
    }

    /// One with sessions, whose clients are away.
    fn with_sessions() -> Shard {
        let mut shard = Shard(Topics::new(ShardIndex(0)), 0);
        for n in 0..SESSIONS {
            let (client_id, owner) = (format!("c{n}").into(), Some(owner()));
            shard.run(&Command::OpenSession { client_id, owner, expiry_s: 1000, will: None });
        }
        shard
    }

    fn queue(&mut self, message: Arc<Message>, slots: std::ops::Range<u32>, ids: &[u32]) {
        let receiver = |n| Receiver { slot: Slot(n), qos: 1, retain: false, subscription_ids: ids.into() };
        let receivers = slots.map(receiver).collect();
        self.run(&Command::Publish { message, receivers, origin: None, unheeded: [].into() });
    }

    fn queued_bytes(&self) -> u64 {
        (0..SESSIONS).map(|n| self.0.inbox(Slot(n)).memory_bytes()).sum()
    }

    fn retained_bytes(&self) -> u64 {
        self.0.retained().map(|message| Kept::memory_bytes(message, &owner())).sum()
    }

    /// As after a restart, with what the allocator gave for it.
    fn restored(&self) -> (Shard, u64) {
        let mut body = Vec::new();
        Machine::write_snapshot(&self.0, &mut |part| body.extend_from_slice(part));
        let before = taken();
        let topics = <Topics as Machine>::read_snapshot(&body).expect("what was written is read");
        (Shard(topics, self.1), taken() - before)
    }
}

fn owner() -> Principal {
    Principal::service("sensors")
}

fn taken() -> u64 {
    BYTES.load(Ordering::Relaxed)
}

fn message(n: u32, payload: usize, expires_at: Option<TimeMs>) -> Arc<Message> {
    let meta = MessageMeta { qos: 1, retain: false, expires_at };
    Arc::new(Message::new(&format!("q/{n}"), b"", &vec![b'x'; payload], meta))
}

/// Not less than it takes, and not much more.
fn assert_near(what: &str, counted: u64, took: u64, at_most: f64) {
    let ratio = counted as f64 / took as f64;
    println!("{what}: {counted} counted, {took} taken, {ratio:.2}");
    assert!((0.95..at_most).contains(&ratio), "{what}: {counted} bytes are counted, {took} are taken");
}

#[test]
fn what_is_counted_is_what_memory_gives() {
    let expiry = Some(TimeMs(NOW.0 + 1_000_000));
    for (payload, expires_at, ids) in [
        (1, None, &[][..]),
        (100, None, &[]),
        (1024, None, &[]),
        (1, expiry, &[]),
        (1, None, &[1, 2, 3, 4, 5, 6, 7, 8]),
    ] {
        let mut shard = Shard::with_sessions();
        let before = taken();
        for n in 0..SESSIONS * 1500 {
            shard.queue(message(n, payload, expires_at), n % SESSIONS..n % SESSIONS + 1, ids);
        }
        let what = format!("{payload} bytes, {expires_at:?}, {} ids", ids.len());
        assert_near(&what, shard.queued_bytes(), taken() - before, 1.3);
        let (restored, took) = shard.restored();
        assert_near(&format!("{what}, restored"), restored.queued_bytes(), took, 1.3);
        if expires_at.is_none() && ids.is_empty() {
            let asked = u64::from(SESSIONS) * 1500 * entry_bytes(payload + 6);
            assert_near(&format!("{what}, asked for"), asked, took, 1.3);
        }
        // All but the last of each go: what is left is paid for.
        for n in 0..SESSIONS * 1499 {
            shard.run(&Command::Acknowledge { slot: Slot(n % SESSIONS), number: u64::from(n / SESSIONS) });
        }
        let left = shard.queued_bytes() / u64::from(SESSIONS);
        assert!(left < 4096 + 2 * payload as u64, "{left} bytes for one entry of each");
    }
    for payload in [1, 100, 1024] {
        let mut shard = Shard(Topics::new(ShardIndex(0)), 0);
        let before = taken();
        for n in 0..20_000 {
            shard.run(&Command::Retain { message: message(n, payload, None), owner: Some(owner()) });
        }
        // An owner's name is shared until the next start.
        assert_near(&format!("{payload} bytes retained"), shard.retained_bytes(), taken() - before, 1.5);
        let (restored, took) = shard.restored();
        assert_near(&format!("{payload} bytes retained, restored"), restored.retained_bytes(), took, 1.3);
    }
}
