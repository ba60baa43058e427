//! How far a log is durable, for threads that read what others write.
//!
//! ```text
//!   worker: advance ─▶ │ position, sequence │ ◀─ get : any thread
//!              └─ somebody has announced that it sleeps? ─▶ wake all listeners, once
//! ```
//!
//! Promise: a thread that announces sleep, looks once more and finds nothing new is woken by the next advance. Why not
//! a message for each reader: durable groups never change, so whoever knows where they end needs no worker to read
//! them, and a worker spends two stores on any number of readers.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use crate::store::Wake;
use crate::{Durability, Position, Sequence};

/// Who is woken when a mark advances. One for all marks of a family, because a reader mostly waits for all of them.
#[derive(Default)]
pub struct DurableListeners {
    /// Whether somebody has announced sleep since the last wake-up.
    announced: AtomicBool,
    /// Locked when a listener is added, and when one has announced sleep.
    wakes: Mutex<Vec<Wake>>,
}

impl DurableListeners {
    /// Nobody yet.
    pub fn new() -> Arc<DurableListeners> {
        Arc::default()
    }

    /// Has `wake` called after each announcement, when a mark has advanced; also after announcements of others.
    pub fn add(&self, wake: Wake) {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
    }

    /// Says that somebody is about to sleep. They look at the marks once more afterwards.
    pub fn announce(&self) {
        self.announced.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    fn wake_announced(&self) {
        // The mark was written before; see `announce`.
        fence(Ordering::SeqCst);
        if self.announced.load(Ordering::SeqCst) && self.announced.swap(false, Ordering::SeqCst) {
            self.wakes.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|wake| wake());
        }
    }
}

impl fmt::Debug for DurableListeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableListeners").field("announced", &self.announced).finish_non_exhaustive()
    }
}

/// Where the durable part of one log ends. Written by the one thread that owns the log, read by any.
#[derive(Debug)]
pub struct DurableMark {
    /// Odd while the two figures are being written.
    version: AtomicU64,
    position: AtomicU64,
    sequence: AtomicU64,
    listeners: Arc<DurableListeners>,
}

impl DurableMark {
    /// A mark at `durable`.
    pub fn new(durable: &Durability, listeners: Arc<DurableListeners>) -> DurableMark {
        DurableMark {
            version: AtomicU64::new(0),
            position: AtomicU64::new(durable.position().0),
            sequence: AtomicU64::new(durable.sequence().0),
            listeners,
        }
    }

    /// The log is durable up to `durable`. Called by one thread only, which owns the log.
    pub fn advance(&self, durable: &Durability) {
        let before = self.position.load(Ordering::Relaxed);
        if before == durable.position().0 {
            return;
        }
        assert!(before < durable.position().0, "what was durable cannot become undone");
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.position.store(durable.position().0, Ordering::Relaxed);
        self.sequence.store(durable.sequence().0, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
        self.listeners.wake_announced();
    }

    /// Where it ends.
    pub fn get(&self) -> Durability {
        loop {
            let before = self.version.load(Ordering::Acquire);
            let position = Position(self.position.load(Ordering::Relaxed));
            let sequence = Sequence(self.sequence.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                return Durability::unchained(position, sequence);
            }
            std::hint::spin_loop();
        }
    }

    /// Who is woken when it advances.
    pub fn listeners(&self) -> &Arc<DurableListeners> {
        &self.listeners
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn at(number: u64) -> Durability {
        Durability::unchained(Position(number * 100), Sequence(number))
    }

    #[test]
    fn a_reader_never_sees_half_of_an_advance() {
        let mark = Arc::new(DurableMark::new(&at(0), DurableListeners::new()));
        let written = mark.clone();
        let writer = std::thread::spawn(move || (1..=200_000).for_each(|number| written.advance(&at(number))));
        let mut last = 0;
        while last < 200_000 {
            let durable = mark.get();
            assert_eq!(durable.position().0, durable.sequence().0 * 100);
            assert!(durable.sequence().0 >= last, "it never goes back");
            last = durable.sequence().0;
        }
        writer.join().unwrap();
    }

    #[test]
    fn a_reader_waits_while_an_advance_is_under_way_and_every_advance_is_another_version() {
        let mark = Arc::new(DurableMark::new(&at(1), DurableListeners::new()));
        mark.version.store(1, Ordering::SeqCst);
        let reader = std::thread::spawn({
            let mark = mark.clone();
            move || mark.get()
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!reader.is_finished(), "the two figures may not belong together");
        mark.version.store(2, Ordering::SeqCst);
        assert_eq!(reader.join().unwrap(), at(1));
        for number in 2..5 {
            mark.advance(&at(number));
            // An advance that gave the version back would not be seen by a reader who began before it.
            assert_eq!(mark.version.load(Ordering::SeqCst), 2 * number);
        }
    }

    #[test]
    fn whoever_announces_sleep_is_woken_once_and_nobody_else() {
        let listeners = DurableListeners::new();
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        listeners.add(Arc::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        }));
        let mark = DurableMark::new(&at(0), listeners);
        mark.advance(&at(1));
        assert_eq!(woken.load(Ordering::SeqCst), 0, "nobody sleeps");
        mark.listeners().announce();
        mark.advance(&at(1));
        assert_eq!(woken.load(Ordering::SeqCst), 0, "nothing became durable");
        mark.advance(&at(2));
        mark.advance(&at(3));
        assert_eq!(woken.load(Ordering::SeqCst), 1);
    }
}
