//! The shapes of all filters: where their `+` stand. Their number bounds the work of one match.
//!
//! A topic matches at most one node of each shape: its own levels, with `+` where the shape has it. So a match visits
//! at most one node per shape, and one per level without any `+`, however many subscriptions there are. Without a bound
//! on shapes, one client with the million filters `{a,+}/{a,+}/…/z` would make each publication to `a/a/…` visit a
//! million nodes and deliver nothing.
//!
//! ```text
//!   common    up to 8 levels; up to 16 with two `+`; up to 32 with one      1,590 shapes, always free for everyone
//!   others    in use already: free; new: paid for by the owner of the session that brings it, until nobody has it
//! ```
//!
//! Why paid for, not first come: one client with odd filters would take all that are left, and nobody else could have
//! one. An installation with sensors needs a few dozen, most of them common.

use hashbrown::HashMap;

use crate::holdings::Paid;

/// Levels and positions of `+` of a filter's beginning that ends at some node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    levels: u8,
    /// A bit for each level that is `+`.
    wild: u128,
}

impl Shape {
    /// Levels that a shape can tell apart; filters may not have more.
    pub(super) const LEVELS_MAX: usize = 128;

    /// The shape with one more level.
    pub(super) fn then(self, level: &str) -> Shape {
        assert!(usize::from(self.levels) < Self::LEVELS_MAX, "whoever lets a filter in bounds its levels");
        let bit = if level == "+" { 1 << self.levels } else { 0 };
        Shape { levels: self.levels + 1, wild: self.wild | bit }
    }

    /// Whether everyone may always have it.
    pub(super) fn is_common(self) -> bool {
        let wild = self.wild.count_ones();
        matches!((self.levels, wild), (0..=8, _) | (0..=16, 0..=2) | (0..=32, 0..=1) | (_, 0))
    }

    /// Whether there is a `+` in it. Shapes without are not counted: a topic has one for each of its levels.
    pub(super) fn is_wild(self) -> bool {
        self.wild != 0
    }
}

/// How many nodes there are of each shape with a `+`.
#[derive(Default)]
pub(super) struct Shapes {
    nodes: HashMap<Shape, u32, foldhash::fast::FixedState>,
    /// What was paid for those that are not common, by whose session of this worker brought them.
    paid: HashMap<Shape, Paid, foldhash::fast::FixedState>,
}

impl Shapes {
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn has(&self, shape: Shape) -> bool {
        !shape.is_wild() || self.nodes.contains_key(&shape)
    }

    pub(super) fn add(&mut self, shape: Shape) {
        if shape.is_wild() {
            *self.nodes.entry(shape).or_insert(0) += 1;
        }
    }

    pub(super) fn remove(&mut self, shape: Shape) {
        if shape.is_wild() {
            let nodes = self.nodes.get_mut(&shape).expect("each node's shape was counted");
            assert!(*nodes > 0, "each node's shape was counted");
            *nodes -= 1;
            if *nodes == 0 {
                self.nodes.remove(&shape);
                self.paid.remove(&shape);
            }
        }
    }

    /// Somebody pays for a shape that is in use, until it is not.
    pub(super) fn pay(&mut self, shape: Shape, paid: Paid) {
        assert!(self.nodes.contains_key(&shape) && !shape.is_common(), "what is in use and not common is paid for");
        self.paid.insert(shape, paid);
    }

    /// Panics if something is paid for that is not there.
    pub(super) fn assert_sound(&self) {
        assert!(self.paid.keys().all(|shape| self.nodes.contains_key(shape)), "what is paid for is in use");
    }

    /// How many nodes there are of this shape.
    pub(super) fn count(&self, shape: Shape) -> u32 {
        self.nodes.get(&shape).copied().unwrap_or(0)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.nodes.allocation_size() + self.paid.allocation_size()
    }
}
