//! Messages whose bodies are in memory: those that will be handed out next, up to a bound. All others are read from the
//! log.
//!
//! ```text
//!   send ─▶ kept if there is room       lease ─▶ kept? ─▶ in the log's memory? ─▶ a job reads it, and those behind it
//! ```

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_journal::{JournalError, LogReader, LogStore, Position};
use tidegate_machines::Machine;
use tidegate_machines::queue::{BodyPlace, Event, Message, Queues};
use tidegate_planted::{Bug, is_planted};
use tidegate_shard::Turn;

/// Memory that a message takes beside its bytes, about.
const OVERHEAD_BYTES: u64 = 200;

/// The bodies in memory.
#[derive(Debug)]
pub(crate) struct Bodies {
    by_number: BTreeMap<u64, Arc<Message>>,
    bytes: u64,
    bytes_max: u64,
    /// From which of them on those that are gone are looked for next.
    unswept: u64,
}

fn weight(message: &Message) -> u64 {
    message.bytes() as u64 + OVERHEAD_BYTES
}

impl Bodies {
    pub fn new(bytes_max: u64) -> Bodies {
        Bodies { by_number: BTreeMap::new(), bytes: 0, bytes_max, unswept: 0 }
    }

    /// Memory that they take, about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn get(&self, number: u64) -> Option<&Arc<Message>> {
        self.by_number.get(&number)
    }

    /// Keeps a message that was sent, if there is room.
    pub fn keep(&mut self, number: u64, message: &Arc<Message>) {
        if self.bytes + weight(message) <= self.bytes_max {
            self.insert(number, message.clone());
        }
    }

    /// Keeps a message that will be handed out soon. Those that were sent last go for it; whether that made room.
    pub fn keep_next(&mut self, number: u64, message: Arc<Message>) -> bool {
        let before = self.get(number).map_or(0, |before| weight(before));
        while self.bytes - before + weight(&message) > self.bytes_max {
            let Some((last, _)) = self.by_number.last_key_value().filter(|(last, _)| **last > number) else {
                return false;
            };
            let last = *last;
            self.remove(last);
        }
        self.insert(number, message);
        true
    }

    fn insert(&mut self, number: u64, message: Arc<Message>) {
        self.bytes += weight(&message);
        if let Some(before) = self.by_number.insert(number, message) {
            self.bytes -= weight(&before);
        }
    }

    pub fn remove(&mut self, number: u64) {
        if let Some(message) = self.by_number.remove(&number) {
            self.bytes -= weight(&message);
        }
    }

    /// Lets go of those of the next `most` that are gone: of a million, all at once would take a tenth of a second.
    pub fn sweep(&mut self, queues: &Queues, most: usize) {
        let (mut gone, mut looked_at) = (Vec::new(), 0);
        for number in self.by_number.range(self.unswept..).take(most).map(|(number, _)| *number) {
            (looked_at, self.unswept) = (looked_at + 1, number + 1);
            if queues.body_place(number).is_none() {
                gone.push(number);
            }
        }
        if looked_at < most {
            self.unswept = 0;
        }
        gone.into_iter().for_each(|number| self.remove(number));
    }

    /// What is at these places, as far as it is in memory here or in that of the log.
    pub fn find<'a, L: LogStore>(
        &'a self,
        places: &'a [BodyPlace],
        turn: &'a Turn<'_, Queues, L>,
    ) -> impl Iterator<Item = (BodyPlace, Option<Arc<Message>>)> + 'a {
        places.chunk_by(|a, b| a.record == b.record).flat_map(move |of_record| {
            let record = turn.peek(Position(of_record[0].record.0));
            let event = LazyCell::new(move || Queues::decode(record?).ok());
            of_record.iter().map(move |place| {
                let kept = self.get(place.number).cloned();
                (*place, kept.or_else(|| part_of(event.as_ref()?, *place).ok()))
            })
        })
    }
}

/// The message at a place of a record.
fn part_of(event: &Event<'_>, place: BodyPlace) -> Result<Arc<Message>, String> {
    let part = place.part - u16::from(is_planted(Bug::BodyMisread) && place.part > 0);
    let part = event.part(part).ok_or("the record has no such message")?;
    Ok(Arc::new(part.to_message()))
}

/// Messages as they were read, or why they could not be.
pub(crate) type ReadBodies = Vec<(u64, Result<Arc<Message>, String>)>;

/// Records that cannot be read, of those read together, around which is looked: to hash a segment takes long.
pub(crate) const LOOKS_OF_JOB: usize = 8;

/// Reads messages from the log; each record once. Looks around so many records that cannot be read, at most.
pub(crate) fn read_bodies<R: LogReader>(mut places: Vec<BodyPlace>, reader: &R, mut looks: usize) -> ReadBodies {
    places.sort_unstable_by_key(|place| (place.record, place.part));
    let mut record = Vec::new();
    let mut found = Vec::with_capacity(places.len());
    for of_record in places.chunk_by(|a, b| a.record == b.record) {
        let at = Position(of_record[0].record.0);
        let mut read = reader.read(at, &mut record);
        if looks > 0 && matches!(read, Err(JournalError::NoRecord { .. })) {
            looks -= 1;
            read = reader.read_right(at, &mut record);
        }
        let read = read.map_err(|error| error.to_string());
        let event = read.and_then(|()| Queues::decode(&record).map_err(|error| error.to_string()));
        let message = |place| event.as_ref().map_err(String::clone).and_then(|event| part_of(event, place));
        found.extend(of_record.iter().map(|place| (place.number, message(*place))));
    }
    found
}

#[cfg(test)]
mod tests {
    use tidegate_machines::ShardIndex;

    use super::*;

    fn message(bytes: usize) -> Arc<Message> {
        Arc::new(Message { body: vec![0; bytes].into(), ..Message::default() })
    }

    #[test]
    fn what_goes_out_next_is_kept() {
        let mut bodies = Bodies::new(3 * (OVERHEAD_BYTES + 100));
        (1..=4).for_each(|number| bodies.keep(number, &message(100)));
        let kept = |bodies: &Bodies| bodies.by_number.keys().copied().collect::<Vec<_>>();
        assert_eq!(kept(&bodies), [1, 2, 3], "there is no room for a fourth");
        bodies.remove(1);
        assert!(bodies.keep_next(2, message(200)));
        assert_eq!((kept(&bodies), bodies.bytes()), (vec![2, 3], 2 * OVERHEAD_BYTES + 300));
        assert!(bodies.keep_next(1, message(200)));
        assert_eq!(kept(&bodies), [1, 2], "the last one goes");
        assert!(!bodies.keep_next(9, message(400)));
        assert_eq!(kept(&bodies), [1, 2], "those before it stay");
        (1..=9).for_each(|number| bodies.remove(number));
        assert_eq!(bodies.bytes(), 0);
    }

    #[test]
    fn those_that_are_gone_are_let_go_of_some_at_a_time() {
        let mut bodies = Bodies::new(u64::MAX);
        (0..5).for_each(|number| bodies.keep(number, &message(1)));
        let queues = Queues::new(ShardIndex(0), 1);
        let mut left = || {
            bodies.sweep(&queues, 2);
            (bodies.by_number.len(), bodies.bytes())
        };
        let of = |count: usize| (count, count as u64 * (OVERHEAD_BYTES + 1));
        assert_eq!([left(), left(), left(), left()], [of(3), of(1), of(0), of(0)]);
        bodies.keep(0, &message(1));
        bodies.sweep(&queues, 2);
        assert!(bodies.by_number.is_empty(), "it begins anew");
    }
}
