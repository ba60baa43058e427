//! What members of share groups leave to others whose sessions live in memory alone: it was acknowledged to its
//! publishers, and no disk has it.
//!
//! ```text
//!   sent with QoS 1 ─▶ kept ─ PUBACK ─▶ gone
//!   backlog ────────────┴──── the session ends, or its client is stalled ─▶ left ─▶ offered to another of its group
//!                                                                            ▲          │ no room, there or on its
//!                                                                            └── pause ◀┘ disk
//! ```
//!
//! Promise: what is kept and left counts as what waits in memory, and has its bounds: of one client as much as its
//! inbox may have, and of all nothing where what waits is scarce. What is beyond these is sent, and not kept.

use std::collections::VecDeque;

use hashbrown::HashMap;
use tidegate_machines::TimeMs;

use super::Clients;
use crate::acknowledgements::AckTo;
use crate::connection::Flags;
use crate::flow::{Backlog, GroupMessage, QueuedMessage};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::{PASS_ENDING_MS, PASS_LOOK_MS};
use crate::message_ref::MessageRef;
use crate::share::GroupName;

/// A message that is to be given to another.
#[derive(Debug)]
pub(crate) struct LeftMessage {
    pub sent: GroupMessage,
    /// Who still waits for the word that it is durable.
    pub ack_to: Option<AckTo>,
    /// When it was first offered, if it was.
    pub first_at: Option<TimeMs>,
}

impl LeftMessage {
    /// What was sent to a member, or waited for it, and was acknowledged to its publisher.
    fn new(sent: GroupMessage) -> LeftMessage {
        LeftMessage { sent, ack_to: None, first_at: None }
    }

    /// Whether it was offered for long enough.
    fn is_over(&self, now: TimeMs) -> bool {
        self.first_at.is_some_and(|first_at| now.0.saturating_sub(first_at.0) >= PASS_ENDING_MS)
    }

    fn bytes(&self) -> usize {
        self.sent.bytes()
    }
}

/// Messages that are to be given to others.
#[derive(Debug, Default)]
pub(crate) struct LeftMessages {
    /// In order.
    waiting: VecDeque<LeftMessage>,
    /// Those that nobody had room for, and when each is offered again.
    pausing: VecDeque<(TimeMs, LeftMessage)>,
    /// Those that somebody is to say a word of, by number.
    offered: HashMap<u64, LeftMessage>,
    offered_last: u64,
}

impl LeftMessages {
    /// Their bytes. Visits everything.
    pub(super) fn bytes(&self) -> usize {
        let pausing = self.pausing.iter().map(|(_, left)| left);
        self.waiting.iter().chain(pausing).chain(self.offered.values()).map(LeftMessage::bytes).sum()
    }
}

impl Clients {
    /// Keeps what was sent to a client, until it is acknowledged.
    pub(super) fn keep(&mut self, session: SessionIndex, index: ConnectionIndex, number: u64, sent: GroupMessage) {
        let (messages_max, bytes_max) = (self.limits.clean_inbox_messages_max, self.limits.clean_inbox_bytes_max);
        let is_anonymous = self.connections[index].flags.has(Flags::ANONYMOUS);
        let is_scarce = self.is_scarce(QueuedMessage::bytes_of(&sent.message));
        let backlog = &mut self.sessions[session].flow().backlog;
        if !is_scarce && backlog.may_keep(&sent.message, messages_max, bytes_max) {
            let held = backlog.bytes();
            backlog.is_anonymous = is_anonymous;
            backlog.keep(number, sent);
            self.settle_backlog(session, held);
        }
    }

    /// A client has what was sent to it.
    pub fn acknowledged(&mut self, session: SessionIndex, number: u64) {
        let Some(flow) = &mut self.sessions[session].flow else { return };
        let held = flow.backlog.bytes();
        if flow.backlog.acknowledged(number) {
            self.settle_backlog(session, held);
        }
    }

    /// What a session has of these share groups is for others. Returns how many messages that is, and how many were
    /// looked at.
    pub fn leave(&mut self, session: SessionIndex, mut is_of: impl FnMut(GroupName) -> bool) -> (usize, usize) {
        let Some(flow) = &self.sessions[session].flow else { return (0, 0) };
        match flow.backlog.has_of_groups(&mut is_of) {
            (true, looks) => (self.leave_taken(session, |backlog| backlog.take_of_groups(is_of)), looks),
            (false, looks) => (0, looks),
        }
    }

    /// The same, but for what was sent to its client, which may still acknowledge it.
    pub fn leave_unsent(&mut self, session: SessionIndex, is_of: impl FnMut(GroupName) -> bool) {
        self.leave_taken(session, |backlog| backlog.take_waiting_of_groups(is_of));
    }

    fn leave_taken(&mut self, session: SessionIndex, take: impl FnOnce(&mut Backlog) -> Vec<GroupMessage>) -> usize {
        let Some(flow) = &mut self.sessions[session].flow else { return 0 };
        let held = flow.backlog.bytes();
        let all = take(&mut flow.backlog);
        self.settle_backlog(session, held);
        let count = all.len();
        all.into_iter().for_each(|sent| self.leave_one(LeftMessage::new(sent)));
        count
    }

    /// A message is for another member of its group than the one that was to get it.
    pub fn leave_one(&mut self, left: LeftMessage) {
        self.backlogs.change(0, left.bytes() as u64, false);
        self.left.waiting.push_back(left);
    }

    /// A member has no room for a message that another has left, in memory or on its disk: it is offered again after a
    /// pause, if memory is not scarce and it was not offered for too long.
    pub fn leave_again(&mut self, left: LeftMessage, now: TimeMs) {
        assert!(left.ack_to.is_none(), "who waits for a word is told one");
        if left.is_over(now) || self.is_scarce(left.bytes()) {
            self.facts.dropped_inbox += 1;
            return;
        }
        self.backlogs.change(0, left.bytes() as u64, false);
        self.left.pausing.push_back((TimeMs(now.0 + PASS_LOOK_MS), left));
    }

    /// Whether a session that lives in memory alone may take another message that waits for it, if it has to wait.
    pub fn has_inbox_room(&mut self, session: SessionIndex, message_ref: &mut MessageRef<'_>) -> bool {
        let Some(index) = self.connected(session) else { return false };
        let Some(flow) = &self.sessions[session].flow else { return true };
        let message = message_ref.shared_message();
        let (messages_max, bytes_max) = (self.limits.clean_inbox_messages_max, self.limits.clean_inbox_bytes_max);
        flow.backlog.has_room(&message, messages_max, bytes_max)
            && self.inbox_has_share(index, flow.backlog.bytes(), QueuedMessage::bytes_of(&message))
    }

    /// Those whose pause is over wait behind the others.
    pub fn end_pauses(&mut self, now: TimeMs) {
        let LeftMessages { waiting, pausing, .. } = &mut self.left;
        let over = pausing.partition_point(|(until, _)| *until <= now);
        waiting.extend(pausing.drain(..over).map(|(_, left)| left));
    }

    /// The next of what was left.
    pub fn take_left(&mut self) -> Option<LeftMessage> {
        let left = self.left.waiting.pop_front()?;
        self.backlogs.change(left.bytes() as u64, 0, false);
        Some(left)
    }

    /// A message is offered to another, who will say a word of it. Returns its number.
    pub fn offer(&mut self, left: LeftMessage) -> u64 {
        self.backlogs.change(0, left.bytes() as u64, false);
        self.left.offered_last += 1;
        let earlier = self.left.offered.insert(self.left.offered_last, left);
        assert!(earlier.is_none(), "a number is one message's");
        self.left.offered_last
    }

    /// The word of it is there.
    pub fn take_offered(&mut self, number: u64) -> LeftMessage {
        let left = self.left.offered.remove(&number).expect("it is kept until its word is there");
        self.backlogs.change(left.bytes() as u64, 0, false);
        left
    }

    /// Whether something was left that is to be offered at once.
    pub fn has_left(&self) -> bool {
        !self.left.waiting.is_empty()
    }
}
