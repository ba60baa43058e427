//! The rings between all threads that take part: who can send to whom, and how a sleeping one is woken.
//!
//! ```text
//!              worker 0 ◀──▶ worker 1            every worker with every other
//!               ▲  ▲  ▲      ▲  ▲  ▲
//!               │  │  └──────┼──┼──┴─── background (auditor, seeds)
//!            edge 0 └────────┘  └── edge 1       edges with workers, never with each other
//! ```
//!
//! Invariant: nobody waits here. A message that finds its ring full stays with its sender and goes first next time; how many can
//! is bounded, because every endpoint bounds its requests under way.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use tidegate_ledger::operation::EndpointIndex;
use tidegate_runtime::limits::RING_MESSAGES;
use tidegate_runtime::ring::{Consumer, Producer, SleepFlag, ring};

type Wake = Box<dyn Fn() + Send + Sync>;

/// Where one endpoint sleeps, and how others wake it.
#[derive(Default)]
pub struct Bed {
    flag: SleepFlag,
    wake: OnceLock<Wake>,
}

impl Bed {
    /// Wakes the sleeper if it sleeps. Cheap if it does not.
    pub fn wake(&self) {
        self.flag.wake(|| {
            if let Some(wake) = self.wake.get() {
                wake();
            }
        });
    }

    /// Says how to wake this endpoint; the first word counts.
    pub fn set_wake(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }
}

/// One thread's ends of its rings, which carry parcels of type `P`.
pub struct Endpoint<P> {
    index: EndpointIndex,
    to: Vec<Option<Outlet<P>>>,
    from: Vec<(EndpointIndex, Consumer<P>)>,
    bed: Arc<Bed>,
}

/// The way to one other endpoint.
struct Outlet<P> {
    ring: Producer<P>,
    waiting: VecDeque<P>,
    bed: Arc<Bed>,
}

/// Makes the endpoints of `workers` workers, then those of `others`, all connected.
pub fn mesh<P: Send>(workers: u16, others: u16) -> Vec<Endpoint<P>> {
    let count = workers + others;
    let mut endpoints: Vec<Endpoint<P>> = (0..count)
        .map(|index| Endpoint {
            index: EndpointIndex(index),
            to: (0..count).map(|_| None).collect(),
            from: Vec::new(),
            bed: Arc::default(),
        })
        .collect();
    for from in 0..count {
        for to in (0..count).filter(|to| *to != from && (from < workers || *to < workers)) {
            let (producer, consumer) = ring(RING_MESSAGES);
            let bed = endpoints[to as usize].bed.clone();
            endpoints[from as usize].to[to as usize] = Some(Outlet { ring: producer, waiting: VecDeque::new(), bed });
            endpoints[to as usize].from.push((EndpointIndex(from), consumer));
        }
    }
    endpoints
}

impl<P: Send> Endpoint<P> {
    /// Which endpoint this is.
    pub fn index(&self) -> EndpointIndex {
        self.index
    }

    /// Where it sleeps.
    pub fn bed(&self) -> &Arc<Bed> {
        &self.bed
    }

    /// Sends everything in `outgoing`, and what found no room before; wakes those who sleep.
    pub fn send<M: Into<P>>(&mut self, outgoing: &mut Vec<(EndpointIndex, M)>) {
        for (to, message) in outgoing.drain(..) {
            self.outlet(to).waiting.push_back(message.into());
        }
        for outlet in self.to.iter_mut().flatten() {
            let mut pushed = false;
            while let Some(message) = outlet.waiting.pop_front() {
                if let Err(message) = outlet.ring.push(message) {
                    outlet.waiting.push_front(message);
                    break;
                }
                pushed = true;
            }
            // Also for those alone that found the ring full before: their receiver may have slept since.
            if pushed {
                outlet.bed.wake();
            }
        }
    }

    /// Whether the next parcel to `to` goes into the ring at once.
    pub fn has_room(&mut self, to: EndpointIndex) -> bool {
        let outlet = self.outlet(to);
        outlet.waiting.is_empty() && !outlet.ring.is_full()
    }

    fn outlet(&mut self, to: EndpointIndex) -> &mut Outlet<P> {
        self.to[to.0 as usize].as_mut().expect("messages go to endpoints that this one is connected with")
    }

    /// Takes the parcels that are there, at most one ring's worth from each sender.
    pub fn receive(&mut self, mut take: impl FnMut(EndpointIndex, P)) -> bool {
        let mut any = false;
        for (from, ring) in &mut self.from {
            for _ in 0..RING_MESSAGES {
                let Some(parcel) = ring.pop() else { break };
                any = true;
                take(*from, parcel);
            }
        }
        any
    }

    /// Announces sleep, unless there is something to do. After `true`, sleep, then call [`Endpoint::awake`].
    pub fn sleep_unless(&self, has_work: impl FnOnce() -> bool) -> bool {
        let stuck = self.to.iter().flatten().any(|outlet| !outlet.waiting.is_empty());
        !stuck && self.bed.flag.sleep_unless(|| self.from.iter().any(|(_, ring)| !ring.is_empty()) || has_work())
    }

    /// Ends a sleep.
    pub fn awake(&self) {
        self.bed.flag.awake();
    }

    /// Messages waiting in rings to this endpoint.
    pub fn depth(&self) -> usize {
        self.from.iter().map(|(_, ring)| ring.len()).sum()
    }
}
