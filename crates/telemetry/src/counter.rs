//! Numbers that only grow.

use crate::cell::Cell;
use std::marker::PhantomData;

/// A counter with one writer at a time: it can be sent to another thread, but neither shared nor cloned.
///
/// ```compile_fail
/// fn share<T: Sync>() {}
/// share::<tidegate_telemetry::Counter>();
/// ```
#[derive(Debug)]
pub struct Counter {
    cell: Cell,
    one_writer: PhantomData<std::cell::Cell<()>>,
}

impl Counter {
    pub(crate) fn new(cell: Cell) -> Counter {
        Counter { cell, one_writer: PhantomData }
    }

    /// Counts `count` more.
    #[inline(always)]
    pub fn add(&self, count: u64) {
        self.cell.add_alone(count);
    }

    /// Counts one more.
    #[inline(always)]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Sets the counter to a total that another component counts.
    #[inline(always)]
    pub fn follow(&self, total: u64) {
        self.cell.set(total);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.cell.get()
    }
}

/// A counter with many writers. An addition locks the cache line: some 5 ns, and more if other threads write to it.
#[derive(Clone, Debug)]
pub struct SharedCounter {
    cell: Cell,
}

impl SharedCounter {
    pub(crate) fn new(cell: Cell) -> SharedCounter {
        SharedCounter { cell }
    }

    /// Counts `count` more.
    #[inline]
    pub fn add(&self, count: u64) {
        self.cell.add_shared(count);
    }

    /// Counts one more.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.cell.get()
    }
}
