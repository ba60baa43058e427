//! The same rules in the simplest form: lists that are searched from the front.

use std::collections::BTreeMap;

use crate::TimeMs;
use crate::topic::{Due, InboxLimits, InboxPolicy, Origin, Refusal, Slot};

#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    pub number: u64,
    pub payload: String,
    pub qos: u8,
    pub received: bool,
    pub bytes: u64,
    pub expires_at: Option<u64>,
    pub ages_at: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub struct Owner {
    pub client_id: String,
    pub expiry_s: u32,
    /// Delay of the will.
    pub will_s: Option<u32>,
    pub detached_at: Option<u64>,
    pub subscriptions: BTreeMap<String, u32>,
    pub inbox: Vec<Waiting>,
    pub next: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub owners: Vec<Option<Owner>>,
    pub free: Vec<usize>,
    pub origins: Vec<Origin>,
    pub retained: BTreeMap<String, String>,
    pub delayed: BTreeMap<u64, u64>,
    pub dropped_full: u64,
    pub evicted: u64,
}

/// What is published.
pub struct TestMessage<'a> {
    pub payload: &'a str,
    pub bytes: u64,
    pub expires_at: Option<u64>,
    pub origin: Option<Origin>,
}

impl Model {
    pub fn owner(&mut self, slot: Slot) -> Option<&mut Owner> {
        self.owners.get_mut(slot.0 as usize)?.as_mut()
    }

    pub fn open(&mut self, owner: Owner) -> Result<Slot, Refusal> {
        let same = |other: &Option<Owner>| other.as_ref().is_some_and(|other| other.client_id == owner.client_id);
        if let Some(slot) = self.owners.iter().position(same) {
            return Err(Refusal::SessionExists(Slot(slot as u32)));
        }
        let slot = if self.free.is_empty() { self.owners.len() } else { self.free.remove(0) };
        self.owners.resize(self.owners.len().max(slot + 1), None);
        self.owners[slot] = Some(owner);
        Ok(Slot(slot as u32))
    }

    /// Each receiver's number, or none where it did not get it.
    pub fn publish(
        &mut self,
        letter: &TestMessage<'_>,
        receivers: &[(Slot, u8)],
        limits: &InboxLimits,
        now: u64,
    ) -> Result<(), Refusal> {
        if letter.origin.is_some_and(|origin| self.origins.contains(&origin)) {
            return Err(Refusal::Duplicate);
        }
        let mut after = self.clone();
        let mut is_anybody_there = false;
        for (slot, qos) in receivers {
            let Some(owner) = after.owner(*slot) else { continue };
            is_anybody_there = true;
            let mut inbox = owner.inbox.clone();
            let is_over = |inbox: &[Waiting]| {
                let bytes: u64 = inbox.iter().map(|waiting| waiting.bytes).sum();
                inbox.len() as u64 + 1 > u64::from(limits.messages_max) || bytes + letter.bytes > limits.bytes_max
            };
            let mut gone = 0;
            while is_over(&inbox) && limits.policy == InboxPolicy::DropOldest {
                let Some(oldest) = inbox.iter().position(|waiting| !waiting.received) else { break };
                inbox.remove(oldest);
                gone += 1;
            }
            if is_over(&inbox) {
                if limits.policy == InboxPolicy::Refuse {
                    return Err(Refusal::InboxFull);
                }
                after.dropped_full += 1;
                continue;
            }
            inbox.push(Waiting {
                number: owner.next,
                payload: letter.payload.into(),
                qos: *qos,
                received: false,
                bytes: letter.bytes,
                expires_at: letter.expires_at,
                ages_at: (limits.age_max_ms > 0).then_some(now + limits.age_max_ms),
            });
            owner.next += 1;
            owner.inbox = inbox;
            after.evicted += gone;
        }
        if !is_anybody_there {
            return Err(Refusal::Nothing);
        }
        after.origins.extend(letter.origin);
        *self = after;
        Ok(())
    }

    pub fn leave(&mut self, slot: Slot, number: u64) -> Result<(), Refusal> {
        let inbox = &mut self.owner(slot).ok_or(Refusal::NoSession(slot))?.inbox;
        let place = inbox.iter().position(|waiting| waiting.number == number).ok_or(Refusal::NoEntry(number))?;
        inbox.remove(place);
        Ok(())
    }

    pub fn end(&mut self, slot: Slot) -> Result<(), Refusal> {
        self.owner(slot).ok_or(Refusal::NoSession(slot))?;
        self.owners[slot.0 as usize] = None;
        self.free.push(slot.0 as usize);
        Ok(())
    }

    /// What is due, in words, sorted.
    pub fn due(&self, now: TimeMs) -> Vec<String> {
        let mut due = Vec::new();
        for (slot, owner) in self.owners.iter().enumerate() {
            let Some(owner) = owner else { continue };
            if let Some(detached_at) = owner.detached_at {
                let end = (owner.expiry_s != u32::MAX).then(|| detached_at + u64::from(owner.expiry_s) * 1000);
                let will =
                    owner.will_s.map(|delay| (detached_at + u64::from(delay) * 1000).min(end.unwrap_or(u64::MAX)));
                due.extend(will.filter(|at| *at <= now.0).map(|_| format!("will {slot}")));
                due.extend(end.filter(|at| *at <= now.0).map(|_| format!("end {slot}")));
            }
            for waiting in owner.inbox.iter().filter(|waiting| !waiting.received) {
                let at = waiting.expires_at.into_iter().chain(waiting.ages_at).min();
                due.extend(at.filter(|at| *at <= now.0).map(|_| format!("drop {slot} {}", waiting.number)));
            }
        }
        due.extend(self.delayed.iter().filter(|(_, at)| **at <= now.0).map(|(id, _)| format!("delayed {id}")));
        due.sort();
        due
    }
}

/// As [`Model::due`] says it.
pub fn word(due: Due) -> String {
    match due {
        Due::Will { slot, .. } => format!("will {}", slot.0),
        Due::SessionExpiry { slot } => format!("end {}", slot.0),
        Due::Delayed { id } => format!("delayed {id}"),
        Due::Drop { slot, number, .. } => format!("drop {} {number}", slot.0),
    }
}
