//! Services and users by name: a pure state machine.
//!
//! ```text
//!   Put    ─▶ decide ─▶ Event { before: 0 or the last change, after: Some(member) }    made, or changed
//!   Rotate ─▶ decide ─▶ Event { before: the last change, after: Some(service) }        with another token
//!   Delete ─▶ decide ─▶ Event { before: the last change, after: None }                 gone
//! ```
//!
//! An event says which change it replaces, so a record can be checked against the state. A put that would change
//! nothing makes no record. Services and users are two kinds: they share no names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_machines::{Decision, Machine, Place, ShardIndex, TimeMs};
use tidegate_shard::form::{self, Malformed};

use crate::limits::{SERVICES_MAX, USERS_MAX};
use crate::member::{Service, TokenHash, User, UserRights};
use crate::table::{self, Keeps, Table};

/// A service, and which record changed it last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The sequence of that record.
    pub changed: u64,
    /// The service.
    pub service: Service,
}

/// A user, and which record changed it last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptUser {
    /// The sequence of that record.
    pub changed: u64,
    /// The user.
    pub user: User,
}

/// What is to be done with the service or user of a name.
#[derive(Clone, Debug)]
pub struct Command {
    /// The name.
    pub name: Box<str>,
    /// What.
    pub action: Action,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Action {
    /// The service has these grants from now on. If there is none, it is made, and has this token.
    Put {
        /// What it may do.
        grants: Vec<Box<str>>,
        /// The hash of the token of a new one.
        token: TokenHash,
        /// Nothing is done if there is one.
        only_new: bool,
    },
    /// The service has this token from now on, and the one before is no good.
    Rotate {
        /// Its hash.
        token: TokenHash,
    },
    /// There is no such service from now on.
    Delete,
    /// The user has these rights from now on. If there is none, it is made.
    PutUser {
        /// What the user may do.
        rights: UserRights,
        /// The hash of the password from now on; without one, the password stays, and nobody new is made.
        password_hash: Option<Box<str>>,
        /// Nothing is done if there is one.
        only_new: bool,
    },
    /// There is no such user from now on.
    DeleteUser,
}

/// What happened: one record of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Event {
    /// With a service.
    Service(ServiceChange),
    /// With a user.
    User(UserChange),
}

/// A service was made, changed or deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceChange {
    name: Box<str>,
    /// The sequence of the change that this one replaces; 0 if there was no such service.
    before: u64,
    /// What it is from now on; `None`: it is gone.
    after: Option<Service>,
}

/// A user was made, changed or deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserChange {
    user: Box<str>,
    /// The sequence of the change that this one replaces; 0 if there was no such user.
    before: u64,
    /// What the user is from now on; `None`: gone.
    after: Option<User>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is none of this name.
    NotFound,
    /// There is one of this name.
    Exists,
    /// The name or what belongs to it is out of bounds.
    Invalid,
    /// There are as many as there may be.
    TooMany,
}

/// How many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Services.
    pub services_max: usize,
    /// Users.
    pub users_max: usize,
}

/// What a command makes of what there is of its name.
type Change<'c, M> = dyn Fn(Option<&M>) -> Result<Option<M>, Refusal> + 'c;

/// An event that does not follow from the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} does not follow from the state before it")]
pub struct Mismatch(Event);

/// All services and users of the roster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roster {
    shard: u16,
    shards: u16,
    /// The newest record folded in.
    sequence: u64,
    services: Table<Kept>,
    /// Left out where there is none: so it was written before there were users.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    users: Table<KeptUser>,
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

    /// The users, by name.
    pub fn users(&self) -> &BTreeMap<Box<str>, KeptUser> {
        &self.users
    }

    fn event(&self, Command { name, action }: &Command, allowed: Allowed) -> Result<(Event, Outcome), Refusal> {
        let service = |after: &Change<'_, Service>| {
            let (before, after, outcome) = table::decide(&self.services, (name, allowed.services_max), after)?;
            Ok((Event::Service(ServiceChange { name: name.clone(), before, after }), outcome))
        };
        let user = |after: &Change<'_, User>| {
            let (before, after, outcome) = table::decide(&self.users, (name, allowed.users_max), after)?;
            Ok((Event::User(UserChange { user: name.clone(), before, after }), outcome))
        };
        match action {
            Action::Put { only_new: true, .. } if self.services.contains_key(name) => Err(Refusal::Exists),
            Action::PutUser { only_new: true, .. } if self.users.contains_key(name) => Err(Refusal::Exists),
            Action::Put { grants, token, .. } => service(&|kept| {
                let token_sha256 = kept.map_or(*token, |kept| kept.token_sha256);
                Ok(Some(Service { token_sha256, grants: grants.clone() }))
            }),
            Action::Rotate { token } => service(&|kept| {
                let kept = kept.ok_or(Refusal::NotFound)?;
                Ok(Some(Service { token_sha256: *token, ..kept.clone() }))
            }),
            Action::Delete => service(&|_| Ok(None)),
            Action::PutUser { rights, password_hash, .. } => user(&|kept| {
                let password_hash = password_hash.as_ref().or(kept.map(|kept| &kept.password_hash));
                let password_hash = password_hash.ok_or(Refusal::NotFound)?.clone();
                Ok(Some(User { password_hash, rights: rights.clone() }))
            }),
            Action::DeleteUser => user(&|_| Ok(None)),
        }
    }
}

impl Keeps for Kept {
    type Member = Service;
    const MAX: usize = SERVICES_MAX;

    fn of(changed: u64, service: Service) -> Kept {
        Kept { changed, service }
    }

    fn changed(&self) -> u64 {
        self.changed
    }

    fn member(&self) -> &Service {
        &self.service
    }
}

impl Keeps for KeptUser {
    type Member = User;
    const MAX: usize = USERS_MAX;

    fn of(changed: u64, user: User) -> KeptUser {
        KeptUser { changed, user }
    }

    fn changed(&self) -> u64 {
        self.changed
    }

    fn member(&self) -> &User {
        &self.user
    }
}

impl Machine for Roster {
    type Command<'a> = Command;
    type With<'a> = Allowed;
    type Event<'a> = Event;
    type Outcome = Result<Outcome, Refusal>;
    type Mismatch = Mismatch;
    type EventError = Malformed;
    type SnapshotError = Malformed;

    fn new(shard: ShardIndex, shards: u16) -> Roster {
        assert!(shard.0 < shards, "a shard is one of all");
        Roster { shard: shard.0, shards, sequence: 0, services: Table::new(), users: Table::new() }
    }

    fn decide<'a>(&self, command: &Command, allowed: Allowed, _: TimeMs) -> Decision<Event, Self::Outcome>
    where
        'a: 'a,
    {
        match self.event(command, allowed) {
            Err(refusal) => Decision::Answer(Err(refusal)),
            Ok((_, unchanged @ Outcome::Unchanged { .. })) => Decision::Answer(Ok(unchanged)),
            Ok((event, outcome)) => Decision::Append { event, outcome: Ok(outcome) },
        }
    }

    fn apply_checked(&mut self, event: &Event, at: Place) -> Result<(), Mismatch> {
        let follows = match event {
            Event::Service(change) => {
                table::follows(&self.services, &change.name, change.before, change.after.as_ref())
            }
            Event::User(change) => table::follows(&self.users, &change.user, change.before, change.after.as_ref()),
        };
        if at.sequence.0 <= self.sequence || !follows {
            return Err(Mismatch(event.clone()));
        }
        self.sequence = at.sequence.0;
        match event {
            Event::Service(ServiceChange { name, after, .. }) => {
                table::apply(&mut self.services, name, self.sequence, after.as_ref());
            }
            Event::User(UserChange { user, after, .. }) => {
                table::apply(&mut self.users, user, self.sequence, after.as_ref());
            }
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
        assert!(self.is_sound(), "members are within bounds, and changed by records that were folded in");
    }
}

impl Roster {
    fn is_sound(&self) -> bool {
        table::is_sound(&self.services, self.sequence) && table::is_sound(&self.users, self.sequence)
    }
}

#[cfg(test)]
mod tests;
