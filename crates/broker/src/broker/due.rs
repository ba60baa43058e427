//! What is due in the topic shards: wills whose delay has passed (`wills.rs` sends them), sessions that have expired,
//! delayed messages whose time has come.

use hashbrown::{HashMap, HashSet};
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Due, Origin, Slot};
use tidegate_planted::{Bug, is_planted};

use super::Broker;
use crate::index::ShardPlace;
use crate::limits::{DUE_AGAIN_MS, DUE_LOOKED_AT_MAX, DUE_PER_STEP};
use crate::session::Stage;
use crate::shards::Wait;

/// Something that is due at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DueThing {
    /// The will of this name.
    Will { shard: ShardPlace, name: Origin },
    /// A delayed message.
    Delayed { shard: ShardPlace, id: u64 },
    /// A message in an inbox that has expired, or waited for too long.
    Entry { shard: ShardPlace, slot: Slot, number: u64 },
}

/// What was sent when it was due and could not be kept by all of its receivers, for want of room: it stays due.
#[derive(Debug, Default)]
pub(super) struct DueAgain {
    /// When each is sent again.
    at: HashMap<DueThing, TimeMs>,
    /// What is done with, and not noted yet: on a full disk the note waits, and it is not due again meanwhile.
    noted: HashSet<DueThing>,
}

/// Whether something that is due may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It was not sent before.
    First,
    /// It was.
    Again,
    /// Not yet.
    Later,
}

impl DueAgain {
    /// Somebody had no room for it.
    pub fn wait(&mut self, thing: DueThing, now: TimeMs) {
        self.at.insert(thing, TimeMs(now.0 + DUE_AGAIN_MS));
    }

    /// Whether it may be sent now.
    pub fn turn(&self, thing: DueThing, now: TimeMs) -> Turn {
        match self.at.get(&thing) {
            None => Turn::First,
            Some(at) if *at <= now => Turn::Again,
            Some(_) => Turn::Later,
        }
    }

    /// It is over, and its shard was asked to note that. Whether it was asked for the first time.
    pub fn note(&mut self, thing: DueThing) -> bool {
        self.noted.insert(thing)
    }

    /// Its shard has noted it.
    pub fn is_noted(&mut self, thing: DueThing) {
        self.noted.remove(&thing);
    }

    /// Whether its shard was asked to note that it is over.
    pub fn is_over(&self, thing: DueThing) -> bool {
        self.noted.contains(&thing)
    }

    /// It is over. Whether it was sent before and not kept by all.
    pub fn end(&mut self, thing: DueThing) -> bool {
        self.at.remove(&thing).is_some()
    }
}

impl<L: LogStore> Broker<L> {
    /// Does what is due in the shards. Nothing is due before the subscriptions of all workers are known here: what fell
    /// due while the server was down would reach only the sessions of those who are.
    pub(super) fn step_due(&mut self, now: TimeMs) {
        self.endings.begin_step();
        if !self.is_serving() && !is_planted(Bug::DueBeforeServing) {
            return;
        }
        for shard in self.shards.places() {
            // What was asked for last time may not be decided yet. What waits for the disk is known: others are due.
            if self.shards[shard].facts().inbox > 0 {
                continue;
            }
            // What is not durable may be lost and come again, and be another message then.
            let durable = self.shards[shard].durable().0;
            let is_durable = |due: &Due| !matches!(due, Due::Delayed { id } if *id > durable);
            let is_open = |due: &Due| !self.rests(shard, *due, now);
            let due = self.shards.state(shard).due(now).take(DUE_LOOKED_AT_MAX).filter(is_open);
            let due: Vec<Due> = due.filter(is_durable).take(DUE_PER_STEP).collect();
            for due in due {
                self.do_due(shard, due, now);
            }
        }
    }

    fn do_due(&mut self, shard: ShardPlace, due: Due, now: TimeMs) {
        match due {
            Due::Will { slot, .. } => {
                let Some(place) = self.session_at(shard, slot) else { return };
                self.send_due_will(shard, place, slot, now);
            }
            Due::SessionExpiry { slot } => {
                let Some(place) = self.session_at(shard, slot) else { return };
                let session = &self.clients.sessions[place];
                if session.connection.is_some() || session.stage != Stage::Live {
                    return;
                }
                // Its will goes first, and is kept here until all who must keep it have it.
                let state = self.shards.state(shard).session(slot);
                if state.is_some_and(|state| state.will().is_some()) {
                    return self.send_due_will(shard, place, slot, now);
                }
                // One without expiry was kept for its will, or for others. Whoever comes gets a new one.
                let expiry_s = std::mem::take(&mut self.clients.sessions[place].expiry_s);
                self.clients.facts.sessions_expired += u64::from(expiry_s > 0);
                if !self.passes_on_before_end(place, now) {
                    self.end_session(place, true, now);
                }
            }
            Due::Delayed { id } => {
                let message = self.shards.state(shard).delayed(id).cloned();
                if let Some(message) = message {
                    self.publish_delayed(shard, id, &message, now);
                }
            }
            Due::Drop { slot, number, reason } => {
                let thing = DueThing::Entry { shard, slot, number };
                self.timing.again.note(thing);
                self.shards.call(
                    shard,
                    Command::Drop { slot, number, reason },
                    Wait::Noted { thing, origin: None, paid: None },
                );
            }
        }
    }

    /// Whether nothing is to be done for what is due now.
    fn rests(&self, shard: ShardPlace, due: Due, now: TimeMs) -> bool {
        let ending = match due {
            Due::SessionExpiry { slot } => self.session_at(shard, slot),
            _ => None,
        };
        ending.is_some_and(|place| self.endings.rests(self.clients.session_ref(place), now))
            || self.due_thing(shard, due).is_some_and(|thing| self.is_over(thing))
    }

    /// What a due thing of a shard is known by; `None` for sessions that end, which nobody finds twice.
    fn due_thing(&self, shard: ShardPlace, due: Due) -> Option<DueThing> {
        match due {
            Due::Will { slot, .. } => {
                let name = self.name_of_will(shard, self.shards.state(shard).session(slot)?)?;
                Some(DueThing::Will { shard, name })
            }
            Due::Delayed { id } => Some(DueThing::Delayed { shard, id }),
            Due::Drop { slot, number, .. } => Some(DueThing::Entry { shard, slot, number }),
            Due::SessionExpiry { .. } => None,
        }
    }

    /// Whether it is done with, or done without looking at its shard.
    fn is_over(&self, thing: DueThing) -> bool {
        let is_sending = matches!(thing, DueThing::Will { name, .. } if self.timing.wills.are_sending(name));
        is_sending || self.timing.again.is_over(thing)
    }
}
