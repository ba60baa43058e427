//! Numbered slots in chunks: growing by a chunk copies nothing, and a vacant slot is given out again first.
//!
//! Why: a `Vec` of two million nodes doubles by holding both halves at once, 1.5 times what it needs, and copies 90 MB while clients wait.

/// What can stand in a slab: while it is vacant it keeps the number of the next vacant slot.
pub(crate) trait Vacant {
    /// The number kept by `set_next_vacant`.
    fn next_vacant(&self) -> u32;
    /// Keeps a number in a slot that nobody uses.
    fn set_next_vacant(&mut self, next: u32);
}

const NONE: u32 = u32::MAX;

/// See the module's description. A chunk has `2^CHUNK_BITS` slots.
pub(crate) struct Slab<T, const CHUNK_BITS: u32 = 10> {
    chunks: Vec<Box<[T]>>,
    /// Slots below were given out at least once.
    used: u32,
    first_vacant: u32,
    len: usize,
}

impl<T, const CHUNK_BITS: u32> Default for Slab<T, CHUNK_BITS> {
    /// An empty slab, which owns nothing yet.
    fn default() -> Self {
        Slab { chunks: Vec::new(), used: 0, first_vacant: NONE, len: 0 }
    }
}

impl<T: Default + Vacant, const CHUNK_BITS: u32> Slab<T, CHUNK_BITS> {
    const CHUNK: usize = 1 << CHUNK_BITS;

    /// How many slots are in use.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Heap bytes, of used and vacant slots.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Box<[T]>>() + self.chunks.len() * Self::CHUNK * size_of::<T>()
    }

    /// Puts a value in a slot and gives its number.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if self.first_vacant != NONE {
            let id = self.first_vacant;
            self.first_vacant = self[id].next_vacant();
            self[id] = value;
            return id;
        }
        let id = self.used;
        assert!(id != NONE, "2^32 - 1 slots are in use");
        if id as usize == self.chunks.len() * Self::CHUNK {
            self.chunks.push((0..Self::CHUNK).map(|_| T::default()).collect());
        }
        self[id] = value;
        self.used += 1;
        id
    }

    /// Takes the value out of a slot that is in use.
    pub(crate) fn remove(&mut self, id: u32) -> T {
        let value = std::mem::take(&mut self[id]);
        let next = self.first_vacant;
        self[id].set_next_vacant(next);
        self.first_vacant = id;
        self.len -= 1;
        value
    }
}

impl<T, const CHUNK_BITS: u32> Slab<T, CHUNK_BITS> {
    /// All values, and what `take` left in vacant slots: the default.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().take(self.used as usize)
    }
}

impl<T, const CHUNK_BITS: u32> std::ops::Index<u32> for Slab<T, CHUNK_BITS> {
    type Output = T;

    #[inline]
    fn index(&self, id: u32) -> &T {
        &self.chunks[id as usize >> CHUNK_BITS][id as usize & ((1 << CHUNK_BITS) - 1)]
    }
}

impl<T, const CHUNK_BITS: u32> std::ops::IndexMut<u32> for Slab<T, CHUNK_BITS> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.chunks[id as usize >> CHUNK_BITS][id as usize & ((1 << CHUNK_BITS) - 1)]
    }
}
