//! What share groups were promised: each message of the pool is one member's, and what was acknowledged is somebody's.
//!
//! ```text
//!   sent, while the group has members ─▶ owed to the group ─▶ heard by one ─▶ by no other
//!                       a member's session ends ─▶ what it had may come twice, and is owed to the others
//!
//! Owed to the others is what had QoS 1 and was acknowledged to its publisher before, if one of them was there then. Of
//! all else nobody knows who had it.
//! ```
//!
//! What a member has whose session ends with its connection is in memory: others are owed it as long as the process
//! lives. What is on the disk is owed only to those who keep it there.
//!
//! What is sent again may be several members': another one may be picked then.

use std::collections::{BTreeMap, BTreeSet};

use super::{ClientIndex, MessageName};
use crate::violation::{Violation, must};

/// First level of the topics that groups share.
pub const POOL: &str = "pool";

/// What a group has of one message.
#[derive(Clone, Debug, Default)]
struct GroupCopy {
    /// The group had members when it was sent, and has them since.
    is_owed: bool,
    /// Nobody knows who had it.
    is_free: bool,
    /// It had QoS 1 when it was sent.
    has_qos_1: bool,
    /// The session of a member ended that may have had it.
    may_repeat: bool,
    /// A member of a clean session was the last one that has left and may have had it.
    by_clean: Option<ClientIndex>,
    hearers: BTreeSet<ClientIndex>,
    /// All hearers so far had it with QoS 2.
    is_begun_only: bool,
}

/// All groups of one run. A client is a member of one of them at most.
#[derive(Default)]
pub(super) struct Groups {
    count: usize,
    passes_on: bool,
    /// Whether each one's session outlives its connection.
    members: BTreeMap<ClientIndex, bool>,
    /// Groups of which a member had a clean session.
    in_memory: BTreeSet<usize>,
    /// Whose sessions end, as far as they know; the server may not have heard yet.
    leaving: BTreeSet<ClientIndex>,
    messages: BTreeMap<MessageName, Vec<GroupCopy>>,
    /// Messages of a group that were heard by one member and had to be.
    pub shared: u64,
    /// Messages that were heard by another member behind the end of a clean session that may have had them.
    pub passed_on: u64,
}

impl Groups {
    /// `count` groups; `passes_on` says that what one member does not take may be given to another.
    pub fn new(count: usize, passes_on: bool) -> Groups {
        Groups { count, passes_on, ..Groups::default() }
    }

    fn group_of(&self, client: ClientIndex) -> usize {
        client % self.count
    }

    /// SUBACK granted a client its group.
    pub fn joined(&mut self, client: ClientIndex, is_durable: bool) {
        self.members.insert(client, is_durable);
        if !is_durable {
            self.in_memory.insert(self.group_of(client));
        }
    }

    /// The server may have ended the connection of a client that has not noticed: a clean session is over then.
    pub fn may_be_over(&mut self, client: ClientIndex, is_kept: impl Fn(&MessageName) -> bool) {
        if self.members.get(&client) == Some(&false) {
            self.left(client, is_kept);
        }
    }

    /// What was in memory is gone.
    pub fn process_ended(&mut self) {
        for copies in self.messages.values_mut() {
            self.in_memory.iter().for_each(|group| copies[*group].is_free = true);
        }
    }

    /// A client's session ends. `is_kept` says of which messages their publishers know that they are kept.
    pub fn left(&mut self, client: ClientIndex, is_kept: impl Fn(&MessageName) -> bool) {
        if self.count == 0 {
            return;
        }
        let group = self.group_of(client);
        let is_clean = self.members.remove(&client) == Some(false);
        self.leaving.insert(client);
        let mut of_group = self.members.iter().filter(|(other, _)| *other % self.count == group);
        let has_others = of_group.any(|(_, is_durable)| is_clean || *is_durable);
        for (name, copies) in &mut self.messages {
            let copy = &mut copies[group];
            copy.may_repeat = true;
            copy.by_clean = is_clean.then_some(client);
            copy.is_free |= !(has_others && copy.has_qos_1 && is_kept(name));
        }
    }

    /// A client got CONNACK: the server knows which sessions it has.
    pub fn connected(&mut self, client: ClientIndex) {
        self.leaving.remove(&client);
    }

    /// A message of the pool is sent.
    pub fn sent(&mut self, name: MessageName, qos: u8) {
        let is_of = |client: &ClientIndex, group| client % self.count == group;
        let copy = |group| GroupCopy {
            is_owed: qos > 0 && self.members.keys().any(|client| is_of(client, group)),
            is_free: self.leaving.iter().any(|client| is_of(client, group)),
            has_qos_1: qos == 1,
            may_repeat: false,
            by_clean: None,
            hearers: BTreeSet::new(),
            is_begun_only: true,
        };
        let copies = (0..self.count).map(copy).collect();
        self.messages.insert(name, copies);
    }

    /// A member was given a message. `is_resent`: its publisher has sent it more than once, so that it may be several.
    pub fn heard(&mut self, client: ClientIndex, name: MessageName, qos: u8, is_resent: bool) -> Result<(), Violation> {
        let (group, passes_on) = (self.group_of(client), self.passes_on);
        let copy = &mut self.messages.get_mut(&name).expect("it was sent to the pool")[group];
        copy.is_begun_only &= qos == 2;
        let is_first = copy.hearers.is_empty();
        self.passed_on += u64::from(copy.by_clean.take_if(|left| *left != client).is_some());
        copy.hearers.insert(client);
        // What has QoS 2 stays with its member, whether it was begun or not.
        let is_one = !copy.is_free && !copy.may_repeat && !is_resent && (copy.is_begun_only || !passes_on);
        self.shared += u64::from(is_one && is_first);
        must(!is_one || copy.hearers.len() == 1, "a message of a share group is one member's", || {
            format!("{name:?} was heard by {:?} of group {group}", copy.hearers)
        })
    }

    /// Whether a member may hear a message behind younger ones: what another worker has sent to a member that was gone
    /// by then comes to somebody else.
    pub fn may_come_late(&self, name: MessageName) -> bool {
        let copies = self.messages.get(&name);
        copies.is_some_and(|copies| self.passes_on || copies.iter().any(|copy| copy.may_repeat || copy.is_free))
    }

    /// Members that still have to hear this message, one of each group.
    pub fn owed(&self, name: MessageName) -> impl Iterator<Item = ClientIndex> + '_ {
        let copies = self.messages.get(&name).into_iter().flatten().enumerate();
        let missing = copies.filter(|(_, copy)| copy.is_owed && !copy.is_free && copy.hearers.is_empty());
        missing.filter_map(|(group, _)| self.members.keys().find(|client| self.group_of(**client) == group).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: MessageName = (9, 1);

    fn of_two_members(passes_on: bool) -> Groups {
        let mut groups = Groups::new(2, passes_on);
        [0, 2, 1].into_iter().for_each(|client| groups.joined(client, true));
        groups.sent(NAME, 2);
        groups
    }

    #[test]
    fn a_message_is_owed_to_one_member_of_each_group() {
        let mut groups = of_two_members(false);
        assert_eq!(groups.owed(NAME).collect::<Vec<_>>(), [0, 1]);
        groups.heard(2, NAME, 1, false).expect("the first of its group");
        assert_eq!(groups.owed(NAME).collect::<Vec<_>>(), [1]);
        groups.heard(2, NAME, 1, false).expect("the same again");
        assert!(groups.heard(0, NAME, 1, false).is_err(), "another of the same group");
        groups.heard(1, NAME, 1, false).expect("of the other group");
    }

    #[test]
    fn what_may_be_passed_on_is_of_qos_1() {
        let mut groups = of_two_members(true);
        groups.heard(0, NAME, 1, false).expect("the first");
        groups.heard(2, NAME, 1, false).expect("it was passed on");
        let mut begun = of_two_members(true);
        begun.heard(0, NAME, 2, false).expect("the first");
        assert!(begun.heard(2, NAME, 2, false).is_err());
    }

    #[test]
    fn of_a_session_that_ends_nobody_knows_what_it_had() {
        let mut groups = of_two_members(false);
        groups.left(2, |_| true);
        assert_eq!(groups.owed(NAME).collect::<Vec<_>>(), [1]);
        groups.sent((9, 2), 1);
        assert_eq!(groups.owed((9, 2)).collect::<Vec<_>>(), [1], "the server may not know that it has left");
        assert!(groups.may_come_late((9, 2)), "it was sent to who is gone, and comes to somebody else");
        groups.connected(2);
        groups.sent((9, 3), 1);
        assert_eq!(groups.owed((9, 3)).collect::<Vec<_>>(), [0, 1]);
        assert!(!groups.may_come_late((9, 3)));
    }

    #[test]
    fn what_is_in_memory_is_owed_to_others_while_the_process_lives() {
        let mut groups = Groups::new(1, false);
        [(0, false), (1, false), (2, true)].into_iter().for_each(|(client, kept)| groups.joined(client, kept));
        groups.sent(NAME, 1);
        groups.may_be_over(2, |_| true);
        groups.may_be_over(1, |_| true);
        assert_eq!(groups.owed(NAME).collect::<Vec<_>>(), [0], "the durable one stays, and either may hear it");
        groups.heard(0, NAME, 1, false).expect("it was another's");
        assert_eq!(groups.passed_on, 1);
        groups.sent((9, 2), 1);
        groups.process_ended();
        assert_eq!(groups.owed((9, 2)).count(), 0);
    }

    #[test]
    fn what_is_on_the_disk_is_owed_to_nobody_who_keeps_nothing_there() {
        let mut groups = Groups::new(1, false);
        [(0, false), (1, true)].into_iter().for_each(|(client, kept)| groups.joined(client, kept));
        groups.sent(NAME, 1);
        groups.left(1, |_| true);
        assert_eq!(groups.owed(NAME).count(), 0);
    }
}
