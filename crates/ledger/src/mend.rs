//! Sets the time of a stopped shard of the ledger after the clock of its host had been wrong: one more record, which
//! says so.
//!
//! Why a record: the time of events does not go back, so a shard that was served with a clock ten years ahead gives all
//! its events that time from then on. Replay, audits and copies must agree on where that ended.

use tidegate_disk::Disk;
use tidegate_journal::{JournalError, LogStore, Logs, NoRoom, NotReady, Options, Position};
use tidegate_machines::ledger::{Ledger, MEMO_BYTES_MAX};
use tidegate_machines::{Machine, Place, RecordPosition, RecordSequence, TimeMs};
use tidegate_shard::{FoldError, NothingDerived, OpenError, OpenShard, ReplayError, Snapshots};

use crate::family::LedgerFamily;

/// Why the time of a shard cannot be set. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum MendError {
    /// Its log cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its log cannot be folded.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// Its log cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There is no room for another group of records.
    #[error("the disk is full: nothing was written")]
    DiskFull,
}

/// What was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mended {
    /// The shard's time before.
    pub was: TimeMs,
    /// Its time now.
    pub time: TimeMs,
    /// Open holds, which keep the time that was left to them.
    pub holds: usize,
    /// Those of them that are over all the same by the clock of the host, which the next start follows.
    pub over: u64,
}

/// Sets the time of one of `shards` shards to `time`, durably, when the clock of the host says `wall`. `reason` goes
/// into the record; it has at most 256 bytes. `options` are those of a log that is opened. The caller has locked the
/// directory.
pub fn mend_time<G: Logs, D: Disk>(
    logs: &G,
    snapshots: Snapshots<LedgerFamily, D>,
    shards: u16,
    options: Options,
    (time, wall): (TimeMs, TimeMs),
    reason: &str,
) -> Result<Mended, MendError> {
    assert!(reason.len() <= MEMO_BYTES_MAX, "a reason of {} bytes", reason.len());
    let open = OpenShard::open(logs, snapshots, options)?;
    let back = open.replay(shards, &mut NothingDerived, |_| {}).map_err(|error| match error {
        ReplayError::Fold(error) => error,
        ReplayError::Derived(never) => match never {},
    })?;
    let (mut ledger, mut log) = (back.state, back.log);
    let was = Ledger::time(&ledger);
    let event = ledger.mend_time(time, reason);

    match log.ready() {
        Ok(()) => {}
        Err(NotReady::Failed(error)) => return Err(error.into()),
        Err(NotReady::DiskFull) => return Err(MendError::DiskFull),
        Err(NotReady::Busy) => unreachable!("a log that was just opened has nothing in flight"),
    }
    let mut group = log.begin_group();
    let at: Position = match group.try_append(|record| Ledger::encode(&event, record)) {
        Ok(at) => at,
        Err(NoRoom::Here | NoRoom::Ever) => unreachable!("an empty group has room for any event"),
    };
    // A record that does not follow from the state would stop every later start.
    let sequence = RecordSequence(group.last_sequence().0);
    ledger.apply(&event, Place { position: RecordPosition(at.0), sequence });
    ledger.assert_sound();
    log.submit(group)?;
    log.close()?;
    let mut over = 0;
    ledger.over_at(wall, &mut |_, count| over += count);
    Ok(Mended { was, time: Ledger::time(&ledger), holds: ledger.open_holds(), over })
}
