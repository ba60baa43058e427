//! Retained messages: journaled by the shard of their topic and sent to all workers. `retained_scan.rs` sends them to
//! new subscriptions.
//!
//! ```text
//!   PUBLISH retain ─▶ shard_of(topic)'s worker ─▶ journal ─▶ broadcast ─▶ each: replica and receivers, in one step
//! ```
//!
//! Why through one worker: two publications on one topic then reach every replica in the same order. Why in one step:
//! otherwise a client that subscribes between the two changes would miss the message, or get an old one after a new
//! one.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Kept, Message, MessageMeta, Will};
use tidegate_machines::weight::in_table;
use tidegate_wire::mqtt::ReasonCode;

use super::retain_order::RetainsInFlight;
use super::retained_scan::Scans;
use super::{Broker, Routed};
use crate::acknowledgements::{Awaited, Word};
use crate::holdings::{DelayedBytes, Exceeded, Holder, Paid, Thing};
use crate::index::SessionIndex;
use crate::limits::DUE_PER_STEP;
use crate::message_ref::MessageRef;
use crate::peer::{Item, Source};
use crate::retained::{Retainable, Retained};
use crate::shards::Wait;
use crate::share::Picked;

/// A retained message as the replica keeps it.
#[derive(Clone, Debug)]
pub(crate) struct RetainedMessage(pub Arc<Message>);

impl Retainable for RetainedMessage {
    fn expires_at_ms(&self) -> Option<u64> {
        self.0.expires_at().map(|at| at.0)
    }

    fn bytes(&self) -> usize {
        self.0.topic().len() + self.0.properties().len() + self.0.payload().len()
    }
}

/// The retained messages of all workers, and those on their way.
pub(super) struct RetainedMessages {
    /// This worker's replica.
    pub messages: Retained<RetainedMessage>,
    /// New subscriptions on their way through it.
    pub scans: Scans,
    /// Messages for this worker's shards that wait for their records.
    pub in_flight: usize,
    /// Those of this worker's sessions that have not come back.
    pub order: RetainsInFlight,
    /// What was paid for those whose topic's shard lives here, by hash of the topic.
    paid: HashMap<u64, Paid>,
    /// What was paid for the places of wills that are not sent yet.
    pub will_places: HashMap<SessionIndex, Paid>,
    hasher: foldhash::quality::RandomState,
    workers: u16,
}

impl RetainedMessages {
    /// None yet. `seed` must not be known to clients.
    pub fn new(seed: u64, workers: u16) -> RetainedMessages {
        RetainedMessages {
            messages: Retained::new(seed),
            scans: Scans::default(),
            in_flight: 0,
            order: RetainsInFlight::default(),
            paid: HashMap::new(),
            will_places: HashMap::new(),
            hasher: foldhash::quality::RandomState::default(),
            workers,
        }
    }

    /// What a message takes that is retained for `payer`: in its shard, here, and in the replica of each worker. All
    /// levels of its topic count, though others may share them: it may be the last that keeps them.
    pub fn bytes_of(&self, message: &Message, payer: &Holder) -> u64 {
        let replica = Retained::<RetainedMessage>::bytes_of_new(message.topic(), message.expires_at().is_some());
        Kept::memory_bytes(message, payer.principal())
            + in_table(size_of::<(u64, Paid)>())
            + u64::from(self.workers) * replica as u64
    }

    /// What a message takes that is delayed for `payer`, and its place if it is to be retained then.
    pub fn bytes_of_delayed(&self, message: &Message, payer: &Holder) -> DelayedBytes {
        let in_place = is_to_be_kept(message).then(|| self.bytes_of(message, payer));
        (Kept::delayed_memory_bytes(message, payer.principal()), in_place)
    }

    /// Lets somebody pay for a message that is to be retained, if the bounds allow it. Who replaces its own pays for
    /// what is more; a message without payload costs nothing. Who has paid for the place before is let in.
    fn pay(&self, message: &Message, (payer, has_place): Payer) -> Result<Option<Paid>, Exceeded> {
        let Some(payer) = payer.filter(|_| !message.payload().is_empty()) else { return Ok(None) };
        let bytes = self.bytes_of(message, &payer);
        if has_place {
            return Ok(Some(payer.charge(Thing::Retained, 1, bytes)));
        }
        pay_instead(&payer, bytes, self.paid.get(&self.topic(message.topic()))).map(Some)
    }

    /// Lets the owner of a session pay for the place that its will takes when it is retained, instead of what was paid
    /// for the will of the session before; `None` if it is not to be retained.
    pub fn pay_for_will(
        &self,
        will: Option<&Will>,
        owner: &Holder,
        session: Option<SessionIndex>,
    ) -> Result<Option<Paid>, Exceeded> {
        let Some(will) = will.filter(|will| is_to_be_kept(&will.message)) else { return Ok(None) };
        let before = session.and_then(|session| self.will_places.get(&session));
        pay_instead(owner, self.bytes_of(&will.message, owner), before).map(Some)
    }

    /// What is paid from now on for the place of a session's will. Returns what was paid before.
    pub fn set_will_place(&mut self, session: SessionIndex, paid: Option<Paid>) -> Option<Paid> {
        match paid {
            Some(paid) => self.will_places.insert(session, paid),
            None => self.will_places.remove(&session),
        }
    }

    /// A message is retained, and this was paid for it; what was paid for the one before is not any more.
    fn is_paid(&mut self, message: &Message, paid: Option<Paid>) {
        let topic = self.topic(message.topic());
        match paid {
            Some(paid) => drop(self.paid.insert(topic, paid)),
            None => drop(self.paid.remove(&topic)),
        }
    }

    /// One that was found on the disk.
    pub fn was_paid(&mut self, message: &Message, payer: &Holder) {
        let paid = payer.charge(Thing::Retained, 1, self.bytes_of(message, payer));
        self.is_paid(message, Some(paid));
    }

    fn topic(&self, topic: &str) -> u64 {
        self.hasher.hash_one(topic)
    }

    /// Panics if replica and scans disagree, beside which operators have so many cursors open. Visits everything: for
    /// tests and simulation.
    pub fn assert_sound(&self, cursors: usize) {
        self.messages.assert_sound(self.scans.cursors() + cursors);
        self.scans.assert_sound();
    }
}

/// Who pays for a message that is retained, and whether it has paid for its place before.
type Payer = (Option<Holder>, bool);

/// Lets somebody pay for so many bytes among the retained messages, and not for what it replaces if that is its own.
fn pay_instead(payer: &Holder, bytes: u64, replaced: Option<&Paid>) -> Result<Paid, Exceeded> {
    let own = replaced.filter(|paid| paid.by() == payer);
    let more = own.map_or((1, bytes), |own| (0, bytes.saturating_sub(own.bytes())));
    let room = payer.hold(Thing::Retained, more.0, more.1)?;
    let paid = payer.charge(Thing::Retained, 1, bytes);
    drop(room);
    Ok(paid)
}

/// Whether a message takes a place among the retained ones when it is published.
pub(super) fn is_to_be_kept(message: &Message) -> bool {
    message.retain() && !message.payload().is_empty() && Retained::<RetainedMessage>::admits(message.topic())
}

impl<L: LogStore> Broker<L> {
    /// A publication with the retain flag goes to the worker of its topic.
    /// `[MQTT-3.3.1-5]`: a retained message replaces the one before on its topic.
    pub(super) fn retain(&mut self, message_ref: &mut MessageRef<'_>, source: &Source, now: TimeMs) -> Routed {
        let message = message_ref.shared_message();
        self.retain_begins(source, message_ref.topic);
        let payer = message_ref.payer.take().or_else(|| self.payer_of(source));
        let has_place = message_ref.has_place;
        let worker = self.options.worker_of(message_ref.topic);
        if worker == self.options.worker {
            // Its word would come before anybody waits for it.
            if self.retain_here(message, *source, (payer, has_place), now).is_err() {
                self.retain_ends(source, message_ref.topic);
                return Routed { refused: Some(ReasonCode::QUOTA_EXCEEDED), ..Routed::default() };
            }
        } else {
            self.peers.send_to(worker, Item::Retain { message, source: *source, payer, has_place });
        }
        // Each worker says when its own receivers' records are durable.
        Routed {
            awaited: Awaited::of_each_worker(self.options.workers(), source.ack_to.is_some()),
            matched: true,
            refused: None,
        }
    }

    /// The same for another worker, which is told.
    pub(super) fn retain_for_peer(&mut self, message: Arc<Message>, source: Source, payer: Payer, now: TimeMs) {
        if self.retain_here(message.clone(), source, payer, now).is_err() {
            self.not_retained(message, source, Word::Refused(ReasonCode::QUOTA_EXCEEDED), now);
        }
    }

    /// Journals a retained message whose topic's shard lives here.
    fn retain_here(
        &mut self,
        message: Arc<Message>,
        source: Source,
        payer: Payer,
        now: TimeMs,
    ) -> Result<(), Exceeded> {
        let shard = self.options.place_of(message.topic());
        assert!(usize::from(shard.0) < self.shards.len(), "the topic's shard is one of this worker's");
        let owner = payer.0.as_ref().map(|payer| payer.principal().clone());
        let paid =
            self.retained.pay(&message, payer).inspect_err(|_exceeded| self.clients.facts.retained_refused += 1)?;
        let is_live = message.qos() == 0 && self.retained.in_flight == 0;
        let command = Command::Retain { message: Arc::clone(&message), owner };
        if is_live {
            // QoS 0 needs no durability, so it is not delayed by the disk, unless an earlier retained message is: then
            // the order must be kept.
            self.retained.is_paid(&message, paid);
            self.broadcast_retained(message, source, now);
            self.shards.call(shard, command, Wait::Published { ack_to: None, asked: [].into(), unheeded: [].into() });
        } else {
            self.retained.in_flight += 1;
            self.shards.call(shard, command, Wait::Retained { message, source, paid });
        }
        Ok(())
    }

    /// A retained message is durable, or refused.
    pub(super) fn retained(
        &mut self,
        message: Arc<Message>,
        source: Source,
        paid: Option<Paid>,
        word: Word,
        now: TimeMs,
    ) {
        assert!(self.retained.in_flight > 0, "what is durable was on its way");
        self.retained.in_flight -= 1;
        if word == Word::Durable {
            self.retained.is_paid(&message, paid);
            return self.broadcast_retained(message, source, now);
        }
        self.not_retained(message, source, word, now);
    }

    /// Tells who must know that a message is not retained, and brought to nobody.
    fn not_retained(&mut self, message: Arc<Message>, source: Source, word: Word, now: TimeMs) {
        match source.publisher {
            Some(publisher) if publisher.worker != self.options.worker => {
                self.peers.send_to(publisher.worker, Item::NotRetained { message, source });
            }
            _ => self.retain_ends(&source, message.topic()),
        }
        // The message was not sent to any worker, so no worker will acknowledge: acknowledge for all of them.
        if let Some(ack_to) = source.ack_to {
            for _ in 0..self.options.workers() {
                self.send_ack_to(ack_to, word, now);
            }
        }
    }

    /// Tells all workers, this one included. Members of share groups are picked once, here.
    fn broadcast_retained(&mut self, message: Arc<Message>, source: Source, now: TimeMs) {
        let mut found = std::mem::take(&mut self.routing.matches);
        self.subscriptions.matches(message.topic(), source.client, &mut found);
        self.routing.steps += found.visits() as u64;
        let picked: Box<[Picked]> = found.picked().into();
        self.routing.matches = found;
        self.tell_retained(message, picked, source, now);
    }

    fn tell_retained(&mut self, message: Arc<Message>, picked: Box<[Picked]>, source: Source, now: TimeMs) {
        self.peers.broadcast(|| Item::Retained { message: Arc::clone(&message), picked: picked.clone(), source });
        self.set_retained(&message, &picked, source, now);
    }

    /// Changes this worker's replica and delivers to its sessions, in one step.
    pub(super) fn set_retained(&mut self, message: &Arc<Message>, picked: &[Picked], source: Source, now: TimeMs) {
        self.retain_ends(&source, message.topic());
        // [MQTT-3.3.1-6]: a retained message without payload is delivered, and deletes the retained message of its
        // topic.
        // [MQTT-3.3.1-7]: a message without payload is not stored as a retained message.
        let before = match message.payload().is_empty() {
            true => self.retained.messages.clear(message.topic()),
            false => self.retained.messages.set(message.topic(), RetainedMessage(Arc::clone(message))),
        };
        let own = self.options.worker as u8;
        let mut found = std::mem::take(&mut self.routing.matches);
        self.subscriptions.matches_of_worker(message.topic(), own, &mut found);
        self.routing.steps += found.visits() as u64;
        let gathered = self.gather(&source, picked);
        let mut message_ref = MessageRef::of(message);
        // The server announces on some topics only what somebody subscribes to. The first message there is the answer
        // to that subscription.
        message_ref.was_awaited = source == Source::default() && before.is_none();
        let picked = picked.iter().filter(|picked| picked.entry.worker == own);
        let acks = self.deliver_here(
            &mut message_ref,
            found.receivers(own),
            picked,
            found.filters() > 1,
            &gathered.source,
            now,
        );
        self.routing.matches = found;
        self.expect(&gathered, acks, now);
    }

    /// Publishes a message of the server's own (such as `$SYS`), QoS 0, not journaled; an empty retained payload
    /// clears.
    pub fn announce(&mut self, topic: &str, payload: &[u8], retained: bool, now: TimeMs) {
        let meta = MessageMeta { qos: 0, retain: retained, expires_at: None };
        if retained {
            let message = Arc::new(Message::new(topic, &[], payload, meta));
            self.broadcast_retained(message, Source::default(), now);
        } else {
            self.route(&mut MessageRef::new(topic, &[], payload, meta), &Source::default(), now);
        }
    }

    /// The same for a retained message that is not news, but made because somebody has subscribed. Share groups do not
    /// get it (MQTT 5, 3.3.1.3).
    pub fn answer_with_retained(&mut self, topic: &str, payload: &[u8], now: TimeMs) {
        let meta = MessageMeta { qos: 0, retain: true, expires_at: None };
        self.tell_retained(Arc::new(Message::new(topic, &[], payload, meta)), [].into(), Source::default(), now);
    }

    /// Forgets what has expired: in this worker's replica, and in the shards that live here.
    pub(super) fn step_expired(&mut self, now: TimeMs) {
        // A message that waits for its record may be a newer one on the same topic, which must not be cleared with the
        // old one.
        if self.retained.in_flight > 0 {
            return;
        }
        let mut gone: Vec<Arc<Message>> = Vec::new();
        self.retained.messages.expire(now.0, DUE_PER_STEP, |RetainedMessage(message)| gone.push(message));
        for message in gone {
            self.retained.paid.remove(&self.retained.topic(message.topic()));
            if self.options.worker_of(message.topic()) == self.options.worker {
                let place = self.options.place_of(message.topic());
                let clear = Message::new(message.topic(), &[], &[], MessageMeta { expires_at: None, ..message.meta() });
                self.shards.call(place, Command::Retain { message: Arc::new(clear), owner: None }, Wait::Nothing);
            }
        }
    }
}
