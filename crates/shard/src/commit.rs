//! Commit: a reply is released only after the record behind it is durable.
//!
//! ```text
//!   answer ─▶ wait_for(sequence) ─▶ │ CommitQueue │ ─▶ release(durable sequence) ─▶ Durable<answer> ─▶ reply
//! ```
//!
//! Why a type: only this file can create a [`Durable`], and a shard releases only `Durable` values. So code that
//! replies before the sync does not compile.

use std::collections::VecDeque;

use tidegate_journal::Sequence;

/// A value that no crash can take back: all records it rests on are on stable storage.
#[derive(Debug, Clone, PartialEq)]
pub struct Durable<T>(T);

impl<T> Durable<T> {
    /// The value, for the reply.
    pub fn into_inner(self) -> T {
        self.0
    }

    /// A part or another shape of the value. A `fn` cannot capture, so nothing that is not durable can slip in.
    pub fn map<U>(self, shape: fn(T) -> U) -> Durable<U> {
        Durable(shape(self.0))
    }

    /// Looks at the value.
    pub fn get(&self) -> &T {
        &self.0
    }
}

impl<T, U> Durable<(T, U)> {
    /// Separates the value from what was carried with it (a ticket).
    pub fn detach(self) -> (T, Durable<U>) {
        let (carried, value) = self.0;
        (carried, Durable(value))
    }
}

impl<T, E> Durable<Result<T, E>> {
    /// The value, or the reason why there is none.
    pub fn transpose(self) -> Result<Durable<T>, E> {
        self.0.map(Durable)
    }
}

/// Answers that wait for their records, in the order of their sequences.
#[derive(Debug)]
pub struct CommitQueue<T> {
    waiting: VecDeque<(Sequence, T)>,
    durable: Sequence,
}

impl<T> CommitQueue<T> {
    /// A queue that knows everything up to `durable` to be on stable storage.
    pub fn new(durable: Sequence) -> CommitQueue<T> {
        CommitQueue { waiting: VecDeque::new(), durable }
    }

    /// Keeps `answer` until the record at `sequence`, the last one that it may have seen, is durable.
    pub fn wait_for(&mut self, sequence: Sequence, answer: T) {
        assert!(self.waiting.back().is_none_or(|(last, _)| *last <= sequence), "answers wait in order");
        self.waiting.push_back((sequence, answer));
    }

    /// Notes that the journal is durable up to `durable`.
    pub fn advance(&mut self, durable: Sequence) {
        assert!(durable >= self.durable, "what was durable cannot become undone");
        self.durable = durable;
    }

    /// The next answer whose records are all durable.
    pub fn release(&mut self) -> Option<Durable<T>> {
        let (sequence, _) = self.waiting.front()?;
        if *sequence > self.durable {
            return None;
        }
        assert!(self.waiting.get(1).is_none_or(|(next, _)| next >= sequence), "answers leave in order");
        self.waiting.pop_front().map(|(_, answer)| Durable(answer))
    }

    /// Up to where the journal is durable.
    pub fn durable(&self) -> Sequence {
        self.durable
    }

    /// How many answers wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Gives up all that wait for more than is durable: their records will never be known to be. The others can still
    /// be released.
    pub fn abandon_undurable(&mut self) -> impl Iterator<Item = T> + '_ {
        let durable = self.waiting.partition_point(|(sequence, _)| *sequence <= self.durable);
        self.waiting.drain(durable..).map(|(_, answer)| answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_leaves_only_when_its_sequence_is_durable() {
        let mut queue = CommitQueue::new(Sequence(4));
        queue.wait_for(Sequence(4), "a read of what is durable already");
        queue.wait_for(Sequence(6), "a write");
        assert_eq!(queue.release().map(Durable::into_inner), Some("a read of what is durable already"));
        assert_eq!(queue.release(), None);
        queue.advance(Sequence(5));
        assert_eq!(queue.release(), None);
        queue.advance(Sequence(6));
        assert_eq!(queue.release().map(Durable::into_inner), Some("a write"));
        assert!(queue.is_empty());
    }

    #[test]
    fn the_queue_says_what_is_durable_and_how_many_wait_and_gives_up_only_what_is_not_durable() {
        let mut queue = CommitQueue::new(Sequence(4));
        for sequence in [5, 6, 6, 7] {
            queue.wait_for(Sequence(sequence), sequence);
        }
        queue.advance(Sequence(5));
        assert_eq!((queue.durable(), queue.len(), queue.is_empty()), (Sequence(5), 4, false));
        assert_eq!(queue.abandon_undurable().collect::<Vec<_>>(), [6, 6, 7]);
        assert_eq!((queue.release().map(Durable::into_inner), queue.release()), (Some(5), None));
        assert_eq!((queue.len(), queue.is_empty()), (0, true));
    }
}
