//! How a shard of queues serves: commands in order, receivers as soon as there is something for them.
//!
//! ```text
//!   call ─▶ decide ─▶ append ─▶ answer            receive ─▶ waits ─▶ lease ─▶ append ─▶ bodies ─▶ answer
//!                                                              ▲                           │
//!                                       after each step: time passes, news for waiters?    └ not in memory: a job
//! ```
//!
//! Promise: a receiver is answered when its leases are durable and all bodies that can be read are there. Who goes away
//! while waiting gets no lease.
//!
//! Why receiving is a note and no call: calls are decided in the order in which they came, and a receiver that waits
//! would hold up those behind it.

mod change;
mod execute;
mod hand_out;
mod host_time;
mod look;
mod moves;
mod reads;
mod standing;
mod start;
mod tell;
mod unreadable;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use tidegate_journal::{JournalError, LogId, LogReader, LogStore, RecordClass};
use tidegate_machines::queue::{Bounds, Command, Message, MessageKey, Refusal, Settings};
use tidegate_machines::{Machine, TimeMs};
use tidegate_runtime::damage::Damages;
use tidegate_shard::{Caller, JobId, Jobs, Served, Service, TurnOf, Unavailable, Unsolicited};

use self::execute::Executed;
use self::reads::{Ahead, Handover, Reading};
pub use self::reads::{Fetched, Job};
use crate::behind::Behind;
use crate::bodies::Bodies;
use crate::call::{Answer, Call, Found, Receive};
use crate::consumers::Consumers;
use crate::declared::Declared;
use crate::family::QueuesFamily;
use crate::limits::{CALL_BYTES_WAITING_MAX, CALLS_WAITING_MAX, TIMERS_PER_STEP, WORK_IN_STEP_MAX};
use crate::news::News;
use crate::protocol::RequestTicket;
use crate::rates::Rates;
use crate::refused::{Bound, Refused};
use crate::routing::Routing;
use crate::seldom::Seldom;
use crate::waiters::Waiters;
use crate::window::Windows;

/// What a shard is told.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// What decisions see.
    pub bounds: Bounds,
    /// Number of this node.
    pub node: u16,
    /// Memory for bodies.
    pub bodies_bytes_max: u64,
    /// Receivers that may wait.
    pub receivers_max: usize,
    /// Bytes of a segment of the log.
    pub segment_bytes: u64,
}

/// What is asked without the order of calls.
#[derive(Clone, Debug)]
pub enum Note<T> {
    /// Asks for messages; answered as if it had been a call.
    Receive(T, Receive),
    /// Nobody waits for the answer to this request, for messages of this queue, any more.
    Forget(T, Box<str>),
}

/// How far a call was served.
#[derive(Debug, Default)]
pub struct Progress {
    /// Of a purge: the newest message that it removes.
    up_to: Option<u64>,
    /// Of a purge or redrive: messages that it has done.
    done: u64,
    /// The job that it waits for, and the messages whose bodies or trail that reads.
    reads: Option<(JobId, Vec<Found>)>,
    /// Of a list: where it goes on, and how many messages were looked at for it.
    list: Option<(Option<MessageKey>, usize)>,
}

/// Serves the queues of one shard. `T` is what their owner knows a request by.
#[derive(Debug)]
pub struct QueueService<T> {
    options: QueueOptions,
    /// The start of this process is noted, and the queues of the configuration are as it says.
    has_started: bool,
    /// The time of the last step.
    now: TimeMs,
    /// What the clock of the host said last, if it was asked.
    wall: Option<TimeMs>,
    /// What is still to be done for that: queues to be made or set.
    to_declare: VecDeque<(Box<str>, Settings)>,
    is_start_noted: bool,
    /// Queues that this start made, and that are to be set once more.
    made_now: BTreeSet<Box<str>>,
    bodies: Bodies,
    waiters: Waiters<T>,
    news: News,
    /// Schedules that found no room for their messages, and when they are tried again.
    unfired: BTreeSet<(Box<str>, Box<str>)>,
    fire_again_at: TimeMs,
    windows: Windows,
    consumers: Consumers,
    /// The queue at which those who wait are served next.
    next_served: Box<str>,
    readings: BTreeMap<JobId, Reading<T>>,
    found: BTreeMap<JobId, Fetched>,
    /// What is known of the bodies that will be handed out next, by queue.
    ahead: BTreeMap<Box<str>, Ahead>,
    /// Handovers of which something could not be read, and why.
    unread: Vec<(Handover<T>, Vec<String>)>,
    /// Answers of receivers, for the end of the step.
    ready: Vec<(T, Answer)>,
    /// Bodies to be written again.
    moves: VecDeque<(u64, Arc<Message>)>,
    /// Nothing is moved before, because bodies could not be read.
    move_after: TimeMs,
    /// Messages whose bodies could not be read to be written again, and why.
    unmoved: Vec<(u64, String)>,
    is_moving: bool,
    rates: BTreeMap<Box<str>, Rates>,
    rates_at: TimeMs,
    /// When bodies that are gone were looked for last.
    swept_at: TimeMs,
    unreadable: u64,
    unreadable_told: Seldom,
    /// Whom to tell of bodies that cannot be read, and of which log.
    damages: Option<(Arc<Damages>, LogId)>,
    /// What bounds have refused.
    refused: Refused,
    behind: Behind,
    /// Queues that the configuration has, with their settings.
    declared: Declared,
    /// What routes do with queues.
    routing: Arc<Routing>,
    bodies_read: u64,
    moved: u64,
}

type QueueTurn<'a, T, L> = TurnOf<'a, QueueService<T>, L>;

impl<T: RequestTicket> QueueService<T> {
    /// A service over recovered state, which makes the queues that are `declared`.
    pub fn new(options: QueueOptions, declared: &Declared) -> QueueService<T> {
        // Those come first to which others send their dead letters.
        let alone = declared.iter().filter(|(_, settings)| settings.dead_letter.is_none());
        let others = declared.iter().filter(|(_, settings)| settings.dead_letter.is_some());
        QueueService {
            options,
            has_started: false,
            now: TimeMs(0),
            wall: None,
            to_declare: alone.chain(others).map(|(name, settings)| (name.clone(), settings.clone())).collect(),
            is_start_noted: false,
            made_now: BTreeSet::new(),
            bodies: Bodies::new(options.bodies_bytes_max),
            waiters: Waiters::default(),
            news: News::default(),
            unfired: BTreeSet::new(),
            fire_again_at: TimeMs(0),
            windows: Windows::default(),
            consumers: Consumers::default(),
            next_served: Box::default(),
            readings: BTreeMap::new(),
            found: BTreeMap::new(),
            ahead: BTreeMap::new(),
            unread: Vec::new(),
            ready: Vec::new(),
            moves: VecDeque::new(),
            move_after: TimeMs(0),
            unmoved: Vec::new(),
            is_moving: false,
            rates: BTreeMap::new(),
            rates_at: TimeMs(0),
            swept_at: TimeMs(0),
            unreadable: 0,
            unreadable_told: Seldom::default(),
            damages: None,
            refused: Refused::default(),
            behind: Behind::default(),
            declared: declared.clone(),
            routing: Arc::default(),
            bodies_read: 0,
            moved: 0,
        }
    }

    /// Memory of bodies, receivers that wait, bodies that were read from the log, those that could not be, and those
    /// that were written again.
    pub fn facts(&self) -> [u64; 5] {
        [self.bodies.bytes(), self.waiters.len() as u64, self.bodies_read, self.unreadable, self.moved]
    }

    /// Queues that are behind.
    pub fn behind(&self) -> u64 {
        self.behind.count()
    }

    /// Requests that were refused because a bound was met, by the bounds.
    pub fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.refused.totals()
    }

    /// Tells all who wait that there is nothing: the process stops.
    pub fn stop_waiting(&mut self) {
        let tickets = self.waiters.take_all();
        self.ready.extend(tickets.into_iter().map(|ticket| (ticket, Answer::Received(Vec::new()))));
    }

    /// Whether one more may wait for messages. Who does not wait needs no place.
    fn room_for(&self, ticket: &T, receive: &Receive) -> Result<(), (Bound, Refusal)> {
        let receivers_max = self.options.receivers_max;
        let (caller, of_caller_max) = (ticket.caller(), receivers_max - receivers_max / 4);
        match receive.wait_ms {
            0 => Ok(()),
            // Links and routes are as many as the configuration says, and others may not keep them out.
            _ if caller == Caller::SERVER => Ok(()),
            _ if self.waiters.len() - self.waiters.of_caller(Caller::SERVER) >= receivers_max => {
                Err((Bound::Receivers, Refusal::TooManyReceivers))
            }
            _ if self.waiters.of_caller(caller) >= of_caller_max => {
                Err((Bound::ReceiversOfCaller, Refusal::TooManyReceiversOfCaller))
            }
            _ => Ok(()),
        }
    }

    /// What routes do with queues: changes that would break it are refused.
    pub fn keep_for_routes(&mut self, routing: Arc<Routing>) {
        self.routing = routing;
    }
}

impl<T: RequestTicket> Service for QueueService<T> {
    type Family = QueuesFamily;
    type Call = Call;
    type Answer = Answer;
    type Ticket = T;
    type Note = Note<T>;
    type Progress = Progress;
    type Job = Job;
    type Fetched = Fetched;
    type Stop = JournalError;

    const CALLS_WAITING_MAX: usize = CALLS_WAITING_MAX;
    const WORK_IN_STEP_MAX: usize = WORK_IN_STEP_MAX;
    const CALL_BYTES_WAITING_MAX: usize = CALL_BYTES_WAITING_MAX;

    fn weight(call: &Call) -> usize {
        call.weight()
    }

    /// Queues take turns, and so do the callers of each: what is much, as a purge or a sender of large batches, keeps
    /// no other queue waiting, and no other caller of the same one.
    fn caller(call: &Call, ticket: &T) -> Caller {
        Caller(FixedState::default().hash_one((call.queue(), ticket.caller().0)) as u32)
    }

    fn work(call: &Call) -> usize {
        call.work()
    }

    fn observe_wall(&mut self, wall: TimeMs) {
        self.wall = Some(wall);
    }

    fn note(&mut self, note: Note<T>) {
        match note {
            Note::Receive(ticket, receive) => match self.room_for(&ticket, &receive) {
                Ok(()) => self.waiters.arrive(ticket, receive),
                Err((bound, refusal)) => {
                    self.refused.note(bound, (&receive.queue, None), self.now);
                    self.ready.push((ticket, Answer::refused(refusal)));
                }
            },
            Note::Forget(ticket, queue) => {
                // It is answered all the same: whoever asked for it keeps its number until then. If it waits no more,
                // its answer is on its way.
                if self.waiters.remove(&queue, &ticket) {
                    self.ready.push((ticket, Answer::Received(Vec::new())));
                }
            }
        }
    }

    fn is_idle(&self) -> bool {
        let reads = self.readings.values().any(|reading| matches!(reading, Reading::Delivery(..) | Reading::Call));
        self.waiters.nobody_arrived() && self.ready.is_empty() && self.unread.is_empty() && !reads
    }

    fn give_up(&mut self) -> Vec<T> {
        let reading = std::mem::take(&mut self.readings).into_values().filter_map(Reading::receiver);
        let unread = self.unread.drain(..).map(|(handover, _)| handover.receiver.ticket);
        let ready = self.ready.drain(..).map(|(ticket, _)| ticket);
        ready.chain(unread).chain(reading).chain(self.waiters.take_all()).collect()
    }

    fn asker(note: Note<T>) -> Option<T> {
        match note {
            Note::Receive(ticket, _) => Some(ticket),
            // Whoever asked for messages was answered when the shard stopped.
            Note::Forget(..) => None,
        }
    }

    fn before<L: LogStore>(&mut self, turn: &mut QueueTurn<'_, T, L>) -> Result<bool, JournalError> {
        let mut worked = false;
        self.now = turn.now();
        if !self.has_started {
            self.has_started = self.start(turn);
            worked = self.has_started;
        }
        for _ in 0..TIMERS_PER_STEP {
            if turn.state().next_due().is_none_or(|due| due > turn.now()) {
                break;
            }
            match self.execute(turn, RecordClass::Note, &Command::PassTime) {
                Executed::Done(_) => worked = true,
                Executed::NoRoom | Executed::DiskFull => break,
            }
        }
        // Keys name the start of the node.
        worked |= self.has_started && self.fire(turn);
        Ok(worked)
    }

    fn serve<L: LogStore>(
        &mut self,
        turn: &mut QueueTurn<'_, T, L>,
        call: &Call,
        progress: &mut Progress,
        jobs: &mut Jobs<Self>,
    ) -> Result<Served<Answer>, JournalError> {
        Ok(match call {
            Call::Read(read) => self.look(turn, read, progress, jobs),
            // Keys name the start of the node that took the message.
            _ if !self.has_started => Served::TurnedAway(Unavailable::DiskFull),
            Call::SetStanding { queue, name, settings } => self.set_standing(turn, (queue, name), settings),
            _ => self.change(turn, call, progress),
        })
    }

    fn after<L: LogStore>(
        &mut self,
        turn: &mut QueueTurn<'_, T, L>,
        out: &mut Unsolicited<Self>,
        jobs: &mut Jobs<Self>,
    ) -> Result<bool, JournalError> {
        self.follow_rates(turn.state(), turn.now());
        self.sweep_bodies(turn.state(), turn.now());
        self.read_again(turn, jobs);
        let mut worked = self.serve_waiters(turn, jobs);
        worked |= self.move_bodies(turn, jobs);
        worked |= !self.ready.is_empty();
        self.ready.drain(..).for_each(|(ticket, answer)| out.push(ticket, answer));
        Ok(worked)
    }

    fn fetched(&mut self, job: JobId, found: Fetched) {
        self.take_found(job, found);
    }

    fn run<R: LogReader>(job: Job, reader: &R) -> Fetched {
        job.run(reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_runtime::Address;

    use crate::call::Read;
    use crate::protocol::Ticket;

    #[test]
    fn queues_take_turns_and_so_do_the_callers_of_one() {
        let from = Address::new(1, 0);
        let turn = |caller: u32, number: u64, call: Call| {
            <QueueService<Ticket> as Service>::caller(&call, &Ticket { from, number, caller: Caller(caller) })
        };
        let send = |queue: &str| Call::Send { queue: queue.into(), messages: Vec::new() };
        assert_ne!(turn(7, 1, send("a")), turn(7, 1, send("b")));
        assert_ne!(turn(7, 1, send("a")), turn(8, 1, send("a")), "nobody waits for what others send to the same queue");
        assert_eq!(turn(7, 1, send("a")), turn(7, 2, send("a")), "more requests are no more turns");
        let others = [Call::Purge { queue: "a".into() }, Call::Redrive { from: "a".into(), to: "b".into(), max: None }];
        for call in others {
            assert_eq!(turn(7, 1, send("a")), turn(7, 2, call), "what one caller asks of a queue stays in order");
        }
        let list = || Call::Read(Read::Queues { after: "".into(), limit: 1 });
        assert_ne!(turn(7, 1, list()), turn(8, 1, list()));
    }
}
