//! The threads of an edge: one that serves, and few beside it that wait for the disk.
//!
//! Why few: each keeps memory of what it has read last, whatever the bounds of what its readers hold. Without a bound
//! there were as many as readers at the same time: 64 slow readers of changes, among others that came and went, made a
//! server of 24 MiB one of 800.

use tokio::runtime::Builder;

/// Threads beside one that serves. What more is to be read waits for one of them.
const READING_THREADS_MAX: usize = 4;

/// A runtime that serves on the thread that runs it.
pub(crate) fn runtime() -> Builder {
    let mut runtime = Builder::new_current_thread();
    runtime.enable_time().max_blocking_threads(READING_THREADS_MAX).thread_name("reading");
    runtime
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};

    use super::*;

    #[test]
    fn no_more_than_some_read_at_once_and_the_others_get_their_turn() {
        let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let full = Arc::new(Barrier::new(READING_THREADS_MAX));
        let reads = 4 * READING_THREADS_MAX;
        runtime().build().unwrap().block_on(async {
            let read = || {
                let (at_once, most, full) = (at_once.clone(), most.clone(), full.clone());
                tokio::task::spawn_blocking(move || {
                    most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    // All threads are at work here, and none more.
                    full.wait();
                    at_once.fetch_sub(1, Ordering::SeqCst);
                })
            };
            for read in (0..reads).map(|_| read()).collect::<Vec<_>>() {
                read.await.unwrap();
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), READING_THREADS_MAX);
    }
}
