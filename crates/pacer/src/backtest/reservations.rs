//! What bids that are under way may still cost, for each second in which it returns, as the pacer keeps it: memory does
//! not grow with the rate.

use std::collections::VecDeque;

/// Reservations, by the second in which they return.
#[derive(Debug)]
pub(super) struct Reservations {
    /// What returns in the second `next`, and in those after it.
    returning: VecDeque<u64>,
    next: u32,
    sum: u64,
}

impl Reservations {
    /// None. Each returns after so many seconds.
    pub fn new(reserved_s: u32) -> Reservations {
        Reservations { returning: vec![0; reserved_s as usize + 1].into(), next: 0, sum: 0 }
    }

    /// All of them together.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// A second begins: what returns in it is free.
    pub fn begin_second(&mut self, second: u32) {
        assert_eq!(second, self.next, "no second is left out");
        let freed = self.returning.pop_front().expect("there is at least one slot");
        self.returning.push_back(0);
        self.sum -= freed;
        self.next += 1;
    }

    /// Reserves for a bid. Says in which second it returns.
    pub fn reserve(&mut self, price: u64) -> u32 {
        let last = self.returning.back_mut().expect("there is at least one slot");
        *last += price;
        self.sum += price;
        self.next + self.returning.len() as u32 - 1
    }

    /// The end of a bid is known: its reservation is no longer needed. Nothing, if it has returned before.
    pub fn release(&mut self, price: u64, returns_in: u32) {
        if let Some(slot) = returns_in.checked_sub(self.next) {
            self.returning[slot as usize] -= price;
            self.sum -= price;
        }
    }
}
