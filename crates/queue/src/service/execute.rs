//! One command: it is decided and noted, and what follows for bodies and for those who wait is done.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_journal::{LogStore, NoRoom, RecordClass};
use tidegate_machines::queue::{Bounds, Command, Event, Outcome, Refusal, Verdict};
use tidegate_machines::{Decision, Machine, TimeMs};
use tidegate_shard::Room;

use super::{QueueService, QueueTurn};
use crate::protocol::RequestTicket;
use crate::refused::Bound;

/// What came of a command.
pub(super) enum Executed {
    /// It is decided, and noted if there was something to note.
    Done(Outcome),
    /// There is no room in this group.
    NoRoom,
    /// There is no room on the disk.
    DiskFull,
}

impl<T: RequestTicket> QueueService<T> {
    pub(super) fn execute<L: LogStore>(
        &mut self,
        turn: &mut QueueTurn<'_, T, L>,
        class: RecordClass,
        command: &Command<'_>,
    ) -> Executed {
        let bounds = Bounds { ahead_ms: self.ahead_ms(turn), ..self.options.bounds };
        let (event, outcome) = match turn.state().decide(command, bounds, turn.now()) {
            Decision::Answer(outcome) => return Executed::Done(outcome),
            Decision::Append { event, outcome } => (event, outcome),
        };
        if turn.room_for(class, 1) == Room::DiskFull {
            return Executed::DiskFull;
        }
        match turn.append_of(class, &event) {
            Ok(_) => {
                self.follow(&event, command, &outcome, bounds);
                Executed::Done(outcome)
            }
            Err(NoRoom::Here) => Executed::NoRoom,
            Err(NoRoom::Ever) => Executed::Done(Outcome::Refused(Refusal::BatchTooLarge)),
        }
    }

    /// Counts a refusal, if a bound was met, and says it in the log.
    pub(super) fn note_refused(&mut self, refusal: &Refusal, of: (&str, Option<&str>), now: TimeMs) {
        if let Some(bound) = Bound::of(refusal) {
            self.refused.note(bound, of, now);
        }
    }

    /// Keeps the bodies of what was just sent, lets go of those that are done with, and notes where those who wait may
    /// find something.
    fn follow(&mut self, event: &Event<'_>, command: &Command<'_>, outcome: &Outcome, bounds: Bounds) {
        match (event, command) {
            (Event::Rejected { messages, .. }, _) if messages.iter().any(|(_, verdict)| *verdict == Verdict::Dead) => {
                self.news.note_all();
            }
            (_, Command::Send { queue, .. } | Command::Acknowledge { queue, .. } | Command::Reject { queue, .. })
            | (_, Command::Hand { queue, .. })
            | (_, Command::Purge { queue, .. } | Command::Redrive { to: queue, .. })
            | (_, Command::SetQueue { name: queue, .. } | Command::DeleteQueue { name: queue }) => {
                self.news.note(queue);
            }
            (_, Command::Fire { due, .. }) => self.news.note(&due.queue),
            (_, Command::Route { from, to, .. }) => {
                self.news.note(from);
                self.news.note(to);
            }
            (_, Command::PassTime | Command::Cancel { .. } | Command::Reschedule { .. }) => self.news.note_all(),
            _ => {}
        }
        match (event, command, outcome) {
            (Event::Sent { messages: sent, .. }, Command::Send { messages, .. }, Outcome::Sent(receipts)) => {
                let taken = messages.iter().zip(receipts).filter(|(_, receipt)| !receipt.is_duplicate);
                for ((message, receipt), sent) in taken.zip(sent) {
                    let is_due = message.visible_at.is_none_or(|when| bounds.time_of(when, event.at()) <= event.at());
                    match sent.via {
                        _ if !is_due => {}
                        None => self.bodies.keep(receipt.key.number(), message),
                        // The record has this queue, too.
                        Some(_) => self.bodies.keep(receipt.key.number(), &Arc::new(sent.to_message())),
                    }
                }
            }
            (Event::Acknowledged { messages, .. }, ..) => {
                messages.iter().for_each(|touched| self.bodies.remove(touched.number));
            }
            (Event::Routed { messages: routed, .. }, Command::Route { messages, .. }, _) => {
                let routed: BTreeSet<u64> = routed.iter().map(|touched| touched.number).collect();
                let kept = messages.iter().filter(|(lease, _)| routed.contains(&lease.key.number()));
                kept.for_each(|(lease, message)| self.bodies.keep(lease.key.number(), message));
            }
            (Event::Handed { messages, .. }, ..) => {
                messages.iter().for_each(|(touched, _)| self.bodies.remove(touched.number));
            }
            (Event::Purged { numbers, .. }, ..) => numbers.iter().for_each(|number| self.bodies.remove(*number)),
            (Event::Cancelled { message, .. }, ..) => self.bodies.remove(message.number),
            (_, Command::DeleteQueue { name }, _) => {
                self.windows.forget(name);
                self.ahead.remove(*name);
            }
            _ => {}
        }
    }
}
