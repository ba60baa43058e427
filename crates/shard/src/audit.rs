//! The audit of a stopped shard: replay all records, verify the hash chain, compare every snapshot.
//!
//! Records that compaction removed cannot be replayed: there the audit starts from the oldest good snapshot, after that
//! snapshot's own checks, and compares everything later.
//!
//! Damage ends the fold, but not the audit: what follows it is verified as far as it can be read, so that one audit
//! names all files that must be restored.

use tidegate_disk::Disk;
use tidegate_journal::{
    Cursor, Durability, JournalError, LogReader, Logs, Notice, Position, RecoveryReport, Retention, Sequence,
};
use tidegate_machines::{Machine, ShardIndex};

use crate::fold::Fold;
use crate::replay::OpenError;
use crate::service::ShardFamily;
use crate::snapshot::{Snapshots, Stand};

/// Where a snapshot says that it stands, and the hash of its state.
type Claimed = (Cursor, blake3::Hash);

/// What the audit found on one shard.
pub struct Findings<M> {
    /// Shard.
    pub shard: ShardIndex,
    /// What opening its log would find and do.
    pub log: RecoveryReport,
    /// Sequence of the snapshot that was believed, because the log no longer has what was before; zero for none.
    pub begins_after: Sequence,
    /// Records folded.
    pub records: u64,
    /// Snapshots compared with the fold at their place.
    pub snapshots_compared: u64,
    /// Everything that is wrong, in words; empty when all agrees.
    pub problems: Vec<String>,
    /// What operators did to the log, oldest first.
    pub notices: Vec<Notice>,
    /// The folded state; `None` if the log could not be folded to its end.
    pub state: Option<M>,
}

/// Folds one of `shards` shards from as far back as its log goes to the end, verifying each checksum, the chain, and
/// that each record fits; compares every snapshot on the way. `progress` is called with the sequence reached and the
/// last one.
///
/// `Err` when the log itself could not be opened by the next start.
pub fn audit<F: ShardFamily, D: Disk, G: Logs>(
    logs: &G,
    snapshots: &Snapshots<F, D>,
    shards: u16,
    progress: impl FnMut(Sequence, Sequence),
) -> Result<Findings<F::Machine>, OpenError> {
    let id = snapshots.log();
    let shard = ShardIndex(id.shard);
    let mut problems = Vec::new();
    let mut claims = claims_of(snapshots, &mut problems);
    let needed = match F::FAMILY.retention {
        Retention::Whole => Cursor::START,
        Retention::SinceSnapshot => claims.first().map_or(Cursor::START, |(cursor, _)| *cursor),
    };
    let log = match logs.inspect(id, needed) {
        Ok(log) => log,
        Err(error) => {
            // The end of the log cannot be judged; what is settled before it can.
            let settled = logs.reader(id).and_then(|reader| Ok((reader.settled_end()?, reader)));
            if let Ok((end, reader)) = settled {
                verify(&reader, needed, &end, &mut problems);
            }
            return Err(OpenError::of(error, problems));
        }
    };
    let is_whole = log.begins == Cursor::START.position;
    if !is_whole {
        // A power failure can bring a snapshot back whose removal was not durable, older than what the log still has.
        // The newest one is the one that the log was opened with.
        claims.retain(|(cursor, _)| cursor.position >= log.begins);
    }
    let oldest = claims.last().filter(|_| !is_whole).map(|(cursor, _)| *cursor);
    let (stand, state) = match oldest.and_then(|cursor| state_at(snapshots, cursor)) {
        Some(found) => found,
        None => (Stand::default(), F::Machine::new(shard, shards)),
    };
    let begin = stand.cursor;
    let reader = logs.reader(id)?;
    let end = log.durability();
    let begins_after = begin.sequence;
    let mut findings = Findings {
        shard,
        log,
        begins_after,
        records: 0,
        snapshots_compared: 0,
        problems,
        notices: Vec::new(),
        state: None,
    };
    findings.fold(Fold::new(id, begin, stand, state), (&reader, begin, &end), &mut claims, progress);
    findings.tell_forgotten_too_early();
    match reader.rotten_ends(Position(0), end.position()) {
        Ok(rotten) => rotten.iter().for_each(|rot| findings.tell(rot)),
        Err(error) => findings.tell(&error),
    }
    // What the opening alone can judge: an end behind which there is no record.
    for rot in findings.log.damaged.clone() {
        findings.tell_place(&rot);
    }
    for (cursor, _) in claims {
        findings.problems.push(format!("the snapshot at sequence {} is at no place of this log", cursor.sequence));
    }
    Ok(findings)
}

/// Where each snapshot says that it stands, and the hash of its state, newest first. One state is held at a time; of
/// the others, what it takes to compare them.
fn claims_of<F: ShardFamily, D: Disk>(snapshots: &Snapshots<F, D>, problems: &mut Vec<String>) -> Vec<Claimed> {
    let mut claims = Vec::new();
    match snapshots.newest_first() {
        Err(error) => problems.push(error.to_string()),
        Ok(found) => found.for_each(|snapshot| match snapshot {
            Ok((stand, state)) => claims.push((stand.cursor, hash_of(&state))),
            Err(error) => problems.push(error.to_string()),
        }),
    }
    claims
}

/// Verifies all groups from `from` on, without a state.
fn verify<R: LogReader>(reader: &R, from: Cursor, end: &Durability, problems: &mut Vec<String>) {
    let mut reached = from;
    if let Err(error) = verify_part(reader, from, end, &mut reached) {
        problems.push(error.to_string());
        verify_behind(reader, reached.position, end, problems);
    }
}

/// The same for each part of the log behind `damaged` that can be read.
fn verify_behind<R: LogReader>(reader: &R, damaged: Position, end: &Durability, problems: &mut Vec<String>) {
    let mut behind = damaged;
    while let Ok(Some(next)) = reader.next_readable(behind) {
        assert!(next.position > behind, "what is read next is behind what was");
        if next.position >= end.position() {
            break;
        }
        let mut reached = next;
        match verify_part(reader, next, end, &mut reached) {
            Ok(()) => break,
            Err(error) => problems.push(error.to_string()),
        }
        behind = reached.position;
    }
}

fn verify_part<R: LogReader>(
    reader: &R,
    from: Cursor,
    end: &Durability,
    reached: &mut Cursor,
) -> Result<(), JournalError> {
    let mut groups = reader.groups(from, end)?;
    while groups.next_group()?.is_some() {
        *reached = groups.cursor();
    }
    Ok(())
}

/// The snapshot that stands at `cursor`.
fn state_at<F: ShardFamily, D: Disk>(snapshots: &Snapshots<F, D>, cursor: Cursor) -> Option<(Stand, F::Machine)> {
    let mut found = snapshots.newest_first().ok()?.filter_map(Result::ok);
    found.find(|(at, _)| at.cursor == cursor)
}

impl<M: Machine> Findings<M> {
    /// Keeps a problem, unless the fold met it already.
    fn tell(&mut self, problem: &JournalError) {
        let problem = problem.to_string();
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// What the state still needs of the log must be there.
    fn tell_forgotten_too_early(&mut self) {
        let needed = self.state.as_ref().and_then(Machine::keeps_since).map(|since| Position(since.0));
        if let Some(since) = needed.filter(|since| *since < self.log.begins) {
            let begins = self.log.begins;
            self.problems.push(format!(
                "records from position {since} on are still needed, and the log begins at position {begins}: put the \
                 segment files before it back, from a backup if there is one; without them, what stands there is lost"
            ));
        }
    }

    /// The same, unless something was said of its place already.
    fn tell_place(&mut self, problem: &JournalError) {
        if let JournalError::Damaged { segment, offset, .. } = problem {
            let place = format!("{segment}: damaged at offset {offset}: ");
            if self.problems.iter().any(|told| told.starts_with(&place)) {
                return;
            }
        }
        self.tell(problem);
    }

    /// Folds all groups from `begin` to `end`, comparing snapshots on the way, and verifies what is behind damage.
    /// Claims that were compared, or cannot be, are taken away.
    fn fold<R: LogReader>(
        &mut self,
        mut fold: Fold<M>,
        (reader, begin, end): (&R, Cursor, &Durability),
        claims: &mut Vec<Claimed>,
        mut progress: impl FnMut(Sequence, Sequence),
    ) {
        let mut ended_at = begin;
        let folded = reader.groups(begin, end).map_err(|error| error.to_string()).and_then(|mut groups| {
            loop {
                ended_at = groups.cursor();
                self.compare(ended_at, fold.state(), claims);
                progress(ended_at.sequence, end.sequence());
                if fold.next_group(&mut groups, |_, _| {}).map_err(|error| error.to_string())?.is_none() {
                    return Ok(());
                }
            }
        });
        self.records = fold.records();
        self.notices = fold.notices().to_vec();
        match folded.and_then(|()| fold.into_state().map_err(|error| error.to_string())) {
            Ok(state) => self.state = Some(state),
            Err(problem) => {
                self.problems.push(problem);
                verify_behind(reader, ended_at.position, end, &mut self.problems);
                // They stand behind the damage, where there is no state to compare them with.
                claims.retain(|(cursor, _)| cursor.position <= ended_at.position);
            }
        }
    }

    /// Compares the snapshot that stands at `reached`, if one does, with the state there.
    fn compare(&mut self, reached: Cursor, state: &M, claims: &mut Vec<Claimed>) {
        let Some(at) = claims.iter().position(|(cursor, _)| *cursor == reached) else { return };
        let (_, expected) = claims.swap_remove(at);
        self.snapshots_compared += 1;
        if hash_of(state) != expected && older_hash_of(state) != Some(expected) {
            self.problems.push(format!("the snapshot at sequence {} is not what the log gives", reached.sequence));
        }
    }
}

fn hash_of<M: Machine>(state: &M) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    state.write_snapshot(&mut |part| {
        hasher.update(part);
    });
    hasher.finalize()
}

/// That of a snapshot which a program wrote that kept less of the state, if there was one.
fn older_hash_of<M: Machine>(state: &M) -> Option<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    let is_written = state.write_older_snapshot(&mut |part| {
        hasher.update(part);
    });
    is_written.then(|| hasher.finalize())
}

#[cfg(test)]
mod tests;
