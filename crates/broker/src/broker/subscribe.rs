//! SUBSCRIBE and UNSUBSCRIBE, and how they reach all workers.
//!
//! ```text
//!   SUBSCRIBE ─▶ rights ─┬─ clean ──────────────▶ every replica ─▶ SUBACK ─▶ retained messages
//!                        └─ durable ─▶ journal ─▶ every replica ─▶ SUBACK ─▶ retained messages
//! ```
//!
//! A SUBSCRIBE that must wait (for the journal, or for a condition of a right) stays at the front of the connection's
//! input, and nothing behind it is read. So messages that the client publishes after it are matched with it. It stays
//! there, too, while there is more to do than one turn allows: others come between the filters of one packet.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::Command;
use tidegate_wire::mqtt::{
    ReasonCode, Subscribe, Subscription, Unsubscribe, Version, encode_suback, encode_unsuback, split_filter,
};

use super::notices::Noticed;
use super::{Broker, Progress};
use crate::connection::{FilterAnswers, ParkedFor, RetainedFor};
use crate::holdings::{Paid, Thing};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::{
    CONDITIONS_OF_SUBSCRIBE_MAX, FILTER_BYTES_PER_WORK, FILTER_WORK_AT_ONCE, SCAN_BYTES_MAX, WORK_OF_FILTER,
};
use crate::peer::Item;
use crate::reason::About;
use crate::session::{Session, SessionFlags, SessionRef, Stage, filter_bytes};
use crate::shards::Wait;
use crate::subscriptions::{Entry, EntryOptions};
use crate::{Access, Action, ConnectionKey};

impl<L: LogStore> Broker<L> {
    /// `[MQTT-3.8.4-1]`: SUBSCRIBE is answered with SUBACK.
    pub(super) fn subscribe(&mut self, index: ConnectionIndex, subscribe: &Subscribe<'_>, now: TimeMs) -> Progress {
        let place = self.clients.session_of(index);
        let mut answers = match self.take_answers(index) {
            Some(answers) if answers.is_complete => return self.subscribed(index, place, subscribe, answers, now),
            Some(answers) => answers,
            None if self.has_no_room_for_codes(index, subscribe.subscriptions().count(), now) => {
                return Progress::Gone;
            }
            None => FilterAnswers::default(),
        };
        let turn = self.filter_turn();
        let (walks, walk_bytes) = self.retained.scans.count(self.clients.session_ref(place));
        let mut subscriptions = subscribe.subscriptions_from(answers.at);
        while let Some(subscription) = subscriptions.next() {
            if self.is_turn_over(turn) {
                return self.keep_answers(index, answers, Progress::Unfinished);
            }
            if self.asks_condition(index, place, &subscription)
                || self.asks_place(index, place, subscribe, &subscription)
                || self.asks_queue(index, place, &subscription)
            {
                return self.keep_answers(index, answers, Progress::Parked);
            }
            self.count_filter(subscription.filter);
            // One filter again and again is one subscription, but each time what is retained is sent.
            let is_greedy = walks + answers.codes.len() >= self.options.limits.subscriptions_max
                || walk_bytes + answers.retained_bytes > SCAN_BYTES_MAX;
            let known = self.entry_of(place, subscription.filter).is_some();
            let code = match is_greedy {
                true => ReasonCode::QUOTA_EXCEEDED,
                false => self.judge_filter(index, place, &subscription, (known, answers.new_feeds)),
            };
            if code == ReasonCode::NOT_AUTHORIZED {
                self.notice(index, Noticed::SubscribeDenied, subscription.filter);
            }
            let (code, reserved) = match code.is_error() {
                true => (code, Reserved::default()),
                false => self.reserve(place, subscription.filter, known, code),
            };
            answers.codes.push(code.0);
            answers.known.push(known);
            answers.at = subscriptions.at();
            if !code.is_error() {
                let is_sourced = self.is_sourced(subscription.filter);
                answers.feeds += usize::from(is_sourced);
                answers.new_feeds += usize::from(is_sourced && !known);
                if !is_sourced && wants_retained(&subscription, known) {
                    let nth = answers.codes.len() - 1;
                    answers.retained_bytes += subscription.filter.len();
                    answers.retained_for.push(RetainedFor { nth, filter: subscription.filter.into() });
                }
                let subscription_id = subscribe.subscription_id.unwrap_or(0);
                answers.remaining += self.grant(place, &subscription, (code, reserved), subscription_id, &answers, now);
            }
        }
        answers.is_complete = true;
        if let Some(extra) = &mut self.clients.connections[index].extra {
            extra.confirmed.clear();
        }
        if answers.remaining == 0 {
            return self.subscribed(index, place, subscribe, answers, now);
        }
        self.park(index, answers)
    }

    /// What of the SUBSCRIBE or UNSUBSCRIBE in front of a connection's input was done before.
    fn take_answers(&mut self, index: ConnectionIndex) -> Option<FilterAnswers> {
        self.clients.connections[index].extra.as_mut()?.filter_answers.take()
    }

    /// Lets that packet stay in front, to go on with this.
    fn keep_answers(&mut self, index: ConnectionIndex, answers: FilterAnswers, why: Progress) -> Progress {
        self.clients.connections[index].extra().filter_answers = Some(answers);
        why
    }

    /// A turn of a packet of filters begins.
    fn filter_turn(&self) -> u64 {
        self.intake.filter_work
    }

    /// Whether the turn that began there has had its work.
    fn is_turn_over(&self, turn: u64) -> bool {
        self.intake.filter_work - turn >= FILTER_WORK_AT_ONCE
    }

    fn count_filter(&mut self, filter: &str) {
        self.intake.filter_work += work_of_filter(filter);
    }

    /// Subscribes a session to a filter that it is granted with `code`. Returns how many records that waits for.
    fn grant(
        &mut self,
        place: SessionIndex,
        subscription: &Subscription<'_>,
        (code, reserved): (ReasonCode, Reserved),
        subscription_id: u32,
        answers: &FilterAnswers,
        now: TimeMs,
    ) -> usize {
        let (is_feed, is_sourced) = (self.is_feed(subscription.filter), self.is_sourced(subscription.filter));
        let index = self.clients.sessions[place].connection.expect("who subscribes is there");
        let mut options = options(subscription);
        if is_sourced {
            options = options.without(EntryOptions::of_qos(2)).without(EntryOptions::of_qos(1));
            options = options.with(EntryOptions::of_qos(code.0));
        }
        let Session { slot, shard, .. } = self.clients.sessions[place];
        let Some(slot) = slot else {
            self.insert(place, subscription.filter, options, subscription_id);
            return 0;
        };
        let (session, nth) = (self.clients.session_ref(place), answers.codes.len() as u32 - 1);
        let filter = Box::<str>::from(subscription.filter);
        let wait = Wait::Subscribed { session, filter: filter.clone(), options, subscription_id, nth, reserved };
        let is_known = answers.known[answers.known.len() - 1];
        let owes =
            wants_retained(subscription, is_known) && !is_sourced && self.may_owe_retained(subscription.filter, now);
        let kept = if owes { options.with(EntryOptions::OWES_RETAINED) } else { options };
        self.shards.call(shard, Command::Subscribe { slot, filter, options: kept.0, subscription_id }, wait);
        let keeps_place = is_feed && options.qos() > 0;
        1 + usize::from(keeps_place && self.keep_first_place(index, place, subscription.filter, nth))
    }

    /// Lets the owner of a session pay for a filter that it may have, as long as it is not there: until its record is.
    fn reserve(&mut self, place: SessionIndex, filter: &str, known: bool, code: ReasonCode) -> (ReasonCode, Reserved) {
        let refused = (ReasonCode::QUOTA_EXCEEDED, Reserved::default());
        let Some(shapes) = self.subscriptions.new_shapes(split_filter(filter).filter) else { return refused };
        let owner = self.clients.sessions[place].owner.as_ref().expect("the session of a client is somebody's");
        let mut reserved = Reserved::default();
        if !known {
            let Ok(paid) = owner.hold(Thing::Filter, 1, filter_bytes(filter)) else {
                self.clients.facts.filters_refused += 1;
                return refused;
            };
            reserved.filter = Some(paid);
        }
        if !shapes.is_empty() {
            let Ok(paid) = owner.hold(Thing::Shape, shapes.len() as u64, 0) else {
                self.clients.facts.shapes_refused += 1;
                return refused;
            };
            reserved.shapes = Some(paid);
        }
        (code, reserved)
    }

    fn park(&mut self, index: ConnectionIndex, answers: FilterAnswers) -> Progress {
        assert!(
            answers.remaining > 0 && answers.remaining <= 2 * answers.codes.len(),
            "two records for a filter at most"
        );
        let connection = &mut self.clients.connections[index];
        connection.extra().filter_answers = Some(answers);
        connection.park(ParkedFor::FilterRecords);
        Progress::Parked
    }

    /// All that the SUBSCRIBE waited for is there.
    /// `[MQTT-3.8.4-2]`: SUBACK carries the packet id of its SUBSCRIBE.
    /// `[MQTT-3.8.4-6]`: SUBACK has a reason code for each filter.
    fn subscribed(
        &mut self,
        index: ConnectionIndex,
        place: SessionIndex,
        subscribe: &Subscribe<'_>,
        answers: FilterAnswers,
        now: TimeMs,
    ) -> Progress {
        let version = self.clients.connections[index].version;
        let (codes, words) = self.told_codes(&answers.codes);
        assert!(answers.remaining == 0, "the answer waits for all records");
        self.clients.send_refusal(index, now, words, |bytes, words| {
            encode_suback(bytes, version, subscribe.packet_id, &codes, words);
        });
        if answers.feeds > 0 {
            for (nth, subscription) in subscribe.subscriptions().enumerate() {
                if answers.codes[nth] >= 0x80 {
                    continue;
                }
                if self.is_feed(subscription.filter) {
                    self.feed_subscribed(index, place, subscription.filter);
                } else if self.is_receiver(subscription.filter) {
                    self.open_receiver(place, subscription.filter, now);
                }
            }
        }
        let subscription_id = subscribe.subscription_id.unwrap_or(0);
        let codes = answers.codes;
        let granted = answers.retained_for.into_iter().filter(|RetainedFor { nth, .. }| codes[*nth] < 0x80);
        let granted = granted.map(|RetainedFor { nth, filter }| (filter, codes[nth]));
        self.send_retained(place, granted, subscription_id, now);
        if let Some(extra) = &mut self.clients.connections[index].extra {
            extra.places.clear();
        }
        Progress::Taken
    }

    /// What a filter is granted: a QoS, or why not.
    /// `[MQTT-3.9.3-1]`: the reason codes of SUBACK are in the order of the filters.
    fn judge_filter(
        &mut self,
        index: ConnectionIndex,
        place: SessionIndex,
        subscription: &Subscription<'_>,
        (is_known, new_feeds): (bool, usize),
    ) -> ReasonCode {
        // [MQTT-4.7.1-1]: # is alone in its level, which is the last.
        // [MQTT-4.8.2-1]: a share name has at least one character.
        // The codec has checked the filter; here it is split.
        match self.access(index, place, split_filter(subscription.filter).filter) {
            Access::Allowed => {}
            Access::AllowedInPart if !self.may_be_in_part(subscription.filter) => return ReasonCode::NOT_AUTHORIZED,
            Access::AllowedInPart => self.clients.sessions[place].flags.set(SessionFlags::PARTLY_DENIED),
            Access::Denied => return ReasonCode::NOT_AUTHORIZED,
            // One SUBSCRIBE may not have so many asked about.
            Access::IfConfirmed(_) => return ReasonCode::QUOTA_EXCEEDED,
        }
        let session = &self.clients.sessions[place];
        if !is_known && session.subscriptions.as_slice().len() >= self.options.limits.subscriptions_max {
            return ReasonCode::QUOTA_EXCEEDED;
        }
        if self.is_feed(subscription.filter) {
            return self.judge_feed(index, place, subscription, new_feeds);
        }
        if self.is_receiver(subscription.filter) {
            return self.judge_receiver(index, place, subscription, new_feeds);
        }
        ReasonCode(subscription.qos as u8)
    }

    /// Whether messages of a filter come from elsewhere than from publishers: from a feed, or from a queue.
    fn is_sourced(&self, filter: &str) -> bool {
        self.is_feed(filter) || self.is_receiver(filter)
    }

    /// The right to a filter, with what is known about its condition put in.
    pub(super) fn access(&self, index: ConnectionIndex, place: SessionIndex, filter: &str) -> Access {
        let connection = &self.clients.connections[index];
        let rights = self.rights_of(index);
        match rights.may_subscribe(&self.clients.sessions[place].client_id, filter) {
            Access::IfConfirmed(condition) => {
                let known = connection.extra.as_ref().map_or(&[][..], |extra| &extra.confirmed[..]);
                match known.iter().find(|(asked, _)| *asked == condition) {
                    Some((_, true)) => Access::Allowed,
                    Some((_, false)) => Access::Denied,
                    None => Access::IfConfirmed(condition),
                }
            }
            access => access,
        }
    }

    /// Asks whether a condition holds on which the right to a filter depends. True when an answer is awaited.
    fn asks_condition(&mut self, index: ConnectionIndex, place: SessionIndex, subscription: &Subscription<'_>) -> bool {
        let known = self.clients.connections[index].extra.as_ref().map_or(0, |extra| extra.confirmed.len());
        if known >= CONDITIONS_OF_SUBSCRIBE_MAX {
            return false;
        }
        let filter = split_filter(subscription.filter).filter;
        let Access::IfConfirmed(condition) = self.access(index, place, filter) else { return false };
        // One at a time: a SUBSCRIBE with two of them is rare.
        let key = self.clients.key(index);
        self.asked.actions.push(Action::Confirm { key, condition });
        self.clients.connections[index].park(ParkedFor::Condition);
        true
    }

    /// The answer to [`Action::Confirm`].
    pub fn confirm(&mut self, key: ConnectionKey, condition: &str, holds: bool, now: TimeMs) {
        let Some(index) = self.clients.index(key) else { return };
        let connection = &mut self.clients.connections[index];
        if !connection.unpark(ParkedFor::Condition) {
            return;
        }
        connection.extra().confirmed.push((condition.into(), holds));
        self.resume(index, now);
    }

    /// The session's entry for a filter, if it has one.
    pub(super) fn entry_of(&self, place: SessionIndex, filter: &str) -> Option<Entry> {
        let parts = split_filter(filter);
        let node = self.subscriptions.find(parts.share_group, parts.filter)?;
        self.subscriptions.get(node, self.owner(place))
    }

    /// Adds a subscription to this worker's replica and tells the others.
    /// `[MQTT-3.8.4-3]`: a SUBSCRIBE with the same filter replaces the subscription.
    pub(super) fn insert(&mut self, place: SessionIndex, filter: &str, options: EntryOptions, subscription_id: u32) {
        let parts = split_filter(filter);
        let presence = self.presence_of(place);
        let session = &mut self.clients.sessions[place];
        let mut options = options;
        if session.is_durable() {
            options = options.with(EntryOptions::DURABLE);
        }
        if parts.share_group.is_some() {
            session.flags.set(SessionFlags::SHARED);
            options = options.of_presence(presence);
        }
        assert!(session.stage != Stage::Vacant, "who subscribes is there");
        let worker = self.options.worker as u8;
        let entry = Entry { session: place, generation: session.generation, worker, options, subscription_id };
        let shapes = self.subscriptions.new_shapes(parts.filter).unwrap_or_default();
        let inserted = self.subscriptions.insert(parts.share_group, parts.filter, entry);
        if inserted.is_new {
            session.subscriptions.add(inserted.node);
            self.clients.facts.subscriptions += 1;
        }
        if let Some(owner) = &session.owner {
            // It was asked whether there is room; what was found on the disk is there.
            if inserted.is_new {
                owner.charge(Thing::Filter, 1, filter_bytes(filter)).keep();
            }
            self.subscriptions.pay(shapes, || owner.charge(Thing::Shape, 1, 0));
        }
        self.peers.broadcast(|| Item::Subscribed { filter: filter.into(), entry });
    }

    /// Removes a subscription from this worker's replica and tells the others.
    /// `[MQTT-3.10.4-1]`: filters are compared character by character; the equal one is removed.
    pub(super) fn remove(&mut self, place: SessionIndex, filter: &str) -> bool {
        let owner = self.owner(place);
        let parts = split_filter(filter);
        let Some(node) = self.subscriptions.find(parts.share_group, parts.filter) else { return false };
        self.end_feed(place, filter);
        self.end_receiver(place, filter);
        if self.subscriptions.remove_at(node, owner).is_none() {
            return false;
        }
        self.end_scans(place, filter);
        self.clients.sessions[place].flags.set(SessionFlags::CHECKED);
        self.keep_walk_in_place(place, node);
        self.clients.sessions[place].subscriptions.remove(node);
        self.clients.sessions[place].release_filter(filter);
        assert!(self.clients.facts.subscriptions > 0, "what is removed was counted");
        self.clients.facts.subscriptions -= 1;
        self.peers.broadcast(|| Item::Unsubscribed { filter: filter.into(), owner, is_asked: true });
        self.routing.unsubscribed.begin(place, self.options.workers() - 1);
        true
    }

    /// A durable subscription is on the disk.
    pub(super) fn subscription_durable(
        &mut self,
        wait: (SessionRef, &str, EntryOptions, u32, u32),
        code: ReasonCode,
        now: TimeMs,
    ) {
        let (session, filter, options, subscription_id, nth) = wait;
        let Some(place) = self.clients.session(session) else { return };
        if !code.is_error() {
            self.insert(place, filter, options, subscription_id);
        }
        self.parked_step(place, nth, code, now);
    }

    /// The first place of a feed is on the disk.
    pub(super) fn first_place_durable(&mut self, session: SessionRef, nth: u32, code: ReasonCode, now: TimeMs) {
        if let Some(place) = self.clients.session(session) {
            self.parked_step(place, nth, code, now);
        }
    }

    /// One record of a SUBSCRIBE or UNSUBSCRIBE that waits is there.
    pub(super) fn parked_step(&mut self, place: SessionIndex, nth: u32, code: ReasonCode, now: TimeMs) {
        let Some(index) = self.clients.sessions[place].connection else { return };
        let connection = &mut self.clients.connections[index];
        let Some(answers) = connection.extra.as_mut().and_then(|extra| extra.filter_answers.as_mut()) else { return };
        if code.is_error()
            && let Some(said) = answers.codes.get_mut(nth as usize)
        {
            *said = code.0;
        }
        answers.remaining = answers.remaining.saturating_sub(1);
        if answers.remaining == 0 && answers.is_complete {
            assert!(connection.unpark(ParkedFor::FilterRecords), "the filters wait for their records");
            self.resume(index, now);
        }
    }

    /// `[MQTT-3.10.4-4]`: UNSUBSCRIBE is answered with UNSUBACK.
    /// `[MQTT-3.10.4-5]`: UNSUBACK carries the packet id of its UNSUBSCRIBE, also if no subscription was removed.
    pub(super) fn unsubscribe(
        &mut self,
        index: ConnectionIndex,
        unsubscribe: &Unsubscribe<'_>,
        now: TimeMs,
    ) -> Progress {
        let place = self.clients.session_of(index);
        let mut answers = match self.take_answers(index) {
            Some(answers) => answers,
            None if self.has_no_room_for_codes(index, unsubscribe.filters().count(), now) => return Progress::Gone,
            None => FilterAnswers::default(),
        };
        let turn = self.filter_turn();
        let mut filters = unsubscribe.filters_from(answers.at);
        while let Some(filter) = filters.next() {
            if self.is_turn_over(turn) {
                return self.keep_answers(index, answers, Progress::Unfinished);
            }
            self.count_filter(filter);
            let code = self.unsubscribe_from(place, filter, &mut answers);
            answers.codes.push(code.0);
            answers.at = filters.at();
        }
        answers.is_complete = true;
        if answers.remaining > 0 {
            return self.park(index, answers);
        }
        let version = self.clients.connections[index].version;
        let (mut codes, words) = self.told_codes(&answers.codes);
        assert!(answers.remaining == 0, "the answer waits for all records");
        // UNSUBACK has no code for a bound that is reached (MQTT 5, 3.11.3).
        codes.iter_mut().filter(|code| **code == ReasonCode::QUOTA_EXCEEDED).for_each(|code| {
            *code = ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR;
        });
        if version == Version::V311 && codes.iter().any(|code| code.is_error()) {
            // An UNSUBACK of MQTT 3.1.1 would mean success.
            self.intake.defer_disconnect(self.clients.key(index), ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
            return Progress::Taken;
        }
        self.clients.send_refusal(index, now, words, |bytes, words| {
            encode_unsuback(bytes, version, unsubscribe.packet_id, &codes, words);
        });
        Progress::Taken
    }

    fn unsubscribe_from(&mut self, place: SessionIndex, filter: &str, answers: &mut FilterAnswers) -> ReasonCode {
        if self.entry_of(place, filter).is_none() {
            return ReasonCode::NO_SUBSCRIPTION_EXISTED;
        }
        let session = &self.clients.sessions[place];
        match session.slot {
            None => {
                self.leave_unsent(place, filter);
                self.remove(place, filter);
            }
            Some(slot) => {
                let (shard, filter) = (session.shard, Box::<str>::from(filter));
                let session = self.clients.session_ref(place);
                let nth = answers.codes.len() as u32;
                let wait = Wait::Unsubscribed { session, filter: filter.clone(), nth };
                self.shards.call(shard, Command::Unsubscribe { slot, filter }, wait);
                answers.remaining += 1;
            }
        }
        ReasonCode::SUCCESS
    }

    /// The codes as a client is told them, and words about the first filter that was refused.
    fn told_codes(&self, codes: &[u8]) -> (Vec<ReasonCode>, Option<&'static str>) {
        let told = codes.iter().map(|code| self.told(About::Subscribe, ReasonCode(*code)));
        let (codes, words): (Vec<_>, Vec<_>) = told.unzip();
        let first = codes.iter().position(|code| code.is_error());
        (codes, first.and_then(|first| words[first]))
    }
}

/// What it takes to subscribe to a filter, or to unsubscribe from it.
pub(super) fn work_of_filter(filter: &str) -> u64 {
    WORK_OF_FILTER + (filter.len() / FILTER_BYTES_PER_WORK) as u64
}

/// What a filter that is granted takes, until it is there.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    filter: Option<Paid>,
    shapes: Option<Paid>,
}

/// Whether a subscription is sent the retained messages.
fn wants_retained(subscription: &Subscription<'_>, is_known: bool) -> bool {
    let is_shared = split_filter(subscription.filter).share_group.is_some();
    let is_wanted = match subscription.retain_handling {
        // [MQTT-3.3.1-9]: Retain Handling 0: retained messages are sent on SUBSCRIBE.
        // [MQTT-3.3.1-10]: Retain Handling 1: retained messages are sent only for a new subscription.
        // [MQTT-3.3.1-11]: Retain Handling 2: no retained messages are sent.
        0 => true,
        1 => !is_known,
        _ => false,
    };
    is_wanted && !is_shared
}

fn options(subscription: &Subscription<'_>) -> EntryOptions {
    let mut options = EntryOptions::of_qos(subscription.qos as u8);
    if subscription.no_local {
        options = options.with(EntryOptions::NO_LOCAL);
    }
    if subscription.retain_as_published {
        options = options.with(EntryOptions::RETAIN_AS_PUBLISHED);
    }
    options
}
