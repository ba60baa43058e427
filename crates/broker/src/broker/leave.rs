//! What a member of a share group has whose session lives in memory alone goes to other members (MQTT 5, 4.8.2) when it
//! is over, when it takes nothing, and, of what was not sent, when it unsubscribes. See `clients/left.rs`.
//!
//! Why each message is picked for anew, as when it was published: whoever is there now gets it, also one that keeps it
//! on the disk. So it may come twice, and what has QoS 2 goes to another only if its delivery has not begun.
//!
//! `[MQTT-4.8.2-5]`: a QoS 2 delivery that was started with a member is sent to no other member.
//!
//! `[MQTT-4.8.2-6]`: a message that a member refuses is sent to no other member.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_planted::{Bug, is_planted};
use tidegate_wire::mqtt::split_filter;

use super::Broker;
use crate::clients::LeftMessage;
use crate::flow::GroupMessage;
use crate::index::SessionIndex;
use crate::limits::{LEFT_PER_STEP, LEFT_PER_WORK};
use crate::message_ref::MessageRef;
use crate::peer::Source;
use crate::session::SessionRef;
use crate::share::{GroupName, OfGroup, Picked};
use crate::subscriptions::Presence;

impl<L: LogStore> Broker<L> {
    /// A session is about to end. Of those that have much and end together, few end in one turn.
    pub(super) fn leave_to_groups(&mut self, place: SessionIndex) {
        if self.clients.sessions[place].slot.is_none() && !is_planted(Bug::SharedEndsAtOnce) {
            let left = self.clients.leave(place, |_| true);
            self.intake.filter_work += left as u64 / LEFT_PER_WORK;
        }
    }

    /// A client takes nothing: what it has goes to those who are ready, where somebody is. Returns how many messages
    /// that is.
    pub(super) fn leave_to_ready(&mut self, place: SessionIndex) -> usize {
        // Those who are ready stand in front, and it is none of them.
        let first = |group| self.subscriptions.members(group).next();
        let is_ready = |group| first(group).is_some_and(|member| member.options.presence() == Presence::Ready);
        let nodes = self.clients.sessions[place].subscriptions.as_slice().iter();
        let ready = nodes.filter(|node| self.subscriptions.is_shared(**node) && is_ready(**node));
        let ready: Vec<_> = ready.map(|node| GroupName::of(&self.subscriptions.filter(*node))).collect();
        self.clients.leave(place, |group| ready.contains(&group))
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
        let of_group = OfGroup { group: *group, client: source.client };
        let sent = GroupMessage { message: message_ref.shared_message(), of_group };
        self.clients.leave_one(LeftMessage { sent, ack_to: source.ack_to });
        true
    }

    /// Gives some of what was left to others.
    pub(super) fn step_left(&mut self, now: TimeMs) {
        for _ in 0..LEFT_PER_STEP {
            let Some(left) = self.clients.take_left() else { return };
            let facts = if self.route_left(&left, now) {
                &mut self.clients.facts.shares_passed_on
            } else {
                &mut self.clients.facts.dropped_ended
            };
            *facts += 1;
        }
    }
}
