//! What is read from the log aside, for whom, and how it goes on when it is there.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_journal::LogReader;
use tidegate_machines::TimeMs;
use tidegate_machines::queue::{BodyPlace, Delivery, Message};
use tidegate_shard::JobId;

use super::QueueService;
use crate::bodies::{LOOKS_OF_JOB, ReadBodies, read_bodies};
use crate::limits::READ_AHEAD_MESSAGES;
use crate::protocol::RequestTicket;
use crate::trail::{Trail, TrailWalk};
use crate::waiters::Waiter;

/// What a job reads.
#[derive(Debug)]
pub struct Job {
    pub(super) places: Vec<BodyPlace>,
    pub(super) trails: Vec<TrailWalk>,
}

/// What a job found.
#[derive(Debug)]
pub struct Fetched {
    pub(super) bodies: ReadBodies,
    /// By the numbers of their messages.
    pub(super) trails: HashMap<u64, Trail>,
}

/// What was handed out to a receiver, and is not with it yet.
#[derive(Debug)]
pub(super) struct Handover<T> {
    pub receiver: Waiter<T>,
    pub deliveries: Vec<Delivery>,
    /// By number, those whose bodies are there.
    pub messages: HashMap<u64, Arc<Message>>,
    /// Where the others are being read, or could not be.
    pub places: Vec<BodyPlace>,
}

/// Of the bodies of a queue that will be handed out next.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Some are being read.
    pub is_reading: bool,
    /// So many messages are handed out before it is worth looking again.
    pub not_before: usize,
}

/// For whom a job reads.
#[derive(Debug)]
pub(super) enum Reading<T> {
    /// A receiver.
    Delivery(Handover<T>),
    /// Those who will receive from a queue next.
    Ahead(Box<str>),
    /// The end of the log, to which old bodies move.
    Move,
    /// A call.
    Call,
}

impl<T> Reading<T> {
    /// The receiver that it reads for.
    pub fn receiver(self) -> Option<T> {
        match self {
            Reading::Delivery(handover) => Some(handover.receiver.ticket),
            Reading::Ahead(_) | Reading::Move | Reading::Call => None,
        }
    }
}

impl Job {
    pub(super) fn run<R: LogReader>(self, reader: &R) -> Fetched {
        let bodies = read_bodies(self.places, reader, LOOKS_OF_JOB);
        Fetched { bodies, trails: self.trails.into_iter().map(|walk| (walk.number(), walk.finish(reader))).collect() }
    }
}

impl<T: RequestTicket> QueueService<T> {
    /// Goes on with what a job has read.
    pub(super) fn take_found(&mut self, job: JobId, found: Fetched) {
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
                let (read, mut kept) = (found.bodies.len(), 0);
                for (number, body) in found.bodies {
                    let is_kept = body.is_ok_and(|message| self.bodies.keep_next(number, message));
                    kept += usize::from(is_kept);
                }
                if let Some(ahead) = self.ahead.get_mut(&queue) {
                    ahead.is_reading = false;
                    // Where memory is full of what goes out earlier, most would be read twice.
                    ahead.not_before = if kept < read / 2 { READ_AHEAD_MESSAGES / 2 } else { 0 };
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
}
