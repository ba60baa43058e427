//! Ordering keys of a queue: which messages each has, and which of them is the first.

use std::collections::BTreeMap;

use super::number_set::NumberSet;

/// The ordering keys that have messages.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_key: BTreeMap<Box<str>, u32>,
    slots: Vec<NumberSet>,
    keys: Vec<Box<str>>,
    free: Vec<u32>,
}

impl Groups {
    /// Adds a message to the group of `key`. Returns the group, and whether the message is its first.
    pub fn add(&mut self, key: &str, number: u64) -> (u32, bool) {
        let slot = match self.by_key.get(key) {
            Some(slot) => *slot,
            None => {
                let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
                if slot as usize == self.slots.len() {
                    self.slots.push(NumberSet::default());
                    self.keys.push(Box::default());
                }
                self.keys[slot as usize] = key.into();
                self.by_key.insert(key.into(), slot);
                slot
            }
        };
        let members = &mut self.slots[slot as usize];
        members.insert(number);
        (slot, members.first() == Some(number))
    }

    /// Removes a message. Returns the one that is the first from now on, if it was another.
    pub fn remove(&mut self, slot: u32, number: u64) -> Option<u64> {
        let members = &mut self.slots[slot as usize];
        let was_first = members.first() == Some(number);
        members.remove(number);
        let next = members.first();
        if next.is_none() {
            let key = std::mem::take(&mut self.keys[slot as usize]);
            self.by_key.remove(&key);
            self.free.push(slot);
        }
        next.filter(|_| was_first)
    }

    /// Whether a message is the first of its group.
    pub fn is_first(&self, slot: u32, number: u64) -> bool {
        self.slots[slot as usize].first() == Some(number)
    }

    /// The key of a group.
    pub fn key(&self, slot: u32) -> &str {
        &self.keys[slot as usize]
    }

    /// All keys, with their messages.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, u32, &NumberSet)> {
        self.by_key.iter().map(|(key, slot)| (&**key, *slot, &self.slots[*slot as usize]))
    }
}
