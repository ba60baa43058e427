//! A queue in lanes, of which each has its turn: who has much in it waits for itself.

use std::collections::{HashMap, VecDeque};

/// What waits, by lanes.
pub struct Lanes<T> {
    lanes: HashMap<u64, VecDeque<T>>,
    order: VecDeque<u64>,
}

impl<T> Lanes<T> {
    /// Empty.
    pub fn new() -> Lanes<T> {
        Lanes { lanes: HashMap::new(), order: VecDeque::new() }
    }

    /// One more of `lane`.
    pub fn push(&mut self, lane: u64, item: T) {
        let waiting = self.lanes.entry(lane).or_default();
        if waiting.is_empty() {
            self.order.push_back(lane);
        }
        waiting.push_back(item);
    }

    /// The next one: the first of the lane whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let lane = self.order.pop_front()?;
        let waiting = self.lanes.get_mut(&lane).expect("a lane in the order has something");
        let item = waiting.pop_front();
        if waiting.is_empty() {
            self.lanes.remove(&lane);
        } else {
            self.order.push_back(lane);
        }
        item
    }
}
