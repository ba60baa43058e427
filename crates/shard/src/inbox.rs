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
//! others have had as much. A caller that is alone waits for nobody. A caller whose first call waits for a read has no
//! turn until that has come: its calls keep their order, and nobody else waits for it.
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
    /// Those who have a lane that is not held, in turn.
    order: VecDeque<Caller>,
    calls: usize,
    /// Of those, the ones of callers that are held.
    held_calls: usize,
    /// Empty queues, for callers that come.
    spare: Vec<VecDeque<Waiting<C>>>,
}

/// One caller's calls. There is one as long as it has calls, or was given more than a round while others wait.
#[derive(Debug)]
struct Lane<C> {
    calls: VecDeque<Waiting<C>>,
    /// Work that it is still given in this round; negative after a call that was worth more.
    left: isize,
    /// It has no turn before its first call may go on.
    is_held: bool,
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
        Inbox { lanes: HashMap::default(), round, order: VecDeque::new(), calls: 0, held_calls: 0, spare: Vec::new() }
    }

    /// How many calls wait, those of callers that are held included.
    pub fn len(&self) -> usize {
        self.calls
    }

    /// Takes a call that is worth so much work, behind all of its caller.
    pub fn push(&mut self, caller: Caller, work: usize, call: C) {
        let lane = self.lane(caller);
        lane.calls.push_back(Waiting { call, work });
        let is_held = lane.is_held;
        self.calls += 1;
        self.held_calls += usize::from(is_held);
    }

    /// Takes a call back that was the next one and is not done, before all of its caller. All its work was counted.
    pub fn put_back(&mut self, caller: Caller, call: C) {
        self.lane(caller).calls.push_front(Waiting { call, work: 0 });
        self.calls += 1;
    }

    /// Takes a call back as [`Inbox::put_back`] does, and gives its caller no turn until [`Inbox::release`].
    pub fn hold(&mut self, caller: Caller, call: C) {
        self.put_back(caller, call);
        let lane = self.lane(caller);
        assert!(!lane.is_held, "whoever has no turn brings nothing back");
        lane.is_held = true;
        self.held_calls += lane.calls.len();
        // It was its turn, so that it is nearly always the first.
        let place = self.order.iter().position(|next| *next == caller).expect("whoever is not held has a turn");
        self.order.remove(place);
    }

    /// Gives a caller that is held its turns again.
    pub fn release(&mut self, caller: Caller) {
        let lane = self.lanes.get_mut(&caller).expect("whoever is held has a lane");
        assert!(lane.is_held && !lane.calls.is_empty(), "a caller is held for the first of its calls");
        lane.is_held = false;
        self.held_calls -= lane.calls.len();
        self.order.push_back(caller);
    }

    /// The calls of a caller, if it is held: the one for which it is comes first.
    pub fn held(&mut self, caller: Caller) -> impl Iterator<Item = &mut C> {
        let lane = self.lanes.get_mut(&caller).filter(|lane| lane.is_held);
        lane.into_iter().flat_map(|lane| lane.calls.iter_mut().map(|waiting| &mut waiting.call))
    }

    fn lane(&mut self, caller: Caller) -> &mut Lane<C> {
        let Inbox { lanes, round, order, spare, .. } = self;
        lanes.entry(caller).or_insert_with(|| {
            order.push_back(caller);
            Lane { calls: spare.pop().unwrap_or_default(), left: *round, is_held: false }
        })
    }

    /// The next call of the caller whose turn it is.
    pub fn take_next(&mut self) -> Option<C> {
        if self.calls == self.held_calls {
            // Nobody waits for a turn, so nobody was given more than others wanted.
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
        let Lane { calls, is_held, .. } = self.lanes.remove(&caller).expect("whoever has a turn has a lane");
        assert!(calls.is_empty() && !is_held, "no call is forgotten");
        if self.spare.len() < SPARE_LANES_MAX {
            self.spare.push(calls);
        }
    }
}

#[cfg(test)]
mod tests;
