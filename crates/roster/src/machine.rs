//! Services by name: a pure state machine.
//!
//! ```text
//!   Put    ─▶ decide ─▶ Event { before: 0 or the last change, after: Some(service) }   made, or with other grants
//!   Rotate ─▶ decide ─▶ Event { before: the last change, after: Some(service) }        with another token
//!   Delete ─▶ decide ─▶ Event { before: the last change, after: None }                 gone
//! ```
//!
//! An event says which change it replaces, so a record can be checked against the state. A put that would change
//! nothing makes no record.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use tidegate_machines::{Decision, Machine, Place, ShardIndex, TimeMs};
use tidegate_shard::form::{self, Malformed};

use crate::limits::{GRANTS_BYTES_MAX, GRANTS_MAX, NAME_BYTES_MAX, SERVICES_MAX};

/// The SHA-256 of a token; in a record it is 64 hex digits, as the configuration writes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash(pub [u8; 32]);

/// A service as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// The hash of its token.
    pub token_sha256: TokenHash,
    /// What it may do, as the configuration writes it.
    pub grants: Vec<Box<str>>,
}

/// A service, and which record changed it last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The sequence of that record.
    pub changed: u64,
    /// The service.
    pub service: Service,
}

/// What is to be done with the service of a name.
#[derive(Clone, Debug)]
pub struct Command {
    /// Its name.
    pub name: Box<str>,
    /// What.
    pub action: Action,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Action {
    /// It has these grants from now on. If there is none, it is made, and has this token.
    Put {
        /// What it may do.
        grants: Vec<Box<str>>,
        /// The hash of the token of a new one.
        token: TokenHash,
        /// Nothing is done if there is one.
        only_new: bool,
    },
    /// It has this token from now on, and the one before is no good.
    Rotate {
        /// Its hash.
        token: TokenHash,
    },
    /// There is none from now on.
    Delete,
}

/// What happened: one record of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    name: Box<str>,
    /// The sequence of the change that this one replaces; 0 if there was no such service.
    before: u64,
    /// What it is from now on; `None`: it is gone.
    after: Option<Service>,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is new.
    Made,
    /// It was changed.
    Changed,
    /// It was so before.
    Unchanged {
        /// The sequence of the record that made it so.
        since: u64,
    },
    /// It is gone.
    Deleted,
}

/// Why a command is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is none of this name.
    #[error("no service of this name was made through the API")]
    NotFound,
    /// There is one of this name.
    #[error("a service of this name was made through the API already")]
    Exists,
    /// Name or grants are out of bounds.
    #[error("a service has a name of 1 to 64 bytes, and at most 64 grants of together 4,096 bytes")]
    Invalid,
    /// There are as many as there may be.
    #[error("there are as many services as limits.api_services_max allows; delete one first")]
    TooMany,
}

/// An event that does not follow from the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} does not follow from the state before it")]
pub struct Mismatch(Event);

/// All services of the roster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roster {
    shard: u16,
    shards: u16,
    /// The newest record folded in.
    sequence: u64,
    services: BTreeMap<Box<str>, Kept>,
}

impl Roster {
    /// The sequence of the newest record folded in; 0 for none.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The services, by name.
    pub fn services(&self) -> &BTreeMap<Box<str>, Kept> {
        &self.services
    }

    fn put(
        &self,
        name: &str,
        (grants, token, only_new): (&[Box<str>], TokenHash, bool),
        services_max: usize,
    ) -> Result<(Service, Outcome), Refusal> {
        let service = |token_sha256| Service { token_sha256, grants: grants.to_vec() };
        if !is_within_bounds(name, &service(token)) {
            return Err(Refusal::Invalid);
        }
        match self.services.get(name) {
            Some(_) if only_new => Err(Refusal::Exists),
            Some(kept) if kept.service.grants == grants => {
                Ok((kept.service.clone(), Outcome::Unchanged { since: kept.changed }))
            }
            Some(kept) => Ok((service(kept.service.token_sha256), Outcome::Changed)),
            None if self.services.len() >= services_max => Err(Refusal::TooMany),
            None => Ok((service(token), Outcome::Made)),
        }
    }

    fn follows(&self, Event { name, before, after }: &Event) -> bool {
        let changed = self.services.get(name).map_or(0, |kept| kept.changed);
        let has_room = *before > 0 || self.services.len() < SERVICES_MAX;
        *before == changed
            && match after {
                Some(service) => has_room && is_within_bounds(name, service),
                None => *before > 0,
            }
    }
}

fn is_within_bounds(name: &str, service: &Service) -> bool {
    let bytes: usize = service.grants.iter().map(|grant| grant.len()).sum();
    (1..=NAME_BYTES_MAX).contains(&name.len()) && service.grants.len() <= GRANTS_MAX && bytes <= GRANTS_BYTES_MAX
}

impl Machine for Roster {
    type Command<'a> = Command;
    /// How many services there may be.
    type With<'a> = usize;
    type Event<'a> = Event;
    type Outcome = Result<Outcome, Refusal>;
    type Mismatch = Mismatch;
    type EventError = Malformed;
    type SnapshotError = Malformed;

    fn new(shard: ShardIndex, shards: u16) -> Roster {
        assert!(shard.0 < shards, "a shard is one of all");
        Roster { shard: shard.0, shards, sequence: 0, services: BTreeMap::new() }
    }

    fn decide<'a>(&self, command: &Command, services_max: usize, _: TimeMs) -> Decision<Event, Self::Outcome>
    where
        'a: 'a,
    {
        let name = &command.name;
        let kept = self.services.get(name);
        let decided = match &command.action {
            Action::Put { grants, token, only_new } => {
                let services_max = services_max.min(SERVICES_MAX);
                self.put(name, (grants, *token, *only_new), services_max).map(|(service, what)| (Some(service), what))
            }
            Action::Rotate { token } => kept
                .ok_or(Refusal::NotFound)
                .map(|kept| (Some(Service { token_sha256: *token, ..kept.service.clone() }), Outcome::Changed)),
            Action::Delete => kept.ok_or(Refusal::NotFound).map(|_| (None, Outcome::Deleted)),
        };
        match decided {
            Err(refusal) => Decision::Answer(Err(refusal)),
            Ok((_, unchanged @ Outcome::Unchanged { .. })) => Decision::Answer(Ok(unchanged)),
            Ok((after, outcome)) => {
                let before = kept.map_or(0, |kept| kept.changed);
                Decision::Append { event: Event { name: name.clone(), before, after }, outcome: Ok(outcome) }
            }
        }
    }

    fn apply_checked(&mut self, event: &Event, at: Place) -> Result<(), Mismatch> {
        if at.sequence.0 <= self.sequence || !self.follows(event) {
            return Err(Mismatch(event.clone()));
        }
        self.sequence = at.sequence.0;
        match &event.after {
            Some(service) => {
                let kept = Kept { changed: self.sequence, service: service.clone() };
                self.services.insert(event.name.clone(), kept);
            }
            None => drop(self.services.remove(&event.name)),
        }
        Ok(())
    }

    fn encode(event: &Event, into: &mut Vec<u8>) {
        into.extend(form::write(event));
    }

    fn decode(bytes: &[u8]) -> Result<Event, Malformed> {
        form::read(bytes)
    }

    fn next_due(&self) -> Option<TimeMs> {
        None
    }

    fn write_snapshot(&self, part: &mut dyn FnMut(&[u8])) {
        part(&form::write(self));
    }

    fn read_snapshot(body: &[u8]) -> Result<Roster, Malformed> {
        let state: Roster = form::read(body)?;
        if state.shard < state.shards && state.is_sound() { Ok(state) } else { Err(Malformed) }
    }

    fn assert_sound(&self) {
        assert!(self.is_sound(), "services are within bounds, and changed by records that were folded in");
    }
}

impl Roster {
    fn is_sound(&self) -> bool {
        let mut services = self.services.iter();
        let changes = 1..=self.sequence;
        self.services.len() <= SERVICES_MAX
            && services.all(|(name, kept)| changes.contains(&kept.changed) && is_within_bounds(name, &kept.service))
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(..)")
    }
}

impl Serialize for TokenHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TokenHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TokenHash, D::Error> {
        let digits = <Box<str>>::deserialize(deserializer)?;
        let wrong = || de::Error::custom("expected 64 hex digits");
        let mut bytes = [0; 32];
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(wrong());
        }
        for (byte, digits) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(TokenHash(bytes))
    }
}

#[cfg(test)]
mod tests;
