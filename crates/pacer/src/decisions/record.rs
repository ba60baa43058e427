//! The records, and their bytes.
//!
//! ```text
//!   file    8 bytes "tgpacdec" │ layout u32 │ zero u32 │ record │ record │ …
//!   record  len u32 │ checksum u32 │ payload                 checksum: of length, place and payload, as in journals
//!   payload kind │ time │ fields                             as records of campaigns
//! ```

use std::sync::Arc;

use tidegate_machines::TimeMs;
use tidegate_shard::form::{self, Malformed};

use crate::bidder::{BidRequest, NoBid, Sample, Seen};
use crate::control::Stopped;
use crate::frame::{self, HEAD_BYTES, Payloads};
use crate::machine::LeaseId;
use crate::machine::codec::{Reader, put_bytes, put_float, put_number};
use crate::plan::Plan;
use crate::strategy::{Day, Horizon, Memory, QUARTERS, Throttle};
use crate::units::{BudgetMicros, PriceMicros};

const LAYOUT: u8 = 1;
/// What a file begins with: its name, and its layout.
pub const HEAD: [u8; HEAD_BYTES] = frame::head(*b"tgpacdec", LAYOUT);

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// When it was.
    pub at: TimeMs,
    /// What.
    pub what: Recorded,
}

/// What was decided, or was known when something was.
#[derive(Clone, Debug, PartialEq)]
pub enum Recorded {
    /// A plan is in force.
    Plan {
        /// The campaign's number.
        number: u32,
        /// Its id.
        id: Box<str>,
        /// The campaign has ended.
        is_ended: bool,
        /// The plan.
        plan: Box<Plan>,
    },
    /// How the requests of a campaign are spread over the day, as the strategy is told from now on.
    Profile {
        /// The campaign's number.
        number: u32,
        /// The day.
        day: Arc<Day>,
    },
    /// A strategy was asked.
    Throttled(Box<Throttling>),
    /// Money was leased to a worker.
    Granted {
        /// The campaign's number.
        number: u32,
        /// The worker.
        worker: u16,
        /// The lease.
        lease: LeaseId,
        /// How much.
        amount: BudgetMicros,
    },
    /// Money was not leased.
    Refused {
        /// The campaign's number.
        number: u32,
        /// The worker.
        worker: u16,
        /// Why.
        why: Stopped,
        /// What its account had, if that was too little.
        available: BudgetMicros,
    },
    /// What was asked for a campaign.
    Counted(Counted),
    /// A request, and how it was answered.
    Sampled(Sample),
    /// Records that are missing before this one.
    Dropped(Dropped),
}

/// What a strategy was asked, and has answered. The rest of its input is the plan and the profile that are in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttling {
    /// The campaign's number.
    pub number: u32,
    /// The input.
    pub asked: Asked,
    /// The answer.
    pub answer: Answer,
}

/// The input of a strategy, without plan and profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asked {
    /// Over which time money is spread.
    pub horizon: Horizon,
    /// How much.
    pub budget: BudgetMicros,
    /// What was spent of it.
    pub spent: BudgetMicros,
    /// What is reserved or leased.
    pub reserved: BudgetMicros,
    /// Requests in a second.
    pub requests_per_s: f64,
    /// The share of bids that win.
    pub win_rate: f64,
    /// What a win costs, in micros.
    pub win_price: f64,
    /// Time since the strategy was asked before.
    pub since_ms: u64,
    /// What it kept then.
    pub memory: Memory,
}

/// What a strategy has answered.
pub type Answer = Throttle;

/// What was asked for a campaign from one time to the record's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The campaign's number.
    pub number: u32,
    /// From then on.
    pub since: TimeMs,
    /// Bids that were made.
    pub bids: u64,
    /// Requests without a bid, by reason.
    pub no_bids: [u64; NoBid::ALL.len()],
    /// What was spent at the end.
    pub spent: BudgetMicros,
    /// What was reserved or leased at the end.
    pub exposed: BudgetMicros,
}

/// Records for which there was no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Samples.
    pub samples: u64,
    /// All others.
    pub others: u64,
}

const PLAN: u8 = 1;
const PROFILE: u8 = 2;
const THROTTLED: u8 = 3;
const GRANTED: u8 = 4;
const REFUSED: u8 = 5;
const COUNTED: u8 = 6;
const SAMPLED: u8 = 7;
const DROPPED: u8 = 8;

impl Record {
    /// Of which campaign it is; `None` for what is of none.
    pub fn number(&self) -> Option<u32> {
        match &self.what {
            Recorded::Plan { number, .. }
            | Recorded::Profile { number, .. }
            | Recorded::Granted { number, .. }
            | Recorded::Refused { number, .. }
            | Recorded::Counted(Counted { number, .. }) => Some(*number),
            Recorded::Throttled(throttling) => Some(throttling.number),
            Recorded::Sampled(sample) => Some(sample.request.campaign),
            Recorded::Dropped(_) => None,
        }
    }

    /// Appends the record to what a file has from `place` on.
    pub fn append(&self, into: &mut Vec<u8>, place: u64) {
        frame::append(into, place, |into| self.encode(into));
    }

    /// Appends the payload.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let mut begin = |kind: u8| {
            into.push(kind);
            put_number(into, self.at.0);
        };
        match &self.what {
            Recorded::Plan { number, id, is_ended, plan } => {
                begin(PLAN);
                put_number(into, (*number).into());
                put_bytes(into, id.as_bytes());
                into.push((*is_ended).into());
                put_bytes(into, &form::write(plan));
            }
            Recorded::Profile { number, day } => {
                begin(PROFILE);
                put_number(into, (*number).into());
                day.shares().iter().for_each(|share| put_float(into, *share));
            }
            Recorded::Throttled(throttling) => {
                begin(THROTTLED);
                throttling.encode(into);
            }
            Recorded::Granted { number, worker, lease, amount } => {
                begin(GRANTED);
                [u64::from(*number), u64::from(*worker), lease.0, amount.0].iter().for_each(|it| put_number(into, *it));
            }
            Recorded::Refused { number, worker, why, available } => {
                begin(REFUSED);
                let why = Stopped::ALL.iter().position(|of| of == why).expect("all of them are there") as u64;
                [u64::from(*number), u64::from(*worker), why, available.0].iter().for_each(|it| put_number(into, *it));
            }
            Recorded::Counted(Counted { number, since, bids, no_bids, spent, exposed }) => {
                begin(COUNTED);
                [u64::from(*number), since.0, *bids].iter().for_each(|it| put_number(into, *it));
                no_bids.iter().for_each(|count| put_number(into, *count));
                [spent.0, exposed.0].iter().for_each(|it| put_number(into, *it));
            }
            Recorded::Sampled(sample) => {
                begin(SAMPLED);
                encode_sample(sample, into);
            }
            Recorded::Dropped(Dropped { samples, others }) => {
                begin(DROPPED);
                put_number(into, *samples);
                put_number(into, *others);
            }
        }
    }

    /// Reads exactly what [`encode`](Record::encode) writes.
    pub fn decode(payload: &[u8]) -> Result<Record, Malformed> {
        let mut reader = Reader::new(payload);
        let kind = reader.byte()?;
        let at = TimeMs(reader.number()?);
        let what = match kind {
            PLAN => {
                let (number, id) = (reader.small()?, reader.text()?.into());
                Recorded::Plan { number, id, is_ended: reader.is()?, plan: Box::new(form::read(reader.bytes()?)?) }
            }
            PROFILE => {
                let number = reader.small()?;
                let mut shares = [0.0; QUARTERS + 1];
                for share in &mut shares {
                    *share = reader.float()?;
                }
                Recorded::Profile { number, day: Arc::new(Day::of_shares(shares).ok_or(Malformed)?) }
            }
            THROTTLED => Recorded::Throttled(Box::new(Throttling::decode(&mut reader)?)),
            GRANTED => {
                let (number, worker) = (reader.small()?, worker(&mut reader)?);
                let (lease, amount) = (LeaseId(reader.number()?), BudgetMicros(reader.number()?));
                Recorded::Granted { number, worker, lease, amount }
            }
            REFUSED => {
                let (number, worker) = (reader.small()?, worker(&mut reader)?);
                let why = *Stopped::ALL.get(reader.small()? as usize).ok_or(Malformed)?;
                Recorded::Refused { number, worker, why, available: BudgetMicros(reader.number()?) }
            }
            COUNTED => {
                let mut counted = Counted { number: reader.small()?, ..Counted::default() };
                (counted.since, counted.bids) = (TimeMs(reader.number()?), reader.number()?);
                for count in &mut counted.no_bids {
                    *count = reader.number()?;
                }
                (counted.spent, counted.exposed) = (BudgetMicros(reader.number()?), BudgetMicros(reader.number()?));
                Recorded::Counted(counted)
            }
            SAMPLED => Recorded::Sampled(decode_sample(&mut reader, at)?),
            DROPPED => Recorded::Dropped(Dropped { samples: reader.number()?, others: reader.number()? }),
            _ => return Err(Malformed),
        };
        reader.end()?;
        Ok(Record { at, what })
    }
}

impl Throttling {
    fn encode(&self, into: &mut Vec<u8>) {
        let Throttling { number, asked, answer } = self;
        let Asked { horizon, budget, spent, reserved, requests_per_s, win_rate, win_price, since_ms, memory } = asked;
        let numbers = [u64::from(*number), horizon.begins.0, horizon.ends.0, budget.0, spent.0, reserved.0, *since_ms];
        numbers.iter().for_each(|number| put_number(into, *number));
        [requests_per_s, win_rate, win_price].iter().for_each(|number| put_float(into, **number));
        memory.0.iter().for_each(|number| put_float(into, *number));
        [answer.share, answer.shade].iter().for_each(|number| put_float(into, *number));
        answer.memory.0.iter().for_each(|number| put_float(into, *number));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Throttling, Malformed> {
        let number = reader.small()?;
        let horizon = Horizon { begins: TimeMs(reader.number()?), ends: TimeMs(reader.number()?) };
        let mut money = || reader.number().map(BudgetMicros);
        let (budget, spent, reserved) = (money()?, money()?, money()?);
        let since_ms = reader.number()?;
        let (requests_per_s, win_rate, win_price) = (reader.float()?, reader.float()?, reader.float()?);
        let memory = reader.memory()?;
        let (share, shade) = (reader.float()?, reader.float()?);
        let answer = Answer { share, shade, memory: reader.memory()? };
        let asked = Asked { horizon, budget, spent, reserved, requests_per_s, win_rate, win_price, since_ms, memory };
        Ok(Throttling { number, asked, answer })
    }
}

/// A sample whose time is the record's.
fn encode_sample(sample: &Sample, into: &mut Vec<u8>) {
    let Sample { request, version, seen, may_see, answer } = sample;
    let BidRequest { id, campaign, user, key, price } = request;
    for hash in [id, user, key] {
        into.extend_from_slice(&hash.to_le_bytes());
    }
    let numbers = [u64::from(*campaign), price.0.into(), *version];
    numbers.iter().for_each(|number| put_number(into, *number));
    let Seen { now: _, starts, ends, threshold, shade, price_max, lease, left, number } = seen;
    let numbers =
        [*starts, *ends, *threshold, u64::from(*shade), (*price_max).into(), lease.0, *left, u64::from(*number)];
    numbers.iter().for_each(|number| put_number(into, *number));
    into.push(match may_see {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    });
    match answer {
        Ok(price) => {
            into.push(0);
            put_number(into, price.0.into());
        }
        Err(why) => into.push(*why as u8 + 1),
    }
}

fn decode_sample(reader: &mut Reader<'_>, now: TimeMs) -> Result<Sample, Malformed> {
    let (id, user, key) = (reader.eight()?, reader.eight()?, reader.eight()?);
    let (id, user, key) = (u64::from_le_bytes(id), u64::from_le_bytes(user), u64::from_le_bytes(key));
    let (campaign, price, version) = (reader.small()?, PriceMicros(reader.small()?), reader.number()?);
    let (starts, ends, threshold) = (reader.number()?, reader.number()?, reader.number()?);
    let (shade, price_max) = (reader.small()?, reader.small()?);
    let (lease, left, number) = (LeaseId(reader.number()?), reader.number()?, reader.small()?);
    let may_see = match reader.byte()? {
        0 => None,
        1 => Some(false),
        2 => Some(true),
        _ => return Err(Malformed),
    };
    let answer = match reader.byte()? {
        0 => Ok(PriceMicros(reader.small()?)),
        why => Err(*NoBid::ALL.get(usize::from(why) - 1).ok_or(Malformed)?),
    };
    let request = BidRequest { id, campaign, user, key, price };
    let seen = Seen { now, starts, ends, threshold, shade, price_max, lease, left, number };
    Ok(Sample { request, version, seen, may_see, answer })
}

fn worker(reader: &mut Reader<'_>) -> Result<u16, Malformed> {
    reader.small()?.try_into().map_err(|_| Malformed)
}

/// The records of a file, in their order. One that is torn or damaged ends before the first record that is not whole.
pub struct Records<'a>(Payloads<'a>);

/// Begins to read a file; `None` if it is no such file.
pub fn read_records(file: &[u8]) -> Option<Records<'_>> {
    Payloads::of(file, &HEAD).map(Records)
}

impl Records<'_> {
    /// Bytes that are not read. Behind the last record, how many bytes of the file nobody can read.
    pub fn unread_bytes(&self) -> usize {
        self.0.unread_bytes()
    }

    /// Whether these are the beginning of a record, as a kill leaves it.
    pub fn is_torn(&self) -> bool {
        self.0.is_torn()
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        self.0.next(Record::decode)
    }
}
