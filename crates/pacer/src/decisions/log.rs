//! What of all decisions is recorded, and where in which file it goes: bounded, and without a disk.
//!
//! ```text
//!   plans, leases             each, up to 2,000 records a second
//!   throttles                 the first one in a file, each that changes much, else one in ten seconds
//!   counts of a campaign      each ten seconds in which somebody asked for it
//!   samples                   those that the bidders took, up to 1,000 a second
//! ```
//!
//! Promise: a file can be read by itself. The plan and the profile of a campaign stand in it before the first record
//! that follows from them.

use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_machines::TimeMs;

use super::file::Batch;
use super::record::{Asked, Counted, Dropped, HEAD, Record, Recorded, Throttling};
use crate::bidder::{NoBid, Sample};
use crate::control::Stopped;
use crate::machine::{CampaignView, LeaseId};
use crate::strategy::{Day, Input, Throttle};
use crate::units::BudgetMicros;

/// How often the counts of a campaign are recorded, and a throttle that changes little, and a refusal that stays.
const OFTEN_MS: u64 = 10_000;
/// A share or shade that has changed by so much is recorded at once.
const MUCH: f64 = 0.1;
/// Samples of a second.
const SAMPLES_PER_S: u64 = 1_000;
/// Other records of a second.
const OTHERS_PER_S: u64 = 2_000;
/// A file has the records of so long at most: deleting the oldest one deletes no more.
const FILE_MS_MAX: u64 = 3_600_000;
/// All files have so many times the bytes of one.
const FILES: u64 = 16;
/// So many bytes a file may have, however few all of them may.
const FILE_BYTES_MIN: u64 = 64 << 10;
/// Bytes that may wait for the writer to take them.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Chooses what is recorded.
pub struct DecisionLog {
    file_bytes: u64,
    /// When the file began; `None` if the next record begins another one.
    file: Option<TimeMs>,
    /// Bytes of the file before the last batch.
    written: u64,
    batches: Vec<Batch>,
    campaigns: HashMap<u32, Context>,
    second: u64,
    in_second: Dropped,
    /// Not said yet.
    dropped: Dropped,
    /// The newest time that it was told.
    now: TimeMs,
    /// Since they were counted.
    counts: (u64, u64),
}

/// What was recorded of a campaign.
#[derive(Default)]
struct Context {
    /// The last change of the plan that the file has.
    changed: Option<u64>,
    /// The profile that the file has.
    day: Option<Arc<Day>>,
    throttled: Option<(TimeMs, Throttle)>,
    refused: Option<(TimeMs, Stopped)>,
    counted: Option<(TimeMs, u64, [u64; NoBid::ALL.len()])>,
}

impl DecisionLog {
    /// For files of so many bytes together.
    pub fn new(bytes_max: u64) -> DecisionLog {
        DecisionLog {
            file_bytes: (bytes_max / FILES).max(FILE_BYTES_MIN),
            file: None,
            written: 0,
            batches: Vec::new(),
            campaigns: HashMap::new(),
            second: 0,
            in_second: Dropped::default(),
            dropped: Dropped::default(),
            now: TimeMs(0),
            counts: (0, 0),
        }
    }

    /// How many records were taken, and for how many there was no room, since this was asked before.
    pub fn take_counts(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.counts)
    }

    /// What is to be written, in this order.
    pub fn take(&mut self) -> Vec<Batch> {
        if let Some(last) = self.batches.last() {
            let before = if last.begins.is_some() { 0 } else { self.written };
            self.written = before + last.bytes.len() as u64;
        }
        std::mem::take(&mut self.batches)
    }

    /// A batch was not written: what comes stands in another file.
    pub fn lost(&mut self, records: u64) {
        self.drop_others(records);
        self.file = None;
    }

    /// It is that late.
    pub fn set_time(&mut self, now: TimeMs) {
        self.now = self.now.max(now);
    }

    /// A campaign has another plan, or has ended.
    pub fn plan(&mut self, view: &CampaignView) {
        let now = self.now;
        // Just after a start nobody has told the time. The plan then comes with the first throttle.
        if now > TimeMs(0) && self.may_record(now) {
            self.ensure(view, now);
        }
    }

    /// A campaign is forgotten.
    pub fn forget(&mut self, number: u32) {
        self.campaigns.remove(&number);
    }

    /// A strategy was asked.
    pub fn throttle(&mut self, view: &CampaignView, day: &Arc<Day>, input: &Input<'_>, answer: Throttle) {
        let now = input.now;
        let asked = Asked {
            horizon: input.horizon,
            budget: input.budget,
            spent: input.spent,
            reserved: input.reserved,
            requests_per_s: input.traffic.requests_per_s,
            win_rate: input.traffic.win_rate,
            win_price: input.traffic.win_price,
            since_ms: input.traffic.since_ms,
            memory: input.memory,
        };
        let context = self.campaigns.entry(view.number).or_default();
        let is_due = match context.throttled.filter(|_| self.file.is_some() && context.changed == Some(view.changed)) {
            None => true,
            Some((at, last)) => {
                let moved = (last.share - answer.share).abs().max((last.shade - answer.shade).abs());
                let turned = (last.share == 0.0) != (answer.share == 0.0);
                turned || moved >= MUCH || last != answer && now.0.saturating_sub(at.0) >= OFTEN_MS
            }
        };
        if !is_due || !asked.is_finite() || !self.may_record(now) {
            return;
        }
        self.ensure(view, now);
        let context = self.campaigns.get_mut(&view.number).expect("it is there now");
        context.throttled = Some((now, answer));
        let has_profile = context.day.as_ref().is_some_and(|known| Arc::ptr_eq(known, day));
        if !has_profile {
            context.day = Some(day.clone());
            self.push(&Record { at: now, what: Recorded::Profile { number: view.number, day: day.clone() } });
        }
        let throttling = Throttling { number: view.number, asked, answer };
        self.push(&Record { at: now, what: Recorded::Throttled(Box::new(throttling)) });
    }

    /// Money was leased.
    pub fn granted(&mut self, number: u32, worker: u16, (lease, amount): (LeaseId, BudgetMicros), now: TimeMs) {
        if self.may_record(now) {
            self.begin_file(now);
            self.campaigns.entry(number).or_default().refused = None;
            self.push(&Record { at: now, what: Recorded::Granted { number, worker, lease, amount } });
        }
    }

    /// Money was not leased.
    pub fn refused(&mut self, number: u32, worker: u16, (why, available): (Stopped, BudgetMicros), now: TimeMs) {
        let context = self.campaigns.entry(number).or_default();
        let is_said = |(at, last): (TimeMs, Stopped)| last == why && now.0.saturating_sub(at.0) < OFTEN_MS;
        if context.refused.is_some_and(is_said) || !self.may_record(now) {
            return;
        }
        self.begin_file(now);
        self.campaigns.entry(number).or_default().refused = Some((now, why));
        self.push(&Record { at: now, what: Recorded::Refused { number, worker, why, available } });
    }

    /// What was asked for a campaign since the start of the process, so far.
    pub fn count(&mut self, view: &CampaignView, bids: u64, no_bids: &[u64; NoBid::ALL.len()], now: TimeMs) {
        let context = self.campaigns.entry(view.number).or_default();
        let (since, bids_before, before) = *context.counted.get_or_insert((now, bids, *no_bids));
        if now.0.saturating_sub(since.0) < OFTEN_MS {
            return;
        }
        context.counted = Some((now, bids, *no_bids));
        if (bids_before, &before) == (bids, no_bids) || !self.may_record(now) {
            return;
        }
        self.ensure(view, now);
        let counted = Counted {
            number: view.number,
            since,
            bids: bids - bids_before,
            no_bids: std::array::from_fn(|why| no_bids[why] - before[why]),
            spent: view.spending.spent,
            exposed: view.spending.exposed,
        };
        self.push(&Record { at: now, what: Recorded::Counted(counted) });
    }

    /// A bidder has taken a sample.
    pub fn sample(&mut self, view: &CampaignView, sample: Sample, now: TimeMs) {
        self.begin_second(now);
        if self.in_second.samples >= SAMPLES_PER_S || self.is_full() {
            return self.drop_samples(1);
        }
        self.in_second.samples += 1;
        self.ensure(view, now);
        self.push(&Record { at: sample.seen.now, what: Recorded::Sampled(sample) });
    }

    /// Bidders had no room for so many samples.
    pub fn drop_samples(&mut self, samples: u64) {
        self.dropped.samples += samples;
        self.counts.1 += samples;
    }

    fn drop_others(&mut self, records: u64) {
        self.dropped.others += records;
        self.counts.1 += records;
    }

    fn begin_second(&mut self, now: TimeMs) {
        self.now = self.now.max(now);
        if self.second != now.0 / 1_000 {
            (self.second, self.in_second) = (now.0 / 1_000, Dropped::default());
        }
    }

    fn is_full(&self) -> bool {
        self.batches.iter().map(|batch| batch.bytes.len()).sum::<usize>() >= WAITING_BYTES_MAX
    }

    /// Whether there is room for one more record that is no sample; it is counted as recorded or as dropped.
    fn may_record(&mut self, now: TimeMs) -> bool {
        self.begin_second(now);
        if self.in_second.others >= OTHERS_PER_S || self.is_full() {
            self.drop_others(1);
            return false;
        }
        self.in_second.others += 1;
        true
    }

    /// The file has the plan.
    fn ensure(&mut self, view: &CampaignView, now: TimeMs) {
        self.begin_file(now);
        let context = self.campaigns.entry(view.number).or_default();
        if context.changed.replace(view.changed) == Some(view.changed) {
            return;
        }
        let CampaignView { number, id, plan, is_ended, .. } = view.clone();
        self.push(&Record { at: now, what: Recorded::Plan { number, id, is_ended, plan: Box::new(plan) } });
    }

    /// Begins another file, if it is time.
    fn begin_file(&mut self, now: TimeMs) {
        let bytes = match self.batches.last() {
            Some(batch) if batch.begins.is_some() => batch.bytes.len() as u64,
            Some(batch) => self.written + batch.bytes.len() as u64,
            None => self.written,
        };
        let is_young = self.file.is_some_and(|begun| now.0.saturating_sub(begun.0) < FILE_MS_MAX);
        if is_young && bytes < self.file_bytes {
            return;
        }
        self.file = Some(now);
        self.batches.push(Batch { begins: Some(now), bytes: HEAD.into(), records: 0 });
        for context in self.campaigns.values_mut() {
            (context.changed, context.day, context.throttled) = (None, None, None);
        }
    }

    /// Appends to the file that has begun: what belongs together stands in one.
    fn push(&mut self, record: &Record) {
        let dropped = std::mem::take(&mut self.dropped);
        if self.batches.is_empty() {
            self.batches.push(Batch { begins: None, bytes: Vec::new(), records: 0 });
        }
        let batch = self.batches.last_mut().expect("there is one");
        let before = if batch.begins.is_some() { 0 } else { self.written };
        if dropped != Dropped::default() {
            Record { at: record.at, what: Recorded::Dropped(dropped) }.append(&mut batch.bytes, before);
        }
        record.append(&mut batch.bytes, before);
        batch.records += 1;
        self.counts.0 += 1;
    }
}

impl Asked {
    /// Whether all of its numbers are some, as a reader wants them.
    fn is_finite(&self) -> bool {
        let numbers = [self.requests_per_s, self.win_rate, self.win_price];
        numbers.iter().chain(&self.memory.0).all(|number| number.is_finite())
    }
}

#[cfg(test)]
mod tests;
