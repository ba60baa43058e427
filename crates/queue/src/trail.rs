//! What happened to a message, read backwards: each record about it says where the one before it stands.
//!
//! ```text
//!   entry.last ─▶ acknowledged ─▶ leased by b ─▶ rejected: no route ─▶ leased by a ─▶ sent
//! ```
//!
//! What ended by the clock alone (a lease, a delay) has no record of its own about each message: the next step shows
//! it. A message that has expired has no next step, so its trail ends with its expiry, which is read from its entry.

use tidegate_journal::{JournalError, LogReader, LogStore, Position};
use tidegate_machines::queue::limits::TRAIL_STEPS_MAX;
use tidegate_machines::queue::{Event, MessageState, MessageView, Queues, Touched, Verdict};
use tidegate_machines::{Machine, RecordPosition, TimeMs};
use tidegate_shard::Turn;

/// One step of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at: TimeMs,
    /// What.
    pub kind: StepKind,
}

/// What happened to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say what they are")]
pub enum StepKind {
    Sent,
    /// A schedule sent it.
    Fired {
        schedule: Box<str>,
    },
    Leased {
        consumer: Box<str>,
        until: TimeMs,
    },
    Extended {
        until: TimeMs,
    },
    Rejected {
        reason: Box<str>,
        again_at: Option<TimeMs>,
    },
    /// Given back; that delivery does not count.
    Returned {
        reason: Box<str>,
        visible_at: TimeMs,
    },
    Acknowledged,
    /// Another system has it, and calls it so; empty if it does not say, or if there was no room to remember it.
    Handed {
        to: Box<str>,
        reference: Box<str>,
    },
    /// Something was learned about it.
    Noted {
        text: Box<str>,
    },
    Cancelled,
    Rescheduled {
        visible_at: TimeMs,
    },
    /// Put into another queue.
    Redriven {
        /// Not known of a step of before names were written.
        to: Option<Box<str>>,
    },
    /// Nobody acknowledged it in time.
    Expired,
    /// A route has put it into another queue.
    Routed {
        by: Box<str>,
        to: Box<str>,
    },
    /// Its body was written again, behind others, so that the log can be shortened.
    Moved,
}

/// The steps of a message, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// The steps.
    pub steps: Vec<Step>,
    /// There were more, which are forgotten, or cannot be read.
    pub is_cut: bool,
    /// Under which id it was sent, if the record that says so was read.
    pub sent_as: Option<SentAs>,
}

/// The id of a message as it was sent, with its space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentAs(pub Option<Box<str>>);

/// Where the reading of a trail stands.
#[derive(Clone, Debug)]
pub struct TrailWalk {
    number: u64,
    next: RecordPosition,
    trail: Trail,
}

impl TrailWalk {
    /// Begins with the newest record about a message, or with its expiry, of which there is none.
    pub fn new(view: &MessageView) -> TrailWalk {
        let expired = view.expires_at.filter(|_| view.state == MessageState::Expired);
        let steps = expired.map(|at| Step { at, kind: StepKind::Expired }).into_iter().collect();
        TrailWalk { number: view.body.number, next: view.last, trail: Trail { steps, ..Trail::default() } }
    }

    /// The number of its message.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Goes on while the records are in memory. Whether it is done.
    pub fn walk_in_memory<L: LogStore>(&mut self, turn: &Turn<'_, Queues, L>) -> bool {
        while !self.is_done() {
            let Some(record) = turn.peek(Position(self.next.0)) else { return false };
            self.take(record);
        }
        true
    }

    /// Reads what is left.
    pub fn finish<R: LogReader>(mut self, reader: &R) -> Trail {
        let mut record = Vec::new();
        while !self.is_done() {
            match reader.read(Position(self.next.0), &mut record) {
                Ok(()) => self.take(&record),
                Err(JournalError::Forgotten { .. } | _) => {
                    self.trail.is_cut = true;
                    break;
                }
            }
        }
        self.trail
    }

    /// What was read.
    pub fn into_trail(self) -> Trail {
        self.trail
    }

    fn is_done(&self) -> bool {
        self.next == RecordPosition::NONE
    }

    fn take(&mut self, record: &[u8]) {
        let event = Queues::decode(record).ok();
        let sent_as = event.as_ref().and_then(|event| sent_as(event, self.number));
        self.trail.sent_as = sent_as.or(self.trail.sent_as.take());
        let step = event.as_ref().and_then(|event| step_of(event, self.number));
        let Some((step, before)) = step else {
            self.trail.is_cut = true;
            self.next = RecordPosition::NONE;
            return;
        };
        self.trail.steps.push(step);
        self.next = before;
        if self.trail.steps.len() >= TRAIL_STEPS_MAX && !self.is_done() {
            self.trail.is_cut = true;
            self.next = RecordPosition::NONE;
        }
    }
}

/// Under which id a message was sent, if an event has it.
fn sent_as(event: &Event<'_>, number: u64) -> Option<SentAs> {
    let sent = match event {
        Event::Sent { first, messages, .. } => messages.get(number.checked_sub(*first)? as usize)?,
        Event::Moved { messages, .. } => &messages.iter().find(|moved| moved.touched.number == number)?.message,
        Event::Fired { first, message, .. } if *first == number => message,
        _ => return None,
    };
    Some(SentAs(sent.origin_id.or(sent.id).map(Into::into)))
}

/// What an event says of a message, and where the record before it stands.
fn step_of(event: &Event<'_>, number: u64) -> Option<(Step, RecordPosition)> {
    let among = |messages: &[Touched]| messages.iter().find(|touched| touched.number == number).copied();
    let (kind, touched) = match event {
        Event::Sent { first, messages, .. } => {
            let is_here = (*first..first + messages.len() as u64).contains(&number);
            return is_here.then(|| (Step { at: event.at(), kind: StepKind::Sent }, RecordPosition::NONE));
        }
        Event::Fired { name, first, .. } => {
            let kind = StepKind::Fired { schedule: (*name).into() };
            return (*first == number).then(|| (Step { at: event.at(), kind }, RecordPosition::NONE));
        }
        Event::Leased { until, consumer, messages, .. } => {
            (StepKind::Leased { consumer: (*consumer).into(), until: *until }, among(messages)?)
        }
        Event::Extended { until, messages, .. } => (StepKind::Extended { until: *until }, among(messages)?),
        Event::Rejected { reason, messages, .. } => {
            let (touched, verdict) = messages.iter().find(|(touched, _)| touched.number == number)?;
            let again_at = match verdict {
                Verdict::Again(at) => Some(*at),
                Verdict::Dead => None,
            };
            (StepKind::Rejected { reason: (*reason).into(), again_at }, *touched)
        }
        Event::Returned { reason, visible_at, messages, .. } => {
            (StepKind::Returned { reason: (*reason).into(), visible_at: *visible_at }, among(messages)?)
        }
        Event::Handed { to, messages, .. } => {
            let (touched, reference) = messages.iter().find(|(touched, _)| touched.number == number)?;
            (StepKind::Handed { to: (*to).into(), reference: (*reference).into() }, *touched)
        }
        Event::Noted { message, text, .. } => (StepKind::Noted { text: (*text).into() }, among(&[*message])?),
        Event::Acknowledged { messages, .. } => (StepKind::Acknowledged, among(messages)?),
        Event::Cancelled { message, .. } => (StepKind::Cancelled, among(&[*message])?),
        Event::Rescheduled { visible_at, message, .. } => {
            (StepKind::Rescheduled { visible_at: *visible_at }, among(&[*message])?)
        }
        Event::Redriven { name, messages, .. } => (StepKind::Redriven { to: name.map(Into::into) }, among(messages)?),
        Event::Routed { to, by, messages, .. } => {
            (StepKind::Routed { by: (*by).into(), to: (*to).into() }, among(messages)?)
        }
        Event::Moved { messages, .. } => {
            let moved = messages.iter().find(|moved| moved.touched.number == number)?;
            (StepKind::Moved, moved.touched)
        }
        _ => return None,
    };
    Some((Step { at: event.at(), kind }, touched.before))
}
