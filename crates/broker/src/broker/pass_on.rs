//! What waits for a member of a share group that does not take it is given to another (MQTT 5, 4.8.2).
//!
//! ```text
//!   the member's worker                                    the other member's worker
//!   entry of QoS 1 in its inbox ──────── Item::PassOn ───▶ is it ready, and has it room? ─▶ its shard: Publish
//!   its shard: Acknowledge ◀── a word: it is durable there ─────────────────────────────────────┘
//! ```
//!
//! Promise: the message is in the inbox of one of them at any time, whatever crashes. So it may come twice, and only
//! QoS 1 is passed on; what has QoS 2 may have been begun with its member, and waits for it.
//! `[MQTT-4.8.2-5]`: a QoS 2 delivery that was started with a member is sent to no other member.
//!
//! Only between sessions that outlive their connections: what is on the disk stays there. An inbox does not say by
//! which subscription a message came; so one that may have come by several of a session is left where it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashSet;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Event, Message, Receiver, Slot};
use tidegate_wire::mqtt::{check_filter, filter_matches};

use super::Broker;
use crate::acknowledgements::{AckTo, Ticket, Word};
use crate::index::{SessionIndex, ShardPlace};
use crate::limits::{PASS_LOOK_MS, PASS_LOOKS, PASS_MESSAGES, PASS_VISITS, PASS_WAITING_MAX};
use crate::peer::Item;
use crate::reason::NOT_NOW;
use crate::session::{SessionFlags, SessionRef, Stage};
use crate::shards::Wait;
use crate::subscriptions::{Entry, EntryOptions, Presence};

/// Members that do not take what waits for them, and what of it is on its way to others.
#[derive(Debug, Default)]
pub(super) struct PassOn {
    /// Since when; `None` of one that was recovered and not looked at.
    left: BTreeMap<SessionIndex, Option<TimeMs>>,
    under_way: HashSet<(SessionRef, u64)>,
    /// Sessions that have expired, and whose messages are on their way.
    ending: HashSet<SessionRef>,
    looked_at: TimeMs,
    /// Where the next look begins.
    next: SessionIndex,
}

impl PassOn {
    /// A member is gone since then, or stalled.
    pub fn is_left(&mut self, place: SessionIndex, since: Option<TimeMs>) {
        self.left.insert(place, since);
    }

    /// It takes again, or is over.
    pub fn is_back(&mut self, place: SessionIndex) {
        self.left.remove(&place);
        self.ending.retain(|session| session.index != place);
    }

    fn is_passing(&self, session: SessionRef) -> bool {
        self.under_way.iter().any(|(of, _)| *of == session)
    }
}

/// A message on its way to another member.
#[derive(Debug)]
pub(crate) struct PassedMessage {
    pub message: Arc<Message>,
    /// The member.
    pub to: Entry,
    /// Whom it is told whether it is durable.
    pub ack_to: AckTo,
    /// The member that had it is over: it is taken if it can be.
    pub is_last: bool,
}

/// A share group that a session is a member of.
struct Group {
    filter: String,
    takers: Vec<Entry>,
}

impl<L: LogStore> Broker<L> {
    /// Looks at some members that have left something behind.
    pub(super) fn step_pass_on(&mut self, now: TimeMs) {
        let stalled_ms = self.options.limits.share_stalled_ms;
        let is_time = now.0.saturating_sub(self.passing.looked_at.0) >= PASS_LOOK_MS;
        if stalled_ms == 0 || !is_time || !self.is_serving() {
            return;
        }
        self.passing.looked_at = now;
        let left: Vec<_> = self.passing.left.range_mut(self.passing.next..).take(PASS_LOOKS).collect();
        let is_end = left.len() < PASS_LOOKS;
        let mut over = Vec::new();
        let mut last = SessionIndex::new(0);
        for (place, since) in left {
            last = *place;
            if now.0.saturating_sub(since.get_or_insert(now).0) >= stalled_ms {
                over.push(*place);
            }
        }
        self.passing.next = if is_end { SessionIndex::new(0) } else { SessionIndex::new(last.number() + 1) };
        for place in over {
            self.pass_on(place, false);
        }
    }

    /// A session has expired: whether its messages are on their way, and it ends later.
    pub(super) fn passes_on_before_end(&mut self, place: SessionIndex) -> bool {
        let session = self.clients.session_ref(place);
        if !self.clients.sessions[place].flags.has(SessionFlags::SHARED) {
            return false;
        }
        if self.passing.ending.insert(session) {
            self.pass_on(place, true);
        }
        let is_passing = self.passing.is_passing(session);
        if !is_passing {
            self.passing.ending.remove(&session);
        }
        is_passing
    }

    /// Sends some of what a member has to others.
    fn pass_on(&mut self, place: SessionIndex, is_last: bool) {
        let session = &self.clients.sessions[place];
        let (Some(slot), Stage::Live) = (session.slot, session.stage) else { return };
        let (groups, own) = self.groups_of(place, is_last);
        if groups.iter().all(|group| group.takers.is_empty()) {
            return;
        }
        let (session, shard) = (self.clients.session_ref(place), self.clients.sessions[place].shard);
        let durable = self.shards[shard].durable().0;
        let takers: usize = groups.iter().map(|group| group.takers.len()).sum();
        let count = if is_last { PASS_VISITS } else { PASS_MESSAGES.saturating_mul(takers) };
        let entries = self.shards.state(shard).inbox(slot).entries_from(0).take(PASS_VISITS);
        let passed: Vec<_> = entries
            .filter(|entry| entry.qos() == 1 && !entry.is_received() && entry.sequence() <= durable)
            .filter(|entry| !self.passing.under_way.contains(&(session, entry.number())))
            .filter_map(|entry| {
                let group = group_of(entry.message().topic(), &groups, &own)?;
                let to = *group.takers.get(entry.number() as usize % group.takers.len().max(1))?;
                Some((entry.number(), Arc::clone(entry.message()), to))
            })
            .take(count)
            .collect();
        for (number, message, to) in passed {
            self.passing.under_way.insert((session, number));
            let ack_to = AckTo { worker: self.options.worker, ticket: Ticket::PassedOn { session, number } };
            let passed = PassedMessage { message, to, ack_to, is_last };
            match u16::from(to.worker) {
                own if own == self.options.worker => self.take_passed(passed),
                other => self.peers.send_to(other, Item::PassOn { passed: Box::new(passed) }),
            }
        }
    }

    /// The share groups of a session with who may take what it has, and its filters that are not shared.
    fn groups_of(&self, place: SessionIndex, is_last: bool) -> (Vec<Group>, Vec<String>) {
        let (mut groups, mut own) = (Vec::new(), Vec::new());
        let owner = self.owner(place);
        for node in self.clients.sessions[place].subscriptions.as_slice() {
            let written = self.subscriptions.filter(*node);
            if !self.subscriptions.is_shared(*node) {
                own.push(written);
                continue;
            }
            let members = self.subscriptions.members(*node).filter(|member| member.owner() != owner);
            let keeps = |member: &&Entry| member.options.has(EntryOptions::DURABLE) && member.options.qos() > 0;
            let kept_by =
                members.filter(keeps).filter(|member| is_last || member.options.presence() == Presence::Ready);
            let mut takers: Vec<Entry> = kept_by.take(PASS_LOOKS).copied().collect();
            // Who is away is asked only where nobody is there.
            let best = takers.iter().map(|member| member.options.presence()).max();
            takers.retain(|member| Some(member.options.presence()) == best);
            let filter = check_filter(&written).expect("it was subscribed to").filter.to_owned();
            groups.push(Group { filter, takers });
        }
        (groups, own)
    }

    /// Takes a message that another member of a group had.
    pub(super) fn take_passed(&mut self, passed: PassedMessage) {
        let PassedMessage { message, to, ack_to, is_last } = passed;
        match self.room_for_passed(&message, &to, is_last) {
            Some((shard, slot)) => {
                let retain = message.retain() && to.options.has(EntryOptions::RETAIN_AS_PUBLISHED);
                let ids = [to.subscription_id];
                let subscription_ids = if to.subscription_id == 0 { [].into() } else { ids.into() };
                let receivers = [Receiver { slot, qos: 1, retain, subscription_ids }].into();
                let command = Command::Publish { message, receivers, origin: None, unheeded: [].into() };
                self.shards.call(shard, command, Wait::PassedOn { ack_to });
            }
            None => self.tell_passed(ack_to, Word::Unavailable(NOT_NOW)),
        }
    }

    /// The inbox of a member that takes a message.
    fn room_for_passed(&self, message: &Message, to: &Entry, is_last: bool) -> Option<(ShardPlace, Slot)> {
        let place = self.clients.session(SessionRef { index: to.session, generation: to.generation })?;
        let session = &self.clients.sessions[place];
        let slot = session.slot.filter(|_| session.stage == Stage::Live)?;
        let is_ready = self.presence_of(place) == Presence::Ready
            && self.shards.state(session.shard).inbox(slot).len() < PASS_WAITING_MAX;
        let takes = (is_last || is_ready) && self.subscriptions.covers(message.topic(), to.owner());
        takes.then_some((session.shard, slot))
    }

    /// A message that was passed on is in its new inbox, or not.
    pub(super) fn passed_released(
        &mut self,
        shard: ShardPlace,
        ack_to: AckTo,
        word: Word,
        event: Option<&Event>,
        now: TimeMs,
    ) {
        let receivers = match event {
            Some(Event::Published { receivers, .. }) => &receivers[..],
            _ => &[],
        };
        receivers.iter().for_each(|receiver| self.pump_slot(shard, receiver.slot, now));
        // A full inbox may have dropped it: it is not lost, because its member still has it.
        let is_taken = word == Word::Durable && !receivers.is_empty();
        self.tell_passed(ack_to, if is_taken { word } else { Word::Unavailable(NOT_NOW) });
    }

    fn tell_passed(&mut self, ack_to: AckTo, word: Word) {
        let Ticket::PassedOn { session, number } = ack_to.ticket else {
            unreachable!("it was passed on by its ticket")
        };
        if ack_to.worker == self.options.worker {
            self.passed_on(session, number, word);
        } else {
            self.peers.send_to(ack_to.worker, Item::Ack { ticket: ack_to.ticket, word });
        }
    }

    /// Another member has a message of a session of this worker, or has not taken it.
    pub(super) fn passed_on(&mut self, session: SessionRef, number: u64, word: Word) {
        let was_under_way = self.passing.under_way.remove(&(session, number));
        assert!(was_under_way, "what was passed on was under way");
        let Some(place) = self.clients.session(session).filter(|_| word == Word::Durable) else { return };
        self.clients.facts.shares_passed_on += 1;
        let session = &self.clients.sessions[place];
        if let Some(slot) = session.slot {
            self.shards.call(session.shard, Command::Acknowledge { slot, number }, Wait::Nothing);
        }
    }
}

/// The group by which a message on this topic came; `None` if it may have come by another subscription.
fn group_of<'g>(topic: &str, groups: &'g [Group], own: &[String]) -> Option<&'g Group> {
    if own.iter().any(|filter| filter_matches(filter, topic)) {
        return None;
    }
    let mut matching = groups.iter().filter(|group| filter_matches(&group.filter, topic));
    matching.next().filter(|_| matching.next().is_none())
}
