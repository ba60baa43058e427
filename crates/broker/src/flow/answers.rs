//! The acknowledgements of a client's publications, in the order of the publications.
//! `[MQTT-4.6.0-2]`: the client sends PUBACKs in the order of the messages.
//! `[MQTT-4.6.0-3]`: the client sends PUBRECs in the order of the messages.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use tidegate_wire::mqtt::{AckKind, ReasonCode};

use crate::acknowledgements::{Outstanding, Word};

/// What a shard that failed says: its record may or may not be on the disk. Nobody is told that; the connection ends
/// with this reason, and the client sends again to the process that comes next. It goes before all other reasons.
pub(crate) const OUTCOME_UNKNOWN: ReasonCode = ReasonCode::SERVER_SHUTTING_DOWN;

/// The worse of two reasons.
pub(crate) fn worse(said: ReasonCode, now: ReasonCode) -> ReasonCode {
    if now.is_error() && said != OUTCOME_UNKNOWN { now } else { said }
}

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub packet_id: u16,
    pub kind: AckKind,
    /// Acknowledgements to come, and the worst reason of all of them.
    pub outstanding: Outstanding,
    /// The connection that asked is gone: nothing is sent.
    pub mute: bool,
    /// Its publication counts against Receive Maximum, and is not among those of QoS 2 that are open.
    pub is_counted: bool,
    /// When what it answers arrived, by a clock of the shell; zero if it has none.
    pub arrived_ns: u64,
}

/// All answers of a session, oldest first, each with a serial number.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    first: u32,
    queue: VecDeque<Answer>,
    /// Those whose publications count against Receive Maximum.
    counted: usize,
}

impl Answers {
    /// The serial number that the next answer will have.
    pub fn next_serial(&self) -> u32 {
        self.first.wrapping_add(self.queue.len() as u32)
    }

    pub fn push(&mut self, answer: Answer) {
        self.counted += usize::from(answer.is_counted);
        self.queue.push_back(answer);
    }

    /// How many stand for a publication that counts against the Receive Maximum of the connection there is.
    pub fn counted(&self) -> usize {
        self.counted
    }

    /// Counts an acknowledgement. Returns whether an answer may now be taken.
    pub fn take_ack(&mut self, serial: u32, word: Word) -> bool {
        // No assertion: generations of sessions have 16 bits, so an acknowledgement may be for an earlier session at
        // this index.
        let Some(answer) = self.queue.get_mut(serial.wrapping_sub(self.first) as usize) else { return false };
        if !answer.outstanding.is_complete() {
            answer.outstanding.take(word);
        }
        self.queue.front().is_some_and(|front| front.outstanding.is_complete())
    }

    /// The oldest answer, if it has all its acknowledgements.
    pub fn take(&mut self) -> Option<Answer> {
        if !self.queue.front()?.outstanding.is_complete() {
            return None;
        }
        self.first = self.first.wrapping_add(1);
        let answer = self.queue.pop_front();
        self.counted -= usize::from(answer.is_some_and(|answer| answer.is_counted));
        assert!(
            answer.is_some_and(|answer| answer.outstanding.is_complete()),
            "an answer leaves when all has been said"
        );
        if self.queue.is_empty() && self.queue.capacity() > 64 {
            self.queue = VecDeque::new();
        }
        answer
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The connection is gone: pending answers are not sent.
    pub fn mute(&mut self) {
        self.queue.iter_mut().for_each(|answer| (answer.mute, answer.is_counted) = (true, false));
        self.counted = 0;
    }

    /// The client has sent again, over a new connection, what this answer waits for.
    pub fn unmute(&mut self, serial: u32) {
        if let Some(answer) = self.queue.get_mut(serial.wrapping_sub(self.first) as usize) {
            answer.mute = false;
        }
    }

    /// Panics if the front answer has all its acknowledgements. Visits everything: for tests and simulation.
    pub fn assert_sound(&self) {
        assert!(
            self.queue.front().is_none_or(|front| !front.outstanding.is_complete()),
            "an answer leaves when all has been said"
        );
        let counted = self.queue.iter().filter(|answer| answer.is_counted);
        assert_eq!(counted.count(), self.counted, "answers that count against Receive Maximum");
    }
}
