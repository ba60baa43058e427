//! What waits for a member of a share group that does not take it is given to another (MQTT 5, 4.8.2).
//!
//! ```text
//!   the member's worker                                    the other member's worker
//!   entry of QoS 1 in its inbox ──────── Item::PassOn ───▶ is it ready, and has it room? ─▶ its shard: Publish
//!   its shard: Acknowledge ◀── a word: it is durable there ─────────────────────────────────────┘
//! ```
//!
//! Promise: the message is in the inbox of one of them at any time, whatever crashes. So it may come twice, after a
//! crash on its way. What has QoS 2 waits for its member as long as that may take it; when it is over or unsubscribes,
//! what was never sent to it is passed on, too.
//! `[MQTT-4.8.2-5]`: a QoS 2 delivery that was started with a member is sent to no other member.
//!
//! Only between sessions that outlive their connections: what is on the disk stays there (`leave.rs` is about the
//! others). An inbox does not say by which subscription a message came; so one that may have come by several of a
//! session is left where it is.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Event, Message, Receiver, Slot};
use tidegate_wire::mqtt::{ReasonCode, filter_matches, split_filter};

use super::Broker;
use crate::acknowledgements::{AckTo, Ticket, Word};
use crate::index::{SessionIndex, ShardPlace};
use crate::limits::{
    PASS_AT_ONCE, PASS_LAST_MESSAGES, PASS_LOOK_MS, PASS_LOOKS, PASS_MATCHES, PASS_MESSAGES, PASS_UNSENT_LOOKS,
    PASS_UNSENT_ROUNDS, PASS_VISITS, PASS_WAITING_MAX,
};
use crate::peer::Item;
use crate::reason::NOT_NOW;
use crate::session::{SessionFlags, SessionRef, Stage};
use crate::shards::Wait;
use crate::subscriptions::{Entry, EntryOptions, Owner, Presence};
use crate::topic_tree::NodeId;

/// A member that does not take what waits for it.
#[derive(Debug, Default)]
struct Left {
    /// Since when; `None` of one that was recovered and not looked at.
    since: Option<TimeMs>,
    /// The entry of its inbox with which the next look begins.
    next: u64,
}

/// Members that do not take what waits for them, and what of it is on its way to others.
#[derive(Debug, Default)]
pub(super) struct PassOn {
    left: BTreeMap<SessionIndex, Left>,
    /// Never empty for a session.
    under_way: HashMap<SessionRef, HashSet<u64>>,
    looked_at: TimeMs,
    /// Where the next look begins.
    next: SessionIndex,
    /// Durable subscriptions that are gone from the disk, and whose clients wait for UNSUBACK.
    unsubscribed: VecDeque<Unsubscribed>,
    /// Entries and filters that were looked at for these in this step.
    unsent_looks: usize,
}

/// A subscription that is gone from the disk.
#[derive(Debug)]
struct Unsubscribed {
    session: SessionRef,
    filter: Box<str>,
    /// Which one of its packet it is.
    nth: u32,
    code: ReasonCode,
}

impl PassOn {
    /// A member is gone since then, or stalled.
    pub fn is_left(&mut self, place: SessionIndex, since: Option<TimeMs>) {
        self.left.insert(place, Left { since, next: 0 });
    }

    /// It takes again, or is over.
    pub fn is_back(&mut self, place: SessionIndex) {
        self.left.remove(&place);
    }

    /// Whether some of what a session has is on its way to others.
    pub fn is_passing(&self, session: SessionRef) -> bool {
        self.under_way.contains_key(&session)
    }

    /// Whether this message is.
    pub fn is_under_way(&self, session: SessionRef, number: u64) -> bool {
        self.under_way.get(&session).is_some_and(|numbers| numbers.contains(&number))
    }

    fn begin(&mut self, session: SessionRef, number: u64) {
        let is_new = self.under_way.entry(session).or_default().insert(number);
        assert!(is_new, "a message is on its way once");
    }

    fn end(&mut self, session: SessionRef, number: u64) {
        let numbers = self.under_way.get_mut(&session);
        let was_under_way = numbers.is_some_and(|numbers| numbers.remove(&number));
        assert!(was_under_way, "what was passed on was under way");
        if self.under_way[&session].is_empty() {
            self.under_way.remove(&session);
        }
    }
}

/// A message on its way to another member.
#[derive(Debug)]
pub(crate) struct PassedMessage {
    pub message: Arc<Message>,
    /// That with which the member had it that is over or takes nothing.
    pub qos: u8,
    /// The member.
    pub to: Entry,
    /// Whom it is told whether it is durable.
    pub ack_to: AckTo,
    /// The member that had it is over: it is taken if it can be.
    pub is_last: bool,
}

/// What of an inbox is passed on.
#[derive(Clone, Copy)]
enum Part<'f> {
    /// Some from this entry on, of a member that is away or takes nothing.
    Left { from: u64 },
    /// All from this entry on, of a member that is over. So often was it offered before.
    Last { from: u64, passes: u64 },
    /// What came by this share group from this entry on, of a member that unsubscribes.
    Unsent { from: u64, group: NodeId, filter: &'f str },
}

impl Part<'_> {
    fn from(self) -> u64 {
        match self {
            Part::Left { from } | Part::Last { from, .. } | Part::Unsent { from, .. } => from,
        }
    }

    /// Who of the members of a group takes an entry.
    fn taker(self, number: u64, takers: &[Entry]) -> Option<&Entry> {
        let passes = if let Part::Last { passes, .. } = self { passes } else { 0 };
        takers.get((number + passes) as usize % takers.len().max(1))
    }

    /// Whether what is left is lost.
    fn is_last(self) -> bool {
        !matches!(self, Part::Left { .. })
    }

    /// Whether what came by this group belongs to it.
    fn has(self, node: NodeId) -> bool {
        !matches!(self, Part::Unsent { group, .. } if group != node)
    }

    /// Whether a message on this topic may belong to it.
    fn may_have(self, topic: &str) -> bool {
        !matches!(self, Part::Unsent { filter, .. } if !filter_matches(filter, topic))
    }
}

impl<L: LogStore> Broker<L> {
    /// Looks at some members that have left something behind.
    pub(super) fn step_pass_on(&mut self, now: TimeMs) {
        self.passing.unsent_looks = 0;
        self.step_unsubscribed(now);
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
        for (place, left) in left {
            last = *place;
            if now.0.saturating_sub(left.since.get_or_insert(now).0) >= stalled_ms {
                over.push((*place, left.next));
            }
        }
        self.passing.next = if is_end { SessionIndex::new(0) } else { SessionIndex::new(last.number() + 1) };
        let mut filters = 0;
        for (place, from) in over {
            // Nobody may take what it has first, and others what comes behind.
            let next = self.pass_on(place, Part::Left { from }, now).unwrap_or(0);
            self.passing.left.entry(place).and_modify(|left| left.next = next);
            filters += self.clients.sessions[place].subscriptions.as_slice().len();
            if filters >= PASS_MATCHES {
                // The others have their turn in the next look.
                self.passing.next = SessionIndex::new(place.number() + 1);
                return;
            }
        }
    }

    /// Sends some of what a member has to others, of the entries from `from` on: it is over, and all was offered
    /// `passes` times before. The first entry that is left for the next time; `None` when nothing is.
    pub(super) fn pass_on_last(&mut self, place: SessionIndex, (from, passes): (u64, u64), now: TimeMs) -> Option<u64> {
        self.pass_on(place, Part::Last { from, passes }, now)
    }

    /// A member is about to leave the group of this subscription: sends what came to it by that, and was not sent to
    /// its client, to others. What nobody takes is sent to it, or withheld.
    fn pass_on_unsubscribed(&mut self, place: SessionIndex, written: &str, now: TimeMs) {
        let session = &self.clients.sessions[place];
        let parts = split_filter(written);
        let group = parts.share_group.and_then(|name| self.subscriptions.find(Some(name), parts.filter));
        let (Some(group), true) = (group, session.flags.has(SessionFlags::SHARED)) else { return };
        let mut from = session.flow.as_ref().map_or(session.next_number, |flow| flow.window.next());
        for _ in 0..PASS_UNSENT_ROUNDS {
            match self.pass_on(place, Part::Unsent { from, group, filter: parts.filter }, now) {
                Some(next) if next > from => from = next,
                _ => break,
            }
        }
    }

    /// A durable subscription is gone from the disk: what came by it goes to others, now or when there is time.
    pub(super) fn unsubscription_durable(
        &mut self,
        session: SessionRef,
        filter: &str,
        nth: u32,
        code: ReasonCode,
        now: TimeMs,
    ) {
        self.passing.unsubscribed.push_back(Unsubscribed { session, filter: filter.into(), nth, code });
        self.step_unsubscribed(now);
    }

    /// Does what is to be done for subscriptions that are gone, in their order, as far as there is time in this step.
    fn step_unsubscribed(&mut self, now: TimeMs) {
        while self.passing.unsent_looks < PASS_UNSENT_LOOKS
            && let Some(Unsubscribed { session, filter, nth, code }) = self.passing.unsubscribed.pop_front()
        {
            let Some(place) = self.clients.session(session) else { continue };
            if !code.is_error() {
                self.pass_on_unsubscribed(place, &filter, now);
                self.remove(place, &filter);
            }
            self.parked_step(place, nth, code, now);
        }
    }

    /// Sends a part of what a member has to others. The first entry that is left, as above.
    fn pass_on(&mut self, place: SessionIndex, part: Part<'_>, now: TimeMs) -> Option<u64> {
        let session = &self.clients.sessions[place];
        let (Some(slot), Stage::Live) = (session.slot, session.stage) else { return None };
        // What is below may have been sent.
        let unsent = session.flow.as_ref().map_or(0, |flow| flow.window.next()).max(session.next_number);
        let (session, shard, is_last) = (self.clients.session_ref(place), session.shard, part.is_last());
        let owner = self.owner(place);
        let takers_of = |group| self.takers(group, owner, is_last);
        let mut of_groups: HashMap<NodeId, Vec<Entry>> = HashMap::new();
        let count = match part {
            Part::Left { .. } => PASS_MESSAGES.saturating_mul(self.takers_of_some(place, is_last)?),
            // Others have no room: a few are offered to find out whether they have again.
            Part::Last { passes, .. } if passes > PASS_AT_ONCE => PASS_MESSAGES,
            Part::Last { .. } => self.takers_of_some(place, is_last).map(|_| PASS_LAST_MESSAGES)?,
            Part::Unsent { group, .. } => {
                let takers = of_groups.entry(group).or_insert_with(|| takers_of(group));
                if takers.is_empty() {
                    return None;
                }
                PASS_VISITS
            }
        };
        let durable = self.shards[shard].durable().0;
        let (mut passed, mut next, mut visits, mut looks, mut is_left) = (Vec::new(), part.from(), 0, 0, false);
        let mut known: HashMap<&str, Option<NodeId>> = HashMap::new();
        for entry in self.shards.state(shard).inbox(slot).entries_from(next) {
            // What is not durable may be lost, and is left for the next time, if there is one.
            let is_kept = entry.sequence() <= durable || matches!(part, Part::Unsent { .. });
            let topic = entry.message().topic();
            let is_too_much = looks >= PASS_MATCHES && !known.contains_key(topic);
            if passed.len() == count || visits == PASS_VISITS || is_too_much || is_last && !is_kept {
                is_left = true;
                break;
            }
            (next, visits) = (entry.number() + 1, visits + 1);
            // What may have begun stays, see above.
            let may_leave = entry.qos() == 1 || is_last && entry.number() >= unsent;
            if !may_leave || !is_kept || !part.may_have(topic) || self.passing.is_under_way(session, entry.number()) {
                continue;
            }
            let group = *known.entry(topic).or_insert_with(|| self.group_of(topic, owner, &mut looks));
            let Some(group) = group.filter(|group| part.has(*group)) else { continue };
            let takers = of_groups.entry(group).or_insert_with(|| takers_of(group));
            if let Some(to) = part.taker(entry.number(), takers) {
                passed.push((entry.number(), entry.qos(), Arc::clone(entry.message()), *to));
            }
        }
        is_left |= !passed.is_empty();
        drop(known);
        if let Part::Unsent { .. } = part {
            self.passing.unsent_looks += 1 + visits + looks;
        }
        self.send_passed(session, passed, is_last, now);
        is_left.then_some(next)
    }

    /// The group of a session by which a message on this topic came; `None` if it may have come by another
    /// subscription of that.
    fn group_of(&self, topic: &str, owner: Owner, looks: &mut usize) -> Option<NodeId> {
        let (mut group, mut is_certain) = (None, true);
        *looks += self.subscriptions.matching(topic, owner, |node, is_shared| {
            is_certain &= is_shared && group.is_none();
            group = Some(node);
        });
        group.filter(|_| is_certain)
    }

    fn send_passed(
        &mut self,
        session: SessionRef,
        passed: Vec<(u64, u8, Arc<Message>, Entry)>,
        is_last: bool,
        now: TimeMs,
    ) {
        for (number, qos, message, to) in passed {
            self.passing.begin(session, number);
            let ack_to = AckTo { worker: self.options.worker, ticket: Ticket::PassedOn { session, number } };
            let passed = PassedMessage { message, qos, to, ack_to, is_last };
            match u16::from(to.worker) {
                own if own == self.options.worker => self.take_passed(passed, now),
                other => self.peers.send_to(other, Item::PassOn { passed: Box::new(passed) }),
            }
        }
    }

    /// Who may take what a member of a share group has.
    fn takers(&self, group: NodeId, owner: Owner, is_last: bool) -> Vec<Entry> {
        let members = self.subscriptions.members(group).filter(|member| member.owner() != owner);
        let keeps = |member: &&Entry| member.options.has(EntryOptions::DURABLE) && member.options.qos() > 0;
        let kept_by = members.filter(keeps).filter(|member| is_last || member.options.presence() == Presence::Ready);
        let mut takers: Vec<Entry> = kept_by.take(PASS_LOOKS).copied().collect();
        // Who is away is asked only where nobody is there.
        let best = takers.iter().map(|member| member.options.presence()).max();
        takers.retain(|member| Some(member.options.presence()) == best);
        takers
    }

    /// How many may take what a session has of the first of its groups that somebody takes of; `None` if there is none.
    fn takers_of_some(&self, place: SessionIndex, is_last: bool) -> Option<usize> {
        let owner = self.owner(place);
        let nodes = self.clients.sessions[place].subscriptions.as_slice().iter();
        let groups = nodes.filter(|node| self.subscriptions.is_shared(**node));
        groups.map(|group| self.takers(*group, owner, is_last).len()).find(|takers| *takers > 0)
    }

    /// Takes a message that another member of a group had.
    pub(super) fn take_passed(&mut self, passed: PassedMessage, now: TimeMs) {
        let PassedMessage { message, qos, to, ack_to, is_last } = passed;
        match self.room_for_passed(&message, &to, is_last) {
            Some((shard, slot)) => {
                let retain = message.retain() && to.options.has(EntryOptions::RETAIN_AS_PUBLISHED);
                let ids = [to.subscription_id];
                let subscription_ids = if to.subscription_id == 0 { [].into() } else { ids.into() };
                let receiver = Receiver { slot, qos: qos.min(to.options.qos()), retain, subscription_ids };
                self.shards.call(shard, Command::PassOn { message, receiver }, Wait::PassedOn { ack_to });
            }
            None => self.tell_passed(ack_to, Word::Unavailable(NOT_NOW), now),
        }
    }

    /// The inbox of a member that takes a message.
    fn room_for_passed(&self, message: &Message, to: &Entry, is_last: bool) -> Option<(ShardPlace, Slot)> {
        let place = self.clients.session(SessionRef { index: to.session, generation: to.generation })?;
        let session = &self.clients.sessions[place];
        let slot = session.slot.filter(|_| session.stage == Stage::Live)?;
        // Two that end at the same time would give the same messages to each other for ever.
        if self.endings.is_ending(self.clients.session_ref(place)) {
            return None;
        }
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
        // A full inbox has refused it: it is not lost, because its member still has it.
        self.tell_passed(ack_to, if word == Word::Durable { word } else { Word::Unavailable(NOT_NOW) }, now);
    }

    fn tell_passed(&mut self, ack_to: AckTo, word: Word, now: TimeMs) {
        let Ticket::PassedOn { session, number } = ack_to.ticket else {
            unreachable!("it was passed on by its ticket")
        };
        if ack_to.worker == self.options.worker {
            self.passed_on(session, number, word, now);
        } else {
            self.peers.send_to(ack_to.worker, Item::Ack { ticket: ack_to.ticket, word });
        }
    }

    /// Another member has a message of a session of this worker, or has not taken it.
    pub(super) fn passed_on(&mut self, session: SessionRef, number: u64, word: Word, now: TimeMs) {
        self.passing.end(session, number);
        if word != Word::Durable {
            self.endings.note_refused(session, number);
        }
        let Some(place) = self.clients.session(session) else { return };
        if word != Word::Durable {
            // It is its client's turn again.
            return self.pump_member(place, now);
        }
        self.clients.facts.shares_passed_on += 1;
        let session = &self.clients.sessions[place];
        if let Some(slot) = session.slot {
            self.shards.call(session.shard, Command::Acknowledge { slot, number }, Wait::Nothing);
        }
        self.pump_member(place, now);
    }

    fn pump_member(&mut self, place: SessionIndex, now: TimeMs) {
        if self.clients.connected(place).is_some() {
            self.pump(place, now);
        }
    }
}
