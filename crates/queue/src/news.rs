//! Which queues may have something new for those who wait.
//!
//! Why not to ask all of them in each step: ten thousand receivers may wait for ten thousand queues.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_machines::TimeMs;

/// The queues to be asked.
#[derive(Debug, Default)]
pub(crate) struct News {
    of: BTreeSet<Box<str>>,
    /// Not before these times; of each queue, the soonest.
    later: BTreeSet<(TimeMs, Box<str>)>,
    soonest: BTreeMap<Box<str>, TimeMs>,
    of_all: bool,
}

impl News {
    /// Something has changed in this queue.
    pub fn note(&mut self, queue: &str) {
        if !self.of_all && !self.of.contains(queue) {
            self.of.insert(queue.into());
        }
    }

    /// Something may have changed in any queue.
    pub fn note_all(&mut self) {
        self.of_all = true;
        self.of.clear();
    }

    /// This queue may have something from then on.
    pub fn note_at(&mut self, at: TimeMs, queue: &str) {
        if let Some(other) = self.soonest.get(queue) {
            if *other <= at {
                return;
            }
            self.later.remove(&(*other, queue.into()));
        }
        self.soonest.insert(queue.into(), at);
        self.later.insert((at, queue.into()));
    }

    /// Those of `waited_for`, the queues for which somebody waits, that are to be asked now.
    pub fn take<'a>(&mut self, now: TimeMs, waited_for: impl Iterator<Item = &'a str>) -> Vec<Box<str>> {
        while let Some((_, queue)) = self.later.first().filter(|(at, _)| *at <= now).cloned() {
            self.later.pop_first();
            self.soonest.remove(&queue);
            self.note(&queue);
        }
        match std::mem::take(&mut self.of_all) {
            true => waited_for.map(Into::into).collect(),
            false => std::mem::take(&mut self.of).into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_asked_once() {
        let mut news = News::default();
        news.note("b");
        news.note("b");
        news.note("a");
        [7, 5, 9].into_iter().for_each(|at| news.note_at(TimeMs(at), "c"));
        let mut take = |now| news.take(TimeMs(now), ["a", "z"].into_iter()).join(" ");
        assert_eq!([take(4), take(4), take(5), take(9)], ["a b", "", "c", ""]);
        news.note("a");
        news.note_all();
        assert_eq!(news.take(TimeMs(6), ["a", "z"].into_iter()).join(" "), "a z");
        assert!(news.take(TimeMs(6), ["a", "z"].into_iter()).is_empty());
    }
}
