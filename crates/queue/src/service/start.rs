//! What a start does: it is noted, for the keys of messages, and the queues of the configuration are made or set.

use tidegate_journal::{LogStore, RecordClass};
use tidegate_machines::queue::{Command, Outcome, Settings};

use super::execute::Executed;
use super::{QueueService, QueueTurn};
use crate::protocol::RequestTicket;

impl<T: RequestTicket> QueueService<T> {
    /// Notes the start, and makes the queues of the configuration. Whether that is done.
    pub(super) fn start<L: LogStore>(&mut self, turn: &mut QueueTurn<'_, T, L>) -> bool {
        let note = Command::Start { node: self.options.node };
        if !self.is_start_noted {
            self.is_start_noted = matches!(self.execute(turn, RecordClass::Note, &note), Executed::Done(_));
        }
        while self.is_start_noted
            && let Some((name, settings)) = self.to_declare.pop_front()
        {
            if !self.declare(turn, &name, &settings) {
                self.to_declare.push_front((name, settings));
                return false;
            }
        }
        self.is_start_noted
    }

    /// Makes a queue of the configuration, or gives it the settings that it has there. Whether there was room for that.
    fn declare<L: LogStore>(&mut self, turn: &mut QueueTurn<'_, T, L>, name: &str, settings: &Settings) -> bool {
        let before = turn.state().settings(name).map(|before| Settings { owner: None, ..before.clone() });
        // Of what the doors note of a queue, the configuration says nothing.
        let notes = before.as_ref().map_or_else(Box::default, |before| before.notes.clone());
        // The configuration takes a queue that somebody has made: it counts for no owner any more.
        let mut set = Settings { notes, owner: None, ..settings.clone() };
        if before.is_none()
            && let Some(target) = set.dead_letter.take_if(|target| turn.state().view(target).is_none())
        {
            // Its dead letter queue is made later: each may be that of the other. Then it is set once more.
            drop(target);
            set.attempts_max = None;
            self.made_now.insert(name.into());
            self.to_declare.push_back((name.into(), settings.clone()));
        }
        match self.execute(turn, RecordClass::Note, &Command::SetQueue { name, settings: &set }) {
            Executed::NoRoom | Executed::DiskFull => {
                self.to_declare.retain(|(later, _)| **later != *name);
                return false;
            }
            Executed::Done(Outcome::Refused(refusal)) => {
                self.note_refused(&refusal, (name, None), turn.now());
                tracing::error!(queue = name, %refusal, "this [[queue]] of the configuration is not made");
            }
            Executed::Done(_) if before.is_some_and(|before| before != set) && !self.made_now.remove(name) => {
                tracing::info!(queue = name, "the queue has the settings of its [[queue]] in the configuration again");
            }
            Executed::Done(_) => {}
        }
        true
    }
}
