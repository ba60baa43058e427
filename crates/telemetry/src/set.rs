//! Sets of metrics, declared by their owners beside the code that counts.

use crate::counter::{Counter, SharedCounter};
use crate::family::{CounterFamily, GaugeFamily, HistogramFamily, SharedCounterFamily};
use crate::gauge::{Gauge, SharedGauge};
use crate::histogram::Histogram;
use crate::metric::{Kind, MetricRow};
use crate::registry::Recorder;

/// A label of one metric alone, and those of its values that are known beforehand.
#[derive(Clone, Copy, Debug)]
pub struct OwnLabel {
    /// Its name.
    pub name: &'static str,
    /// Values that are shown from the start.
    pub values: &'static [&'static str],
}

/// What can stand in a set.
pub trait Instrument: Sized {
    /// What Prometheus calls it.
    const KIND: Kind;
    /// [`OwnLabel`] for families, nothing for all others.
    type Own;
    /// Has `recorder` register it.
    fn register(recorder: &Recorder, row: MetricRow, own: Self::Own) -> Self;
}

macro_rules! instruments {
    ($($instrument:ident $kind:ident $make:ident;)*) => {
        $(impl Instrument for $instrument {
            const KIND: Kind = Kind::$kind;
            type Own = ();
            fn register(recorder: &Recorder, row: MetricRow, (): ()) -> $instrument {
                recorder.$make(row)
            }
        })*
    };
}

instruments! {
    Counter Counter counter;
    SharedCounter Counter shared_counter;
    Gauge Gauge gauge;
    SharedGauge Gauge shared_gauge;
    Histogram Histogram histogram;
}

impl Instrument for CounterFamily {
    const KIND: Kind = Kind::Counter;
    type Own = OwnLabel;
    fn register(recorder: &Recorder, row: MetricRow, own: OwnLabel) -> CounterFamily {
        let family = recorder.counter_family(row, own.name);
        own.values.iter().for_each(|value| family.add(value, 0));
        family
    }
}

impl Instrument for GaugeFamily {
    const KIND: Kind = Kind::Gauge;
    type Own = OwnLabel;
    fn register(recorder: &Recorder, row: MetricRow, own: OwnLabel) -> GaugeFamily {
        let family = recorder.gauge_family(row, own.name);
        own.values.iter().for_each(|value| family.set(value, 0));
        family
    }
}

impl Instrument for HistogramFamily {
    const KIND: Kind = Kind::Histogram;
    type Own = OwnLabel;
    fn register(recorder: &Recorder, row: MetricRow, own: OwnLabel) -> HistogramFamily {
        assert!(own.values.is_empty(), "metric {} is shown once something was measured", row.name);
        recorder.histogram_family(row, own.name)
    }
}

impl Instrument for SharedCounterFamily {
    const KIND: Kind = Kind::Counter;
    type Own = OwnLabel;
    fn register(recorder: &Recorder, row: MetricRow, own: OwnLabel) -> SharedCounterFamily {
        recorder.shared_counter_family(row, own.name, own.values)
    }
}

/// Declares a set of metrics: a struct with a handle for each, its registration, and the rows that say what they are.
///
/// ```
/// use tidegate_telemetry::{Registry, metrics, render_prometheus};
///
/// metrics! {
///     /// What a shop counts, for one thread.
///     pub struct ShopMetrics(shop) {
///         sales: Counter "tidegate_sales_total" "Sales.";
///         complaints: CounterFamily(about: "price" "size")
///             "tidegate_complaints_total" "Complaints, by what they are about.";
///         queue: Gauge "tidegate_queue" "People who wait.";
///         service: Histogram "tidegate_service_seconds" "From the greeting to the receipt.";
///     }
/// }
///
/// let registry = Registry::of(&[ShopMetrics::ROWS]);
/// let shop = ShopMetrics::register(&registry, "corner");
/// shop.sales.increment();
/// shop.complaints.increment("smell");
/// let shown = render_prometheus(&registry.snapshot());
/// assert!(shown.contains("tidegate_complaints_total{shop=\"corner\",about=\"smell\"} 1"));
/// ```
///
/// The labels in parentheses behind the struct's name are those of all its metrics, and parameters of `register`;
/// families have one more, with the values that are to be shown before they come up (all of them, for a
/// [`SharedCounterFamily`]).
#[macro_export]
macro_rules! metrics {
    ($(#[$meta:meta])* $vis:vis struct $set:ident $labels:tt { $($rows:tt)* }) => {
        $crate::metrics! { @set [$(#[$meta])* $vis] $set $labels $labels { $($rows)* } }
    };
    (@set [$(#[$meta:meta])* $vis:vis] $set:ident $labels:tt ($($label:ident),*) { $(
        $(#[$note:meta])* $field:ident: $kind:ident $(($($own:tt)*))? $name:literal $help:literal;
    )+ }) => {
        $(#[$meta])*
        #[derive(Debug)]
        $vis struct $set {
            $(#[doc = $help] $(#[$note])* pub $field: $crate::$kind,)+
        }

        impl $set {
            /// Each metric of this set.
            pub const ROWS: &'static [$crate::MetricRow] =
                &[$($crate::metrics!(@row $labels $kind ($($($own)*)?) $name $help)),+];

            /// Registers the metrics for one recorder, with the values of its labels.
            pub fn register(registry: &$crate::Registry $(, $label: impl ::std::fmt::Display)*) -> $set {
                let recorder = registry.recorder(&[$((stringify!($label), &*$label.to_string())),*]);
                $set {
                    $($field: <$crate::$kind as $crate::Instrument>::register(
                        &recorder,
                        $crate::metrics!(@row $labels $kind ($($($own)*)?) $name $help),
                        $crate::metrics!(@own $($($own)*)?),
                    ),)+
                }
            }
        }
    };
    (@row ($($label:ident),*) $kind:ident ($($own:ident $(: $($value:literal)+)?)?) $name:literal $help:literal) => {
        $crate::MetricRow {
            name: $name,
            help: $help,
            kind: <$crate::$kind as $crate::Instrument>::KIND,
            labels: &[$(stringify!($label),)* $(stringify!($own))?],
        }
    };
    (@own) => { () };
    (@own $own:ident $(: $($value:literal)+)?) => {
        $crate::OwnLabel { name: stringify!($own), values: &[$($($value),+)?] }
    };
}
