//! What is known of each message from its first sender to its last receiver, and what must hold of it.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_machines::TimeMs;
use tidegate_machines::queue::{MessageKey, MessageState, MessageView, Queues};
use tidegate_queue::Received;
use tidegate_queue::machine::{Message, When};

use super::{DEAD, ROUND};
use crate::chance::Chance;
use crate::violation::{Violation, must};

/// Ordering keys.
const KEYS: u64 = 5;
/// In a thousand, messages that get the key of another one as their sender's id.
const KEYS_AS_IDS: u64 = 50;

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the hash of its ordering key, or of its name.
    ByWeight,
    /// To the first queue that is there.
    Failover,
    /// No rule fits: it is a dead letter.
    Nowhere,
    /// The links lead it back to the node in the middle: it is a dead letter of the last one.
    Round,
}

impl Way {
    /// Whether it comes out at the end.
    fn has_end(self) -> bool {
        matches!(self, Way::ByWeight | Way::Failover)
    }
}

/// A message.
#[derive(Debug)]
pub struct Content {
    /// What its sender gives.
    pub message: Message,
    /// Where it goes.
    pub way: Way,
    /// Not handed out before.
    not_before: u64,
    /// Its sender waits for an answer.
    pub is_asked: bool,
    /// Its sender has asked before.
    was_asked: bool,
    /// The key that its sender was told.
    pub key: Option<MessageKey>,
    /// The key and the queue under which the last node has it.
    last: Option<(MessageKey, usize)>,
    /// Its receiver was told that it is done.
    is_done: bool,
}

/// All messages.
#[derive(Debug, Default)]
pub struct Oracle {
    /// By number.
    pub contents: Vec<Content>,
    /// The newest message of each ordering key that was handed out at the end.
    newest: BTreeMap<Box<str>, usize>,
    /// Messages that were handed out at the end, each once.
    pub delivered: u64,
}

impl Oracle {
    /// So many messages.
    pub fn draw(chance: &mut Chance, count: u64, now: u64) -> Oracle {
        let content = |number: u64| {
            let ways = [Way::ByWeight, Way::Failover, Way::Nowhere, Way::Round];
            let way = ways[chance.weighted(&[20, 20, 3, 2])];
            let prefix = match way {
                Way::ByWeight => "+1",
                Way::Failover => "+4",
                Way::Nowhere => "-",
                Way::Round => "+9",
            };
            let delay = if chance.happens(100) { chance.within(1..=4_000) } else { 0 };
            let ordering_key = chance.happens(500).then(|| format!("key-{}", chance.below(KEYS)).into());
            let message = Message {
                id: Some(format!("text-{number}").into()),
                // A later one of the same key would wait for one that waits for its time.
                ordering_key: ordering_key.filter(|_| delay == 0),
                priority: 4,
                visible_at: (delay > 0).then_some(When::At(TimeMs(now + delay))),
                expires_at: None,
                via: None,
                origin_id: None,
                attributes: format!(r#"{{"to":"{prefix}{number}"}}"#).into_bytes().into(),
                body: number.to_le_bytes().into(),
            };
            Content {
                message,
                way,
                not_before: now + delay,
                is_asked: false,
                was_asked: false,
                key: None,
                last: None,
                is_done: false,
            }
        };
        Oracle { contents: (0..count).map(content).collect(), ..Oracle::default() }
    }

    /// The next messages to be sent, so many at most: of one ordering key, the next one when the one before is taken.
    /// Some get, as the id of their sender, the key of another message: a link must not take it for theirs.
    pub fn next_to_send(&mut self, most: usize, chance: &mut Chance) -> Vec<usize> {
        let (mut chosen, mut keys) = (Vec::new(), Vec::new());
        let ids: BTreeSet<_> = self.contents.iter().filter_map(|content| content.message.id.clone()).collect();
        let given = self.contents.iter().filter_map(|content| Some(content.key?.to_string().into()));
        let mut given: Vec<Box<str>> = given.filter(|key| !ids.contains(key)).collect();
        for (number, content) in self.contents.iter_mut().enumerate() {
            if content.key.is_some() {
                continue;
            }
            let is_free = content.message.ordering_key.as_ref().is_none_or(|key| !keys.contains(key));
            keys.extend(content.message.ordering_key.clone());
            if is_free && !content.is_asked && chosen.len() < most {
                if !content.was_asked && !given.is_empty() && chance.happens(KEYS_AS_IDS) {
                    let key = chance.below(given.len() as u64) as usize;
                    content.message.id = Some(given.swap_remove(key));
                }
                (content.is_asked, content.was_asked) = (true, true);
                chosen.push(number);
            }
        }
        chosen
    }

    /// The sender was told that these are taken, or was not.
    pub fn sent(&mut self, numbers: &[usize], keys: Option<Vec<MessageKey>>) -> Result<(), Violation> {
        let keys = keys.map_or(vec![None; numbers.len()], |keys| keys.into_iter().map(Some).collect());
        for (number, key) in numbers.iter().zip(keys) {
            let content = &mut self.contents[*number];
            content.is_asked = false;
            let is_same = content.key.is_none() || key.is_none() || content.key == key;
            must(is_same, "an id stands for one message", || format!("{content:?}: {key:?}"))?;
            content.key = content.key.or(key);
        }
        Ok(())
    }

    /// Something was handed out at the end. The number of the message.
    pub fn received(&mut self, queue: usize, received: &Received, now: u64) -> Result<usize, Violation> {
        let (message, lease) = (&*received.message, received.delivery.lease);
        let number = message.body.first_chunk().map(|bytes| u64::from_le_bytes(*bytes) as usize);
        let known = number.and_then(|number| Some((number, self.contents.get_mut(number)?)));
        let Some((number, content)) = known else {
            return Err(Violation::of("what arrives was sent", format!("{message:?}")));
        };
        let words = |content: &Content| format!("{content:?}: {lease:?} of queue {queue}, {message:?}");
        let sent = &content.message;
        let is_same = (&sent.attributes, &sent.ordering_key) == (&message.attributes, &message.ordering_key);
        must(is_same && content.way.has_end(), "what arrives is what was sent", || words(content))?;
        let name = message.id.as_deref().and_then(|id| id.parse::<MessageKey>().ok());
        let is_named = name.is_some() && content.key.is_none_or(|key| name == Some(key));
        must(is_named, "a message has the key of its first node on all others", || words(content))?;
        must(now >= content.not_before, "no message arrives before its time", || words(content))?;
        must(!content.is_done, "what was acknowledged at the end does not come again", || words(content))?;
        let is_first = content.last.is_none();
        let (last, at) = *content.last.get_or_insert((lease.key, queue));
        must(last == lease.key && at == queue, "a message arrives once", || words(content))?;
        if !is_first {
            return Ok(number);
        }
        self.delivered += 1;
        let Some(key) = content.message.ordering_key.clone().filter(|_| content.way == Way::ByWeight) else {
            return Ok(number);
        };
        let before = self.newest.insert(key, number);
        must(before.is_none_or(|before| before < number), "messages of a key arrive in their order", || {
            format!("{before:?} before {:?}", self.contents[number])
        })?;
        Ok(number)
    }

    /// The receiver of a message was told that it is done.
    pub fn acknowledged(&mut self, number: usize) {
        self.contents[number].is_done = true;
    }

    /// Whether every message that was taken has its end, as far as clients know.
    pub fn is_done(&self) -> bool {
        self.contents.iter().all(|content| content.key.is_some() && (content.is_done || !content.way.has_end()))
    }

    /// What must hold when all is quiet: of the first node, the one in the middle, and the last one.
    pub fn check_end(&self, states: [&Queues; 3]) -> Result<(), Violation> {
        let [first, middle, last] = states;
        for content in &self.contents {
            let key = content.key.expect("it was sent");
            let words = || format!("{content:?}");
            let state_of = |state: &Queues, key: Option<MessageKey>| key.and_then(|key| state.message(key));
            let here = state_of(first, Some(key));
            let is_gone = here.is_some_and(|view| view.state == MessageState::Acknowledged);
            must(is_gone, "what was forwarded is gone from the first node, with a trail", words)?;
            let taken_as = |state: &Queues, queue| state_of(state, state.key_of_id(queue, &key.to_string(), TimeMs(0)));
            let is_dead = |view: &MessageView| &*view.queue == DEAD && !view.state.is_finished();
            let fits = taken_as(middle, "in").is_some_and(|view| match content.way {
                Way::Nowhere => is_dead(&view),
                Way::Round => &*view.queue == ROUND && view.state == MessageState::Acknowledged,
                _ => matches!(&*view.queue, "west" | "east") && view.state == MessageState::Acknowledged,
            });
            must(fits, "the node in the middle has routed each message, or has it as a dead letter", words)?;
            let at_the_end = content.last.and_then(|(key, _)| state_of(last, Some(key)));
            let is_done = at_the_end.is_some_and(|view| view.state == MessageState::Acknowledged);
            must(is_done == content.way.has_end(), "each message that was taken arrives", words)?;
            let is_kept = content.way != Way::Round || taken_as(last, ROUND).is_some_and(|view| is_dead(&view));
            must(is_kept, "what comes back to a queue is a dead letter of the one before", words)?;
        }
        for state in states {
            let (counts, totals) = state.all();
            let live = counts.waiting + counts.scheduled + counts.leased;
            let is_whole = totals.sent == totals.acknowledged + totals.expired + totals.removed + live;
            must(is_whole, "messages are as many as were taken and have not ended", || {
                format!("{counts:?} {totals:?}")
            })?;
        }
        for (state, way) in [(middle, Way::Nowhere), (last, Way::Round)] {
            let stranded = self.contents.iter().filter(|content| content.way == way).count() as u64;
            must(state.totals().1 == stranded, "only dead letters are left", || format!("{:?}", state.totals()))?;
        }
        Ok(())
    }
}
