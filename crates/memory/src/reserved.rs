//! An array that grows and never moves.
//!
//! ```text
//!   ┌ taken ────────┬ touched ahead ─┬ addresses only ──────────┐
//!   └───────────────┴────────────────┴──────────────────────────┘ capacity
//!             push ─▶                ◀─ pages, touched by another thread
//! ```
//!
//! Promise: its addresses are there from the start and it takes memory as it fills, on huge pages where it is large.
//! What is pushed stays where it is.
//!
//! Why not a `Vec`: the kernel finds and zeroes a page when it is first written to. That takes 0.1 ms for a huge page,
//! and 6 to 7 ms on a virtual machine whose host has to find it first: a worker that opened accounts had such a turn
//! for every 29,127 of them. The memory of a `Vec` cannot be handed to another thread that touches it ahead, because it
//! may be given back meanwhile.

use std::alloc::Layout;
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use super::mapping::{Mapping, Pages};

/// Items in addresses of their own, which are there from the start; memory comes as it fills.
pub struct Reserved<T> {
    mapping: Arc<Mapping>,
    items: NonNull<T>,
    len: usize,
    capacity: usize,
}

// SAFETY: it alone reads and writes its items, like a `Vec`; whoever touches pages changes no contents.
unsafe impl<T: Send> Send for Reserved<T> {}
// SAFETY: as above; shared access only reads.
unsafe impl<T: Sync> Sync for Reserved<T> {}

impl<T> Reserved<T> {
    /// Addresses for `capacity` items. Aborts like any allocation when there are none.
    pub fn with_capacity(capacity: usize) -> Reserved<T> {
        let layout = Layout::array::<T>(capacity.max(1)).expect("a size below the address space");
        assert!(layout.align() <= 4 << 10, "items are aligned as pages are, at most");
        let (mapping, items) = Mapping::aligned(layout);
        Reserved { mapping: Arc::new(mapping), items: items.cast(), len: 0, capacity }
    }

    /// How many items it has addresses for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Adds an item.
    ///
    /// # Panics
    ///
    /// If it is full.
    #[inline]
    pub fn push(&mut self, item: T) {
        assert!(self.len < self.capacity, "what is full takes no more");
        // SAFETY: the place is within the capacity, so within the mapping, and holds no item yet.
        unsafe { self.items.add(self.len).write(item) };
        self.len += 1;
    }

    /// The memory of these places, taken or not, to be touched before it is used.
    ///
    /// # Panics
    ///
    /// If there are no such places.
    pub fn pages(&self, places: Range<usize>) -> Pages {
        assert!(places.start <= places.end && places.end <= self.capacity, "places that there are");
        // SAFETY: the place is within the capacity, so within the mapping.
        let first = unsafe { self.items.add(places.start) };
        Pages::of(&self.mapping, first.cast(), places.len() * size_of::<T>())
    }
}

impl<T> Deref for Reserved<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `len` places hold items, in a mapping that is owned.
        unsafe { std::slice::from_raw_parts(self.items.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Reserved<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.items.as_ptr(), self.len) }
    }
}

impl<T> Drop for Reserved<T> {
    fn drop(&mut self) {
        let items = std::ptr::slice_from_raw_parts_mut(self.items.as_ptr(), std::mem::take(&mut self.len));
        // SAFETY: the items are there, are dropped once, and nobody refers to them any more. The mapping outlives them.
        unsafe { std::ptr::drop_in_place(items) };
    }
}

impl<T: Clone> Clone for Reserved<T> {
    fn clone(&self) -> Reserved<T> {
        let mut copy = Reserved::with_capacity(self.capacity);
        self.iter().for_each(|item| copy.push(item.clone()));
        copy
    }
}

impl<T: fmt::Debug> fmt::Debug for Reserved<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HUGE_PAGE;

    #[test]
    fn what_is_pushed_stays_where_it_is_until_it_is_full() {
        for capacity in [1, 511, HUGE_PAGE / 8 + 1] {
            let mut numbers = Reserved::with_capacity(capacity);
            let first = numbers.as_ptr();
            for number in 0..capacity as u64 {
                numbers.push(number);
            }
            numbers[capacity - 1] += 1;
            assert_eq!((numbers.len(), numbers.as_ptr(), numbers[capacity - 1]), (capacity, first, capacity as u64));
        }
    }

    #[test]
    #[should_panic = "what is full takes no more"]
    fn a_full_one_takes_no_more() {
        let mut numbers = Reserved::with_capacity(1);
        numbers.push(1);
        numbers.push(2);
    }

    #[test]
    fn items_are_dropped_once_and_copies_are_their_own() {
        let shared = Arc::new(());
        let mut items = Reserved::with_capacity(8);
        (0..5).for_each(|_| items.push(Arc::clone(&shared)));
        let copy = items.clone();
        assert_eq!((copy.len(), copy.capacity(), Arc::strong_count(&shared)), (5, 8, 11));
        drop(items);
        assert_eq!(Arc::strong_count(&shared), 6);
        drop(copy);
        assert_eq!(Arc::strong_count(&shared), 1);
    }

    #[test]
    fn pages_that_are_touched_ahead_change_nothing_and_may_outlive_the_items() {
        let mut numbers = Reserved::with_capacity(HUGE_PAGE / 4);
        (0..1_000u64).for_each(|number| numbers.push(number));
        numbers.pages(0..numbers.capacity()).touch();
        assert!(numbers.iter().copied().eq(0..1_000));
        let pages = numbers.pages(999..HUGE_PAGE / 8);
        drop(numbers);
        pages.touch();
    }

    /// Bytes of the memory of these places that are in memory.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn resident_pages(numbers: &Reserved<u64>, places: Range<usize>) -> Vec<bool> {
        let bytes = places.len() * 8;
        let mut resident = vec![0u8; bytes.div_ceil(4 << 10)];
        // SAFETY: the range lies in the mapping and begins at a page; there is a byte for each page of it.
        let asked = unsafe {
            libc::mincore(numbers.items.as_ptr().add(places.start).cast(), bytes, resident.as_mut_ptr().cast())
        };
        assert_eq!(asked, 0);
        resident.into_iter().map(|page| page & 1 == 1).collect()
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn only_what_is_pushed_or_touched_takes_memory() {
        const PAGE: usize = (4 << 10) / 8;
        let mut numbers = Reserved::with_capacity(100 * PAGE);
        (0..PAGE as u64 + 1).for_each(|number| numbers.push(number));
        let in_memory =
            |numbers: &Reserved<u64>| resident_pages(numbers, 0..100 * PAGE).iter().filter(|in_| **in_).count();
        assert_eq!(in_memory(&numbers), 2);
        numbers.pages(10 * PAGE + 7..12 * PAGE).touch();
        if in_memory(&numbers) == 2 {
            return println!("this host is before Linux 5.14");
        }
        assert_eq!(in_memory(&numbers), 4);
        assert!(resident_pages(&numbers, 10 * PAGE..12 * PAGE).iter().all(|in_| *in_));
    }
}
