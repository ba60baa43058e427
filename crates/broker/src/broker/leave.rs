//! What a member of a share group has whose session lives in memory alone goes to other members (MQTT 5, 4.8.2) when it
//! is over, when it takes nothing, and, of what was not sent, when it unsubscribes. See `clients/left.rs`.
//!
//! Why each message is picked for anew, as when it was published: whoever is there now gets it, also one that keeps it
//! on the disk. So it may come twice, and what has QoS 2 goes to another only if its delivery has not begun.
//!
//! `[MQTT-4.8.2-5]`: a QoS 2 delivery that was started with a member is sent to no other member.
//!
//! `[MQTT-4.8.2-6]`: a message that a member refuses is sent to no other member.

use std::sync::Arc;

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_planted::{Bug, is_planted};
use tidegate_wire::mqtt::split_filter;

use super::Broker;
use crate::clients::Groups;
use crate::index::SessionIndex;
use crate::limits::{LEFT_PER_STEP, LEFT_PER_WORK};
use crate::session::SessionFlags;
use crate::share::GroupName;
use crate::subscriptions::Presence;

impl<L: LogStore> Broker<L> {
    /// A session is about to end. Of those that have much and end together, few end in one turn.
    pub(super) fn leave_to_groups(&mut self, place: SessionIndex) {
        if self.may_leave(place) {
            let groups = self.groups_of(place, |_| true);
            let left = self.clients.leave(place, &groups, true);
            self.intake.filter_work += left as u64 / LEFT_PER_WORK;
        }
    }

    /// A client takes nothing: what it has goes to those who are ready, where somebody is. Returns how many messages
    /// that is.
    pub(super) fn leave_to_ready(&mut self, place: SessionIndex) -> usize {
        if !self.may_leave(place) {
            return 0;
        }
        // Those who are ready stand in front, and it is none of them.
        let is_ready = |filter: &str| {
            let parts = split_filter(filter);
            let group = self.subscriptions.find(parts.share_group, parts.filter);
            let first = group.and_then(|group| self.subscriptions.members(group).next());
            first.is_some_and(|member| member.options.presence() == Presence::Ready)
        };
        let groups = self.groups_of(place, is_ready);
        self.clients.leave(place, &groups, true)
    }

    /// A session is about to leave the group of this subscription, if it is one.
    pub(super) fn leave_unsent(&mut self, place: SessionIndex, written: &str) {
        if self.may_leave(place) {
            let groups = self.groups_of(place, |filter| filter == written);
            self.clients.leave(place, &groups, false);
        }
    }

    /// Whether a session has messages of share groups that no disk has.
    fn may_leave(&self, place: SessionIndex) -> bool {
        let session = &self.clients.sessions[place];
        let is_member = session.slot.is_none() && session.flags.has(SessionFlags::SHARED);
        is_member && session.flow.is_some() && !is_planted(Bug::SharedEndsAtOnce)
    }

    /// The share groups of a session that `is_it` says.
    fn groups_of(&self, place: SessionIndex, is_it: impl Fn(&str) -> bool) -> Groups {
        let nodes = self.clients.sessions[place].subscriptions.as_slice().iter();
        let filters =
            nodes.filter(|node| self.subscriptions.is_shared(**node)).map(|node| self.subscriptions.filter(*node));
        filters.filter(|filter| is_it(filter)).map(|filter| (GroupName::of(&filter), Arc::from(filter))).collect()
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
