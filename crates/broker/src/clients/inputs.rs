//! Bytes that clients have sent and that wait: part of a packet, or packets that may not be processed yet.
//!
//! Why not in the connection: nearly all of a million idle clients have none.

use hashbrown::HashMap;

use crate::holdings::Paid;
use crate::index::InputIndex;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Inputs {
    all: Vec<Vec<u8>>,
    /// What was paid for some of them.
    paid: HashMap<InputIndex, Paid>,
    free: Vec<InputIndex>,
}

impl Inputs {
    /// Takes the bytes out of a place, and gives that back.
    pub fn take(&mut self, index: InputIndex) -> Vec<u8> {
        assert!(self.free.len() < self.all.len(), "an input is given back once");
        self.free.push(index);
        if !self.paid.is_empty() {
            self.paid.remove(&index);
        }
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

    /// This was paid for the bytes in a place, as long as they are there.
    pub fn pay(&mut self, index: InputIndex, paid: Paid) {
        assert!(!self.get(index).is_empty(), "nothing is paid for nothing");
        self.paid.insert(index, paid);
    }

    pub fn get(&self, index: InputIndex) -> &[u8] {
        &self.all[index.number() as usize]
    }

    /// Whether something was paid for the bytes in a place.
    pub fn is_paid(&self, index: InputIndex) -> bool {
        self.paid.contains_key(&index)
    }

    /// Panics if so many are not used, or a free one holds bytes. Visits everything: for tests and simulation.
    pub fn assert_sound(&self, used: usize) {
        assert_eq!(used + self.free.len(), self.all.len(), "an input is used or free");
        assert!(self.free.iter().all(|free| self.get(*free).is_empty()), "a free input is empty");
        assert!(self.paid.keys().all(|index| !self.get(*index).is_empty()), "what is paid for is there");
    }
}
