//! A compact tree of topic levels, used for subscriptions and for retained messages.
//!
//! ```text
//!   (parent, "temp") ─┬─ several children: hash ─▶ edges: a cache line of 12 ids ─┬─▶ nodes: parent, level, the
//!                     └─ one child: the parent knows it ──────────────────────────┘          owner's payload
//! ```
//!
//! Promise: a node costs `size_of::<Node>()` and, if it has siblings, about 9 bytes of edge table, wherever in its
//! growth the tree is; a look-up reads one cache line of the table and one node; growth never copies all that is there.
//!
//! An only child is found without the table, and was usually created right after its parent, on the next cache line. So
//! the last level of `site/+/dev-123456/temp` costs a match almost nothing.
//!
//! Why not a map in each node, as such trees are usually built: most nodes are leaves or have one child, and a map, or
//! even an empty `Vec`, costs each of them more than all its other fields. One table for all edges of the tree costs
//! each node only its edge, and is equally fast below a node with two children and below one with a million.
//!
//! Invariant: nothing here knows about subscriptions, messages or wildcards; `+` is a level like any other.

mod edges;
mod level;

#[cfg(test)]
mod tests;

use crate::slab::Slab;
pub(crate) use edges::IdTable;
use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use level::{Level, Texts};
use std::hash::Hasher;

/// A node's number, of use until the node is removed; then another node may get it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl std::fmt::Debug for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// The hash of a level's text. Made once per level of a topic, then combined with each parent it is looked up under.
#[derive(Clone, Copy)]
pub(crate) struct LevelHash(u64);

/// See the module's description. `P` is what the owner keeps in each node.
pub(crate) struct TopicTree<P> {
    nodes: Slab<u32, Node<P>>,
    edges: IdTable,
    texts: Texts,
    seed: u64,
    shared_seed: SharedSeed,
}

#[derive(Default)]
struct Node<P> {
    parent: u32,
    below: Below,
    level: Level,
    payload: P,
}

/// The children of a node, in four bytes: the only one's number (never 0, the root is nobody's child), or how many
/// there are in the table, with the top bit set. A node whose children are in the table keeps them there until the last
/// has gone.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Below(u32);

impl Below {
    const NOTHING: Below = Below(0);
    const SEVERAL: u32 = 1 << 31;

    fn one(child: u32) -> Below {
        assert!(child & Self::SEVERAL == 0, "2^31 nodes are in use");
        Below(child)
    }

    #[inline]
    fn is_in_table(self) -> bool {
        self.0 & Self::SEVERAL != 0
    }

    fn count(self) -> u32 {
        if self.is_in_table() { self.0 & !Self::SEVERAL } else { u32::from(self.0 != 0) }
    }
}

/// A place in the table of edges: buckets of 64 bytes, of which eight in twelve are in use.
const EDGE_BYTES: usize = 9;

impl<P: Default> TopicTree<P> {
    /// Bytes of the nodes of a topic of which no level is there yet.
    pub(crate) fn bytes_of_new(topic: &str) -> usize {
        topic.split('/').map(|level| size_of::<Node<P>>() + EDGE_BYTES + Level::cell_bytes(level.len())).sum()
    }

    /// The node above all topics. It has no level and is never removed.
    pub(crate) const ROOT: NodeId = NodeId(0);

    /// A tree with its root. `seed` must not be known to clients, who choose the level names that are hashed with it.
    pub(crate) fn new(seed: u64) -> TopicTree<P> {
        let mut nodes: Slab<u32, _> = Slab::default();
        let root = nodes.insert(Node::default());
        assert!(root == Self::ROOT.0, "the root is the first node");
        TopicTree {
            nodes,
            edges: IdTable::default(),
            texts: Texts::default(),
            seed,
            shared_seed: SharedSeed::from_u64(seed),
        }
    }

    /// How many nodes there are, without the root.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Heap bytes behind the tree, without what payloads point to.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.nodes.heap_bytes() + self.edges.heap_bytes() + self.texts.heap_bytes()
    }

    /// Hashes a level's text.
    #[inline]
    pub(crate) fn hash(&self, level: &str) -> LevelHash {
        self.hash_bytes(level.as_bytes())
    }

    #[inline]
    fn hash_bytes(&self, level: &[u8]) -> LevelHash {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared_seed);
        hasher.write(level);
        LevelHash(hasher.finish())
    }

    /// The child of `parent` that is called `level`.
    #[inline]
    pub(crate) fn child(&self, parent: NodeId, level: &str, hash: LevelHash) -> Option<NodeId> {
        let below = self.nodes[parent.0].below;
        if !below.is_in_table() {
            let is_it = below != Below::NOTHING && self.nodes[below.0].level.is(level, &self.texts);
            return is_it.then_some(NodeId(below.0));
        }
        let found = self.edges.find(edge_hash(parent, hash), |id| {
            let node = &self.nodes[id];
            node.parent == parent.0 && node.level.is(level, &self.texts)
        });
        found.map(NodeId)
    }

    /// Says that a child of this name will be looked for: what memory takes to answer passes while something else is
    /// done.
    #[inline]
    pub(crate) fn prefetch_child(&self, parent: NodeId, hash: LevelHash) {
        self.edges.prefetch(edge_hash(parent, hash));
    }

    /// All nodes, the root first. Panics if parents and children disagree. Visits everything: for tests and simulation.
    pub(crate) fn sound_nodes(&self) -> Vec<NodeId> {
        let nodes: Vec<NodeId> = self.nodes.in_use().map(NodeId).collect();
        let mut children = vec![0; self.nodes.reached() as usize];
        let mut in_table = 0;
        for node in nodes.iter().filter(|node| **node != Self::ROOT) {
            let (parent, level) = (self.parent(*node), self.level(*node));
            assert_eq!(self.child(parent, level, self.hash(level)), Some(*node), "{parent:?} finds its child");
            children[parent.0 as usize] += 1;
            in_table += usize::from(self.nodes[parent.0].below.is_in_table());
        }
        for node in &nodes {
            assert_eq!(self.children(*node), children[node.0 as usize], "children of {node:?}");
        }
        assert_eq!(self.edges.len(), in_table, "edges in the table");
        nodes
    }

    /// How many children a node has.
    pub(crate) fn children(&self, node: NodeId) -> u32 {
        self.nodes[node.0].below.count()
    }

    /// Gives `parent` a child that it does not have yet.
    pub(crate) fn add_child(&mut self, parent: NodeId, level: &str, hash: LevelHash) -> NodeId {
        debug_assert!(self.child(parent, level, hash).is_none(), "{level:?} is there already");
        let level = self.texts.keep(level);
        assert!(parent.0 < self.nodes.reached(), "a parent is there");
        let id = self.nodes.insert(Node { parent: parent.0, level, ..Node::default() });
        let below = self.nodes[parent.0].below;
        if below == Below::NOTHING {
            self.nodes[parent.0].below = Below::one(id);
            return NodeId(id);
        }
        if !below.is_in_table() {
            self.enter(self.edge_of(below.0), below.0);
        }
        self.enter(edge_hash(parent, hash), id);
        self.nodes[parent.0].below = Below((below.count() + 1) | Below::SEVERAL);
        NodeId(id)
    }

    /// Removes a node, which must have no children any more: they would lose their parent. Gives what data on it.
    pub(crate) fn remove(&mut self, node: NodeId) -> P {
        assert!(node != Self::ROOT && self.children(node) == 0, "the root stays, and so does who has children");
        let parent = self.nodes[node.0].parent;
        let below = self.nodes[parent].below;
        let mut left = Below::NOTHING;
        assert!(below.count() > 0, "a child is counted by its parent");
        if below.is_in_table() {
            let edge = self.edge_of(node.0);
            assert!(self.edges.remove(edge, node.0), "a node with siblings has its edge");
            if below.count() > 1 {
                left = Below((below.count() - 1) | Below::SEVERAL);
            }
        }
        self.nodes[parent].below = left;
        let Node { level, payload, .. } = self.nodes.remove(node.0);
        self.texts.forget(level);
        payload
    }

    fn edge_of(&self, id: u32) -> u64 {
        let node = &self.nodes[id];
        edge_hash(NodeId(node.parent), self.hash_bytes(node.level.bytes(&self.texts)))
    }

    fn enter(&mut self, edge: u64, id: u32) {
        // The table is taken out for the moment in which it asks the tree for the hashes of others.
        let mut edges = std::mem::take(&mut self.edges);
        edges.insert(edge, id, |id| self.edge_of(id));
        self.edges = edges;
    }

    /// The node above. The root is its own parent.
    #[inline]
    pub(crate) fn parent(&self, node: NodeId) -> NodeId {
        NodeId(self.nodes[node.0].parent)
    }

    /// The text of a node's level.
    pub(crate) fn level(&self, node: NodeId) -> &str {
        self.nodes[node.0].level.text(&self.texts)
    }

    /// Appends the levels from the root to `node`, joined by slashes: the topic or filter that the node stands for.
    pub(crate) fn write_path(&self, node: NodeId, path: &mut String) {
        let mut way = Vec::new();
        let mut at = node;
        while at != Self::ROOT {
            way.push(at);
            at = self.parent(at);
        }
        for (nth, id) in way.iter().rev().enumerate() {
            if nth > 0 {
                path.push('/');
            }
            path.push_str(self.level(*id));
        }
    }

    /// Whether the level of `node` is this one.
    #[inline]
    pub(crate) fn is_level(&self, node: NodeId, level: &str) -> bool {
        self.nodes[node.0].level.is(level, &self.texts)
    }
}

impl<P> std::ops::Index<NodeId> for TopicTree<P> {
    type Output = P;

    #[inline]
    fn index(&self, node: NodeId) -> &P {
        &self.nodes[node.0].payload
    }
}

impl<P> std::ops::IndexMut<NodeId> for TopicTree<P> {
    #[inline]
    fn index_mut(&mut self, node: NodeId) -> &mut P {
        &mut self.nodes[node.0].payload
    }
}

/// Where the edge from `parent` to a level lies. A full multiplication folded in half: each bit of the result hangs on
/// all of both.
#[inline]
fn edge_hash(parent: NodeId, LevelHash(level): LevelHash) -> u64 {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    const FOLD: u64 = 0xD6E8_FEB8_6659_FD93;
    let mixed = u128::from(level ^ u64::from(parent.0).wrapping_mul(SPREAD)) * u128::from(FOLD);
    (mixed as u64) ^ ((mixed >> 64) as u64)
}
