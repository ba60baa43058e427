//! What a shard asks of its log, whatever it is made of: local files, or messages of a replicated stream.
//!
//! ```text
//!   Logs ─open─▶ LogStore   one shard's thread: append, poll, peek; never waits
//!     │             └─reader─▶ LogReader   any other thread: read, fold, forget, scrub; may wait
//!     └─reader, inspect─▶ …                without the log's writer
//! ```
//!
//! Completion-based: `submit` hands a group over and returns, `poll_durable` says how far the log is safe. Why: a local
//! sync and a remote acknowledgement then look alike, and the shard's thread never waits for either.

use std::sync::Arc;

use crate::{
    BatchFacts, Cursor, Durability, Forgotten, GroupBuilder, GroupReader, JournalError, LogId, NotReady, Notice,
    Options, Position, RecoveryReport, Scrubbed, Sequence,
};

/// Called from another thread whenever there is something new to poll. Must be quick and must not block.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// What a record is for, which says how much of the room it may use. Each may use what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordClass {
    /// It is new and can be brought again later: not the room that is kept for the others ([`Options::note_bytes`]).
    New,
    /// Somebody comes back, perhaps to take what fills the disk: half of that room.
    Return,
    /// It notes what has ended or happened, and so makes room: all of it.
    Note,
}

/// One shard's log. Used by one thread, which must never be blocked by it.
pub trait LogStore: Sized {
    /// What reads it on other threads.
    type Reader: LogReader;

    /// An empty group that stands where the next submitted group will stand. One is filled at a time.
    fn begin_group(&mut self) -> GroupBuilder;

    /// Whether a group of the largest size may be begun now with records of this class, and be submitted.
    fn ready_for(&self, class: RecordClass) -> Result<(), NotReady>;

    /// The same for what is new.
    fn ready(&self) -> Result<(), NotReady> {
        self.ready_for(RecordClass::New)
    }

    /// Hands a group over to be made durable. Never blocks. An empty group is a no-op.
    ///
    /// The caller has asked [`LogStore::ready_for`] with [`RecordClass::Note`] since the last submit, and the log was
    /// ready for the group when it was begun; a group that was not begun at the end of the log is a bug and panics.
    /// `Err` is the failure of the whole log: nothing of this group will ever be acknowledged.
    fn submit(&mut self, group: GroupBuilder) -> Result<(), JournalError>;

    /// Up to where everything is durable. `Err`: the log has failed for good in this process.
    fn poll_durable(&mut self) -> Result<Durability, JournalError>;

    /// Whether [`LogStore::poll_durable`] would now say more than last time. A caller asks once more after it announced
    /// sleep: whoever reports completions wakes only those that have announced it.
    fn has_news(&self) -> bool;

    /// Sequence of the last record submitted.
    fn last_sequence(&self) -> Sequence;

    /// The record at `at`, if it is in memory: in flight, or durable since not long ago. Never waits, copies nothing.
    ///
    /// `at` is a position that an append returned; `None` for every record that has to be read (see
    /// [`LogReader::read`]).
    fn peek(&self, at: Position) -> Option<&[u8]>;

    /// A reader for another thread.
    fn reader(&self) -> Result<Self::Reader, JournalError>;

    /// Whom to wake from now on. News from before wakes nobody: ask [`LogStore::has_news`] afterwards.
    fn set_wake(&mut self, wake: Wake);

    /// Hands the facts of all batches since the last call to `each`. What nobody takes is dropped beyond
    /// [`crate::limits::FACTS_WAITING_MAX`] batches.
    fn take_facts(&mut self, each: &mut dyn FnMut(BatchFacts));

    /// Makes durable what was submitted and ends the log in order. Waits; returns the last durable sequence.
    fn close(self) -> Result<Sequence, JournalError>;
}

/// Reads one log beside the thread that writes it, or without one. May wait for the disk; one per thread.
pub trait LogReader: Send + Sized {
    /// Another reader of the same log, for another thread.
    fn another(&self) -> Result<Self, JournalError>;

    /// Replaces `into` with the record at `at`, which the caller knows to be durable, after checking its checksum.
    fn read(&self, at: Position, into: &mut Vec<u8>) -> Result<(), JournalError>;

    /// The same, for a record that may have a wrong byte: what can be put right is, in the file or in what is read.
    /// Reads all around a record that cannot be had, so it may take long then.
    fn read_right(&self, at: Position, into: &mut Vec<u8>) -> Result<(), JournalError> {
        self.read(at, into)
    }

    /// Closes what it has open of parts of the log that were forgotten meanwhile: as long as somebody has a file open,
    /// the disk keeps its bytes. For whoever has not read for a while, or reads all the time.
    fn let_go(&self) {}

    /// Whether the record at `at` stands in the data directory, so that reading it fetches nothing from elsewhere.
    fn is_here(&self, _at: Position) -> Result<bool, JournalError> {
        Ok(true)
    }

    /// The file that has the record at `at`, and the record's offset in it, for messages.
    fn place_of(&self, at: Position) -> (String, u64) {
        ("no file".into(), at.0)
    }

    /// Verifies what stands around `at`, the place of a record that could not be read: `Err` says what is damaged, as
    /// far as it can be told, and which records are lost with it. `Ok`: all is sound there, so no record begins at
    /// `at`.
    fn examine(&self, at: Position) -> Result<(), JournalError> {
        self.read(at, &mut Vec::new())
    }

    /// Where the parts of the log begin that were there and are not there now, each with why it cannot be read. Looks
    /// at names only: nobody need have asked for what is in them.
    fn away(&self) -> Vec<(Position, JournalError)> {
        Vec::new()
    }

    /// Where the next part of the log behind `at` begins that can be read although something before it is damaged;
    /// `None` if nothing can be.
    fn next_readable(&self, _at: Position) -> Result<Option<Cursor>, JournalError> {
        Ok(None)
    }

    /// A place at or before `at` from which the log can be read without what stands further before: where the part of
    /// it begins that holds `at`. Err if nothing can be read from there, or nothing is there.
    fn begins_at_or_before(&self, at: Position) -> Result<Cursor, JournalError>;

    /// Whether a group ends at `place`, in which case what stands before it is of one history with what names it.
    /// `false`: none ends there, or another one. Err: what stands before it is damaged, or cannot be read, so that
    /// nobody can tell.
    ///
    /// Why not by the group behind it: where another history has the middle of a group, what stands there looks like
    /// damage; and where there is damage, the place before it is right.
    fn has_place(&self, place: Cursor, up_to: &Durability) -> Result<bool, JournalError> {
        if place == Cursor::START {
            return Ok(true);
        }
        if place.position > up_to.position() {
            return Ok(false);
        }
        let begins = self.begins_at_or_before(place.position)?;
        let mut groups = self.groups(begins, up_to)?;
        while groups.cursor().position < place.position {
            if groups.next_group()?.is_none() {
                break;
            }
        }
        Ok(groups.cursor() == place)
    }

    /// What is wrong with the log between `from` and `to` that no reading of its groups shows: of segments that end
    /// there, the headers and the marks.
    fn rotten_ends(&self, _from: Position, _to: Position) -> Result<Vec<JournalError>, JournalError> {
        Ok(Vec::new())
    }

    /// Iterates over the groups from `from` to `up_to`, verifying checksums and the chain.
    fn groups(&self, from: Cursor, up_to: &Durability) -> Result<GroupReader, JournalError>;

    /// A place, often some way behind the end, up to which the log is durable for certain, without asking its writer.
    fn settled_end(&self) -> Result<Durability, JournalError>;

    /// How many bytes of log lie between two places, about: what a snapshot at `to` would save its reader. Zero if `to`
    /// is not behind.
    fn bytes_between(&self, from: Position, to: Position) -> u64;

    /// Lets go of what stands before `before`, as far as it can be removed without touching anything behind.
    ///
    /// The caller holds a durable snapshot of all that the records before `before` say. Panics for a log of
    /// [`crate::Retention::Whole`], which forgets nothing.
    fn forget_before(&self, before: Position) -> Result<Forgotten, JournalError>;

    /// Reads and verifies groups from `from` on: about `bytes` of them, at least one, none beyond
    /// [`LogReader::settled_end`].
    fn scrub(&self, from: Cursor, bytes: u64) -> Result<Scrubbed, JournalError>;
}

/// A log that was opened, and what was found.
pub struct Opened<L> {
    /// The log, ready to go on at its end.
    pub log: L,
    /// What was found and done.
    pub report: RecoveryReport,
}

/// Where logs are: opens them by name. Cheap to clone, one for each thread that opens.
pub trait Logs: Clone + Send + 'static {
    /// What it opens.
    type Log: LogStore;

    /// Opens the log, or begins it when `since` is [`Cursor::START`] and there is none; cuts a torn tail.
    ///
    /// Nothing before `since`, the cursor of a snapshot, need be there if the family may forget. What is behind it must
    /// be: a log that ends before it is refused as [`JournalError::BadCursor`]; that the chain goes on from it shows in
    /// the first group that is read from there. Refuses with [`JournalError::Damaged`] what a crash cannot explain.
    fn open(&self, id: LogId, since: Cursor, options: Options) -> Result<Opened<Self::Log>, JournalError>;

    /// A reader of a log that another thread, or nobody, writes.
    fn reader(&self, id: LogId) -> Result<<Self::Log as LogStore>::Reader, JournalError>;

    /// What opening the log would find and do; changes nothing.
    fn inspect(&self, id: LogId, since: Cursor) -> Result<RecoveryReport, JournalError>;

    /// Begins the log, durably, unless it is there.
    fn create(&self, id: LogId) -> Result<(), JournalError>;

    /// Writes a notice behind the end of a log that nobody writes, durably, and ends the log in order; `since` as in
    /// [`Logs::open`]. Returns the place behind the notice: its chain hash is the [`crate::Timeline`] of what follows.
    ///
    /// Panics when the notice's text is longer than [`crate::notice::NOTICE_TEXT_BYTES_MAX`].
    fn append_notice(
        &self,
        id: LogId,
        since: Cursor,
        options: Options,
        notice: &Notice,
    ) -> Result<Cursor, JournalError>;
}
