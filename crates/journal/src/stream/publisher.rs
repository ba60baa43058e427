//! Gets messages stored, in order, each exactly once, over a stream that is late and sometimes silent.
//!
//! ```text
//!              ┌──────────────────────── none is there ───────────────────────┐
//!              ▼                                                              │
//!   queued ─publish─▶ sent ─┬─ stored ──────────────────────────▶ stored      │
//!                           └─ refused, unknown ─▶ unclear ─look up─▶ asked ──┼─ ours ─────▶ stored
//!                                                    ▲                 │      └─ another's ─▶ Fenced
//!                                                    └── no answer ────┘
//! ```
//!
//! Why an acknowledgement of message 9 says nothing about message 8: the fence compares numbers. If 8 was lost and
//! another writer's message took its number, ours is stored as 9 all the same. So each message has to be known by
//! itself.

use std::collections::VecDeque;

use tidegate_planted::{Bug, is_planted};

use super::{Message, Outcome, Stream, message_name, unavailable};
use crate::{JournalError, LogId};

/// What is known of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Queued,
    Sent,
    Unclear,
    Asked,
    Stored,
}

struct Outbound {
    message: Message,
    fate: Fate,
}

/// The writing side of one log. Never waits, but for [`Publisher::wait`].
pub(crate) struct Publisher<T: Stream> {
    log: LogId,
    stream: T,
    /// Messages not known to be stored with all before them; the first one is number `settled + 1`.
    outbound: VecDeque<Outbound>,
    /// Up to here all messages are stored, and ours since our epoch.
    settled: u64,
    /// Requests without an outcome.
    in_flight: usize,
    in_flight_max: usize,
}

impl<T: Stream> Publisher<T> {
    /// Goes on behind the epoch message number `epoch`, which is ours.
    pub fn new(log: LogId, stream: T, epoch: u64, in_flight_max: usize) -> Publisher<T> {
        assert!(in_flight_max > 0, "one message may be under way");
        Publisher { log, stream, outbound: VecDeque::new(), settled: epoch, in_flight: 0, in_flight_max }
    }

    /// Up to here all messages are stored.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// Takes the message that will have the next number.
    pub fn push(&mut self, message: Message) {
        self.outbound.push_back(Outbound { message, fate: Fate::Queued });
    }

    /// Whether nothing waits to be stored.
    pub fn is_empty(&self) -> bool {
        self.outbound.is_empty()
    }

    /// Whether [`Publisher::turn`] would hear of something.
    pub fn has_news(&self) -> bool {
        self.stream.has_outcome()
    }

    pub fn stream(&mut self) -> &mut T {
        &mut self.stream
    }

    /// Waits until there is an outcome of something that is under way.
    pub fn wait(&mut self) -> Result<(), JournalError> {
        self.stream.wait().map_err(unavailable(self.log, "wait for its last messages"))
    }

    /// Takes what came, and sends what can be sent. `Err`: somebody else writes this log.
    pub fn turn(&mut self) -> Result<(), JournalError> {
        while let Some(outcome) = self.stream.poll() {
            self.in_flight -= 1;
            self.take(outcome)?;
        }
        while self.outbound.front().is_some_and(|first| first.fate == Fate::Stored) {
            self.outbound.pop_front();
            self.settled += 1;
        }
        self.send();
        assert!(self.in_flight <= self.in_flight_max, "no more is under way than may be");
        Ok(())
    }

    fn take(&mut self, outcome: Outcome) -> Result<(), JournalError> {
        match outcome {
            Outcome::Stored { number } => self.set(number, Fate::Stored),
            Outcome::Unknown { number } if is_planted(Bug::UnknownTakenForStored) => self.set(number, Fate::Stored),
            // A refusal may also mean that an earlier attempt of ours has been stored.
            Outcome::Refused { number } | Outcome::Unknown { number } | Outcome::NotFound { number } => {
                self.set(number, Fate::Unclear);
            }
            Outcome::Found { number, message: None } => self.none_at(number),
            Outcome::Found { number, message: Some(found) } => {
                let index = self.index(number);
                // The same bytes: epoch, number and chain hash of the group are in them.
                let is_ours = index.is_some_and(|index| self.outbound[index].message == found);
                if !is_ours && !is_planted(Bug::FenceIgnored) {
                    return Err(self.fenced(number, &found));
                }
                self.set(number, Fate::Stored);
            }
        }
        Ok(())
    }

    /// Nothing is stored at `number`, and so nothing behind it: all that is unclear from there on is sent again.
    fn none_at(&mut self, number: u64) {
        let Some(index) = self.index(number) else { return };
        for outbound in self.outbound.range_mut(index..) {
            if matches!(outbound.fate, Fate::Unclear | Fate::Asked) {
                outbound.fate = Fate::Queued;
            }
        }
    }

    /// Messages are published in order. One that is unclear is asked for when all before it are stored, and holds up
    /// those behind it.
    fn send(&mut self) {
        let settled = self.settled;
        for (index, outbound) in self.outbound.iter_mut().enumerate() {
            if self.in_flight == self.in_flight_max {
                return;
            }
            let number = settled + 1 + index as u64;
            match outbound.fate {
                Fate::Queued => {
                    outbound.fate = Fate::Sent;
                    self.stream.publish(number - 1, outbound.message.clone());
                    self.in_flight += 1;
                }
                Fate::Unclear if index == 0 => {
                    outbound.fate = Fate::Asked;
                    self.stream.look_up(number);
                    self.in_flight += 1;
                    return;
                }
                Fate::Unclear | Fate::Asked => return,
                Fate::Sent | Fate::Stored => {}
            }
        }
    }

    fn index(&self, number: u64) -> Option<usize> {
        let index = number.checked_sub(self.settled + 1)? as usize;
        (index < self.outbound.len()).then_some(index)
    }

    fn set(&mut self, number: u64, fate: Fate) {
        if let Some(index) = self.index(number) {
            self.outbound[index].fate = fate;
        }
    }

    fn fenced(&self, number: u64, found: &[u8]) -> JournalError {
        let what = match super::message::decode(found) {
            Ok((header, _)) => format!("one that was written in epoch {}", header.epoch()),
            Err(fault) => format!("not ours ({fault})"),
        };
        let number_name = message_name(number);
        JournalError::Fenced { log: self.log.to_string(), number, what: format!("{what} ({number_name})") }
    }
}

#[cfg(test)]
mod tests;
