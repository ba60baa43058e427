//! Appends records to the log of a stopped shard, group by group, each checked against the fold of those before it.

use anyhow::{Result, bail};
use tidegate_journal::{GroupBuilder, LogId, LogStore, NoRoom, NotReady};
use tidegate_machines::ledger::{Event, Ledger};
use tidegate_machines::{Machine, Place, RecordPosition, RecordSequence};

use super::Writing;

/// A log, and the group that is filled.
pub(super) struct Appender<L: LogStore> {
    log: L,
    id: LogId,
    group: GroupBuilder,
    losses: u64,
}

impl<L: LogStore> Appender<L> {
    /// Goes on at the end of `log`, which is `id`.
    pub fn new(mut log: L, id: LogId) -> Appender<L> {
        let group = log.begin_group();
        Appender { log, id, group, losses: 0 }
    }

    /// Appends an event that `ledger`, the fold of the log, has decided, and folds it in. What does not follow from the
    /// state is refused, and the group that it is in is never submitted.
    pub fn append(&mut self, ledger: &mut Ledger, event: &Event<'_>, writing: &mut Writing<'_>) -> Result<()> {
        let at = match self.group.try_append(|record| Ledger::encode(event, record)) {
            Err(NoRoom::Here) => {
                self.submit(writing)?;
                self.group.try_append(|record| Ledger::encode(event, record))
            }
            tried => tried,
        };
        let Ok(at) = at else { unreachable!("an empty group has room for any event") };
        let sequence = RecordSequence(self.group.last_sequence().0);
        ledger.apply_checked(event, Place { position: RecordPosition(at.0), sequence })?;
        self.losses += u64::from(matches!(event, Event::LossBooked { .. }));
        Ok(())
    }

    fn submit(&mut self, writing: &mut Writing<'_>) -> Result<()> {
        while let Err(not_ready) = self.log.ready() {
            match not_ready {
                NotReady::Busy => {
                    self.log.poll_durable()?;
                    (writing.wait)(self.id);
                }
                NotReady::DiskFull => bail!("the disk is full: make room and run this again, it goes on"),
                NotReady::Failed(error) => return Err(error.into()),
            }
        }
        let full = std::mem::take(&mut self.group);
        self.log.submit(full)?;
        self.group = self.log.begin_group();
        Ok(())
    }

    /// Booked losses among what was appended.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// Makes everything durable and ends the log in order.
    pub fn close(mut self, writing: &mut Writing<'_>) -> Result<()> {
        self.submit(writing)?;
        self.log.close()?;
        Ok(())
    }
}
