//! Schedules: what is said of them is read, and those whose time has come are fired.
//!
//! ```text
//!   set ─▶ parse ─▶ next ─▶ SetStanding            each step: due? ─▶ next behind now ─▶ Fire: a message of the queue
//! ```
//!
//! A schedule says when a clock on a wall shows something, so it is the clock of the host that counts, and not the time
//! of the shard where that is ahead of it: a minute that the shard has left out or had before fires once by the former.
//!
//! A firing that finds no room in its queue is tried again each second until there is some, and keeps no other one
//! waiting.

use tidegate_journal::{LogStore, RecordClass};
use tidegate_machines::TimeMs;
use tidegate_machines::queue::{Command, DueStanding, Outcome, Queues, Refusal, StandingSettings};
use tidegate_shard::{Pause, Served, Unavailable};

use super::execute::Executed;
use super::{QueueService, QueueTurn};
use crate::call::Answer;
use crate::cron::Schedule;
use crate::limits::{ANSWER_BYTES_MAX, FIRINGS_PER_STEP, PAGE_ROWS_MAX};
use crate::protocol::RequestTicket;

/// How long a firing waits that found no room, in milliseconds.
const AGAIN_MS: u64 = 1_000;

impl<T: RequestTicket> QueueService<T> {
    /// Makes a schedule, if what it says can be read.
    pub(super) fn set_standing<L: LogStore>(
        &mut self,
        turn: &mut QueueTurn<'_, T, L>,
        (queue, name): (&str, &str),
        settings: &StandingSettings,
    ) -> Served<Answer> {
        if let Err(refusal) = settings.check(name) {
            return Served::Done(Answer::refused(refusal));
        }
        let now = self.host_time(turn);
        let next = match Schedule::parse(&settings.cron, &settings.zone, now) {
            Ok(schedule) => schedule.next(now).expect("one that never fires is refused"),
            Err(error) => return Served::Done(Answer::refused(Refusal::ScheduleInvalid(error.to_string().into()))),
        };
        // Whoever puts another one in its place does not become its owner.
        let known = turn.state().standing(queue, name).map(|known| known.settings.owner.clone());
        let owned = StandingSettings { owner: known.unwrap_or_else(|| settings.owner.clone()), ..settings.clone() };
        let command = Command::SetStanding { queue, name, settings: &owned, next };
        match self.execute(turn, RecordClass::New, &command) {
            Executed::Done(outcome) => {
                if let Outcome::Refused(refusal) = &outcome {
                    self.note_refused(refusal, (queue, owned.owner.as_deref()), turn.now());
                }
                Served::Done(Answer::Outcome(outcome))
            }
            Executed::NoRoom => Served::Paused(Pause::Room),
            Executed::DiskFull => Served::TurnedAway(Unavailable::DiskFull),
        }
    }

    /// Fires the schedules whose time has come. Whether anything happened.
    pub(super) fn fire<L: LogStore>(&mut self, turn: &mut QueueTurn<'_, T, L>) -> bool {
        let now = self.host_time(turn);
        if turn.state().next_firing().is_none_or(|at| at > now) {
            return false;
        }
        if turn.now() >= self.fire_again_at {
            self.unfired.clear();
            self.fire_again_at = TimeMs(turn.now().0 + AGAIN_MS);
        }
        let is_tried = |due: &DueStanding| !self.unfired.contains(&(due.queue.clone(), due.name.clone()));
        let due: Vec<DueStanding> = turn.state().due_standing(now).filter(is_tried).take(FIRINGS_PER_STEP).collect();
        let mut worked = false;
        for due in due {
            let next = next_of(&due, now);
            match self.execute(turn, RecordClass::New, &Command::Fire { due: &due, next }) {
                Executed::Done(Outcome::Refused(_)) => drop(self.unfired.insert((due.queue, due.name))),
                Executed::Done(_) => worked = true,
                Executed::NoRoom | Executed::DiskFull => break,
            }
        }
        worked
    }
}

/// When a schedule fires behind `now`.
fn next_of(DueStanding { queue, name, standing }: &DueStanding, now: TimeMs) -> Option<TimeMs> {
    let StandingSettings { cron, zone, .. } = &standing.settings;
    match Schedule::parse(cron, zone, now) {
        Ok(schedule) => schedule.next(now),
        // It was checked when it was set; a newer program may know less zones.
        Err(error) => {
            let what = "this schedule cannot be read any more: it fires now, and not again until it is set";
            tracing::error!(queue = &**queue, schedule = &**name, %error, "{what}");
            None
        }
    }
}

/// A schedule of a queue.
pub(super) fn one(queues: &Queues, queue: &str, name: &str) -> Answer {
    match queues.standing(queue, name) {
        Some(standing) => Answer::Standings(vec![(name.into(), standing.clone())], false),
        None if queues.settings(queue).is_none() => Answer::refused(Refusal::QueueNotFound(queue.into())),
        None => Answer::refused(Refusal::ScheduleNotFound),
    }
}

/// The schedules of a queue behind one of them.
pub(super) fn page(queues: &Queues, queue: &str, after: &str, limit: usize) -> Answer {
    let Some(standing) = queues.standing_after(queue, after) else {
        return Answer::refused(Refusal::QueueNotFound(queue.into()));
    };
    let mut standing = standing.peekable();
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while rows.len() < limit.min(PAGE_ROWS_MAX)
        && bytes < ANSWER_BYTES_MAX
        && let Some((name, standing)) = standing.next()
    {
        bytes += standing.settings.message.bytes() as u64;
        rows.push((name.into(), standing.clone()));
    }
    let more = standing.peek().is_some();
    Answer::Standings(rows, more)
}
