//! Answers why a campaign did or did not bid at a time, and decides again what was decided then.
//!
//! ```text
//!   records ─▶ plan in force ─┐
//!              profile ───────┼─▶ the strategy, asked again ─▶ the same throttle, or it is said that it differs
//!              throttling ────┘
//!              sample, plan ──────▶ the bid, decided again ──▶ the same answer, or it is said that it differs
//! ```
//!
//! Promise: the same records and question give the same bytes, on any machine.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tidegate_machines::TimeMs;

use super::record::{Asked, Counted, Dropped, Record, Recorded, Throttling};
use crate::bidder::{Aim, NoBid, Sample, decide_again, hash_of};
use crate::plan::Plan;
use crate::strategy::{self, Day, Input, Throttle, Traffic};

/// Plans, throttles, leases and samples that are shown of each.
const LINES_MAX: usize = 50;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The campaign's id.
    pub id: Box<str>,
    /// When.
    pub at: TimeMs,
    /// So long before and after.
    pub range_ms: u64,
    /// In which zone times are shown.
    pub zone: TimeZone,
}

/// What is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// For people.
    pub text: String,
    /// Records of the time asked for.
    pub records: u64,
    /// Decisions that were decided again with the same answer.
    pub same: u64,
    /// Those with another one.
    pub different: u64,
}

/// What is known of the campaign before a record.
#[derive(Default)]
struct Known {
    number: Option<u32>,
    plan: Option<(TimeMs, Plan, bool)>,
    /// By version.
    plans: BTreeMap<u64, Plan>,
    day: Option<Arc<Day>>,
    throttle: Option<String>,
}

/// A line, and the time of its record.
type Line = (TimeMs, String);

/// What is shown.
#[derive(Default)]
struct Shown {
    plans: Vec<Line>,
    throttles: Vec<Line>,
    leases: Vec<Line>,
    samples: Vec<Line>,
    counted: Counted,
    count_begins: Option<TimeMs>,
    count_ends: TimeMs,
    dropped: Dropped,
}

/// Answers a question from records in the order of their files.
pub fn replay(records: impl Iterator<Item = Record>, question: &Question) -> Replayed {
    let Question { id, at, range_ms, .. } = question;
    let (from, to) = (TimeMs(at.0.saturating_sub(*range_ms)), TimeMs(at.0.saturating_add(*range_ms)));
    let (mut known, mut shown, mut replayed) = (Known::default(), Shown::default(), Replayed::default());
    for record in records {
        if let Recorded::Plan { number, id: of, .. } = &record.what
            && of == id
            && record.at <= to
            && known.number != Some(*number)
        {
            // One that was made anew has another number.
            known = Known { number: Some(*number), ..Known::default() };
        }
        let is_of_all = record.number().is_none();
        if !is_of_all && (known.number.is_none() || record.number() != known.number) {
            continue;
        }
        let is_asked = from <= record.at && record.at <= to;
        replayed.records += u64::from(is_asked && !is_of_all);
        note(record, (is_asked, *at), question, (&mut known, &mut shown, &mut replayed));
    }
    replayed.text = written(question, &known, &shown, &replayed);
    replayed
}

fn note(
    record: Record,
    (is_asked, asked_at): (bool, TimeMs),
    question: &Question,
    (known, shown, replayed): (&mut Known, &mut Shown, &mut Replayed),
) {
    let at = record.at;
    let time = question.time(at);
    match record.what {
        Recorded::Plan { plan, is_ended, .. } => {
            known.plans.insert(plan.version, (*plan).clone());
            let is_new = known.plan.as_ref().is_none_or(|(_, before, was)| (before, *was) != (&plan, is_ended));
            if is_new && is_asked {
                let end = if is_ended { ", and the campaign has ended" } else { "" };
                shown.plans.push((at, format!("{time}  version {}{end}", plan.version)));
            }
            if is_new && at <= asked_at || known.plan.is_none() {
                known.plan = Some((at, *plan, is_ended));
            }
        }
        Recorded::Profile { day, .. } => known.day = Some(day),
        Recorded::Throttled(throttling) => {
            let line = format!("{time}  {}", judged_throttle(&throttling, at, known, replayed));
            if is_asked {
                shown.throttles.push((at, line.clone()));
            }
            if at <= asked_at {
                known.throttle = Some(line);
            }
        }
        Recorded::Granted { worker, lease, amount, .. } if is_asked => {
            shown.leases.push((at, format!("{time}  worker {worker} got {amount} as lease {lease}")));
        }
        Recorded::Refused { worker, why, available, .. } if is_asked => {
            let had = if available.0 > 0 { format!(": its account had {available}") } else { String::new() };
            shown.leases.push((at, format!("{time}  worker {worker} got nothing, {}{had}", why.name())));
        }
        Recorded::Counted(counted) if is_asked || counted.since <= asked_at && asked_at <= at => {
            shown.count_begins.get_or_insert(counted.since);
            shown.count_ends = at;
            shown.counted.bids = shown.counted.bids.saturating_add(counted.bids);
            shown
                .counted
                .no_bids
                .iter_mut()
                .zip(counted.no_bids)
                .for_each(|(all, count)| *all = all.saturating_add(count));
            (shown.counted.spent, shown.counted.exposed) = (counted.spent, counted.exposed);
        }
        Recorded::Sampled(sample) if is_asked => {
            shown.samples.push((at, format!("{time}  {}", judged_sample(&sample, known, replayed))));
        }
        Recorded::Dropped(dropped) if is_asked => {
            shown.dropped.samples = shown.dropped.samples.saturating_add(dropped.samples);
            shown.dropped.others = shown.dropped.others.saturating_add(dropped.others);
        }
        _ => {}
    }
}

/// A throttle in words, and whether it is the one that the strategy answers.
fn judged_throttle(throttling: &Throttling, at: TimeMs, known: &Known, replayed: &mut Replayed) -> String {
    let Throttling { asked, answer, .. } = throttling;
    let Asked { budget, spent, reserved, requests_per_s, win_rate, win_price, .. } = asked;
    let again = match decided_again(throttling, at, known) {
        None => "its plan is not recorded".to_owned(),
        Some(again) if is_same(&again, answer) => {
            replayed.same += 1;
            "decided again: the same".to_owned()
        }
        Some(again) => {
            replayed.different += 1;
            format!("DECIDED AGAIN: share {} and shade {}", again.share, again.shade)
        }
    };
    format!(
        "share {:.6}, shade {:.4}; spent {spent} of {budget}, reserved {reserved}, {requests_per_s:.1} requests/s, win \
         rate {win_rate:.4}, a win costs {:.6}; {again}",
        answer.share,
        answer.shade,
        win_price / 1e6
    )
}

fn decided_again(throttling: &Throttling, at: TimeMs, known: &Known) -> Option<Throttle> {
    // The plan that the strategy was asked with is the newest one before it.
    let plan = known.plans.values().next_back()?;
    let row = strategy::find(&plan.strategy.name)?;
    let day = known.day.as_deref()?;
    let Asked { horizon, budget, spent, reserved, requests_per_s, win_rate, win_price, since_ms, memory } =
        throttling.asked;
    let traffic = Traffic { requests_per_s, win_rate, win_price, day, since_ms };
    Some((row.decide)(&Input {
        horizon,
        budget,
        spent,
        reserved,
        now: at,
        price_max: plan.price_micros,
        traffic,
        parameters: &plan.strategy.parameters,
        memory,
    }))
}

/// Whether two answers have the same bits.
fn is_same(one: &Throttle, other: &Throttle) -> bool {
    let bits = |of: &Throttle| {
        let [a, b, c, d] = of.memory.0;
        [of.share, of.shade, a, b, c, d].map(f64::to_bits)
    };
    bits(one) == bits(other)
}

/// A sample in words, and whether its answer is the one that follows from what was seen.
fn judged_sample(sample: &Sample, known: &Known, replayed: &mut Replayed) -> String {
    let Sample { request, version, seen, may_see, answer } = sample;
    // What it buys in auctions was looked at before, and needs its id.
    let again = match known.plans.get(version).map(|plan| decide_again(sample, &Aim::of("", plan, ""))) {
        None => format!("version {version} of its plan is not recorded"),
        Some(again) if again == *answer => {
            replayed.same += 1;
            "decided again: the same".to_owned()
        }
        Some(again) => {
            replayed.different += 1;
            format!("DECIDED AGAIN: {again:?}")
        }
    };
    let chance = (hash_of(request) >> 32) as f64 / f64::from(u32::MAX);
    let threshold = seen.threshold as f64 / f64::from(u32::MAX);
    let said = match answer {
        Ok(price) => format!("bid {price}"),
        Err(why) => format!("no bid, {}", why.name()),
    };
    let user = match may_see {
        None => String::new(),
        Some(true) => format!(", user {} seldom enough", request.user),
        Some(false) => format!(", user {} too often", request.user),
    };
    format!(
        "request {}: {said}; chance {chance:.6} of share {threshold:.6}, key {}, price {} of {}, lease had {}{user}; \
         {again}",
        request.id,
        request.key,
        request.price,
        crate::units::PriceMicros(seen.price_max),
        crate::units::BudgetMicros(seen.left)
    )
}

impl Question {
    fn time(&self, at: TimeMs) -> String {
        let at = i64::try_from(at.0).ok().and_then(|at| Timestamp::from_millisecond(at).ok()).unwrap_or_default();
        at.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S%.3f %Z").to_string()
    }
}

fn written(question: &Question, known: &Known, shown: &Shown, replayed: &Replayed) -> String {
    let mut text = String::new();
    let mut say = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    say(&format!("campaign {} at {}", question.id, question.time(question.at)));
    match &known.plan {
        Some((since, plan, is_ended)) => {
            let end = if *is_ended { ", ended" } else { "" };
            say(&format!("plan: version {}{end}, recorded {}", plan.version, question.time(*since)));
            let json = tidegate_shard::form::write(plan);
            say(&format!("  {}", String::from_utf8_lossy(&json)));
            if let Some(why) = outside(plan, question.at) {
                say(&format!("  {why}"));
            }
        }
        None => say("plan: none is recorded"),
    }
    if let Some(row) = known.plan.as_ref().and_then(|(_, plan, _)| strategy::find(&plan.strategy.name)) {
        say(&format!("strategy: {}. {}", row.name, row.meaning));
    }
    match &known.throttle {
        Some(line) => say(&format!("throttle in force: since {line}")),
        None => say("throttle in force: none is recorded before"),
    }
    section(&mut say, "plans that came", question.at, &shown.plans);
    counts(&mut say, question, shown);
    section(&mut say, "throttles", question.at, &shown.throttles);
    section(&mut say, "leases", question.at, &shown.leases);
    section(&mut say, "sampled requests", question.at, &shown.samples);
    let Dropped { samples, others } = shown.dropped;
    if samples > 0 || others > 0 {
        say(&format!("not recorded, for want of room: {samples} samples, {others} other records"));
    }
    say(&format!("decided again: {} the same, {} different", replayed.same, replayed.different));
    text
}

/// Why a plan bids nothing at a time, whatever its strategy says.
fn outside(plan: &Plan, at: TimeMs) -> Option<&'static str> {
    match plan.flight_at(at) {
        _ if plan.paused => Some("it was paused"),
        None => Some("no flight was under way"),
        Some(_) => None,
    }
}

/// Those that are nearest to the time asked for, if there are many.
fn section(say: &mut impl FnMut(&str), name: &str, at: TimeMs, lines: &[Line]) {
    if lines.is_empty() {
        return;
    }
    say(&format!("{name}: {}", lines.len()));
    let behind = lines.partition_point(|(time, _)| *time < at);
    let first = behind.saturating_sub(LINES_MAX / 2).min(lines.len().saturating_sub(LINES_MAX));
    let last = (first + LINES_MAX).min(lines.len());
    if first > 0 {
        say(&format!("  {first} earlier ones"));
    }
    lines[first..last].iter().for_each(|(_, line)| say(&format!("  {line}")));
    if last < lines.len() {
        say(&format!("  {} later ones", lines.len() - last));
    }
}

fn counts(say: &mut impl FnMut(&str), question: &Question, shown: &Shown) {
    let Some(begins) = shown.count_begins else { return say("requests: none are counted") };
    let Counted { bids, no_bids, spent, exposed, .. } = shown.counted;
    let all = no_bids.iter().fold(bids, |all, count| all.saturating_add(*count));
    let mut line =
        format!("requests from {} to {}: {all}, bid on {bids}", question.time(begins), question.time(shown.count_ends));
    let mut reasons: Vec<_> = NoBid::ALL.iter().zip(no_bids).filter(|(_, count)| *count > 0).collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (why, count) in reasons {
        write!(line, ", {} {count} ({:.1} %)", why.name(), 100.0 * count as f64 / all as f64)
            .expect("a string takes all");
    }
    say(&line);
    say(&format!("  spent {spent}, reserved or leased {exposed} at the end of this"));
}
