//! Whether a log still has everything that was durable once.
//!
//! ```text
//!   log:       │ … groups … │ end
//!   snapshot,  ───────────────────▶ place       same timeline, behind the end: records are lost, the start is refused
//!   id index,                                   a timeline that the log has left: what remains of it is set aside
//!   witness
//! ```
//!
//! Promise: whatever is derived from a log and names a place of it was made of durable records only. So when it stands
//! behind the end of the log, and the log did not leave that timeline by a notice, then the log has lost its end: it
//! was cut, or put back from an older copy. Nothing of such a log is served, and nothing in it is changed.
//!
//! What cannot be verified (a snapshot that is damaged, or was written with another key) proves nothing, but is not
//! passed over in silence: if it says that it stands behind the end, the start is refused as well. And a witness whose
//! place the log has, with other records before it, shows that the log was exchanged. So does where a log ended
//! ([`Claim::is_kept`]), whatever timelines the log has had: a copy that was restored elsewhere is another log.
//!
//! Why the log alone cannot tell: a log that ends early looks like one whose last batch was torn by a crash.

use std::fmt;
use std::path::PathBuf;

use tidegate_disk::Disk;
use tidegate_journal::{
    ChainHash, Cursor, Durability, JournalError, LogId, LogReader, Logs, Lost, Notice, Position, RecoveryReport,
    Sequence, Timeline, Timelines,
};
use tidegate_machines::{Machine, ShardIndex};
use tidegate_planted::{Bug, is_planted};

use crate::fold::{Fold, FoldError, check_place};
use crate::replay::OpenError;
use crate::service::ShardFamily;
use crate::snapshot::{SnapshotError, Snapshots, Stand};

/// Something beside a log that names a place up to which the log was durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its file or folder.
    pub source: PathBuf,
    /// In which timeline the place is.
    pub timeline: Timeline,
    /// The place.
    pub position: Position,
    /// The last record before it, where that is known.
    pub sequence: Option<Sequence>,
    /// The chain hash there, where that is known: then the log must have it also if it goes on.
    pub chain: Option<ChainHash>,
    /// Why it is not certain, in words.
    pub doubt: Option<String>,
    /// Whether it holds although the log has left that timeline. What is derived of a log is then only of no use; but
    /// where a log ended is set aside by whoever accepts that its end is lost, and no backup has it. So beside a log
    /// that has left the timeline before that place, it shows that the log was put back from a restored copy.
    pub is_kept: bool,
}

impl Claim {
    /// The place, if all of it is known.
    fn cursor(&self) -> Option<Cursor> {
        Some(Cursor { position: self.position, sequence: self.sequence?, chain: self.chain? })
    }

    /// What it says against a log that ends at `end`, in words.
    fn against(&self, end: Position) -> String {
        let reached = match self.sequence {
            Some(sequence) => format!("sequence {sequence}"),
            None => format!("position {}", self.position),
        };
        let source = self.source.display();
        match &self.doubt {
            None if self.position <= end => {
                format!("{source} was made at {reached} of a log with other records before that")
            }
            None => format!("{source} was made when the log reached {reached}"),
            Some(doubt) => {
                format!(
                    "{source} says that it was made when the log reached {reached} (this cannot be verified: {doubt})"
                )
            }
        }
    }
}

/// What is lost, and what proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossProven {
    /// Which log.
    pub log: LogId,
    /// The folder that has its segments, as its data directory has it.
    pub journal: String,
    /// The last record that is known to be of the log that was written here.
    pub since: Sequence,
    /// Where the log ends.
    pub end: Cursor,
    /// The timeline there.
    pub timeline: Timeline,
    /// What stands behind that; at least one.
    pub proofs: Vec<Claim>,
}

impl LossProven {
    /// The records that are lost. Of another log, these are the ones that were written here and of which nothing shows
    /// that it has them, too.
    pub fn lost(&self) -> Lost {
        if !self.is_another_log() {
            return Lost { from: Sequence(self.end.sequence.0 + 1), to: self.last() };
        }
        let reached = || self.proofs.iter().filter_map(|claim| claim.sequence);
        // A snapshot that stands on it behind that is of the other log.
        let is_common = reached().all(|sequence| sequence > self.since);
        let from = Sequence(if is_common { self.since.0 + 1 } else { 1 });
        Lost { from, to: reached().max().filter(|to| *to >= from) }
    }

    /// The last record that is proven to have been durable; `None` if only a position is.
    fn last(&self) -> Option<Sequence> {
        let behind = self.proofs.iter().filter(|claim| claim.position > self.end.position);
        behind.filter_map(|claim| claim.sequence).filter(|last| *last > self.end.sequence).max()
    }

    /// Whether the log is another one than that which the files beside it were made of, and not only a shorter one.
    pub fn is_another_log(&self) -> bool {
        let has_more_before = |claim: &Claim| {
            claim.position <= self.end.position || claim.sequence.is_some_and(|last| last < self.end.sequence)
        };
        self.proofs.iter().any(has_more_before)
    }

    /// Whether records are lost, and not only what an operator wrote, which takes room and has no number.
    pub fn has_lost_records(&self) -> bool {
        let is_elsewhere = |claim: &Claim| claim.sequence == Some(self.end.sequence) && claim.timeline != self.timeline;
        self.is_another_log() || self.last().is_some() || !self.proofs.iter().all(is_elsewhere)
    }

    /// What is lost and what proves it, in words.
    pub fn what(&self) -> String {
        let from = self.end.sequence.0 + 1;
        let lost = match self.last() {
            _ if self.is_another_log() => {
                "records are lost: the log is not the one that was written here, but one of another history".into()
            }
            Some(last) if last.0 >= from => format!("records {from} to {last} are lost"),
            _ if !self.has_lost_records() => {
                "no record is lost, but the log is of another timeline: it does not have what an operator wrote into \
                 it last (a restore, or a loss that was accepted)"
                    .into()
            }
            _ => format!("records from {from} on are lost"),
        };
        let proofs: Vec<String> = self.proofs.iter().map(|claim| claim.against(self.end.position)).collect();
        let Cursor { sequence, position, .. } = self.end;
        format!(
            "{lost}: {} ends at sequence {sequence}, position {position}, but {}",
            self.journal,
            proofs.join(", and ")
        )
    }
}

/// Without the command that accepts the loss: only whoever knows the data directory and the folder of the witnesses can
/// name that.
impl fmt::Display for LossProven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}. Nothing is served and nothing was changed. Put back the segment files of {} that have these records",
            self.what(),
            self.journal
        )
    }
}

impl std::error::Error for LossProven {}

/// What a log has, compared with what is beside it.
#[derive(Clone, Debug)]
pub struct Examined {
    /// What opening the log would find.
    pub report: RecoveryReport,
    /// The newest snapshot that stands on the log; [`Cursor::START`] without one. The log can be opened with it.
    pub since: Cursor,
    /// The timelines of the log up to its end.
    pub timelines: Timelines,
    /// The notices behind `since`.
    pub notices: Vec<Notice>,
    /// What proves that records are lost.
    pub proofs: Vec<Claim>,
    /// A snapshot that does not stand on the log, although that goes on behind its place. By itself it is set aside;
    /// beside a proof it shows that the files were made of another log.
    pub stranger: Option<Claim>,
}

impl Examined {
    /// The refusal of a log that has lost records.
    pub fn loss<F: ShardFamily>(&self, log: LogId) -> Option<LossProven> {
        let journal = format!("journal/{}-{}", F::FAMILY.name, log.shard);
        let proofs = self.proofs.iter().chain(&self.stranger).cloned().collect();
        let (since, end, timeline) = (self.since.sequence, self.report.end, self.timelines.current());
        let proven = LossProven { log, journal, since, end, timeline, proofs };
        (!self.proofs.is_empty()).then_some(proven)
    }
}

/// Looks at a log and at what is beside it: its snapshots, and what `others` claim. Changes nothing.
pub fn examine<F: ShardFamily, D: Disk, G: Logs>(
    logs: &G,
    snapshots: &Snapshots<F, D>,
    others: &[Claim],
) -> Result<Examined, OpenError> {
    let id = snapshots.log();
    let (mut passed_over, mut elsewhere) = (Vec::new(), Vec::new());
    let mut base = None;
    for snapshot in snapshots.newest_first().into_iter().flatten() {
        let stand = match snapshot {
            Ok((stand, _)) => stand,
            Err(error) => {
                passed_over.push(error.to_string());
                continue;
            }
        };
        match logs.inspect(id, stand.cursor) {
            Ok(report) if check_place(&logs.reader(id)?, stand.cursor, &report.durability()).is_ok() => {
                base = Some((stand, report));
                break;
            }
            Ok(_) => elsewhere.push(snapshots.claim_of(&stand)),
            Err(JournalError::BadCursor { what, .. }) => {
                passed_over.push(format!("the snapshot at sequence {} cannot be used: {what}", stand.cursor.sequence));
            }
            Err(error) => return Err(OpenError::Journal(error)),
        }
    }
    let (stand, report) = match base {
        Some(base) => base,
        None => {
            let inspected = logs.inspect(id, Cursor::START).map_err(|error| OpenError::of(error, passed_over))?;
            (Stand::default(), inspected)
        }
    };
    let since = stand.cursor;
    let mut timelines = stand.timelines;
    let mut notices = Vec::new();
    let mut groups = logs.reader(id)?.groups(since, &report.durability())?;
    while let Some(group) = groups.next_group()? {
        if let Some(notice) = group.notice {
            notices.push(notice);
            timelines.begin(&groups.cursor());
        }
    }
    let claims = snapshots.claims_behind(report.end.position).into_iter().chain(others.iter().cloned());
    let reader = logs.reader(id)?;
    let mut proofs = Vec::new();
    // What is in doubt and does not name the timeline of now proves nothing: it may be of one that was left, and no
    // operator could accept that loss. Nor does what is ahead by its position and not by its sequence.
    let end = report.end.sequence;
    let counts = |claim: &Claim| match claim.doubt {
        None => claim.is_kept || !timelines.is_abandoned(claim.timeline),
        Some(_) => claim.timeline == timelines.current() && claim.sequence.is_some_and(|sequence| sequence > end),
    };
    for claim in claims.filter(counts) {
        if claim.position > report.end.position || is_contradicted(&reader, &claim, &report.durability())? {
            proofs.push(claim);
        }
    }
    let mut stranger = None;
    for claim in elsewhere.into_iter().filter(|claim| !timelines.is_abandoned(claim.timeline)) {
        if is_contradicted(&reader, &claim, &report.durability())? {
            stranger = Some(claim);
        }
    }
    Ok(Examined { report, since, timelines, notices, proofs, stranger })
}

/// What a log can begin anew with, whose files are damaged or missing: the newest snapshot that can be verified, and
/// what says that the log reached further. Without a snapshot, it begins with nothing. Changes nothing. `Err` if one
/// cannot be read now: it may be the one that has most.
pub fn remains<F: ShardFamily, D: Disk>(
    snapshots: &Snapshots<F, D>,
    others: &[Claim],
) -> Result<(Stand, Vec<Claim>), SnapshotError> {
    let mut stand = Stand::default();
    for snapshot in snapshots.newest_first()? {
        match snapshot {
            Ok((newest, _)) => {
                stand = newest;
                break;
            }
            Err(SnapshotError::Damaged { .. }) => {}
            Err(unread) => return Err(unread),
        }
    }
    let claims = snapshots.claims_behind(stand.cursor.position).into_iter().chain(others.iter().cloned());
    let is_behind = |claim: &Claim| claim.position > stand.cursor.position;
    let counts = |claim: &Claim| claim.is_kept || !stand.timelines.is_abandoned(claim.timeline);
    let claims = claims.filter(is_behind).filter(counts).collect();
    Ok((stand, claims))
}

/// Whether the log has the place of a claim, with another chain. What cannot be read there contradicts nobody.
fn is_contradicted<R: LogReader>(reader: &R, claim: &Claim, up_to: &Durability) -> Result<bool, JournalError> {
    let Some(cursor) = claim.cursor().filter(|cursor| cursor.position <= up_to.position()) else { return Ok(false) };
    match check_place(reader, cursor, up_to) {
        Ok(()) | Err(JournalError::Forgotten { .. }) => Ok(false),
        Err(JournalError::BadCursor { .. }) => Ok(true),
        // No group begins there: because it is damaged, or because the claim is of another log.
        Err(JournalError::Damaged { .. }) => Ok(reader.examine(cursor.position).is_ok()),
        Err(error) => Err(error),
    }
}

/// The state at the end of a log that was examined, from the newest snapshot that stands on it. Changes nothing.
pub fn fold_to_end<F: ShardFamily, D: Disk, G: Logs>(
    logs: &G,
    snapshots: &Snapshots<F, D>,
    shards: u16,
    examined: &Examined,
) -> Result<F::Machine, FoldError> {
    let (id, end) = (snapshots.log(), examined.report.durability());
    let reader = logs.reader(id)?;
    // Those that cannot be used were passed over when the log was examined.
    let begin = snapshots.newest_standing(&reader, &end, &mut Vec::new()).ok().flatten();
    let (stand, state) = begin.unwrap_or_else(|| (Stand::default(), F::Machine::new(ShardIndex(id.shard), shards)));
    let from = stand.cursor;
    let mut fold = Fold::new(id, from, stand, state);
    let mut groups = reader.groups(from, &end)?;
    while fold.next_group(&mut groups, |_, _| {})?.is_some() {}
    fold.into_state()
}

/// Refuses a log that has lost records. Changes nothing. Quick when nothing can be wrong: when all that is beside the
/// log stands before its last segment, or no further than a place that somebody else names and the log has.
pub fn check<F: ShardFamily, D: Disk, G: Logs>(
    logs: &G,
    snapshots: &Snapshots<F, D>,
    others: &[Claim],
) -> Result<(), OpenError> {
    if is_planted(Bug::LossNotSeen) {
        return Ok(());
    }
    let newest = snapshots.newest_place().into_iter().chain(others.iter().map(|claim| claim.position)).max();
    let Some(newest) = newest else { return Ok(()) };
    let (id, reader) = (snapshots.log(), logs.reader(snapshots.log())?);
    if let Some(proven) = proven_up_to(logs, (id, &reader), newest, others) {
        let mut contradicted = others.iter().map(|claim| is_contradicted(&reader, claim, &proven));
        if !contradicted.try_fold(false, |any, one| Ok::<_, JournalError>(any | one?))? {
            return Ok(());
        }
    }
    let examined = examine(logs, snapshots, others)?;
    examined.loss::<F>(snapshots.log()).map_or(Ok(()), |loss| Err(OpenError::Loss(Box::new(loss))))
}

/// How far the log is certain to reach, if that is at least up to `newest`; found without reading what is before its
/// last segment. `None` if it takes more to tell: where the last segment is bad, the opening itself says so best.
fn proven_up_to<G: Logs>(
    logs: &G,
    (id, reader): (LogId, &impl LogReader),
    newest: Position,
    others: &[Claim],
) -> Option<Durability> {
    let settled = reader.settled_end().ok()?;
    if newest <= settled.position() {
        return Some(settled);
    }
    let named = others.iter().filter(|claim| claim.position == newest && claim.doubt.is_none());
    let mut ends = named.filter_map(|claim| {
        let cursor = claim.cursor()?;
        let proven = logs.inspect(id, cursor).ok()?.durability();
        check_place(reader, cursor, &proven).is_ok().then_some(proven)
    });
    ends.next()
}

#[cfg(test)]
mod tests;
