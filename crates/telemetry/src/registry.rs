//! The registry of all metrics. Threads get their handles here once, at the start; later only the scraper uses it.

use crate::cell::{Cell, LINE_CELLS, Line};
use crate::counter::{Counter, SharedCounter};
use crate::family::{CounterFamily, GaugeFamily, HistogramFamily, SharedCounterFamily};
use crate::gauge::{Gauge, SharedGauge};
use crate::histogram::{Buckets, Histogram};
use crate::metric::{Kind, MetricRow};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

/// All metrics of a process, by name. Cloning gives another handle to the same.
#[derive(Clone, Debug)]
pub struct Registry {
    // Locked when a thread starts, when a label value is first used, and by the scraper; never to count.
    families: Arc<Mutex<BTreeMap<&'static str, Family>>>,
}

/// All series of one name.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) row: MetricRow,
    /// By labels as shown.
    pub(crate) series: BTreeMap<Box<str>, Series>,
}

/// What carries the same labels: from several threads, shown as one.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) labels: Arc<Labels>,
    pub(crate) sources: Vec<Source>,
}

/// The labels of a series.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels {
    /// `name="value"` of each, with commas between, escaped as the text format demands.
    pub(crate) shown: String,
    /// As they are, in the order of the row's.
    pub(crate) values: Vec<Box<str>>,
}

/// Where the scraper reads.
#[derive(Debug)]
pub(crate) enum Source {
    Cell(Cell),
    Buckets(Arc<Buckets>),
}

impl Registry {
    /// A registry of the metrics that `lists` declare, and no others. Panics if two have one name.
    pub fn of(lists: &[&'static [MetricRow]]) -> Registry {
        let mut families = BTreeMap::new();
        for row in lists.iter().copied().flatten() {
            let earlier = families.insert(row.name, Family { row: *row, series: BTreeMap::new() });
            assert!(earlier.is_none(), "metric {} is declared twice", row.name);
        }
        Registry { families: Arc::new(Mutex::new(families)) }
    }

    /// Handles for one thread; all its series carry `labels`.
    pub fn recorder(&self, labels: &[(&'static str, &str)]) -> Recorder {
        let names = labels.iter().map(|(name, _)| *name).collect();
        Recorder { registry: self.clone(), labels: Labels::default().with(labels), names, room: Arc::default() }
    }

    /// Calls `visit` with each family, by name.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Family)) {
        let families = self.families.lock().expect("nobody panics while holding it");
        families.values().for_each(&mut visit);
    }

    fn register(&self, row: MetricRow, labels: Labels, source: Source) {
        let mut families = self.families.lock().expect("nobody panics while holding it");
        let declared = families.get_mut(row.name).filter(|family| family.row == row);
        let is_declared = declared.is_some();
        if let Some(family) = declared {
            let shown = labels.shown.as_str().into();
            let new = || Series { labels: Arc::new(labels), sources: Vec::new() };
            family.series.entry(shown).or_insert_with(new).sources.push(source);
        }
        drop(families);
        assert!(is_declared, "metric {} is not declared like this in the lists of the registry", row.name);
    }
}

/// Gives out handles whose cells lie together, apart from those of other recorders. Cloning gives another handle to the
/// same.
#[derive(Clone, Debug)]
pub struct Recorder {
    registry: Registry,
    labels: Labels,
    /// The names of these labels.
    names: Box<[&'static str]>,
    /// The line that is being filled, and how many of its cells are given out.
    room: Arc<Mutex<(Arc<Line>, usize)>>,
}

impl Recorder {
    /// A counter.
    pub fn counter(&self, row: MetricRow) -> Counter {
        self.counter_with(row, &[])
    }

    /// A counter with more labels than the recorder's.
    pub fn counter_with(&self, row: MetricRow, labels: &[(&'static str, &str)]) -> Counter {
        Counter::new(self.cell(row, Kind::Counter, labels))
    }

    /// A counter for many writers.
    pub fn shared_counter(&self, row: MetricRow) -> SharedCounter {
        self.shared_counter_with(row, &[])
    }

    /// A counter for many writers, with more labels than the recorder's.
    pub fn shared_counter_with(&self, row: MetricRow, labels: &[(&'static str, &str)]) -> SharedCounter {
        SharedCounter::new(self.cell(row, Kind::Counter, labels))
    }

    /// A counter for each value of `label`, made when it first comes up.
    pub fn counter_family(&self, row: MetricRow, label: &'static str) -> CounterFamily {
        CounterFamily::new(self.clone(), row, label)
    }

    /// A counter for each of `values` of `label`, for many writers.
    pub fn shared_counter_family(
        &self,
        row: MetricRow,
        label: &'static str,
        values: &[&'static str],
    ) -> SharedCounterFamily {
        SharedCounterFamily::new(self, row, label, values)
    }

    /// A gauge.
    pub fn gauge(&self, row: MetricRow) -> Gauge {
        self.gauge_with(row, &[])
    }

    /// A gauge with more labels than the recorder's.
    pub fn gauge_with(&self, row: MetricRow, labels: &[(&'static str, &str)]) -> Gauge {
        Gauge::new(self.cell(row, Kind::Gauge, labels))
    }

    /// A gauge for each value of `label`, made when it first comes up.
    pub fn gauge_family(&self, row: MetricRow, label: &'static str) -> GaugeFamily {
        GaugeFamily::new(self.clone(), row, label)
    }

    /// A gauge for many writers.
    pub fn shared_gauge(&self, row: MetricRow) -> SharedGauge {
        SharedGauge::new(self.cell(row, Kind::Gauge, &[]))
    }

    /// A histogram.
    pub fn histogram(&self, row: MetricRow) -> Histogram {
        self.histogram_with(row, &[])
    }

    /// A histogram with more labels than the recorder's.
    pub fn histogram_with(&self, row: MetricRow, labels: &[(&'static str, &str)]) -> Histogram {
        Histogram::new(self.buckets(row, labels))
    }

    /// A histogram for each value of `label`, made when it first comes up.
    pub fn histogram_family(&self, row: MetricRow, label: &'static str) -> HistogramFamily {
        HistogramFamily::new(self.clone(), row, label)
    }

    fn cell(&self, row: MetricRow, kind: Kind, labels: &[(&'static str, &str)]) -> Cell {
        let cell = {
            let mut room = self.room.lock().expect("nobody panics while holding it");
            if room.1 == LINE_CELLS {
                *room = Default::default();
            }
            room.1 += 1;
            Cell::new(Arc::clone(&room.0), room.1 - 1)
        };
        self.register(row, kind, labels, Source::Cell(cell.clone()));
        cell
    }

    fn buckets(&self, row: MetricRow, labels: &[(&'static str, &str)]) -> Arc<Buckets> {
        let buckets = Buckets::new();
        self.register(row, Kind::Histogram, labels, Source::Buckets(Arc::clone(&buckets)));
        buckets
    }

    fn register(&self, row: MetricRow, kind: Kind, more: &[(&'static str, &str)], source: Source) {
        assert!(kind == row.kind, "metric {} is declared as a {}, not a {}", row.name, row.kind.name(), kind.name());
        let names = || self.names.iter().chain(more.iter().map(|(name, _)| name));
        assert!(names().eq(row.labels), "metric {} has the labels {:?}", row.name, row.labels);
        self.registry.register(row, self.labels.clone().with(more), source);
    }
}

impl Labels {
    /// These and `more` behind them.
    fn with(mut self, more: &[(&'static str, &str)]) -> Labels {
        for (name, value) in more {
            if !self.shown.is_empty() {
                self.shown.push(',');
            }
            let escaped = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
            write!(self.shown, "{name}=\"{escaped}\"").expect("a String grows as needed");
            self.values.push(Box::from(*value));
        }
        self
    }
}
