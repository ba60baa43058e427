//! Whose request is answered next on an edge thread: callers take turns, as at the other ports.
//!
//! ```text
//!   caller a ─ requests of connections 7, 2, 9 … ┐
//!   caller b ─ request of connection 4           ├─▶ in turn, one of each caller ─▶ answered ─▶ large? it waits for
//!   caller c ─ requests of connections 1, 8      ┘                                  more rounds before it is sent
//! ```
//!
//! Promise: a request waits for one request of each other caller, however many connections those have and however much
//! they send. One with a large body or answer waits for as many rounds as small requests could have had instead. When
//! nobody else asks, nothing waits.
//!
//! Handshakes of TLS have turns of their own, callers being addresses: [`HANDSHAKES_IN_TURN`] in each turn of the
//! thread, however many are begun. So who is connected waits at most twice as long, and who comes is never kept out by
//! those who ask.
//!
//! Why not what tokio does: it gives each connection a turn, so whoever has the most connections has the thread.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use slab::Slab;

use crate::auth::quota::ROWS_PER_REQUEST;
use crate::turns::limits::WORK_IN_ROUND_MAX;
use crate::turns::{CallerKey, CallerMark, CallerMarks, CallerName, Turns};

/// Rounds that begin before the thread looks at its sockets again: a small request that the lane answers takes one,
/// about ten microseconds.
const ROUNDS_IN_TURN: isize = 32;
/// Rounds of a small request that hyper reads and the routes find.
const ROUNDS_BY_HYPER: u64 = 4;
/// Handshakes of TLS that go on in a turn: a signature and a key exchange, a quarter of a millisecond or more, about as
/// long as the requests of a turn take.
const HANDSHAKES_IN_TURN: isize = 1;
/// Bytes of a request's body that cost as much to decode, and to ask, as a small request.
const REQUEST_BYTES_PER_ROUND: u64 = 4 << 10;
/// Bytes of an answer that cost as much to read, make and send as a small answer: a thousand rows, of some 250 bytes
/// each, as much as 60.
const ANSWER_BYTES_PER_ROUND: u64 = 4 << 10;
/// Bytes of an answer that are counted as one more request. More than are worth one: who reads a page of rows is
/// charged for the rows, too.
const ANSWER_BYTES_PER_REQUEST: u64 = 16 << 10;
/// What a body is worth of which nobody has said how long it is, bytes.
const BYTES_UNSAID: u64 = 64 << 10;
/// Rounds that one body or answer waits for at most, so that it is sent at some time.
const ROUNDS_MAX: u64 = 256;

/// The turns of one edge thread.
#[derive(Default)]
pub(super) struct RequestTurns {
    marks: CallerMarks,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    requests: Lane,
    handshakes: Lane,
    /// Whoever begins turns, while it sleeps.
    beginner: Option<Waker>,
    /// Somebody waits for a turn to begin.
    is_asked: bool,
}

/// By whom a request was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadBy {
    /// The lane of hot requests.
    Lane,
    /// hyper, for all others.
    Hyper,
}

/// What takes turns.
#[derive(Clone, Copy)]
enum Kind {
    Request,
    Handshake,
}

/// Those of one kind.
#[derive(Default)]
struct Lane {
    turns: Turns<CallerMark, usize>,
    waiting: Slab<Waiting>,
}

/// Something that waits for its rounds.
struct Waiting {
    caller: CallerKey,
    /// Still to come; it is served when there are none.
    rounds: u64,
    waker: Option<Waker>,
}

impl RequestTurns {
    /// The mark of this caller on this thread.
    pub fn mark(&self, name: &CallerName) -> CallerMark {
        self.marks.of(name)
    }

    /// Waits until this caller has had so many rounds.
    pub fn take(&self, caller: CallerMark, rounds: u64) -> impl Future<Output = ()> + Send {
        Rounds { of: self, kind: Kind::Request, caller, rounds: rounds.max(1), place: None }
    }

    /// Waits until a handshake of this caller may go on.
    pub fn take_handshake(&self, caller: CallerMark) -> impl Future<Output = ()> + Send {
        Rounds { of: self, kind: Kind::Handshake, caller, rounds: 1, place: None }
    }

    /// Begins turns for ever, whenever somebody waits for one. Each is as far from the next as it takes the thread to
    /// serve those who have got a round, and to look at its sockets.
    pub async fn begin_all(&self) {
        loop {
            poll_fn(|context| self.poll_asked(context)).await;
            while self.begin() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Begins a turn. Returns whether somebody is left waiting.
    fn begin(&self) -> bool {
        let mut state = self.state();
        state.is_asked = false;
        let requests_wait = state.requests.begin(ROUNDS_IN_TURN);
        let handshakes_wait = state.handshakes.begin(HANDSHAKES_IN_TURN);
        requests_wait || handshakes_wait
    }

    fn poll_asked(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.is_asked {
            return Poll::Ready(());
        }
        state.beginner = Some(context.waker().clone());
        Poll::Pending
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the turns")
    }
}

impl State {
    fn lane(&mut self, kind: Kind) -> &mut Lane {
        match kind {
            Kind::Request => &mut self.requests,
            Kind::Handshake => &mut self.handshakes,
        }
    }

    fn ask_for_turn(&mut self) {
        self.is_asked = true;
        if let Some(beginner) = self.beginner.take() {
            beginner.wake();
        }
    }
}

impl Lane {
    /// A turn of so many rounds begins. Returns whether somebody is left waiting.
    fn begin(&mut self, rounds: isize) -> bool {
        self.turns.begin(rounds * WORK_IN_ROUND_MAX);
        self.give_rounds();
        !self.turns.is_empty()
    }

    /// Gives rounds in turn, as far as this turn goes.
    fn give_rounds(&mut self) {
        while let Some((caller, place, _)) = self.turns.take_next() {
            self.turns.served(caller, WORK_IN_ROUND_MAX);
            let waiting = &mut self.waiting[place];
            waiting.rounds -= 1;
            if waiting.rounds > 0 {
                self.turns.wait(caller, place);
            } else if let Some(waker) = waiting.waker.take() {
                waker.wake();
            }
        }
    }

    fn join(&mut self, caller: CallerMark, rounds: u64) -> usize {
        let caller = self.turns.join(caller);
        let place = self.waiting.insert(Waiting { caller, rounds, waker: None });
        self.turns.wait(caller, place);
        self.give_rounds();
        place
    }

    fn leave(&mut self, place: usize) {
        let Waiting { caller, rounds, .. } = self.waiting.remove(place);
        if rounds > 0 {
            self.turns.take_back(caller, place);
        }
        self.turns.leave(caller);
    }
}

/// Rounds of a caller, when all of them are there.
struct Rounds<'t> {
    of: &'t RequestTurns,
    kind: Kind,
    caller: CallerMark,
    rounds: u64,
    place: Option<usize>,
}

impl Future for Rounds<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.of.state();
        let lane = state.lane(self.kind);
        let place = self.place.unwrap_or_else(|| lane.join(self.caller, self.rounds));
        if lane.waiting[place].rounds == 0 {
            lane.leave(place);
            drop(state);
            self.place = None;
            return Poll::Ready(());
        }
        lane.waiting[place].waker = Some(context.waker().clone());
        state.ask_for_turn();
        drop(state);
        self.place = Some(place);
        Poll::Pending
    }
}

impl Drop for Rounds<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.of.state().lane(self.kind).leave(place);
        }
    }
}

/// Rounds that a request with a body of so many bytes takes; `None` if nobody has said how long it is.
pub(super) fn rounds_of_request(read_by: ReadBy, body_bytes: Option<u64>) -> u64 {
    let of_any = match read_by {
        ReadBy::Lane => 1,
        ReadBy::Hyper => ROUNDS_BY_HYPER,
    };
    (of_any + body_bytes.unwrap_or(BYTES_UNSAID) / REQUEST_BYTES_PER_ROUND).min(ROUNDS_MAX)
}

/// Rounds that an answer of so many bytes takes, beside those of its request.
pub(super) fn rounds_of_answer(bytes: u64) -> u64 {
    (bytes / ANSWER_BYTES_PER_ROUND).min(ROUNDS_MAX)
}

/// Rounds that rows take which were read, and which no answer shows.
pub(super) fn rounds_of_rows(rows: usize) -> u64 {
    (rows / ROWS_PER_REQUEST) as u64
}

/// Requests that an answer of so many bytes is worth, beside the one that was counted.
pub(super) fn requests_of_answer(bytes: u64) -> u32 {
    (bytes / ANSWER_BYTES_PER_REQUEST).min(ROUNDS_MAX) as u32
}

#[cfg(test)]
mod tests;
