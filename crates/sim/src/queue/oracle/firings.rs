//! What must hold of the messages that schedules send: each schedule of the simulator fires when a minute begins.

use std::collections::BTreeSet;

use tidegate_machines::queue::Queues;

use super::super::content::{Content, Drawn};
use super::super::plan::{MINUTE_MS, SCHEDULE};
use super::{Oracle, QueueKnown};
use crate::violation::{Violation, must};

/// By how much a schedule may be late while nothing goes wrong: one that found its queue full is tried each second.
const LATE_MS_MAX: u64 = 2_000;

/// What is known of the schedule of a queue.
pub(super) struct ScheduleKnown {
    /// The number of its message.
    pub content: usize,
    /// When it was asked for first.
    asked_at: Option<u64>,
    is_asked: bool,
    is_made: bool,
    /// When it fired, of what was seen.
    pub fired_at: BTreeSet<u64>,
}

/// The newest time of a schedule up to `at`.
const fn due_at(at: u64) -> u64 {
    at - at % MINUTE_MS
}

impl QueueKnown {
    /// Whether nobody has asked for its schedule, or nobody heard that it is made.
    pub fn needs_schedule(&self) -> bool {
        self.schedule.as_ref().is_none_or(|schedule| !schedule.is_made && !schedule.is_asked)
    }
}

impl Oracle {
    /// The number of the message that the schedule of a queue sends.
    pub fn scheduled(&mut self, queue: usize, body_bytes: u64) -> usize {
        if let Some(schedule) = &self.queues[queue].schedule {
            return schedule.content;
        }
        let content = self.next_content();
        let drawn =
            Drawn { has_id: false, ordering_key: None, priority: 4, visible_at: None, expires_at: None, body_bytes };
        self.add(Content::new(content as u64, queue, &drawn));
        self.queues[queue].schedule =
            Some(ScheduleKnown { content, asked_at: None, is_asked: false, is_made: false, fired_at: BTreeSet::new() });
        content
    }

    /// Whether a message is one that a schedule sends.
    pub(super) fn is_scheduled(&self, content: usize) -> bool {
        let schedule = &self.queues[self.contents[content].content.queue].schedule;
        schedule.as_ref().is_some_and(|schedule| schedule.content == content)
    }

    pub(super) fn schedule_asked(&mut self, queue: usize) {
        let now = self.now;
        let schedule = self.queues[queue].schedule.as_mut().expect("its message was drawn");
        schedule.asked_at.get_or_insert(now);
        schedule.is_asked = true;
    }

    pub(super) fn schedule_answered(&mut self, queue: usize, is_made: bool) {
        let schedule = self.queues[queue].schedule.as_mut().expect("it was asked for");
        (schedule.is_asked, schedule.is_made) = (false, schedule.is_made || is_made);
    }

    /// Whether all schedules that there may be are made.
    pub fn has_schedules(&self) -> bool {
        self.queues.iter().filter_map(|queue| queue.schedule.as_ref()).all(|schedule| schedule.is_made)
    }

    /// How many messages of schedules were seen.
    pub fn firings(&self) -> u64 {
        let schedules = self.queues.iter().filter_map(|queue| queue.schedule.as_ref());
        schedules.map(|schedule| schedule.fired_at.len() as u64).sum()
    }

    /// A schedule of `queue` has fired at `at`: for a time that is behind its last firing, and behind its making.
    pub(super) fn check_firing(&self, queue: usize, at: u64) -> Result<(), Violation> {
        let served_since = self.served_since;
        let schedule = self.queues[queue].schedule.as_ref().expect("its message was drawn");
        let due = due_at(at);
        let words = || format!("queue {queue}, at {at} ms, due at {due} ms; others at {:?}", schedule.fired_at);
        let asked_at = schedule.asked_at.unwrap_or(u64::MAX);
        must(due > asked_at, "a schedule does not fire before its first time", words)?;
        let before = schedule.fired_at.range(..=at).next_back();
        must(before.is_none_or(|before| *before < due), "a schedule fires once for each of its times", words)?;
        let next = schedule.fired_at.range(at..).next();
        must(next.is_none_or(|next| due_at(*next) > at), "a schedule fires once for each of its times", words)?;
        let is_late = served_since.is_some_and(|since| since <= due) && at > due + LATE_MS_MAX;
        must(!is_late, "a schedule fires in time", words)
    }

    /// At the end, no schedule that was made waits for a time that has passed.
    pub(super) fn check_schedules(&self, states: &[&Queues]) -> Result<(), Violation> {
        for queue in &self.queues {
            let Some(schedule) = queue.schedule.as_ref().filter(|schedule| schedule.is_made) else { continue };
            let standing = states[usize::from(queue.shard)].standing(&queue.name, SCHEDULE);
            let next = standing.and_then(|standing| standing.next).map(|next| next.0 + self.ahead_ms);
            let is_in_time = next.is_some_and(|next| next + LATE_MS_MAX > self.now && next.is_multiple_of(MINUTE_MS));
            let seen = schedule.fired_at.len();
            must(is_in_time, "a schedule fires as long as it is there", || {
                format!("{}: next at {next:?} ms, now {} ms, {seen} were seen", queue.name, self.now)
            })?;
        }
        Ok(())
    }
}
