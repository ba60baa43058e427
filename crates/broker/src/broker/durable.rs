//! Commands to the topic shards and their answers: nothing is acknowledged before its record is on disk.
//!
//! ```text
//!   call(command, Wait) ─▶ a shard of topics ─decide, sync─▶ released: Wait, Durable<decision> ─▶ continue
//! ```

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Event, Refusal, Slot};

use tidegate_shard::{Decided, Durable, Unavailable};
use tidegate_wire::mqtt::ReasonCode;

use super::Broker;
use super::operate::answer_of;
use super::subscribe::work_of_filter;
use crate::acknowledgements::Word;
use crate::clients::Sending;
use crate::connection::{ConnectionState, ParkedFor};
use crate::flow::Window;
use crate::holdings::PaidDelayed;
use crate::index::{SessionIndex, ShardPlace};
use crate::limits::{PACKET_IDS, RELEASED_WORK_PER_STEP};
use crate::message_ref::MessageRef;
use crate::reason::{DISK_FULL, NOT_NOW};
use crate::session::{SessionFlags, SessionRef, Stage};
use crate::shards::Wait;
use crate::topics::Released;

impl<L: LogStore> Broker<L> {
    /// Steps all shards, and continues what became durable: of each as much as a step allows, because thousands of
    /// filters become durable at once.
    pub(super) fn step_shards(&mut self, now: TimeMs) -> bool {
        let mut worked = false;
        for shard in self.shards.places() {
            worked |= self.shards.step(shard, now);
            let mut left = RELEASED_WORK_PER_STEP;
            while left > 0
                && let Some((wait, released)) = self.shards.released(shard)
            {
                worked = true;
                left = left.saturating_sub(work_of(&wait));
                self.released(shard, wait, released, now);
            }
        }
        worked
    }

    /// Counts a message that a shard did not keep.
    fn count_not_kept(&mut self, wait: &Wait, released: &Released) {
        let is_told = match wait {
            Wait::Published { ack_to, .. } => ack_to.is_some(),
            Wait::Retained { source, .. } => source.ack_to.is_some(),
            Wait::Ack { .. } => true,
            _ => return,
        };
        let facts = &mut self.clients.facts;
        let count = match (released.as_ref().map(Durable::get), is_told) {
            (Err(Unavailable::DiskFull), false) => &mut facts.dropped_disk_full,
            (Err(Unavailable::DiskFull), true) => &mut facts.refused_disk_full,
            (Ok(Decided::Answered(Err(Refusal::InboxFull))), false) => &mut facts.dropped_inbox,
            (Ok(Decided::Answered(Err(Refusal::InboxFull))), true) => &mut facts.refused_inbox,
            (Ok(Decided::TooLarge), false) => &mut facts.dropped_too_large,
            (Ok(Decided::TooLarge), true) => &mut facts.refused_too_large,
            _ => return,
        };
        *count += 1;
    }

    fn released(&mut self, shard: ShardPlace, wait: Wait, released: Released, now: TimeMs) {
        self.count_not_kept(&wait, &released);
        let (word, event) = match released.map(|durable| durable.into_inner()) {
            Ok(Decided::Done { event, .. }) => (Word::Durable, Some(event)),
            Ok(Decided::Answered(Err(refusal))) => (Word::decided(super::refusal_reason(&refusal)), None),
            Ok(Decided::Answered(Ok(()))) => unreachable!("what topics allow has an event"),
            Ok(Decided::TooLarge) => (Word::Refused(ReasonCode::QUOTA_EXCEEDED), None),
            Err(Unavailable::ShardFailed) => (Word::Unknown, None),
            // A refusal that passes: there may be room again.
            Err(Unavailable::DiskFull) => (Word::Unavailable(DISK_FULL), None),
            Err(Unavailable::Busy | Unavailable::StateDiffers | Unavailable::Recovering | Unavailable::Stopping) => {
                (Word::Unavailable(NOT_NOW), None)
            }
        };
        if let Some(event) = &event {
            self.settle_queues(shard, event);
        }
        // To who has no word for what is unknown, a failed shard refuses.
        let reason = match word {
            Word::Unknown => ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR,
            word => word.reason(),
        };
        match wait {
            Wait::Nothing => {}
            Wait::Noted { thing, origin, paid } => {
                // A shard that has failed notes nothing: what is over stays over for as long as this process runs.
                if word != Word::Unknown {
                    self.timing.again.is_noted(thing);
                }
                if word != Word::Durable {
                    paid.into_iter().for_each(PaidDelayed::keep);
                }
                if let Some(origin) = origin.filter(|_| word == Word::Durable) {
                    self.forget_origin_everywhere(origin);
                }
            }
            Wait::Opened { session } => self.opened(session, event.as_ref(), reason, now),
            Wait::Attached { session, forget, place } => {
                match word {
                    Word::Durable => forget.into_iter().for_each(|name| self.will_is_unrecorded(name)),
                    _ => self.not_attached(session, place),
                }
                self.settle(session, reason, now);
            }
            Wait::Subscribed { session, filter, options, subscription_id, nth, reserved } => {
                self.subscription_durable((session, &filter, options, subscription_id, nth), reason, now);
                drop(reserved);
            }
            Wait::Unsubscribed { session, filter, nth } => {
                self.unsubscription_durable(session, &filter, nth, reason, now);
            }
            Wait::FirstPlace { session, nth } => self.first_place_durable(session, nth, reason, now),
            // Without its record it is as if the client had not acknowledged: the process ends, and what was sent comes
            // again.
            Wait::PlaceKept { .. } if reason.is_error() => {}
            Wait::PlaceKept { feed, session } => self.place_kept(feed, session, now),
            Wait::Published { ack_to, asked, unheeded } => {
                if let Some(event) = &event {
                    self.disconnect_losers(shard, &asked, event);
                    self.count_unheeded(shard, &unheeded, event);
                }
                if let Some(Event::Published { receivers, .. }) = &event {
                    for receiver in receivers {
                        self.pump_slot(shard, receiver.slot, now);
                    }
                }
                if let Some(ack_to) = ack_to {
                    self.send_ack_to(ack_to, word, now);
                }
            }
            // Without its record there is no PUBREL: after a restart the message is sent again, under an id that the
            // client still knows.
            Wait::Received { .. } if word == Word::Unknown => {}
            Wait::Ended { origins, will, operator } => {
                if word == Word::Durable {
                    will.into_iter().for_each(|name| self.will_is_unrecorded(name));
                    if let Some(incarnation) = origins {
                        self.forget_origins(self.shards.number(shard), incarnation);
                    }
                }
                if let Some(ticket) = operator {
                    self.operator.answer(ticket, answer_of(word));
                }
            }
            Wait::Received { session, number } => self.received(session, number, now),
            Wait::Retained { message, source, paid } => self.retained(message, source, paid, word, now),
            Wait::Delayed { ack_to, paid } => {
                if matches!(event, Some(Event::Delayed { .. })) {
                    paid.keep();
                }
                if let Some(ack_to) = ack_to {
                    self.send_ack_to(ack_to, word, now);
                }
            }
            Wait::PassedOn { ack_to } => self.passed_released(shard, ack_to, word, event.as_ref(), now),
            Wait::Ack { ack_to } => self.send_ack_to(ack_to, word, now),
        }
    }

    /// What waits for sessions is more or less now.
    fn settle_queues(&mut self, shard: ShardPlace, event: &Event) {
        match event {
            Event::Published { receivers, .. } => {
                receivers.iter().for_each(|receiver| self.settle_queue(shard, receiver.slot));
            }
            Event::Acknowledged { slot, .. } | Event::Dropped { slot, .. } | Event::Received { slot, .. } => {
                self.settle_queue(shard, *slot);
            }
            _ => {}
        }
    }

    /// What waits for the session at a slot is paid for by its owner.
    pub(super) fn settle_queue(&mut self, shard: ShardPlace, slot: Slot) {
        let Some(place) = self.session_at(shard, slot) else { return };
        let inbox = self.shards.state(shard).inbox(slot);
        self.clients.settle_queue(place, (inbox.len() as u64, inbox.memory_bytes()));
    }

    /// A new session's record is durable, or was refused.
    fn opened(&mut self, session: SessionRef, event: Option<&Event>, reason: ReasonCode, now: TimeMs) {
        let Some(place) = self.clients.session(session) else { return };
        let Some(Event::SessionOpened { slot, .. }) = event else {
            let connection = self.clients.sessions[place].connection;
            self.clients.remove_session(place);
            self.retained.will_places.remove(&place);
            self.resume_waiting_connect(place, now);
            if let Some(index) = connection {
                self.clients.connections[index].session = None;
                let version = self.clients.connections[index].version;
                self.refuse(index, version, reason, now);
            }
            return;
        };
        let session_now = &mut self.clients.sessions[place];
        assert!(session_now.stage == Stage::Opening && session_now.slot.is_none(), "a session is opened once");
        session_now.slot = Some(*slot);
        let shard = session_now.shard;
        self.set_session_at(shard, *slot, place);
        self.settle(session, ReasonCode::SUCCESS, now);
    }

    /// A session's record is durable: the connections that wait for it continue.
    fn settle(&mut self, session: SessionRef, reason: ReasonCode, now: TimeMs) {
        let Some(place) = self.clients.session(session) else { return };
        let session = &mut self.clients.sessions[place];
        assert!(session.stage == Stage::Opening, "a session is waited for once");
        assert!(session.slot.is_some(), "a durable session has a slot");
        session.stage = Stage::Live;
        let Some(index) = session.connection else {
            // Its client did not wait for CONNACK, so it has no will to be sent.
            // [MQTT-3.1.2-8]: the will is published once the connection is closed and the will delay has passed, unless
            // the will was deleted.
            let (shard, slot, expiry_s) = (session.shard, session.slot, session.expiry_s);
            session.flags.clear(SessionFlags::FRESH);
            match slot {
                // Its record does not say that it came, so the session is as it was before, with the will that it had.
                _ if reason.is_error() => {}
                Some(slot) if expiry_s > 0 => {
                    self.retained.will_places.remove(&place);
                    let command = Command::DetachSession { slot, expiry_s, keep_will: false };
                    self.shards.call(shard, command, Wait::Nothing);
                }
                _ => self.end_session(place, false, now),
            }
            return self.resume_waiting_connect(place, now);
        };
        assert!(self.clients.connections[index].session == Some(place), "connection and session point to each other");
        assert!(
            self.clients.connections[index].state == ConnectionState::Opening,
            "who waits for its session is not connected"
        );
        if reason.is_error() {
            session.connection = None;
            let version = self.clients.connections[index].version;
            self.clients.connections[index].session = None;
            return self.refuse(index, version, reason, now);
        }
        let has_waited = self.clients.connections[index].unpark(ParkedFor::SessionRecord);
        assert!(has_waited, "who has such a session waits for its record");
        self.resume(index, now);
    }

    /// The connection that waits for the session of an earlier one, if there is one.
    fn resume_waiting_connect(&mut self, place: SessionIndex, now: TimeMs) {
        let Some(key) = self.intake.session_settled(place) else { return };
        if let Some(index) = self.clients.index(key)
            && self.clients.connections[index].unpark(ParkedFor::EarlierConnection)
        {
            self.resume(index, now);
        }
    }

    /// Remembers which session stands at a slot.
    pub(super) fn set_session_at(&mut self, shard: ShardPlace, slot: Slot, place: SessionIndex) {
        assert!(self.clients.sessions[place].slot == Some(slot), "slot and session point to each other");
        assert!(self.clients.sessions[place].shard == shard, "a session's slot is in its shard");
        let earlier = self.session_at(shard, slot);
        assert!(earlier.is_none_or(|earlier| earlier == place), "a slot is one session's");
        self.shards.set_session_at(shard, slot, place);
    }

    /// The session at a slot, if it is still there.
    pub(super) fn session_at(&self, shard: ShardPlace, slot: Slot) -> Option<SessionIndex> {
        let place = self.shards.session_at(shard, slot)?;
        let session = self.clients.sessions.get(place)?;
        (session.slot == Some(slot) && session.shard == shard).then_some(place)
    }

    pub(super) fn pump_slot(&mut self, shard: ShardPlace, slot: Slot, now: TimeMs) {
        if let Some(place) = self.session_at(shard, slot)
            && self.clients.sessions[place].connection.is_some()
        {
            self.pump(place, now);
        }
    }

    /// Sends a session what waits for it, as far as window and outbox go.
    pub(super) fn pump(&mut self, place: SessionIndex, now: TimeMs) {
        self.clients.sessions[place].flags.clear(SessionFlags::HELD_BACK);
        self.pump_inbox(place, now);
        self.pump_feeds(place, now);
        self.pump_receivers(place, now);
        self.look_at_member(place, now);
    }

    fn pump_inbox(&mut self, place: SessionIndex, now: TimeMs) {
        self.clients.pump_backlog(place, &self.subscriptions, now);
        self.retained.scans.unblock(|| self.clients.session_ref(place));
        let Some(slot) = self.clients.sessions[place].slot else { return self.clients.nothing_waits(place) };
        let shard = self.clients.sessions[place].shard;
        assert!(self.session_at(shard, slot) == Some(place), "slot and session point to each other");
        let Some(index) = self.clients.connected(place) else { return };
        let window_max = self.clients.connections[index].window_max;
        let open_max = window_max.saturating_sub(self.beside_window(place));
        let durable = self.shards[shard].durable().0;
        let mut given_up: Vec<u64> = Vec::new();
        // What is on its way to another member of a share group is sent when that does not take it.
        let session_ref = self.clients.session_ref(place);
        let may_pass = self.passing.is_passing(session_ref);
        // What waits may be nothing: then no flow is made for it.
        let session = &self.clients.sessions[place];
        let mut next = session.flow.as_ref().map_or(session.next_number, |flow| flow.window.next());
        loop {
            let inbox = self.shards.state(shard).inbox(slot);
            let Some(entry) = inbox.entry_from(next).filter(|entry| entry.sequence() <= durable) else { break };
            let bytes = MessageRef::of(entry.message()).packet_bytes();
            if !self.clients.outbox_has_room(index, bytes) {
                self.clients.hold_back(place, index);
                break;
            }
            let number = entry.number();
            assert!(number >= next, "an inbox is read in order");
            if may_pass && self.passing.is_under_way(session_ref, number) {
                break;
            }
            let flow = self.clients.sessions[place].flow();
            if !flow.window.is_open(open_max) || self.is_id_of_source(place, Window::packet_id(number)) {
                break;
            }
            let window = &mut self.clients.sessions[place].flow().window;
            // While something is under way, no number may come that has its packet id. An empty window begins anywhere:
            // it may be far behind, if the inbox has dropped more messages than there are ids.
            if !window.is_empty() && number - window.front() >= PACKET_IDS - 1 {
                break;
            }
            window.skip_to(number);
            next = number + 1;
            if self.clients.send_entry(place, index, &entry, &self.subscriptions, now) == Sending::TooLarge {
                given_up.push(number);
            }
        }
        for number in given_up {
            self.shards.call(shard, Command::Acknowledge { slot, number }, Wait::Nothing);
        }
        // What is not decided yet may be put into its inbox.
        if self.shards.state(shard).inbox(slot).entry_from(next).is_none() && self.shards[shard].facts().inbox == 0 {
            self.clients.nothing_waits(place);
        }
    }
}

/// What it takes to go on with something that became durable.
fn work_of(wait: &Wait) -> u64 {
    match wait {
        Wait::Subscribed { filter, .. } | Wait::Unsubscribed { filter, .. } => work_of_filter(filter),
        _ => 1,
    }
}
