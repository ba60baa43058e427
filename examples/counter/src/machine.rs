//! Named counters: a pure state machine.
//!
//! ```text
//!   Add ─▶ decide ─▶ Added { before, amount, expires_at } ─▶ apply: value = before + amount
//!   due ─▶ Expire ─▶ Expired                              ─▶ apply: the counter is gone
//! ```
//!
//! A counter is made by its first `Add`. Each `Add` says when it expires, or that it does not.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tidegate_machines::{Decision, Machine, Place, ShardIndex, TimeMs};

use crate::limits::Limits;

/// What can be asked.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields say what they are")]
pub enum Command {
    /// Adds at least 1. The counter expires so long from now, or never.
    Add { name: Box<str>, amount: u64, expires_in_ms: Option<u64> },
    /// Reads one counter.
    Read { name: Box<str> },
    /// Notes that the time of a counter is over.
    Expire { name: Box<str> },
}

/// What happened: one record of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields say what they are")]
pub enum Event {
    /// A counter went up; `before` is 0 for one that is new or whose time was over. Times are milliseconds since the epoch.
    Added { name: Box<str>, before: u64, amount: u64, expires_at: Option<u64> },
    /// The time of a counter was over.
    Expired { name: Box<str> },
}

/// What whoever asked is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields say what they are")]
pub enum Outcome {
    /// The counter, after an `Add` if it was one.
    Counter { value: u64, expires_at: Option<u64> },
    /// There is no such counter.
    NotFound,
    /// Not done.
    Refused(Refusal),
}

/// Why a command is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The name is empty, too long or not printable.
    #[error("a name has 1 to counters.name_bytes_max bytes, all of them printable")]
    NameInvalid,
    /// The amount is zero, or the value would overflow.
    #[error("the amount is 0, or the value would overflow")]
    AmountInvalid,
    /// The time is longer than may be.
    #[error("expires_in_ms is 0, or above counters.expires_in_ms_max")]
    ExpiryInvalid,
    /// There are as many counters as may be.
    #[error("there are counters.counters_max counters; some must expire first")]
    TooMany,
}

/// An event that does not follow from the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} does not follow from the state before it")]
pub struct Mismatch(Event);

/// Bytes that are neither an event nor a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are not what counters write")]
pub struct Malformed;

/// The counters of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    shard: u16,
    shards: u16,
    /// The newest record folded in.
    sequence: u64,
    /// Value, and when it expires.
    counters: BTreeMap<Box<str>, (u64, Option<u64>)>,
    /// Those that expire, by time.
    #[serde(skip)]
    due: BTreeSet<(u64, Box<str>)>,
}

impl Counters {
    /// Counters now, those included whose time is over and not noted yet.
    pub fn count(&self) -> usize {
        self.counters.len()
    }

    /// The counter whose time has been over for longest at `now`.
    pub fn expired(&self, now: TimeMs) -> Option<&str> {
        self.due.first().filter(|(at, _)| *at <= now.0).map(|(_, name)| &**name)
    }

    /// Value and end of a counter whose time is not over.
    fn read(&self, name: &str, now: TimeMs) -> Option<(u64, Option<u64>)> {
        self.counters.get(name).copied().filter(|(_, expires_at)| expires_at.is_none_or(|at| at > now.0))
    }

    /// The value before, or why nothing may be added.
    fn check_add(
        &self,
        name: &str,
        amount: u64,
        expires_in_ms: Option<u64>,
        limits: Limits,
        now: TimeMs,
    ) -> Result<u64, Refusal> {
        if name.is_empty() || name.len() > limits.name_bytes_max || name.chars().any(char::is_control) {
            return Err(Refusal::NameInvalid);
        }
        if expires_in_ms.is_some_and(|ms| ms == 0 || ms > limits.expires_in_ms_max) {
            return Err(Refusal::ExpiryInvalid);
        }
        if !self.counters.contains_key(name) && self.counters.len() >= limits.counters_max {
            return Err(Refusal::TooMany);
        }
        let before = self.read(name, now).map_or(0, |(value, _)| value);
        if amount == 0 || before.checked_add(amount).is_none() { Err(Refusal::AmountInvalid) } else { Ok(before) }
    }

    fn follows(&self, event: &Event) -> bool {
        match event {
            Event::Added { name, before, amount, .. } => {
                let value = self.counters.get(name).map_or(0, |(value, _)| *value);
                (*before == value || *before == 0) && *amount > 0 && before.checked_add(*amount).is_some()
            }
            Event::Expired { name } => self.counters.get(name).is_some_and(|(_, expires_at)| expires_at.is_some()),
        }
    }

    fn remove(&mut self, name: &str) {
        if let Some((_, Some(at))) = self.counters.remove(name) {
            assert!(self.due.remove(&(at, name.into())), "what expires is listed by its time");
        }
    }

    fn insert(&mut self, name: &str, value: u64, expires_at: Option<u64>) {
        self.remove(name);
        self.counters.insert(name.into(), (value, expires_at));
        self.due.extend(expires_at.map(|at| (at, name.into())));
    }
}

fn json(of: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(of).expect("plain data is JSON")
}

/// Reads JSON that must be exactly what [`json`] makes of what it says: each event and each state has one form.
fn exactly<T: Serialize + for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, Malformed> {
    let read: T = serde_json::from_slice(bytes).map_err(|_| Malformed)?;
    if json(&read) == bytes { Ok(read) } else { Err(Malformed) }
}

impl Machine for Counters {
    type Command<'a> = Command;
    type With<'a> = Limits;
    type Event<'a> = Event;
    type Outcome = Outcome;
    type Mismatch = Mismatch;
    type EventError = Malformed;
    type SnapshotError = Malformed;

    fn new(shard: ShardIndex, shards: u16) -> Counters {
        assert!(shard.0 < shards, "a shard is one of all");
        Counters { shard: shard.0, shards, sequence: 0, counters: BTreeMap::new(), due: BTreeSet::new() }
    }

    fn decide<'a>(&self, command: &Command, limits: Limits, now: TimeMs) -> Decision<Event, Outcome>
    where
        'a: 'a,
    {
        let counter = |(value, expires_at)| Outcome::Counter { value, expires_at };
        match command {
            Command::Read { name } => Decision::Answer(self.read(name, now).map_or(Outcome::NotFound, counter)),
            Command::Expire { name } => {
                Decision::Append { event: Event::Expired { name: name.clone() }, outcome: Outcome::NotFound }
            }
            Command::Add { name, amount, expires_in_ms } => {
                match self.check_add(name, *amount, *expires_in_ms, limits, now) {
                    Err(refusal) => Decision::Answer(Outcome::Refused(refusal)),
                    Ok(before) => {
                        let expires_at = expires_in_ms.map(|ms| now.0.saturating_add(ms));
                        let event = Event::Added { name: name.clone(), before, amount: *amount, expires_at };
                        Decision::Append { event, outcome: counter((before + amount, expires_at)) }
                    }
                }
            }
        }
    }

    fn apply(&mut self, event: &Event, at: Place) {
        self.apply_checked(event, at).unwrap_or_else(|mismatch| panic!("{mismatch}"));
    }

    fn apply_checked(&mut self, event: &Event, at: Place) -> Result<(), Mismatch> {
        if at.sequence.0 <= self.sequence || !self.follows(event) {
            return Err(Mismatch(event.clone()));
        }
        self.sequence = at.sequence.0;
        match event {
            Event::Added { name, before, amount, expires_at } => self.insert(name, before + amount, *expires_at),
            Event::Expired { name } => self.remove(name),
        }
        Ok(())
    }

    fn encode(event: &Event, into: &mut Vec<u8>) {
        into.extend(json(event));
    }

    fn decode(bytes: &[u8]) -> Result<Event, Malformed> {
        exactly(bytes)
    }

    fn next_due(&self) -> Option<TimeMs> {
        self.due.first().map(|(at, _)| TimeMs(*at))
    }

    fn write_snapshot(&self, part: &mut dyn FnMut(&[u8])) {
        part(&json(self));
    }

    fn read_snapshot(body: &[u8]) -> Result<Counters, Malformed> {
        let mut state: Counters = exactly(body)?;
        let expiring = state.counters.iter().filter_map(|(name, (_, at))| at.map(|at| (at, name.clone())));
        state.due = expiring.collect();
        if state.shard < state.shards { Ok(state) } else { Err(Malformed) }
    }

    fn assert_sound(&self) {
        let expiring = self.counters.iter().filter(|(_, (_, expires_at))| expires_at.is_some());
        assert!(expiring.count() == self.due.len(), "what expires is listed by its time");
        assert!(self.counters.values().all(|(value, _)| *value > 0), "a counter was made by an amount");
    }
}

#[cfg(test)]
mod tests;
