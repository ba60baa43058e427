//! Counters that differ in one label whose values are not known beforehand: refusals by code, requests by kind.

use crate::counter::{Counter, SharedCounter};
use crate::metric::MetricRow;
use crate::registry::Recorder;
use std::cell::RefCell;

/// Values of one label; those that come later count as `other`, so that no input can make the metrics grow.
pub const LABEL_VALUES_MAX: usize = 64;

const OTHER: &str = "other";

/// A counter for each value of a label, made when the value first comes up. One writer at a time, like [`Counter`].
#[derive(Debug)]
pub struct CounterFamily {
    recorder: Recorder,
    row: MetricRow,
    label: &'static str,
    counters: RefCell<Vec<(&'static str, Counter)>>,
}

impl CounterFamily {
    pub(crate) fn new(recorder: Recorder, row: MetricRow, label: &'static str) -> CounterFamily {
        CounterFamily { recorder, row, label, counters: RefCell::default() }
    }

    /// Counts `count` more for `value`. A look-up among a dozen values costs some nanoseconds: add once for a batch.
    pub fn add(&self, value: &'static str, count: u64) {
        let mut counters = self.counters.borrow_mut();
        let place = self.place(&mut counters, value);
        counters[place].1.add(count);
    }

    /// Sets the counters of all values to totals that another component counts.
    pub fn follow(&self, totals: impl IntoIterator<Item = (&'static str, u64)>) {
        let mut counters = self.counters.borrow_mut();
        let mut others = 0;
        for (value, total) in totals {
            let place = self.place(&mut counters, value);
            let (shown_as, counter) = &counters[place];
            // Several may share one place.
            others += if *shown_as == OTHER { total } else { 0 };
            counter.follow(if *shown_as == OTHER { others } else { total });
        }
    }

    /// Where `value` is counted.
    fn place(&self, counters: &mut Vec<(&'static str, Counter)>, value: &'static str) -> usize {
        let known = |value: &str| counters.iter().position(|(known, _)| *known == value);
        if let Some(place) = known(value) {
            return place;
        }
        let value = if counters.len() < LABEL_VALUES_MAX { value } else { OTHER };
        known(value).unwrap_or_else(|| {
            counters.push((value, self.recorder.counter_with(self.row, &[(self.label, value)])));
            counters.len() - 1
        })
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

/// A counter for each of some values of a label that are known beforehand, for many writers. All others count as
/// `other`.
#[derive(Clone, Debug)]
pub struct SharedCounterFamily {
    counters: Box<[(&'static str, SharedCounter)]>,
}

impl SharedCounterFamily {
    pub(crate) fn new(
        recorder: &Recorder,
        row: MetricRow,
        label: &'static str,
        values: &[&'static str],
    ) -> SharedCounterFamily {
        let counters = values
            .iter()
            .chain([&OTHER])
            .map(|value| (*value, recorder.shared_counter_with(row, &[(label, value)])))
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
