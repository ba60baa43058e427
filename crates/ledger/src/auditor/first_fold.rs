//! The fold from the first record on: what shows that the snapshot from which this process began is true.
//!
//! ```text
//!   record 1 ─▶ fold, slowly, as the log is read again ─▶ the snapshot's place: equal, byte for byte?
//!                                                          │ yes: all that is live follows from record 1
//!                                                          └ no: what differs, in words
//! ```
//!
//! Why at the snapshot's place: live state and auditor began from it, and each record behind it is checked against the
//! state as it is folded. Only a digest of the snapshot is kept; it is read again if it differs, to say in what.
//!
//! Why only once a process: afterwards the auditor's state is known to follow from the first record, and a pass that
//! finds the same chain of hashes finds the same records. So a third state is in memory only until then.

use tidegate_journal::{Cursor, GroupReader, JournalError, LogId, Position};
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::{Event, Ledger};
use tidegate_shard::{Fold, FoldError, Stand};

use super::compare::{self, Differences};
use super::ids::IdsCompared;
use crate::message::FirstFoldReport;

/// How far it is.
pub(super) enum FirstFold {
    /// On its way. Boxed: it is large, and mostly gone.
    Folding(Box<Fold<Ledger>>),
    /// The auditor's state was made from the first record on, or was found equal to one that was.
    Agreed {
        /// As of this record.
        sequence: u64,
    },
    /// The auditor began from something else than what the journal says.
    Differs {
        /// In this.
        differences: Differences,
        /// As of this record.
        sequence: u64,
    },
    /// It met damage, so that nothing behind it can be folded. The next pass tries again.
    Interrupted {
        /// What a person is told.
        why: String,
        /// Before this record.
        sequence: u64,
    },
}

/// Verifies the next group, and shows `ids` its records.
pub(super) fn read_ids(groups: &mut GroupReader, ids: &mut IdsCompared) -> Result<bool, JournalError> {
    ids.before(groups.cursor());
    let Some(group) = groups.next_group()? else { return Ok(false) };
    if ids.is_summing() {
        // A record that is no event is damage that others find; it has no id.
        let events = group.records().filter_map(|(_, at, bytes)| Event::decode(bytes).ok().map(|event| (event, at)));
        events.for_each(|(event, at)| ids.note(&event, at));
    }
    ids.after(groups);
    Ok(true)
}

impl FirstFold {
    /// A fold that begins with the first record of `log`, of one of `shards` shards.
    pub fn begin(log: LogId, shards: u16) -> FirstFold {
        let ledger = Ledger::new(ShardIndex(log.shard), shards);
        FirstFold::Folding(Box::new(Fold::new(log, Cursor::START, Stand::default(), ledger)))
    }

    /// Whether it reads on.
    pub fn is_folding(&self) -> bool {
        matches!(self, FirstFold::Folding(_))
    }

    /// Verifies the next group, and folds it in if that is still wanted. `ids` is shown its records.
    pub fn read(&mut self, groups: &mut GroupReader, ids: &mut IdsCompared) -> Result<bool, JournalError> {
        let FirstFold::Folding(fold) = self else { return read_ids(groups, ids) };
        let (sequence, passed) = (fold.sequence().0, groups.cursor().sequence.0);
        if passed > sequence {
            // A whole segment could not be read, and the reading went on behind it.
            let why = format!("records {} to {passed} cannot be read", sequence + 1);
            *self = FirstFold::Interrupted { why, sequence };
            return read_ids(groups, ids);
        }
        ids.before(groups.cursor());
        let read = fold.next_group(groups, |event, at| ids.note(event, Position(at.position.0)));
        ids.after(groups);
        match read {
            Ok(read) => Ok(read.is_some()),
            Err(FoldError::Journal(error)) => {
                *self = FirstFold::Interrupted { why: error.to_string(), sequence };
                Err(error)
            }
            Err(misfit) => {
                *self = FirstFold::Interrupted { why: misfit.to_string(), sequence };
                Ok(true)
            }
        }
    }

    /// Compares with the state from which this process began and at whose place it has arrived: `form` is its digest;
    /// `load` has it again, if it is still there.
    pub fn compare(&mut self, form: &blake3::Hash, load: impl FnOnce() -> Option<Ledger>) {
        let FirstFold::Folding(fold) = self else { return };
        let sequence = fold.sequence().0;
        let mut differences = Differences::default();
        if compare::form_of(fold.state()) != *form {
            compare::states(load().as_ref(), fold.state(), &mut differences);
        }
        *self = match differences.count() {
            0 => FirstFold::Agreed { sequence },
            _ => FirstFold::Differs { differences, sequence },
        };
    }

    /// `audited`: the last record that the auditor has folded, which follows from the first one as all before it do.
    pub fn report(&self, audited: u64) -> FirstFoldReport {
        match self {
            FirstFold::Folding(fold) => FirstFoldReport { sequence: fold.sequence().0, agreed_at_sequence: 0 },
            FirstFold::Agreed { sequence } => {
                assert!(*sequence <= audited, "the auditor goes on from where both agreed");
                FirstFoldReport { sequence: audited, agreed_at_sequence: audited }
            }
            FirstFold::Differs { sequence, .. } | FirstFold::Interrupted { sequence, .. } => {
                FirstFoldReport { sequence: *sequence, agreed_at_sequence: 0 }
            }
        }
    }
}
