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
use tidegate_journal::{JournalError, LogId, LogReader, LogStore, NoRoom, RecordClass};
use tidegate_machines::queue::limits::{BATCH_MESSAGES_MAX, PURGED_PER_RECORD};
use tidegate_machines::queue::{
    Bounds, Command, Event, Message, MessageKey, Outcome, Queues, Refusal, Settings, Verdict,
};
use tidegate_machines::{Decision, Machine, TimeMs};
use tidegate_runtime::damage::Damages;
use tidegate_shard::{Caller, JobId, Jobs, Pause, Room, Served, Service, TurnOf, Unavailable, Unsolicited};

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
    /// Of a list: where it goes on, and how many messages were looked at for it.
    list: Option<(Option<MessageKey>, usize)>,
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

    fn execute<L: LogStore>(
        &mut self,
        turn: &mut QueueTurn<'_, T, L>,
        class: RecordClass,
        command: &Command<'_>,
    ) -> Executed {
        let bounds = Bounds { ahead_ms: self.ahead_ms(turn), ..self.options.bounds };
        let (event, outcome) = match turn.state().decide(command, bounds, turn.now()) {
            Decision::Answer(outcome) => return Executed::Done(outcome),
            Decision::Append { event, outcome } => (event, outcome),
        };
        if turn.room_for(class, 1) == Room::DiskFull {
            return Executed::DiskFull;
        }
        match turn.append_of(class, &event) {
            Ok(_) => {
                self.follow(&event, command, &outcome, bounds);
                Executed::Done(outcome)
            }
            Err(NoRoom::Here) => Executed::NoRoom,
            Err(NoRoom::Ever) => Executed::Done(Outcome::Refused(Refusal::BatchTooLarge)),
        }
    }

    /// What routes do with queues: changes that would break it are refused.
    pub fn keep_for_routes(&mut self, routing: Arc<Routing>) {
        self.routing = routing;
    }

    /// Why a call would break a route.
    fn refusal_for_routes(&self, queues: &Queues, call: &Call) -> Option<Refusal> {
        match call {
            Call::DeleteQueue { name } => {
                let route = self.routing.user_of(name).filter(|_| queues.settings(name).is_some())?;
                Some(Refusal::QueueOfRoute(route.into()))
            }
            Call::SetQueue { name, settings } => {
                let dead_letter_of = |queue: &str| match *queue == **name {
                    true => settings.dead_letter.as_deref(),
                    false => queues.settings(queue)?.dead_letter.as_deref(),
                };
                self.routing.goes_round(name, dead_letter_of).then(|| Refusal::GoesRound(name.clone()))
            }
            _ => None,
        }
    }

    /// Counts a refusal, if a bound was met, and says it in the log.
    fn note_refused(&mut self, refusal: &Refusal, of: (&str, Option<&str>), now: TimeMs) {
        if let Some(bound) = Bound::of(refusal) {
            self.refused.note(bound, of, now);
        }
    }

    /// Keeps the bodies of what was just sent, lets go of those that are done with, and notes where those who wait may
    /// find something.
    fn follow(&mut self, event: &Event<'_>, command: &Command<'_>, outcome: &Outcome, bounds: Bounds) {
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
            (Event::Sent { messages: sent, .. }, Command::Send { messages, .. }, Outcome::Sent(receipts)) => {
                let taken = messages.iter().zip(receipts).filter(|(_, receipt)| !receipt.is_duplicate);
                for ((message, receipt), sent) in taken.zip(sent) {
                    let is_due = message.visible_at.is_none_or(|when| bounds.time_of(when, event.at()) <= event.at());
                    match sent.via {
                        _ if !is_due => {}
                        None => self.bodies.keep(receipt.key.number(), message),
                        // The record has this queue, too.
                        Some(_) => self.bodies.keep(receipt.key.number(), &Arc::new(sent.to_message())),
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
            (_, Command::DeleteQueue { name }, _) => {
                self.windows.forget(name);
                self.ahead.remove(*name);
            }
            _ => {}
        }
    }

    /// Serves a call that may change something.
    fn change<L: LogStore>(
        &mut self,
        turn: &mut QueueTurn<'_, T, L>,
        call: &Call,
        progress: &mut Progress,
    ) -> Served<Answer> {
        if let Some(refusal) = unreadable_text(call).or_else(|| self.refusal_for_routes(turn.state(), call)) {
            return Served::Done(Answer::refused(refusal));
        }
        let up_to = *progress.up_to.get_or_insert_with(|| turn.state().newest_number());
        let left = match call {
            Call::Redrive { max, .. } => max.unwrap_or(u64::MAX) - progress.done,
            _ => 0,
        };
        let owned;
        let command = match call {
            Call::SetQueue { name, settings } => {
                owned = with_owner(turn.state(), name, settings);
                Command::SetQueue { name, settings: &owned }
            }
            _ => call.command(up_to, left).expect("reads are served elsewhere"),
        };
        let class = class_of(call);
        let (count, more) = match self.execute(turn, class, &command) {
            Executed::NoRoom => return Served::Paused(Pause::Room),
            Executed::DiskFull => return Served::TurnedAway(Unavailable::DiskFull),
            Executed::Done(Outcome::Some { count, more }) => (count, more),
            Executed::Done(outcome) => {
                match (&outcome, &command) {
                    (Outcome::Done, Command::SetQueue { name, settings }) => self.tell_declared(name, settings),
                    (Outcome::Done, Command::DeleteQueue { name }) => self.tell_deleted(name),
                    (Outcome::Refused(refusal), Command::SetQueue { name, settings }) => {
                        self.note_refused(refusal, (name, settings.owner.as_deref()), turn.now());
                    }
                    (Outcome::Refused(refusal), _) => {
                        // What has no room is the queue to which messages were to go.
                        let queue = match call {
                            Call::Route { to, .. } | Call::Redrive { to, .. } => to,
                            _ => call.queue().unwrap_or_default(),
                        };
                        let owner = turn.state().settings(queue).and_then(|settings| settings.owner.as_deref());
                        self.note_refused(refusal, (queue, owner), turn.now());
                    }
                    _ => {}
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

/// The settings that a queue gets: whoever gives it others does not become its owner.
fn with_owner(queues: &Queues, name: &str, settings: &Settings) -> Settings {
    let owner = match queues.settings(name) {
        Some(before) => before.owner.clone(),
        None => settings.owner.clone(),
    };
    Settings { owner, ..settings.clone() }
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
        match call {
            // What is done of them before others have their turn.
            Call::Purge { .. } => PURGED_PER_RECORD,
            Call::Redrive { max, .. } => {
                max.map_or(BATCH_MESSAGES_MAX, |max| BATCH_MESSAGES_MAX.min(max as usize)).max(1)
            }
            _ => call.items().max(1),
        }
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
