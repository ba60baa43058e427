//! The retained messages of all topics, as each worker stores them. A new subscription gets them first.
//!
//! ```text
//!   site ─┬─ dev-1 ─ temp: message        a node a level (crate::topic_tree); children in a ring of siblings, so that
//!         ├─ dev-2 ─ temp: message        a wildcard can go through them
//!         └─ …
//! ```
//!
//! Promise: a filter is matched in steps of bounded work, and between two steps anything may change: a [`Cursor`]
//! neither loses its place nor visits a topic twice. `#` over a million messages blocks no other client.
//!
//! Promise: a cursor gives the messages that were there when it was opened. Messages set since then have reached the
//! subscriber when they were published. Giving them again would deliver an old message after a new one.
//!
//! Invariant: nothing here knows sessions, and nothing of a message but what [`Retainable`] says.

mod cursor;
mod expiry;

#[cfg(test)]
mod tests;

use crate::topic_tree::{NodeId, TopicTree};
pub use cursor::{Cursor, Moment, Progress};
use expiry::Expiries;

/// Levels of a topic under which messages are retained.
pub const TOPIC_LEVELS_MAX: usize = 128;

/// What can be retained: cheap to clone, such as an `Arc`.
pub trait Retainable {
    /// When it ceases to be, in milliseconds since 1970, if ever.
    /// `[MQTT-3.3.2-5]`: a message whose expiry interval has passed before delivery began is deleted.
    fn expires_at_ms(&self) -> Option<u64>;
    /// What it is counted as, in bytes.
    fn bytes(&self) -> usize;
}

/// What a node stores.
struct NodeData<M> {
    message: Option<M>,
    /// Which setting of a message, of all that there were, this is.
    stamp: u64,
    first_child: u32,
    /// Siblings in the order in which they will be visited. The root's own are of no use.
    next: u32,
    previous: u32,
    /// Cursors that stand here: the node stays until they have moved on.
    cursors: u32,
}

const NONE: u32 = u32::MAX;

impl<M> Default for NodeData<M> {
    fn default() -> NodeData<M> {
        NodeData { message: None, stamp: 0, first_child: NONE, next: NONE, previous: NONE, cursors: 0 }
    }
}

impl<M> NodeData<M> {
    /// Whether the message of this setting is still there.
    fn is(&self, stamp: u64) -> bool {
        self.stamp == stamp && self.message.is_some()
    }

    fn is_bare(&self) -> bool {
        self.message.is_none() && self.first_child == NONE && self.cursors == 0
    }
}

/// See the module's description.
pub struct Retained<M> {
    tree: TopicTree<NodeData<M>>,
    expiries: Expiries,
    /// Counts settings.
    stamp: u64,
    messages: usize,
    bytes: usize,
}

impl<M: Retainable> Retained<M> {
    /// No messages. `seed` must not be known to clients, who choose the names that are hashed with it.
    pub fn new(seed: u64) -> Retained<M> {
        Retained { tree: TopicTree::new(seed), expiries: Expiries::default(), stamp: 0, messages: 0, bytes: 0 }
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.messages
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// The sum of [`Retainable::bytes`] of all messages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Heap bytes of the tree, without its messages.
    pub fn heap_bytes(&self) -> usize {
        self.tree.heap_bytes() + self.expiries.heap_bytes()
    }

    /// Bytes that one message takes here, without the message, where no other is near its topic: its nodes, and its
    /// expiry, of which as many again may be stale, in a heap that doubles.
    pub fn bytes_of_new(topic: &str, expires: bool) -> usize {
        TopicTree::<NodeData<M>>::bytes_of_new(topic) + if expires { 4 * Expiries::EACH_BYTES } else { 0 }
    }

    /// Whether a message can be retained under a valid topic: each of its levels costs a node, and 64 KiB can name
    /// 65,536 of them. To be asked before `set`, which takes everything, so that all replicas stay the same.
    pub fn admits(topic: &str) -> bool {
        topic.split('/').take(TOPIC_LEVELS_MAX + 1).count() <= TOPIC_LEVELS_MAX
    }

    /// Sets the message of a valid topic and gives the one before.
    /// `[MQTT-3.3.1-5]`: a retained message replaces the one before on its topic.
    pub fn set(&mut self, topic: &str, message: M) -> Option<M> {
        let mut node = TopicTree::<NodeData<M>>::ROOT;
        for level in topic.split('/') {
            let hash = self.tree.hash(level);
            node = match self.tree.child(node, level, hash) {
                Some(child) => child,
                None => {
                    let child = self.tree.add_child(node, level, hash);
                    self.link(node, child);
                    child
                }
            };
        }
        self.stamp += 1;
        self.messages += 1;
        self.bytes += message.bytes();
        if let Some(at) = message.expires_at_ms() {
            self.expiries.add(at, node, self.stamp);
        }
        self.tree[node].stamp = self.stamp;
        let before = self.tree[node].message.replace(message);
        self.count_out(before.as_ref());
        self.tidy_expiries();
        before
    }

    /// Removes the message of a topic, if there is one, and gives it.
    /// `[MQTT-3.3.1-6]`: a retained message without payload is delivered, and deletes the retained message of its
    /// topic.
    pub fn clear(&mut self, topic: &str) -> Option<M> {
        let node = self.find(topic)?;
        self.clear_at(node)
    }

    /// The message of a topic.
    pub fn get(&self, topic: &str) -> Option<&M> {
        self.tree[self.find(topic)?].message.as_ref()
    }

    /// Removes messages that have expired, at most `budget` of them, and gives them to `gone`. Whether none is left
    /// that has.
    pub fn expire(&mut self, now_ms: u64, budget: usize, mut gone: impl FnMut(M)) -> bool {
        for _ in 0..budget {
            let Some((node, stamp)) = self.expiries.take_due(now_ms) else { return true };
            // Another message, or another topic's node, may be there by now: its stamp is another.
            if self.tree[node].is(stamp) {
                gone(self.clear_at(node).expect("there was one a line above"));
            }
        }
        self.expiries.is_none_due(now_ms)
    }

    /// Panics if tree, siblings and counts disagree, or if not so many cursors are open. Visits everything: for tests
    /// and simulation.
    pub fn assert_sound(&self, open_cursors: usize) {
        let (mut messages, mut bytes, mut cursors) = (0, 0, 0);
        for node in self.tree.sound_nodes() {
            let data = &self.tree[node];
            assert!(node == TopicTree::<NodeData<M>>::ROOT || !data.is_bare(), "{node:?} is of no use");
            messages += usize::from(data.message.is_some());
            bytes += data.message.as_ref().map_or(0, M::bytes);
            cursors += data.cursors as usize;
            assert!(data.stamp <= self.stamp, "{node:?} was set before now");
            let (mut child, mut before, mut children) = (data.first_child, NONE, 0);
            while child != NONE {
                assert_eq!(self.tree.parent(NodeId(child)), node, "the parent of a sibling");
                assert_eq!(self.tree[NodeId(child)].previous, before, "siblings point to each other");
                (before, child, children) = (child, self.tree[NodeId(child)].next, children + 1);
            }
            assert_eq!(children, self.tree.children(node), "all children of {node:?} are siblings");
        }
        assert_eq!((messages, bytes), (self.messages, self.bytes), "messages and their bytes");
        assert_eq!(cursors, open_cursors, "open cursors");
    }

    fn find(&self, topic: &str) -> Option<NodeId> {
        let mut levels = topic.split('/');
        levels
            .try_fold(TopicTree::<NodeData<M>>::ROOT, |node, level| self.tree.child(node, level, self.tree.hash(level)))
    }

    fn clear_at(&mut self, node: NodeId) -> Option<M> {
        let gone = self.tree[node].message.take()?;
        self.count_out(Some(&gone));
        self.prune(node);
        Some(gone)
    }

    fn count_out(&mut self, gone: Option<&M>) {
        if let Some(gone) = gone {
            assert!(self.messages > 0, "what goes was counted when it came");
            self.messages -= 1;
            assert!(gone.bytes() <= self.bytes, "what goes was counted when it came");
            self.bytes -= gone.bytes();
            assert!(self.messages > 0 || self.bytes == 0, "nothing has no bytes");
        }
    }

    /// Forgets expiries of messages that are gone, once those are most.
    fn tidy_expiries(&mut self) {
        let tree = &self.tree;
        self.expiries.tidy(self.messages, |node, stamp| tree[node].is(stamp));
    }

    /// Puts a new child in front of its siblings: cursors that are among them are past it, and its message is not for
    /// them anyway.
    fn link(&mut self, parent: NodeId, child: NodeId) {
        let first = self.tree[parent].first_child;
        assert!(self.tree[child].is_bare() && self.tree[child].next == NONE, "a new node is linked once");
        self.tree[child].next = first;
        if first != NONE {
            assert!(self.tree[NodeId(first)].previous == NONE, "the first of the siblings has none before it");
            self.tree[NodeId(first)].previous = child.0;
        }
        self.tree[parent].first_child = child.0;
    }

    /// Removes a node on which nothing hangs any more, and then those above it for which that made the difference.
    fn prune(&mut self, node: NodeId) {
        let mut node = node;
        while node != TopicTree::<NodeData<M>>::ROOT && self.tree[node].is_bare() {
            let parent = self.tree.parent(node);
            let NodeData { next, previous, .. } = self.tree.remove(node);
            match previous {
                NONE => {
                    assert!(self.tree[parent].first_child == node.0, "who has none before it is the first");
                    self.tree[parent].first_child = next;
                }
                previous => {
                    assert!(self.tree[NodeId(previous)].next == node.0, "siblings point to each other");
                    self.tree[NodeId(previous)].next = next;
                }
            }
            if next != NONE {
                assert!(self.tree[NodeId(next)].previous == node.0, "siblings point to each other");
                self.tree[NodeId(next)].previous = previous;
            }
            node = parent;
        }
    }
}
