//! Reading the groups of a copied log as a start replays them, before anybody needs the copy.
//!
//! ```text
//!   segments ─▶ groups: checksums, chain, no gap ─▶ records: of the family's machine ─▶ ties: farthest of each shard
//!                                                                                         │ with the ends of all logs
//!                                                                                         ▼
//!                                                            nothing rests on what another log does not have
//! ```
//!
//! Promise: what is read here without a word is replayed by a start, but for records that are whole and do not fit what
//! came before them: only a faulty program writes those, and `tidegate audit` of what was restored finds them.
//!
//! Why no state is folded: that of the ledger takes memory in proportion to its accounts. This takes the same for any
//! log: one group, and one position for each shard.

use std::collections::BTreeMap;

use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, LogFiles, LogId, NoticeKind, Position};
use tidegate_machines::{Fact, ShardIndex, Tie};

use crate::closure::Missing;
use crate::cut::inconsistent;
use crate::error::BackupError;
use crate::known::Known;

/// What the records of a log, up to a place, say of the other logs of its family.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rested {
    /// The last position in the log of each other shard that a record rests on.
    farthest: BTreeMap<u16, Position>,
    /// An operator went on without records of this log: others may rest on those.
    has_accepted_loss: bool,
}

/// One log, read group by group.
pub(crate) struct Reading {
    known: Known,
    shard: ShardIndex,
    rested: Rested,
}

impl Reading {
    /// Of this log.
    pub fn new(known: Known, log: LogId) -> Reading {
        Reading { known, shard: ShardIndex(log.shard), rested: Rested::default() }
    }

    /// What the records that were read say.
    pub fn rested(&self) -> &Rested {
        &self.rested
    }

    /// Reads the groups of `files` between two places. `passed` is told the place behind each, and what the records
    /// before it say.
    pub fn groups(
        &mut self,
        files: &LogFiles<RealDisk>,
        (from, to): (Cursor, Cursor),
        mut passed: impl FnMut(Cursor, &Rested),
    ) -> Result<(), BackupError> {
        let mut groups = files.groups(from, to)?;
        while let Some(group) = groups.next_group()? {
            let (shard, rested) = (self.shard, &mut self.rested);
            for (sequence, position, record) in group.records() {
                let mut tied = |tie| rested.note(shard, tie);
                (self.known.ties)(record, shard, &mut tied).map_err(|what| {
                    let name = self.known.family.name;
                    let what = format!(
                        "its record {sequence} at position {position} is none of a {name} log: {what}. No server \
                         starts on that; use another backup"
                    );
                    BackupError::damaged(files.folder(), what)
                })?;
            }
            let is_loss = group.notice.as_ref().is_some_and(|notice| notice.kind == NoticeKind::LossAccepted);
            self.rested.has_accepted_loss |= is_loss;
            passed(groups.cursor(), &self.rested);
        }
        assert_eq!(groups.cursor().position, to.position, "groups are read up to the end");
        Ok(())
    }
}

impl Rested {
    fn note(&mut self, own: ShardIndex, tie: Tie) {
        if let Tie::RestsOn(Fact::Record { shard, position }) = tie
            && shard != own
        {
            let farthest = self.farthest.entry(shard.0).or_default();
            *farthest = (*farthest).max(Position(position.0));
        }
    }
}

/// Refuses logs of a family, given in the order of their shards with their ends, of which one rests on a record that
/// another one does not have.
pub(crate) fn check_ties(known: &Known, logs: &[(Rested, Cursor)]) -> Result<(), BackupError> {
    for (by, (rested, _)) in logs.iter().enumerate() {
        for (of, position) in &rested.farthest {
            let has = |(other, end): &(Rested, Cursor)| other.has_accepted_loss || *position < end.position;
            if !logs.get(usize::from(*of)).is_some_and(has) {
                return Err(inconsistent(known, Missing { by, of: ShardIndex(*of), position: position.0 }));
            }
        }
    }
    Ok(())
}
