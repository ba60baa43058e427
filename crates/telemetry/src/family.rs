//! Metrics that differ in one label whose values are not known beforehand: refusals by code, requests by kind.

use crate::counter::{Counter, SharedCounter};
use crate::gauge::Gauge;
use crate::histogram::Histogram;
use crate::metric::MetricRow;
use crate::registry::Recorder;
use std::cell::RefCell;

/// Values of one label; those that come later count as `other`, so that no input can make the metrics grow.
pub const LABEL_VALUES_MAX: usize = 64;

const OTHER: &str = "other";

/// What one recorder has of a metric, by the values of a label.
#[derive(Debug)]
struct ByValue<T> {
    recorder: Recorder,
    row: MetricRow,
    label: &'static str,
    known: RefCell<Vec<(&'static str, T)>>,
}

impl<T> ByValue<T> {
    fn new(recorder: Recorder, row: MetricRow, label: &'static str) -> ByValue<T> {
        ByValue { recorder, row, label, known: RefCell::default() }
    }

    /// Calls `act` with what counts `value`, and with what that is shown as; `make` makes it when it first comes up. A
    /// look-up among a dozen values costs some nanoseconds.
    fn with<R>(
        &self,
        value: &'static str,
        make: fn(&Recorder, MetricRow, &[(&'static str, &str)]) -> T,
        act: impl FnOnce(&T, &'static str) -> R,
    ) -> R {
        let mut known = self.known.borrow_mut();
        // Mostly it is the same text at the same place.
        let find = |known: &[(&'static str, T)], value: &str| {
            let is_it = |(known, _): &(&'static str, T)| std::ptr::eq(*known, value) || *known == value;
            known.iter().position(is_it)
        };
        let place = find(&known, value).unwrap_or_else(|| {
            let value = if known.len() < LABEL_VALUES_MAX { value } else { OTHER };
            find(&known, value).unwrap_or_else(|| {
                known.push((value, make(&self.recorder, self.row, &[(self.label, value)])));
                known.len() - 1
            })
        });
        let (shown_as, instrument) = &known[place];
        act(instrument, shown_as)
    }
}

/// A counter for each value of a label, made when the value first comes up. One writer at a time, like [`Counter`].
#[derive(Debug)]
pub struct CounterFamily(ByValue<Counter>);

impl CounterFamily {
    pub(crate) fn new(recorder: Recorder, row: MetricRow, label: &'static str) -> CounterFamily {
        CounterFamily(ByValue::new(recorder, row, label))
    }

    /// Counts `count` more for `value`. A look-up among a dozen values costs some nanoseconds: add once for a batch.
    pub fn add(&self, value: &'static str, count: u64) {
        self.0.with(value, Recorder::counter_with, |counter, _| counter.add(count));
    }

    /// Sets the counters of all values to totals that another component counts.
    pub fn follow(&self, totals: impl IntoIterator<Item = (&'static str, u64)>) {
        let mut others = 0;
        for (value, total) in totals {
            self.0.with(value, Recorder::counter_with, |counter, shown_as| {
                // Several may share one place.
                others += if shown_as == OTHER { total } else { 0 };
                counter.follow(if shown_as == OTHER { others } else { total });
            });
        }
    }

    /// Counts one more for `value`.
    pub fn increment(&self, value: &'static str) {
        self.add(value, 1);
    }

    /// The count of `value` so far.
    pub fn get(&self, value: &str) -> u64 {
        self.0.known.borrow().iter().find(|(known, _)| *known == value).map_or(0, |(_, counter)| counter.get())
    }
}

/// A gauge for each value of a label, made when the value first comes up. One writer at a time, like [`Gauge`].
#[derive(Debug)]
pub struct GaugeFamily(ByValue<Gauge>);

impl GaugeFamily {
    pub(crate) fn new(recorder: Recorder, row: MetricRow, label: &'static str) -> GaugeFamily {
        GaugeFamily(ByValue::new(recorder, row, label))
    }

    /// Says what it is now for `value`.
    pub fn set(&self, value: &'static str, now: i64) {
        self.0.with(value, Recorder::gauge_with, |gauge, _| gauge.set(now));
    }
}

/// A histogram for each value of a label, made when the value first comes up. One writer at a time, like [`Histogram`].
#[derive(Debug)]
pub struct HistogramFamily(ByValue<Histogram>);

impl HistogramFamily {
    pub(crate) fn new(recorder: Recorder, row: MetricRow, label: &'static str) -> HistogramFamily {
        HistogramFamily(ByValue::new(recorder, row, label))
    }

    /// Counts a measured `number` for `value`, in the unit that the metric is recorded in.
    pub fn record(&self, value: &'static str, number: u64) {
        self.0.with(value, Recorder::histogram_with, |histogram, _| histogram.record(number));
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
