//! Acknowledgements that this broker collects: for wills and delayed messages of its own, and for a message of another
//! worker that several shards here journal.
//!
//! ```text
//!   begin(completion) ─▶ number ─▶ shards and workers answer with it ─▶ count_ack, each time
//!                          └─▶ expect(how many) ─────────────────────▶ all are there: the completion is run
//! ```
//!
//! Why the count comes second: the first acknowledgement may arrive before it is known how many there will be.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_wire::mqtt::ReasonCode;

use super::Broker;
use crate::index::ShardPlace;
use crate::peer::AckTo;

/// What is done when all acknowledgements have arrived.
#[derive(Clone, Copy, Debug)]
pub(super) enum Completion {
    /// One acknowledgement is sent, for all that were collected.
    Ack(AckTo),
    /// A durable session's will was sent: its record is cleared.
    ForgetWill { shard: ShardPlace, slot: tidegate_machines::topic::Slot },
    /// A delayed message was sent: its record is cleared.
    ForgetDelayed { shard: ShardPlace, id: u64 },
}

/// The acknowledgements of one message.
#[derive(Clone, Copy, Debug)]
struct PendingAck {
    completion: Completion,
    /// Acknowledgements still to come. Negative as long as some arrived before `expect` gave their number.
    remaining: i32,
    is_counted: bool,
    reason: ReasonCode,
}

/// All that are in progress, by number. A number is used again when its acknowledgements are complete.
#[derive(Debug, Default)]
pub(super) struct PendingAcks {
    all: Vec<Option<PendingAck>>,
    free: Vec<u32>,
}

impl PendingAcks {
    /// Begins to collect. `expect` gives the number of acknowledgements later.
    pub fn begin(&mut self, completion: Completion) -> u32 {
        let pending = Some(PendingAck { completion, remaining: 0, is_counted: false, reason: ReasonCode::SUCCESS });
        match self.free.pop() {
            Some(number) => {
                assert!(self.all[number as usize].is_none(), "a free number is not in use");
                self.all[number as usize] = pending;
                number
            }
            None => {
                self.all.push(pending);
                (self.all.len() - 1) as u32
            }
        }
    }

    /// `acks` will arrive, or have arrived. Gives what is to be done if all are there.
    fn expect(&mut self, number: u32, acks: u16) -> Option<(Completion, ReasonCode)> {
        let pending = self.all[number as usize].as_mut().expect("it is kept until its acknowledgements are counted");
        assert!(!pending.is_counted, "acknowledgements are counted once");
        pending.remaining += i32::from(acks);
        pending.is_counted = true;
        assert!(pending.remaining >= 0, "no more acknowledgements arrive than were expected");
        self.take_if_complete(number)
    }

    fn take_ack(&mut self, number: u32, reason: ReasonCode) -> Option<(Completion, ReasonCode)> {
        let pending = self.all[number as usize].as_mut().expect("it is kept until all acknowledgements are there");
        assert!(!pending.is_counted || pending.remaining > 0, "no more acknowledgements arrive than were expected");
        pending.remaining -= 1;
        pending.reason = crate::flow::worse(pending.reason, reason);
        self.take_if_complete(number)
    }

    /// Panics if used and free numbers disagree. Walks over all of them: for tests and simulation.
    pub fn assert_sound(&self) {
        assert_eq!(self.free.len(), self.all.iter().filter(|pending| pending.is_none()).count(), "free numbers");
        for pending in self.all.iter().flatten() {
            assert!(pending.is_counted && pending.remaining > 0, "{pending:?} is complete");
        }
    }

    fn take_if_complete(&mut self, number: u32) -> Option<(Completion, ReasonCode)> {
        let pending = self.all[number as usize].as_ref()?;
        if !pending.is_counted || pending.remaining > 0 {
            return None;
        }
        let pending = self.all[number as usize].take()?;
        assert!(self.free.len() < self.all.len(), "a number is freed once");
        self.free.push(number);
        Some((pending.completion, pending.reason))
    }
}

impl<L: LogStore> Broker<L> {
    pub(super) fn expect_acks(&mut self, number: u32, acks: u16, now: TimeMs) {
        if let Some((completion, reason)) = self.pending_acks.expect(number, acks) {
            self.complete(completion, reason, now);
        }
    }

    pub(super) fn count_ack(&mut self, number: u32, reason: ReasonCode, now: TimeMs) {
        if let Some((completion, reason)) = self.pending_acks.take_ack(number, reason) {
            self.complete(completion, reason, now);
        }
    }

    fn complete(&mut self, completion: Completion, reason: ReasonCode, now: TimeMs) {
        match completion {
            Completion::Ack(ack_to) => self.send_ack_to(ack_to, reason, now),
            Completion::ForgetWill { shard, slot } => self.will_sent(shard, slot),
            Completion::ForgetDelayed { shard, id } => self.delayed_sent(shard, id),
        }
    }
}
