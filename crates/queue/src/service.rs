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

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use tidegate_journal::{JournalError, LogReader, LogStore, NoRoom, RecordClass};
use tidegate_machines::queue::limits::{BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, MESSAGE_OVERHEAD_BYTES};
use tidegate_machines::queue::{
    BodyPlace, Bounds, Command, Delivery, Event, Message, MessageView, Offer, Outcome, Queues, Refusal,
};
use tidegate_machines::{Decision, Machine, TimeMs};
use tidegate_shard::{JobId, Jobs, Pause, Room, Served, Service, TurnOf, Unavailable, Unsolicited};

use crate::bodies::{Bodies, ReadBodies, read_bodies};
use crate::call::{Answer, Call, Found, Read, Receive, Received};
use crate::family::QueuesFamily;
use crate::limits::{
    ANSWER_BYTES_MAX, CALL_BYTES_WAITING_MAX, CALLS_WAITING_MAX, LOG_BYTES_PER_LIVE_BYTE, PAGE_ROWS_MAX,
    READ_AHEAD_BYTES, READ_AHEAD_MESSAGES, SEGMENTS_MIN, TIMERS_PER_STEP, WAIT_MS_MAX,
};
use crate::rates::Rates;
use crate::trail::{Trail, TrailWalk};
use crate::waiters::{Waiter, Waiters};

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
    /// Nobody waits for the answer to this request any more.
    Forget(T),
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

/// For whom a job reads.
#[derive(Debug)]
enum Reading<T> {
    /// A receiver who has these leases, and these messages so far.
    Delivery(T, Vec<(Delivery, u32)>, HashMap<u64, Arc<Message>>),
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
    /// The start of this process is noted.
    has_started: bool,
    bodies: Bodies,
    waiters: Waiters<T>,
    /// Receivers that came since the last step.
    arrived: Vec<(T, Receive)>,
    readings: BTreeMap<JobId, Reading<T>>,
    found: BTreeMap<JobId, Fetched>,
    /// Queues for which bodies are being read ahead.
    ahead: BTreeSet<Box<str>>,
    /// Answers of receivers, for the end of the step.
    ready: Vec<(T, Answer)>,
    /// Bodies to be written again.
    moves: VecDeque<(u64, Arc<Message>)>,
    /// Nothing is moved before, because bodies could not be read.
    move_after: TimeMs,
    is_moving: bool,
    rates: BTreeMap<Box<str>, Rates>,
    rates_at: TimeMs,
    unreadable: u64,
    bodies_read: u64,
    moved: u64,
}

type QueueTurn<'a, T, L> = TurnOf<'a, QueueService<T>, L>;

impl<T: Clone + PartialEq> QueueService<T> {
    /// A service over recovered state.
    pub fn new(options: QueueOptions) -> QueueService<T> {
        QueueService {
            options,
            has_started: false,
            bodies: Bodies::new(options.bodies_bytes_max),
            waiters: Waiters::default(),
            arrived: Vec::new(),
            readings: BTreeMap::new(),
            found: BTreeMap::new(),
            ahead: BTreeSet::new(),
            ready: Vec::new(),
            moves: VecDeque::new(),
            move_after: TimeMs(0),
            is_moving: false,
            rates: BTreeMap::new(),
            rates_at: TimeMs(0),
            unreadable: 0,
            bodies_read: 0,
            moved: 0,
        }
    }

    /// Memory of bodies, receivers that wait, bodies that were read from the log, those that could not be, and those
    /// that were written again.
    pub fn facts(&self) -> [u64; 5] {
        [self.bodies.bytes(), self.waiters.len() as u64, self.bodies_read, self.unreadable, self.moved]
    }

    /// Tells all who wait that there is nothing: the process stops.
    pub fn stop_waiting(&mut self) {
        let tickets = self.waiters.take_all().into_iter().map(|waiter| waiter.ticket);
        let arrived = std::mem::take(&mut self.arrived).into_iter().map(|(ticket, _)| ticket);
        let ready = tickets.chain(arrived).map(|ticket| (ticket, Answer::Received(Vec::new())));
        self.ready.extend(ready.collect::<Vec<_>>());
    }

    /// Once a second: brings the rates up to date, and lets go of bodies whose messages are gone.
    fn follow_rates(&mut self, queues: &Queues, now: TimeMs) {
        let passed = now.0.saturating_sub(self.rates_at.0);
        if passed < 1_000 {
            return;
        }
        self.rates_at = now;
        let mut rates = BTreeMap::new();
        for view in queues.views("") {
            let mut of_queue = self.rates.remove(&view.name).unwrap_or_else(|| Rates::new(&view.totals));
            of_queue.follow(&view.totals, passed as f64 / 1_000.0);
            rates.insert(view.name, of_queue);
        }
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

    /// Keeps the bodies of what was just sent, and lets go of those that are done with.
    fn follow(&mut self, event: &Event<'_>, command: &Command<'_>, outcome: &Outcome, now: TimeMs) {
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
            (Event::Purged { numbers, .. }, ..) => numbers.iter().for_each(|number| self.bodies.remove(*number)),
            (Event::Cancelled { message, .. }, ..) => self.bodies.remove(message.number),
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
            Executed::Done(outcome) => return Served::Done(Answer::Outcome(outcome)),
        };
        progress.done += count;
        match more && count > 0 && left != count {
            true => Served::Paused(Pause::Step),
            false => Served::Done(Answer::Outcome(Outcome::Some { count: progress.done, more })),
        }
    }

    fn look<L: LogStore>(
        &mut self,
        turn: &QueueTurn<'_, T, L>,
        read: &Read,
        progress: &mut Progress,
        jobs: &mut Jobs<Self>,
    ) -> Served<Answer> {
        if let Some((job, messages)) = progress.reads.take() {
            return Served::Done(Answer::Messages(self.finish_reading(job, messages), progress.more));
        }
        let queues = turn.state();
        let not_found = |queue: &str| Served::Done(Answer::refused(Refusal::QueueNotFound(queue.into())));
        let key = match read {
            Read::Queue(name) => {
                let Some(view) = queues.view(name) else { return not_found(name) };
                return Served::Done(Answer::Queue(Box::new(view), self.rates_of(name)));
            }
            Read::Queues { after, limit } => {
                let views = queues.views(after).take((*limit).min(PAGE_ROWS_MAX));
                let rows = views.map(|view| (self.rates_of(&view.name), view)).map(|(rates, view)| (view, rates));
                return Served::Done(Answer::Queues(rows.collect()));
            }
            Read::Browse { queue, after, limit } => {
                let Some(messages) = queues.browse(queue, *after) else { return not_found(queue) };
                let mut bytes = 0;
                let mut fits = |view: &MessageView| {
                    bytes += u64::from(view.bytes);
                    bytes <= ANSWER_BYTES_MAX || bytes == u64::from(view.bytes)
                };
                let mut messages = messages.peekable();
                let mut views = Vec::new();
                while views.len() < (*limit).min(PAGE_ROWS_MAX)
                    && let Some(view) = messages.next_if(&mut fits)
                {
                    views.push(view);
                }
                progress.more = messages.next().is_some();
                return self.read_messages(turn, views, None, progress, jobs);
            }
            Read::Message(key) => Some(*key),
            Read::ById { queue, id } => queues.key_of_id(queue, id, turn.now()),
        };
        let Some(view) = key.and_then(|key| queues.message(key)) else {
            return Served::Done(Answer::refused(Refusal::MessageNotFound));
        };
        let walk = TrailWalk::new(view.body.number, view.last);
        self.read_messages(turn, vec![view], Some(walk), progress, jobs)
    }

    /// Gets the bodies of messages, and the trail of the only one.
    fn read_messages<L: LogStore>(
        &mut self,
        turn: &QueueTurn<'_, T, L>,
        views: Vec<MessageView>,
        mut walk: Option<TrailWalk>,
        progress: &mut Progress,
        jobs: &mut Jobs<Self>,
    ) -> Served<Answer> {
        let (mut messages, mut places) = (Vec::with_capacity(views.len()), Vec::new());
        for view in views {
            let is_gone = view.state.is_finished();
            let message = if is_gone { None } else { self.bodies.find(view.body, turn) };
            places.extend((message.is_none() && !is_gone).then_some(view.body));
            messages.push(Found { view, message, trail: Trail::default() });
        }
        let is_walked = walk.as_mut().is_none_or(|walk| walk.walk_in_memory(turn));
        if is_walked && let Some(trail) = walk.take().map(TrailWalk::into_trail) {
            messages[0].trail = trail;
        }
        if places.is_empty() && walk.is_none() {
            return Served::Done(Answer::Messages(messages, progress.more));
        }
        let job = jobs.start(Job { places, trail: walk });
        self.readings.insert(job, Reading::Call);
        progress.reads = Some((job, messages));
        Served::Paused(Pause::Aside(job))
    }

    fn finish_reading(&mut self, job: JobId, mut messages: Vec<Found>) -> Vec<Found> {
        let Fetched { bodies, trail } = self.found.remove(&job).expect("a call is resumed when its job is back");
        let mut bodies: HashMap<u64, _> = bodies.into_iter().collect();
        for found in &mut messages {
            if let Some(Ok(message)) = bodies.remove(&found.view.body.number) {
                found.message = Some(message);
            }
        }
        if let (Some(trail), [only]) = (trail, &mut *messages) {
            only.trail = trail;
        }
        messages
    }

    /// Hands out what there is to those who wait. Whether anything happened.
    fn serve_waiters<L: LogStore>(&mut self, turn: &mut QueueTurn<'_, T, L>, jobs: &mut Jobs<Self>) -> bool {
        let mut worked = false;
        for (ticket, receive) in std::mem::take(&mut self.arrived) {
            worked = true;
            if let Some(refusal) = self.refusal_of(turn, &receive) {
                self.ready.push((ticket, Answer::refused(refusal)));
                continue;
            }
            let wait_ms = receive.wait_ms.min(WAIT_MS_MAX);
            self.waiters.push(ticket, Receive { wait_ms, ..receive }, turn.now());
        }
        let queues: Vec<Box<str>> = self.waiters.queues().map(Into::into).collect();
        for queue in queues {
            while self.serve_first(turn, &queue, jobs) {
                worked = true;
            }
        }
        while let Some(waiter) = self.waiters.pop_ended(turn.now()) {
            worked = true;
            self.ready.push((waiter.ticket, Answer::Received(Vec::new())));
        }
        worked
    }

    /// Why a request for messages cannot be: this is said at once, and not when there is something to hand out.
    fn refusal_of<L: LogStore>(&self, turn: &QueueTurn<'_, T, L>, receive: &Receive) -> Option<Refusal> {
        let Receive { queue, max, lease_ms, consumer, .. } = receive;
        let (max, lease_ms) = (*max, *lease_ms);
        let command = Command::Receive { queue, max, bytes_max: 0, lease_ms, consumer };
        match turn.state().decide(&command, self.options.bounds, turn.now()) {
            Decision::Answer(Outcome::Refused(refusal)) => Some(refusal),
            _ => None,
        }
    }

    /// Serves the first who waits for a queue. Whether the next one may be served.
    fn serve_first<L: LogStore>(&mut self, turn: &mut QueueTurn<'_, T, L>, queue: &str, jobs: &mut Jobs<Self>) -> bool {
        let Some(Waiter { receive, .. }) = self.waiters.first(queue) else { return false };
        match turn.state().offers(queue, turn.now()) {
            Offer::Now | Offer::NoQueue => {}
            Offer::From(_) | Offer::Nothing => return false,
        }
        let Receive { max, lease_ms, consumer, .. } = receive.clone();
        let (bytes_max, consumer) = (ANSWER_BYTES_MAX, &*consumer);
        let command = Command::Receive { queue, max, bytes_max, lease_ms, consumer };
        let deliveries = match self.execute(turn, RecordClass::Note, &command) {
            Executed::NoRoom | Executed::DiskFull => return false,
            Executed::Done(Outcome::Leased(deliveries)) if deliveries.is_empty() => return false,
            Executed::Done(Outcome::Leased(deliveries)) => deliveries,
            Executed::Done(outcome) => {
                let waiter = self.waiters.pop(queue).expect("it was there just now");
                self.ready.push((waiter.ticket, Answer::Outcome(outcome)));
                return true;
            }
        };
        let waiter = self.waiters.pop(queue).expect("it was there just now");
        self.deliver(turn, waiter.ticket, deliveries, jobs);
        self.read_ahead(turn, queue, jobs);
        true
    }

    /// Gets the bodies of what was handed out.
    fn deliver<L: LogStore>(
        &mut self,
        turn: &QueueTurn<'_, T, L>,
        ticket: T,
        deliveries: Vec<Delivery>,
        jobs: &mut Jobs<Self>,
    ) {
        let (mut messages, mut places) = (HashMap::with_capacity(deliveries.len()), Vec::new());
        for delivery in &deliveries {
            let number = delivery.lease.key.number();
            let place = turn.state().body_place(number).expect("what was handed out is there");
            match self.bodies.find(place, turn) {
                Some(message) => drop(messages.insert(number, message)),
                None => places.push(place),
            }
            self.bodies.remove(number);
        }
        let deliveries: Vec<(Delivery, u32)> =
            deliveries.into_iter().map(|delivery| (delivery, delivery.lease.attempt)).collect();
        match places.is_empty() {
            true => self.ready.push((ticket, received(deliveries, messages))),
            false => {
                let job = jobs.start(Job { places, trail: None });
                self.readings.insert(job, Reading::Delivery(ticket, deliveries, messages));
            }
        }
    }

    /// Reads the bodies that will be handed out next, if they are not in memory.
    fn read_ahead<L: LogStore>(&mut self, turn: &QueueTurn<'_, T, L>, queue: &str, jobs: &mut Jobs<Self>) {
        if self.ahead.contains(queue) {
            return;
        }
        let mut coming = turn.state().coming(queue).take(READ_AHEAD_MESSAGES);
        let is_here = |bodies: &Bodies, place: BodyPlace| bodies.get(place.number).is_some();
        // Until half of what was read ahead is handed out, nothing is read.
        let near: Vec<BodyPlace> = coming.by_ref().take(READ_AHEAD_MESSAGES / 2).collect();
        if near.is_empty() || near.iter().all(|place| is_here(&self.bodies, *place)) {
            return;
        }
        let mut places = Vec::new();
        let mut bytes = 0;
        for place in near.into_iter().chain(coming) {
            if is_here(&self.bodies, place) {
                continue;
            }
            bytes += turn.state().bytes_of(place.number);
            if bytes > READ_AHEAD_BYTES && !places.is_empty() {
                break;
            }
            match self.bodies.find(place, turn) {
                Some(message) => self.bodies.keep_next(place.number, message),
                None => places.push(place),
            }
        }
        if !places.is_empty() {
            self.ahead.insert(queue.into());
            let job = jobs.start(Job { places, trail: None });
            self.readings.insert(job, Reading::Ahead(queue.into()));
        }
    }

    /// Writes old bodies again when the log has more garbage than messages. Whether anything happened.
    fn move_bodies<L: LogStore>(&mut self, turn: &mut QueueTurn<'_, T, L>, jobs: &mut Jobs<Self>) -> bool {
        let mut worked = false;
        while !self.moves.is_empty() {
            let (mut bytes, mut count) = (0, 0);
            let fits = |(_, message): &(u64, Arc<Message>)| {
                bytes += message.bytes() + MESSAGE_OVERHEAD_BYTES;
                count += 1;
                bytes <= BATCH_BYTES_MAX && count <= BATCH_MESSAGES_MAX
            };
            let part: Vec<_> = self.moves.iter().cloned().take_while(fits).collect();
            match self.execute(turn, RecordClass::Return, &Command::Move { messages: &part }) {
                Executed::NoRoom | Executed::DiskFull => return worked,
                Executed::Done(_) => {}
            }
            self.moves.drain(..part.len());
            self.moved += part.len() as u64;
            worked = true;
        }
        let is_reading = self.readings.values().any(|reading| matches!(reading, Reading::Move));
        self.is_moving = is_reading;
        if !is_reading && turn.now() >= self.move_after && self.has_garbage(turn) {
            let places = turn.state().in_oldest_place();
            let job = jobs.start_later(u64::MAX, Job { places, trail: None });
            self.readings.insert(job, Reading::Move);
            self.is_moving = true;
        }
        worked
    }

    fn has_garbage<L: LogStore>(&self, turn: &QueueTurn<'_, T, L>) -> bool {
        let Some(since) = turn.state().bodies_since() else { return false };
        let (_, messages) = turn.state().totals();
        let live = turn.state().live_bytes() + messages * MESSAGE_OVERHEAD_BYTES as u64;
        let log = turn.durable().position().0.saturating_sub(since.0);
        log > SEGMENTS_MIN * self.options.segment_bytes && log > LOG_BYTES_PER_LIVE_BYTE * live
    }
}

/// What was handed out and can be read.
fn received(deliveries: Vec<(Delivery, u32)>, mut messages: HashMap<u64, Arc<Message>>) -> Answer {
    let with_body = |(delivery, attempts): (Delivery, u32)| {
        let message = messages.remove(&delivery.lease.key.number())?;
        Some(Received { delivery, attempts, message })
    };
    Answer::Received(deliveries.into_iter().filter_map(with_body).collect())
}

/// How much of a full disk a call may use.
const fn class_of(call: &Call) -> RecordClass {
    match call {
        Call::SetQueue { .. } | Call::Send { .. } | Call::Reschedule { .. } => RecordClass::New,
        _ => RecordClass::Note,
    }
}

impl<T: Clone + PartialEq> Service for QueueService<T> {
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

    fn work(call: &Call) -> usize {
        match call {
            Call::Send { messages, .. } => messages.len(),
            Call::Acknowledge { leases, .. } | Call::Extend { leases, .. } | Call::Reject { leases, .. } => {
                leases.len()
            }
            _ => 1,
        }
    }

    fn note(&mut self, note: Note<T>) {
        match note {
            Note::Receive(ticket, receive) => {
                match self.waiters.len() + self.arrived.len() < self.options.receivers_max {
                    true => self.arrived.push((ticket, receive)),
                    false => self.ready.push((ticket, Answer::refused(TOO_MANY_RECEIVERS))),
                }
            }
            Note::Forget(ticket) => {
                self.arrived.retain(|(of, _)| *of != ticket);
                self.waiters.remove(|of| *of == ticket);
            }
        }
    }

    fn is_idle(&self) -> bool {
        let reads = self.readings.values().any(|reading| matches!(reading, Reading::Delivery(..) | Reading::Call));
        self.arrived.is_empty() && self.ready.is_empty() && !reads
    }

    fn before<L: LogStore>(&mut self, turn: &mut QueueTurn<'_, T, L>) -> Result<bool, JournalError> {
        let mut worked = false;
        if !self.has_started {
            let start = Command::Start { node: self.options.node };
            self.has_started = matches!(self.execute(turn, RecordClass::Note, &start), Executed::Done(_));
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
        let mut worked = self.serve_waiters(turn, jobs);
        worked |= self.move_bodies(turn, jobs);
        worked |= !self.ready.is_empty();
        self.ready.drain(..).for_each(|(ticket, answer)| out.push(ticket, answer));
        Ok(worked)
    }

    fn fetched(&mut self, job: JobId, found: Fetched) {
        let reading = self.readings.remove(&job).expect("a job comes back once");
        let unreadable = found.bodies.iter().filter_map(|(number, body)| Some((number, body.as_ref().err()?)));
        for (number, error) in unreadable {
            self.unreadable += 1;
            tracing::error!(number, error, "the body of a message cannot be read; it is tried again when it is due");
        }
        self.bodies_read += found.bodies.len() as u64;
        match reading {
            Reading::Call => drop(self.found.insert(job, found)),
            Reading::Delivery(ticket, deliveries, mut messages) => {
                messages.extend(found.bodies.into_iter().filter_map(|(number, body)| Some((number, body.ok()?))));
                self.ready.push((ticket, received(deliveries, messages)));
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
                if found.bodies.iter().any(|(_, body)| body.is_err()) {
                    self.move_after = TimeMs(self.rates_at.0 + 60_000);
                }
                self.moves.extend(found.bodies.into_iter().filter_map(|(number, body)| Some((number, body.ok()?))));
            }
        }
    }

    fn run<R: LogReader>(job: Job, reader: &R) -> Fetched {
        let bodies = read_bodies(job.places, reader);
        Fetched { bodies, trail: job.trail.map(|walk| walk.finish(reader)) }
    }
}

/// Said to a receiver for whom there is no room.
const TOO_MANY_RECEIVERS: Refusal =
    Refusal::ArgumentInvalid("as many requests wait for messages as may (queues.receivers_max); ask again later");
