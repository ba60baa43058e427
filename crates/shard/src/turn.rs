//! Appends a shard's records to its log and applies them to its state.
//!
//! ```text
//!   event ─▶ Turn::append: encode into the filling group ─▶ apply to the state ─▶ Place
//!                               │ submit, as soon as the log is ready; the next group is begun at once
//!                               ▼
//!                             syncing … ─▶ durable up to n
//! ```
//!
//! Promise: the state is the fold of what was appended and of nothing else, because nothing else can change it.
//!
//! Why a service gets a [`Turn`] and not the shard: it can read the state, ask for room and append. When groups are
//! submitted and answers released is decided in one place, in [`crate::shard`].

use tidegate_journal::{
    Durability, GroupBuilder, JournalError, LogStore, NoRoom, NotReady, Position, RecordClass, Sequence,
};
use tidegate_machines::{Machine, Place, RecordPosition, RecordSequence, TimeMs};

/// A machine, its log, and the group between them.
pub(crate) struct Core<M: Machine, L: LogStore> {
    pub(crate) state: M,
    pub(crate) log: L,
    group: GroupBuilder,
    /// For what there was room when the filling group was begun.
    begun_for: RecordClass,
    appended: Sequence,
    durable: Durability,
    records: u64,
    groups: u64,
}

impl<M: Machine, L: LogStore> Core<M, L> {
    /// Goes on at the end of `log`, of which `state` is the fold.
    pub fn new(state: M, mut log: L) -> Result<Core<M, L>, JournalError> {
        let appended = log.last_sequence();
        let durable = log.poll_durable()?;
        assert_eq!(durable.sequence(), appended, "a log that was just opened has nothing in flight");
        let group = log.begin_group();
        assert_eq!(group.first_sequence().0, appended.0 + 1, "the next record follows the last one");
        Ok(Core { state, log, group, begun_for: RecordClass::New, appended, durable, records: 0, groups: 0 })
    }

    /// Submits the filling group when the log takes one; the next one starts to fill. Returns whether it did.
    pub fn submit(&mut self) -> Result<bool, JournalError> {
        if self.group.is_empty() {
            return Ok(false);
        }
        // The log was ready for it when it was begun: it waits for others at most.
        match self.log.ready_for(RecordClass::Note) {
            Ok(()) => {}
            Err(NotReady::Failed(error)) => return Err(error),
            Err(NotReady::Busy | NotReady::DiskFull) => return Ok(false),
        }
        assert_eq!(self.group.last_sequence(), self.appended, "the group ends with what was appended last");
        assert!(self.group.first_sequence() > self.durable.sequence(), "what is durable is not submitted again");
        let full = std::mem::take(&mut self.group);
        self.log.submit(full)?;
        self.group = self.log.begin_group();
        self.begun_for = RecordClass::New;
        assert_eq!(self.group.first_sequence().0, self.appended.0 + 1, "records are numbered without a gap");
        self.groups += 1;
        Ok(true)
    }

    /// Asks the log how far it is durable; whether that is further than it was.
    pub fn poll(&mut self) -> Result<bool, JournalError> {
        let durable = self.log.poll_durable()?;
        let before = self.durable.sequence();
        assert!(before <= durable.sequence(), "what was durable cannot become undone");
        assert!(durable.sequence() <= self.appended, "nothing is durable that was not appended");
        self.durable = durable;
        Ok(durable.sequence() > before)
    }

    /// Whether a full disk keeps the log from taking what was appended.
    pub fn is_stuck(&self) -> bool {
        !self.group.is_empty() && matches!(self.log.ready_for(RecordClass::Note), Err(NotReady::DiskFull))
    }

    pub fn turn(&mut self, now: TimeMs) -> Turn<'_, M, L> {
        Turn { core: self, now }
    }

    pub fn appended(&self) -> Sequence {
        self.appended
    }

    pub fn durable(&self) -> Durability {
        self.durable
    }

    pub fn is_group_empty(&self) -> bool {
        self.group.is_empty()
    }

    /// Records appended and groups submitted since the start.
    pub fn counts(&self) -> (u64, u64) {
        (self.records, self.groups)
    }

    #[inline]
    fn append(&mut self, event: &M::Event<'_>) -> Result<Place, NoRoom> {
        let position = self.group.try_append(|buffer| M::encode(event, buffer))?;
        let sequence = Sequence(self.appended.0 + 1);
        assert!(self.group.last_sequence() == sequence, "a record's number is its place in the log");
        self.appended = sequence;
        let at = Place { position: RecordPosition(position.0), sequence: RecordSequence(self.appended.0) };
        self.state.apply(event, at);
        self.records += 1;
        Ok(at)
    }
}

/// Whether a record may be appended now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Yes.
    Available,
    /// The group is full; the next one has room.
    NextGroup,
    /// No group can be begun before there is room on the disk.
    DiskFull,
    /// Not even an empty group has room for that much.
    TooLarge,
}

/// What a service may do in its turn: read the state, look up young records, append.
pub struct Turn<'a, M: Machine, L: LogStore> {
    core: &'a mut Core<M, L>,
    now: TimeMs,
}

impl<M: Machine, L: LogStore> Turn<'_, M, L> {
    /// The time of this step.
    #[inline]
    pub fn now(&self) -> TimeMs {
        self.now
    }

    /// The machine's state, ahead of the disk by the groups in flight.
    #[inline]
    pub fn state(&self) -> &M {
        &self.core.state
    }

    /// Whether records of `payload_bytes` together may be appended now. An empty group may start only with room on the
    /// disk for all of a group.
    #[inline]
    pub fn room(&self, payload_bytes: usize) -> Room {
        self.room_for(RecordClass::New, payload_bytes)
    }

    /// The same for records of this class.
    #[inline]
    pub fn room_for(&self, class: RecordClass, payload_bytes: usize) -> Room {
        let fits = self.core.group.has_room(payload_bytes);
        if !self.core.group.is_empty() {
            return match class < self.core.begun_for {
                true => Room::DiskFull,
                false if fits => Room::Available,
                false => Room::NextGroup,
            };
        }
        match (fits, self.core.log.ready_for(class)) {
            (_, Err(NotReady::DiskFull | NotReady::Failed(_))) => Room::DiskFull,
            (true, _) => Room::Available,
            (false, _) => Room::TooLarge,
        }
    }

    /// Whether nothing was appended to the filling group.
    #[inline]
    pub fn is_group_empty(&self) -> bool {
        self.core.group.is_empty()
    }

    /// Whether a full disk keeps the log from taking another group of records of this class.
    pub fn is_disk_full(&self, class: RecordClass) -> bool {
        matches!(self.core.log.ready_for(class), Err(NotReady::DiskFull))
    }

    /// The record at `at` if it is in memory: in the filling group, in flight, or durable since not long ago.
    #[inline]
    pub fn peek(&self, at: Position) -> Option<&[u8]> {
        self.core.group.record_at(at).or_else(|| self.core.log.peek(at))
    }

    /// Appends `event`, which was decided on this very state, and folds it in. The caller has asked [`Turn::room`] for
    /// at least a byte. On `Err` nothing has changed.
    #[inline]
    pub fn append(&mut self, event: &M::Event<'_>) -> Result<Place, NoRoom> {
        self.core.append(event)
    }

    /// The same for a record of this class, for which the caller has asked [`Turn::room_for`].
    pub fn append_of(&mut self, class: RecordClass, event: &M::Event<'_>) -> Result<Place, NoRoom> {
        let begins = self.core.group.is_empty();
        let place = self.core.append(event)?;
        if begins {
            // A log that is busy has room soon.
            let widest = [RecordClass::New, RecordClass::Return].into_iter().find(|class| !self.is_disk_full(*class));
            self.core.begun_for = widest.unwrap_or(class).min(class);
        }
        Ok(place)
    }

    /// Sequence of the last record appended.
    #[inline]
    pub fn appended(&self) -> Sequence {
        self.core.appended
    }

    /// Up to where the log is durable, as of the last time that it was asked.
    #[inline]
    pub fn durable(&self) -> Durability {
        self.core.durable
    }
}

#[cfg(test)]
mod tests;
