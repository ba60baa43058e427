//! When retained messages expire, soonest first. An entry is not searched for when its message is removed early. Its
//! stamp then shows that it is stale, and all stale entries are removed together when they are the majority.

use crate::topic_tree::NodeId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Expiries below which tidying is not worth while.
const FEW: usize = 64;

/// See the module's description.
#[derive(Default)]
pub(super) struct Expiries {
    soonest: BinaryHeap<Reverse<(u64, u64, NodeId)>>,
}

impl Expiries {
    /// What one takes.
    pub(super) const EACH_BYTES: usize = size_of::<(u64, u64, NodeId)>();

    pub(super) fn add(&mut self, at_ms: u64, node: NodeId, stamp: u64) {
        self.soonest.push(Reverse((at_ms, stamp, node)));
    }

    /// Takes out one that is due: its node and the stamp that the message must have.
    pub(super) fn take_due(&mut self, now_ms: u64) -> Option<(NodeId, u64)> {
        if self.is_none_due(now_ms) {
            return None;
        }
        self.soonest.pop().map(|Reverse((_, stamp, node))| (node, stamp))
    }

    pub(super) fn is_none_due(&self, now_ms: u64) -> bool {
        self.soonest.peek().is_none_or(|Reverse((at_ms, ..))| *at_ms > now_ms)
    }

    /// Forgets stale expiries if there are more of them than there can be messages: so there are never more than twice
    /// as many.
    pub(super) fn tidy(&mut self, messages: usize, is_current: impl Fn(NodeId, u64) -> bool) {
        if self.soonest.len() > 2 * messages + FEW {
            self.soonest.retain(|Reverse((_, stamp, node))| is_current(*node, *stamp));
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.soonest.capacity() * Expiries::EACH_BYTES
    }
}
