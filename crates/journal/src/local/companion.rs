//! The thread that may wait for the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use super::Progress;
use crate::disk::Disk;
use crate::in_flight::Submitted;
use crate::limits::{DISK_FULL_RETRY_MS, DISK_FULL_RETRY_MS_MAX, GROUPS_IN_FLIGHT_MAX, IDLE_MARK_AFTER_MS};
use crate::writer::{Claim, Writer};
use crate::{BatchFacts, JournalError, Sequence};

/// Drives a [`Writer`] from a channel of groups.
pub(super) struct Companion<D: Disk> {
    writer: Writer<D>,
    inbox: Receiver<Arc<Submitted>>,
    progress: Arc<Progress>,
    facts: SyncSender<BatchFacts>,
    /// When a full disk is asked again.
    retry_ms: u64,
}

/// What the companion found in its inbox.
enum Inbox {
    Group(Arc<Submitted>),
    Quiet,
    Closed,
}

impl<D: Disk> Companion<D> {
    pub fn new(
        writer: Writer<D>,
        inbox: Receiver<Arc<Submitted>>,
        progress: Arc<Progress>,
        facts: SyncSender<BatchFacts>,
    ) -> Companion<D> {
        Companion { writer, inbox, progress, facts, retry_ms: DISK_FULL_RETRY_MS }
    }

    /// Works until the log is closed or fails; then wakes its owner a last time.
    pub fn run(mut self) {
        if let Err(error) = self.work() {
            self.progress.fail(error);
        }
        self.progress.wake();
    }

    fn work(&mut self) -> Result<(), JournalError> {
        loop {
            match self.wait() {
                Inbox::Group(group) => self.commit(group)?,
                Inbox::Quiet => self.writer.mark_tail()?,
                Inbox::Closed => return self.writer.mark_tail(),
            }
            self.claim_room();
            self.writer.zero_ahead()?;
        }
    }

    fn wait(&self) -> Inbox {
        let timeout_ms = if !self.writer.is_marked() {
            Some(IDLE_MARK_AFTER_MS)
        } else if self.progress.disk_full.load(Ordering::Relaxed) {
            Some(self.retry_ms)
        } else {
            None
        };
        let received = match timeout_ms {
            Some(ms) => self.inbox.recv_timeout(Duration::from_millis(ms)),
            None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(group) => Inbox::Group(group),
            Err(RecvTimeoutError::Timeout) => Inbox::Quiet,
            Err(RecvTimeoutError::Disconnected) => Inbox::Closed,
        }
    }

    /// Writes `first` and whatever waits behind it, and syncs them as one.
    fn commit(&mut self, first: Arc<Submitted>) -> Result<(), JournalError> {
        let began = Instant::now();
        let mut facts = BatchFacts::default();
        let mut last = Sequence(0);
        let since = first.since;
        let mut next = Some(first);
        while let Some(group) = next.take() {
            assert!(last.0 == 0 || group.first_sequence.0 == last.0 + 1, "groups come in the order of their records");
            self.writer.write(&group)?;
            facts.groups += 1;
            facts.records += group.records;
            facts.bytes += group.bytes() as u32;
            last = group.last_sequence();
            if (facts.groups as usize) < GROUPS_IN_FLIGHT_MAX {
                next = self.inbox.try_recv().ok();
            }
            // `group` is let go of here, before it is called durable, so that its buffer can be reused.
        }
        self.writer.flush()?;
        let written = Instant::now();
        assert!(facts.groups as usize <= GROUPS_IN_FLIGHT_MAX, "a batch is what was in flight, at most");
        self.writer.sync()?;
        assert!(!self.writer.has_unsynced(), "the whole batch is durable");
        let synced = Instant::now();
        facts.write_ns = (written - began).as_nanos() as u64;
        facts.sync_ns = (synced - written).as_nanos() as u64;
        facts.durable_ns = since.map_or(0, |since| (synced - since).as_nanos() as u64);
        // Facts that nobody drains are worth less than a thread that goes on.
        let _ = self.facts.try_send(facts);
        assert_eq!(self.writer.synced().sequence, last, "what was written was synced");
        self.progress.synced(self.writer.synced());
        let before = self.progress.durable.swap(last.0, Ordering::AcqRel);
        assert_eq!(last.0 - before, u64::from(facts.records), "records are numbered without gaps");
        self.progress.wake();
        Ok(())
    }

    /// Claims room ahead and says how far it reaches. A failure other than a full disk shows as one: service stops at
    /// the door, and goes on when claiming works again.
    pub fn claim_room(&mut self) {
        let (claim, failed) = loop {
            match self.writer.claim_room() {
                Ok(Claim::Claimed) => {}
                Ok(claim) => break (claim, None),
                Err(error) => break (Claim::DiskFull, Some(error)),
            }
        };
        let room = self.writer.room_up_to().0;
        assert!(room >= self.writer.synced().position.0, "room reaches at least as far as what is written");
        let full = claim == Claim::DiskFull;
        self.retry_ms = if full { (self.retry_ms * 2).min(DISK_FULL_RETRY_MS_MAX) } else { DISK_FULL_RETRY_MS };
        if full {
            self.progress.claim_failed(failed);
        }
        let had_room = self.progress.room_up_to.swap(room, Ordering::AcqRel);
        let was_full = self.progress.disk_full.swap(full, Ordering::AcqRel);
        if room != had_room || full != was_full {
            self.progress.wake();
        }
    }
}
