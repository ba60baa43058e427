//! What is to become of a command. Reads the state only.

mod leases;
mod moves;
mod send;

use tidegate_planted::{Bug, is_planted};

use super::command::{Bounds, Command, Outcome, Refusal};
use super::event::{Event, QueueIndex, Touched};
use super::key::MessageKey;
use super::limits::{AHEAD_MS_MAX, PURGED_PER_RECORD, QUEUES_MAX, QUEUES_OF_OWNER_MAX, QUEUES_OF_OWNERS_MAX};
use super::message_table::MessageState;
use super::settings::{Settings, is_queue_name};
use super::state::{Queue, Queues, later};
use crate::{Decision, TimeMs};

pub(super) use self::send::check_message;

pub(super) type Decided<'a> = Result<Decision<Event<'a>, Outcome>, Refusal>;

pub(super) const fn answer<'a>(outcome: Outcome) -> Decided<'a> {
    Ok(Decision::Answer(outcome))
}

pub(super) const fn append(event: Event<'_>, outcome: Outcome) -> Decided<'_> {
    Ok(Decision::Append { event, outcome })
}

impl Queues {
    pub(super) fn decide_command<'a>(&self, command: &Command<'a>, bounds: Bounds, now: TimeMs) -> Decided<'a> {
        // A clock may be set back; the time of records does not go back.
        let at = now.max(self.time);
        match *command {
            Command::Start { node } => append(Event::Started { at, node }, Outcome::Done),
            Command::SetQueue { name, settings } => self.set_queue(name, settings, at),
            Command::DeleteQueue { name } => self.delete_queue(name, at),
            Command::Send { queue, messages } => self.send(queue, messages, bounds, at),
            Command::Receive { queue, max, bytes_max, lease_ms, consumer } => {
                self.receive(queue, (max, bytes_max), lease_ms, consumer, at)
            }
            Command::Acknowledge { queue, leases } => self.acknowledge(queue, leases, at),
            Command::Hand { queue, messages, to } => self.hand(queue, messages, to, bounds, at),
            Command::Note { queue, reference, text } => self.note(queue, reference, text, at),
            Command::Route { messages, from, to, by } => self.route((from, to), messages, by, bounds, at),
            Command::Extend { queue, leases, lease_ms } => self.extend(queue, leases, lease_ms, at),
            Command::Reject { queue, leases, then, reason } => self.reject(queue, leases, then, reason, at),
            Command::Purge { queue, up_to } => self.purge(queue, up_to, at),
            Command::Cancel { key, ids } => {
                let message = self.waiting(key)?;
                let id = self.id_until_due(message.number, ids, at);
                append(Event::Cancelled { at, message, id }, Outcome::Done)
            }
            Command::Reschedule { key, visible_at, ids } => {
                let message = self.waiting(key)?;
                let visible_at = bounds.time_of(visible_at, at);
                argument(
                    visible_at <= later(at, AHEAD_MS_MAX),
                    "a message is scheduled at most a hundred years ahead",
                )?;
                let id = self.id_until_due(message.number, ids, at);
                append(Event::Rescheduled { at, visible_at, message, id }, Outcome::Done)
            }
            Command::Redrive { from, to, max } => self.redrive(from, to, max, at),
            Command::SetStanding { queue, name, settings, next } => {
                self.set_standing((queue, name), settings, next, at)
            }
            Command::RemoveStanding { queue, name } => self.remove_standing(queue, name, at),
            Command::Fire { due, next } => self.fire(due, next, bounds, at),
            Command::PassTime => match self.messages.next_wake() {
                Some(due) if due <= at => append(Event::TimePassed { at }, Outcome::Done),
                _ => answer(Outcome::Done),
            },
            Command::Move { messages } => self.move_bodies(messages, at),
        }
    }

    pub(super) fn find(&self, name: &str) -> Result<(QueueIndex, &Queue), Refusal> {
        let index = self.index(name).ok_or_else(|| Refusal::QueueNotFound(name.into()))?;
        Ok((index, self.queue(index)))
    }

    fn set_queue<'a>(&self, name: &'a str, settings: &Settings, at: TimeMs) -> Decided<'a> {
        if !is_queue_name(name) {
            return Err(Refusal::QueueNameInvalid);
        }
        settings.check(name)?;
        match self.index(name) {
            Some(index) if self.queue(index).settings == *settings => return answer(Outcome::Done),
            None => self.check_queue_count(settings.owner.as_deref())?,
            Some(_) => {}
        }
        if let Some(target) = &settings.dead_letter {
            self.find(target)?;
        }
        append(Event::QueueSet { at, name, settings: settings.clone() }, Outcome::Done)
    }

    /// Whether there may be another queue, of this owner or of the configuration.
    fn check_queue_count(&self, owner: Option<&str>) -> Result<(), Refusal> {
        let of_owner = owner.map_or(0, |owner| self.owned_by(owner).queues);
        let most = if owner.is_some() { QUEUES_OF_OWNERS_MAX } else { QUEUES_MAX };
        match () {
            () if of_owner >= QUEUES_OF_OWNER_MAX as u64 => Err(Refusal::TooManyQueuesOfOwner),
            () if self.names.len() >= most => Err(Refusal::TooManyQueues),
            () => Ok(()),
        }
    }

    fn delete_queue<'a>(&self, name: &str, at: TimeMs) -> Decided<'a> {
        let (index, queue) = self.find(name)?;
        if !queue.members.is_empty() {
            return Err(Refusal::QueueNotEmpty);
        }
        if !queue.standing.is_empty() {
            return Err(Refusal::QueueHasSchedules);
        }
        if let Some(user) = self.user_of(name) {
            return Err(Refusal::QueueInUse(user.into()));
        }
        append(Event::QueueDeleted { at, queue: index }, Outcome::Done)
    }

    /// A queue whose dead letters go to the queue of this name.
    pub(super) fn user_of(&self, name: &str) -> Option<&str> {
        let mut queues = self.queues.iter().flatten();
        queues.find(|queue| queue.settings.dead_letter.as_deref() == Some(name)).map(|queue| &*queue.name)
    }

    fn purge<'a>(&self, name: &str, up_to: u64, at: TimeMs) -> Decided<'a> {
        let (index, queue) = self.find(name)?;
        let is_scheduled = |number: &u64| self.messages.of(*number).state == MessageState::Scheduled;
        let wanted = |number: &u64| !(is_planted(Bug::PurgePassesOver) && is_scheduled(number));
        let mut members = queue.members.iter().take_while(|number| *number <= up_to).filter(wanted);
        let numbers: Vec<u64> = members.by_ref().take(PURGED_PER_RECORD).collect();
        let outcome = Outcome::Some { count: numbers.len() as u64, more: members.next().is_some() };
        if numbers.is_empty() {
            return answer(outcome);
        }
        append(Event::Purged { at, queue: index, numbers }, outcome)
    }

    fn waiting(&self, key: MessageKey) -> Result<Touched, Refusal> {
        match self.entry_of(key) {
            Some(entry) if entry.state.is_waiting() => Ok(Touched { number: key.number(), before: entry.last }),
            Some(entry) if entry.state == MessageState::Leased => Err(Refusal::MessageLeased),
            _ => Err(Refusal::MessageNotFound),
        }
    }
}

pub(super) fn argument(holds: bool, what: &'static str) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(Refusal::ArgumentInvalid(what)) }
}
