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

mod hand_out;
mod look;
mod moves;
mod standing;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use tidegate_journal::{JournalError, LogReader, LogStore, NoRoom, RecordClass};
use tidegate_machines::queue::{
    BodyPlace, Bounds, Command, Counts, Delivery, Event, Message, Outcome, QueueFigures, Queues, Refusal, Settings,
    Verdict,
};
use tidegate_machines::{Decision, Machine, TimeMs};
use tidegate_shard::{Caller, JobId, Jobs, Pause, Room, Served, Service, TurnOf, Unavailable, Unsolicited};

use crate::behind::{Behind, Said};
use crate::bodies::{Bodies, ReadBodies, read_bodies};
use crate::call::{Answer, Call, Found, Receive};
use crate::consumers::Consumers;
use crate::declared::Declared;
use crate::family::QueuesFamily;
use crate::limits::{CALL_BYTES_WAITING_MAX, CALLS_WAITING_MAX, TIMERS_PER_STEP};
use crate::news::News;
use crate::protocol::RequestTicket;
use crate::rates::Rates;
use crate::refused::{Bound, Refused};
use crate::trail::{Trail, TrailWalk};
use crate::waiters::{Waiter, Waiters};
use crate::window::{DeliveryWindow, Windows};

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
    /// Of a list: there are more messages behind those.
    more: bool,
}

/// What a job reads.
#[derive(Debug)]
pub struct Job {
    places: Vec<BodyPlace>,
    trail: Option<TrailWalk>,
}

/// What a job found.
#[derive(Debug)]
pub struct Fetched {
    bodies: ReadBodies,
    trail: Option<Trail>,
}

/// What was handed out to a receiver, and is not with it yet.
#[derive(Debug)]
struct Handover<T> {
    receiver: Waiter<T>,
    deliveries: Vec<Delivery>,
    /// By number, those whose bodies are there.
    messages: HashMap<u64, Arc<Message>>,
    /// Where the others are being read, or could not be.
    places: Vec<BodyPlace>,
}

/// For whom a job reads.
#[derive(Debug)]
enum Reading<T> {
    /// A receiver.
    Delivery(Handover<T>),
    /// Those who will receive from a queue next.
    Ahead(Box<str>),
    /// The end of the log, to which old bodies move.
    Move,
    /// A call.
    Call,
}

/// What came of a command.
enum Executed {
    /// It is decided, and noted if there was something to note.
    Done(Outcome),
    /// There is no room in this group.
    NoRoom,
    /// There is no room on the disk.
    DiskFull,
}

/// Serves the queues of one shard. `T` is what their owner knows a request by.
#[derive(Debug)]
pub struct QueueService<T> {
    options: QueueOptions,
    /// The start of this process is noted, and the queues of the configuration are as it says.
    has_started: bool,
    /// The time of the last step.
    now: TimeMs,
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
    /// Queues for which bodies are being read ahead.
    ahead: BTreeSet<Box<str>>,
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
    unreadable: u64,
    /// What bounds have refused.
    refused: Refused,
    behind: Behind,
    /// Queues that the configuration has, with their settings.
    declared: Declared,
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
            ahead: BTreeSet::new(),
            unread: Vec::new(),
            ready: Vec::new(),
            moves: VecDeque::new(),
            move_after: TimeMs(0),
            unmoved: Vec::new(),
            is_moving: false,
            rates: BTreeMap::new(),
            rates_at: TimeMs(0),
            unreadable: 0,
            refused: Refused::default(),
            behind: Behind::default(),
            declared: declared.clone(),
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
            _ if self.waiters.len() >= receivers_max => Err((Bound::Receivers, Refusal::TooManyReceivers)),
            // The server's own are few: each is a thread.
            _ if caller != Caller::SERVER && self.waiters.of_caller(caller) >= of_caller_max => {
                Err((Bound::ReceiversOfCaller, Refusal::TooManyReceiversOfCaller))
            }
            _ => Ok(()),
        }
    }

    /// Once a second: brings the rates up to date, and lets go of bodies whose messages are gone.
    fn follow_rates(&mut self, queues: &Queues, now: TimeMs) {
        let passed = now.0.saturating_sub(self.rates_at.0);
        if passed < 1_000 {
            return;
        }
        self.rates_at = now;
        self.waiters.forget_asked(now);
        let mut rates = BTreeMap::new();
        let for_dead_letters: BTreeSet<&str> =
            queues.each_queue().filter_map(|queue| queue.settings.dead_letter.as_deref()).collect();
        self.behind.begin();
        for QueueFigures { name, settings, counts, totals } in queues.each_queue() {
            let known = self.rates.remove_entry(name);
            let (known_name, mut of_queue) = known.unwrap_or_else(|| (name.into(), Rates::new(totals)));
            of_queue.follow(totals, passed as f64 / 1_000.0);
            let keeps = settings.is_paused || for_dead_letters.contains(name);
            let said = match keeps {
                true => self.behind.is_over(name),
                false => self.behind.follow(name, counts.waiting, of_queue.drained_in_s(&counts), now),
            };
            said.inspect(|said| tell_behind(name, *said, &of_queue, &counts, now));
            rates.insert(known_name, of_queue);
        }
        self.behind.keep(|name| rates.contains_key(name));
        self.rates = rates;
        if self.bodies.bytes() > self.options.bodies_bytes_max / 2 {
            self.bodies.sweep(queues);
        }
    }

    fn rates_of(&self, queue: &str) -> Rates {
        self.rates.get(queue).copied().unwrap_or_default()
    }

    fn execute<L: LogStore>(
        &mut self,
        turn: &mut QueueTurn<'_, T, L>,
        class: RecordClass,
        command: &Command<'_>,
    ) -> Executed {
        let (event, outcome) = match turn.state().decide(command, self.options.bounds, turn.now()) {
            Decision::Answer(outcome) => return Executed::Done(outcome),
            Decision::Append { event, outcome } => (event, outcome),
        };
        if turn.room_for(class, 1) == Room::DiskFull {
            return Executed::DiskFull;
        }
        match turn.append_of(class, &event) {
            Ok(_) => {
                self.follow(&event, command, &outcome, turn.now());
                Executed::Done(outcome)
            }
            Err(NoRoom::Here) => Executed::NoRoom,
            Err(NoRoom::Ever) => Executed::Done(Outcome::Refused(Refusal::BatchTooLarge)),
        }
    }

    /// Keeps the bodies of what was just sent, lets go of those that are done with, and notes where those who wait may
    /// find something.
    fn follow(&mut self, event: &Event<'_>, command: &Command<'_>, outcome: &Outcome, now: TimeMs) {
        match (event, command) {
            (Event::Rejected { messages, .. }, _) if messages.iter().any(|(_, verdict)| *verdict == Verdict::Dead) => {
                self.news.note_all();
            }
            (_, Command::Send { queue, .. } | Command::Acknowledge { queue, .. } | Command::Reject { queue, .. })
            | (_, Command::Hand { queue, .. })
            | (_, Command::Purge { queue, .. } | Command::Redrive { to: queue, .. })
            | (_, Command::SetQueue { name: queue, .. } | Command::DeleteQueue { name: queue }) => {
                self.news.note(queue);
            }
            (_, Command::Fire { due, .. }) => self.news.note(&due.queue),
            (_, Command::Route { from, to, .. }) => {
                self.news.note(from);
                self.news.note(to);
            }
            (_, Command::PassTime | Command::Cancel { .. } | Command::Reschedule { .. }) => self.news.note_all(),
            _ => {}
        }
        match (event, command, outcome) {
            (Event::Sent { .. }, Command::Send { messages, .. }, Outcome::Sent(receipts)) => {
                for (message, receipt) in messages.iter().zip(receipts) {
                    if !receipt.is_duplicate && message.visible_at.is_none_or(|at| at <= now) {
                        self.bodies.keep(receipt.key.number(), message);
                    }
                }
            }
            (Event::Acknowledged { messages, .. }, ..) => {
                messages.iter().for_each(|touched| self.bodies.remove(touched.number));
            }
            (Event::Routed { messages: routed, .. }, Command::Route { messages, .. }, _) => {
                let routed: BTreeSet<u64> = routed.iter().map(|touched| touched.number).collect();
                let kept = messages.iter().filter(|(lease, _)| routed.contains(&lease.key.number()));
                kept.for_each(|(lease, message)| self.bodies.keep(lease.key.number(), message));
            }
            (Event::Handed { messages, .. }, ..) => {
                messages.iter().for_each(|(touched, _)| self.bodies.remove(touched.number));
            }
            (Event::Purged { numbers, .. }, ..) => numbers.iter().for_each(|number| self.bodies.remove(*number)),
            (Event::Cancelled { message, .. }, ..) => self.bodies.remove(message.number),
            (_, Command::DeleteQueue { name }, _) => self.windows.forget(name),
            _ => {}
        }
    }

    /// Notes the start, and makes the queues of the configuration. Whether that is done.
    fn start<L: LogStore>(&mut self, turn: &mut QueueTurn<'_, T, L>) -> bool {
        let note = Command::Start { node: self.options.node };
        if !self.is_start_noted {
            self.is_start_noted = matches!(self.execute(turn, RecordClass::Note, &note), Executed::Done(_));
        }
        while self.is_start_noted
            && let Some((name, settings)) = self.to_declare.pop_front()
        {
            if !self.declare(turn, &name, &settings) {
                self.to_declare.push_front((name, settings));
                return false;
            }
        }
        self.is_start_noted
    }

    /// Makes a queue of the configuration, or gives it the settings that it has there. Whether there was room for that.
    fn declare<L: LogStore>(&mut self, turn: &mut QueueTurn<'_, T, L>, name: &str, settings: &Settings) -> bool {
        let before = turn.state().view(name).map(|view| view.settings);
        // Of what the doors note of a queue, the configuration says nothing.
        let notes = before.as_ref().map_or_else(Box::default, |before| before.notes.clone());
        let mut set = Settings { notes, ..settings.clone() };
        if before.is_none()
            && let Some(target) = set.dead_letter.take_if(|target| turn.state().view(target).is_none())
        {
            // Its dead letter queue is made later: each may be that of the other. Then it is set once more.
            drop(target);
            set.attempts_max = None;
            self.made_now.insert(name.into());
            self.to_declare.push_back((name.into(), settings.clone()));
        }
        match self.execute(turn, RecordClass::Note, &Command::SetQueue { name, settings: &set }) {
            Executed::NoRoom | Executed::DiskFull => {
                self.to_declare.retain(|(later, _)| **later != *name);
                return false;
            }
            Executed::Done(Outcome::Refused(refusal)) => {
                tracing::error!(queue = name, %refusal, "this [[queue]] of the configuration is not made");
            }
            Executed::Done(_) if before.is_some_and(|before| before != set) && !self.made_now.remove(name) => {
                tracing::info!(queue = name, "the queue has the settings of its [[queue]] in the configuration again");
            }
            Executed::Done(_) => {}
        }
        true
    }

    /// Says that a change is not for good, because the configuration has the queue.
    fn tell_declared(&self, name: &str, settings: &Settings) {
        let differs = |of_file: &&Settings| {
            Settings { notes: Box::default(), ..settings.clone() }
                != Settings { notes: Box::default(), ..(*of_file).clone() }
        };
        if self.declared.get(name).filter(differs).is_some() {
            tracing::warn!(
                queue = name,
                "settings were changed that [[queue]] of the configuration has: the next start undoes this, unless \
                 they are changed there, too"
            );
        }
    }

    /// Serves a call that may change something.
    fn change<L: LogStore>(
        &mut self,
        turn: &mut QueueTurn<'_, T, L>,
        call: &Call,
        progress: &mut Progress,
    ) -> Served<Answer> {
        if let Some(refusal) = unreadable_text(call) {
            return Served::Done(Answer::refused(refusal));
        }
        let up_to = *progress.up_to.get_or_insert_with(|| turn.state().newest_number());
        let left = match call {
            Call::Redrive { max, .. } => max.unwrap_or(u64::MAX) - progress.done,
            _ => 0,
        };
        let command = call.command(up_to, left).expect("reads are served elsewhere");
        let class = class_of(call);
        let (count, more) = match self.execute(turn, class, &command) {
            Executed::NoRoom => return Served::Paused(Pause::Room),
            Executed::DiskFull => return Served::TurnedAway(Unavailable::DiskFull),
            Executed::Done(Outcome::Some { count, more }) => (count, more),
            Executed::Done(outcome) => {
                if let (Outcome::Done, Call::SetQueue { name, settings }) = (&outcome, call) {
                    self.tell_declared(name, settings);
                }
                if let (Outcome::Refused(Refusal::Full(limit)), Some(queue)) = (&outcome, call.queue()) {
                    self.refused.note(Bound::Of(*limit), queue, turn.now());
                }
                return Served::Done(Answer::Outcome(outcome));
            }
        };
        progress.done += count;
        match more && count > 0 && left != count {
            true => Served::Paused(Pause::Step),
            false => Served::Done(Answer::Outcome(Outcome::Some { count: progress.done, more })),
        }
    }
}

/// Says that a queue is behind, or not any more.
fn tell_behind(queue: &str, said: Said, rates: &Rates, counts: &Counts, now: TimeMs) {
    let rounded = |rate: f64| (rate * 10.0).round() / 10.0;
    let (sent_per_s, acknowledged_per_s) = (rounded(rates.sent[1]), rounded(rates.acknowledged[1]));
    let Counts { waiting, leased, .. } = *counts;
    match said {
        Said::Behind { since } => {
            let for_s = now.0.saturating_sub(since.0) / 1_000;
            let drained_in_s = rates.drained_in_s(counts).map(|seconds| seconds.round() as u64);
            tracing::warn!(
                queue,
                waiting,
                leased,
                sent_per_s,
                acknowledged_per_s,
                drained_in_s,
                for_s,
                "the queue is behind: at these rates messages wait for more than a minute; add receivers, or see why \
                 they acknowledge so few"
            );
        }
        Said::Over { since } => {
            let after_s = now.0.saturating_sub(since.0) / 1_000;
            tracing::info!(queue, waiting, sent_per_s, acknowledged_per_s, after_s, "the queue is behind no more");
        }
    }
}

/// Why a text of a call says nothing: its form is none of the machine's business.
fn unreadable_text(call: &Call) -> Option<Refusal> {
    let Call::SetQueue { settings, .. } = call else { return None };
    let error = DeliveryWindow::parse(settings.delivery_window.as_deref()?).err()?;
    Some(Refusal::WindowInvalid(error.to_string().into()))
}

/// How much of a full disk a call may use.
const fn class_of(call: &Call) -> RecordClass {
    match call {
        Call::SetQueue { .. } | Call::Send { .. } | Call::Reschedule { .. } => RecordClass::New,
        _ => RecordClass::Note,
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
        call.items().max(1)
    }

    fn note(&mut self, note: Note<T>) {
        match note {
            Note::Receive(ticket, receive) => match self.room_for(&ticket, &receive) {
                Ok(()) => self.waiters.arrive(ticket, receive),
                Err((bound, refusal)) => {
                    self.refused.note(bound, &receive.queue, self.now);
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
        self.read_again(turn, jobs);
        let mut worked = self.serve_waiters(turn, jobs);
        worked |= self.move_bodies(turn, jobs);
        worked |= !self.ready.is_empty();
        self.ready.drain(..).for_each(|(ticket, answer)| out.push(ticket, answer));
        Ok(worked)
    }

    fn fetched(&mut self, job: JobId, found: Fetched) {
        let reading = self.readings.remove(&job).expect("a job comes back once");
        self.bodies_read += found.bodies.len() as u64;
        match reading {
            Reading::Call => drop(self.found.insert(job, found)),
            Reading::Delivery(mut handover) => {
                let mut errors = HashMap::new();
                for (number, body) in found.bodies {
                    match body {
                        Ok(message) => drop(handover.messages.insert(number, message)),
                        Err(error) => drop(errors.insert(number, error)),
                    }
                }
                handover.places.retain(|place| errors.contains_key(&place.number));
                let errors = handover.places.iter().filter_map(|place| errors.remove(&place.number)).collect();
                self.unread.push((handover, errors));
            }
            Reading::Ahead(queue) => {
                self.ahead.remove(&queue);
                for (number, body) in found.bodies {
                    if let Ok(message) = body {
                        self.bodies.keep_next(number, message);
                    }
                }
            }
            Reading::Move => {
                for (number, body) in found.bodies {
                    match body {
                        Ok(message) => self.moves.push_back((number, message)),
                        Err(error) => self.unmoved.push((number, error)),
                    }
                }
                if !self.unmoved.is_empty() {
                    self.move_after = TimeMs(self.rates_at.0 + 60_000);
                }
            }
        }
    }

    fn run<R: LogReader>(job: Job, reader: &R) -> Fetched {
        let bodies = read_bodies(job.places, reader);
        Fetched { bodies, trail: job.trail.map(|walk| walk.finish(reader)) }
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
