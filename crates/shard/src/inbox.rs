//! Calls that wait to be served: those of one caller in the order in which they came, and callers in turn.
//!
//! ```text
//!   caller a ─ call, call, call … ┐
//!   caller b ─ call               ├─▶ in turn: the caller's next calls, for a round's work ─▶ serve
//!   caller c ─ call, call         ┘
//! ```
//!
//! Promise: whoever calls waits for one round of each other caller, however many calls those have waiting: for
//! [`WORK_IN_ROUND`], or for one call that is worth more. Who was given more than a round is passed over until the
//! others have had as much. A caller that is alone waits for nobody.
//!
//! Why: in one queue a small call waits for all that others have under way; with eight full batches of a service that
//! was forty milliseconds. This is deficit round robin (Shreedhar and Varghese, 1995) with the work of a call in place
//! of the bytes of a packet.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::FixedState;

use crate::limits::{SPARE_LANES_MAX, WORK_IN_ROUND};

/// Whose call it is, as an owner numbers its callers. What writes is decided in the order in which it came, for each
/// caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller(pub u32);

impl Caller {
    /// The server itself, and all callers of a shard that does not distinguish them.
    pub const SERVER: Caller = Caller(0);
}

/// The calls of all callers.
#[derive(Debug)]
pub(crate) struct Inbox<C> {
    lanes: HashMap<Caller, Lane<C>, FixedState>,
    /// Work that a caller is given in a round.
    round: isize,
    /// Those who have a lane, in turn.
    order: VecDeque<Caller>,
    calls: usize,
    /// Empty queues, for callers that come.
    spare: Vec<VecDeque<Waiting<C>>>,
}

/// One caller's calls. There is one as long as it has calls, or was given more than a round while others wait.
#[derive(Debug)]
struct Lane<C> {
    calls: VecDeque<Waiting<C>>,
    /// Work that it is still given in this round; negative after a call that was worth more.
    left: isize,
}

/// A call, and how much work of it was not counted yet.
#[derive(Debug)]
struct Waiting<C> {
    call: C,
    work: usize,
}

impl<C> Default for Inbox<C> {
    fn default() -> Inbox<C> {
        Inbox::with_round(WORK_IN_ROUND)
    }
}

impl<C> Inbox<C> {
    /// With another round.
    pub fn with_round(round: isize) -> Inbox<C> {
        assert!(round > 0, "whoever waits is given something");
        Inbox { lanes: HashMap::default(), round, order: VecDeque::new(), calls: 0, spare: Vec::new() }
    }

    /// How many calls wait.
    pub fn len(&self) -> usize {
        self.calls
    }

    /// Takes a call that is worth so much work, behind all of its caller.
    pub fn push(&mut self, caller: Caller, work: usize, call: C) {
        self.lane(caller).calls.push_back(Waiting { call, work });
        self.calls += 1;
    }

    /// Takes a call back that was the next one and is not done, before all of its caller. All its work was counted.
    pub fn put_back(&mut self, caller: Caller, call: C) {
        self.lane(caller).calls.push_front(Waiting { call, work: 0 });
        self.calls += 1;
    }

    fn lane(&mut self, caller: Caller) -> &mut Lane<C> {
        let Inbox { lanes, round, order, spare, .. } = self;
        lanes.entry(caller).or_insert_with(|| {
            order.push_back(caller);
            Lane { calls: spare.pop().unwrap_or_default(), left: *round }
        })
    }

    /// The next call of the caller whose turn it is.
    pub fn take_next(&mut self) -> Option<C> {
        if self.calls == 0 {
            // Nobody waits, so nobody was given more than others wanted.
            while let Some(caller) = self.order.front().copied() {
                self.forget_first(caller);
            }
            return None;
        }
        loop {
            let caller = *self.order.front().expect("whoever waits has a turn");
            let is_alone = self.order.len() == 1;
            let lane = self.lanes.get_mut(&caller).expect("whoever has a turn has a lane");
            if is_alone {
                lane.left = lane.left.max(1);
            }
            if lane.left <= 0 {
                lane.left += self.round;
                self.order.rotate_left(1);
                continue;
            }
            let next = lane.calls.pop_front();
            lane.left -= next.as_ref().map_or(0, |next| next.work as isize);
            if lane.calls.is_empty() && lane.left > 0 {
                self.forget_first(caller);
            }
            if let Some(Waiting { call, .. }) = next {
                self.calls -= 1;
                return Some(call);
            }
        }
    }

    /// Forgets the caller whose turn it is, which has no calls.
    fn forget_first(&mut self, caller: Caller) {
        self.order.pop_front();
        let Lane { calls, .. } = self.lanes.remove(&caller).expect("whoever has a turn has a lane");
        assert!(calls.is_empty(), "no call is forgotten");
        if self.spare.len() < SPARE_LANES_MAX {
            self.spare.push(calls);
        }
    }
}

#[cfg(test)]
mod tests;
