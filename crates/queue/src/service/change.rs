//! Calls that may change something: what they may not do, and how far one goes at once.

use tidegate_journal::{LogStore, RecordClass};
use tidegate_machines::queue::{Command, Outcome, Queues, Refusal, Settings};
use tidegate_shard::{Pause, Served, Unavailable};

use super::execute::Executed;
use super::{Progress, QueueService, QueueTurn};
use crate::call::{Answer, Call};
use crate::protocol::RequestTicket;
use crate::window::DeliveryWindow;

impl<T: RequestTicket> QueueService<T> {
    /// Serves a call that may change something.
    pub(super) fn change<L: LogStore>(
        &mut self,
        turn: &mut QueueTurn<'_, T, L>,
        call: &Call,
        progress: &mut Progress,
    ) -> Served<Answer> {
        if let Some(refusal) = unreadable_text(call).or_else(|| self.refusal_for_routes(turn.state(), call)) {
            return Served::Done(Answer::refused(refusal));
        }
        let up_to = *progress.up_to.get_or_insert_with(|| turn.state().newest_number());
        let left = match call {
            Call::Redrive { max, .. } => max.unwrap_or(u64::MAX) - progress.done,
            _ => 0,
        };
        let owned;
        let command = match call {
            Call::SetQueue { name, settings } => {
                owned = with_owner(turn.state(), name, settings);
                Command::SetQueue { name, settings: &owned }
            }
            _ => call.command(up_to, left).expect("reads are served elsewhere"),
        };
        let class = class_of(call);
        let (count, more) = match self.execute(turn, class, &command) {
            Executed::NoRoom => return Served::Paused(Pause::Room),
            Executed::DiskFull => return Served::TurnedAway(Unavailable::DiskFull),
            Executed::Done(Outcome::Some { count, more }) => (count, more),
            Executed::Done(outcome) => {
                match (&outcome, &command) {
                    (Outcome::Done, Command::SetQueue { name, settings }) => self.tell_declared(name, settings),
                    (Outcome::Done, Command::DeleteQueue { name }) => self.tell_deleted(name),
                    (Outcome::Refused(refusal), Command::SetQueue { name, settings }) => {
                        self.note_refused(refusal, (name, settings.owner.as_deref()), turn.now());
                    }
                    (Outcome::Refused(refusal), _) => {
                        // What has no room is the queue to which messages were to go.
                        let queue = match call {
                            Call::Route { to, .. } | Call::Redrive { to, .. } => to,
                            _ => call.queue().unwrap_or_default(),
                        };
                        let owner = turn.state().settings(queue).and_then(|settings| settings.owner.as_deref());
                        self.note_refused(refusal, (queue, owner), turn.now());
                    }
                    _ => {}
                }
                return Served::Done(Answer::Outcome(outcome));
            }
        };
        progress.done += count;
        match more && count > 0 && left != count {
            true => Served::Paused(Pause::Step),
            false => Served::Done(Answer::Outcome(Outcome::Some { count: progress.done, more })),
        }
    }

    /// Why a call would break a route.
    fn refusal_for_routes(&self, queues: &Queues, call: &Call) -> Option<Refusal> {
        match call {
            Call::DeleteQueue { name } => {
                let route = self.routing.user_of(name).filter(|_| queues.settings(name).is_some())?;
                Some(Refusal::QueueOfRoute(route.into()))
            }
            Call::SetQueue { name, settings } => {
                let dead_letter_of = |queue: &str| match *queue == **name {
                    true => settings.dead_letter.as_deref(),
                    false => queues.settings(queue)?.dead_letter.as_deref(),
                };
                self.routing.goes_round(name, dead_letter_of).then(|| Refusal::GoesRound(name.clone()))
            }
            _ => None,
        }
    }
}

/// The settings that a queue gets: whoever gives it others does not become its owner.
fn with_owner(queues: &Queues, name: &str, settings: &Settings) -> Settings {
    let owner = match queues.settings(name) {
        Some(before) => before.owner.clone(),
        None => settings.owner.clone(),
    };
    Settings { owner, ..settings.clone() }
}

/// Why a text of a call says nothing: its form is none of the machine's business.
fn unreadable_text(call: &Call) -> Option<Refusal> {
    let Call::SetQueue { settings, .. } = call else { return None };
    let error = DeliveryWindow::parse(settings.delivery_window.as_deref()?).err()?;
    Some(Refusal::WindowInvalid(error.to_string().into()))
}

/// How much of a full disk a call may use.
const fn class_of(call: &Call) -> RecordClass {
    match call {
        Call::SetQueue { .. } | Call::Send { .. } | Call::Reschedule { .. } => RecordClass::New,
        _ => RecordClass::Note,
    }
}
