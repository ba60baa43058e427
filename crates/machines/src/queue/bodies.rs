//! Bodies, each once, with a count of the entries that wait for it.

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
        self.records[index.0].bytes
    }

    /// One more entry waits for it.
    pub fn retain(&mut self, index: BodyIndex) {
        self.records[index.0].copies += 1;
    }

    /// One entry waits for it no more.
    #[inline]
    pub(super) fn release(&mut self, index: BodyIndex) {
        let record = &mut self.records[index.0];
        record.copies -= 1;
        if record.copies == 0 {
            record.body = None;
            self.bytes -= u64::from(record.bytes);
            self.free.push(index.0);
        }
    }

    /// All, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (BodyIndex, &B)> {
        let places = (0..).map(BodyIndex).zip(self.records.iter());
        places.filter_map(|(index, record)| Some((index, record.body.as_ref()?)))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.records.len() as usize - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all, each counted once.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
