//! The side of a log that its shard sees: what was submitted, what became durable, and the buffers in between.
//!
//! A submitted group is shared with whoever writes it and read from here until it is durable; then its buffer is
//! reused.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::builder::{GroupLimits, record_in};
use crate::group::GROUP_HEADER_BYTES;
use crate::limits::GROUPS_IN_FLIGHT_MAX;
use crate::stream::{number_of, place_of};
use crate::{ChainHash, Cursor, Durability, GroupBuilder, NotReady, Options, Position, RecordClass, Sequence};

/// A group on its way to disk.
#[derive(Debug)]
pub(crate) struct Submitted {
    pub base: Position,
    pub first_sequence: Sequence,
    pub records: u32,
    pub body: Vec<u8>,
    /// The place behind it.
    pub end: Position,
    /// When it was submitted; `None` where there is no clock.
    pub since: Option<Instant>,
    /// Its chain hash, once whoever writes it has computed that.
    chain: OnceLock<ChainHash>,
}

impl Submitted {
    /// Hears its chain hash, before it is durable.
    pub fn note_chain(&self, chain: ChainHash) {
        let known = self.chain.get_or_init(|| chain);
        assert_eq!(*known, chain, "a group is sealed once");
    }

    /// What is durable when it is.
    fn durability(&self) -> Durability {
        let (position, sequence) = (self.end, self.last_sequence());
        match self.chain.get() {
            Some(chain) => Durability::at(Cursor { position, sequence, chain: *chain }),
            None => Durability::unchained(position, sequence),
        }
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> usize {
        GROUP_HEADER_BYTES + self.body.len()
    }

    pub fn last_sequence(&self) -> Sequence {
        Sequence(self.first_sequence.0 + u64::from(self.records) - 1)
    }
}

impl Submitted {
    fn holds(&self, at: Position) -> bool {
        self.base <= at && at < self.end
    }
}

/// How a kind of log counts positions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    /// By bytes: groups follow each other without a gap.
    Bytes,
    /// By messages, each of which holds so many bytes of a group: see [`crate::stream`].
    Messages { part_bytes: usize },
}

impl Layout {
    /// The place behind a group of `bytes` at `base`.
    pub fn end(self, base: Position, bytes: usize) -> Position {
        match self {
            Layout::Bytes => Position(base.0 + bytes as u64),
            Layout::Messages { part_bytes } => {
                assert_eq!(base, place_of(number_of(base)), "a group begins with a message");
                place_of(number_of(base) + bytes.div_ceil(part_bytes) as u64)
            }
        }
    }
}

/// Submitted groups, oldest first, and where the log ends.
pub(crate) struct InFlight {
    layout: Layout,
    groups: VecDeque<Arc<Submitted>>,
    /// Durable groups that were the last to become so, oldest first, and the memory they hold. Why: what is looked up
    /// is mostly young (a hold that is posted, a request that is sent again), and a look here saves a system call.
    recent: VecDeque<Submitted>,
    recent_bytes: usize,
    recent_bytes_max: usize,
    recycled: Vec<Vec<u8>>,
    group_bytes_max: usize,
    note_bytes: u64,
    record_bytes_max: usize,
    next: Position,
    last_sequence: Sequence,
    durable: Durability,
}

impl InFlight {
    pub fn new(end: Cursor, options: &Options) -> InFlight {
        InFlight::with_layout(Layout::Bytes, end, end.position, options)
    }

    /// A log that ends with `end` and goes on at `next`.
    pub fn with_layout(layout: Layout, end: Cursor, next: Position, options: &Options) -> InFlight {
        options.check();
        assert!(end.position <= next, "a log only grows");
        InFlight {
            layout,
            groups: VecDeque::with_capacity(GROUPS_IN_FLIGHT_MAX),
            recent: VecDeque::new(),
            recent_bytes: 0,
            recent_bytes_max: options.recent_bytes_max,
            recycled: Vec::with_capacity(GROUPS_IN_FLIGHT_MAX + 1),
            group_bytes_max: options.group_bytes_max,
            note_bytes: options.note_bytes,
            record_bytes_max: options.record_bytes_max,
            next,
            last_sequence: end.sequence,
            durable: Durability::at(end),
        }
    }

    pub fn begin(&mut self) -> GroupBuilder {
        assert!(self.durable.sequence() <= self.last_sequence && self.durable.position() <= self.next);
        let buffer = self.recycled.pop().unwrap_or_default();
        let limits = GroupLimits { group_bytes_max: self.group_bytes_max, record_bytes_max: self.record_bytes_max };
        GroupBuilder::new(self.next, Sequence(self.last_sequence.0 + 1), limits, buffer)
    }

    /// Takes a filled group; `None` when it is empty.
    pub fn submit(&mut self, group: GroupBuilder, since: Option<Instant>) -> Option<Arc<Submitted>> {
        assert_eq!(group.base(), self.next, "a group is begun after the one before it was submitted");
        assert_eq!(group.first_sequence().0, self.last_sequence.0 + 1, "records are numbered without gaps");
        assert!(group.bytes() <= self.group_bytes_max, "a group has at most {} bytes", self.group_bytes_max);
        if group.is_empty() {
            self.recycle(group.into_body());
            return None;
        }
        assert!(self.groups.len() < GROUPS_IN_FLIGHT_MAX, "ready() is asked before submit");
        let (base, first_sequence, records) = (group.base(), group.first_sequence(), group.records());
        let end = self.layout.end(base, group.bytes());
        let (body, chain) = (group.into_body(), OnceLock::new());
        let submitted = Arc::new(Submitted { base, first_sequence, records, body, end, since, chain });
        assert!(submitted.end > self.next, "a log only grows");
        assert!(submitted.last_sequence() > self.last_sequence, "a group has records");
        self.next = submitted.end;
        self.last_sequence = submitted.last_sequence();
        let before = self.groups.back().map_or(self.durable.position(), |last| last.end);
        let follows = submitted.base == before || self.groups.is_empty() && submitted.base > before;
        assert!(follows, "groups in flight follow each other, and the first one what is durable");
        self.groups.push_back(submitted.clone());
        Some(submitted)
    }

    /// Forgets the groups up to `sequence`, which are durable; says up to where all is.
    pub fn settle(&mut self, sequence: Sequence) -> Durability {
        assert!(
            sequence <= self.last_sequence,
            "record {sequence} is durable, and {} was the last",
            self.last_sequence
        );
        assert!(sequence >= self.durable.sequence(), "what was durable cannot become undone");
        while self.groups.front().is_some_and(|group| group.last_sequence() <= sequence) {
            let group = self.groups.pop_front().expect("looked at above");
            self.durable = group.durability();
            // The writer has let go of it before it said that it is durable.
            if let Some(group) = Arc::into_inner(group) {
                self.keep_recent(group);
            }
        }
        assert_eq!(self.durable.sequence(), sequence, "whole groups become durable");
        assert!(self.durable.position() <= self.next, "only what was submitted becomes durable");
        self.durable
    }

    fn keep_recent(&mut self, group: Submitted) {
        assert!(self.recent.back().is_none_or(|last| last.end == group.base), "recent groups follow each other");
        self.recent_bytes += group.body.capacity();
        self.recent.push_back(group);
        while self.recent_bytes > self.recent_bytes_max {
            let Some(oldest) = self.recent.pop_front() else { break };
            self.recent_bytes -= oldest.body.capacity();
            self.recycle(oldest.body);
        }
        assert!(self.recent_bytes <= self.recent_bytes_max);
    }

    /// Whether [`InFlight::settle`] with this sequence would forget a group.
    pub fn would_settle(&self, sequence: Sequence) -> bool {
        self.groups.front().is_some_and(|group| group.last_sequence() <= sequence)
    }

    /// Whether one more group of the largest size may be begun with records of this class, given how far there is room
    /// on disk.
    pub fn ready_for(&self, class: RecordClass, room_up_to: Position, disk_full: bool) -> Result<(), NotReady> {
        let kept_bytes = match class {
            RecordClass::New => self.note_bytes,
            RecordClass::Return => self.note_bytes / 2,
            RecordClass::Note => 0,
        };
        assert!(self.groups.len() <= GROUPS_IN_FLIGHT_MAX, "no more are let in");
        let has_room = self.next.0 + self.group_bytes_max as u64 + kept_bytes <= room_up_to.0;
        match has_room {
            true if self.groups.len() < GROUPS_IN_FLIGHT_MAX => Ok(()),
            // Said although others are in flight, so that no group is begun that would have to wait for room.
            false if disk_full => Err(NotReady::DiskFull),
            _ => Err(NotReady::Busy),
        }
    }

    /// The record at `at` if its group is in flight, or was not long ago.
    #[inline]
    pub fn peek(&self, at: Position) -> Option<&[u8]> {
        let in_flight = self.groups.iter().map(Arc::as_ref).rev().find(|group| group.holds(at));
        let group = in_flight.or_else(|| {
            let after = self.recent.partition_point(|group| group.base <= at);
            self.recent.get(after.checked_sub(1)?).filter(|group| group.holds(at))
        });
        let group = group?;
        let offset = at.0.checked_sub(group.base.0 + GROUP_HEADER_BYTES as u64)?;
        record_in(&group.body, offset as usize)
    }

    /// Sequence of the last record submitted.
    pub fn last_sequence(&self) -> Sequence {
        self.last_sequence
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        if self.recycled.len() <= GROUPS_IN_FLIGHT_MAX {
            self.recycled.push(buffer);
        }
    }
}
