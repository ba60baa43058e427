//! Random commands, with restarts: after every step the shard agrees with the model.

use proptest::prelude::*;

use super::model::{Model, Owner, TestMessage, word};
use super::shard::{Shard, message};
use crate::machine::tests::{restore, snapshot};
use crate::topic::{Command, Due, InboxPolicy, Origin, Receiver, Refusal, Slot, Will};
use crate::{Machine, TimeMs};

const CLIENTS: [&str; 5] = ["a", "b", "c", "d", "e"];
const FILTERS: [&str; 4] = ["a/+", "#", "b", "$share/g/b"];

#[derive(Clone, Debug)]
enum Step {
    Open { client: usize, expiry_s: u32, will_s: Option<u32> },
    Attach { slot: u32, will_s: Option<u32> },
    Detach { slot: u32, expiry_s: u32, keep_will: bool },
    End { slot: u32 },
    ClearWill { slot: u32 },
    Subscribe { slot: u32, filter: usize, id: u32 },
    Unsubscribe { slot: u32, filter: usize },
    Publish { size: usize, receivers: Vec<(u32, u8)>, origin: Option<u16>, expires_in: Option<u64> },
    Acknowledge { slot: u32, ahead: u64 },
    Receive { slot: u32, ahead: u64 },
    Forget { packet_id: u16 },
    ForgetAll,
    Retain { topic: usize, size: usize },
    Delay { by: u64 },
    Obey { after: u64, most: usize },
    Limits { messages: u32, bytes: u64, age: u64, policy: InboxPolicy },
    Replay,
    Restore,
}

fn step() -> impl Strategy<Value = Step> {
    let slot = || 0..6u32;
    let seconds = || prop_oneof![Just(0), 1..20u32, Just(u32::MAX)];
    let will = || proptest::option::of(0..20u32);
    let policy = prop_oneof![Just(InboxPolicy::DropOldest), Just(InboxPolicy::DropNewest), Just(InboxPolicy::Refuse)];
    let receivers = proptest::collection::btree_map(slot(), 1..=2u8, 0..5)
        .prop_map(|receivers| receivers.into_iter().rev().collect::<Vec<_>>());
    let letter = (0..30usize, receivers, proptest::option::weighted(0.3, 0..6u16), proptest::option::of(1..9_000u64));
    prop_oneof![
        6 => (0..CLIENTS.len(), seconds(), will())
            .prop_map(|(client, expiry_s, will_s)| Step::Open { client, expiry_s, will_s }),
        1 => (slot(), will()).prop_map(|(slot, will_s)| Step::Attach { slot, will_s }),
        2 => (slot(), seconds(), any::<bool>())
            .prop_map(|(slot, expiry_s, keep_will)| Step::Detach { slot, expiry_s, keep_will }),
        1 => slot().prop_map(|slot| Step::End { slot }),
        1 => slot().prop_map(|slot| Step::ClearWill { slot }),
        2 => (slot(), 0..FILTERS.len(), 0..3u32).prop_map(|(slot, filter, id)| Step::Subscribe { slot, filter, id }),
        1 => (slot(), 0..FILTERS.len()).prop_map(|(slot, filter)| Step::Unsubscribe { slot, filter }),
        16 => letter.prop_map(|(size, receivers, origin, expires_in)| {
            Step::Publish { size, receivers, origin, expires_in }
        }),
        8 => (slot(), 0..6u64).prop_map(|(slot, ahead)| Step::Acknowledge { slot, ahead }),
        4 => (slot(), 0..6u64).prop_map(|(slot, ahead)| Step::Receive { slot, ahead }),
        2 => (0..6u16).prop_map(|packet_id| Step::Forget { packet_id }),
        1 => Just(Step::ForgetAll),
        2 => (0..FILTERS.len(), 0..3usize).prop_map(|(topic, size)| Step::Retain { topic, size }),
        1 => (0..9_000u64).prop_map(|by| Step::Delay { by }),
        2 => (0..9_000u64, 0..9usize).prop_map(|(after, most)| Step::Obey { after, most }),
        1 => (0..9u32, 0..300u64, prop_oneof![Just(0), 1..9_000u64], policy)
            .prop_map(|(messages, bytes, age, policy)| Step::Limits { messages, bytes, age, policy }),
        1 => Just(Step::Replay),
        1 => Just(Step::Restore),
    ]
}

struct Pair {
    shard: Shard,
    model: Model,
    published: usize,
}

impl Pair {
    /// Asks the shard; it must say what the model said.
    fn both(&mut self, command: Command, expected: Result<(), Refusal>) {
        let answer = self.shard.ask(&command);
        assert_eq!(answer.map(drop), expected, "{command:?}");
    }

    fn take(&mut self, step: &Step) {
        let now = self.shard.now;
        let will = |will_s: Option<u32>| {
            will_s.map(|delay_s| Will { message: message("w", "gone", 1, None), delay_s, expiry_s: None })
        };
        let no_session = |slot: u32| Refusal::NoSession(Slot(slot));
        match *step {
            Step::Open { client, expiry_s, will_s } => {
                let client_id = CLIENTS[client];
                let owner = Owner { client_id: client_id.into(), expiry_s, will_s, ..Owner::default() };
                let expected = self.model.open(owner).map(drop);
                let will = will(will_s);
                self.both(Command::OpenSession { client_id: client_id.into(), owner: None, expiry_s, will }, expected);
            }
            Step::Attach { slot, will_s } => {
                let expected = self.model.owner(Slot(slot)).ok_or(no_session(slot)).map(|owner| {
                    (owner.detached_at, owner.will_s, owner.expiry_s) = (None, will_s, 9);
                });
                self.both(
                    Command::AttachSession { slot: Slot(slot), owner: None, expiry_s: 9, will: will(will_s) },
                    expected,
                );
            }
            Step::Detach { slot, expiry_s, keep_will } => {
                let expected = self.model.owner(Slot(slot)).ok_or(no_session(slot)).map(|owner| {
                    (owner.detached_at, owner.expiry_s) = (Some(now.0), expiry_s);
                    owner.will_s.take_if(|_| !keep_will);
                });
                self.both(Command::DetachSession { slot: Slot(slot), expiry_s, keep_will }, expected);
            }
            Step::End { slot } => {
                let expected = self.model.end(Slot(slot));
                self.both(Command::EndSession { slot: Slot(slot) }, expected);
            }
            Step::ClearWill { slot } => self.clear_will(Slot(slot)),
            Step::Subscribe { slot, filter, id } => {
                let filter = FILTERS[filter];
                let expected = self.model.owner(Slot(slot)).ok_or(no_session(slot)).map(|owner| {
                    owner.subscriptions.insert(filter.into(), id);
                });
                let (slot, filter) = (Slot(slot), filter.into());
                self.both(Command::Subscribe { slot, filter, options: 1, subscription_id: id }, expected);
            }
            Step::Unsubscribe { slot, filter } => {
                let filter = FILTERS[filter];
                let expected = self
                    .model
                    .owner(Slot(slot))
                    .ok_or(no_session(slot))
                    .and_then(|owner| owner.subscriptions.remove(filter).map(drop).ok_or(Refusal::NoSubscription));
                self.both(Command::Unsubscribe { slot: Slot(slot), filter: filter.into() }, expected);
            }
            Step::Publish { size, ref receivers, origin, expires_in } => {
                self.publish(size, receivers, origin, expires_in);
            }
            Step::Acknowledge { slot, ahead } => {
                let (slot, number) = self.entry(slot, ahead);
                let expected = self.model.leave(slot, number);
                self.both(Command::Acknowledge { slot, number }, expected);
            }
            Step::Receive { slot, ahead } => {
                let (slot, number) = self.entry(slot, ahead);
                let expected = self.model.owner(slot).ok_or(no_session(slot.0)).and_then(|owner| {
                    let found = owner.inbox.iter_mut().find(|waiting| waiting.number == number);
                    let waiting = found.ok_or(Refusal::NoEntry(number))?;
                    if std::mem::replace(&mut waiting.received, true) { Err(Refusal::Nothing) } else { Ok(()) }
                });
                self.both(Command::MarkReceived { slot, number }, expected);
            }
            Step::Forget { packet_id } => {
                let origin = origin_of(packet_id);
                let known = self.model.origins.iter().position(|known| *known == origin);
                let expected = known.ok_or(Refusal::Nothing).map(|place| {
                    self.model.origins.remove(place);
                });
                self.both(Command::ForgetOrigin(origin), expected);
            }
            Step::ForgetAll => {
                let Origin { shard, incarnation, .. } = origin_of(0);
                let before = self.model.origins.len();
                self.model.origins.retain(|origin| origin.incarnation != incarnation);
                let expected = if self.model.origins.len() < before { Ok(()) } else { Err(Refusal::Nothing) };
                self.both(Command::ForgetOrigins { shard, incarnation }, expected);
            }
            Step::Retain { topic, size } => {
                let (topic, payload) = (FILTERS[topic], "x".repeat(size));
                let before = self.model.retained.remove(topic);
                let expected = if size == 0 && before.is_none() { Err(Refusal::Nothing) } else { Ok(()) };
                if size > 0 {
                    self.model.retained.insert(topic.into(), payload.clone());
                }
                self.both(Command::Retain { message: message(topic, &payload, 1, None), owner: None }, expected);
            }
            Step::Delay { by } => {
                let at = TimeMs(now.0 + by);
                self.both(
                    Command::Delay { at, message: message("d", "later", 1, None), origin: None, owner: None },
                    Ok(()),
                );
                self.model.delayed.insert(self.shard.topics.sequence(), at.0);
            }
            Step::Obey { after, most } => {
                self.shard.now = TimeMs(now.0 + after);
                (0..most).for_each(|_| self.obey_one());
            }
            Step::Limits { messages, bytes, age, policy } => {
                let limits = &mut self.shard.limits;
                (limits.messages_max, limits.bytes_max) = (messages, bytes);
                (limits.age_max_ms, limits.policy) = (age, policy);
            }
            Step::Replay => self.shard.check(),
            Step::Restore => self.shard.topics = restore(&snapshot(&self.shard.topics)),
        }
    }

    fn publish(&mut self, size: usize, receivers: &[(u32, u8)], packet_id: Option<u16>, expires_in: Option<u64>) {
        self.published += 1;
        let now = self.shard.now.0;
        let payload = format!("{}{}", self.published, "x".repeat(size));
        let expires_at = expires_in.map(|ms| now + ms);
        let origin = packet_id.map(origin_of);
        let message = message("t", &payload, 2, expires_at.map(TimeMs));
        let bytes = message.body_bytes() as u64;
        let letter = TestMessage { payload: &payload, bytes, expires_at, origin };
        let receivers: Vec<(Slot, u8)> = receivers.iter().map(|(slot, qos)| (Slot(*slot), *qos)).collect();
        let expected = self.model.publish(&letter, &receivers, &self.shard.limits, now);
        let receiver = |(slot, qos): (Slot, u8)| Receiver { slot, qos, retain: false, subscription_ids: [9].into() };
        let receivers = receivers.into_iter().map(receiver).collect();
        self.both(Command::Publish { message, receivers, origin, unheeded: [].into() }, expected);
    }

    /// The entry so far behind the front of an inbox.
    fn entry(&self, slot: u32, ahead: u64) -> (Slot, u64) {
        (Slot(slot), self.shard.topics.inbox(Slot(slot)).front_number() + ahead)
    }

    fn clear_will(&mut self, slot: Slot) {
        let expected = self
            .model
            .owner(slot)
            .ok_or(Refusal::NoSession(slot))
            .and_then(|owner| owner.will_s.take().map(drop).ok_or(Refusal::Nothing));
        let record = self.shard.topics.session(slot).and_then(|session| session.will_record()).unwrap_or(0);
        self.both(Command::ClearWill { slot, record }, expected);
    }

    fn obey_one(&mut self) {
        let Some(due) = ({ self.shard.topics.due(self.shard.now).next() }) else { return };
        match due {
            Due::Will { slot, .. } => self.clear_will(slot),
            Due::SessionExpiry { slot } => {
                let expected = self.model.end(slot);
                self.both(Command::EndSession { slot }, expected);
            }
            Due::Delayed { id } => {
                assert!(self.model.delayed.remove(&id).is_some());
                self.both(Command::DelayedSent { id }, Ok(()));
            }
            Due::Drop { slot, number, reason } => {
                let expected = self.model.leave(slot, number);
                self.both(Command::Drop { slot, number, reason }, expected);
            }
        }
    }

    fn agree(&self) {
        let topics = &self.shard.topics;
        topics.assert_sound();
        for (slot, owner) in self.model.owners.iter().enumerate() {
            let slot = Slot(slot as u32);
            let (Some(owner), Some(session)) = (owner, topics.session(slot)) else {
                assert!(owner.is_none() && topics.session(slot).is_none() && topics.inbox(slot).is_empty());
                continue;
            };
            assert_eq!((session.client_id(), topics.find(session.client_id())), (&*owner.client_id, Some(slot)));
            assert_eq!(session.detached_at(), owner.detached_at.map(TimeMs));
            assert_eq!(session.will().map(|will| will.delay_s), owner.will_s);
            let subscriptions = session.subscriptions().iter().map(|one| (one.filter.to_string(), one.subscription_id));
            assert_eq!(subscriptions.collect::<Vec<_>>(), owner.subscriptions.clone().into_iter().collect::<Vec<_>>());
            let inbox = topics.inbox(slot);
            let entries = inbox.entries_from(0).map(|entry| {
                let payload = String::from_utf8_lossy(entry.message().payload()).into_owned();
                (entry.number(), payload, entry.qos(), entry.is_received())
            });
            let waiting = owner.inbox.iter().map(|one| (one.number, one.payload.clone(), one.qos, one.received));
            assert_eq!(entries.collect::<Vec<_>>(), waiting.collect::<Vec<_>>());
            assert_eq!((inbox.len(), inbox.next_number()), (owner.inbox.len(), owner.next));
            assert_eq!(inbox.bytes(), owner.inbox.iter().map(|one| one.bytes).sum::<u64>());
            assert_eq!(inbox.front_number(), owner.inbox.first().map_or(owner.next, |one| one.number));
        }
        let mut due: Vec<String> = topics.due(self.shard.now).map(word).collect();
        due.sort();
        assert_eq!(due, self.model.due(self.shard.now));
        let retained = topics.retained().map(|one| (one.topic().into(), String::from_utf8_lossy(one.payload()).into()));
        assert_eq!(
            retained.collect::<Vec<(String, String)>>(),
            self.model.retained.clone().into_iter().collect::<Vec<_>>()
        );
        assert!((0..6).all(|id| topics.knows_origin(origin_of(id)) == self.model.origins.contains(&origin_of(id))));
        self.figures_agree();
    }

    fn figures_agree(&self) {
        let facts = self.shard.topics.facts();
        let owners = || self.model.owners.iter().flatten();
        let waiting: Vec<_> = owners().flat_map(|owner| &owner.inbox).collect();
        let mut payloads: Vec<(&str, u64)> = waiting.iter().map(|one| (&*one.payload, one.bytes)).collect();
        payloads.sort_unstable();
        payloads.dedup();
        assert_eq!((facts.sessions, facts.inbox_messages), (owners().count() as u64, waiting.len() as u64));
        assert_eq!(facts.subscriptions, owners().map(|owner| owner.subscriptions.len() as u64).sum::<u64>());
        assert_eq!(facts.bodies, payloads.len() as u64, "a body is stored once");
        assert_eq!(facts.bodies_bytes, payloads.iter().map(|(_, bytes)| bytes).sum::<u64>());
        assert_eq!((facts.dropped_full, facts.evicted), (self.model.dropped_full, self.model.evicted));
        assert_eq!(facts.delayed, self.model.delayed.len() as u64);
    }
}

fn origin_of(packet_id: u16) -> Origin {
    Origin::new(2, 1 + u64::from(packet_id % 2), packet_id)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_shard_says_what_the_model_says(steps in proptest::collection::vec(step(), 1..120)) {
        let mut pair = Pair { shard: Shard::new(), model: Model::default(), published: 0 };
        for step in &steps {
            pair.take(step);
            pair.agree();
        }
        pair.shard.check();
    }

    /// A share group's copy comes besides the others: both were decided on one state, and the second finds what the
    /// first has left.
    #[test]
    fn copies_for_one_inbox_replay_as_they_came(
        messages_max in 1..6u32,
        bytes_max in 20..200u64,
        age_max_ms in prop_oneof![Just(0), Just(50u64)],
        policy in prop_oneof![Just(InboxPolicy::DropOldest), Just(InboxPolicy::DropNewest), Just(InboxPolicy::Refuse)],
        moves in proptest::collection::vec((0..60usize, proptest::collection::vec(0..2u32, 1..5), 0..9u64), 1..40),
    ) {
        let mut shard = Shard::new();
        (shard.limits.messages_max, shard.limits.bytes_max) = (messages_max, bytes_max);
        (shard.limits.age_max_ms, shard.limits.policy) = (age_max_ms, policy);
        for client_id in ["a", "b"] {
            let (client_id, owner) = (client_id.into(), None);
            let opened = shard.ask(&Command::OpenSession { client_id, owner, expiry_s: 9, will: None });
            prop_assert!(opened.is_ok());
        }
        for (size, slots, number) in moves {
            let receiver = |slot| Receiver { slot: Slot(slot), qos: 1, retain: false, subscription_ids: [].into() };
            let receivers = slots.into_iter().map(receiver).collect();
            let message = message("t", &"x".repeat(size), 1, None);
            let _ = shard.ask(&Command::Publish { message, receivers, origin: None, unheeded: [].into() });
            let number = shard.topics.inbox(Slot(0)).front_number() + number;
            let _ = shard.ask(&Command::MarkReceived { slot: Slot(0), number });
            shard.topics.assert_sound();
        }
        shard.check();
    }
}
