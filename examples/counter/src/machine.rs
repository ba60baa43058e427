//! Named counters: a pure state machine.
//!
//! ```text
//!   Add ─▶ decide ─▶ Event { before, after: Some(counter) } ─▶ apply: the counter has its new value
//!   due ─▶ Expire ─▶ Event { before, after: None }          ─▶ apply: the counter is gone
//! ```
//!
//! A counter is made by its first `Add`. Each `Add` says when it expires, or that it does not.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tidegate_machines::{Decision, Machine, Place, ShardIndex, TimeMs};
use tidegate_shard::form::{self, Malformed};
use utoipa::ToSchema;

use crate::limits::CounterKeys;

/// What can be asked of a counter.
#[derive(Clone, Debug)]
pub struct Command {
    /// Which counter.
    pub name: Box<str>,
    /// What.
    pub action: Action,
}

/// What is to be done.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields say what they are")]
pub enum Action {
    /// Adds at least 1. The counter expires so long from now, or never.
    Add { amount: u64, expires_in_ms: Option<u64> },
    /// Reads it.
    Read,
    /// Notes that its time is over.
    Expire,
}

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counter {
    /// Its value.
    pub value: u64,
    /// When it expires, in milliseconds since the epoch; absent for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

/// What happened: one record of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    name: Box<str>,
    /// Its value before; 0 for one that is new, or whose time was over.
    before: u64,
    /// What it is from now on; `None`: its time was over, and it is gone.
    after: Option<Counter>,
}

/// Why a command is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the words say what they are")]
pub enum Refusal {
    #[error("there is no such counter, or it has expired")]
    NotFound,
    #[error("a name has 1 to counters.name_bytes_max bytes, all of them printable")]
    NameInvalid,
    #[error("the amount is 0, or the value would overflow")]
    AmountInvalid,
    #[error("expires_in_ms is 0, or above counters.expires_in_ms_max")]
    ExpiryInvalid,
    #[error("there are counters.counters_max counters; some must expire first")]
    TooMany,
}

/// An event that does not follow from the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} does not follow from the state before it")]
pub struct Mismatch(Event);

/// The counters of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    shard: u16,
    shards: u16,
    /// The newest record folded in.
    sequence: u64,
    counters: BTreeMap<Box<str>, Counter>,
    /// Those that expire, by time.
    #[serde(skip)]
    due: BTreeSet<(u64, Box<str>)>,
}

impl Counters {
    /// Counters now, those included whose time is over and not noted yet.
    pub fn count(&self) -> usize {
        self.counters.len()
    }

    /// The value of a counter, whether its time is over or not.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.counters.get(name).map(|counter| counter.value)
    }

    /// The counter whose time has been over for longest at `now`.
    pub fn expired(&self, now: TimeMs) -> Option<&str> {
        self.due.first().filter(|(at, _)| *at <= now.0).map(|(_, name)| &**name)
    }

    fn read(&self, name: &str, now: TimeMs) -> Result<Counter, Refusal> {
        let lives = |counter: &Counter| counter.expires_at.is_none_or(|at| at > now.0);
        self.counters.get(name).copied().filter(lives).ok_or(Refusal::NotFound)
    }

    /// The event of an `Add`, or why nothing may be added.
    fn add(
        &self,
        name: &str,
        (amount, expires_in_ms): (u64, Option<u64>),
        keys: &CounterKeys,
        now: TimeMs,
    ) -> Result<Event, Refusal> {
        if name.is_empty() || name.len() as u64 > keys.name_bytes_max || name.chars().any(char::is_control) {
            return Err(Refusal::NameInvalid);
        }
        if expires_in_ms.is_some_and(|ms| ms == 0 || ms > keys.expires_in_ms_max) {
            return Err(Refusal::ExpiryInvalid);
        }
        if !self.counters.contains_key(name) && self.counters.len() >= keys.counters_max {
            return Err(Refusal::TooMany);
        }
        let before = self.read(name, now).map_or(0, |counter| counter.value);
        let value = before.checked_add(amount).filter(|value| *value > before).ok_or(Refusal::AmountInvalid)?;
        let expires_at = expires_in_ms.map(|ms| now.0.saturating_add(ms));
        Ok(Event { name: name.into(), before, after: Some(Counter { value, expires_at }) })
    }

    fn follows(&self, Event { name, before, after }: &Event) -> bool {
        let current = self.counters.get(name);
        let value = current.map_or(0, |counter| counter.value);
        match after {
            Some(after) => (*before == value || *before == 0) && after.value > *before,
            None => *before == value && current.is_some_and(|counter| counter.expires_at.is_some()),
        }
    }
}

impl Machine for Counters {
    type Command<'a> = Command;
    type With<'a> = &'a CounterKeys;
    type Event<'a> = Event;
    type Outcome = Result<Counter, Refusal>;
    type Mismatch = Mismatch;
    type EventError = Malformed;
    type SnapshotError = Malformed;

    fn new(shard: ShardIndex, shards: u16) -> Counters {
        assert!(shard.0 < shards, "a shard is one of all");
        Counters { shard: shard.0, shards, sequence: 0, counters: BTreeMap::new(), due: BTreeSet::new() }
    }

    fn decide<'a>(&self, command: &Command, keys: &'a CounterKeys, now: TimeMs) -> Decision<Event, Self::Outcome>
    where
        'a: 'a,
    {
        let name = &command.name;
        let event = match command.action {
            Action::Read => return Decision::Answer(self.read(name, now)),
            Action::Add { amount, expires_in_ms } => self.add(name, (amount, expires_in_ms), keys, now),
            Action::Expire => Ok(Event { name: name.clone(), before: self.counters[name].value, after: None }),
        };
        match event {
            Ok(event) => Decision::Append { outcome: event.after.ok_or(Refusal::NotFound), event },
            Err(refusal) => Decision::Answer(Err(refusal)),
        }
    }

    fn apply_checked(&mut self, event: &Event, at: Place) -> Result<(), Mismatch> {
        if at.sequence.0 <= self.sequence || !self.follows(event) {
            return Err(Mismatch(event.clone()));
        }
        self.sequence = at.sequence.0;
        let due = |counter: &Counter| counter.expires_at.map(|at| (at, event.name.clone()));
        if let Some(due) = self.counters.remove(&event.name).as_ref().and_then(due) {
            assert!(self.due.remove(&due), "what expires is listed by its time");
        }
        self.due.extend(event.after.as_ref().and_then(due));
        self.counters.extend(event.after.map(|counter| (event.name.clone(), counter)));
        Ok(())
    }

    fn encode(event: &Event, into: &mut Vec<u8>) {
        into.extend(form::write(event));
    }

    fn decode(bytes: &[u8]) -> Result<Event, Malformed> {
        form::read(bytes)
    }

    fn next_due(&self) -> Option<TimeMs> {
        self.due.first().map(|(at, _)| TimeMs(*at))
    }

    fn write_snapshot(&self, part: &mut dyn FnMut(&[u8])) {
        part(&form::write(self));
    }

    fn read_snapshot(body: &[u8]) -> Result<Counters, Malformed> {
        let mut state: Counters = form::read(body)?;
        let expiring = state.counters.iter().filter_map(|(name, counter)| Some((counter.expires_at?, name.clone())));
        state.due = expiring.collect();
        if state.shard < state.shards { Ok(state) } else { Err(Malformed) }
    }

    fn assert_sound(&self) {
        let expiring = self.counters.values().filter(|counter| counter.expires_at.is_some());
        assert!(expiring.count() == self.due.len(), "what expires is listed by its time");
        assert!(self.counters.values().all(|counter| counter.value > 0), "a counter was made by an amount");
    }
}

#[cfg(test)]
mod tests;
