//! Messages in the order of their keys.
//!
//! ```text
//!   numbers   1 ───── start ───── 400 ───── start ───── 900 ───── next
//!                └─ from ─┐           └─ from ─┐           └─ from ─┐
//!                         └────────────────────┼────────────────────┘
//!                                              ▼ the smallest key of all, again and again
//! ```
//!
//! Between two starts, keys grow with numbers, so the first of a range is found by halves. Over all starts they may
//! not: the node may have got another number while the clock stood still.

use std::iter::Peekable;
use std::ops::{Range, RangeInclusive};

use super::key::MessageKey;
use super::reads::MessageView;
use super::state::{Queue, Queues};

/// Messages that were taken between two starts, in the order of their numbers and keys.
type OfOneStart<'a> = Peekable<Box<dyn Iterator<Item = (MessageKey, u64)> + 'a>>;

impl Queues {
    /// The messages of a queue that are not gone, and whose keys are in a range.
    pub fn browse(&self, queue: &str, keys: RangeInclusive<MessageKey>) -> Option<impl Iterator<Item = MessageView>> {
        let queue = self.queue(self.index(queue)?);
        Some(self.in_order(keys, |from| self.of_queue(queue, from)))
    }

    /// The messages of all queues whose keys are in a range, also those that are gone and whose trails are kept.
    pub fn browse_all(&self, keys: RangeInclusive<MessageKey>) -> impl Iterator<Item = MessageView> {
        self.in_order(keys, |from| self.of_all(from))
    }

    /// Of the messages that `numbered` has from a number on, those whose keys are in a range, in the order of keys.
    fn in_order<'a, I: Iterator<Item = (MessageKey, u64)> + 'a>(
        &'a self,
        keys: RangeInclusive<MessageKey>,
        numbered: impl Fn(u64) -> I + 'a,
    ) -> impl Iterator<Item = MessageView> + 'a {
        let from = *keys.start();
        let begin = |numbers: Range<u64>| {
            let first = first_from(from, &numbers, |number| numbered(number).next());
            let of_start = numbered(first).take_while(move |(_, number)| *number < numbers.end);
            (Box::new(of_start) as Box<dyn Iterator<Item = (MessageKey, u64)> + 'a>).peekable()
        };
        let mut starts: Vec<OfOneStart<'a>> = self.numbers_of_starts().map(begin).collect();
        std::iter::from_fn(move || {
            let key_of = |of_start: &mut OfOneStart<'a>| of_start.peek().map(|(key, _)| *key);
            let heads = starts.iter_mut().enumerate();
            let (first, key) =
                heads.filter_map(|(index, of)| Some((index, key_of(of)?))).min_by_key(|(_, key)| *key)?;
            let (_, number) = starts[first].next().filter(|_| key <= *keys.end())?;
            Some(self.message_view(number))
        })
    }

    /// The numbers that were given between two starts.
    fn numbers_of_starts(&self) -> impl Iterator<Item = Range<u64>> {
        let starts = || self.starts.keys().copied();
        [0].into_iter().chain(starts()).zip(starts().chain([self.next])).map(|(first, end)| first..end)
    }

    fn of_queue(&self, queue: &Queue, from: u64) -> impl Iterator<Item = (MessageKey, u64)> {
        queue.members.iter_from(from).map(|number| (self.key_of(number, self.messages.of(number).sent_at), number))
    }

    fn of_all(&self, from: u64) -> impl Iterator<Item = (MessageKey, u64)> {
        self.messages.iter_from(from).map(|(number, entry)| (self.key_of(number, entry.sent_at), number))
    }
}

/// The number from which on keys are at least `key`, of numbers whose keys grow. `next` is the first message from a
/// number on.
fn first_from(key: MessageKey, numbers: &Range<u64>, next: impl Fn(u64) -> Option<(MessageKey, u64)>) -> u64 {
    let (mut low, mut high) = (numbers.start, numbers.end);
    // Of most starts nothing is left.
    let mut middle = low;
    while low < high {
        match next(middle).filter(|(_, number)| *number < high) {
            None if middle == low => return high,
            Some((found, number)) if found < key => low = number + 1,
            _ => high = middle,
        }
        middle = low.midpoint(high);
    }
    low
}
