//! Bodies, each stored once, with a count of the entries that use it.

use crate::pieces::Pieces;

/// Where a body stands. Taken again when the body is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyIndex(pub u32);

#[derive(Debug)]
struct Record<B> {
    /// None in a place that waits for its next body.
    body: Option<B>,
    bytes: u32,
    copies: u32,
}

/// All bodies of a shard.
#[derive(Debug)]
pub struct Bodies<B> {
    records: Pieces<Record<B>>,
    free: Vec<u32>,
    bytes: u64,
}

impl<B> Default for Bodies<B> {
    fn default() -> Bodies<B> {
        Bodies { records: Pieces::default(), free: Vec::new(), bytes: 0 }
    }
}

impl<B> Bodies<B> {
    /// Stores a body of `bytes` bytes for `copies` entries, at least one.
    pub fn put(&mut self, body: B, bytes: u32, copies: u32) -> BodyIndex {
        assert!(copies > 0, "a body that nobody waits for would stay for ever");
        let record = Record { body: Some(body), bytes, copies };
        self.bytes += u64::from(bytes);
        match self.free.pop() {
            Some(index) => {
                let before = &self.records[index];
                assert!(before.body.is_none() && before.copies == 0, "a place is used again while its body waits");
                self.records[index] = record;
                BodyIndex(index)
            }
            None => {
                self.records.push(record);
                BodyIndex(self.records.len() - 1)
            }
        }
    }

    /// A body that some entry waits for.
    #[inline]
    pub fn get(&self, index: BodyIndex) -> &B {
        self.records[index.0].body.as_ref().expect("an entry waits for it")
    }

    /// Its bytes.
    #[inline]
    pub fn bytes_of(&self, index: BodyIndex) -> u32 {
        let record = &self.records[index.0];
        assert!(record.copies > 0, "an entry waits for a body that is gone");
        record.bytes
    }

    /// One more entry waits for it.
    pub fn retain(&mut self, index: BodyIndex) {
        let copies = &mut self.records[index.0].copies;
        assert!(*copies > 0, "a body that is gone waits again");
        *copies = copies.checked_add(1).expect("fewer entries wait than memory has room for");
    }

    /// One entry waits for it no more.
    #[inline]
    pub(super) fn release(&mut self, index: BodyIndex) {
        let record = &mut self.records[index.0];
        record.copies = record.copies.checked_sub(1).expect("an entry leaves a body that is gone");
        if record.copies == 0 {
            assert!(record.body.take().is_some(), "a body leaves once");
            self.bytes = self.bytes.checked_sub(u64::from(record.bytes)).expect("its bytes are in the sum");
            self.free.push(index.0);
            assert!(self.bytes == 0 || !self.is_empty(), "bytes of no body are left");
        }
    }

    /// Bytes of memory of a body's place, besides what the body owns.
    pub const PLACE_BYTES: u64 = size_of::<Record<B>>() as u64;

    /// All, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (BodyIndex, &B)> {
        let places = (0..).map(BodyIndex).zip(self.records.iter());
        places.filter_map(|(index, record)| Some((index, record.body.as_ref()?)))
    }

    /// How many.
    pub fn len(&self) -> usize {
        let free = self.free.len();
        (self.records.len() as usize).checked_sub(free).expect("no more places are free than there are")
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all, each counted once.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Walks all and panics if counts and sums are not those of `waiting`: for each entry anywhere, the body that it
    /// waits for.
    pub fn assert_sound(&self, waiting: impl Iterator<Item = BodyIndex>) {
        let mut copies = vec![0u32; self.records.len() as usize];
        waiting.for_each(|body| copies[body.0 as usize] += 1);
        let mut bytes = 0;
        for (index, (record, waiting)) in self.records.iter().zip(&copies).enumerate() {
            assert_eq!(record.copies, *waiting, "entries that wait for body {index}");
            assert_eq!(record.body.is_some(), record.copies > 0, "body {index} is there while it is waited for");
            bytes += if record.copies > 0 { u64::from(record.bytes) } else { 0 };
        }
        assert_eq!(self.bytes, bytes, "bytes of all bodies");
        let mut free = self.free.clone();
        free.sort_unstable();
        let empty = (0..).zip(&copies).filter(|(_, copies)| **copies == 0).map(|(index, _)| index);
        assert!(empty.eq(free), "places without a body are free, each once");
    }
}
