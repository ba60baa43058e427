//! Who reads a large piece next: of a long history, few pieces are read at once for an edge thread, callers in turn.
//!
//! Promise: whoever reads far waits for a piece of each other caller who does, however many requests those have; and
//! the shards have few such pieces of this thread at a time.
//!
//! Why not the turns of requests alone: those share out the time of this thread, and a piece costs the shards more.

use crate::turns::{PlaceInTurn, PlaceLimits, PlacesInTurn};

/// Pieces that are read at once for one edge thread. More than a shard reads at once, so that one which waits for a
/// slow disk does not stop all.
const PIECES_AT_ONCE: usize = 4;

/// A place among those who read a large piece, until it is dropped.
pub type WalkPlace = PlaceInTurn;

/// The places of one edge thread.
pub(super) fn places() -> PlacesInTurn {
    PlacesInTurn::new(PlaceLimits { at_once: PIECES_AT_ONCE, of_caller_at_once: PIECES_AT_ONCE, for_services: 0 })
}
