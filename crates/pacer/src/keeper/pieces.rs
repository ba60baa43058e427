//! Many leases at once, as a shard and the ledger take them: in pieces, a few of which are under way.
//!
//! Why not all at once: the shards and the ledger are stepped by the threads that answer bids. What ten thousand
//! campaigns want in one round took such a thread eight milliseconds, and all bids that came meanwhile waited for it.
//! Why not one after the other: each piece waits for a sync of the disk.

use futures_util::{StreamExt, stream};

/// How many leases move at once.
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    /// Leases of a piece.
    pub leases: usize,
    /// Pieces that are under way.
    pub under_way: usize,
}

impl Default for Pieces {
    /// All that is under way takes less than half a millisecond of a shard, or of the ledger.
    fn default() -> Pieces {
        Pieces { leases: 128, under_way: 4 }
    }
}

impl Pieces {
    /// Calls `each` for the pieces of `leases`, and waits until all of them are done.
    pub(super) async fn of<L>(self, leases: &[L], each: impl AsyncFn(&[L])) {
        stream::iter(leases.chunks(self.leases)).for_each_concurrent(self.under_way, |piece| each(piece)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[tokio::test]
    async fn each_lease_is_in_one_piece_and_few_pieces_are_under_way() {
        let pieces = Pieces { leases: 3, under_way: 4 };
        let leases: Vec<usize> = (0..31).collect();
        let (under_way, most, seen) = (Cell::new(0), Cell::new(0), RefCell::new(Vec::new()));
        let each = async |piece: &[usize]| {
            under_way.set(under_way.get() + 1);
            most.set(most.get().max(under_way.get()));
            tokio::task::yield_now().await;
            seen.borrow_mut().extend_from_slice(piece);
            under_way.set(under_way.get() - 1);
        };
        pieces.of(&leases, each).await;
        assert_eq!((under_way.get(), most.get()), (0, pieces.under_way));
        let mut seen = seen.into_inner();
        seen.sort_unstable();
        assert_eq!(seen, leases);
    }
}
