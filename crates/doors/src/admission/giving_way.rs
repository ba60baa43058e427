//! Connections of all workers that may give way to new ones, as counts: which worker is to end one of its own.
//!
//! ```text
//!   worker 0 │ may give way: 7 │ asked to: 0
//!   worker 1 │ may give way: 9 │ asked to: 1     a client comes to a full door ─▶ worker 1 is asked to end one
//! ```
//!
//! Promise: a step costs as much as there are workers and listeners, whatever number of connections there is; and only
//! where a door is full. Whoever is asked looks at its count in each of its turns, so within 20 ms.
//!
//! Why counts: each worker alone knows its connections, without a lock. The kernel chooses the worker that accepts a
//! client, and edge threads let clients of WebSockets in, which have no connections of their own here.
//!
//! A count may be that of a moment ago. Then a worker is asked that has none any more, and the door has one client more
//! than it may until somebody leaves.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::ListenerIndex;

/// What connections of all workers may give way, and how many were asked to.
pub struct GivingWay {
    listeners: usize,
    /// Worker after worker, one for each listener.
    counts: Box<[Counts]>,
}

/// Those of one worker and listener.
#[derive(Default)]
struct Counts {
    may: AtomicUsize,
    asked: AtomicUsize,
}

impl Counts {
    fn left(&self) -> usize {
        self.may.load(Ordering::Relaxed).saturating_sub(self.asked.load(Ordering::Relaxed))
    }
}

impl GivingWay {
    /// None, of so many workers and listeners.
    pub fn new(workers: u16, listeners: usize) -> GivingWay {
        GivingWay { listeners, counts: (0..usize::from(workers) * listeners).map(|_| Counts::default()).collect() }
    }

    /// One more connection of a worker may give way.
    pub fn join(&self, worker: u16, listener: ListenerIndex) {
        self.of(worker, listener).may.fetch_add(1, Ordering::Relaxed);
    }

    /// One may not any more, or is gone.
    pub fn leave(&self, worker: u16, listener: ListenerIndex) {
        self.of(worker, listener).may.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many of its connections by this listener a worker has been asked to end since it was last asked this.
    pub fn take_asked(&self, worker: u16, listener: ListenerIndex) -> usize {
        let asked = &self.of(worker, listener).asked;
        // Nearly always there is nothing, and reading costs the other threads nothing.
        if asked.load(Ordering::Relaxed) == 0 { 0 } else { asked.swap(0, Ordering::Relaxed) }
    }

    /// Whether a worker is asked to end one.
    pub fn is_asked(&self, worker: u16, listener: ListenerIndex) -> bool {
        self.of(worker, listener).asked.load(Ordering::Relaxed) > 0
    }

    /// Asks for one connection of this listener. `worker` is who asks: it is asked itself unless another one has more
    /// than twice as many, because it can do so at once. With `at_once` no other is asked. Whether there is one.
    pub(super) fn ask_one_of(&self, listener: ListenerIndex, worker: Option<u16>, at_once: bool) -> bool {
        self.ask(worker, at_once, |of| of % self.listeners == usize::from(listener.0))
    }

    /// The same of any listener.
    pub(super) fn ask_one(&self, worker: Option<u16>, at_once: bool) -> bool {
        self.ask(worker, at_once, |_| true)
    }

    fn ask(&self, worker: Option<u16>, at_once: bool, may_be_asked: impl Fn(usize) -> bool) -> bool {
        let most = |own_only: bool| {
            let is_own = |at: usize| worker.is_some_and(|worker| at / self.listeners == usize::from(worker));
            let asked = (0..self.counts.len()).filter(|at| may_be_asked(*at) && (!own_only || is_own(*at)));
            asked.map(|at| (self.counts[at].left(), at)).max().filter(|(left, _)| *left > 0)
        };
        let Some((most_left, any)) = most(at_once) else { return false };
        let own = most(true).filter(|(left, _)| left * 2 >= most_left).map(|(_, at)| at);
        self.counts[own.unwrap_or(any)].asked.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn of(&self, worker: u16, listener: ListenerIndex) -> &Counts {
        &self.counts[usize::from(worker) * self.listeners + usize::from(listener.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: ListenerIndex = ListenerIndex(0);
    const TLS: ListenerIndex = ListenerIndex(1);

    fn of_workers(counts: &[(u16, ListenerIndex, usize)]) -> GivingWay {
        let giving_way = GivingWay::new(3, 2);
        for (worker, listener, count) in counts {
            (0..*count).for_each(|_| giving_way.join(*worker, *listener));
        }
        giving_way
    }

    fn asked(giving_way: &GivingWay) -> [[usize; 2]; 3] {
        [0, 1, 2].map(|worker| [TCP, TLS].map(|listener| giving_way.take_asked(worker, listener)))
    }

    #[test]
    fn a_worker_asks_itself_unless_another_has_far_more() {
        let giving_way = of_workers(&[(0, TCP, 3), (1, TCP, 6), (2, TLS, 50)]);
        assert!(giving_way.ask_one_of(TCP, Some(0), false));
        assert_eq!(asked(&giving_way), [[1, 0], [0, 0], [0, 0]]);
        giving_way.leave(0, TCP);
        assert!(giving_way.ask_one_of(TCP, Some(0), false) && giving_way.ask_one_of(TCP, None, false));
        assert_eq!(asked(&giving_way), [[0, 0], [2, 0], [0, 0]]);
        assert!(giving_way.ask_one(Some(0), false), "of any listener");
        assert_eq!(asked(&giving_way), [[0, 0], [0, 0], [0, 1]]);
        assert!(giving_way.ask_one_of(TCP, Some(0), true) && !giving_way.ask_one_of(TLS, Some(0), true));
        assert_eq!(asked(&giving_way), [[1, 0], [0, 0], [0, 0]], "at once it can ask itself only");
    }

    #[test]
    fn nobody_is_asked_for_more_than_there_are() {
        let giving_way = of_workers(&[(1, TCP, 2), (1, TLS, 1)]);
        assert_eq!((0..10).filter(|_| giving_way.ask_one_of(TCP, Some(0), false)).count(), 2);
        assert_eq!((0..10).filter(|_| giving_way.ask_one(None, false)).count(), 1);
        assert_eq!(asked(&giving_way), [[0, 0], [2, 1], [0, 0]]);
        assert_eq!(asked(&giving_way), [[0, 0]; 3], "once");
    }
}
