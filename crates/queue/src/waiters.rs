//! Receivers that wait because their queues have nothing for them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use foldhash::fast::FixedState;
use tidegate_machines::TimeMs;
use tidegate_shard::Caller;

use crate::call::Receive;
use crate::protocol::RequestTicket;

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
    /// Those that came since the last step, and are in no queue yet.
    arrived: Vec<(T, Receive)>,
    /// How many there are of each caller, those that arrived included.
    of_callers: HashMap<Caller, usize, FixedState>,
    /// Those that others need not wait for, by their numbers, and when they go back to their places.
    aside: BTreeMap<u64, (TimeMs, Waiter<T>)>,
    returns: BTreeSet<(TimeMs, u64)>,
    numbers: u64,
    /// When somebody last asked for messages of each queue, of late.
    asked: HashMap<Box<str>, TimeMs, FixedState>,
}

/// For so long behind its last request, somebody is taken to receive from a queue.
const RECEIVES_FOR_MS: u64 = 5_000;

impl<T> Default for Waiters<T> {
    fn default() -> Waiters<T> {
        Waiters {
            by_queue: BTreeMap::new(),
            ends: BTreeSet::new(),
            arrived: Vec::new(),
            of_callers: HashMap::default(),
            aside: BTreeMap::new(),
            returns: BTreeSet::new(),
            numbers: 0,
            asked: HashMap::default(),
        }
    }
}

impl<T: RequestTicket> Waiters<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len() + self.arrived.len()
    }

    /// How many there are of a caller.
    pub fn of_caller(&self, caller: Caller) -> usize {
        self.of_callers.get(&caller).copied().unwrap_or(0)
    }

    /// Whether none came since the last step.
    pub fn nobody_arrived(&self) -> bool {
        self.arrived.is_empty()
    }

    /// One more is there, and is looked at in the next step.
    pub fn arrive(&mut self, ticket: T, receive: Receive) {
        *self.of_callers.entry(ticket.caller()).or_default() += 1;
        self.arrived.push((ticket, receive));
    }

    /// Takes out those that came since the last step. Those that are to wait are pushed.
    pub fn take_arrived(&mut self) -> Vec<(T, Receive)> {
        let arrived = std::mem::take(&mut self.arrived);
        arrived.iter().for_each(|(ticket, _)| self.count_off(ticket.caller()));
        arrived
    }

    fn count_off(&mut self, caller: Caller) {
        let Entry::Occupied(mut count) = self.of_callers.entry(caller) else { panic!("who waits is counted") };
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }

    pub fn push(&mut self, ticket: T, receive: Receive, now: TimeMs) {
        let until = TimeMs(now.0.saturating_add(receive.wait_ms));
        self.push_again(Waiter { ticket, receive, until, number: 0 });
    }

    /// One that was taken out waits again, behind the others, until its time is over.
    pub fn push_again(&mut self, waiter: Waiter<T>) {
        self.numbers += 1;
        let (number, queue) = (self.numbers, waiter.receive.queue.clone());
        *self.of_callers.entry(waiter.ticket.caller()).or_default() += 1;
        self.ends.insert((waiter.until, number, queue.clone()));
        self.by_queue.entry(queue).or_default().push_back(Waiter { number, ..waiter });
    }

    /// Somebody asks for messages of a queue that is there.
    pub fn note_asked(&mut self, queue: &str, now: TimeMs) {
        match self.asked.get_mut(queue) {
            Some(at) => *at = now,
            None => drop(self.asked.insert(queue.into(), now)),
        }
    }

    /// Forgets who has not asked of late.
    pub fn forget_asked(&mut self, now: TimeMs) {
        self.asked.retain(|_, at| at.0 + RECEIVES_FOR_MS > now.0);
    }

    /// Whether somebody receives from a queue: waits, stands aside, or asked just now.
    pub fn wait_for(&self, queue: &str, now: TimeMs) -> bool {
        self.by_queue.contains_key(queue)
            || self.asked.get(queue).is_some_and(|at| at.0 + RECEIVES_FOR_MS > now.0)
            || self.aside.values().any(|(_, waiter)| *waiter.receive.queue == *queue)
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

    /// Takes out one that waits, stands aside, or came since the last step. Whether it did.
    pub fn remove(&mut self, queue: &str, ticket: &T) -> bool {
        if let Some(place) = self.arrived.iter().position(|(of, _)| of == ticket) {
            self.arrived.remove(place);
            self.count_off(ticket.caller());
            return true;
        }
        if self.remove_aside(queue, ticket) {
            return true;
        }
        let Some(waiters) = self.by_queue.get_mut(queue) else { return false };
        let Some(place) = waiters.iter().position(|waiter| waiter.ticket == *ticket) else { return false };
        let waiter = waiters.remove(place).expect("it was there just now");
        self.forget(&waiter);
        true
    }

    fn remove_aside(&mut self, queue: &str, ticket: &T) -> bool {
        let is_meant = |waiter: &Waiter<T>| *waiter.receive.queue == *queue && waiter.ticket == *ticket;
        let meant = self.aside.iter().find(|(_, (_, waiter))| is_meant(waiter)).map(|(number, _)| *number);
        let Some(number) = meant else { return false };
        let waiter = self.take_aside(number).expect("it stands aside");
        self.forget(&waiter);
        true
    }

    /// Takes out all.
    pub fn take_all(&mut self) -> Vec<T> {
        self.ends.clear();
        self.returns.clear();
        self.of_callers.clear();
        let aside = std::mem::take(&mut self.aside).into_values().map(|(_, waiter)| waiter);
        let waiting = std::mem::take(&mut self.by_queue).into_values().flatten().chain(aside);
        let arrived = std::mem::take(&mut self.arrived).into_iter().map(|(ticket, _)| ticket);
        waiting.map(|waiter| waiter.ticket).chain(arrived).collect()
    }

    fn forget(&mut self, waiter: &Waiter<T>) {
        let queue = &waiter.receive.queue;
        assert!(self.ends.remove(&(waiter.until, waiter.number, queue.clone())), "who waits has an end");
        self.count_off(waiter.ticket.caller());
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

    impl RequestTicket for u64 {
        fn caller(&self) -> Caller {
            Caller((*self % 2) as u32)
        }
    }

    #[test]
    fn who_came_first_is_served_first_and_nobody_waits_for_ever() {
        let mut waiters = Waiters::<u64>::default();
        waiters.push(1, receive("a", 50), TimeMs(0));
        waiters.push(2, receive("a", 10), TimeMs(0));
        waiters.push(3, receive("b", 20), TimeMs(0));
        waiters.push(4, receive("a", 70), TimeMs(0));
        assert_eq!(waiters.pop_ended(TimeMs(9)).map(|waiter| waiter.ticket), None);
        assert_eq!(waiters.pop_ended(TimeMs(10)).map(|waiter| waiter.ticket), Some(2));
        assert_eq!(waiters.first("a").map(|waiter| waiter.ticket), Some(1));
        assert!(waiters.remove("a", &1) && !waiters.remove("a", &1));
        assert_eq!(waiters.pop("a").map(|waiter| waiter.ticket), Some(4));
        assert_eq!(waiters.queues().collect::<Vec<_>>(), ["b"]);
        assert_eq!(waiters.len(), 1);
        assert_eq!(waiters.take_all(), [3]);
        assert!(waiters.len() == 0 && waiters.pop("b").is_none());
    }

    #[test]
    fn those_of_each_caller_are_counted() {
        let mut waiters = Waiters::<u64>::default();
        let counts = |waiters: &Waiters<u64>| [0, 1].map(|caller| waiters.of_caller(Caller(caller)));
        (1..=5).for_each(|ticket| waiters.arrive(ticket, receive("a", 10 * ticket)));
        assert_eq!((waiters.len(), counts(&waiters)), (5, [2, 3]));
        assert!(waiters.remove("a", &5));
        assert_eq!(counts(&waiters), [2, 2]);
        for (ticket, receive) in waiters.take_arrived() {
            waiters.push(ticket, receive, TimeMs(0));
        }
        assert_eq!((waiters.len(), counts(&waiters), waiters.nobody_arrived()), (4, [2, 2], true));
        waiters.pop("a");
        waiters.pop_ended(TimeMs(20));
        assert_eq!(counts(&waiters), [1, 1]);
        assert!(waiters.remove("a", &3));
        waiters.arrive(7, receive("b", 10));
        assert_eq!(counts(&waiters), [1, 1]);
        assert_eq!(waiters.take_all(), [4, 7]);
        assert_eq!((waiters.len(), counts(&waiters)), (0, [0, 0]));
    }

    #[test]
    fn who_stands_aside_holds_up_nobody_and_comes_back_to_its_place() {
        let mut waiters = Waiters::<u64>::default();
        for (ticket, wait_ms) in [(1, 90), (2, 10), (3, 90), (4, 90)] {
            waiters.arrive(ticket, receive("a", wait_ms));
        }
        for (ticket, receive) in waiters.take_arrived() {
            waiters.push(ticket, receive, TimeMs(0));
        }
        waiters.put_aside("a", TimeMs(30));
        waiters.put_aside("a", TimeMs(20));
        waiters.put_aside("a", TimeMs(50));
        assert_eq!(waiters.first("a").map(|waiter| waiter.ticket), Some(4));
        assert_eq!(waiters.pop_ended(TimeMs(10)).map(|waiter| waiter.ticket), Some(2), "also who stands aside");
        assert!(waiters.put_back(TimeMs(29)).is_empty());
        assert_eq!(waiters.put_back(TimeMs(30)).into_iter().collect::<Vec<_>>(), ["a".into()]);
        assert_eq!(waiters.first("a").map(|waiter| waiter.ticket), Some(1));
        assert!(waiters.remove("a", &3), "it goes away while it stands aside");
        assert_eq!((waiters.len(), waiters.take_all().len()), (2, 2));
        assert!(waiters.put_back(TimeMs(99)).is_empty() && waiters.pop_ended(TimeMs(99)).is_none());
    }
}
