//! What a member of a share group has whose session lives in memory alone goes to other members (MQTT 5, 4.8.2) when it
//! is over, when it takes nothing, and, of what was not sent, when it unsubscribes. See `clients/left.rs`.
//!
//! Why each message is picked for anew, as when it was published: whoever is there now gets it, also one that keeps it
//! on the disk. So it may come twice, and what has QoS 2 goes to another only if its delivery has not begun.
//!
//! `[MQTT-4.8.2-5]`: a QoS 2 delivery that was started with a member is sent to no other member.
//!
//! `[MQTT-4.8.2-6]`: a message that a member refuses is sent to no other member.

use hashbrown::HashMap;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_planted::{Bug, is_planted};
use tidegate_wire::mqtt::split_filter;

use super::Broker;
use crate::acknowledgements::{Completion, Word};
use crate::clients::LeftMessage;
use crate::flow::GroupMessage;
use crate::index::SessionIndex;
use crate::limits::{LEFT_PER_STEP, LEFT_PER_WORK, LEFT_STEPS};
use crate::message_ref::MessageRef;
use crate::peer::Source;
use crate::session::SessionRef;
use crate::share::{GroupName, OfGroup, Picked};

impl<L: LogStore> Broker<L> {
    /// A session is about to end. Of those that have much and end together, few end in one turn.
    pub(super) fn leave_to_groups(&mut self, place: SessionIndex) {
        if self.clients.sessions[place].slot.is_none() && !is_planted(Bug::SharedInMemoryLost) {
            let (left, _) = self.clients.leave(place, |_| true);
            self.intake.filter_work += left as u64 / LEFT_PER_WORK;
        }
    }

    /// A client takes nothing: what it has goes to those who are ready, where somebody is. Returns how much of a look
    /// that was.
    pub(super) fn leave_to_ready(&mut self, place: SessionIndex) -> usize {
        // None of those is the client's own: it counts as away.
        let mut known: HashMap<GroupName, bool> = HashMap::new();
        let (left, looks) = self
            .clients
            .leave(place, |group| *known.entry(group).or_insert_with(|| self.subscriptions.is_ready(group)));
        left + looks / LEFT_PER_WORK as usize
    }

    /// A session leaves the group of this subscription, if it is one.
    pub(super) fn leave_unsent(&mut self, place: SessionIndex, filter: &str) {
        if split_filter(filter).share_group.is_some() {
            let name = GroupName::of(filter);
            self.clients.leave_unsent(place, |group| group == name);
        }
    }

    /// Whether a session that another worker has picked is a member no more: that worker did not know it yet. Then
    /// somebody else is to get the message, and one word of that is sent to who waits for the message's.
    pub(super) fn leaves_picked(
        &mut self,
        message_ref: &mut MessageRef<'_>,
        Picked { entry, group }: &Picked,
        source: &Source,
    ) -> bool {
        let session = SessionRef { index: entry.session, generation: entry.generation };
        let is_member = self.clients.session(session).is_some() && !self.has_unsubscribed(message_ref.topic, entry);
        // What is sent again, others may have.
        if is_member || source.is_again || message_ref.qos.min(entry.options.qos()) == 0 {
            return false;
        }
        let sent = GroupMessage {
            message: message_ref.shared_message(),
            of_group: OfGroup { group: *group, client: source.client },
        };
        self.clients.leave_one(LeftMessage { sent, ack_to: source.ack_to, first_at: source.left_at });
        true
    }

    /// Whether a member has no room for a message that another has left. Then it is offered again: for that, nobody is
    /// disconnected, and nothing else is given up.
    pub(super) fn leaves_again(
        &mut self,
        message_ref: &mut MessageRef<'_>,
        place: SessionIndex,
        of_group: Option<OfGroup>,
        source: &Source,
        now: TimeMs,
    ) -> bool {
        let (Some(of_group), Some(_)) = (of_group, source.left_at) else { return false };
        if self.clients.has_inbox_room(place, message_ref) {
            return false;
        }
        let sent = GroupMessage { message: message_ref.shared_message(), of_group };
        self.clients.leave_again(LeftMessage { sent, ack_to: None, first_at: source.left_at }, now);
        true
    }

    /// Offers some of what was left to others.
    pub(super) fn step_left(&mut self, now: TimeMs) {
        self.clients.end_pauses(now);
        let steps = self.routing.steps;
        for _ in 0..LEFT_PER_STEP {
            let is_enough = self.routing.steps - steps >= LEFT_STEPS || self.intake.is_pressed;
            let Some(left) = (!is_enough).then(|| self.clients.take_left()).flatten() else { return };
            self.offer_left(left, now);
        }
    }

    /// Offers a message to the member that is its group's choice now, if there is one.
    fn offer_left(&mut self, mut left: LeftMessage, now: TimeMs) {
        let GroupMessage { message, of_group } = left.sent.clone();
        let mut found = std::mem::take(&mut self.routing.matches);
        self.subscriptions.match_of_group(of_group, message.topic(), &mut found);
        if found.is_empty() {
            self.clients.facts.dropped_ended += 1;
            left.ack_to.into_iter().for_each(|ack_to| self.send_ack_to(ack_to, Word::Durable, now));
        } else {
            let first_at = *left.first_at.get_or_insert(now);
            let number = self.clients.offer(left);
            let (collected, ack_to) = self.acknowledgements.begin(Completion::Left { number });
            // Without its origin: its publisher does not know whose shards may remember that, and would not have it
            // forgotten.
            let source =
                Source { client: of_group.client, ack_to: Some(ack_to), left_at: Some(first_at), ..Source::default() };
            let routed = self.send_found(&mut MessageRef::of(&message), &found, &source, now);
            self.expect_words(collected, routed.awaited.words(), now);
        }
        self.routing.matches = found;
    }

    /// Who was to get a message has it, has refused it, or has no room for it on its disk now.
    pub(super) fn left_offered(&mut self, number: u64, word: Word, now: TimeMs) {
        let left = self.clients.take_offered(number);
        match (word, left.ack_to) {
            (Word::Durable, _) => self.clients.facts.shares_passed_on += 1,
            (Word::Unavailable(_), None) => return self.clients.leave_again(left, now),
            // Its publisher still has it.
            (Word::Unavailable(_), Some(_)) => {}
            (Word::Refused(_) | Word::Unknown, _) => self.clients.facts.dropped_ended += 1,
        }
        left.ack_to.into_iter().for_each(|ack_to| self.send_ack_to(ack_to, word, now));
    }
}
