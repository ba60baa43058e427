//! Between clients and the node: requests and replies that are late, lost, doubled and out of order.

use std::collections::BTreeMap;

use tidegate_ledger::message::{Reply, Unavailable};

use super::World;
use crate::ask::Ask;
use crate::chance::Chance;
use crate::model::{Heard, Sent};
use crate::node::{Endpoint, Node};
use crate::note;
use crate::violation::{Violation, must};

/// Who asks when everything is read for a census.
pub(super) const INSPECTOR: usize = usize::MAX;

/// What is on its way.
pub(super) struct Wire {
    chance: Chance,
    moving: BTreeMap<(u64, u64), Moving>,
    parcels: u64,
    /// By token: what was sent, and what was known then.
    sendings: BTreeMap<u64, (usize, Sent)>,
    tokens: u64,
}

enum Moving {
    Request { token: u64, door: Endpoint },
    Reply { token: u64, reply: Reply },
}

impl Wire {
    pub fn new(chance: Chance) -> Wire {
        Wire { chance, moving: BTreeMap::new(), parcels: 0, sendings: BTreeMap::new(), tokens: 0 }
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.moving.is_empty()
    }

    fn put(&mut self, due: u64, what: Moving) {
        self.parcels += 1;
        self.moving.insert((due, self.parcels), what);
    }

    fn take_due(&mut self, tick: u64) -> Option<Moving> {
        let first = self.moving.first_entry()?;
        if first.key().0 <= tick { Some(first.remove()) } else { None }
    }
}

impl World {
    /// Clients make wishes and send what is due; requests and replies arrive.
    pub(super) fn carry(&mut self) -> Result<(), Violation> {
        if !self.calm {
            self.make_wishes();
        }
        for wish in self.wishes.due(self.tick) {
            if !self.calm || self.finishing || self.wishes.get(wish).client == INSPECTOR {
                self.send(wish);
            }
        }
        while let Some(moving) = self.wire.take_due(self.tick) {
            match moving {
                Moving::Request { token, door } => self.request_arrives(token, door)?,
                Moving::Reply { token, reply } => self.reply_arrives(token, &reply)?,
            }
        }
        Ok(())
    }

    fn make_wishes(&mut self) {
        for client in 0..self.plan.clients {
            let room = self.wishes.open_of(client) < self.plan.pipelining;
            if room && self.made < self.plan.requests && self.wire.chance.happens(200) {
                self.made += 1;
                let ask = self.workload.next(client, &self.model);
                self.wishes.add(client, ask);
            }
        }
    }

    fn send(&mut self, wish: usize) {
        let chance = &mut self.wire.chance;
        let wait = self.plan.patience + chance.below(self.plan.patience);
        let copies = 1 + u64::from(chance.happens(self.weather.wire_repeats));
        self.wishes.sent(wish, self.tick + wait);
        for copy in 0..copies {
            self.wire.tokens += 1;
            self.tally.sends += 1;
            let token = self.wire.tokens;
            let sent = self.model.sent(&self.wishes.get(wish).ask);
            note!(self.trace, "send {token} wish {wish} {:?}", self.wishes.get(wish).ask);
            self.wire.sendings.insert(token, (wish, sent));
            let chance = &mut self.wire.chance;
            let door = match chance.below(2) {
                0 => Endpoint::Worker(chance.below(8) as usize),
                _ => Endpoint::Edge(chance.below(8) as usize),
            };
            if chance.happens(self.weather.wire_loss) {
                continue;
            }
            // A second copy may come very late, long after the answer to the first.
            let slowest = self.weather.wire_delay * if copy > 0 { 20 } else { 1 };
            let due = self.tick + chance.within(1..=slowest);
            self.wire.put(due, Moving::Request { token, door });
        }
    }

    fn request_arrives(&mut self, token: u64, door: Endpoint) -> Result<(), Violation> {
        let Some(node) = &mut self.node else { return Ok(()) };
        let wish = self.wire.sendings[&token].0;
        let request = self.wishes.get(wish).ask.request();
        let (mut out, mut finished) = (Vec::new(), Vec::new());
        let from = match door {
            Endpoint::Edge(edge) => {
                let edge = edge % node.edges.len();
                node.edges[edge].start(token, request, &mut out, &mut finished);
                node.edge_endpoint(edge)
            }
            Endpoint::Worker(worker) | Endpoint::Auditor(worker) => {
                let worker = worker % node.workers.len();
                node.workers[worker].start(token, request, &mut out, &mut finished);
                Node::worker_endpoint(worker)
            }
        };
        self.pass_on(from, out, finished)
    }

    /// Sends replies to their clients.
    pub(super) fn reply(&mut self, finished: Vec<(u64, Reply)>) {
        for (token, reply) in finished {
            let chance = &mut self.wire.chance;
            if chance.happens(self.weather.wire_loss) {
                continue;
            }
            let due = self.tick + chance.within(1..=self.weather.wire_delay);
            self.wire.put(due, Moving::Reply { token, reply });
        }
    }

    fn reply_arrives(&mut self, token: u64, reply: &Reply) -> Result<(), Violation> {
        let Some((wish, sent)) = self.wire.sendings.get(&token) else {
            return Err(Violation::of("every reply answers a request", format!("token {token}: {reply:?}")));
        };
        let wish = *wish;
        note!(self.trace, "hear {token} wish {wish} {reply:?}");
        self.tally.answers += 1;
        let ask = &self.wishes.get(wish).ask;
        let heard = self.model.answered(ask, sent, reply)?;
        self.remember_cursor(wish, reply);
        match (heard, reply) {
            (Heard::Settled, _) => {
                if self.wishes.get(wish).client == INSPECTOR && !self.wishes.get(wish).settled {
                    self.heard.insert(wish, reply.clone());
                }
                self.wishes.settle(wish);
            }
            (Heard::AskAgain, Reply::Unavailable(reason)) => {
                self.check_reason(*reason)?;
                let pause = self.wire.chance.within(1..=20);
                self.wishes.hurry(wish, self.tick + pause);
            }
            (Heard::AskAgain, other) => unreachable!("{other:?} says nothing to ask again for"),
        }
        Ok(())
    }

    fn check_reason(&mut self, reason: Unavailable) -> Result<(), Violation> {
        if reason == Unavailable::DiskFull {
            self.tally.disk_full += 1;
            must(self.damage.was_full(self.tick), "a disk with room is not called full", || "disk_full".into())?;
        }
        Ok(())
    }

    /// A page's cursor may be used by anyone, much later.
    fn remember_cursor(&mut self, wish: usize, reply: &Reply) {
        if let (Ask::History { id, .. }, Reply::History { next: Some(next), .. }) = (&self.wishes.get(wish).ask, reply)
            && self.workload.cursors.len() < 50
        {
            self.workload.cursors.push((id.clone(), next.to_string()));
        }
    }
}
