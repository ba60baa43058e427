//! Which member of a share group gets a message (MQTT 5, 4.8.2).
//!
//! ```text
//!                    in front                                     behind, while nobody is in front
//!   round_robin      ready: connected, with room for one more     connected, then whoever has a session that stays
//!   sticky, hash_*   connected, and not stalled                   whoever has a session that stays
//! ```
//!
//! Promise: what is chosen by a key is chosen alike on all workers, and as long as the members in front stay the same;
//! one that comes or goes moves only what is, or was, its own. Why: each worker picks for itself, without asking.
//!
//! How: rendezvous hashing. Each member has a weight for each key, and the heaviest gets it.

use crate::limits::GROUP_PARTS;
use crate::subscriptions::Entry;

/// Names a share group, the same on all workers and after each start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupName {
    /// Clients choose the filters: a hash for which one of them can find another filter would let it have what members
    /// of others leave.
    digest: u64,
    part: u32,
}

impl GroupName {
    /// Of the group to which `filter` subscribes: `$share/GROUP/FILTER`.
    pub fn of(filter: &str) -> GroupName {
        let digest = *blake3::hash(filter.as_bytes()).as_bytes().first_chunk().expect("32 bytes have a first eight");
        GroupName { digest: u64::from_le_bytes(digest), part: hash(filter) as u32 & !GROUP_PARTS }
    }

    /// The part of an origin in which this group takes a message, whichever of its members gets it. Why not by the
    /// member's slot: a message of QoS 2 that is sent again after a crash may be given to another member. Its shard may
    /// know the message by the slot of somebody else, and would take it for one that the group has.
    pub fn part(self) -> u32 {
        GROUP_PARTS | self.part
    }
}

/// By which share group a message came, and the [`hash`] of its publisher's client id, if share groups go by it: what
/// another member is picked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OfGroup {
    pub group: GroupName,
    pub client: u64,
}

/// The member that stands for its share group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    /// Whose it is.
    pub entry: Entry,
    /// For which group.
    pub group: GroupName,
}

/// How a share group divides its messages among its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShareStrategy {
    /// One after the other.
    #[default]
    RoundRobin,
    /// All to one, as long as it is there.
    Sticky,
    /// Those on one topic to one member.
    HashTopic,
    /// Those of one client to one member.
    HashClient,
}

impl ShareStrategy {
    /// What members are weighed by for a message on `topic` of the client with this [`hash`], to the group called
    /// `group`. `None` if they take turns.
    pub fn key(self, group: &str, topic: &str, client: u64) -> Option<u64> {
        match self {
            ShareStrategy::RoundRobin => None,
            // Not the same member for all groups that the same sessions are members of.
            ShareStrategy::Sticky => Some(hash(group)),
            ShareStrategy::HashTopic => Some(hash(topic)),
            ShareStrategy::HashClient => Some(client),
        }
    }
}

/// The member that weighs most for a key.
pub fn heaviest<'e>(members: impl Iterator<Item = &'e Entry>, key: u64) -> Option<Entry> {
    members.max_by_key(|member| (weight(member, key), member.owner())).copied()
}

/// What a member weighs for a key. Of its session, which no other has as long as it lives.
fn weight(member: &Entry, key: u64) -> u64 {
    let session = u64::from(member.session.number()) | u64::from(member.worker) << 32;
    mixed(key ^ mixed(session | u64::from(member.generation) << 40))
}

/// A number for a text that is the same on all workers: FNV-1a.
pub fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Spreads what differs in few bits over all of them: the end of SplitMix64.
fn mixed(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests;
