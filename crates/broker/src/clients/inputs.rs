//! Bytes that clients have sent and that wait: part of a packet, or packets that may not be processed yet.
//!
//! Why not in the connection: nearly all of a million idle clients have none.

use crate::index::InputIndex;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Inputs {
    all: Vec<Vec<u8>>,
    free: Vec<InputIndex>,
}

impl Inputs {
    /// Takes the bytes out of a place, and gives that back.
    pub fn take(&mut self, index: InputIndex) -> Vec<u8> {
        assert!(self.free.len() < self.all.len(), "an input is given back once");
        self.free.push(index);
        std::mem::take(&mut self.all[index.number() as usize])
    }

    /// Keeps bytes, of which there are some.
    pub fn put(&mut self, input: Vec<u8>) -> InputIndex {
        assert!(!input.is_empty(), "nothing is kept for nothing");
        let index = self.free.pop().unwrap_or_else(|| {
            self.all.push(Vec::new());
            InputIndex::new((self.all.len() - 1) as u32)
        });
        let place = &mut self.all[index.number() as usize];
        assert!(place.is_empty(), "a free input is empty");
        *place = input;
        index
    }

    pub fn get(&self, index: InputIndex) -> &[u8] {
        &self.all[index.number() as usize]
    }

    /// Panics if so many are not used, or a free one holds bytes. Visits everything: for tests and simulation.
    pub fn assert_sound(&self, used: usize) {
        assert_eq!(used + self.free.len(), self.all.len(), "an input is used or free");
        assert!(self.free.iter().all(|free| self.get(*free).is_empty()), "a free input is empty");
    }
}
