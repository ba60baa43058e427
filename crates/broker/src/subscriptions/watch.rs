//! Which filters below a prefix anybody subscribes to, for a service that publishes there only what somebody wants.
//!
//! ```text
//!   first entry of a filter ─▶ change: wanted       last entry gone ─▶ change: not wanted
//! ```
//!
//! A filter and each of its share groups count apart: whoever hears the changes counts them by filter.

use hashbrown::HashMap;

use crate::topic_tree::NodeId;

/// A filter that somebody subscribes to now, or nobody any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedFilter {
    /// The filter, without its share group.
    pub filter: Box<str>,
    /// Whether somebody subscribes to it, or to the same share group of it.
    pub is_wanted: bool,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Empty for none.
    prefix: Box<str>,
    /// The filter and the entries of each watched node.
    entries: HashMap<NodeId, (Box<str>, usize), foldhash::fast::FixedState>,
    changes: Vec<WatchedFilter>,
}

impl Watch {
    pub fn new(prefix: &str) -> Watch {
        Watch { prefix: prefix.into(), ..Watch::default() }
    }

    /// A node has an entry more.
    #[inline]
    pub fn added(&mut self, node: NodeId, filter: &str) {
        if self.prefix.is_empty() || !filter.starts_with(&*self.prefix) {
            return;
        }
        let (_, entries) = self.entries.entry(node).or_insert_with(|| (filter.into(), 0));
        *entries += 1;
        if *entries == 1 {
            self.changes.push(WatchedFilter { filter: filter.into(), is_wanted: true });
        }
    }

    /// A node has an entry less.
    #[inline]
    pub fn removed(&mut self, node: NodeId) {
        if self.entries.is_empty() {
            return;
        }
        let Some((_, entries)) = self.entries.get_mut(&node) else { return };
        *entries -= 1;
        if *entries == 0 {
            let (filter, _) = self.entries.remove(&node).expect("it was just there");
            self.changes.push(WatchedFilter { filter, is_wanted: false });
        }
    }

    /// The changes since the last call, in order.
    pub fn take(&mut self) -> Vec<WatchedFilter> {
        std::mem::take(&mut self.changes)
    }
}
