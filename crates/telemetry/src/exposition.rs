//! What `GET /metrics` answers: Prometheus text format 0.0.4.
//!
//! A histogram's 1,152 buckets are shown as at most 30, at powers of two for times and of four for the rest: exactly, because
//! each of those bounds is one of the fine buckets too.

use crate::histogram::{BUCKETS, bucket_of};
use crate::metric::{Kind, Unit};
use crate::registry::{Family, Registry, Source};
use std::fmt::Write;

/// Powers of two at which the buckets of times end: 2^12 ns is 4 µs, 2^35 ns is 34 s.
const NANOSECONDS_POWERS: std::ops::RangeInclusive<u32> = 12..=35;

/// Likewise for counts and bytes: 1 to 2^28 in steps of four, that is 256 MiB.
const PLAIN_POWERS: std::ops::RangeInclusive<u32> = 0..=28;

const NANOSECONDS_PER_SECOND: f64 = 1e9;

/// All metrics as text. Reads every cell once, takes no lock that a recording thread would wait for.
pub fn render_prometheus(registry: &Registry) -> String {
    let mut out = String::new();
    registry.for_each(|family| render_family(&mut out, family).expect("a String grows as needed"));
    out
}

fn render_family(out: &mut String, family: &Family) -> std::fmt::Result {
    let name = family.row.name;
    let kind = family.row.kind.name();
    let help = family.row.help.replace('\\', r"\\").replace('\n', r"\n");
    writeln!(out, "# HELP {name} {help}")?;
    writeln!(out, "# TYPE {name} {kind}")?;
    for (labels, sources) in &family.series {
        match family.row.kind {
            Kind::Histogram => render_histogram(out, family, labels, sources)?,
            _ => render_number(out, family, labels, sources)?,
        }
    }
    Ok(())
}

fn render_number(out: &mut String, family: &Family, labels: &str, sources: &[Source]) -> std::fmt::Result {
    let total = sources.iter().fold(0u64, |total, source| match source {
        Source::Cell(cell) => total.wrapping_add(cell.get()),
        Source::Buckets(_) => unreachable!("the registry keeps kinds apart"),
    });
    out.push_str(family.row.name);
    braces(out, labels, None)?;
    match (family.row.unit(), family.row.kind) {
        (Unit::Nanoseconds, Kind::Gauge) => writeln!(out, " {}", total as i64 as f64 / NANOSECONDS_PER_SECOND),
        (Unit::Nanoseconds, _) => writeln!(out, " {}", total as f64 / NANOSECONDS_PER_SECOND),
        (Unit::Plain, Kind::Gauge) => writeln!(out, " {}", total as i64),
        (Unit::Plain, _) => writeln!(out, " {total}"),
    }
}

fn render_histogram(out: &mut String, family: &Family, labels: &str, sources: &[Source]) -> std::fmt::Result {
    let name = family.row.name;
    let mut counts = vec![0; BUCKETS];
    let sum = sources.iter().fold(0u64, |sum, source| match source {
        Source::Buckets(buckets) => sum.wrapping_add(buckets.add_to(&mut counts)),
        Source::Cell(_) => unreachable!("the registry keeps kinds apart"),
    });
    let (powers, step) = match family.row.unit() {
        Unit::Nanoseconds => (NANOSECONDS_POWERS, 1),
        Unit::Plain => (PLAIN_POWERS, 2),
    };
    let (mut shown, mut cumulative) = (0, 0u64);
    for power in powers.step_by(step) {
        let end = bucket_of(1 << power);
        cumulative += counts[shown..end].iter().sum::<u64>();
        shown = end;
        // The fine buckets before `end` hold what is *below* 2^power. Whole numbers can say that exactly; for a time, the
        // nanosecond that is missing says nothing.
        let bound = match family.row.unit() {
            Unit::Nanoseconds => ((1u64 << power) as f64 / NANOSECONDS_PER_SECOND).to_string(),
            Unit::Plain => ((1u64 << power) - 1).to_string(),
        };
        write!(out, "{name}_bucket")?;
        braces(out, labels, Some(&bound))?;
        writeln!(out, " {cumulative}")?;
    }
    cumulative += counts[shown..].iter().sum::<u64>();
    write!(out, "{name}_bucket")?;
    braces(out, labels, Some("+Inf"))?;
    writeln!(out, " {cumulative}")?;
    write!(out, "{name}_sum")?;
    braces(out, labels, None)?;
    match family.row.unit() {
        Unit::Nanoseconds => writeln!(out, " {}", sum as f64 / NANOSECONDS_PER_SECOND)?,
        Unit::Plain => writeln!(out, " {sum}")?,
    }
    write!(out, "{name}_count")?;
    braces(out, labels, None)?;
    writeln!(out, " {cumulative}")
}

/// The labels, and `le` of a bucket; nothing if there are none.
fn braces(out: &mut String, labels: &str, le: Option<&str>) -> std::fmt::Result {
    match (labels, le) {
        ("", None) => Ok(()),
        ("", Some(le)) => write!(out, "{{le=\"{le}\"}}"),
        (labels, None) => write!(out, "{{{labels}}}"),
        (labels, Some(le)) => write!(out, "{{{labels},le=\"{le}\"}}"),
    }
}
