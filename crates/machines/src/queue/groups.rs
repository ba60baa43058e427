//! Ordering keys of a queue: which messages each has, and which of them is the first.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::number_set::NumberSet;

/// The ordering keys that have messages.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_key: BTreeMap<Arc<str>, u32>,
    slots: Vec<Group>,
    free: Vec<u32>,
}

/// A slot: a key and its messages, or neither.
#[derive(Debug)]
struct Group {
    key: Option<Arc<str>>,
    members: Members,
}

/// The messages of a key. Of a million recipients, most have one.
#[derive(Debug)]
enum Members {
    None,
    One(u64),
    Several(Box<NumberSet>),
}

impl Members {
    fn first(&self) -> Option<u64> {
        match self {
            Members::None => None,
            Members::One(number) => Some(*number),
            Members::Several(numbers) => numbers.first(),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Members::None => 0,
            Members::One(_) => 1,
            Members::Several(numbers) => numbers.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let (one, several) = match self {
            Members::None => (None, None),
            Members::One(number) => (Some(*number), None),
            Members::Several(numbers) => (None, Some(numbers.iter())),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    fn insert(&mut self, number: u64) {
        match self {
            Members::None => *self = Members::One(number),
            Members::One(other) => {
                let mut numbers = NumberSet::default();
                numbers.insert(*other);
                numbers.insert(number);
                *self = Members::Several(Box::new(numbers));
            }
            Members::Several(numbers) => numbers.insert(number),
        }
    }

    fn remove(&mut self, number: u64) {
        match self {
            Members::One(one) if *one == number => *self = Members::None,
            Members::Several(numbers) => {
                numbers.remove(number);
                if numbers.is_empty() {
                    *self = Members::None;
                }
            }
            _ => panic!("{number} is not in its group"),
        }
    }
}

impl Groups {
    /// Adds a message to the group of `key`. Returns the group, and whether the message is its first.
    pub fn add(&mut self, key: &str, number: u64) -> (u32, bool) {
        let slot = match self.by_key.get(key) {
            Some(slot) => *slot,
            None => {
                let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
                let key: Arc<str> = key.into();
                self.by_key.insert(key.clone(), slot);
                let group = Group { key: Some(key), members: Members::None };
                match self.slots.get_mut(slot as usize) {
                    Some(free) => *free = group,
                    None => self.slots.push(group),
                }
                slot
            }
        };
        let members = &mut self.slots[slot as usize].members;
        members.insert(number);
        (slot, members.first() == Some(number))
    }

    /// Removes a message. Returns the one that is the first from now on, if it was another.
    pub fn remove(&mut self, slot: u32, number: u64) -> Option<u64> {
        let Group { key, members } = &mut self.slots[slot as usize];
        let was_first = members.first() == Some(number);
        members.remove(number);
        let next = members.first();
        if next.is_none() {
            let key = key.take().expect("a group with messages has a key");
            self.by_key.remove(&key);
            self.free.push(slot);
        }
        if self.by_key.is_empty() {
            // No message has a slot.
            *self = Groups::default();
        }
        next.filter(|_| was_first)
    }

    /// How many keys there are.
    pub fn count(&self) -> u64 {
        self.by_key.len() as u64
    }

    /// The first message of a key, if there is one.
    pub fn first_of(&self, key: &str) -> Option<u64> {
        let slot = self.by_key.get(key)?;
        self.slots[*slot as usize].members.first()
    }

    /// Whether a message is the first of its group.
    pub fn is_first(&self, slot: u32, number: u64) -> bool {
        self.slots[slot as usize].members.first() == Some(number)
    }

    /// The key of a group.
    pub fn key(&self, slot: u32) -> &str {
        self.slots[slot as usize].key.as_deref().expect("a group with messages has a key")
    }

    /// All keys, with their messages: how many, and which.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, u64, impl Iterator<Item = u64>)> {
        self.by_key.iter().map(|(key, slot)| {
            let members = &self.slots[*slot as usize].members;
            (&**key, members.len(), members.iter())
        })
    }

    /// The last key.
    pub fn last_key(&self) -> Option<&str> {
        self.by_key.last_key_value().map(|(key, _)| &**key)
    }
}
