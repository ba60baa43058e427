//! The shapes of all filters: where their `+` stand. Their number bounds the work of one match.
//!
//! A topic matches at most one node of each shape: its own levels, with `+` where the shape has it. So a match visits
//! at most one node per shape, and one per level without any `+`, however many subscriptions there are. Without a bound
//! on shapes, one client with the million filters `{a,+}/{a,+}/…/z` would make each publication to `a/a/…` visit a
//! million nodes and deliver nothing. When all shapes are in use, a filter that needs a new one is refused
//! ([`super::Subscriptions::admits`]); filters with an existing shape are still accepted. An installation with sensors
//! needs a few dozen.

use hashbrown::HashMap;

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

    /// Whether there is a `+` in it. Shapes without are not counted: a topic has one for each of its levels.
    pub(super) fn is_wild(self) -> bool {
        self.wild != 0
    }
}

/// How many nodes there are of each shape with a `+`.
#[derive(Default)]
pub(super) struct Shapes {
    nodes: HashMap<Shape, u32, foldhash::fast::FixedState>,
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
            }
        }
    }

    /// How many nodes there are of this shape.
    pub(super) fn count(&self, shape: Shape) -> u32 {
        self.nodes.get(&shape).copied().unwrap_or(0)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.nodes.allocation_size()
    }
}
