//! A stream in memory that behaves like a replicated one over a network, from one seed.
//!
//! ```text
//!   publish ──late, lost──▶ stored or refused ──late, in bursts, lost──▶ outcome
//!                └─ or a straggler: told "unknown" long before it arrives
//! ```
//!
//! It never does what real ones do not: lose or change what it has acknowledged ([`FakeStreams::flip_bit`] does,
//! when asked), give a number twice, or store a message whose expected number is wrong.
//!
//! Time are steps: [`FakeStreams::step`] lets one pass, and so does waiting ([`Stream::wait`]). Calls that may wait are
//! answered as if they had waited for as long as an interruption lasts.

mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Extent, Message, Outcome, Stream, StreamError, Streams, Wake};
use state::{Moving, State};

/// Steps that a caller waits at most: far more than any outcome takes.
const WAIT_STEPS_MAX: u64 = 100_000;

/// How badly a stream behaves. Rates are "so many times in a thousand".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamWeather {
    /// Steps that a message takes at most, each way.
    pub delay: u64,
    /// Outcomes are told only every so many steps; 1 for at once.
    pub burst: u64,
    /// A request is lost before it arrives.
    pub request_loss: u64,
    /// An outcome is lost: what was asked for was done.
    pub outcome_loss: u64,
    /// A message that is published arrives long after its time is up.
    pub straggle: u64,
}

impl StreamWeather {
    /// Nothing is lost or late.
    pub const fn calm() -> StreamWeather {
        StreamWeather { delay: 1, burst: 1, request_loss: 0, outcome_loss: 0, straggle: 0 }
    }
}

/// Streams by name, each with faults of its own. Clones are handles to the same ones.
#[derive(Clone)]
pub struct FakeStreams {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    seed: u64,
    weather: StreamWeather,
    streams: BTreeMap<String, Arc<Mutex<State>>>,
    /// Times that opening a stream still fails.
    refuse_opens: u32,
}

/// A handle to a stream of [`FakeStreams`].
pub struct FakeStream {
    state: Arc<Mutex<State>>,
    client: u64,
}

impl FakeStreams {
    /// No streams yet; the faults of all follow from `seed`.
    pub fn new(seed: u64) -> FakeStreams {
        let shared = Shared { seed, weather: StreamWeather::calm(), streams: BTreeMap::new(), refuse_opens: 0 };
        FakeStreams { shared: Arc::new(Mutex::new(shared)) }
    }

    /// How all streams behave from now on.
    pub fn set_weather(&self, weather: StreamWeather) {
        let mut shared = self.shared();
        shared.weather = weather;
        shared.streams.values().for_each(|state| lock(state).weather = weather);
    }

    /// Lets a step of time pass for the stream of this name.
    pub fn step(&self, name: &str) {
        if let Some(state) = self.state(name) {
            State::advance(&state);
        }
    }

    /// For so many steps, what arrives at the stream of this name is lost.
    pub fn interrupt(&self, name: &str, steps: u64) {
        if let Some(state) = self.state(name) {
            lock(&state).interrupt(steps);
        }
    }

    /// The next time that a stream is opened, it cannot be reached.
    pub fn refuse_next_open(&self) {
        self.shared().refuse_opens += 1;
    }

    /// The process that has the handles dies. What it sent last arrives later, or never.
    pub fn kill_clients(&self) {
        let shared = self.shared();
        shared.streams.values().for_each(|state| lock(state).kill_clients());
    }

    /// Messages that were stored for processes that had ended by then. Each takes a number for which another may have
    /// waited.
    pub fn strays(&self) -> u64 {
        self.shared().streams.values().map(|state| lock(state).strays).sum()
    }

    /// The numbers that the stream of this name has, and the bytes under them.
    pub fn extent(&self, name: &str) -> Extent {
        self.state(name).map_or(Extent { first: 1, ..Extent::default() }, |state| lock(&state).extent())
    }

    /// The message that is stored under a number.
    pub fn message(&self, name: &str, number: u64) -> Option<Message> {
        let state = self.state(name)?;
        lock(&state).get(number)
    }

    /// Rot: changes one bit of a stored message for good. Returns false when there is no such byte.
    pub fn flip_bit(&self, name: &str, number: u64, offset: u64, bit: u8) -> bool {
        self.state(name).is_some_and(|state| lock(&state).flip_bit(number, offset, bit))
    }

    fn state(&self, name: &str) -> Option<Arc<Mutex<State>>> {
        self.shared().streams.get(name).cloned()
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no holder of this lock panics")
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no holder of this lock panics")
}

impl Streams for FakeStreams {
    type Stream = FakeStream;

    fn open(&self, name: &str) -> Result<FakeStream, StreamError> {
        let mut shared = self.shared();
        if shared.refuse_opens > 0 {
            shared.refuse_opens -= 1;
            return Err(StreamError(format!("{name}: no server answers")));
        }
        // FNV-1a, so that streams of one seed differ.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let seed = name.bytes().fold(shared.seed ^ 0xcbf2_9ce4_8422_2325, hash);
        let weather = shared.weather;
        let state = shared.streams.entry(name.into()).or_insert_with(|| State::new(seed, weather)).clone();
        let client = lock(&state).add_client();
        Ok(FakeStream { state, client })
    }
}

impl FakeStream {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn readable(&self) -> Result<MutexGuard<'_, State>, StreamError> {
        let state = self.state();
        match state.is_alive(self.client) {
            true => Ok(state),
            false => Err(StreamError("this handle is of a process that has ended".into())),
        }
    }
}

impl Drop for FakeStream {
    fn drop(&mut self) {
        self.state().remove_client(self.client);
    }
}

impl Stream for FakeStream {
    fn another(&self) -> FakeStream {
        let client = self.state().add_client_of(self.client);
        FakeStream { state: self.state.clone(), client }
    }

    fn publish(&mut self, expected_last: u64, message: Message) {
        let client = self.client;
        self.state().send(client, expected_last + 1, |ticket| Moving::Publish {
            client,
            ticket,
            expected_last,
            message,
        });
    }

    fn look_up(&mut self, number: u64) {
        let client = self.client;
        self.state().send(client, number, |ticket| Moving::LookUp { client, ticket, number });
    }

    fn poll(&mut self) -> Option<Outcome> {
        self.state().take_outcome(self.client)
    }

    fn has_outcome(&self) -> bool {
        self.state().has_outcome(self.client)
    }

    fn set_wake(&mut self, wake: Wake) {
        self.state().set_wake(self.client, wake);
    }

    fn wait(&mut self) -> Result<(), StreamError> {
        for _ in 0..WAIT_STEPS_MAX {
            let state = self.readable()?;
            if state.has_outcome(self.client) {
                return Ok(());
            }
            if !state.is_asking(self.client) {
                return Err(StreamError("nothing is under way that could be waited for".into()));
            }
            drop(state);
            State::advance(&self.state);
        }
        unreachable!("every request has its outcome when its time is up")
    }

    fn get(&self, number: u64) -> Result<Option<Message>, StreamError> {
        Ok(self.readable()?.get(number))
    }

    fn extent(&self) -> Result<Extent, StreamError> {
        Ok(self.readable()?.extent())
    }

    fn purge_below(&self, number: u64) -> Result<(), StreamError> {
        self.readable()?.purge_below(number);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
