//! Between clients and the node: requests and replies that are late, lost, doubled and out of order.

use std::collections::BTreeMap;

use tidegate_ledger::message::{Caller, CallerRequest, Reply, Unavailable};
use tidegate_machines::ledger::{HoldState, Outcome, TransferState};

use super::LedgerWorld;
use crate::chance::Chance;
use crate::harness::Store;
use crate::ledger::ask::{Ask, with_whole_ids};
use crate::ledger::model::{Heard, Sent};
use crate::ledger::node::{Endpoint, Node};
use crate::note;
use crate::violation::{Violation, must};

/// Who asks when everything is read for a census.
pub(super) const INSPECTOR: usize = usize::MAX;
/// Callers that take turns before the shards; their requests are mixed over all doors.
const CALLERS: u32 = 4;

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

    /// Nothing is on its way, and nobody waits for an answer.
    pub fn clear(&mut self) {
        self.moving.clear();
        self.sendings.clear();
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

impl<S: Store> LedgerWorld<S> {
    /// Clients make wishes and send what is due; requests and replies arrive.
    pub(super) fn carry(&mut self) -> Result<(), Violation> {
        if !self.site.is_calm() {
            self.make_wishes();
        }
        for wish in self.load.wishes.due(self.site.tick) {
            if !self.site.is_calm() || self.load.finishing || self.load.wishes.get(wish).client == INSPECTOR {
                self.send(wish);
            }
        }
        while let Some(moving) = self.load.wire.take_due(self.site.tick) {
            match moving {
                Moving::Request { token, door } => self.request_arrives(token, door)?,
                Moving::Reply { token, reply } => self.reply_arrives(token, &reply)?,
            }
        }
        Ok(())
    }

    fn make_wishes(&mut self) {
        for client in 0..self.load.plan.clients {
            let room = self.load.wishes.open_of(client) < self.load.plan.pipelining;
            if room && self.load.made < self.load.plan.requests && self.load.wire.chance.happens(200) {
                self.load.made += 1;
                let ask = self.load.workload.next(client, &self.load.model);
                self.load.wishes.add(client, ask);
            }
        }
    }

    fn send(&mut self, wish: usize) {
        let chance = &mut self.load.wire.chance;
        let wait = self.load.plan.patience + chance.below(self.load.plan.patience);
        let copies = 1 + u64::from(chance.happens(self.load.weather.wire_repeats));
        self.load.wishes.sent(wish, self.site.tick + wait);
        for copy in 0..copies {
            self.load.wire.tokens += 1;
            self.site.tally.add("a request sent", 1);
            let token = self.load.wire.tokens;
            let sent = self.load.model.sent(&self.load.wishes.get(wish).ask);
            note!(self.site.trace, "send {token} wish {wish} {:?}", self.load.wishes.get(wish).ask);
            self.load.wire.sendings.insert(token, (wish, sent));
            let chance = &mut self.load.wire.chance;
            let door = match chance.below(2) {
                0 => Endpoint::Worker(chance.below(8) as usize),
                _ => Endpoint::Edge(chance.below(8) as usize),
            };
            if chance.happens(self.load.weather.wire_loss) {
                continue;
            }
            // A second copy may come very late, long after the answer to the first.
            let slowest = self.load.weather.wire_delay * if copy > 0 { 20 } else { 1 };
            let due = self.site.tick + chance.within(1..=slowest);
            self.load.wire.put(due, Moving::Request { token, door });
        }
    }

    fn request_arrives(&mut self, token: u64, door: Endpoint) -> Result<(), Violation> {
        let Some(node) = &mut self.node else { return Ok(()) };
        let wish = self.load.wire.sendings[&token].0;
        let request = self.load.wishes.get(wish).ask.request();
        let request = CallerRequest { caller: Caller(wish as u32 % CALLERS), request };
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
                Node::<S>::worker_endpoint(worker)
            }
        };
        self.pass_on(from, out, finished)
    }

    /// Sends replies to their clients.
    pub(super) fn reply(&mut self, finished: Vec<(u64, Reply)>) {
        for (token, reply) in finished {
            let chance = &mut self.load.wire.chance;
            if chance.happens(self.load.weather.wire_loss) {
                continue;
            }
            let due = self.site.tick + chance.within(1..=self.load.weather.wire_delay);
            self.load.wire.put(due, Moving::Reply { token, reply: with_whole_ids(reply) });
        }
    }

    fn reply_arrives(&mut self, token: u64, reply: &Reply) -> Result<(), Violation> {
        let Some((wish, sent)) = self.load.wire.sendings.get(&token) else {
            return Err(Violation::of("every reply answers a request", format!("token {token}: {reply:?}")));
        };
        let wish = *wish;
        note!(self.site.trace, "hear {token} wish {wish} {reply:?}");
        self.site.tally.add("an answer", 1);
        let ask = &self.load.wishes.get(wish).ask;
        let heard = self.load.model.answered(ask, sent, reply)?;
        let is_changed =
            matches!(reply, Reply::AccountChanged { .. }) && self.load.wishes.get(wish).client != INSPECTOR;
        self.site.tally.add("an account that was changed", u64::from(is_changed));
        counted(ask, reply).into_iter().for_each(|what| self.site.tally.add(what, 1));
        self.remember_cursor(wish, reply);
        match (heard, reply) {
            (Heard::Settled, _) => {
                if self.load.wishes.get(wish).client == INSPECTOR && !self.load.wishes.get(wish).settled {
                    self.load.heard.insert(wish, reply.clone());
                }
                self.load.wishes.settle(wish);
            }
            (Heard::AskAgain, Reply::Unavailable(reason)) => {
                self.check_reason(*reason)?;
                let pause = self.load.wire.chance.within(1..=20);
                self.load.wishes.hurry(wish, self.site.tick + pause);
            }
            (Heard::Damaged, _) => {
                let words = format!("{reply:?}");
                let is_unreadable = self.site.names_bad_sector(&words);
                self.site.tally.add("a refusal for damage", u64::from(!is_unreadable));
                self.site.tally.add("a refusal for a bad sector", u64::from(is_unreadable));
                let rots = self.site.was_damaged() || self.site.disk.has_stopped();
                must(rots, "nothing is called damaged that is not", || words)?;
                let pause = self.load.wire.chance.within(20..=200);
                self.load.wishes.hurry(wish, self.site.tick + pause);
            }
            (Heard::AskAgain, other) => unreachable!("{other:?} says nothing to ask again for"),
        }
        Ok(())
    }

    fn check_reason(&mut self, reason: Unavailable) -> Result<(), Violation> {
        if reason == Unavailable::DiskFull {
            self.site.tally.add("a refusal for a full disk", 1);
            must(self.site.was_full(), "a disk with room is not called full", || "disk_full".into())?;
        }
        Ok(())
    }

    /// A page's cursor may be used by anyone, much later.
    fn remember_cursor(&mut self, wish: usize, reply: &Reply) {
        if let (Ask::History { id, .. }, Reply::History { next: Some(next), .. }) =
            (&self.load.wishes.get(wish).ask, reply)
            && self.load.workload.cursors.len() < 50
        {
            self.load.workload.cursors.push((id.clone(), next.to_string()));
        }
    }
}

/// What an answer is counted as, beside an answer.
fn counted(ask: &Ask, reply: &Reply) -> Option<&'static str> {
    /// More than so many are a batch.
    const FEW: usize = 3;
    match (ask, reply) {
        (Ask::Holds { linked: true, .. }, Reply::Outcomes(outcomes)) => match outcomes.first() {
            Some(Outcome::Applied) => Some("a linked group of holds that was placed"),
            _ => Some("a linked group of holds that was not placed"),
        },
        (Ask::Holds { items, .. }, Reply::Outcomes(_)) if items.len() > FEW => Some("a batch of holds"),
        (Ask::ReadTransfer { .. }, Reply::Transfer { transfer, .. }) => match transfer.state {
            TransferState::Applied => Some("a transfer read by its id"),
            TransferState::Refused(_) => Some("a refusal read by its id"),
        },
        (Ask::ReadHold { .. }, Reply::Hold { hold, .. }) => match hold.state {
            HoldState::Open { .. } => Some("an open hold read by its id"),
            HoldState::Posted { .. } | HoldState::Voided | HoldState::Expired => Some("an ended hold read by its id"),
        },
        _ => None,
    }
}
