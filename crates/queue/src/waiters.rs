//! Receivers that wait because their queues have nothing for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate_machines::TimeMs;

use crate::call::Receive;

/// One that waits.
#[derive(Debug)]
pub(crate) struct Waiter<T> {
    /// Who.
    pub ticket: T,
    /// For what.
    pub receive: Receive,
    /// How long.
    pub until: TimeMs,
    number: u64,
}

/// All that wait, by their queues, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Waiters<T> {
    by_queue: BTreeMap<Box<str>, VecDeque<Waiter<T>>>,
    /// When each is told that there is nothing.
    ends: BTreeSet<(TimeMs, u64, Box<str>)>,
    /// Those that others need not wait for, by their numbers, and when they go back to their places.
    aside: BTreeMap<u64, (TimeMs, Waiter<T>)>,
    returns: BTreeSet<(TimeMs, u64)>,
    numbers: u64,
}

impl<T> Default for Waiters<T> {
    fn default() -> Waiters<T> {
        Waiters {
            by_queue: BTreeMap::new(),
            ends: BTreeSet::new(),
            aside: BTreeMap::new(),
            returns: BTreeSet::new(),
            numbers: 0,
        }
    }
}

impl<T> Waiters<T> {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn push(&mut self, ticket: T, receive: Receive, now: TimeMs) {
        self.numbers += 1;
        let (number, until) = (self.numbers, TimeMs(now.0.saturating_add(receive.wait_ms)));
        let queue = receive.queue.clone();
        self.ends.insert((until, number, queue.clone()));
        self.by_queue.entry(queue).or_default().push_back(Waiter { ticket, receive, until, number });
    }

    /// The queues for which somebody waits.
    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.by_queue.keys().map(|queue| &**queue)
    }

    /// Who waits longest for a queue.
    pub fn first(&self, queue: &str) -> Option<&Waiter<T>> {
        self.by_queue.get(queue)?.front()
    }

    /// Takes out who waits longest for a queue.
    pub fn pop(&mut self, queue: &str) -> Option<Waiter<T>> {
        let waiter = self.by_queue.get_mut(queue)?.pop_front()?;
        self.forget(&waiter);
        Some(waiter)
    }

    /// Lets who waits longest for a queue stand aside until `at`: those behind it are served meanwhile.
    pub fn put_aside(&mut self, queue: &str, at: TimeMs) {
        let Some(waiters) = self.by_queue.get_mut(queue) else { return };
        if let Some(waiter) = waiters.pop_front() {
            self.returns.insert((at, waiter.number));
            self.aside.insert(waiter.number, (at, waiter));
        }
        if waiters.is_empty() {
            self.by_queue.remove(queue);
        }
    }

    /// Puts those back in their places who need not stand aside any more. Returns their queues.
    pub fn put_back(&mut self, now: TimeMs) -> BTreeSet<Box<str>> {
        let mut queues = BTreeSet::new();
        while let Some((_, number)) = self.returns.first().filter(|(at, _)| *at <= now).copied() {
            let waiter = self.take_aside(number).expect("who stands aside is listed");
            let queue = waiter.receive.queue.clone();
            let waiters = self.by_queue.entry(queue.clone()).or_default();
            let place = waiters.partition_point(|other| other.number < number);
            waiters.insert(place, waiter);
            queues.insert(queue);
        }
        queues
    }

    fn take_aside(&mut self, number: u64) -> Option<Waiter<T>> {
        let (at, waiter) = self.aside.remove(&number)?;
        self.returns.remove(&(at, number));
        Some(waiter)
    }

    /// Takes out one who has waited long enough.
    pub fn pop_ended(&mut self, now: TimeMs) -> Option<Waiter<T>> {
        let (_, number, queue) = self.ends.first().filter(|(until, ..)| *until <= now)?.clone();
        if let Some(waiter) = self.take_aside(number) {
            self.forget(&waiter);
            return Some(waiter);
        }
        let waiters = self.by_queue.get_mut(&queue).expect("a queue with a waiter is listed");
        let place = waiters.iter().position(|waiter| waiter.number == number).expect("a waiter is in its queue");
        let waiter = waiters.remove(place).expect("it was there just now");
        self.forget(&waiter);
        Some(waiter)
    }

    /// Takes out those who wait for a queue and of whom `is_gone` says so. Returns how many there were.
    pub fn remove(&mut self, queue: &str, is_gone: impl Fn(&T) -> bool) -> usize {
        let removed = self.remove_aside(queue, &is_gone);
        let Some(waiters) = self.by_queue.get_mut(queue) else { return removed };
        let (ends, before) = (&mut self.ends, waiters.len());
        waiters.retain(|waiter| {
            let stays = !is_gone(&waiter.ticket);
            if !stays {
                ends.remove(&(waiter.until, waiter.number, queue.into()));
            }
            stays
        });
        let removed = removed + before - waiters.len();
        if waiters.is_empty() {
            self.by_queue.remove(queue);
        }
        removed
    }

    fn remove_aside(&mut self, queue: &str, is_gone: impl Fn(&T) -> bool) -> usize {
        let is_meant = |waiter: &Waiter<T>| *waiter.receive.queue == *queue && is_gone(&waiter.ticket);
        let meant = self.aside.iter().filter(|(_, (_, waiter))| is_meant(waiter)).map(|(number, _)| *number);
        let numbers: Vec<u64> = meant.collect();
        for number in &numbers {
            let waiter = self.take_aside(*number).expect("it stands aside");
            self.forget(&waiter);
        }
        numbers.len()
    }

    /// Takes out all.
    pub fn take_all(&mut self) -> Vec<Waiter<T>> {
        self.ends.clear();
        self.returns.clear();
        let aside = std::mem::take(&mut self.aside).into_values().map(|(_, waiter)| waiter);
        std::mem::take(&mut self.by_queue).into_values().flatten().chain(aside).collect()
    }

    fn forget(&mut self, waiter: &Waiter<T>) {
        let queue = &waiter.receive.queue;
        assert!(self.ends.remove(&(waiter.until, waiter.number, queue.clone())), "who waits has an end");
        if self.by_queue.get(queue).is_some_and(VecDeque::is_empty) {
            self.by_queue.remove(queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(queue: &str, wait_ms: u64) -> Receive {
        Receive { queue: queue.into(), max: 1, lease_ms: None, consumer: "".into(), wait_ms }
    }

    #[test]
    fn who_came_first_is_served_first_and_nobody_waits_for_ever() {
        let mut waiters = Waiters::default();
        waiters.push(1, receive("a", 50), TimeMs(0));
        waiters.push(2, receive("a", 10), TimeMs(0));
        waiters.push(3, receive("b", 20), TimeMs(0));
        waiters.push(4, receive("a", 70), TimeMs(0));
        assert_eq!(waiters.pop_ended(TimeMs(9)).map(|waiter| waiter.ticket), None);
        assert_eq!(waiters.pop_ended(TimeMs(10)).map(|waiter| waiter.ticket), Some(2));
        assert_eq!(waiters.first("a").map(|waiter| waiter.ticket), Some(1));
        assert_eq!(waiters.remove("a", |ticket| *ticket == 1), 1);
        assert_eq!(waiters.remove("a", |ticket| *ticket == 1), 0);
        assert_eq!(waiters.pop("a").map(|waiter| waiter.ticket), Some(4));
        assert_eq!(waiters.queues().collect::<Vec<_>>(), ["b"]);
        assert_eq!(waiters.len(), 1);
        assert_eq!(waiters.take_all().len(), 1);
        assert!(waiters.len() == 0 && waiters.pop("b").is_none());
    }

    #[test]
    fn who_stands_aside_holds_up_nobody_and_comes_back_to_its_place() {
        let mut waiters = Waiters::default();
        for (ticket, wait_ms) in [(1, 90), (2, 10), (3, 90), (4, 90)] {
            waiters.push(ticket, receive("a", wait_ms), TimeMs(0));
        }
        waiters.put_aside("a", TimeMs(30));
        waiters.put_aside("a", TimeMs(20));
        waiters.put_aside("a", TimeMs(50));
        assert_eq!(waiters.first("a").map(|waiter| waiter.ticket), Some(4));
        assert_eq!(waiters.pop_ended(TimeMs(10)).map(|waiter| waiter.ticket), Some(2), "also who stands aside");
        assert!(waiters.put_back(TimeMs(29)).is_empty());
        assert_eq!(waiters.put_back(TimeMs(30)).into_iter().collect::<Vec<_>>(), ["a".into()]);
        assert_eq!(waiters.first("a").map(|waiter| waiter.ticket), Some(1));
        assert_eq!(waiters.remove("a", |ticket| *ticket == 3), 1, "it goes away while it stands aside");
        assert_eq!((waiters.len(), waiters.take_all().len()), (2, 2));
        assert!(waiters.put_back(TimeMs(99)).is_empty() && waiters.pop_ended(TimeMs(99)).is_none());
    }
}
