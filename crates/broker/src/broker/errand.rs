//! What the broker does of itself and must hear about: wills, delayed messages, and words gathered for another worker.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_wire::mqtt::ReasonCode;

use super::Broker;
use crate::peer::AskedBy;

/// What follows when all have said that it is durable.
#[derive(Clone, Copy, Debug)]
pub(super) enum Then {
    /// Somebody waits for one word.
    Say(AskedBy),
    /// A durable session's will was sent.
    ForgetWill { shard: u16, slot: tidegate_machines::topic::Slot },
    /// A delayed message was sent.
    ForgetDelayed { shard: u16, id: u64 },
}

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Errand {
    then: Then,
    /// Words awaited; what came before it was known how many makes it negative.
    remaining: i32,
    is_counted: bool,
    reason: ReasonCode,
}

/// All that are under way.
#[derive(Debug, Default)]
pub(super) struct Errands {
    all: Vec<Option<Errand>>,
    free: Vec<u32>,
}

impl Errands {
    /// Begins one. How many words it waits for is said later.
    pub fn begin(&mut self, then: Then) -> u32 {
        let errand = Some(Errand { then, remaining: 0, is_counted: false, reason: ReasonCode::SUCCESS });
        match self.free.pop() {
            Some(place) => {
                assert!(self.all[place as usize].is_none(), "a free place holds no errand");
                self.all[place as usize] = errand;
                place
            }
            None => {
                self.all.push(errand);
                (self.all.len() - 1) as u32
            }
        }
    }

    /// It waits for so many words. Gives what follows if all have come.
    fn expect(&mut self, place: u32, words: u16) -> Option<(Then, ReasonCode)> {
        let errand = self.all[place as usize].as_mut().expect("an errand is there until its words are counted");
        assert!(!errand.is_counted, "words are counted once");
        errand.remaining += i32::from(words);
        errand.is_counted = true;
        assert!(errand.remaining >= 0, "nobody says more than was asked");
        self.take_if_over(place)
    }

    fn said(&mut self, place: u32, reason: ReasonCode) -> Option<(Then, ReasonCode)> {
        let errand = self.all[place as usize].as_mut().expect("an errand is there until all have said their words");
        assert!(!errand.is_counted || errand.remaining > 0, "nobody says more than was asked");
        errand.remaining -= 1;
        errand.reason = crate::flow::worse(errand.reason, reason);
        self.take_if_over(place)
    }

    /// Panics if places and free places disagree. A walk over everything: for tests and simulation.
    pub fn assert_sound(&self) {
        assert_eq!(self.free.len(), self.all.iter().filter(|errand| errand.is_none()).count(), "free errands");
        for errand in self.all.iter().flatten() {
            assert!(errand.is_counted && errand.remaining > 0, "{errand:?} is over");
        }
    }

    fn take_if_over(&mut self, place: u32) -> Option<(Then, ReasonCode)> {
        let errand = self.all[place as usize].as_ref()?;
        if !errand.is_counted || errand.remaining > 0 {
            return None;
        }
        let errand = self.all[place as usize].take()?;
        assert!(self.free.len() < self.all.len(), "an errand is over once");
        self.free.push(place);
        Some((errand.then, errand.reason))
    }
}

impl<L: LogStore> Broker<L> {
    pub(super) fn expect_errand(&mut self, errand: u32, words: u16, now: TimeMs) {
        if let Some((then, reason)) = self.errands.expect(errand, words) {
            self.errand_over(then, reason, now);
        }
    }

    pub(super) fn errand_said(&mut self, errand: u32, reason: ReasonCode, now: TimeMs) {
        if let Some((then, reason)) = self.errands.said(errand, reason) {
            self.errand_over(then, reason, now);
        }
    }

    fn errand_over(&mut self, then: Then, reason: ReasonCode, now: TimeMs) {
        match then {
            Then::Say(asked_by) => self.say(asked_by, reason, now),
            Then::ForgetWill { shard, slot } => self.will_sent(shard, slot),
            Then::ForgetDelayed { shard, id } => self.delayed_sent(shard, id),
        }
    }
}
