//! What is due in the topic shards: wills whose delay has passed, sessions that have expired, delayed messages whose
//! time has come.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Due, Message, MessageMeta, Origin, Slot, Will};
use tidegate_planted::{Bug, is_planted};
use tidegate_wire::mqtt::Connect;

use super::Broker;
use crate::acknowledgements::Completion;
use crate::holdings::Holder;
use crate::index::{SessionIndex, ShardPlace};
use crate::limits::{DUE_AGAIN_MS, DUE_LOOKED_AT_MAX, DUE_PER_STEP};
use crate::message_ref::MessageRef;
use crate::peer::Source;
use crate::session::{SessionFlags, Stage};
use crate::shards::Wait;

/// Something that is due at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DueThing {
    /// The will of the session at this slot.
    Will { shard: ShardPlace, slot: Slot },
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
            let again = &self.timing.again;
            let is_durable = |due: &Due| !matches!(due, Due::Delayed { id } if *id > durable);
            let is_open = |due: &Due| !due_thing(shard, *due).is_some_and(|thing| again.is_over(thing));
            let due = self.shards.state(shard).due(now).take(DUE_LOOKED_AT_MAX).filter(is_open);
            let due: Vec<Due> = due.filter(is_durable).take(DUE_PER_STEP).collect();
            for due in due {
                self.do_due(shard, due, now);
            }
        }
    }

    fn do_due(&mut self, shard: ShardPlace, due: Due, now: TimeMs) {
        match due {
            Due::Will { slot } => {
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
                // One without expiry was kept for its will only.
                self.clients.facts.sessions_expired += u64::from(session.expiry_s > 0);
                self.end_session(place, now);
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

    /// A durable session's will, whose delay has passed.
    /// `[MQTT-3.1.3-9]`: a client that reconnects before the will delay has passed: the will is not sent.
    pub(super) fn send_due_will(&mut self, shard: ShardPlace, place: SessionIndex, slot: Slot, now: TimeMs) {
        let session = &mut self.clients.sessions[place];
        let turn = self.timing.again.turn(DueThing::Will { shard, slot }, now);
        let is_over = self.timing.again.is_over(DueThing::Will { shard, slot });
        let is_on_its_way = session.flags.has(SessionFlags::WILL_SENT) || is_over;
        if session.connection.is_some() || is_on_its_way || turn == Turn::Later {
            return;
        }
        session.flags.set(SessionFlags::WILL_SENT);
        let Some(state) = self.shards.state(shard).session(slot) else { return };
        let Some(will) = state.will().cloned() else { return };
        let incarnation = state.incarnation();
        let (payer, client_id) =
            (self.clients.sessions[place].owner.clone(), self.clients.sessions[place].client_id.clone());
        let owner = payer.as_ref().map(Holder::principal);
        if !self.may_still_publish(owner, Some(&client_id), will.message.topic()) {
            return self.will_sent(shard, slot);
        }
        let origin = self.shards.origin(shard, incarnation, 0);
        let (collected, ack_to) = self.acknowledgements.begin(Completion::ForgetWill { shard, slot });
        let message = published(&will, now);
        // One that is retained may not have reached anybody.
        let is_again = turn == Turn::Again && !message.retain();
        let source = Source { publisher: None, origin: Some(origin), ack_to: Some(ack_to), is_again };
        let routed = self.route(&mut MessageRef::of(&message).paid_by(payer), &source, now);
        self.expect_words(collected, routed.awaited.words(), now);
    }

    /// Sends the will of a session whose client comes back after the will was to be sent: when it was gone because the
    /// server was, that had no time for it.
    pub(super) fn send_overdue_will(&mut self, place: SessionIndex, now: TimeMs) {
        let session = &self.clients.sessions[place];
        let (shard, Some(slot)) = (session.shard, session.slot) else { return };
        let Some(state) = self.shards.state(shard).session(slot) else { return };
        let Some(delay_s) = state.will().map(|will| will.delay_s) else { return };
        let due_at = |gone: TimeMs| TimeMs(gone.0 + u64::from(delay_s) * 1_000);
        if delay_s == 0 || state.detached_at().is_some_and(|gone| due_at(gone) <= now) {
            self.send_due_will(shard, place, slot, now);
        }
    }

    /// A will could not be kept by all of its receivers: it is sent again. Those who took it know its origin.
    pub(super) fn will_stays_due(&mut self, shard: ShardPlace, slot: Slot, now: TimeMs) {
        let Some(place) = self.session_at(shard, slot) else { return };
        let session = &mut self.clients.sessions[place];
        // A client that came back meanwhile may have brought another one.
        if session.flags.has(SessionFlags::WILL_SENT) {
            session.flags.clear(SessionFlags::WILL_SENT);
            self.timing.again.wait(DueThing::Will { shard, slot }, now);
        } else if let Some(state) = self.shards.state(shard).session(slot) {
            let origin = self.shards.origin(shard, state.incarnation(), 0);
            self.forget_old_will(shard, slot, origin);
        }
    }

    /// A client that came back has brought another will, or none: the old one is forgotten, when that is durable.
    fn forget_old_will(&mut self, shard: ShardPlace, slot: Slot, origin: Origin) {
        let place = self.session_at(shard, slot);
        if place.is_none_or(|place| self.clients.sessions[place].stage == Stage::Live) {
            self.forget_origin_everywhere(origin);
        }
    }

    /// A will is durable with all its receivers: it need not be sent again after a crash.
    pub(super) fn will_sent(&mut self, shard: ShardPlace, slot: Slot) {
        self.timing.again.end(DueThing::Will { shard, slot });
        let Some(state) = self.shards.state(shard).session(slot) else { return };
        let incarnation = state.incarnation();
        // A client that came back meanwhile may have brought another one.
        let is_same = |place| self.clients.sessions[place].flags.has(SessionFlags::WILL_SENT);
        let (thing, origin) = (DueThing::Will { shard, slot }, self.shards.origin(shard, incarnation, 0));
        if !self.session_at(shard, slot).is_some_and(is_same) {
            self.forget_old_will(shard, slot, origin);
        } else if self.timing.again.note(thing) {
            self.shards.call(
                shard,
                Command::ClearWill { slot },
                Wait::Noted { thing, origin: Some(origin), paid: None },
            );
        }
    }

    /// Sends a will and asks for nothing. `was_sent`: those who keep nothing have it.
    pub(super) fn send_will(
        &mut self,
        will: &Will,
        client_id: &str,
        owner: Option<Holder>,
        origin: Option<Origin>,
        was_sent: bool,
        now: TimeMs,
    ) {
        if !self.may_still_publish(owner.as_ref().map(Holder::principal), Some(client_id), will.message.topic()) {
            return;
        }
        let message = published(will, now);
        let source = Source { origin, is_again: was_sent && !message.retain(), ..Source::default() };
        self.route(&mut MessageRef::of(&message).paid_by(owner), &source, now);
    }

    /// The will of a CONNECT, as it is kept.
    pub(super) fn will(&mut self, connect: &Connect<'_>) -> Option<Will> {
        let will = connect.will.as_ref()?;
        let mut properties = Vec::new();
        will.properties.forwardable(&mut properties);
        let meta = MessageMeta { qos: will.qos as u8, retain: will.retain, expires_at: None };
        let message = Arc::new(Message::new(will.topic, &properties, will.payload, meta));
        Some(Will { message, delay_s: will.delay_s, expiry_s: will.properties.message_expiry_s })
    }
}

/// What a due thing of a shard is known by; `None` for sessions that end, which nobody finds twice.
fn due_thing(shard: ShardPlace, due: Due) -> Option<DueThing> {
    match due {
        Due::Will { slot } => Some(DueThing::Will { shard, slot }),
        Due::Delayed { id } => Some(DueThing::Delayed { shard, id }),
        Due::Drop { slot, number, .. } => Some(DueThing::Entry { shard, slot, number }),
        Due::SessionExpiry { .. } => None,
    }
}

/// A will as it is published now: its expiry counts from here.
fn published(will: &Will, now: TimeMs) -> Arc<Message> {
    let Some(expiry_s) = will.expiry_s else { return Arc::clone(&will.message) };
    let message = &will.message;
    let expires_at = Some(TimeMs(now.0 + u64::from(expiry_s) * 1000));
    let meta = MessageMeta { qos: message.qos(), retain: message.retain(), expires_at };
    Arc::new(Message::new(message.topic(), message.properties(), message.payload(), meta))
}
