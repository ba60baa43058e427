//! The share groups of a filter. Adding or removing one takes constant time, also among a million.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::share::GroupName;
use crate::topic_tree::NodeId;

/// Groups from which an index pays: fewer are looked through. Nearly all filters have one.
const INDEXED_FROM: usize = 64;

/// A share group.
#[derive(Clone, Copy)]
pub(super) struct Group {
    /// Its node.
    pub node: NodeId,
    /// Its name.
    pub name: GroupName,
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Groups {
    /// In any order.
    all: Vec<Group>,
    /// Where each stands, if there are many.
    places: Option<Box<HashMap<NodeId, u32, FixedState>>>,
}

impl Groups {
    /// How many.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.all.iter()
    }

    /// Heap bytes of all of it.
    pub fn heap_bytes(&self) -> usize {
        let places = self.places.as_ref().map_or(0, |places| size_of_val(&**places) + places.allocation_size());
        self.all.capacity() * size_of::<Group>() + places
    }

    /// Adds one that is not there.
    pub fn push(&mut self, group: Group) {
        self.all.push(group);
        match &mut self.places {
            Some(places) => _ = places.insert(group.node, self.all.len() as u32 - 1),
            None if self.all.len() >= INDEXED_FROM => {
                let place = |(place, group): (usize, &Group)| (group.node, place as u32);
                self.places = Some(Box::new(self.all.iter().enumerate().map(place).collect()));
            }
            None => {}
        }
    }

    /// Removes one that is there. Returns its name.
    pub fn remove(&mut self, node: NodeId) -> GroupName {
        let found = match &mut self.places {
            Some(places) => places.remove(&node).map(|place| place as usize),
            None => self.all.iter().position(|group| group.node == node),
        };
        let place = found.expect("a group is in its filter's list");
        let name = self.all.swap_remove(place).name;
        if let (Some(places), Some(moved)) = (&mut self.places, self.all.get(place)) {
            places.insert(moved.node, place as u32);
        }
        // Some way below, so that one that comes and goes at the bound does not make an index each time.
        if self.all.len() < INDEXED_FROM / 2 {
            self.places = None;
        }
        if self.all.len() <= self.all.capacity() / 4 {
            self.all.shrink_to(self.all.len() * 2);
        }
        name
    }

    /// Panics if a group does not stand here once, where its index says: for tests and simulation.
    pub fn assert_has(&self, node: NodeId) {
        let stands = |group: &Group| group.node == node;
        let place = self.all.iter().position(stands).expect("a group is in its filter's list");
        assert!(!self.all[place + 1..].iter().any(stands), "{node:?} stands once in its filter's list");
        let indexed = self.places.as_ref().map(|places| (places.len(), places.get(&node).copied()));
        assert!(
            indexed.is_none_or(|is| is == (self.all.len(), Some(place as u32))),
            "{node:?} is where its index says"
        );
    }
}
