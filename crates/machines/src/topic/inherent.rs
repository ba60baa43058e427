//! The door of old, for shards that do not call topics through [`Machine`](crate::Machine) yet.

use super::apply::Mismatch;
use super::command::{Command, InboxLimits, Refusal};
use super::event::Event;
use super::state::Topics;
use crate::TimeMs;

impl Topics {
    /// The event that answers `command` at `now`, or why there is none.
    pub fn decide(&self, command: &Command, limits: &InboxLimits, now: TimeMs) -> Result<Event, Refusal> {
        self.event_of(command, limits, now)
    }

    /// Applies an event that [`Topics::decide`] made from this very state. `sequence` is the number of its record.
    pub fn apply(&mut self, event: &Event, sequence: u64) {
        self.fold(event, sequence);
    }

    /// Applies an event from a journal, if it can follow what came before it.
    pub fn apply_checked(&mut self, event: &Event, sequence: u64) -> Result<(), Mismatch> {
        self.check(event, sequence)?;
        self.fold(event, sequence);
        Ok(())
    }
}
