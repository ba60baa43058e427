//! The rings between the threads of a node: which thread can send to which, and how a sleeping thread is woken.
//!
//! ```text
//!              worker 0 ◀──▶ worker 1            every worker with every other
//!               ▲  ▲  ▲      ▲  ▲  ▲
//!               │  │  └──────┼──┼──┴─── background threads (auditor, seeds)
//!            edge 0 └────────┘  └── edge 1       those that are not workers talk to workers only
//! ```
//!
//! Invariant: no thread waits here. A parcel that finds its ring full stays with its sender and is sent first next
//! time. The number of such parcels is bounded, because every endpoint bounds its requests in flight.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use tidegate_rings::limits::RING_MESSAGES;
use tidegate_rings::ring::{Consumer, Producer, SleepFlag, ring};

use crate::address::{Address, EndpointIndex, Envelope};

type Wake = Box<dyn Fn() + Send + Sync>;

/// How one thread sleeps, and how others wake it.
#[derive(Default)]
pub struct Parker {
    flag: SleepFlag,
    wake: OnceLock<Wake>,
}

impl Parker {
    /// Wakes the thread if it sleeps. Cheap if it does not.
    pub fn wake(&self) {
        self.flag.wake(|| {
            if let Some(wake) = self.wake.get() {
                wake();
            }
        });
    }

    /// Says how to wake the thread; the first call counts.
    pub fn set_wake(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }
}

/// One thread's ends of its rings, which carry parcels with bodies of type `P`.
pub struct Endpoint<P> {
    index: EndpointIndex,
    to: Vec<Option<Outlet<P>>>,
    from: Vec<Consumer<Envelope<P>>>,
    parker: Arc<Parker>,
}

/// The way to one other endpoint.
struct Outlet<P> {
    ring: Producer<Envelope<P>>,
    waiting: VecDeque<Envelope<P>>,
    parker: Arc<Parker>,
    /// Something was pushed since the receiver was last woken.
    pushed: bool,
}

impl<P: Send> Outlet<P> {
    fn send(&mut self, envelope: Envelope<P>) {
        if self.waiting.is_empty() {
            match self.ring.push(envelope) {
                Ok(()) => self.pushed = true,
                Err(envelope) => self.waiting.push_back(envelope),
            }
        } else {
            self.waiting.push_back(envelope);
        }
    }

    fn send_waiting(&mut self) {
        while let Some(envelope) = self.waiting.pop_front() {
            if let Err(envelope) = self.ring.push(envelope) {
                self.waiting.push_front(envelope);
                break;
            }
            self.pushed = true;
        }
    }
}

/// Makes the endpoints of `workers` workers, then those of `others`, all connected.
pub fn mesh<P: Send>(workers: u16, others: u16) -> Vec<Endpoint<P>> {
    let count = workers + others;
    let mut endpoints: Vec<Endpoint<P>> = (0..count)
        .map(|index| Endpoint {
            index: EndpointIndex(index),
            to: (0..count).map(|_| None).collect(),
            from: Vec::new(),
            parker: Arc::default(),
        })
        .collect();
    for from in 0..count {
        for to in (0..count).filter(|to| *to != from && (from < workers || *to < workers)) {
            let (producer, consumer) = ring(RING_MESSAGES);
            let parker = endpoints[to as usize].parker.clone();
            let outlet = Outlet { ring: producer, waiting: VecDeque::new(), parker, pushed: false };
            endpoints[from as usize].to[to as usize] = Some(outlet);
            endpoints[to as usize].from.push(consumer);
        }
    }
    endpoints
}

impl<P: Send> Endpoint<P> {
    /// Which endpoint this is.
    pub fn index(&self) -> EndpointIndex {
        self.index
    }

    /// How it sleeps.
    pub fn parker(&self) -> &Arc<Parker> {
        &self.parker
    }

    /// Sends a parcel to a member of another endpoint. The receiver is woken by [`Endpoint::wake_receivers`].
    #[inline]
    pub fn send(&mut self, from: Address, to: Address, body: P) {
        self.outlet(to.endpoint).send(Envelope { from, to: to.member, body });
    }

    /// Sends what found no room before, and wakes the receivers of what was sent since the last call, if they sleep.
    pub fn wake_receivers(&mut self) {
        for outlet in self.to.iter_mut().flatten() {
            if !outlet.waiting.is_empty() {
                outlet.send_waiting();
            }
            if std::mem::take(&mut outlet.pushed) {
                outlet.parker.wake();
            }
        }
    }

    /// Whether the next parcel to `to` goes into the ring at once.
    pub fn has_room(&mut self, to: EndpointIndex) -> bool {
        let outlet = self.outlet(to);
        outlet.waiting.is_empty() && !outlet.ring.is_full()
    }

    fn outlet(&mut self, to: EndpointIndex) -> &mut Outlet<P> {
        self.to[usize::from(to.0)].as_mut().expect("parcels go to endpoints that this one is connected with")
    }

    /// How many rings lead to this endpoint.
    pub fn rings(&self) -> usize {
        self.from.len()
    }

    /// Takes the next parcel of one ring.
    #[inline]
    pub fn take_from(&mut self, ring: usize) -> Option<Envelope<P>> {
        self.from[ring].pop()
    }

    /// Takes the parcels that are there, at most one ring's worth from each sender. Returns whether there were any.
    pub fn receive(&mut self, mut take: impl FnMut(Envelope<P>)) -> bool {
        let mut any = false;
        for ring in &mut self.from {
            for _ in 0..RING_MESSAGES {
                let Some(envelope) = ring.pop() else { break };
                any = true;
                take(envelope);
            }
        }
        any
    }

    /// Announces sleep, unless there is something to do. After `true`, sleep, then call [`Endpoint::awake`].
    #[must_use = "true means sleep, false means serve"]
    pub fn sleep_unless(&self, has_work: impl FnOnce() -> bool) -> bool {
        let stuck = self.to.iter().flatten().any(|outlet| !outlet.waiting.is_empty());
        !stuck && self.parker.flag.sleep_unless(|| self.from.iter().any(|ring| !ring.is_empty()) || has_work())
    }

    /// Ends a sleep.
    pub fn awake(&self) {
        self.parker.flag.awake();
    }

    /// Parcels waiting in rings to this endpoint.
    pub fn depth(&self) -> usize {
        self.from.iter().map(Consumer::len).sum()
    }
}

#[cfg(test)]
mod tests;
