//! Writes old bodies again at the end of the log, so that old segments can be forgotten.

use std::sync::Arc;

use tidegate_journal::{LogStore, RecordClass};
use tidegate_machines::queue::Command;
use tidegate_machines::queue::Message;
use tidegate_machines::queue::limits::{BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, MESSAGE_OVERHEAD_BYTES};
use tidegate_shard::Jobs;

use super::execute::Executed;
use super::{Job, QueueService, QueueTurn, Reading};
use crate::limits::{LOG_BYTES_PER_LIVE_BYTE, MOVED_AS_NOTE_BYTES, SEGMENTS_MIN};
use crate::protocol::RequestTicket;

impl<T: RequestTicket> QueueService<T> {
    /// Writes old bodies again when the log has more garbage than messages. Whether anything happened.
    pub(super) fn move_bodies<L: LogStore>(&mut self, turn: &mut QueueTurn<'_, T, L>, jobs: &mut Jobs<Self>) -> bool {
        self.tell_unmoved(turn);
        let mut worked = false;
        // A log of small segments has small records.
        let bytes_max = BATCH_BYTES_MAX.min(self.options.segment_bytes as usize / 8);
        while !self.moves.is_empty() {
            let (mut bytes, mut count) = (0, 0);
            let fits = |(_, message): &(u64, Arc<Message>)| {
                bytes += message.bytes() + MESSAGE_OVERHEAD_BYTES;
                count += 1;
                count == 1 || bytes <= bytes_max && count <= BATCH_MESSAGES_MAX
            };
            let part: Vec<_> = self.moves.iter().cloned().take_while(fits).collect();
            // What is little, and keeps the log on a full disk, makes more room than it takes.
            let bytes: usize = part.iter().map(|(_, message)| message.bytes() + MESSAGE_OVERHEAD_BYTES).sum();
            let class = if bytes <= MOVED_AS_NOTE_BYTES { RecordClass::Note } else { RecordClass::Return };
            match self.execute(turn, class, &Command::Move { messages: &part }) {
                Executed::NoRoom | Executed::DiskFull => return worked,
                Executed::Done(_) => {}
            }
            self.moves.drain(..part.len());
            self.moved += part.len() as u64;
            worked = true;
        }
        let is_reading = self.readings.values().any(|reading| matches!(reading, Reading::Move));
        self.is_moving = is_reading;
        if !is_reading && turn.now() >= self.move_after && self.has_garbage(turn) {
            // What is not durable yet cannot be read.
            let durable = turn.durable().position().0;
            let mut places = turn.state().in_oldest_place();
            places.retain(|place| place.record.0 < durable);
            let job = jobs.start_later(u64::MAX, Job { places, trails: Vec::new() });
            self.readings.insert(job, Reading::Move);
            self.is_moving = true;
        }
        worked
    }

    /// Says which bodies keep the log from being forgotten, because they cannot be read.
    fn tell_unmoved<L: LogStore>(&mut self, turn: &QueueTurn<'_, T, L>) {
        let unmoved = std::mem::take(&mut self.unmoved);
        // One that is gone meanwhile needs no body.
        let mut keys = unmoved.iter().filter_map(|(number, error)| Some((turn.state().key(*number)?, error)));
        if let Some((key, error)) = keys.next() {
            let (key, others) = (key.to_string(), keys.count());
            let what = "the bodies of old messages cannot be read to be written again: the log is kept since then, and \
                grows, until they are acknowledged, cancelled or purged; it is tried again in a minute";
            tracing::error!(key, others, error, "{what}");
        }
    }

    pub(super) fn has_garbage<L: LogStore>(&self, turn: &QueueTurn<'_, T, L>) -> bool {
        let Some(since) = turn.state().bodies_since() else { return false };
        let (_, messages) = turn.state().totals();
        let live = turn.state().live_bytes() + messages * MESSAGE_OVERHEAD_BYTES as u64;
        let log = turn.durable().position().0.saturating_sub(since.0);
        // On a full disk, one message may keep the room that others need.
        let segments = if turn.is_disk_full(RecordClass::New) { 1 } else { SEGMENTS_MIN };
        log > segments * self.options.segment_bytes && log > LOG_BYTES_PER_LIVE_BYTE * live
    }
}
