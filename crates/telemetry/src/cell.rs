//! The memory of metrics: eight numbers to a cache line. Each line belongs to one recorder, so that no two threads
//! write to one line.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Cells in a line.
pub(crate) const LINE_CELLS: usize = 8;

/// One cache line of numbers.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Line([AtomicU64; LINE_CELLS]);

const _: () = assert!(size_of::<Line>() == 64);

/// One number, which its writer and the registry hold together.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    line: Arc<Line>,
    index: usize,
}

impl Cell {
    pub(crate) fn new(line: Arc<Line>, index: usize) -> Cell {
        assert!(index < LINE_CELLS, "a line has {LINE_CELLS} cells");
        Cell { line, index }
    }

    #[inline(always)]
    fn atomic(&self) -> &AtomicU64 {
        // The mask says what `new` asserted, so that no bounds check remains.
        &self.line.0[self.index & (LINE_CELLS - 1)]
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.atomic().load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.atomic().store(value, Ordering::Relaxed);
    }

    /// For the only writer: a load and a store, not a locked addition. Wraps, as Prometheus counters may.
    #[inline(always)]
    pub(crate) fn add_alone(&self, count: u64) {
        self.set(self.get().wrapping_add(count));
    }

    /// For one of several writers.
    #[inline(always)]
    pub(crate) fn add_shared(&self, count: u64) {
        self.atomic().fetch_add(count, Ordering::Relaxed);
    }
}
