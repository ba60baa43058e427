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
pub enum Command {
    /// Adds `amount`; the counter expires `expires_in_ms` from now, or never.
    Add {
        /// Which counter.
        name: Box<str>,
        /// At least 1.
        amount: u64,
        /// Milliseconds; `None` for never.
        expires_in_ms: Option<u64>,
    },
    /// Reads one counter.
    Read {
        /// Which.
        name: Box<str>,
    },
    /// Reads the next counters by name.
    List {
        /// Only names after this one.
        after: Option<Box<str>>,
        /// At most so many.
        limit: usize,
    },
    /// Notes that the time of a counter is over.
    Expire {
        /// Which.
        name: Box<str>,
    },
}

/// What happened: one record of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A counter went up.
    Added {
        /// Which.
        name: Box<str>,
        /// Its value before; 0 for one that is new, or whose time was over.
        before: u64,
        /// By how much.
        amount: u64,
        /// When it expires, in milliseconds since the epoch.
        expires_at: Option<u64>,
    },
    /// The time of a counter was over.
    Expired {
        /// Which.
        name: Box<str>,
    },
}

/// A counter as it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Its name.
    pub name: Box<str>,
    /// Its value.
    pub value: u64,
    /// When it expires, in milliseconds since the epoch; `None` for never.
    pub expires_at: Option<u64>,
}

/// What whoever asked is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// To `Add` and `Read`.
    Counter(Counter),
    /// To `List`.
    Counters(Vec<Counter>),
    /// To `Read`: there is no such counter.
    NotFound,
    /// Not done.
    Refused(Refusal),
}

/// Why a command is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The name is empty or too long.
    NameInvalid,
    /// The amount is zero, or the value would overflow.
    AmountInvalid,
    /// The time is longer than may be.
    ExpiryInvalid,
    /// There are as many counters as may be.
    TooMany,
}

/// An event that does not follow from the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} does not follow from the state before it")]
pub struct Mismatch(Box<str>);

/// Bytes that are not an event, or not a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are not {0}")]
pub struct Malformed(&'static str);

/// The counters of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    shard: ShardIndex,
    shards: u16,
    counters: BTreeMap<Box<str>, (u64, Option<u64>)>,
    /// Those that expire, by time.
    due: BTreeSet<(u64, Box<str>)>,
    /// The newest record folded in.
    sequence: u64,
}

impl Counters {
    /// Counters now, those included whose time is over and not noted yet.
    pub fn len(&self) -> usize {
        self.counters.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// The counter whose time has been over for longest at `now`.
    pub fn expired(&self, now: TimeMs) -> Option<&str> {
        self.due.first().filter(|(at, _)| *at <= now.0).map(|(_, name)| &**name)
    }

    fn read(&self, name: &str, now: TimeMs) -> Option<Counter> {
        let (value, expires_at) = self.counters.get(name).copied()?;
        let lives = expires_at.is_none_or(|at| at > now.0);
        lives.then(|| Counter { name: name.into(), value, expires_at })
    }

    fn list(&self, after: Option<&str>, limit: usize, now: TimeMs) -> Vec<Counter> {
        use std::ops::Bound::{Excluded, Unbounded};
        let names = self.counters.range::<str, _>((after.map_or(Unbounded, Excluded), Unbounded));
        names.filter_map(|(name, _)| self.read(name, now)).take(limit).collect()
    }

    fn add(&self, name: &str, amount: u64, expires_in_ms: Option<u64>, limits: Limits, now: TimeMs) -> Result<Event, Refusal> {
        if name.is_empty() || name.len() > limits.name_bytes_max || name.chars().any(char::is_control) {
            return Err(Refusal::NameInvalid);
        }
        if expires_in_ms.is_some_and(|ms| ms == 0 || ms > limits.expires_in_ms_max) {
            return Err(Refusal::ExpiryInvalid);
        }
        if !self.counters.contains_key(name) && self.counters.len() >= limits.counters_max {
            return Err(Refusal::TooMany);
        }
        let before = self.read(name, now).map_or(0, |counter| counter.value);
        if amount == 0 || before.checked_add(amount).is_none() {
            return Err(Refusal::AmountInvalid);
        }
        let expires_at = expires_in_ms.map(|ms| now.0.saturating_add(ms));
        Ok(Event::Added { name: name.into(), before, amount, expires_at })
    }

    fn check(&self, event: &Event, at: Place) -> Result<(), Mismatch> {
        let follows = at.sequence.0 > self.sequence
            && match event {
                Event::Added { name, before, amount, .. } => {
                    let value = self.counters.get(name).map_or(0, |(value, _)| *value);
                    (*before == value || *before == 0) && *amount > 0 && before.checked_add(*amount).is_some()
                }
                Event::Expired { name } => self.counters.get(name).is_some_and(|(_, expires_at)| expires_at.is_some()),
            };
        if follows { Ok(()) } else { Err(Mismatch(format!("{event:?}").into())) }
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

/// Reads JSON that must be exactly what `write` makes of what it says: each event and each state has one form.
fn exactly<T: Serialize + for<'a> Deserialize<'a>>(bytes: &[u8], what: &'static str) -> Result<T, Malformed> {
    let read: T = serde_json::from_slice(bytes).map_err(|_| Malformed(what))?;
    if json(&read) == bytes { Ok(read) } else { Err(Malformed(what)) }
}

fn json(of: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(of).expect("plain data is JSON")
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
        Counters { shard, shards, counters: BTreeMap::new(), due: BTreeSet::new(), sequence: 0 }
    }

    fn decide<'a>(&self, command: &Command, limits: Self::With<'a>, now: TimeMs) -> Decision<Event, Outcome> {
        match command {
            Command::Add { name, amount, expires_in_ms } => match self.add(name, *amount, *expires_in_ms, limits, now) {
                Err(refusal) => Decision::Answer(Outcome::Refused(refusal)),
                Ok(event) => {
                    let Event::Added { before, expires_at, .. } = &event else { unreachable!("it was added") };
                    let counter = Counter { name: name.clone(), value: before + amount, expires_at: *expires_at };
                    Decision::Append { outcome: Outcome::Counter(counter), event }
                }
            },
            Command::Read { name } => Decision::Answer(self.read(name, now).map_or(Outcome::NotFound, Outcome::Counter)),
            Command::List { after, limit } => Decision::Answer(Outcome::Counters(self.list(after.as_deref(), *limit, now))),
            Command::Expire { name } => {
                Decision::Append { event: Event::Expired { name: name.clone() }, outcome: Outcome::NotFound }
            }
        }
    }

    fn apply(&mut self, event: &Event, at: Place) {
        self.apply_checked(event, at).unwrap_or_else(|mismatch| panic!("{mismatch}"));
    }

    fn apply_checked(&mut self, event: &Event, at: Place) -> Result<(), Mismatch> {
        self.check(event, at)?;
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
        exactly(bytes, "an event of counters")
    }

    fn next_due(&self) -> Option<TimeMs> {
        self.due.first().map(|(at, _)| TimeMs(*at))
    }

    /// One line for the shard, then one for each counter.
    fn write_snapshot(&self, part: &mut dyn FnMut(&[u8])) {
        part(&json(&(self.shard.0, self.shards, self.sequence)));
        for (name, (value, expires_at)) in &self.counters {
            part(b"\n");
            part(&json(&Counter { name: name.clone(), value: *value, expires_at: *expires_at }));
        }
    }

    fn read_snapshot(body: &[u8]) -> Result<Counters, Malformed> {
        const WHAT: &str = "a snapshot of counters";
        let mut lines = body.split(|byte| *byte == b'\n');
        let (shard, shards, sequence): (u16, u16, u64) = exactly(lines.next().unwrap_or_default(), WHAT)?;
        if shard >= shards {
            return Err(Malformed(WHAT));
        }
        let mut state = Counters { sequence, ..Counters::new(ShardIndex(shard), shards) };
        for line in lines {
            let counter: Counter = exactly(line, WHAT)?;
            if state.counters.last_key_value().is_some_and(|(last, _)| *last >= counter.name) {
                return Err(Malformed(WHAT));
            }
            state.insert(&counter.name, counter.value, counter.expires_at);
        }
        Ok(state)
    }

    fn assert_sound(&self) {
        let expiring = self.counters.iter().filter_map(|(name, (_, at))| at.map(|at| (at, name.clone())));
        assert!(expiring.collect::<BTreeSet<_>>() == self.due, "what expires is listed by its time");
        assert!(self.counters.values().all(|(value, _)| *value > 0), "a counter was made by an amount");
    }
}

#[cfg(test)]
mod tests;
