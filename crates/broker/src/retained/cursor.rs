//! Scans the retained messages that a filter matches, in steps.
//!
//! A cursor stores the node it has reached. The filter says where it continues from there: down, to the next sibling,
//! or up. A node is not removed while a cursor is on it or while it has children, so no change elsewhere can invalidate
//! the cursor. A cursor that waits for a slow client costs forty bytes and its filter.

use super::{NONE, NodeData, Retainable, Retained};
use crate::topic_tree::{NodeId, TopicTree};

/// A position in a scan. It must be passed to [`Retained::close`], or its last node is never removed.
#[must_use = "a cursor holds a node until it is closed"]
pub struct Cursor {
    filter: Box<str>,
    /// Where the levels of the filter begin; `#` is not one of them.
    levels: Box<[u32]>,
    /// The filter ends with `#`.
    takes_all_below: bool,
    /// The node last visited: pinned.
    at: NodeId,
    /// Its depth; the root's is 0.
    depth: usize,
    /// Messages set later than this are not for this cursor.
    stamp: u64,
    is_done: bool,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There may be more.
    More,
    /// All were given.
    Done,
}

impl Cursor {
    /// Whether the filter matches a node of this depth that it led to.
    fn wants(&self, depth: usize) -> bool {
        depth == self.levels.len() || self.takes_all_below && depth > self.levels.len()
    }

    /// The filter's level below a node of this depth, if it names one.
    fn level(&self, depth: usize) -> Option<&str> {
        let start = *self.levels.get(depth)? as usize;
        self.filter[start..].split('/').next()
    }
}

/// A moment in the life of the retained messages.
#[derive(Clone, Copy, Debug)]
pub struct Moment(u64);

impl<M: Retainable> Retained<M> {
    /// Now.
    pub fn moment(&self) -> Moment {
        Moment(self.stamp)
    }

    /// Begins to go through what is there now and matches a valid filter (of a share group: none is sent, do not ask).
    pub fn open(&mut self, filter: &str) -> Cursor {
        self.open_since(filter, self.moment())
    }

    /// The same for what was there at an earlier moment, and still is.
    pub fn open_since(&mut self, filter: &str, Moment(stamp): Moment) -> Cursor {
        let takes_all_below = filter == "#" || filter.ends_with("/#");
        let mut levels = Vec::with_capacity(filter.matches('/').count() + 1);
        let mut start = 0;
        for level in filter.split('/').take_while(|level| *level != "#") {
            levels.push(start as u32);
            start += level.len() + 1;
        }
        let at = TopicTree::<NodeData<M>>::ROOT;
        self.tree[at].cursors += 1;
        let (filter, levels) = (filter.into(), levels.into());
        Cursor { filter, levels, takes_all_below, at, depth: 0, stamp, is_done: false }
    }

    /// Goes on: gives messages to `give` until all are given, `give` says that it wants no more for now by returning
    /// false, or `budget` nodes have been visited, of which the rest is left. Messages that have expired are passed
    /// over.
    pub fn step(
        &mut self,
        cursor: &mut Cursor,
        now_ms: u64,
        budget: &mut usize,
        mut give: impl FnMut(&M) -> bool,
    ) -> Progress {
        let left = cursor.at;
        assert!(self.tree[left].cursors > 0, "a cursor holds the node on which it stands");
        assert!(cursor.stamp <= self.stamp, "a cursor was opened before now");
        while *budget > 0 {
            *budget -= 1;
            if !self.advance(cursor) {
                cursor.is_done = true;
                break;
            }
            let data = &self.tree[cursor.at];
            let message = data.message.as_ref().filter(|message| {
                cursor.wants(cursor.depth)
                    && !self.is_hidden(cursor)
                    && data.stamp <= cursor.stamp
                    && message.expires_at_ms().is_none_or(|at_ms| at_ms > now_ms)
            });
            if message.is_some_and(|message| !give(message)) {
                break;
            }
        }
        self.tree[cursor.at].cursors += 1;
        self.leave(left);
        if cursor.is_done { Progress::Done } else { Progress::More }
    }

    /// Ends a walk, finished or not.
    pub fn close(&mut self, cursor: Cursor) {
        self.leave(cursor.at);
    }

    fn leave(&mut self, node: NodeId) {
        assert!(self.tree[node].cursors > 0, "a cursor holds the node on which it stands");
        self.tree[node].cursors -= 1;
        self.prune(node);
    }

    /// Moves to the next node that the filter leads to. False when there is none.
    fn advance(&self, cursor: &mut Cursor) -> bool {
        if cursor.is_done {
            return false;
        }
        if let Some(below) = self.below(cursor) {
            cursor.at = below;
            cursor.depth += 1;
            return true;
        }
        // The next sibling of the node, or of its nearest ancestor that has one.
        while cursor.at != TopicTree::<NodeData<M>>::ROOT {
            let beside = match cursor.level(cursor.depth - 1) {
                Some("+") | None => self.tree[cursor.at].next,
                Some(_) => NONE,
            };
            if beside != NONE {
                cursor.at = NodeId(beside);
                return true;
            }
            assert!(cursor.depth > 0, "only the root has no depth");
            cursor.at = self.tree.parent(cursor.at);
            cursor.depth -= 1;
        }
        false
    }

    /// The first node below the cursor that the filter leads to.
    fn below(&self, cursor: &Cursor) -> Option<NodeId> {
        if self.is_hidden(cursor) {
            return None;
        }
        let is_any = match cursor.level(cursor.depth) {
            Some("+") => true,
            Some(level) => return self.tree.child(cursor.at, level, self.tree.hash(level)),
            None => cursor.takes_all_below,
        };
        let first = self.tree[cursor.at].first_child;
        (is_any && first != NONE).then_some(NodeId(first))
    }

    /// Whether a wildcard led to a topic of the server's own: it does not match, nor does what is below. Such nodes are
    /// visited nevertheless, so that going past a million of them is counted.
    /// `[MQTT-4.7.2-1]`: a filter that begins with a wildcard matches no topic that begins with $.
    fn is_hidden(&self, cursor: &Cursor) -> bool {
        cursor.depth == 1 && matches!(cursor.level(0), Some("+") | None) && self.tree.level(cursor.at).starts_with('$')
    }
}
