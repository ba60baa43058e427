//! The journals of all shards, for whoever reads changes: known when they are recovered.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tidegate_journal::{Cursor, DurableListeners, DurableMark, LogReader};

use super::ChangesError;
use super::own_log::OwnLog;
use super::reader::{After, ChangeFilter, ChangeReader};
use crate::router::CursorKey;

/// One shard's journal.
pub struct ChangeLog<R> {
    /// Reads it. Behind a mutex, because a reader belongs to one thread at a time; readers of changes take copies.
    pub reader: Mutex<R>,
    /// How far it is durable.
    pub mark: Arc<DurableMark>,
    /// The furthest place that a reader of changes has seen.
    pub seen: Arc<SeenEnd>,
}

/// The furthest place of a log whose chain a reader has verified: from there it is not far to the end.
#[derive(Debug, Default)]
pub struct SeenEnd {
    place: Mutex<Option<Cursor>>,
}

impl SeenEnd {
    pub(super) fn note(&self, place: Cursor) {
        let mut seen = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.is_none_or(|seen| seen.position < place.position) {
            *seen = Some(place);
        }
    }

    pub(super) fn get(&self) -> Option<Cursor> {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The journals of all shards.
pub struct ChangeLogs<R> {
    opened: OnceLock<(Vec<ChangeLog<R>>, CursorKey)>,
    listeners: Arc<DurableListeners>,
}

impl<R> Default for ChangeLogs<R> {
    fn default() -> Self {
        ChangeLogs { opened: OnceLock::new(), listeners: DurableListeners::new() }
    }
}

impl<R: LogReader + 'static> ChangeLogs<R> {
    /// Who is woken when more becomes durable.
    pub fn listeners(&self) -> &Arc<DurableListeners> {
        &self.listeners
    }

    /// All shards are recovered, and these are their journals in the order of their numbers. Said once.
    pub fn open(&self, logs: Vec<ChangeLog<R>>, key: CursorKey) {
        assert!(self.opened.set((logs, key)).is_ok(), "the journals are recovered once");
    }

    /// Whether more is durable than `reader` has read.
    pub fn has_more_than(&self, reader: &ChangeReader) -> bool {
        self.logs().iter().zip(reader.ends()).any(|(log, end)| log.mark.get().position() > end)
    }

    /// A reader of the changes behind `after` that `filter` lets through; `None` while the journals are being
    /// recovered. May wait for the disk.
    pub fn read(&self, after: After, filter: ChangeFilter) -> Result<Option<ChangeReader>, ChangesError> {
        let Some((logs, key)) = self.opened.get() else { return Ok(None) };
        let mut shards = Vec::with_capacity(logs.len());
        for (shard, log) in logs.iter().enumerate() {
            let reader = log.reader.lock().unwrap_or_else(PoisonError::into_inner).another();
            let unreadable = |cause| ChangesError::Unreadable { shard: shard as u16, cause };
            shards.push(OwnLog { log: reader.map_err(unreadable)?, mark: log.mark.clone(), seen: log.seen.clone() });
        }
        ChangeReader::open(shards, *key, after, filter).map(Some)
    }

    fn logs(&self) -> &[ChangeLog<R>] {
        self.opened.get().map_or(&[], |(logs, _)| logs)
    }
}
