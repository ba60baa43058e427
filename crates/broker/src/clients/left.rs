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
use std::sync::Arc;

use tidegate_machines::topic::Message;

use super::Clients;
use crate::connection::Flags;
use crate::flow::{GroupMessage, QueuedMessage};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::share::GroupName;

/// A message that another member of a share group is to get.
#[derive(Debug)]
pub(crate) struct LeftMessage {
    pub message: Arc<Message>,
    /// The group, as clients subscribe to it.
    pub filter: Arc<str>,
    /// The [hash](crate::share::hash) of its publisher's client id, if share groups go by it.
    pub client: u64,
}

/// Messages that are to be given to others, in order.
#[derive(Debug, Default)]
pub(crate) struct LeftMessages(VecDeque<LeftMessage>);

impl LeftMessages {
    /// Their bytes. Visits everything.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|left| QueuedMessage::bytes_of(&left.message)).sum()
    }
}

/// Share groups of a session: their names, and how clients subscribe to them.
pub(crate) type Groups = Vec<(GroupName, Arc<str>)>;

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

    /// What a session has of these groups is for others; of what was sent to its client nothing, unless `has_sent`.
    /// Returns how many messages that is.
    pub fn leave(&mut self, session: SessionIndex, groups: &Groups, has_sent: bool) -> usize {
        let Some(flow) = &mut self.sessions[session].flow else { return 0 };
        let held = flow.backlog.bytes();
        let is_of = |name| groups.iter().any(|(group, _)| *group == name);
        let all =
            if has_sent { flow.backlog.take_of_groups(is_of) } else { flow.backlog.take_waiting_of_groups(is_of) };
        self.settle_backlog(session, held);
        let count = all.len();
        for GroupMessage { message, of_group } in all {
            let (_, filter) = groups.iter().find(|(group, _)| *group == of_group.group).expect("it is of one of them");
            self.backlogs.change(0, QueuedMessage::bytes_of(&message) as u64, false);
            self.left.0.push_back(LeftMessage { message, filter: Arc::clone(filter), client: of_group.client });
        }
        count
    }

    /// The next of what was left.
    pub fn take_left(&mut self) -> Option<LeftMessage> {
        let left = self.left.0.pop_front()?;
        self.backlogs.change(QueuedMessage::bytes_of(&left.message) as u64, 0, false);
        Some(left)
    }

    /// Whether something was left that nobody was given.
    pub fn has_left(&self) -> bool {
        !self.left.0.is_empty()
    }
}
