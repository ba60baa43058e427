//! Ids of messages that are remembered, so that none is taken twice within the window of its queue.
//!
//! ```text
//!   sender's id    whose space      who sends               the id
//!   order-17       (empty)          a service          ─▶   order-17
//!   order-17       shop             a service          ─▶   shop U+001F order-17
//!   a key          (empty or not)   a service          ─▶   space U+001F key
//!   a key                           a link, a walk     ─▶   key
//! ```
//!
//! So what stands there as a key alone was given by a node, and nobody can send a key of theirs before a link does.
//!
//! Those that are keys of messages of other nodes take a few bytes each ([`super::key_ids`]). Others are kept as texts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_planted::{Bug, is_planted};

use super::event::QueueIndex;
use super::key::MessageKey;
use super::key_ids::KeyIds;
use super::limits::{ID_BYTES_MAX, IDS_PER_RECORD, KEY_CHUNKS_PER_RECORD, KEYS_PER_ID};
use super::message_table::{Entry, NEVER};
use super::owners::OwnerIndex;
use super::state::Queues;
use crate::{ID_SPACE_BYTES_MAX, IdSpace, TimeMs};

/// An id of a message that is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remembered {
    pub key: MessageKey,
    pub until: TimeMs,
}

/// The ids of a queue.
#[derive(Debug, Default)]
pub(super) struct Ids {
    pub texts: BTreeMap<Arc<str>, Remembered>,
    pub keys: KeyIds,
}

impl Ids {
    /// The message of an id, if that is remembered at `at`.
    pub fn remembered(&self, id: &str, at: TimeMs) -> Option<MessageKey> {
        let lasts = |remembered: &Remembered| remembered.until > at && !is_planted(Bug::MessageIdForgotten);
        let as_key = id.parse().ok().and_then(|key| self.keys.get(key)).filter(lasts);
        as_key.or_else(|| self.texts.get(id).copied().filter(lasts)).map(|remembered| remembered.key)
    }

    /// How many there are, in the measure of their bound: keys that came in order count less.
    pub fn count(&self) -> u64 {
        self.texts.len() as u64 + self.keys.chunks() + self.keys.len() / KEYS_PER_ID
    }
}

/// As what the reference of another system is remembered among the ids of a queue: no id has a control character.
pub(super) fn reference_id(reference: &str) -> String {
    format!("\u{1}{reference}")
}

/// The id in records of a sender's `id`. That of a message of another node is its key there, and in no space; only who
/// relays messages of other nodes may say so.
pub fn id_in_space<'a>(id: &'a str, space: &IdSpace, relays: impl FnOnce() -> bool) -> Cow<'a, str> {
    let is_key = id.parse::<MessageKey>().is_ok() && !is_planted(Bug::KeyOfAnyone);
    match is_key {
        true if relays() => id.into(),
        true => space.apart(id).into_string().into(),
        // Nothing is copied for most.
        false if space.is_empty() => IdSpace::checked(id).into(),
        false => space.whole(id).into_string().into(),
    }
}

/// The key that another node gave, if an id of a record is one.
pub fn key_elsewhere(id: &str) -> Option<MessageKey> {
    id.parse().ok()
}

/// What its sender called a message with this id in records.
pub(super) fn sender_id(id: &str) -> &str {
    IdSpace::split(id).1
}

/// 1 to 128 bytes without control characters; before it, the name of an id space and the separator, or nothing.
pub(super) fn is_message_id(id: &str) -> bool {
    let (space, of_sender) = IdSpace::split(id);
    is_plain(of_sender, ID_BYTES_MAX) && (space.is_empty() || is_plain(space, ID_SPACE_BYTES_MAX))
}

/// Whether a text has some bytes, not too many, and no control characters.
pub(super) fn is_plain(text: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&text.len()) && !text.chars().any(char::is_control)
}

impl Queues {
    /// Remembers the id of a message.
    pub(super) fn remember(&mut self, index: QueueIndex, id: &str, remembered: Remembered) {
        let key = id.parse::<MessageKey>().ok();
        if let Some((name, is_new)) = key.and_then(|key| self.change_ids(index, |ids| ids.keys.insert(key, remembered)))
        {
            if is_new && remembered.until != NEVER {
                self.keys_due.insert((remembered.until, index, name));
            }
            return;
        }
        let id: Arc<str> = id.into();
        if let Some(before) = self.change_ids(index, |ids| ids.texts.insert(id.clone(), remembered)) {
            self.ids_due.remove(&(before.until, index, id.clone()));
        }
        self.ids_due.insert((remembered.until, index, id));
    }

    /// Whether a message is remembered by this id, which is no key.
    pub(super) fn has_id(&self, number: u64, id: &str) -> bool {
        let Entry { queue, sent_at, .. } = self.messages.of(number);
        let remembered = self.queue(queue).ids.texts.get(id);
        remembered.is_some_and(|remembered| remembered.key == self.key_of(number, sent_at))
    }

    /// The one of these ids whose time follows that of its message, as its queue is set; if it is remembered.
    pub(super) fn id_until_due<'a>(&self, number: u64, ids: &'a [Box<str>], at: TimeMs) -> Option<&'a str> {
        let queue = self.queue(self.messages.of(number).queue);
        let is_remembered = |id: &&str| self.has_id(number, id) && queue.ids.remembered(id, at).is_some();
        ids.iter().map(|id| &**id).find(is_remembered).filter(|_| queue.settings.ids_until_due)
    }

    /// A message of this id is due at another time.
    pub(super) fn remember_until_due(&mut self, number: u64, id: Option<&str>, due: TimeMs, at: TimeMs) {
        let Entry { queue, sent_at, .. } = self.messages.of(number);
        let until = self.queue(queue).settings.id_until(at, due);
        if let (Some(id), Some(until)) = (id, until) {
            self.remember(queue, id, Remembered { key: self.key_of(number, sent_at), until });
        }
    }

    /// Changes the ids of a queue, and counts them.
    fn change_ids<R>(&mut self, index: QueueIndex, change: impl FnOnce(&mut Ids) -> R) -> R {
        let ids = &mut self.queue_mut(index).ids;
        let before = ids.count();
        let changed = change(ids);
        let after = ids.count();
        self.ids = self.ids - before + after;
        self.change_owned(index, |owned| owned.ids = owned.ids - before + after);
        changed
    }

    /// Ids that are remembered, in the measure of their bound.
    pub fn ids(&self) -> u64 {
        self.ids
    }

    /// The ids that a snapshot has of a queue.
    pub(super) fn read_ids_of(&mut self, index: QueueIndex, ids: Ids) {
        self.ids_due.extend(ids.texts.iter().map(|(id, remembered)| (remembered.until, index, id.clone())));
        let lasting = ids.keys.names().filter(|(_, until)| *until != NEVER);
        self.keys_due.extend(lasting.map(|(name, until)| (until, index, name)));
        self.change_ids(index, |of_queue| *of_queue = ids);
    }

    /// Those that are left when those are forgotten that may be at `at`.
    pub(super) fn ids_left(&self, at: TimeMs) -> u64 {
        let due = self.ids_due.iter().take(IDS_PER_RECORD).take_while(|(until, ..)| *until <= at).count();
        let keys = self.keys_due.iter().take(KEY_CHUNKS_PER_RECORD).take_while(|(until, ..)| *until <= at);
        let is_over = |(_, index, name): &&(TimeMs, QueueIndex, _)| {
            self.queue(*index).ids.keys.until(*name).is_some_and(|until| until <= at)
        };
        self.ids() - (due + keys.filter(is_over).count()) as u64
    }

    /// The same of one queue. If more ids are due than one record forgets, none of those of the queue that are behind
    /// them is counted: the next record has room for them.
    pub(super) fn ids_of_queue_left(&self, index: QueueIndex, at: TimeMs) -> u64 {
        self.ids_of_left(self.queue(index).ids.count(), at, |of| of == index)
    }

    /// The same of all queues of an owner.
    pub(super) fn ids_of_owner_left(&self, owner: OwnerIndex, at: TimeMs) -> u64 {
        self.ids_of_left(self.owners.get(owner).ids, at, |of| self.queue(of).owner == Some(owner))
    }

    /// Of `count` ids, those that are left when those that are due at `at`, and of `is_of`, are forgotten.
    fn ids_of_left(&self, count: u64, at: TimeMs, is_of: impl Fn(QueueIndex) -> bool) -> u64 {
        let (mut due, mut of_these) = (0, 0);
        for (_, of, _) in self.ids_due.iter().take(IDS_PER_RECORD).take_while(|(until, ..)| *until <= at) {
            due += 1;
            of_these += u64::from(is_of(*of));
        }
        if due == IDS_PER_RECORD { 0 } else { count - of_these }
    }

    /// Forgets ids whose window is over, of whichever queue, up to so many.
    pub(super) fn forget_ids(&mut self, at: TimeMs) {
        for _ in 0..IDS_PER_RECORD {
            if self.ids_due.first().is_none_or(|(until, ..)| *until > at) {
                break;
            }
            let (_, index, id) = self.ids_due.pop_first().expect("it was there just now");
            self.change_ids(index, |ids| ids.texts.remove(&id));
        }
        let mut left = KEY_CHUNKS_PER_RECORD;
        while left > 0 && self.keys_due.first().is_some_and(|(until, ..)| *until <= at) {
            let (due, index, name) = self.keys_due.pop_first().expect("it was there just now");
            let until = self.queue(index).ids.keys.until(name).expect("a chunk that is forgotten is there");
            // A chunk is listed by its first id; whether it has got others since is seen now.
            if until == due {
                self.change_ids(index, |ids| ids.keys.remove(name));
                left -= 1;
            } else if until != NEVER {
                self.keys_due.insert((until, index, name));
            }
        }
    }

    /// Forgets all ids of a queue that is dropped.
    pub(super) fn drop_ids(&mut self, index: QueueIndex, ids: Ids) {
        self.ids -= ids.count();
        for (id, remembered) in ids.texts {
            self.ids_due.remove(&(remembered.until, index, id));
        }
        self.keys_due.retain(|(_, of, _)| *of != index);
    }
}
