//! Bounded rings between two threads: each message that is pushed is popped once, in order, and neither side waits for
//! the other.
//!
//! ```text
//!                     tail ──────────▶ published by the producer, read by the consumer when its copy is used up
//!   Producer ─push─▶ [ · · x x x x · · ] ─pop─▶ Consumer
//!                     head ◀────────── published by the consumer, read by the producer when its copy says "full"
//! ```
//!
//! Why one producer and one consumer: then a push and a pop are a few plain instructions and no compare-and-swap. Each
//! side keeps a copy of the other's index, so that the cache line which the other writes is fetched once per lap, not
//! per message.
//!
//! Invariant: the elements in `head..tail` (wrapping) are initialised and belong to the consumer; all other places
//! belong to the producer. `head` is written only by the consumer, `tail` only by the producer, and neither overtakes
//! the other.

mod atomic;
mod sleep;
#[cfg(test)]
mod tests;

use std::mem::MaybeUninit;
use std::ops::Deref;

use atomic::{Arc, AtomicUsize, Ordering, UnsafeCell};

pub use sleep::SleepFlag;

/// Keeps what it holds on cache lines of its own. 128 bytes, because x86 fetches lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CachePadded<T>(T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

struct Shared<T> {
    head: CachePadded<AtomicUsize>,
    tail: CachePadded<AtomicUsize>,
    places: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a place is touched only by the side that owns it by the invariant above, and ownership moves with a release
// store and an acquire load of `head` or `tail`. Elements are moved from one thread to another, hence `T: Send`.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above; no two threads ever touch one place at the same time.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn place(&self, index: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.places[index & (self.places.len() - 1)]
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let (mut head, tail) = (self.head.load(Ordering::Relaxed), self.tail.load(Ordering::Relaxed));
        while head != tail {
            // SAFETY: both ends are gone (`&mut self`), and places in head..tail are initialised and not yet taken.
            self.place(head).with_mut(|place| unsafe { (*place).assume_init_drop() });
            head = head.wrapping_add(1);
        }
    }
}

/// The end of a ring that messages go into.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    tail: usize,
    head_seen: usize,
}

/// The end of a ring that messages come out of.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    head: usize,
    tail_seen: usize,
}

/// Makes a ring for `capacity` messages. Panics unless `capacity` is a power of two.
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    assert!(capacity.is_power_of_two(), "a ring's capacity is a power of two, not {capacity}");
    let places = (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let shared =
        Arc::new(Shared { head: CachePadded(AtomicUsize::new(0)), tail: CachePadded(AtomicUsize::new(0)), places });
    (Producer { shared: Arc::clone(&shared), tail: 0, head_seen: 0 }, Consumer { shared, head: 0, tail_seen: 0 })
}

impl<T: Send> Producer<T> {
    /// Puts `message` in; gives it back when the ring is full.
    pub fn push(&mut self, message: T) -> Result<(), T> {
        if self.is_full() {
            return Err(message);
        }
        self.shared.place(self.tail).with_mut(|place| {
            // SAFETY: the ring is not full, so this place is outside head..tail and ours; the acquire load of `head` in
            // `is_full` made sure that the consumer is done with it.
            unsafe { (*place).write(message) };
        });
        self.tail = self.tail.wrapping_add(1);
        self.shared.tail.store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Whether a push would be refused now.
    pub fn is_full(&mut self) -> bool {
        if self.tail.wrapping_sub(self.head_seen) < self.capacity() {
            return false;
        }
        self.head_seen = self.shared.head.load(Ordering::Acquire);
        self.tail.wrapping_sub(self.head_seen) == self.capacity()
    }

    /// Messages in the ring: at most so many, the consumer may be taking some.
    pub fn len(&self) -> usize {
        self.tail.wrapping_sub(self.shared.head.load(Ordering::Acquire))
    }

    /// Whether the consumer has taken all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many messages the ring has room for.
    pub fn capacity(&self) -> usize {
        self.shared.places.len()
    }

    /// Whether the consumer is gone: what is pushed will never be taken.
    pub fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }
}

impl<T: Send> Consumer<T> {
    /// Takes the oldest message.
    pub fn pop(&mut self) -> Option<T> {
        if self.head == self.tail_seen {
            self.tail_seen = self.shared.tail.load(Ordering::Acquire);
            if self.head == self.tail_seen {
                return None;
            }
        }
        let message = self.shared.place(self.head).with(|place| {
            // SAFETY: head != tail, so this place is initialised and ours; the acquire load of `tail` made its content
            // visible, and the store of `head` below gives the place back, so it is read only once.
            unsafe { (*place).assume_init_read() }
        });
        self.head = self.head.wrapping_add(1);
        self.shared.head.store(self.head, Ordering::Release);
        Some(message)
    }

    /// Messages in the ring: at least so many, the producer may be adding some.
    pub fn len(&self) -> usize {
        self.shared.tail.load(Ordering::Acquire).wrapping_sub(self.head)
    }

    /// Whether there is nothing to take. Looks at the producer's index, never at the copy, as [`SleepFlag`] needs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many messages the ring has room for.
    pub fn capacity(&self) -> usize {
        self.shared.places.len()
    }

    /// Whether the producer is gone: when the ring is empty too, nothing will ever come.
    pub fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }
}
