//! Wills: each is known to its receivers by the record that brought it, and stays due until all who must keep it have
//! it.
//!
//! ```text
//!   of a session that outlives its connection   due ─▶ sent ─ all have it ─▶ ClearWill ─durable─▶ origin forgotten
//!   of one that has ended                              sent ─ all have it ─▶ origin forgotten, when no record has it
//!                                                       └── no room ─▶ waits, its owner pays ─▶ sent again
//! ```
//!
//! What names a will is the record that brought it, so that no other is taken for it. A session that ends with its
//! connection has none: its will gets a name that is drawn, and after a crash nobody sends it. Names that a crash left
//! behind are forgotten at the start.
//!
//! A client that comes back while its will is under way waits until all have it, for a while (`will_wait.rs`). After
//! that, or if somebody has no room for the will, only this keeps it, and its owner pays.
//!
//! Why an origin is not forgotten before its record is gone: after a crash the will would be due again, and be kept
//! twice by who has it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Kept, Message, MessageMeta, Origin, Session as SessionState, Slot, Will};
use tidegate_planted::{Bug, is_planted};
use tidegate_wire::mqtt::Connect;

use super::Broker;
use super::due::DueThing;
use crate::ConnectionKey;
use crate::acknowledgements::{Completion, WorkerSet};
use crate::connection::ParkedFor;
use crate::holdings::{Holder, Paid, Thing};
use crate::index::{SessionIndex, ShardPlace};
use crate::limits::{DUE_AGAIN_MS, DUE_PER_STEP};
use crate::message_ref::MessageRef;
use crate::peer::{Item, Source};
use crate::shards::Wait;

/// Names that are drawn have this bit, and sequences of records do not.
const DRAWN_NAME: u64 = 1 << 63;

/// Where the record of a will is found.
#[derive(Clone, Copy, Debug)]
struct KeptBy {
    shard: ShardPlace,
    slot: Slot,
    record: u64,
}

/// A will that was sent, and may not be kept by all who must keep it.
#[derive(Debug)]
struct SentWill {
    message: Arc<Message>,
    payer: Option<Holder>,
    /// The [`Source::client`] that it comes from.
    client: u64,
    /// Its place among the retained messages.
    place: Option<Paid>,
    /// The session whose shard keeps it until it is over; `None`: only this does.
    kept_by: Option<KeptBy>,
    /// Its record may still be on the disk, so that it would be sent again after a crash.
    is_recorded: bool,
    /// Words about it are to come; else it waits for room.
    is_under_way: bool,
    /// A shard has failed: nobody knows who has it.
    is_unknown: bool,
    /// What is paid for it while only this keeps it and it waits.
    waits: Option<Paid>,
    /// Whose shards may know its origin.
    workers: WorkerSet,
    /// The CONNECT that waits for it.
    comer: Option<ConnectionKey>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Wills {
    sent: HashMap<Origin, SentWill>,
    /// Those that wait for room.
    waiting: VecDeque<Origin>,
    /// When some of them are sent again: no sooner after one of them found no room. So a full disk is asked by a few.
    again_at: TimeMs,
    /// Until when each CONNECT waits at most that came while the will of its session was under way, in order. Some wait
    /// no more.
    comers: VecDeque<(TimeMs, ConnectionKey)>,
}

impl Wills {
    /// Whether it was sent, and it is not known that all have it.
    pub fn are_sending(&self, name: Origin) -> bool {
        self.sent.contains_key(&name)
    }

    /// Whether it is on record with its session, and on its way to all who must keep it, or who of them has it is not
    /// known.
    pub fn is_recorded_under_way(&self, name: Origin) -> bool {
        self.sent.get(&name).is_some_and(|sent| (sent.is_under_way || sent.is_unknown) && sent.kept_by.is_some())
    }

    /// A CONNECT waits for this will, until then at most.
    pub fn wait(&mut self, name: Origin, comer: ConnectionKey, until: TimeMs) {
        let sent = self.sent.get_mut(&name).expect("a will that is waited for is under way");
        assert!(sent.comer.replace(comer).is_none(), "the one before has lost");
        self.comers.push_back((until, comer));
    }

    /// The CONNECT that waits for this will; some may not wait any more.
    pub fn take_comer(&mut self, name: Origin) -> Option<ConnectionKey> {
        self.sent.get_mut(&name)?.comer.take()
    }

    /// The next CONNECT whose time is over, if it still waits.
    pub fn take_outwaited(&mut self, now: TimeMs) -> Option<ConnectionKey> {
        let is_over = self.comers.front().is_some_and(|(until, _)| *until <= now);
        if is_over { self.comers.pop_front().map(|(_, comer)| comer) } else { None }
    }

    /// The CONNECTs that wait for wills; some may be gone, or wait no more.
    pub fn comers(&self) -> impl Iterator<Item = ConnectionKey> {
        self.sent.values().filter_map(|sent| sent.comer)
    }

    /// Panics if one is forgotten, or waits twice. Visits everything: for tests and simulation.
    pub fn assert_sound(&self) {
        let waiting: BTreeSet<Origin> = self.waiting.iter().copied().collect();
        assert_eq!(waiting.len(), self.waiting.len(), "a will waits once");
        for (name, sent) in &self.sent {
            assert!(sent.is_under_way != waiting.contains(name), "a will is under way or waits: {name:?}");
            assert!(sent.is_under_way || sent.kept_by.is_some() || sent.waits.is_some(), "who waits is paid for");
        }
    }
}

impl<L: LogStore> Broker<L> {
    /// What names the will of a session in the shard of this place.
    pub(super) fn name_of_will(&self, shard: ShardPlace, state: &SessionState) -> Option<Origin> {
        let record = state.will_record()?;
        let record = if is_planted(Bug::WillNamedBySession) { state.incarnation() } else { record };
        Some(Origin::of_record(self.shards.number(shard).0, record))
    }

    /// A durable session's will, whose delay has passed.
    /// `[MQTT-3.1.3-9]`: a client that reconnects before the will delay has passed: the will is not sent.
    pub(super) fn send_due_will(&mut self, shard: ShardPlace, place: SessionIndex, slot: Slot, now: TimeMs) {
        let session = &self.clients.sessions[place];
        let Some(state) = self.shards.state(shard).session(slot) else { return };
        let (Some(will), Some(name)) = (state.will(), self.name_of_will(shard, state)) else { return };
        let thing = DueThing::Will { shard, name };
        if session.connection.is_some() || self.timing.wills.are_sending(name) || self.timing.again.is_over(thing) {
            return;
        }
        let sent = SentWill {
            message: published(will, now),
            payer: session.owner.clone(),
            client: self.share_hash_of(&session.client_id),
            place: self.retained.will_places.remove(&place),
            kept_by: state.will_record().map(|record| KeptBy { shard, slot, record }),
            is_recorded: true,
            is_under_way: true,
            is_unknown: false,
            waits: None,
            workers: WorkerSet::NONE,
            comer: None,
        };
        let owner = sent.payer.as_ref().map(Holder::principal);
        let client_id = self.clients.sessions[place].client_id.clone();
        if self.may_still_publish(owner, Some(&client_id), sent.message.topic()) {
            self.begin_will(name, sent, now);
        } else {
            // It is over without having been sent to anybody.
            self.timing.wills.sent.insert(name, sent);
            self.will_sent(name, now);
        }
    }

    /// The will of a session is not to be sent any more, which its shard is about to be told: until it knows, on a slow
    /// or a full disk, the will still stands there, and may seem to be due.
    pub(super) fn take_will_back(&mut self, shard: ShardPlace, slot: Slot) -> Wait {
        let state = self.shards.state(shard).session(slot).filter(|state| state.will().is_some());
        let Some(name) = state.and_then(|state| self.name_of_will(shard, state)) else { return Wait::Nothing };
        let thing = DueThing::Will { shard, name };
        self.timing.again.note(thing);
        Wait::Noted { thing, origin: None, paid: None }
    }

    /// Sends the will of a session whose client comes back after the will was to be sent: when it was gone because the
    /// server was, that had no time for it.
    pub(super) fn send_overdue_will(&mut self, place: SessionIndex, now: TimeMs) {
        let session = &self.clients.sessions[place];
        let (shard, Some(slot)) = (session.shard, session.slot) else { return };
        let Some(state) = self.shards.state(shard).session(slot) else { return };
        let Some(delay_s) = state.will().map(|will| will.delay_s) else { return };
        let due_at = |gone: TimeMs| TimeMs(gone.0 + u64::from(delay_s) * 1_000);
        if is_planted(Bug::OverdueWillDropped) {
            return;
        }
        if delay_s == 0 || state.detached_at().is_some_and(|gone| due_at(gone) <= now) {
            self.send_due_will(shard, place, slot, now);
        }
    }

    /// Sends the will of a session that is about to end, whether or not its delay has passed.
    pub(super) fn send_pending_will(&mut self, place: SessionIndex, now: TimeMs) {
        let session = &self.clients.sessions[place];
        if let (shard, Some(slot)) = (session.shard, session.slot) {
            self.send_due_will(shard, place, slot, now);
        }
    }

    /// Sends the will of a session that ends now, whose shard had it under this name; `None`: it had none. `place`: its
    /// place among the retained messages.
    pub(super) fn send_will(
        &mut self,
        will: &Will,
        client_id: &str,
        payer: Option<Holder>,
        recorded: Option<Origin>,
        place: Option<Paid>,
        now: TimeMs,
    ) {
        if !self.may_still_publish(payer.as_ref().map(Holder::principal), Some(client_id), will.message.topic()) {
            return;
        }
        let message = published(will, now);
        if recorded.is_none() && message.qos() == 0 && !message.retain() {
            // Nobody keeps it.
            let source = Source { client: self.share_hash_of(client_id), ..Source::default() };
            self.route(&mut MessageRef::of(&message), &source, now);
            return;
        }
        let name = recorded.unwrap_or_else(|| self.draw_name());
        let is_recorded = recorded.is_some();
        let sent = SentWill {
            message,
            payer,
            client: self.share_hash_of(client_id),
            place,
            kept_by: None,
            is_recorded,
            is_under_way: true,
            is_unknown: false,
            waits: None,
            workers: WorkerSet::NONE,
            comer: None,
        };
        self.begin_will(name, sent, now);
    }

    /// A name that no will has, nor had before the start.
    fn draw_name(&mut self) -> Origin {
        let shard = self.shards.places().next().map_or(0, |first| self.shards.number(first).0);
        Origin::of_record(shard, DRAWN_NAME | self.random.next())
    }

    fn begin_will(&mut self, name: Origin, sent: SentWill, now: TimeMs) {
        let before = self.timing.wills.sent.insert(name, sent);
        assert!(before.is_none(), "a will is sent once: {name:?}");
        self.route_will(name, false, now);
    }

    /// Brings a will to its receivers. `is_again`: who keeps nothing has it.
    fn route_will(&mut self, name: Origin, is_again: bool, now: TimeMs) {
        let sent = self.timing.wills.sent.get_mut(&name).expect("it is sent until all have it");
        sent.is_under_way = true;
        let message = Arc::clone(&sent.message);
        let has_place = sent.place.is_some();
        let mut message_ref = MessageRef::of(&message).paid_by(sent.payer.clone(), has_place);
        let (collected, ack_to) = self.acknowledgements.begin(Completion::ForgetWill { name });
        // One that is retained may not have reached anybody.
        let is_again = is_again && !message.retain();
        let source =
            Source { origin: Some(name), ack_to: Some(ack_to), is_again, client: sent.client, ..Source::default() };
        let routed = self.route(&mut message_ref, &source, now);
        let sent = self.timing.wills.sent.get_mut(&name).expect("its words are not counted yet");
        sent.workers.add_all(routed.awaited.origins());
        self.expect_words(collected, routed.awaited.words(), now);
    }

    /// Sends again some of what waits for room.
    pub(super) fn step_wills(&mut self, now: TimeMs) {
        let is_time = self.timing.wills.again_at <= now;
        let count = if is_time { self.timing.wills.waiting.len().min(DUE_PER_STEP) } else { 0 };
        for _ in 0..count {
            let name = self.timing.wills.waiting.pop_front().expect("so many wait");
            // It may have been given up meanwhile.
            if self.timing.wills.are_sending(name) {
                self.route_will(name, true, now);
            }
        }
        self.clients.facts.wills_waiting = self.timing.wills.waiting.len() as u64;
    }

    /// A will is durable with all its receivers: it need not be sent again after a crash.
    pub(super) fn will_sent(&mut self, name: Origin, now: TimeMs) {
        let sent = self.timing.wills.sent.remove(&name).expect("its words were counted once");
        if is_planted(Bug::WillForgottenEarly) {
            self.forget_origin_everywhere(name);
        }
        match sent.kept_by {
            Some(KeptBy { shard, slot, record }) => {
                let thing = DueThing::Will { shard, name };
                self.timing.again.note(thing);
                let wait = Wait::Noted { thing, origin: Some(name), paid: None };
                self.shards.call(shard, Command::ClearWill { slot, record }, wait);
            }
            // When its record is gone, that is forgotten as well.
            None if sent.is_recorded => {}
            None => self.forget_will(name, sent.workers),
        }
        self.resume_comer(sent.comer, ParkedFor::SentWill, now);
    }

    /// A will could not be kept by all of its receivers: it is sent again. Those who took it know its origin.
    /// `is_unknown`: a shard has failed. Then its record is all that is sure of it, and nobody replaces that sooner.
    pub(super) fn will_stays_due(&mut self, name: Origin, is_unknown: bool, now: TimeMs) {
        let sent = self.timing.wills.sent.get_mut(&name).expect("its words were counted once");
        sent.is_under_way = false;
        sent.is_unknown |= is_unknown;
        if self.pay_for_wait(name) {
            self.timing.wills.waiting.push_back(name);
            self.timing.wills.again_at = TimeMs(now.0 + DUE_AGAIN_MS);
        }
        if !is_unknown {
            let comer = self.timing.wills.take_comer(name);
            self.resume_comer(comer, ParkedFor::SentWill, now);
        }
    }

    /// Lets the owner of a will pay for it that waits and that no shard keeps. One that cannot be paid for is given up.
    /// Whether it may wait.
    fn pay_for_wait(&mut self, name: Origin) -> bool {
        let sent = self.timing.wills.sent.get_mut(&name).expect("it was just looked at");
        if sent.is_under_way || sent.kept_by.is_some() || sent.waits.is_some() {
            return true;
        }
        let bytes = |payer: &Holder| Kept::delayed_memory_bytes(&sent.message, payer.principal());
        sent.waits = sent.payer.as_ref().and_then(|payer| payer.hold(Thing::Delayed, 1, bytes(payer)).ok());
        if sent.waits.is_some() {
            return true;
        }
        let sent = self.timing.wills.sent.remove(&name).expect("it was just looked at");
        self.clients.facts.dropped_disk_full += 1;
        if !sent.is_recorded {
            self.forget_will(name, sent.workers);
        }
        false
    }

    /// No session keeps this will any more: it ends, or has another one.
    pub(super) fn will_is_left(&mut self, name: Origin) {
        if let Some(sent) = self.timing.wills.sent.get_mut(&name) {
            sent.kept_by = None;
            let comer = sent.comer.take();
            self.pay_for_wait(name);
            self.resume_comer_later(comer, ParkedFor::SentWill);
        }
    }

    /// The record of a will is gone from the disk: its origin is forgotten, unless it is being sent.
    pub(super) fn will_is_unrecorded(&mut self, name: Origin) {
        self.will_is_left(name);
        match self.timing.wills.sent.get_mut(&name) {
            Some(sent) => sent.is_recorded = false,
            None => self.forget_origin_everywhere(name),
        }
    }

    /// Whether shards may know a will of a session by its name: it is being sent, or the process before may have.
    pub(super) fn may_be_known(&self, name: Origin, is_recovered: bool) -> bool {
        is_recovered || self.timing.wills.are_sending(name)
    }

    fn forget_will(&mut self, name: Origin, workers: WorkerSet) {
        for worker in self.peers.others().filter(|worker| workers.has(*worker)) {
            self.peers.send_to(worker, Item::ForgetOrigin { origin: name, ack_to: None });
        }
        if workers.has(self.options.worker) {
            self.shards.call_all(|| Command::ForgetOrigin(name), || Wait::Nothing);
        }
    }

    /// Which wills and delayed messages the shards here know, found at the start: those who keep them are asked whether
    /// they still do.
    pub(super) fn tell_names(&mut self) {
        let states = self.shards.places().map(|shard| self.shards.state(shard));
        let first_part = |origin: Origin| Origin { part: 0, ..origin };
        let names: BTreeSet<Origin> = states.flat_map(|state| state.origins_of_records()).map(first_part).collect();
        if names.is_empty() {
            return;
        }
        let names: Arc<[Origin]> = names.into_iter().collect();
        self.peers.broadcast(|| Item::Names { names: Arc::clone(&names) });
        self.forget_names(&names);
    }

    /// Forgets those of these names whose shard lives here and keeps nothing of that name any more: it was over, and
    /// the process ended before all had forgotten it.
    pub(super) fn forget_names(&mut self, names: &[Origin]) {
        for shard in self.shards.places() {
            let number = self.shards.number(shard).0;
            let of_shard: Vec<Origin> = names.iter().copied().filter(|name| name.shard == number).collect();
            if of_shard.is_empty() {
                continue;
            }
            let state = self.shards.state(shard);
            let wills: HashSet<u64> = state.sessions().filter_map(|(_, session)| session.will_record()).collect();
            let is_kept =
                |name: &Origin| wills.contains(&name.incarnation) || state.delayed(name.incarnation).is_some();
            let over: Vec<Origin> = of_shard.into_iter().filter(|name| !is_kept(name)).collect();
            over.into_iter().for_each(|name| self.forget_origin_everywhere(name));
        }
    }

    /// The will of a CONNECT, as it is kept.
    pub(super) fn will(&mut self, connect: &Connect<'_>) -> Option<Will> {
        let will = connect.will.as_ref()?;
        let mut properties = Vec::new();
        will.properties.forwardable(&mut properties);
        let meta = MessageMeta { qos: will.qos as u8, retain: will.retain, expires_at: None };
        let message = Arc::new(Message::new(will.topic, &properties, will.payload, meta));
        Some(Will { message, delay_s: will.delay_s, expiry_s: will.properties.message_expiry_s })
    }
}

/// A will as it is published now: its expiry counts from here.
fn published(will: &Will, now: TimeMs) -> Arc<Message> {
    let Some(expiry_s) = will.expiry_s else { return Arc::clone(&will.message) };
    let message = &will.message;
    let expires_at = Some(TimeMs(now.0 + u64::from(expiry_s) * 1000));
    let meta = MessageMeta { qos: message.qos(), retain: message.retain(), expires_at };
    Arc::new(Message::new(message.topic(), message.properties(), message.payload(), meta))
}
