//! Cuts that go together: what one log keeps and what it rests upon in another are both kept.
//!
//! ```text
//!   shard 0   … base │ group │ group ▲ cut │ group ▲ cut moves here        bound
//!   shard 1   … base │ group ▲ cut ────────┘ rests on a record of that group
//! ```
//!
//! Why cuts only move forward: whatever a record rests upon was durable before the record was written. So everything
//! that the records before the first cuts rest upon is before a bound that was looked up after them, and the smallest
//! set of groups that has it all exists.
//!
//! Why a base: what is before it rests on records before all cuts, because these were looked up later.

use std::collections::HashMap;

use tidegate_journal::{Cursor, JournalError, LogFiles, disk::Disk};
use tidegate_machines::{Fact, ShardIndex, Tie};

use crate::known::Known;

/// The groups of one log between its base and its bound.
pub(crate) struct Window {
    base: Cursor,
    /// Behind each group.
    ends: Vec<Cursor>,
    /// Ties of each group's records.
    ties: Vec<Vec<Tie>>,
    /// So many groups are kept.
    kept: usize,
}

impl Window {
    /// Reads the groups from `base` to `bound`; those before `cut` are kept.
    pub fn read<D: Disk>(
        files: &LogFiles<D>,
        known: &Known,
        (base, cut, bound): (Cursor, Cursor, Cursor),
    ) -> Result<Window, JournalError> {
        assert!(base.position <= cut.position && cut.position <= bound.position, "a cut is between base and bound");
        let mut window = Window { base, ends: Vec::new(), ties: Vec::new(), kept: 0 };
        let mut groups = files.groups(base, bound)?;
        let shard = ShardIndex(files.log().shard);
        while let Some(group) = groups.next_group()? {
            let mut ties = Vec::new();
            for (_, _, record) in group.records() {
                // One that is none of the machine's has no ties; whoever folds the log names it.
                let _ = (known.ties)(record, shard, &mut |tie| ties.push(tie));
            }
            window.push(groups.cursor(), ties);
        }
        window.kept = window.ends.partition_point(|end| end.position <= cut.position);
        Ok(window)
    }

    fn push(&mut self, end: Cursor, ties: Vec<Tie>) {
        self.ends.push(end);
        self.ties.push(ties);
    }

    /// The cut: behind the last group that is kept.
    pub fn cut(&self) -> Cursor {
        self.kept.checked_sub(1).map_or(self.base, |last| self.ends[last])
    }
}

/// A record that nothing has: the logs are not of one history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The shard whose log rests on it.
    pub by: usize,
    /// The shard whose log should have it.
    pub of: ShardIndex,
    /// The position that it should stand at.
    pub position: u64,
}

/// Moves the cuts of all shards of a family forward until nothing that is kept rests on what is not. The windows are in
/// the order of their shards.
pub(crate) fn close(windows: &mut [Window]) -> Result<(), Missing> {
    let mut named: HashMap<Fact, (usize, usize)> = HashMap::new();
    for (shard, window) in windows.iter().enumerate() {
        for (group, ties) in window.ties.iter().enumerate() {
            for tie in ties {
                if let Tie::Is(fact) = tie {
                    named.entry(*fact).or_insert((shard, group));
                }
            }
        }
    }
    let mut seen = vec![0; windows.len()];
    while let Some(shard) = (0..windows.len()).find(|shard| seen[*shard] < windows[*shard].kept) {
        let group = seen[shard];
        seen[shard] += 1;
        let facts: Vec<Fact> = windows[shard].ties[group]
            .iter()
            .filter_map(|tie| match tie {
                Tie::RestsOn(fact) => Some(*fact),
                Tie::Is(_) => None,
            })
            .collect();
        for fact in facts {
            let found = match fact {
                Fact::Record { shard: of, position } => at(windows, shard, of, position.0)?,
                // What is not in a window is before its base, or never was: an id that no other shard claimed.
                Fact::Named { .. } => named.get(&fact).copied(),
            };
            if let Some((of, group)) = found {
                windows[of].kept = windows[of].kept.max(group + 1);
            }
        }
    }
    Ok(())
}

/// The group that holds a position of a shard's log; none if it is before the base.
fn at(windows: &[Window], by: usize, of: ShardIndex, position: u64) -> Result<Option<(usize, usize)>, Missing> {
    let missing = Missing { by, of, position };
    let shard = usize::from(of.0);
    let window = windows.get(shard).ok_or(missing)?;
    if position < window.base.position.0 {
        return Ok(None);
    }
    let group = window.ends.partition_point(|end| end.position.0 <= position);
    if group == window.ends.len() { Err(missing) } else { Ok(Some((shard, group))) }
}

#[cfg(test)]
mod tests;
