//! Changes of the ledger for the readers at one edge thread.
//!
//! ```text
//!   handler ◀─ parts, one waits ─ task ─ once it was taken ─▶ blocking thread: ChangeReader::step
//!                                  ├─ asks a shard what slots are called
//!                                  ├─ waits its turn: all readers of the thread share a rate, callers in turn
//!                                  └─ at the end: sleeps until a DurableMark advances
//! ```
//!
//! Promise: a reader that does not read costs one part in memory, and no time: what was read ahead for it is given back
//! after a second, and at once if all readers hold more than they may together ([`CHANGE_READ_BYTES`]). One that reads
//! waits for one part of each other caller, and a service for one of all viewers; nothing is read for whoever has gone.
//!
//! Why a task for each: what it waits for must go on when a handler stops to listen, or a heartbeat
//! would undo a step.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_ledger::changes::{After, ChangeFilter, ChangeLogs, ChangeReader, ChangesError, Step};
use tidegate_ledger::message::Unavailable;
use tidegate_ledger::operation::{Answer, Operation};
use tidegate_ledger::room::OperationClient;
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::AccountSlot;
use tidegate_runtime::Status;
use tidegate_runtime::pump::EdgeHandle;
use tidegate_runtime::recovery::NodeReader;
use tidegate_telemetry::{SharedGauge, metrics};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use crate::held_bytes::{Held, HeldBytes};
use crate::ledger_http::limits::{CHANGE_BYTES_PER_S, CHANGE_READ_BYTES, CHANGE_READ_KEPT_FOR};
use crate::ledger_http::{ChangePart, Changes, ChangesEnded};
use crate::turns::{CallerName, PlaceLimits, PlacesInTurn};

/// How long a reader at the end waits after it was woken, so that many small groups are one part.
const GATHER: Duration = Duration::from_millis(2);
/// What a timer is exact to: a wait that is shorter is left out, and the one behind it is longer.
const TICK: Duration = Duration::from_millis(1);
/// How often a reader that waits looks whether the process stops.
const LOOK: Duration = Duration::from_millis(200);

metrics! {
    /// What the readers of changes hold, of all threads that serve one kind of clients.
    #[derive(Clone)]
    pub struct ChangeReaderMetrics(door) {
        held_bytes: SharedGauge
            "tidegate_change_readers_held_bytes"
            "Memory of those who read changes, about: journal read ahead, names of accounts, the part that waits.";
    }
}

/// What the readers of changes at one edge thread share.
#[derive(Clone)]
pub struct EdgeChanges {
    logs: Arc<ChangeLogs<NodeReader>>,
    names: EdgeHandle<OperationClient>,
    status: Arc<Status>,
    woken: Arc<Notify>,
    places: Arc<Semaphore>,
    pace: Pace,
    held: Arc<HeldBytes>,
    metrics: ChangeReaderMetrics,
}

impl EdgeChanges {
    /// Reads `logs`, for so many readers at once, and asks shards for names with `names`.
    pub fn new(
        logs: Arc<ChangeLogs<NodeReader>>,
        names: EdgeHandle<OperationClient>,
        status: Arc<Status>,
        readers_max: usize,
        metrics: ChangeReaderMetrics,
    ) -> EdgeChanges {
        let woken = Arc::new(Notify::new());
        let wake = woken.clone();
        logs.listeners().add(Arc::new(move || wake.notify_waiters()));
        let places = Arc::new(Semaphore::new(readers_max));
        let held = HeldBytes::new(CHANGE_READ_BYTES);
        EdgeChanges { logs, names, status, woken, places, pace: Pace::default(), held, metrics }
    }

    /// Whether another reader would find a place now.
    pub fn has_place(&self) -> bool {
        self.places.available_permits() > 0
    }

    /// Where a reader begins that begins there, if it can be read on from there.
    pub async fn place(&self, after: After, filter: ChangeFilter) -> Result<Box<str>, ChangesEnded> {
        let logs = self.logs.clone();
        let look = move || {
            let Some(mut reader) = logs.read(after, filter)? else { return Ok(None) };
            let cursor = reader.cursor();
            // Only the group behind a cursor shows whether this is the history that it is of.
            reader.step().map(|_| Some(cursor))
        };
        let found = on_blocking_thread(look).await?.map_err(ChangesEnded::Unreadable)?;
        found.ok_or(ChangesEnded::Unavailable(Unavailable::Recovering))
    }

    /// Begins to read as soon as a reader has its place; the first part says whether that went well. How many ask is
    /// bounded by those who ask: a place is waited for only while a reader ends.
    pub fn read(&self, caller: CallerName, after: After, filter: ChangeFilter) -> ChangeParts {
        let (parts, reader) = mpsc::channel(1);
        let changes = self.clone();
        tokio::spawn(async move {
            let place = tokio::select! {
                place = changes.places.clone().acquire_owned() => place.expect("it is never closed"),
                () = parts.closed() => return,
            };
            if let Err(ended) = changes.carry(&caller, after, filter, &parts).await {
                // A handler that is gone wants no reason.
                let _ = parts.send(Err(ended)).await;
            }
            drop::<OwnedSemaphorePermit>(place);
        });
        ChangeParts { reader }
    }

    async fn carry(
        &self,
        caller: &CallerName,
        after: After,
        filter: ChangeFilter,
        parts: &Parts,
    ) -> Result<(), ChangesEnded> {
        if parts.is_closed() {
            return Ok(());
        }
        let logs = self.logs.clone();
        let opened = on_blocking_thread(move || logs.read(after, filter)).await?;
        let Some(mut reader) = opened.map_err(ChangesEnded::Unreadable)? else {
            return Err(ChangesEnded::Unavailable(Unavailable::Recovering));
        };
        let mut kept =
            Kept { read_ahead: self.held.hold(caller.clone()), counted: 0, gauge: self.metrics.held_bytes.clone() };
        while let Some(room) = kept.room(&mut reader, parts).await {
            if self.status.is_stopping() {
                return Err(ChangesEnded::Unavailable(Unavailable::Stopping));
            }
            let (back, step) = on_blocking_thread(move || {
                let step = reader.step();
                (reader, step)
            })
            .await?;
            reader = back;
            let part = match step.map_err(ChangesEnded::Unreadable)? {
                Step::Names(shard, slots) => {
                    self.name(&mut reader, shard, slots).await?;
                    continue;
                }
                Step::Rows { rows, row_bytes, bytes } => {
                    kept.count(&mut reader, row_bytes);
                    tokio::select! {
                        () = self.pace.wait_for(caller, bytes) => {}
                        () = parts.closed() => return Ok(()),
                    }
                    ChangePart { rows, cursor: reader.cursor(), is_at_end: false }
                }
                Step::AtEnd => {
                    kept.count(&mut reader, 0);
                    ChangePart { rows: Vec::new(), cursor: reader.cursor(), is_at_end: true }
                }
            };
            let is_at_end = part.is_at_end;
            room.send(Ok(part));
            if is_at_end {
                self.wait_for_more(&mut reader, parts).await;
            }
        }
        Ok(())
    }

    /// Until more is durable, the process stops, or nobody wants it.
    async fn wait_for_more(&self, reader: &mut ChangeReader, parts: &Parts) {
        loop {
            let woken = self.woken.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            self.logs.listeners().announce();
            if self.logs.has_more_than(reader) {
                tokio::time::sleep(GATHER).await;
                return;
            }
            if self.status.is_stopping() || parts.is_closed() {
                return;
            }
            tokio::select! {
                () = woken => {}
                () = parts.closed() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    async fn name(
        &self,
        reader: &mut ChangeReader,
        shard: ShardIndex,
        slots: Vec<AccountSlot>,
    ) -> Result<(), ChangesEnded> {
        let count = slots.len();
        let answer = self.names.ask((shard, Operation::NameAccounts(slots))).await;
        let answer = answer.map_err(|unasked| ChangesEnded::Unavailable(unasked.into()))?;
        match answer.map_err(ChangesEnded::Unavailable)? {
            Answer::Names(names) if names.len() == count => {
                reader.name(shard, names);
                Ok(())
            }
            // A record of an account that the state does not have: the state is not the journal's.
            _ => Err(ChangesEnded::Unreadable(ChangesError::Nameless { shard: shard.0, sequence: 0 })),
        }
    }
}

/// What one reader holds in memory, as it is counted.
struct Kept {
    read_ahead: Held,
    counted: usize,
    gauge: SharedGauge,
}

impl Kept {
    /// Waits until the part before was taken. Whoever takes long has nothing read ahead any more. `None` if nobody
    /// wants parts.
    async fn room<'a>(&mut self, reader: &mut ChangeReader, parts: &'a Parts) -> Option<Room<'a>> {
        match tokio::time::timeout(CHANGE_READ_KEPT_FOR, parts.reserve()).await {
            Ok(room) => room.ok(),
            Err(_) => {
                reader.release();
                let part_bytes = self.counted.saturating_sub(self.read_ahead.bytes());
                self.count(reader, part_bytes);
                parts.reserve().await.ok()
            }
        }
    }

    /// Counts what `reader` and the part of `part_bytes` that it gave hold. Where the readers of the thread hold too
    /// much, it gives back what it has read ahead.
    fn count(&mut self, reader: &mut ChangeReader, part_bytes: usize) {
        if self.read_ahead.change(reader.held_bytes()).is_err() {
            reader.release();
            // What is left is less than what was counted, or nothing.
            let _ = self.read_ahead.change(reader.held_bytes());
        }
        let holds = reader.held_bytes() + part_bytes;
        self.gauge.add(holds as i64 - self.counted as i64);
        self.counted = holds;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.gauge.add(-(self.counted as i64));
    }
}

/// Where a reader's task leaves the next part.
type Room<'a> = mpsc::Permit<'a, Result<ChangePart, ChangesEnded>>;
/// Where a reader's task leaves what it has found.
type Parts = mpsc::Sender<Result<ChangePart, ChangesEnded>>;

/// The changes that one reader gets, part by part.
pub struct ChangeParts {
    reader: mpsc::Receiver<Result<ChangePart, ChangesEnded>>,
}

impl Changes for ChangeParts {
    async fn next(&mut self) -> Result<ChangePart, ChangesEnded> {
        self.reader.recv().await.unwrap_or(Err(ChangesEnded::Unavailable(Unavailable::Stopping)))
    }
}

/// When the next bytes may be read, and by whom.
#[derive(Clone)]
struct Pace {
    turns: PlacesInTurn,
    free_at: Arc<Mutex<Option<Instant>>>,
}

impl Default for Pace {
    fn default() -> Pace {
        let turns = PlacesInTurn::new(PlaceLimits { at_once: 1, of_caller_at_once: 1, for_services: 0 });
        Pace { turns, free_at: Arc::default() }
    }
}

impl Pace {
    /// Waits until so many more bytes may be read for `caller` at [`CHANGE_BYTES_PER_S`].
    async fn wait_for(&self, caller: &CallerName, bytes: usize) {
        // Who has the turn keeps it until those before have had their time.
        let _turn = self.turns.place(caller.clone()).await;
        let cost = Duration::from_secs_f64(bytes as f64 / CHANGE_BYTES_PER_S as f64);
        let until = {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let begins = free_at.map_or(now, |at| at.max(now));
            *free_at = Some(begins + cost);
            begins
        };
        if until > Instant::now() + TICK {
            tokio::time::sleep_until(until).await;
        }
    }
}

async fn on_blocking_thread<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T, ChangesEnded> {
    // It ends without a result when the runtime ends, or by a panic, which is a bug and was reported.
    tokio::task::spawn_blocking(run).await.map_err(|_| ChangesEnded::Unavailable(Unavailable::Stopping))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A part as long as readers of everything have.
    const PART_BYTES: usize = 128 << 10;

    #[tokio::test]
    async fn a_service_waits_for_one_part_of_all_viewers_and_a_viewer_for_one_of_each() {
        let (pace, read) = (Pace::default(), Arc::new(AtomicUsize::new(0)));
        let mut flood = tokio::task::JoinSet::new();
        for n in 0..200 {
            let (pace, read) = (pace.clone(), read.clone());
            let caller = CallerName::Viewer(format!("viewer-{}", n % 10).into());
            flood.spawn(async move {
                pace.wait_for(&caller, PART_BYTES).await;
                read.fetch_add(1, Ordering::Relaxed);
            });
        }
        tokio::task::yield_now().await;
        let before = async |caller: CallerName| {
            let began = read.load(Ordering::Relaxed);
            pace.wait_for(&caller, PART_BYTES).await;
            read.load(Ordering::Relaxed) - began
        };
        let parts = before(CallerName::Service("shop".into())).await;
        assert!(parts <= 2, "{parts} parts of viewers before one of a service");
        let parts = before(CallerName::Viewer("carol".into())).await;
        assert!(parts <= 12, "{parts} parts of ten viewers before one of hers");
        flood.abort_all();
        while flood.join_next().await.is_some() {}
        tokio::time::timeout(Duration::from_secs(5), pace.wait_for(&CallerName::Viewer("carol".into()), 1))
            .await
            .expect("who has gone holds no turn");
    }
}
