//! Numbers that rise and fall.

use crate::cell::Cell;
use std::marker::PhantomData;

/// A gauge with one writer at a time, like [`crate::Counter`]. Series of the same labels are summed when shown.
#[derive(Debug)]
pub struct Gauge {
    cell: Cell,
    one_writer: PhantomData<std::cell::Cell<()>>,
}

impl Gauge {
    pub(crate) fn new(cell: Cell) -> Gauge {
        Gauge { cell, one_writer: PhantomData }
    }

    /// Says what it is now.
    #[inline(always)]
    pub fn set(&self, value: i64) {
        self.cell.set(value as u64);
    }

    /// Raises it, or lowers it by a negative number.
    #[inline(always)]
    pub fn add(&self, change: i64) {
        self.cell.add_alone(change as u64);
    }

    /// What it is now.
    pub fn get(&self) -> i64 {
        self.cell.get() as i64
    }
}

/// A gauge with many writers.
#[derive(Clone, Debug)]
pub struct SharedGauge {
    cell: Cell,
}

impl SharedGauge {
    pub(crate) fn new(cell: Cell) -> SharedGauge {
        SharedGauge { cell }
    }

    /// Raises it, or lowers it by a negative number.
    #[inline]
    pub fn add(&self, change: i64) {
        self.cell.add_shared(change as u64);
    }

    /// What it is now.
    pub fn get(&self) -> i64 {
        self.cell.get() as i64
    }
}
