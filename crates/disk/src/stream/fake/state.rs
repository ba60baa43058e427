//! One fake stream: stored messages, messages in flight, and waiting callers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use super::{Extent, Message, Outcome, StreamWeather, Wake, lock};
use crate::fake::SplitMix;

/// Steps until a request's time is up, beyond the slowest way there and back.
const PATIENCE_STEPS: u64 = 20;
/// How much later than its time a straggler arrives, at most.
const STRAGGLER_STEPS_MAX: u64 = 200;

/// What is on its way.
pub(super) enum Moving {
    Publish { client: u64, ticket: u64, expected_last: u64, message: Message },
    LookUp { client: u64, ticket: u64, number: u64 },
    Outcome { client: u64, ticket: u64, outcome: Outcome },
}

/// Whoever has a handle.
#[derive(Default)]
struct Client {
    outcomes: VecDeque<Outcome>,
    /// By ticket: when its time is up, and what it is told then.
    asked: BTreeMap<u64, (u64, Outcome)>,
    /// When the last of its requests arrives: one connection keeps the order.
    last_arrival: u64,
    wake: Option<Wake>,
    is_dead: bool,
}

pub(super) struct State {
    pub weather: StreamWeather,
    random: SplitMix,
    now: u64,
    interrupted_until: u64,
    first: u64,
    messages: VecDeque<Message>,
    bytes: u64,
    moving: BTreeMap<(u64, u64), Moving>,
    clients: BTreeMap<u64, Client>,
    /// Messages that were stored for somebody who was gone by then.
    pub strays: u64,
    /// Numbers for clients, tickets and what moves: no two alike.
    names: u64,
}

impl State {
    pub fn new(seed: u64, weather: StreamWeather) -> Arc<Mutex<State>> {
        Arc::new(Mutex::new(State {
            weather,
            random: SplitMix(seed),
            now: 0,
            interrupted_until: 0,
            first: 1,
            messages: VecDeque::new(),
            bytes: 0,
            moving: BTreeMap::new(),
            clients: BTreeMap::new(),
            strays: 0,
            names: 0,
        }))
    }

    fn name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    pub fn add_client(&mut self) -> u64 {
        let client = self.name();
        self.clients.insert(client, Client::default());
        client
    }

    /// A further handle of the process that has `client`.
    pub fn add_client_of(&mut self, client: u64) -> u64 {
        let is_dead = !self.is_alive(client);
        let another = self.add_client();
        self.clients.get_mut(&another).expect("it was just added").is_dead = is_dead;
        another
    }

    pub fn remove_client(&mut self, client: u64) {
        self.clients.remove(&client);
    }

    pub fn is_alive(&self, client: u64) -> bool {
        self.clients.get(&client).is_some_and(|client| !client.is_dead)
    }

    pub fn kill_clients(&mut self) {
        for client in self.clients.values_mut() {
            *client = Client { is_dead: true, ..Client::default() };
        }
        let random = &mut self.random;
        self.moving.retain(|_, moving| matches!(moving, Moving::Publish { .. }) && random.below(2) == 0);
    }

    pub fn interrupt(&mut self, steps: u64) {
        self.interrupted_until = self.now + steps;
    }

    fn happens(&mut self, per_mille: u64) -> bool {
        self.random.below(1_000) < per_mille
    }

    fn put(&mut self, due: u64, moving: Moving) {
        assert!(due > self.now, "everything takes a step at least");
        let name = self.name();
        self.moving.insert((due, name), moving);
    }

    /// Sends a request about `number` on its way. Whoever is dead sends nothing.
    pub fn send(&mut self, client: u64, number: u64, request: impl FnOnce(u64) -> Moving) {
        if !self.is_alive(client) {
            return;
        }
        let ticket = self.name();
        let request = request(ticket);
        let is_publish = matches!(request, Moving::Publish { .. });
        let weather = self.weather;
        let time_up = self.now + 2 * weather.delay + weather.burst + PATIENCE_STEPS;
        let silence = if is_publish { Outcome::Unknown { number } } else { Outcome::NotFound { number } };
        let delay = 1 + self.random.below(weather.delay);
        let lost = self.happens(weather.request_loss);
        let straggles = is_publish && self.happens(weather.straggle);
        let late = 1 + self.random.below(STRAGGLER_STEPS_MAX);
        let asking = self.clients.get_mut(&client).expect("it is alive");
        asking.asked.insert(ticket, (time_up, silence));
        asking.last_arrival = asking.last_arrival.max(self.now + delay);
        let arrival = asking.last_arrival;
        if straggles {
            self.put(time_up + late, request);
        } else if !lost {
            self.put(arrival, request);
        }
    }

    /// Lets a step pass; wakes callers that have an outcome now.
    pub fn advance(state: &Mutex<State>) {
        let wakes = lock(state).step();
        wakes.into_iter().for_each(|wake| wake());
    }

    fn step(&mut self) -> Vec<Wake> {
        self.now += 1;
        let before: BTreeMap<u64, usize> =
            self.clients.iter().map(|(name, client)| (*name, client.outcomes.len())).collect();
        while let Some(entry) = self.moving.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let moving = entry.remove();
            self.arrive(moving);
        }
        let now = self.now;
        let mut wakes = Vec::new();
        for (name, client) in &mut self.clients {
            while let Some(ticket) = client.asked.iter().find(|(_, (time_up, _))| *time_up <= now).map(|(t, _)| *t) {
                client.outcomes.extend(client.asked.remove(&ticket).map(|(_, silence)| silence));
            }
            if before.get(name).is_none_or(|before| client.outcomes.len() > *before) {
                wakes.extend(client.wake.clone());
            }
        }
        wakes
    }

    fn arrive(&mut self, moving: Moving) {
        let is_request = !matches!(moving, Moving::Outcome { .. });
        if is_request && self.now < self.interrupted_until {
            return;
        }
        match moving {
            Moving::Publish { client, ticket, expected_last, message } => {
                let number = expected_last + 1;
                let stored = expected_last == self.last();
                if stored {
                    self.bytes += message.len() as u64;
                    self.messages.push_back(message);
                    self.strays += u64::from(!self.is_alive(client));
                    assert_eq!(self.last(), number, "numbers have no gap");
                }
                let outcome = if stored { Outcome::Stored { number } } else { Outcome::Refused { number } };
                self.answer(client, ticket, outcome);
            }
            Moving::LookUp { client, ticket, number } => {
                let message = self.get(number);
                self.answer(client, ticket, Outcome::Found { number, message });
            }
            Moving::Outcome { client, ticket, outcome } => {
                // A caller that got "unknown" gets no second outcome.
                if let Some(client) = self.clients.get_mut(&client)
                    && client.asked.remove(&ticket).is_some()
                {
                    client.outcomes.push_back(outcome);
                }
            }
        }
    }

    fn answer(&mut self, client: u64, ticket: u64, outcome: Outcome) {
        if self.happens(self.weather.outcome_loss) {
            return;
        }
        let burst = self.weather.burst;
        let due = (self.now + 1 + self.random.below(self.weather.delay)).div_ceil(burst) * burst;
        self.put(due, Moving::Outcome { client, ticket, outcome });
    }

    pub fn has_outcome(&self, client: u64) -> bool {
        self.clients.get(&client).is_some_and(|client| !client.outcomes.is_empty())
    }

    pub fn is_asking(&self, client: u64) -> bool {
        self.clients.get(&client).is_some_and(|client| !client.asked.is_empty())
    }

    pub fn take_outcome(&mut self, client: u64) -> Option<Outcome> {
        self.clients.get_mut(&client)?.outcomes.pop_front()
    }

    pub fn set_wake(&mut self, client: u64, wake: Wake) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.wake = Some(wake);
        }
    }

    fn last(&self) -> u64 {
        self.first + self.messages.len() as u64 - 1
    }

    fn index(&self, number: u64) -> Option<usize> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        (index < self.messages.len()).then_some(index)
    }

    pub fn get(&self, number: u64) -> Option<Message> {
        self.index(number).map(|index| self.messages[index].clone())
    }

    pub fn extent(&self) -> Extent {
        Extent { first: self.first, last: self.last(), bytes: self.bytes }
    }

    pub fn purge_below(&mut self, number: u64) {
        while self.first < number
            && let Some(message) = self.messages.pop_front()
        {
            self.first += 1;
            self.bytes -= message.len() as u64;
        }
    }

    pub fn flip_bit(&mut self, number: u64, offset: u64, bit: u8) -> bool {
        let Some(index) = self.index(number) else { return false };
        let mut bytes = self.messages[index].to_vec();
        let Some(byte) = bytes.get_mut(offset as usize) else { return false };
        *byte ^= 1 << bit;
        self.messages[index] = bytes.into();
        true
    }
}
