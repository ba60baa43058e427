//! Clients: what they ask next, and what they hold.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use tidegate_machines::TimeMs;
use tidegate_queue::machine::{Message, MessageKey, Rejection, Settings, StandingSettings, When};
use tidegate_queue::{Browse, Call, Note, QueueFilter, QueueService, Read, Receive, RequestTicket};
use tidegate_shard::Caller;

use super::ask::{Ask, Asked, Held};
use super::content::{Content, Drawn};
use super::oracle::Oracle;
use super::plan::{DEAD, OWNERS, Plan, QUEUES_PER_SHARD, RETRY, SCHEDULE, SHORT, TIMED, WISHES, Wish};
use crate::chance::Chance;
use crate::harness::{Shards, Site, Store};
use crate::note;

/// The process: shards of queues, whose clients know a request by a number.
pub type Node<S> = Shards<QueueService<Numbered>, S>;

/// What a client knows a request by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered(pub u64);

impl RequestTicket for Numbered {
    /// Three callers, who take turns.
    fn caller(&self) -> Caller {
        Caller((self.0 % 3) as u32)
    }
}

/// Ticks of calm in which messages are still sent.
pub const CALM_TICKS: u64 = 120;
/// Receivers that wait for one queue at once.
const RECEIVERS: usize = 3;
/// Messages that each gets.
const RECEIVED_MAX: usize = 8;
/// Bytes of one send beside its last message, at most.
const SEND_BYTES: usize = 4 << 10;
/// Leases of those who take what is left: longer than a slow log needs to note them. Shorter ones would end before
/// anybody heard of them, for ever.
const DRAIN_LEASE_MS: u64 = 5_000;
/// Leases that clients keep in mind.
const HELD_MAX: usize = 200;

/// The clients.
pub struct Clients {
    pub plan: Plan,
    /// Requests under way.
    pub asked: BTreeMap<u64, Asked>,
    pub held: Vec<Held>,
    tickets: u64,
    receivers: Vec<usize>,
}

impl Clients {
    /// Clients that have asked nothing yet.
    pub fn new(plan: Plan) -> Clients {
        let receivers = vec![0; usize::from(plan.shards) * QUEUES_PER_SHARD];
        Clients { plan, asked: BTreeMap::new(), held: Vec::new(), tickets: 0, receivers }
    }

    /// The process has ended: nobody hears an answer any more.
    pub fn ended(&mut self) -> BTreeMap<u64, Asked> {
        self.receivers.iter_mut().for_each(|count| *count = 0);
        std::mem::take(&mut self.asked)
    }

    /// Takes a request off those under way, because it is answered.
    pub fn answered(&mut self, ticket: u64) -> Option<Asked> {
        let asked = self.asked.remove(&ticket)?;
        if let (Ask::Receive { queue, .. }, false) = (&asked.ask, asked.is_forgotten) {
            self.receivers[*queue] -= 1;
        }
        Some(asked)
    }

    /// Whether requests are under way that are answered in any case.
    pub fn waits(&self) -> bool {
        self.asked.values().any(|asked| !matches!(asked.ask, Ask::Receive { .. }))
    }

    /// Keeps leases in mind.
    pub fn hold(&mut self, held: impl IntoIterator<Item = Held>) {
        self.held.extend(held);
        let surplus = self.held.len().saturating_sub(HELD_MAX);
        self.held.drain(..surplus);
    }

    fn ask<S: Store>(
        &mut self,
        site: &mut Site<S>,
        node: &mut Node<S>,
        oracle: &mut Oracle,
        ask: Ask,
        request: Request,
    ) {
        self.tickets += 1;
        let ticket = self.tickets;
        note!(site.trace, "ask {ticket}: {ask:?}");
        oracle.asked(ticket, &ask);
        match request {
            Request::Call(shard, call) => node.call(shard, Numbered(ticket), call),
            Request::Receive(shard, receive) => node.note(shard, Note::Receive(Numbered(ticket), receive)),
        }
        self.asked.insert(ticket, Asked { ask, at: oracle.now, is_forgotten: false });
    }

    /// Makes the queues that are not there, and lets those go on that rest in calm.
    pub fn make_queues<S: Store>(&mut self, site: &mut Site<S>, node: &mut Node<S>, oracle: &mut Oracle) {
        for queue in (0..oracle.queues.len()).rev() {
            let of = &oracle.queues[queue];
            let is_needed = of.made_at.is_none() || site.is_calm() && of.may_rest;
            if !of.is_changing && is_needed && (site.is_calm() || site.chance.happens(100)) {
                self.make(site, node, oracle, queue, false);
            }
            let of = &oracle.queues[queue];
            let has_none = queue % QUEUES_PER_SHARD == TIMED && of.made_at.is_some() && of.needs_schedule();
            if has_none && (site.is_calm() || site.chance.happens(100)) {
                self.schedule(site, node, oracle, queue);
            }
        }
    }

    /// Makes the schedule of a queue; the same one as before, if that was not answered.
    fn schedule<S: Store>(&mut self, site: &mut Site<S>, node: &mut Node<S>, oracle: &mut Oracle, queue: usize) {
        let content = oracle.scheduled(queue, self.plan.body_bytes);
        let message = (*oracle.content(content).message).clone();
        let settings = StandingSettings {
            cron: "* * * * *".into(),
            zone: "UTC".into(),
            expiry_ms: None,
            message,
            owner: Some(OWNERS[0].into()),
        };
        let of = &oracle.queues[queue];
        let (name, settings) = (SCHEDULE.into(), Box::new(settings));
        let request = Request::Call(of.shard, Call::SetStanding { queue: of.name.clone(), name, settings });
        self.ask(site, node, oracle, Ask::Schedule { queue }, request);
    }

    fn make<S: Store>(
        &mut self,
        site: &mut Site<S>,
        node: &mut Node<S>,
        oracle: &mut Oracle,
        queue: usize,
        paused: bool,
    ) {
        let of = &oracle.queues[queue];
        let settings = Settings { is_paused: paused, ..of.settings.clone() };
        let call = Call::SetQueue { name: of.name.clone(), settings: Box::new(settings) };
        let request = Request::Call(of.shard, call);
        self.ask(site, node, oracle, Ask::Make { queue, paused }, request);
    }

    /// Asks for one thing, if there is something to ask.
    pub fn ask_something<S: Store>(&mut self, site: &mut Site<S>, node: &mut Node<S>, oracle: &mut Oracle) {
        let queue = site.chance.below(oracle.queues.len() as u64) as usize;
        let wish = WISHES[site.chance.weighted(&self.plan.weights)];
        let (name, shard) = (oracle.queues[queue].name.clone(), oracle.queues[queue].shard);
        let (ask, request) = match wish {
            Wish::Send => return self.send(site, node, oracle, queue),
            Wish::Receive => {
                let lease_ms = site.chance.happens(500).then(|| site.chance.within(30..=600));
                let (max, wait_ms) = (site.chance.within(1..=RECEIVED_MAX as u64) as usize, site.chance.below(300));
                return self.receive(site, node, oracle, (queue, max, wait_ms), lease_ms);
            }
            Wish::Acknowledge | Wish::Extend | Wish::Reject => {
                let held = self.some_held(&mut site.chance);
                if held.is_empty() {
                    return;
                }
                return self.use_leases(site, node, oracle, wish, held);
            }
            Wish::Cancel | Wish::Reschedule | Wish::Look => {
                let Some(key) = some_key(&mut site.chance, oracle) else { return };
                let shard = key.shard().0;
                match wish {
                    Wish::Cancel => (Ask::Cancel { key }, Request::Call(shard, Call::Cancel { key, ids: Vec::new() })),
                    Wish::Look => (Ask::Look { key }, Request::Call(shard, Call::Read(Read::Message(key)))),
                    _ => {
                        let in_ms = site.chance.below(800);
                        let visible_at = self.draw_when(&mut site.chance, oracle.now, in_ms);
                        let call = Call::Reschedule { key, visible_at, ids: Vec::new() };
                        let visible_at = oracle.now + in_ms;
                        // Asking lets the version grow by one.
                        let version = oracle.version(key) + 1;
                        (Ask::Reschedule { key, visible_at, version }, Request::Call(shard, call))
                    }
                }
            }
            Wish::LookById => {
                let Some((content, id)) = some_id(&mut site.chance, oracle) else { return };
                let of = &oracle.queues[oracle.content(content).queue];
                let call = Call::Read(Read::ById { queue: of.name.clone(), ids: vec![id] });
                (Ask::LookById { content }, Request::Call(of.shard, call))
            }
            Wish::Browse => {
                let keys = some_keys(&mut site.chance, oracle);
                let limit = site.chance.within(1..=100) as usize;
                let (with_gone, with_trails) = (site.chance.happens(300), site.chance.happens(300));
                let (queue_name, may_see) = (Some(name), QueueFilter::all());
                let browse = Browse { queue: queue_name, may_see, keys: keys.clone(), limit, with_gone, with_trails };
                (Ask::Browse { queue, keys }, Request::Call(shard, Call::Read(Read::Browse(browse))))
            }
            Wish::Purge => (Ask::Purge { queue }, Request::Call(shard, Call::Purge { queue: name })),
            Wish::Redrive => {
                let first = usize::from(shard) * QUEUES_PER_SHARD;
                let (from, to) = (first + DEAD, first + RETRY);
                let max = site.chance.happens(500).then(|| site.chance.within(1..=5));
                let name = |queue: usize| oracle.queues[queue].name.clone();
                let call = Call::Redrive { from: name(from), to: name(to), max };
                (Ask::Redrive { from, to }, Request::Call(shard, call))
            }
            Wish::Pause => {
                let of = &oracle.queues[queue];
                if of.is_changing || of.made_at.is_none() {
                    return;
                }
                let paused = !of.may_rest;
                return self.make(site, node, oracle, queue, paused);
            }
            Wish::Forget => return self.forget(site, node, oracle),
            Wish::Delete => {
                let queue = usize::from(shard) * QUEUES_PER_SHARD + SHORT;
                let of = &oracle.queues[queue];
                if of.is_changing || of.made_at.is_none() {
                    return;
                }
                (Ask::Delete { queue }, Request::Call(shard, Call::DeleteQueue { name: of.name.clone() }))
            }
        };
        self.ask(site, node, oracle, ask, request);
    }

    /// Sends some messages, new ones and others once more.
    pub fn send<S: Store>(&mut self, site: &mut Site<S>, node: &mut Node<S>, oracle: &mut Oracle, queue: usize) {
        if queue % QUEUES_PER_SHARD == DEAD {
            return;
        }
        let (mut contents, mut bytes) = (Vec::new(), 0);
        for _ in 0..site.chance.within(1..=6) {
            // A batch is one record.
            if bytes > SEND_BYTES {
                break;
            }
            let again = some_id(&mut site.chance, oracle).filter(|_| site.chance.happens(250));
            if let Some((content, _)) = again.filter(|(content, _)| oracle.content(*content).queue == queue) {
                contents.push(content);
                continue;
            }
            contents.push(oracle.next_content());
            let drawn = self.draw_message(&mut site.chance, oracle.now);
            let content = Content::new(oracle.next_content() as u64, queue, &drawn);
            bytes += content.message.bytes();
            oracle.add(content);
        }
        let message = |content: &usize| -> Arc<Message> { oracle.content(*content).message.clone() };
        let messages = contents.iter().map(message).collect();
        let of = &oracle.queues[queue];
        let request = Request::Call(of.shard, Call::Send { queue: of.name.clone(), messages });
        self.ask(site, node, oracle, Ask::Send { queue, contents }, request);
    }

    /// A time in so many milliseconds, as a client says it that sees the clock of the host.
    fn draw_when(&self, chance: &mut Chance, now: u64, in_ms: u64) -> When {
        match chance.happens(500) {
            true => When::After(in_ms),
            false => When::At(TimeMs(now - self.plan.ahead_ms + in_ms)),
        }
    }

    fn draw_message(&self, chance: &mut Chance, now: u64) -> Drawn {
        let plan = &self.plan;
        let most = if chance.happens(50) { 8 * plan.body_bytes } else { plan.body_bytes };
        let far = chance.happens(150);
        let delay_ms = chance.happens(200).then(|| chance.below(if far { 4_000 } else { 1_000 }));
        let expiry_ms = chance.happens(100).then(|| chance.within(100..=3_000));
        Drawn {
            has_id: chance.happens(plan.with_id),
            ordering_key: chance.happens(plan.ordered).then(|| chance.below(4)),
            priority: if chance.happens(700) { 4 } else { chance.below(10) as u8 },
            visible_at: delay_ms.map(|ms| self.draw_when(chance, now, ms)),
            expires_at: expiry_ms.map(|ms| self.draw_when(chance, now, ms)),
            body_bytes: chance.below(most),
        }
    }

    fn receive<S: Store>(
        &mut self,
        site: &mut Site<S>,
        node: &mut Node<S>,
        oracle: &mut Oracle,
        (queue, max, wait_ms): (usize, usize, u64),
        lease_ms: Option<u64>,
    ) {
        if self.receivers[queue] >= RECEIVERS {
            return;
        }
        self.receivers[queue] += 1;
        let of = &oracle.queues[queue];
        let receive = Receive { queue: of.name.clone(), max, lease_ms, consumer: "somebody".into(), wait_ms };
        let lease_ms = lease_ms.unwrap_or(of.settings.lease_ms);
        let request = Request::Receive(of.shard, receive);
        self.ask(site, node, oracle, Ask::Receive { queue, max, lease_ms }, request);
    }

    /// Some leases of one queue, which are then no longer kept in mind.
    fn some_held(&mut self, chance: &mut Chance) -> Vec<Held> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let queue = chance.one_of(&self.held).queue;
        let most = chance.within(1..=6) as usize;
        self.take_held(queue, most, |_| chance.happens(600))
    }

    fn take_held(&mut self, queue: usize, most: usize, mut wanted: impl FnMut(&Held) -> bool) -> Vec<Held> {
        let mut left = most;
        let is_taken = |held: &mut Held| {
            let is_taken = left > 0 && held.queue == queue && wanted(held);
            left -= usize::from(is_taken);
            is_taken
        };
        self.held.extract_if(.., is_taken).collect()
    }

    fn use_leases<S: Store>(
        &mut self,
        site: &mut Site<S>,
        node: &mut Node<S>,
        oracle: &mut Oracle,
        wish: Wish,
        held: Vec<Held>,
    ) {
        let queue = held[0].queue;
        let of = &oracle.queues[queue];
        let (name, leases): (_, Vec<_>) = (of.name.clone(), held.iter().map(|held| held.lease).collect());
        let (ask, call) = match wish {
            Wish::Acknowledge if site.chance.happens(300) => {
                let messages = leases.iter().map(|lease| (*lease, lease.key.to_string().into())).collect();
                (Ask::Acknowledge { queue, held }, Call::Hand { queue: name, to: "elsewhere".into(), messages })
            }
            Wish::Acknowledge => (Ask::Acknowledge { queue, held }, Call::Acknowledge { queue: name, leases }),
            Wish::Extend => {
                let lease_ms = site.chance.within(20..=600);
                (Ask::Extend { queue, held, lease_ms }, Call::Extend { queue: name, leases, lease_ms })
            }
            _ => {
                let retry_ms = site.chance.happens(600).then(|| site.chance.below(200));
                let is_dead = of.dead.is_some() && site.chance.happens(300);
                // What the settings say grows with each delivery, and is at least this.
                let waits_ms = if is_dead { None } else { Some(retry_ms.unwrap_or(of.settings.retry_ms)) };
                let then = match retry_ms {
                    _ if is_dead => Rejection::Dead,
                    Some(delay_ms) if site.chance.happens(300) => Rejection::Back(delay_ms),
                    _ => Rejection::Retry(retry_ms),
                };
                let versioned = held.into_iter().map(|held| (held, oracle.version(held.lease.key))).collect();
                let counts = !matches!(then, Rejection::Back(_));
                let ask = Ask::Reject { queue, held: versioned, retry_ms: waits_ms, counts };
                (ask, Call::Reject { queue: name, leases, then, reason: "no reason".into() })
            }
        };
        let request = Request::Call(of.shard, call);
        self.ask(site, node, oracle, ask, request);
    }

    /// A receiver goes away.
    fn forget<S: Store>(&mut self, site: &mut Site<S>, node: &mut Node<S>, oracle: &Oracle) {
        let is_receiver = |asked: &Asked| matches!(asked.ask, Ask::Receive { .. }) && !asked.is_forgotten;
        let receivers: Vec<u64> =
            self.asked.iter().filter(|(_, asked)| is_receiver(asked)).map(|(nr, _)| *nr).collect();
        if receivers.is_empty() {
            return;
        }
        let ticket = *site.chance.one_of(&receivers);
        let asked = self.asked.get_mut(&ticket).expect("it is under way");
        asked.is_forgotten = true;
        let Ask::Receive { queue, .. } = asked.ask else { unreachable!("only receivers were chosen") };
        self.receivers[queue] -= 1;
        note!(site.trace, "receiver {ticket} goes away");
        let name = oracle.queues[queue].name.clone();
        node.note(oracle.queues[queue].shard, Note::Forget(Numbered(ticket), name));
    }

    /// In calm: somebody waits for the messages of each queue, and all are acknowledged.
    pub fn drain<S: Store>(&mut self, site: &mut Site<S>, node: &mut Node<S>, oracle: &mut Oracle) {
        if site.chance.happens(100) {
            let queue = site.chance.below(oracle.queues.len() as u64) as usize;
            let of = &oracle.queues[queue];
            let (queue_name, keys, may_see) = (Some(of.name.clone()), all_keys(), QueueFilter::all());
            let (limit, with_gone, with_trails) = (20, false, false);
            let browse = Browse { queue: queue_name, may_see, keys: keys.clone(), limit, with_gone, with_trails };
            let request = Request::Call(of.shard, Call::Read(Read::Browse(browse)));
            self.ask(site, node, oracle, Ask::Browse { queue, keys }, request);
        }
        for queue in 0..oracle.queues.len() {
            let held = self.take_held(queue, 50, |_| true);
            if !held.is_empty() {
                self.use_leases(site, node, oracle, Wish::Acknowledge, held);
            }
            while self.receivers[queue] < RECEIVERS {
                self.receive(site, node, oracle, (queue, 4 * RECEIVED_MAX, 100), Some(DRAIN_LEASE_MS));
            }
        }
    }
}

/// How a request goes to a shard.
enum Request {
    Call(u16, Call),
    Receive(u16, Receive),
}

/// A message that was taken not long ago.
fn some_key(chance: &mut Chance, oracle: &Oracle) -> Option<MessageKey> {
    let newest: Vec<_> = oracle.newest().take(60).collect();
    (!newest.is_empty()).then(|| *chance.one_of(&newest))
}

/// One of the newest messages, and its id, if it has one.
fn some_id(chance: &mut Chance, oracle: &Oracle) -> Option<(usize, Box<str>)> {
    let back = chance.within(1..=40) as usize;
    let content = oracle.next_content().checked_sub(back)?;
    Some((content, oracle.content(content).message.id.clone()?))
}

const fn all_keys() -> RangeInclusive<MessageKey> {
    MessageKey::from_bits(0)..=MessageKey::MAX
}

/// All keys, or those from one known key on, or up to one.
fn some_keys(chance: &mut Chance, oracle: &Oracle) -> RangeInclusive<MessageKey> {
    let known = oracle.newest().count() as u64;
    let mut some_end = |otherwise| match known > 0 && chance.happens(500) {
        true => oracle.newest().nth(chance.below(known) as usize).expect("there are so many"),
        false => otherwise,
    };
    let all = all_keys();
    some_end(*all.start())..=some_end(*all.end())
}
