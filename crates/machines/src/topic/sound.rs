//! Consistency check of a whole topic shard: what must hold between its parts after any events.
//!
//! What one event changes is asserted where it changes. This visits everything, so it is for the end of a replay, for
//! tests and for simulation.

use std::collections::BTreeSet;

use super::command::{PLACE_BYTES_MAX, Slot};
use super::state::{Kept, Session, Timer, Topics};
use crate::TimeMs;
use crate::inboxes::EntryState;

impl Topics {
    /// Panics, saying what disagrees, if the state is not one that events can have made.
    pub(super) fn assert_all_sound(&self) {
        self.assert_slots_counted();
        self.assert_slots_sound();
        for (slot, session) in self.sessions() {
            self.assert_session_sound(slot, session);
        }
        self.assert_counts_sound();
        self.assert_timers_sound();
        self.assert_messages_sound();
        for (slot, places) in &self.places {
            assert!(!places.is_empty(), "no place is kept as nothing");
            for (filter, kept) in places {
                let session = self.session(*slot);
                let is_known = session.is_some_and(|session| session.subscription(filter).is_ok());
                assert!(is_known, "a place is kept for {filter:?} of slot {}, which is no subscription", slot.0);
                assert!(kept.place.len() <= PLACE_BYTES_MAX, "a place of {} bytes", kept.place.len());
            }
        }
        let entries = self.sessions().flat_map(|(_, session)| session.inbox.entries_from(0));
        self.bodies.assert_sound(entries.map(|(_, entry)| entry.body));
    }

    fn assert_slots_sound(&self) {
        let mut free: Vec<Slot> = self.free.iter().copied().collect();
        free.sort_unstable();
        let slots = (0..).map(Slot).zip(self.sessions.iter());
        let empty = slots.filter(|(_, session)| session.is_none()).map(|(slot, _)| slot);
        assert!(empty.eq(free), "slots without a session are free, each once");
        assert_eq!(self.by_client_id.len(), self.sessions().count(), "every session is found by its client id");
    }

    fn assert_session_sound(&self, slot: Slot, session: &Session) {
        let client_id = &*session.client_id;
        assert_eq!(self.find(client_id), Some(slot), "session {client_id:?} is not found where it is");
        assert!(session.incarnation <= self.sequence, "session {client_id:?} was opened by a record that is to come");
        let filters = || session.subscriptions.iter().map(|subscription| &subscription.filter);
        assert!(filters().is_sorted_by(|one, next| one < next), "subscriptions of {client_id:?} are not in order");
        assert!(session.detached_at <= Some(TimeMs::MAX), "session {client_id:?} was left at a time that is none");
        let named_by = session.incarnation..=self.sequence;
        let is_named = session.will_record().is_none_or(|record| named_by.contains(&record));
        assert!(is_named, "the will of {client_id:?} came with a record that is none of its session");
        session.inbox.assert_sound(&self.bodies);
        for (number, entry) in session.inbox.entries_from(0) {
            let made_by = session.incarnation + 1..=self.sequence;
            assert!(made_by.contains(&entry.sequence), "entry {number} of {client_id:?}: record {}", entry.sequence);
            assert!((1..=2).contains(&entry.qos), "entry {number} of {client_id:?}: QoS {}", entry.qos);
            assert!(entry.subscription_ids.as_ref().is_none_or(|ids| !ids.is_empty()), "no number is none at all");
            let body = self.bodies.get(entry.body);
            let bytes = self.bodies.bytes_of(entry.body);
            assert_eq!(body.message.body_bytes(), bytes as usize, "entry {number} of {client_id:?}: bytes of its body");
        }
    }

    fn assert_counts_sound(&self) {
        let (mut sessions, mut subscriptions, mut waiting) = (0, 0, 0);
        for (_, session) in self.sessions() {
            sessions += 1;
            subscriptions += session.subscriptions.len() as u64;
            waiting += session.inbox.len() as u64;
        }
        let counts = &self.counts;
        assert_eq!(counts.sessions, sessions, "sessions");
        assert_eq!(counts.subscriptions, subscriptions, "subscriptions");
        assert_eq!(counts.inbox_messages, waiting, "entries that wait");
    }

    /// Timers follow from all the rest.
    fn assert_timers_sound(&self) {
        let mut timers = BTreeSet::new();
        for (slot, session) in self.sessions() {
            timers.extend(session.will_at().map(|at| (at, Timer::Will(slot))));
            timers.extend(session.ends_at().map(|at| (at, Timer::SessionEnd(slot))));
            for (number, entry) in session.inbox.entries_from(0) {
                let drop_at = self.bodies.get(entry.body).drop_at;
                if drop_at != TimeMs(0) && entry.state == EntryState::Queued {
                    timers.insert((drop_at, Timer::Entry(slot, number)));
                }
            }
        }
        timers.extend(self.delayed.iter().map(|(id, (at, _))| (*at, Timer::Delayed(*id))));
        let difference: Vec<_> = timers.symmetric_difference(&self.timers).collect();
        assert!(difference.is_empty(), "timers that are missing, or belong to nothing: {difference:?}");
    }

    fn assert_messages_sound(&self) {
        let mut bytes = 0;
        for (topic, Kept { message, .. }) in &self.retained {
            assert_eq!(**topic, *message.topic(), "a message is retained under another topic");
            assert!(!message.payload().is_empty(), "a message without payload is retained under {topic:?}");
            bytes += message.body_bytes() as u64;
        }
        assert_eq!(self.retained_bytes, bytes, "bytes of retained messages");
        for (id, (at, _)) in &self.delayed {
            assert!(*id <= self.sequence, "message {id} was delayed by a record that is to come");
            assert!(*at <= TimeMs::MAX, "message {id} is delayed to a time that is none");
        }
    }
}
