//! One shard's log in a stream, and how it is opened.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::message::{MESSAGE_HEADER_BYTES, MessageHeader, MessageKind};
use super::publisher::Publisher;
use super::reader::StreamReader;
use super::stored::StoredMessages;
use super::tail::{Tail, begins_at, find_tail};
use super::{Extent, Outcome, Stream, Streams, number_of, place_of, unavailable};
use crate::damage::bad_cursor;
use crate::family::Families;
use crate::group::{Seal, notice_body, seal};
use crate::in_flight::{InFlight, Layout, Submitted};
use crate::limits::{EPOCH_ATTEMPTS_MAX, FACTS_WAITING_MAX, MESSAGE_BYTES_MAX, MESSAGES_IN_FLIGHT_MAX};
use crate::store::Wake;
use crate::{
    BatchFacts, Cursor, Durability, Family, GroupBuilder, JournalError, LogId, LogStore, Logs, NotReady, Notice,
    Opened, Options, Position, RecordClass, RecoveryReport, Sequence,
};

/// How logs in streams are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// A random number of this process: epoch messages carry it, so that a process knows its own.
    pub writer: u64,
    /// Bytes of a message, header included; at most [`MESSAGE_BYTES_MAX`], and more than [`MESSAGE_HEADER_BYTES`].
    pub message_bytes_max: usize,
    /// Messages without a known outcome; at least one.
    pub messages_in_flight_max: usize,
}

impl StreamOptions {
    /// The sizes of [`crate::limits`], for the process of this random number.
    pub const fn of(writer: u64) -> StreamOptions {
        StreamOptions { writer, message_bytes_max: MESSAGE_BYTES_MAX, messages_in_flight_max: MESSAGES_IN_FLIGHT_MAX }
    }

    fn part_bytes(&self) -> usize {
        self.message_bytes_max - MESSAGE_HEADER_BYTES
    }
}

/// Logs in streams, one stream for each.
#[derive(Clone, Debug)]
pub struct StreamLogs<P: Streams> {
    streams: P,
    families: Families,
    options: StreamOptions,
}

impl<P: Streams> StreamLogs<P> {
    /// The logs of these families.
    pub fn new(streams: P, families: &[Family], options: StreamOptions) -> StreamLogs<P> {
        let sizes = MESSAGE_HEADER_BYTES + 1..=MESSAGE_BYTES_MAX;
        assert!(sizes.contains(&options.message_bytes_max), "a message has {sizes:?} bytes at most");
        StreamLogs { streams, families: Families::new(families), options }
    }

    /// The name of a log's stream.
    pub fn stream_name(family: &Family, log: LogId) -> String {
        format!("tidegate-{:016x}-{}-{}", log.directory, family.name, log.shard)
    }

    fn messages(&self, id: LogId) -> Result<StoredMessages<P::Stream>, JournalError> {
        let family = self.families.of(id);
        let name = StreamLogs::<P>::stream_name(family, id);
        let stream = self.streams.open(&name).map_err(unavailable(id, "open its stream"))?;
        Ok(StoredMessages::new(stream, id, family))
    }
}

impl<P: Streams> Logs for StreamLogs<P> {
    type Log = StreamLog<P::Stream>;

    fn open(&self, id: LogId, since: Cursor, options: Options) -> Result<Opened<Self::Log>, JournalError> {
        let mut messages = self.messages(id)?;
        // What is wrong is refused before anybody is fenced out for it.
        let extent = messages.extent()?;
        check_begins(&messages, extent, since)?;
        let epoch = begin_epoch(&mut messages.stream, id, self.options.writer)?;
        let tail = find_tail(&messages, epoch - 1)?;
        let report = report(messages.extent()?, &tail, since)?;
        let publisher = Publisher::new(id, messages.stream.another(), epoch, self.options.messages_in_flight_max);
        let layout = Layout::Messages { part_bytes: self.options.part_bytes() };
        let log = StreamLog {
            id,
            in_flight: InFlight::with_layout(layout, report.end, place_of(epoch + 1), &options),
            sealed: Cursor { position: place_of(epoch + 1), ..report.end },
            durable: report.durability(),
            epoch,
            part_bytes: self.options.part_bytes(),
            publisher,
            unsettled: VecDeque::new(),
            facts: VecDeque::new(),
            failure: None,
            messages,
        };
        Ok(Opened { log, report })
    }

    fn reader(&self, id: LogId) -> Result<StreamReader<P::Stream>, JournalError> {
        self.messages(id).map(StreamReader::new)
    }

    fn inspect(&self, id: LogId, since: Cursor) -> Result<RecoveryReport, JournalError> {
        let messages = self.messages(id)?;
        let extent = messages.extent()?;
        check_begins(&messages, extent, since)?;
        report(extent, &find_tail(&messages, extent.last)?, since)
    }

    fn create(&self, id: LogId) -> Result<(), JournalError> {
        let mut messages = self.messages(id)?;
        if messages.extent()?.last == 0 {
            begin_epoch(&mut messages.stream, id, self.options.writer)?;
        }
        Ok(())
    }

    fn append_notice(
        &self,
        id: LogId,
        since: Cursor,
        options: Options,
        notice: &Notice,
    ) -> Result<Cursor, JournalError> {
        self.open(id, since, options)?.log.append_notice(notice)
    }
}

/// Whether the log reaches back to `since`.
fn check_begins<T: Stream>(messages: &StoredMessages<T>, extent: Extent, since: Cursor) -> Result<(), JournalError> {
    let reaches_back = match messages.may_forget() {
        true => begins_at(extent.first) <= since.position,
        false => extent.first == 1,
    };
    // With a snapshot there was a log: its absence is a loss, not a beginning.
    if !reaches_back || (extent.last == 0 && since != Cursor::START) {
        return Err(messages.damaged(number_of(since.position).max(1), 0, "the message is missing".into()));
    }
    Ok(())
}

fn report(extent: Extent, tail: &Tail, since: Cursor) -> Result<RecoveryReport, JournalError> {
    if since.position > tail.end.position {
        return Err(bad_cursor(&since, format!("the log ends at position {}", tail.end.position)));
    }
    Ok(RecoveryReport {
        damaged: Vec::new(),
        end: tail.end,
        begins: begins_at(extent.first),
        segments: 0,
        groups_verified: u64::from(tail.last_group > 0),
        bytes_cut: tail.void_bytes,
        durability: Durability::at(tail.end),
    })
}

/// Appends an epoch message; returns its number. From then on nobody else's messages count.
fn begin_epoch<T: Stream>(stream: &mut T, id: LogId, writer: u64) -> Result<u64, JournalError> {
    let failed = |cause| unavailable(id, "begin to write")(cause);
    for _ in 0..EPOCH_ATTEMPTS_MAX {
        let last = stream.extent().map_err(failed)?.last;
        let number = last + 1;
        let message = MessageHeader { log: id, number, kind: MessageKind::Epoch { writer } }.encode(&[]);
        stream.publish(last, message.clone());
        for _ in 0..EPOCH_ATTEMPTS_MAX {
            stream.wait().map_err(failed)?;
            match stream.poll() {
                Some(Outcome::Stored { number: stored }) if stored == number => return Ok(number),
                Some(Outcome::Found { message: Some(found), .. }) if found == message => return Ok(number),
                // Somebody else was faster, or the message was lost.
                Some(Outcome::Found { .. }) => break,
                _ => stream.look_up(number),
            }
        }
    }
    Err(failed(super::StreamError("no attempt to append an epoch message succeeded".into())))
}

/// A submitted group whose messages are not all known to be stored.
struct Unsettled {
    last_number: u64,
    end: Durability,
    group: Arc<Submitted>,
}

/// One shard's log in a stream.
///
/// Dropping it takes nothing back: what was published may be stored, as after a crash.
pub struct StreamLog<T: Stream> {
    id: LogId,
    in_flight: InFlight,
    publisher: Publisher<T>,
    messages: StoredMessages<T>,
    /// Number of our epoch message.
    epoch: u64,
    part_bytes: usize,
    /// The place behind the last group that was submitted, where the next one stands.
    sealed: Cursor,
    unsettled: VecDeque<Unsettled>,
    durable: Durability,
    facts: VecDeque<BatchFacts>,
    failure: Option<JournalError>,
}

impl<T: Stream> StreamLog<T> {
    /// Takes what the stream has said; a failure is for good.
    fn turn(&mut self) -> Result<(), JournalError> {
        self.check()?;
        if let Err(error) = self.publisher.turn() {
            self.failure = Some(error);
        }
        self.check()?;
        let settled = self.publisher.settled();
        while self.unsettled.front().is_some_and(|first| first.last_number <= settled) {
            let first = self.unsettled.pop_front().expect("looked at above");
            self.durable = first.end;
            if self.facts.len() < FACTS_WAITING_MAX {
                self.facts.push_back(facts_of(&first.group));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), JournalError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Publishes a notice as the last group of this log's writer, and waits until it is stored.
    fn append_notice(mut self, notice: &Notice) -> Result<Cursor, JournalError> {
        assert!(self.unsettled.is_empty(), "a notice follows what is durable");
        let before = self.sealed;
        let what = Seal { log: self.id, before, synced_up_to: self.durable.position(), record_count: 0 };
        let mut image = Vec::new();
        let sealed = seal(what, &notice_body(notice), &mut image);
        let last_number = self.push(&image, sealed.chain);
        self.turn()?;
        while !self.publisher.is_empty() {
            self.publisher.wait()?;
            self.turn()?;
        }
        assert!(self.publisher.settled() >= last_number, "nothing is waited for, so all of it is stored");
        Ok(Cursor { position: place_of(last_number + 1), ..sealed })
    }

    /// Cuts a sealed group into messages, and hands them over.
    fn push(&mut self, image: &[u8], chain: crate::ChainHash) -> u64 {
        let first = number_of(self.sealed.position);
        let parts = image.len().div_ceil(self.part_bytes);
        let (epoch, settled) = (self.epoch, self.publisher.settled());
        for (part, payload) in image.chunks(self.part_bytes).enumerate() {
            let kind = MessageKind::Part { epoch, settled, first, part: part as u16, parts: parts as u16, chain };
            let header = MessageHeader { log: self.id, number: first + part as u64, kind };
            self.publisher.push(header.encode(payload));
        }
        first + parts as u64 - 1
    }
}

fn facts_of(group: &Submitted) -> BatchFacts {
    BatchFacts {
        groups: 1,
        records: group.records,
        bytes: group.bytes() as u32,
        durable_ns: group.since.map_or(0, |since| since.elapsed().as_nanos() as u64),
        ..BatchFacts::default()
    }
}

impl<T: Stream> LogStore for StreamLog<T> {
    type Reader = StreamReader<T>;

    fn begin_group(&mut self) -> GroupBuilder {
        self.in_flight.begin()
    }

    /// There is room always; a bounded number of groups waits to be stored.
    fn ready_for(&self, class: RecordClass) -> Result<(), NotReady> {
        self.check()?;
        self.in_flight.ready_for(class, Position(u64::MAX), false)
    }

    fn submit(&mut self, group: GroupBuilder) -> Result<(), JournalError> {
        self.check()?;
        let Some(submitted) = self.in_flight.submit(group, Some(Instant::now())) else { return Ok(()) };
        assert_eq!(submitted.base, self.sealed.position, "a group stands behind the one before it");
        let mut image = Vec::with_capacity(submitted.bytes());
        let what = Seal {
            log: self.id,
            before: self.sealed,
            synced_up_to: self.durable.position(),
            record_count: submitted.records,
        };
        let sealed = seal(what, &submitted.body, &mut image);
        let last_number = self.push(&image, sealed.chain);
        self.sealed = Cursor { position: submitted.end, ..sealed };
        assert_eq!(submitted.end, place_of(last_number + 1), "log and shard count alike");
        let end = Durability::at(self.sealed);
        self.unsettled.push_back(Unsettled { last_number, end, group: submitted });
        self.turn()
    }

    fn poll_durable(&mut self) -> Result<Durability, JournalError> {
        self.turn()?;
        let settled = self.in_flight.settle(self.durable.sequence());
        assert_eq!(settled.position(), self.durable.position(), "log and shard count alike");
        Ok(self.durable)
    }

    fn has_news(&self) -> bool {
        self.failure.is_some() || self.publisher.has_news()
    }

    fn last_sequence(&self) -> Sequence {
        self.in_flight.last_sequence()
    }

    #[inline]
    fn peek(&self, at: Position) -> Option<&[u8]> {
        self.in_flight.peek(at)
    }

    fn reader(&self) -> Result<StreamReader<T>, JournalError> {
        Ok(StreamReader::new(self.messages.another()))
    }

    fn set_wake(&mut self, wake: Wake) {
        self.publisher.stream().set_wake(wake);
    }

    fn take_facts(&mut self, each: &mut dyn FnMut(BatchFacts)) {
        self.facts.drain(..).for_each(each);
    }

    fn close(mut self) -> Result<Sequence, JournalError> {
        self.turn()?;
        while !self.publisher.is_empty() {
            self.publisher.wait()?;
            self.turn()?;
        }
        let durable = self.poll_durable()?.sequence();
        assert_eq!(durable, self.last_sequence(), "a log that did not fail has made all of it durable");
        Ok(durable)
    }
}
