//! A table that grows in pieces, for things that exist by the million.
//!
//! Why not a vector: when a vector of two million grows, it needs its old and its new memory at the same time, and copies for longer
//! than a client waits for a pong. A piece, once there, never moves.

const PIECE_BITS: u32 = 10;
const PIECE: usize = 1 << PIECE_BITS;

/// A table of `T`, indexed densely from 0. Every place always holds a `T`; who gives a place back resets it first.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    pieces: Vec<Box<[T]>>,
    free: Vec<u32>,
    /// Places that were ever taken.
    reached: u32,
}

impl<T: Default> Slab<T> {
    pub fn new() -> Slab<T> {
        Slab { pieces: Vec::new(), free: Vec::new(), reached: 0 }
    }

    /// A place that nobody uses: the one given back last, because it is still warm.
    pub fn take(&mut self) -> u32 {
        if let Some(index) = self.free.pop() {
            return index;
        }
        if self.reached as usize == self.pieces.len() * PIECE {
            self.pieces.push((0..PIECE).map(|_| T::default()).collect());
        }
        self.reached += 1;
        self.reached - 1
    }

    /// Gives a place back.
    pub fn give(&mut self, index: u32) {
        debug_assert!(index < self.reached && !self.free.contains(&index) || self.free.len() > 64);
        self.free.push(index);
    }

    /// One more than the greatest index that was ever taken.
    pub fn reached(&self) -> u32 {
        self.reached
    }

    /// Places in use.
    pub fn len(&self) -> usize {
        self.reached as usize - self.free.len()
    }

    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.pieces.get((index >> PIECE_BITS) as usize).map(|piece| &piece[index as usize & (PIECE - 1)])
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.pieces[(index >> PIECE_BITS) as usize][index as usize & (PIECE - 1)]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.pieces[(index >> PIECE_BITS) as usize][index as usize & (PIECE - 1)]
    }
}
