//! A list that grows in pieces, for millions of items.
//!
//! Why not a vector: when a vector of two million grows, it needs its old and its new memory at the same time, and
//! everything waits while it copies. A piece never moves.

const PIECE_BITS: u32 = 10;
const PIECE: usize = 1 << PIECE_BITS;

const _: () = assert!(PIECE_BITS < u32::BITS && PIECE.is_power_of_two());

/// A list of `T` that only grows.
#[derive(Debug)]
pub(crate) struct Pieces<T> {
    pieces: Vec<Vec<T>>,
    len: u32,
}

impl<T> Default for Pieces<T> {
    fn default() -> Pieces<T> {
        Pieces { pieces: Vec::new(), len: 0 }
    }
}

impl<T> Pieces<T> {
    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn push(&mut self, item: T) {
        if self.len as usize == self.pieces.len() * PIECE {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        let last = self.pieces.last_mut().expect("was pushed when the others were full");
        assert!(last.len() < PIECE, "a piece never grows, so that what is in it never moves");
        last.push(item);
        let in_last = last.len();
        self.len = self.len.checked_add(1).expect("a place is a number of 32 bits");
        assert_eq!(self.len as usize, (self.pieces.len() - 1) * PIECE + in_last, "all pieces but the last are full");
    }

    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.pieces.get((index >> PIECE_BITS) as usize)?.get(index as usize & (PIECE - 1))
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }
}

impl<T> std::ops::Index<u32> for Pieces<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.pieces[(index >> PIECE_BITS) as usize][index as usize & (PIECE - 1)]
    }
}

impl<T> std::ops::IndexMut<u32> for Pieces<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.pieces[(index >> PIECE_BITS) as usize][index as usize & (PIECE - 1)]
    }
}
