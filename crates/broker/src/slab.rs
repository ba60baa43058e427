//! A table that grows in pieces, for millions of items.
//!
//! Why not a vector: when a vector of two million items grows, it needs its old and its new memory at the same time,
//! and it copies for longer than a client waits for PINGRESP. A piece never moves.

use std::marker::PhantomData;

use crate::index::Index;

/// A table of `T`, indexed densely from 0 by `I`, in pieces of `2^PIECE_BITS`. Every place always holds a `T`; it must
/// be reset before it is given back.
#[derive(Debug)]
pub(crate) struct Slab<I, T, const PIECE_BITS: u32 = 10> {
    pieces: Vec<Box<[T]>>,
    free: Vec<u32>,
    /// Places that were ever taken.
    reached: u32,
    indexed_by: PhantomData<I>,
}

impl<I, T, const PIECE_BITS: u32> Default for Slab<I, T, PIECE_BITS> {
    /// An empty table, which owns nothing yet.
    fn default() -> Self {
        Slab { pieces: Vec::new(), free: Vec::new(), reached: 0, indexed_by: PhantomData }
    }
}

impl<I: Index, T: Default, const PIECE_BITS: u32> Slab<I, T, PIECE_BITS> {
    const PIECE: usize = 1 << PIECE_BITS;

    /// A free place: the one given back last, because it is still in the cache.
    pub fn take(&mut self) -> I {
        if let Some(number) = self.free.pop() {
            assert!(number < self.reached, "a free place was taken before");
            return I::of(number);
        }
        if self.reached as usize == self.pieces.len() * Self::PIECE {
            self.pieces.push((0..Self::PIECE).map(|_| T::default()).collect());
        }
        self.reached = self.reached.checked_add(1).expect("2^32 - 1 places are in use");
        I::of(self.reached - 1)
    }

    /// Gives a place back.
    pub fn give(&mut self, index: I) {
        let index = index.number();
        assert!(index < self.reached, "a place that is given back was taken");
        assert!(self.free.len() < self.reached as usize, "a place is given back once");
        debug_assert!(self.free.len() > 64 || !self.free.contains(&index), "a place is given back once");
        self.free.push(index);
    }

    /// Puts a value into a free place.
    pub fn insert(&mut self, value: T) -> I {
        let index = self.take();
        self[index] = value;
        index
    }

    /// Takes the value out of a place, and gives that back.
    pub fn remove(&mut self, index: I) -> T {
        assert!(index.number() < self.reached, "a value is taken out of a place that was taken");
        let value = std::mem::take(&mut self[index]);
        self.give(index);
        value
    }

    /// One more than the number of the greatest index that was ever taken.
    pub fn reached(&self) -> u32 {
        self.reached
    }

    /// Places in use.
    pub fn len(&self) -> usize {
        assert!(self.free.len() <= self.reached as usize, "no more places are free than were taken");
        self.reached as usize - self.free.len()
    }

    /// What stands in all places that were ever taken.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten().take(self.reached as usize)
    }

    /// Places in use, in order. Panics if a place is free twice. Visits everything: for tests and simulation.
    pub fn in_use(&self) -> impl Iterator<Item = I> + use<I, T, PIECE_BITS> {
        assert!(self.reached as usize <= self.pieces.len() * Self::PIECE, "every place that was taken has its piece");
        let mut is_free = vec![false; self.reached as usize];
        for index in &self.free {
            assert!(!std::mem::replace(&mut is_free[*index as usize], true), "place {index} is free twice");
        }
        (0..self.reached).filter(move |index| !is_free[*index as usize]).map(I::of)
    }

    /// Heap bytes, without what its things own.
    pub fn heap_bytes(&self) -> usize {
        let (pieces, free) = (self.pieces.capacity() * size_of::<Box<[T]>>(), self.free.capacity() * size_of::<u32>());
        pieces + free + self.pieces.len() * Self::PIECE * size_of::<T>()
    }

    #[inline]
    pub fn get(&self, index: I) -> Option<&T> {
        let index = index.number();
        self.pieces.get((index >> PIECE_BITS) as usize).map(|piece| &piece[index as usize & (Self::PIECE - 1)])
    }
}

impl<I: Index, T, const PIECE_BITS: u32> std::ops::Index<I> for Slab<I, T, PIECE_BITS> {
    type Output = T;

    #[inline]
    fn index(&self, index: I) -> &T {
        let index = index.number();
        &self.pieces[(index >> PIECE_BITS) as usize][index as usize & ((1 << PIECE_BITS) - 1)]
    }
}

impl<I: Index, T, const PIECE_BITS: u32> std::ops::IndexMut<I> for Slab<I, T, PIECE_BITS> {
    #[inline]
    fn index_mut(&mut self, index: I) -> &mut T {
        let index = index.number();
        &mut self.pieces[(index >> PIECE_BITS) as usize][index as usize & ((1 << PIECE_BITS) - 1)]
    }
}
