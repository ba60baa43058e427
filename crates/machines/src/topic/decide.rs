//! Decides commands: what a command changes, or why it changes nothing. Reads only.

use std::sync::Arc;

use super::command::{Command, InboxLimits, InboxPolicy, Origin, Receiver, Refusal, Slot};
use super::event::Event;
use super::message::Message;
use super::state::{Session, Topics};
use crate::TimeMs;
use crate::inboxes::{Entry, EntryState, Inbox};

/// Room that one message must find in an inbox.
enum Room {
    /// It fits once so many of the oldest are gone.
    After(u32),
    /// It does not fit.
    None,
}

impl Topics {
    /// The event that answers `command` at `now`, or why there is none.
    pub(super) fn event_of(&self, command: &Command, limits: &InboxLimits, now: TimeMs) -> Result<Event, Refusal> {
        let now = now.min(TimeMs::MAX);
        match command {
            Command::OpenSession { client_id, owner, expiry_s, will } => {
                if let Some(slot) = self.find(client_id) {
                    return Err(Refusal::SessionExists(slot));
                }
                let slot = self.next_slot();
                let (client_id, owner, expiry_s, will) = (client_id.clone(), owner.clone(), *expiry_s, will.clone());
                Ok(Event::SessionOpened { at: now, slot, client_id, owner, expiry_s, will })
            }
            Command::AttachSession { slot, owner, expiry_s, will } => {
                let session = self.must_be(*slot)?;
                let owner = owner.clone().filter(|_| session.owner.is_none());
                let (slot, expiry_s, names_will) = (*slot, *expiry_s, will.is_some());
                Ok(Event::SessionAttached { at: now, slot, owner, expiry_s, will: will.clone(), names_will })
            }
            Command::DetachSession { slot, expiry_s, keep_will } => {
                self.must_be(*slot)?;
                Ok(Event::SessionDetached { slot: *slot, at: now, expiry_s: *expiry_s, keep_will: *keep_will })
            }
            Command::EndSession { slot } => self.must_be(*slot).map(|_| Event::SessionEnded { slot: *slot }),
            Command::ClearWill { slot, record } => match self.must_be(*slot)?.will_record() {
                Some(own) if own == *record => Ok(Event::WillCleared { slot: *slot }),
                _ => Err(Refusal::Nothing),
            },
            Command::Subscribe { slot, filter, options, subscription_id } => {
                self.must_be(*slot)?;
                let (filter, options, subscription_id) = (filter.clone(), *options, *subscription_id);
                Ok(Event::Subscribed { slot: *slot, filter, options, subscription_id })
            }
            Command::Unsubscribe { slot, filter } => {
                let session = self.must_be(*slot)?;
                match session.subscription(filter) {
                    Ok(_) => Ok(Event::Unsubscribed { slot: *slot, filter: filter.clone() }),
                    Err(_) => Err(Refusal::NoSubscription),
                }
            }
            Command::KeepPlace { slot, filter, kept } => {
                let session = self.must_be(*slot)?;
                match session.subscription(filter) {
                    Ok(_) => Ok(Event::PlaceKept { slot: *slot, filter: filter.clone(), kept: kept.clone() }),
                    Err(_) => Err(Refusal::NoSubscription),
                }
            }
            Command::Publish { message, receivers, origin, unheeded } => {
                self.decide_publish(message, (receivers, unheeded), *origin, limits, now)
            }
            Command::PassOn { message, receiver } => {
                let inbox = &self.must_be(receiver.slot)?.inbox;
                match self.room(inbox, message.body_bytes() as u64, limits) {
                    Room::After(0) => {
                        self.decide_publish(message, (std::slice::from_ref(receiver), &[]), None, limits, now)
                    }
                    Room::After(_) | Room::None => Err(Refusal::InboxFull),
                }
            }
            Command::Acknowledge { slot, number } => {
                self.must_wait(*slot, *number)?;
                Ok(Event::Acknowledged { slot: *slot, number: *number })
            }
            Command::MarkReceived { slot, number } => match self.must_wait(*slot, *number)? {
                EntryState::Queued => Ok(Event::Received { slot: *slot, number: *number }),
                EntryState::Received => Err(Refusal::Nothing),
            },
            Command::Drop { slot, number, reason } => {
                self.must_wait(*slot, *number)?;
                Ok(Event::Dropped { slot: *slot, number: *number, reason: *reason })
            }
            Command::ForgetOrigin(origin) if self.knows_origin(*origin) => Ok(Event::OriginForgotten(*origin)),
            Command::ForgetOrigin(_) => Err(Refusal::Nothing),
            Command::ForgetOrigins { shard, incarnation } => match self.origins_of(*shard, *incarnation).next() {
                Some(_) => Ok(Event::OriginsForgotten { shard: *shard, incarnation: *incarnation }),
                None => Err(Refusal::Nothing),
            },
            Command::Retain { message, owner } => {
                let clears_nothing = message.payload().is_empty() && !self.retained.contains_key(message.topic());
                match clears_nothing {
                    true => Err(Refusal::Nothing),
                    false => Ok(Event::Retained { message: Arc::clone(message), owner: owner.clone() }),
                }
            }
            Command::Delay { origin: Some(origin), .. } if self.origins.contains(origin) => Err(Refusal::Duplicate),
            Command::Delay { at, message, origin, owner } => {
                let (at, message, owner) = ((*at).min(TimeMs::MAX), Arc::clone(message), owner.clone());
                Ok(Event::Delayed { at, message, origin: *origin, owner })
            }
            Command::DelayedSent { id } => match self.delayed.contains_key(id) {
                true => Ok(Event::DelayedSent { id: *id }),
                false => Err(Refusal::NoDelayed(*id)),
            },
        }
    }

    fn decide_publish(
        &self,
        message: &Arc<Message>,
        (receivers, unheeded): (&[Receiver], &[Slot]),
        origin: Option<Origin>,
        limits: &InboxLimits,
        now: TimeMs,
    ) -> Result<Event, Refusal> {
        if origin.is_some_and(|origin| self.origins.contains(&origin)) {
            return Err(Refusal::Duplicate);
        }
        let bytes = message.body_bytes() as u64;
        let mut accepted = Vec::with_capacity(receivers.len());
        let mut evicted: Vec<u32> = Vec::new();
        let mut dropped = 0;
        for receiver in receivers {
            debug_assert!((1..=2).contains(&receiver.qos), "QoS {} needs no inbox", receiver.qos);
            let Some(session) = self.session(receiver.slot) else { continue };
            match self.room(&session.inbox, bytes, limits) {
                Room::After(count) => {
                    if count > 0 || !evicted.is_empty() {
                        evicted.resize(accepted.len(), 0);
                        evicted.push(count);
                    }
                    accepted.push(receiver.clone());
                }
                Room::None if refuses(session, limits, now) && !unheeded.contains(&receiver.slot) => {
                    return Err(Refusal::InboxFull);
                }
                Room::None => dropped += 1,
            }
        }
        if accepted.is_empty() && dropped == 0 {
            return Err(Refusal::Nothing);
        }
        assert!(accepted.len() + dropped as usize <= receivers.len(), "a receiver is counted twice");
        assert!(evicted.is_empty() || evicted.len() <= accepted.len(), "room is made for nobody");
        Ok(Event::Published {
            at: now,
            message: (!accepted.is_empty()).then(|| Arc::clone(message)),
            drop_at: drop_at(message, limits, now),
            origin,
            receivers: accepted.into(),
            evicted: evicted.into(),
            dropped,
        })
    }

    fn room(&self, inbox: &Inbox, bytes: u64, limits: &InboxLimits) -> Room {
        let fits = |messages: u64, held: u64| messages <= u64::from(limits.messages_max) && held <= limits.bytes_max;
        let (mut messages, mut held) = (inbox.len() as u64 + 1, inbox.bytes() + bytes);
        if fits(messages, held) {
            return Room::After(0);
        }
        if limits.policy != InboxPolicy::DropOldest {
            return Room::None;
        }
        // Each message makes room for itself, so this looks at few, unless a large one follows many small ones.
        for (count, (_, entry)) in (1..).zip(evictable(inbox)) {
            messages -= 1;
            held = held.checked_sub(self.bodies.bytes_of(entry.body).into()).expect("its bytes are in the sum");
            if fits(messages, held) {
                return Room::After(count);
            }
        }
        Room::None
    }

    fn must_be(&self, slot: Slot) -> Result<&Session, Refusal> {
        self.session(slot).ok_or(Refusal::NoSession(slot))
    }

    fn must_wait(&self, slot: Slot, number: u64) -> Result<EntryState, Refusal> {
        let entry = self.must_be(slot)?.inbox.entry(number);
        entry.map(|entry| entry.state).ok_or(Refusal::NoEntry(number))
    }

    /// The slot that the next session gets.
    pub(super) fn next_slot(&self) -> Slot {
        let slot = self.free.front().copied().unwrap_or(Slot(self.sessions.len()));
        assert!(self.session(slot).is_none(), "the next slot is taken");
        slot
    }

    pub(super) fn origins_of(&self, shard: u16, incarnation: u64) -> impl Iterator<Item = Origin> + '_ {
        let all = |packet_id| Origin::new(shard, incarnation, packet_id).parts();
        self.origins.range(*all(0).start()..=*all(u16::MAX).end()).copied()
    }
}

/// Whether a session whose inbox is full has its messages refused: not one whose client has been away for long, or one
/// that nobody comes back to would keep everybody from publishing.
fn refuses(session: &Session, limits: &InboxLimits, now: TimeMs) -> bool {
    let is_waited_for = |gone: TimeMs| now.0.saturating_sub(gone.0) < limits.refuse_away_ms;
    limits.policy == InboxPolicy::Refuse && session.detached_at.is_none_or(is_waited_for)
}

/// The entries that may make room for others, oldest first. Not those that their receivers have: they wait only for a
/// release, and a packet id hangs on each.
pub(super) fn evictable(inbox: &Inbox) -> impl Iterator<Item = (u64, &Entry)> {
    inbox.entries_from(0).filter(|(_, entry)| entry.state == EntryState::Queued)
}

/// When a message's stay in inboxes is over: at its own expiry, or at the age that inboxes allow. Zero for never.
fn drop_at(message: &Message, limits: &InboxLimits, now: TimeMs) -> TimeMs {
    let by_age = (limits.age_max_ms > 0).then(|| TimeMs(now.0.saturating_add(limits.age_max_ms)).min(TimeMs::MAX));
    match (message.expires_at(), by_age) {
        (Some(expiry), Some(age)) => expiry.min(age),
        (Some(at), None) | (None, Some(at)) => at,
        (None, None) => TimeMs(0),
    }
}
