//! Counters that differ in one label whose values come up as they come up: refusals by code, requests by kind.

use crate::counter::{Counter, SharedCounter};
use crate::metric::Metric;
use crate::registry::Recorder;
use std::cell::RefCell;

/// Values of one label; those that come later count as `other`, so that no input can make the metrics grow.
pub const LABEL_VALUES_MAX: usize = 64;

const OTHER: &str = "other";

/// A counter for each value of a label, made when the value first comes up. One writer at a time, like [`Counter`].
#[derive(Debug)]
pub struct CounterFamily {
    recorder: Recorder,
    metric: Metric,
    label: &'static str,
    counters: RefCell<Vec<(&'static str, Counter)>>,
}

impl CounterFamily {
    pub(crate) fn new(recorder: Recorder, metric: Metric, label: &'static str) -> CounterFamily {
        CounterFamily { recorder, metric, label, counters: RefCell::default() }
    }

    /// Counts `count` more for `value`. A look-up among a dozen values costs some nanoseconds: add once for a batch.
    pub fn add(&self, value: &'static str, count: u64) {
        let mut counters = self.counters.borrow_mut();
        let known = |value: &str| counters.iter().position(|(known, _)| *known == value);
        let index = match known(value) {
            Some(index) => index,
            None => {
                let value = if counters.len() < LABEL_VALUES_MAX { value } else { OTHER };
                known(value).unwrap_or_else(|| {
                    counters.push((value, self.recorder.counter_with(self.metric, &[(self.label, value)])));
                    counters.len() - 1
                })
            }
        };
        counters[index].1.add(count);
    }

    /// Counts one more for `value`.
    pub fn increment(&self, value: &'static str) {
        self.add(value, 1);
    }

    /// The count of `value` so far.
    pub fn get(&self, value: &str) -> u64 {
        self.counters.borrow().iter().find(|(known, _)| *known == value).map_or(0, |(_, counter)| counter.get())
    }
}

/// A counter for each of some values of a label that are known beforehand, for many writers. All others count as `other`.
#[derive(Clone, Debug)]
pub struct SharedCounterFamily {
    counters: Box<[(&'static str, SharedCounter)]>,
}

impl SharedCounterFamily {
    pub(crate) fn new(
        recorder: &Recorder,
        metric: Metric,
        label: &'static str,
        values: &[&'static str],
    ) -> SharedCounterFamily {
        let counters = values
            .iter()
            .chain([&OTHER])
            .map(|value| (*value, recorder.shared_counter_with(metric, &[(label, value)])))
            .collect();
        SharedCounterFamily { counters }
    }

    /// Counts `count` more for `value`.
    pub fn add(&self, value: &str, count: u64) {
        let known = self.counters.iter().find(|(known, _)| *known == value);
        known.unwrap_or(&self.counters[self.counters.len() - 1]).1.add(count);
    }

    /// Counts one more for `value`.
    pub fn increment(&self, value: &str) {
        self.add(value, 1);
    }

    /// The count of `value` so far.
    pub fn get(&self, value: &str) -> u64 {
        self.counters.iter().find(|(known, _)| *known == value).map_or(0, |(_, counter)| counter.get())
    }
}
