//! Who records what. Threads take their handles here once, at the start; from then on only the scraper comes by.

use crate::cell::{Cell, LINE_CELLS, Line};
use crate::counter::{Counter, SharedCounter};
use crate::family::{CounterFamily, SharedCounterFamily};
use crate::gauge::Gauge;
use crate::histogram::{Buckets, Histogram, SharedHistogram};
use crate::metric::Metric;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

/// All metrics of a process, by name. Cloning gives another handle to the same.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    // Taken when a thread starts, when a label value first comes up, and by the scraper; never to count.
    families: Arc<Mutex<BTreeMap<&'static str, Family>>>,
}

/// All series of one name.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) metric: Metric,
    pub(crate) kind: Kind,
    /// By labels as shown; series with equal labels, from several threads, are shown as one.
    pub(crate) series: BTreeMap<String, Vec<Source>>,
}

/// What kind of metric a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Where the scraper reads.
#[derive(Debug)]
pub(crate) enum Source {
    Cell(Cell),
    Buckets(Arc<Buckets>),
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Handles for one thread; all its series carry `labels`.
    pub fn recorder(&self, labels: &[(&'static str, &str)]) -> Recorder {
        Recorder { registry: self.clone(), labels: labels_as_shown("", labels), room: Arc::default() }
    }

    /// Calls `visit` with each family, by name.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Family)) {
        let families = self.families.lock().expect("nobody panics while holding it");
        families.values().for_each(&mut visit);
    }

    fn register(&self, metric: Metric, kind: Kind, labels: String, source: Source) {
        let mut families = self.families.lock().expect("nobody panics while holding it");
        let family =
            families.entry(metric.name).or_insert_with(|| Family { metric, kind, series: BTreeMap::default() });
        let agrees = (family.metric, family.kind) == (metric, kind);
        if agrees {
            family.series.entry(labels).or_default().push(source);
        }
        drop(families);
        assert!(agrees, "metric {} is registered with another help, unit or kind already", metric.name);
    }
}

/// Gives out handles whose cells lie together, apart from those of other recorders. Cloning gives another handle to the same.
#[derive(Clone, Debug)]
pub struct Recorder {
    registry: Registry,
    labels: String,
    /// The line that is being filled, and how many of its cells are given out.
    room: Arc<Mutex<(Arc<Line>, usize)>>,
}

impl Recorder {
    /// A counter.
    pub fn counter(&self, metric: Metric) -> Counter {
        self.counter_with(metric, &[])
    }

    /// A counter with more labels than the recorder's.
    pub fn counter_with(&self, metric: Metric, labels: &[(&'static str, &str)]) -> Counter {
        Counter::new(self.cell(metric, Kind::Counter, labels))
    }

    /// A counter for many writers, with more labels than the recorder's.
    pub fn shared_counter_with(&self, metric: Metric, labels: &[(&'static str, &str)]) -> SharedCounter {
        SharedCounter::new(self.cell(metric, Kind::Counter, labels))
    }

    /// A counter for each value of `label`, made when it first comes up.
    pub fn counter_family(&self, metric: Metric, label: &'static str) -> CounterFamily {
        CounterFamily::new(self.clone(), metric, label)
    }

    /// A counter for each of `values` of `label`, for many writers.
    pub fn shared_counter_family(
        &self,
        metric: Metric,
        label: &'static str,
        values: &[&'static str],
    ) -> SharedCounterFamily {
        SharedCounterFamily::new(self, metric, label, values)
    }

    /// A gauge.
    pub fn gauge(&self, metric: Metric) -> Gauge {
        self.gauge_with(metric, &[])
    }

    /// A gauge with more labels than the recorder's.
    pub fn gauge_with(&self, metric: Metric, labels: &[(&'static str, &str)]) -> Gauge {
        Gauge::new(self.cell(metric, Kind::Gauge, labels))
    }

    /// A histogram.
    pub fn histogram(&self, metric: Metric) -> Histogram {
        Histogram::new(self.buckets(metric, &[]))
    }

    /// A histogram for many writers.
    pub fn shared_histogram(&self, metric: Metric) -> SharedHistogram {
        SharedHistogram::new(self.buckets(metric, &[]))
    }

    fn cell(&self, metric: Metric, kind: Kind, labels: &[(&'static str, &str)]) -> Cell {
        let cell = {
            let mut room = self.room.lock().expect("nobody panics while holding it");
            if room.1 == LINE_CELLS {
                *room = Default::default();
            }
            room.1 += 1;
            Cell::new(Arc::clone(&room.0), room.1 - 1)
        };
        self.registry.register(metric, kind, labels_as_shown(&self.labels, labels), Source::Cell(cell.clone()));
        cell
    }

    fn buckets(&self, metric: Metric, labels: &[(&'static str, &str)]) -> Arc<Buckets> {
        let buckets = Buckets::new();
        let labels = labels_as_shown(&self.labels, labels);
        self.registry.register(metric, Kind::Histogram, labels, Source::Buckets(Arc::clone(&buckets)));
        buckets
    }
}

/// `before`, then `name="value"` of each label, with commas between, escaped as the text format demands.
fn labels_as_shown(before: &str, labels: &[(&'static str, &str)]) -> String {
    let mut shown = before.to_owned();
    for (name, value) in labels {
        if !shown.is_empty() {
            shown.push(',');
        }
        let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        write!(shown, "{name}=\"{value}\"").expect("a String grows as needed");
    }
    shown
}
