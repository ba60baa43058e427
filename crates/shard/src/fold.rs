//! Folding a log of topics into a state: what replay, compaction and the audit do.

use tidegate_journal::{GroupReader, JournalError, Position, Sequence};
use tidegate_machines::ShardIndex;
use tidegate_machines::topic::{Event, Topics};

/// Why a log cannot be folded.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// The log cannot be read, or is damaged.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A verified record does not fit what came before it: it was written by a faulty program, or forged.
    #[error("topic shard {shard}: record {sequence} at position {position} does not fit what came before it: {what}")]
    Misfit {
        /// Shard.
        shard: ShardIndex,
        /// Its sequence.
        sequence: Sequence,
        /// Its position.
        position: Position,
        /// What is wrong.
        what: String,
    },
}

/// Folds the next group of `groups` into `state`; `None` at the end, else how many records it had.
pub fn fold_group(state: &mut Topics, shard: ShardIndex, groups: &mut GroupReader) -> Result<Option<u64>, FoldError> {
    let Some(group) = groups.next_group()? else { return Ok(None) };
    for (sequence, position, bytes) in group.records() {
        let misfit = |what: String| FoldError::Misfit { shard, sequence, position, what };
        let event = Event::decode(bytes).map_err(|error| misfit(error.to_string()))?;
        state.apply_checked(&event, sequence.0).map_err(|mismatch| misfit(mismatch.to_string()))?;
    }
    Ok(Some(u64::from(group.record_count)))
}
