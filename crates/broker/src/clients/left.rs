//! What members of share groups leave to others whose sessions live in memory alone: it was acknowledged to its
//! publishers, and no disk has it.
//!
//! ```text
//!   sent with QoS 1 ─▶ kept ─ PUBACK ─▶ gone
//!   backlog ────────────┴──── the session ends, or its client is stalled ─▶ left ─▶ another member of its group
//! ```
//!
//! Promise: what is kept and left counts as what waits in memory, and has its bounds: of one client as much as its
//! inbox may have, and of all nothing where what waits is scarce. What is beyond these is sent, and not kept.

use std::collections::VecDeque;

use super::Clients;
use crate::acknowledgements::AckTo;
use crate::connection::Flags;
use crate::flow::{Backlog, GroupMessage, QueuedMessage};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::share::GroupName;

/// A message that is to be given to another.
#[derive(Debug)]
pub(crate) struct LeftMessage {
    pub sent: GroupMessage,
    /// Who still waits for the word that it is durable.
    pub ack_to: Option<AckTo>,
}

/// Messages that are to be given to others, in order.
#[derive(Debug, Default)]
pub(crate) struct LeftMessages(VecDeque<LeftMessage>);

impl LeftMessages {
    /// Their bytes. Visits everything.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|left| left.sent.bytes()).sum()
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

    /// What a session has of these share groups is for others. Returns how many messages that is.
    pub fn leave(&mut self, session: SessionIndex, is_of: impl Fn(GroupName) -> bool) -> usize {
        self.leave_taken(session, |backlog| backlog.take_of_groups(&is_of))
    }

    /// The same, but for what was sent to its client, which may still acknowledge it.
    pub fn leave_unsent(&mut self, session: SessionIndex, is_of: impl Fn(GroupName) -> bool) {
        self.leave_taken(session, |backlog| backlog.take_waiting_of_groups(&is_of));
    }

    fn leave_taken(&mut self, session: SessionIndex, take: impl FnOnce(&mut Backlog) -> Vec<GroupMessage>) -> usize {
        let Some(flow) = &mut self.sessions[session].flow else { return 0 };
        let held = flow.backlog.bytes();
        let all = take(&mut flow.backlog);
        self.settle_backlog(session, held);
        let count = all.len();
        all.into_iter().for_each(|sent| self.leave_one(LeftMessage { sent, ack_to: None }));
        count
    }

    /// A message is for another member of its group than the one that was to get it.
    pub fn leave_one(&mut self, left: LeftMessage) {
        self.backlogs.change(0, left.sent.bytes() as u64, false);
        self.left.0.push_back(left);
    }

    /// The next of what was left.
    pub fn take_left(&mut self) -> Option<LeftMessage> {
        let left = self.left.0.pop_front()?;
        self.backlogs.change(left.sent.bytes() as u64, 0, false);
        Some(left)
    }

    /// Whether something was left that nobody was given.
    pub fn has_left(&self) -> bool {
        !self.left.0.is_empty()
    }
}
