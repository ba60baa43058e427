//! Messages between endpoints, late and in the order that a real ring keeps: first in, first out per pair.
//!
//! Beyond what rings do, pulls and credits between shards may be lost or come twice, the second time much later: the
//! protocol between shards must not need the ring's promises, as in a cluster it will not have them.

use std::collections::{BTreeMap, VecDeque};

use tidegate_ledger::operation::Message;
use tidegate_ledger::operation::Outgoing;
use tidegate_runtime::Address;

use crate::chance::Chance;
use crate::ledger::plan::Weather;

/// Messages on their way.
pub struct Network {
    chance: Chance,
    lanes: BTreeMap<(Address, Address), VecDeque<(u64, Message)>>,
    /// Second copies, which overtake and are overtaken.
    strays: BTreeMap<(u64, u64), (Address, Message)>,
    strays_made: u64,
}

impl Network {
    /// Nothing is on its way.
    pub fn new(chance: Chance) -> Network {
        Network { chance, lanes: BTreeMap::new(), strays: BTreeMap::new(), strays_made: 0 }
    }

    /// Sends what `from` has to say at `tick`.
    pub fn send(&mut self, from: Address, outgoing: Outgoing, tick: u64, weather: &Weather) {
        for (to, message) in outgoing {
            if between_shards(&message) {
                if self.chance.happens(weather.ring_loss) {
                    continue;
                }
                if self.chance.happens(weather.ring_repeats) {
                    self.send_stray(to, &message, tick);
                }
            }
            let late =
                if self.chance.happens(weather.ring_late) { self.chance.within(1..=weather.ring_delay) } else { 0 };
            let lane = self.lanes.entry((from, to)).or_default();
            let due = lane.back().map_or(0, |(due, _)| *due).max(tick + late);
            lane.push_back((due, message));
        }
    }

    fn send_stray(&mut self, to: Address, message: &Message, tick: u64) {
        let copy = match message {
            Message::Pull { shard, by, after } => Message::Pull { shard: *shard, by: *by, after: *after },
            Message::Credits { shard, from, credits } => {
                Message::Credits { shard: *shard, from: *from, credits: credits.clone() }
            }
            Message::Call { .. } | Message::Answer { .. } | Message::Figures { .. } => {
                unreachable!("only messages between shards come twice")
            }
        };
        self.strays_made += 1;
        let due = tick + self.chance.within(1..=300);
        self.strays.insert((due, self.strays_made), (to, copy));
    }

    /// Takes what is due at `tick`, lane by lane.
    pub fn due(&mut self, tick: u64) -> Vec<(Address, Message)> {
        let mut due = Vec::new();
        for ((_, to), lane) in &mut self.lanes {
            while lane.front().is_some_and(|(at, _)| *at <= tick) {
                due.extend(lane.pop_front().map(|(_, message)| (*to, message)));
            }
        }
        while let Some(first) = self.strays.first_entry().filter(|first| first.key().0 <= tick) {
            due.push(first.remove());
        }
        due
    }

    /// Whether nothing but the shards' talk among themselves is on its way.
    pub fn is_quiet(&self) -> bool {
        self.lanes.values().flatten().all(|(_, message)| between_shards(message))
    }

    /// The process has died, and its memory with it.
    pub fn clear(&mut self) {
        self.lanes.clear();
        self.strays.clear();
    }
}

fn between_shards(message: &Message) -> bool {
    matches!(message, Message::Pull { .. } | Message::Credits { .. })
}
