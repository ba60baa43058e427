//! Schedules: a queue sends itself a message at certain times, again and again, until somebody removes the schedule.
//!
//! ```text
//!   set ─▶ next: a time ──▶ fired: a message, and the next time behind it ─┐
//!              ▲  the time has come                                        │
//!              └───────────────────────────────────────────────────────────┘
//! ```
//!
//! Promise: for each time of a schedule there is one message, whatever crashes between; times that passed while nobody
//! served give one message together.
//!
//! When it fires next comes from outside and stands in the record: what an expression and a time zone say changes with
//! the rules of time zones, and a replay must not. It is a time by the clock of the host, which may be behind the time
//! of records: so a schedule may be set, or fire, at a time that is behind the next one by its records.

use std::sync::Arc;

use super::command::{Limit, Message};
use super::decide::{Decided, answer, append, argument, check_message};
use super::event::{Event, QueueIndex, Sent};
use super::key::{MessageKey, NUMBER_END};
use super::limits::{
    AHEAD_MS_MAX, CRON_BYTES_MAX, STANDING_BYTES_MAX, STANDING_MAX, STANDING_OF_OWNER_MAX, STANDING_OF_OWNERS_MAX,
    ZONE_BYTES_MAX,
};
use super::settings::{is_owner, is_queue_name};
use super::state::{Queue, Queues, later};
use super::{Bounds, Outcome, Refusal};
use crate::TimeMs;

/// What an operator says of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingSettings {
    /// When it fires: a text whose form is none of the machine's business.
    pub cron: Box<str>,
    /// In which time zone, as well.
    pub zone: Box<str>,
    /// After how long a message of it is dropped that nobody acknowledged; `None` for the queue's own expiry.
    pub expiry_ms: Option<u64>,
    /// What it sends: without an id, and without times.
    pub message: Message,
    /// Who made it, and whose share of the shard's schedules it takes; `None` of those of before there were owners. As
    /// the owner of a queue, it does not change.
    pub owner: Option<Box<str>>,
}

/// A schedule as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What an operator says of it.
    pub settings: StandingSettings,
    /// When it fires next, by the clock of the host; `None` if its text says nothing any more.
    pub next: Option<TimeMs>,
    /// Its last message.
    pub last: Option<MessageKey>,
}

/// A schedule whose time has come.
#[derive(Clone, Debug)]
pub struct DueStanding {
    /// Its queue.
    pub queue: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// What it is.
    pub standing: Arc<Standing>,
}

impl StandingSettings {
    /// Whether a schedule called `name` may have them.
    pub fn check(&self, name: &str) -> Result<(), Refusal> {
        let rule = |holds: bool, what: &str| if holds { Ok(()) } else { Err(Refusal::ScheduleInvalid(what.into())) };
        let Message { id, via, origin_id, visible_at, expires_at, .. } = &self.message;
        rule(is_queue_name(name), "its name has 1 to 80 letters, digits, and characters of \"-_.:{}\"")?;
        rule((1..=CRON_BYTES_MAX).contains(&self.cron.len()), "cron has 1 to 128 bytes")?;
        rule((1..=ZONE_BYTES_MAX).contains(&self.zone.len()), "zone has 1 to 64 bytes")?;
        rule(
            self.expiry_ms.is_none_or(|ms| (1..=AHEAD_MS_MAX).contains(&ms)),
            "its messages expire in 1 millisecond to a hundred years",
        )?;
        rule(is_owner(self.owner.as_deref()), "an owner's name has 1 to 256 bytes")?;
        rule(
            id.is_none() && via.is_none() && origin_id.is_none(),
            "its message has no id, and no via: each is another one",
        )?;
        rule(visible_at.is_none() && expires_at.is_none(), "its message has no times: the schedule has")?;
        rule(self.message.bytes() <= STANDING_BYTES_MAX, "its message has at most 16384 bytes, with its attributes")?;
        // It has no times, so no bound counts.
        check_message(&self.message, Bounds::new(0, 0, 0), TimeMs(0)).or_else(|what| rule(false, what))
    }
}

impl Queue {
    /// The message that a schedule sends at `at`.
    fn sent_by<'a>(&self, standing: &'a StandingSettings, at: TimeMs) -> Sent<'a> {
        let expiry_ms = standing.expiry_ms.or(self.settings.expiry_ms);
        Sent {
            visible_at: (self.settings.delay_ms > 0).then(|| later(at, self.settings.delay_ms)),
            expires_at: expiry_ms.map(|ms| later(at, ms)),
            ..standing.message.as_sent()
        }
    }
}

impl Queues {
    pub(super) fn set_standing<'a>(
        &self,
        (queue, name): (&str, &'a str),
        settings: &'a StandingSettings,
        next: TimeMs,
        at: TimeMs,
    ) -> Decided<'a> {
        let (index, queue) = self.find(queue)?;
        settings.check(name)?;
        argument(next <= later(at, AHEAD_MS_MAX), "a schedule fires within a hundred years")?;
        match queue.standing.get(name) {
            // One that fires later than it should was set by a clock that was ahead.
            Some(known) if known.settings == *settings && known.next.is_some_and(|known| known <= next) => {
                return answer(Outcome::Done);
            }
            None => self.check_standing_count(queue, settings.owner.as_deref())?,
            Some(_) => {}
        }
        let StandingSettings { cron, zone, expiry_ms, message, owner } = settings;
        let (expiry_ms, message, owner) = (*expiry_ms, message.as_sent(), owner.as_deref());
        append(
            Event::StandingSet { at, queue: index, name, cron, zone, expiry_ms, next, message, owner },
            Outcome::Done,
        )
    }

    pub(super) fn remove_standing<'a>(&self, queue: &str, name: &'a str, at: TimeMs) -> Decided<'a> {
        let (index, queue) = self.find(queue)?;
        if !queue.standing.contains_key(name) {
            return Err(Refusal::ScheduleNotFound);
        }
        append(Event::StandingRemoved { at, queue: index, name }, Outcome::Done)
    }

    /// Sends the message of a schedule whose time has come. One that is another by now is left for the next time.
    pub(super) fn fire<'a>(
        &self,
        DueStanding { queue, name, standing }: &'a DueStanding,
        next: Option<TimeMs>,
        bounds: Bounds,
        at: TimeMs,
    ) -> Decided<'a> {
        let (index, queue) = self.find(queue)?;
        let is_due = queue.standing.get(name) == Some(standing);
        let Some(due) = standing.next.filter(|due| is_due && *due <= at) else { return answer(Outcome::Done) };
        argument(next.is_none_or(|next| next > due), "a schedule fires next later")?;
        if self.next + 1 >= NUMBER_END {
            return Err(Refusal::Full(Limit::Numbers, NUMBER_END));
        }
        let message = queue.sent_by(&standing.settings, at);
        self.check_limits(index, &[message], 0, bounds, at)?;
        append(Event::Fired { at, queue: index, name, due, next, first: self.next, message }, Outcome::Done)
    }

    /// Whether a queue may get another schedule, of this owner.
    fn check_standing_count(&self, queue: &Queue, owner: Option<&str>) -> Result<(), Refusal> {
        let of_owner = owner.map_or(0, |owner| self.owned_by(owner).schedules);
        let most = if queue.owner.is_some() { STANDING_OF_OWNERS_MAX } else { STANDING_MAX };
        match () {
            () if of_owner >= STANDING_OF_OWNER_MAX as u64 => Err(Refusal::TooManySchedulesOfOwner),
            () if self.standing_count() >= most => Err(Refusal::TooManySchedules),
            () => Ok(()),
        }
    }

    /// How many schedules there are.
    pub fn standing_count(&self) -> usize {
        self.queues.iter().flatten().map(|queue| queue.standing.len()).sum()
    }

    /// Whether a schedule may have fired so.
    pub(super) fn may_fire(
        &self,
        (index, name): (QueueIndex, &str),
        (due, next): (TimeMs, Option<TimeMs>),
        message: &Sent<'_>,
        at: TimeMs,
    ) -> bool {
        let standing = self.get_queue(index).and_then(|queue| queue.standing.get(name));
        standing.is_some_and(|standing| {
            let (visible_at, expires_at) = (message.visible_at, message.expires_at);
            let sent = Sent { visible_at, expires_at, ..standing.settings.message.as_sent() };
            standing.next == Some(due) && due <= at && next.is_none_or(|next| next > due) && sent == *message
        })
    }

    /// Puts a schedule in the place of the one of its name.
    pub(super) fn put_standing(&mut self, index: QueueIndex, name: &str, standing: Standing) {
        self.take_standing(index, name);
        self.standing_due.extend(standing.next.map(|next| (next, index, name.into())));
        self.enter_schedule(standing.settings.owner.as_deref());
        self.queue_mut(index).standing.insert(name.into(), Arc::new(standing));
    }

    /// Removes a schedule.
    pub(super) fn take_standing(&mut self, index: QueueIndex, name: &str) -> Option<Arc<Standing>> {
        let standing = self.queue_mut(index).standing.remove(name)?;
        self.leave_schedule(standing.settings.owner.as_deref());
        if let Some(next) = standing.next {
            self.standing_due.remove(&(next, index, name.into()));
        }
        Some(standing)
    }

    /// When the next schedule fires.
    pub fn next_firing(&self) -> Option<TimeMs> {
        self.standing_due.first().map(|(at, ..)| *at)
    }

    /// When each schedule fires next, in order.
    pub(super) fn firings(&self) -> impl Iterator<Item = TimeMs> + '_ {
        self.standing_due.iter().map(|(at, ..)| *at)
    }

    /// Schedules whose time has come at `now`, in the order of their times.
    pub fn due_standing(&self, now: TimeMs) -> impl Iterator<Item = DueStanding> + '_ {
        self.standing_due.iter().take_while(move |(at, ..)| *at <= now).map(|(_, index, name)| {
            let queue = self.queue(*index);
            DueStanding { queue: queue.name.clone(), name: name.clone(), standing: queue.standing[name].clone() }
        })
    }

    /// A schedule of a queue.
    pub fn standing(&self, queue: &str, name: &str) -> Option<&Arc<Standing>> {
        self.queue(self.index(queue)?).standing.get(name)
    }

    /// The schedules of a queue whose names come after `after`, in order.
    pub fn standing_after(
        &self,
        queue: &str,
        after: &str,
    ) -> Option<impl Iterator<Item = (&str, &Arc<Standing>)> + '_> {
        let range = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        let standing = self.queue(self.index(queue)?).standing.range::<str, _>(range);
        Some(standing.map(|(name, standing)| (&**name, standing)))
    }
}
