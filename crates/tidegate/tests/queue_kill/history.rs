//! What was sent, answered, delivered and acknowledged, in the order in which it was noted; and whether it may be so.
//!
//! What is asked of the server is noted before it is asked, and what it answered is noted afterwards. So what is noted
//! later cannot have come before in the server either, and the checks hold whatever the threads do.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;

use crate::sender::{body, message_of};

/// A message by its sender and its number.
pub type Name = (usize, u64);

/// What is known of a message.
#[derive(Default)]
struct Known {
    ordering_key: Option<String>,
    /// Its key in the server.
    key: Option<String>,
    is_answered: bool,
    /// The deliveries that somebody got.
    attempts: BTreeSet<u64>,
    /// The delivery whose acknowledgement was answered.
    acknowledged: Option<u64>,
}

#[derive(Default)]
struct Inner {
    messages: BTreeMap<Name, Known>,
    by_key: HashMap<String, Name>,
    /// Messages of an ordering key that nobody has tried to acknowledge.
    open: HashMap<String, BTreeSet<Name>>,
    violations: Vec<String>,
}

/// All that was noted.
#[derive(Default)]
pub struct History(Mutex<Inner>);

impl History {
    fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        act(&mut self.0.lock().expect("no check fails by a panic"))
    }

    /// A message will be sent, perhaps again.
    pub fn attempted(&self, sender: usize, number: u64, ordering_key: Option<&str>) {
        self.with(|inner| {
            let name = (sender, number);
            if inner.messages.contains_key(&name) {
                return;
            }
            let ordering_key = ordering_key.map(str::to_owned);
            if let Some(key) = &ordering_key {
                inner.open.entry(key.clone()).or_default().insert(name);
            }
            inner.messages.insert(name, Known { ordering_key, ..Known::default() });
        });
    }

    /// Its sending was answered.
    pub fn answered(&self, sender: usize, number: u64, key: &str) {
        self.with(|inner| {
            inner.is_of((sender, number), key);
            inner.messages.get_mut(&(sender, number)).expect("what is answered was sent").is_answered = true;
        });
    }

    /// Somebody got it.
    pub fn delivered(&self, key: &str, attempt: u64, received: &str, ordering_key: Option<&str>) {
        self.with(|inner| inner.delivered(key, attempt, received, ordering_key));
    }

    /// Somebody will acknowledge it.
    pub fn acknowledging(&self, key: &str) {
        self.with(|inner| {
            let Some(name) = inner.by_key.get(key).copied() else { return };
            if let Some(key) = &inner.messages[&name].ordering_key {
                inner.open.get_mut(key).expect("it was sent").remove(&name);
            }
        });
    }

    /// That was answered as done.
    pub fn acknowledged(&self, key: &str, attempt: u64) {
        self.with(|inner| {
            let Some(name) = inner.by_key.get(key).copied() else { return };
            let known = inner.messages.get_mut(&name).expect("it was sent");
            known.acknowledged = Some(attempt);
            if known.attempts.last().is_some_and(|last| *last > attempt) {
                inner.violations.push(format!("{name:?} was acknowledged by a lease that had passed to another one"));
            }
        });
    }

    /// What does not hold; it is forgotten.
    pub fn take_violations(&self) -> Vec<String> {
        self.with(|inner| std::mem::take(&mut inner.violations))
    }

    /// Panics if something does not hold.
    pub fn stop_at_violations(&self, replay: &str) {
        let violations = self.take_violations();
        let shown = violations.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(violations.is_empty(), "{} broken promises\n{shown}\n{replay}", violations.len());
    }

    /// Everything that was answered was delivered; how many messages that is, and how many deliveries there were.
    pub fn check_at_end(&self) -> (usize, usize) {
        self.with(|inner| {
            let (mut answered, mut deliveries) = (0, 0);
            for (name, known) in &inner.messages {
                answered += usize::from(known.is_answered);
                deliveries += known.attempts.len();
                if known.is_answered && known.attempts.is_empty() {
                    inner.violations.push(format!("the sending of {name:?} was answered, and it was not delivered"));
                }
            }
            (answered, deliveries)
        })
    }
}

impl Inner {
    /// Notes the key of a message.
    fn is_of(&mut self, name: Name, key: &str) {
        let known = self.messages.get_mut(&name).expect("it was sent");
        match &known.key {
            Some(before) if before != key => {
                self.violations.push(format!("{name:?} has the key {key}, and before {before}"));
            }
            Some(_) => {}
            None => {
                known.key = Some(key.to_owned());
                if let Some(other) = self.by_key.insert(key.to_owned(), name) {
                    self.violations.push(format!("{name:?} has the key {key} of {other:?}"));
                }
            }
        }
    }

    fn delivered(&mut self, key: &str, attempt: u64, received: &str, ordering_key: Option<&str>) {
        let name = message_of(received).filter(|name| self.messages.contains_key(name));
        let Some(name) = name else {
            return self.violations.push(format!("{key} is a message that was never sent: {received:.40}"));
        };
        if received != body(name.0, name.1) {
            return self.violations.push(format!("the body of {name:?} is another one: {received:.40}"));
        }
        let before = self.violations.len();
        self.is_of(name, key);
        if self.violations.len() > before {
            return;
        }
        let known = self.messages.get_mut(&name).expect("it was found just now");
        if known.ordering_key.as_deref() != ordering_key {
            self.violations.push(format!("{name:?} has the ordering key {ordering_key:?}"));
        }
        if !known.attempts.insert(attempt) {
            self.violations.push(format!("delivery {attempt} of {name:?} came twice"));
        }
        if let Some(done) = known.acknowledged.filter(|done| attempt > *done) {
            self.violations.push(format!("{name:?} was acknowledged at delivery {done}, and came again: {attempt}"));
        }
        let open = ordering_key.and_then(|key| self.open.get(key)?.first());
        if let Some(first) = open.filter(|first| **first < name) {
            self.violations.push(format!("{name:?} came before {first:?} of its ordering key was done"));
        }
    }
}
