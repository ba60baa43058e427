//! What happens to the campaigns of a shard: the records of its log.
//!
//! ```text
//!   kind │ time, varint │ the fields, numbers as varints, texts with their lengths before them
//! ```
//!
//! The bytes are described in `docs/formats/pacer.md`.

use tidegate_machines::TimeMs;
use tidegate_shard::form::{self, Malformed};

use super::codec::{Reader, put_bytes, put_name, put_number};
use super::command::{LeaseWanted, Win};
use super::lease::{LeaseId, Life};
use crate::plan::Plan;
use crate::token::Bid;
use crate::units::{BudgetMicros, PriceMicros};

/// What happened. Each has the time at which it was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was decided.
    pub at: TimeMs,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A campaign was made or has another plan.
    Put {
        /// Its number.
        number: u32,
        /// Its id.
        id: Box<str>,
        /// The plan.
        plan: Box<Plan>,
        /// Who has put it; empty in records of before.
        by: Box<str>,
        /// It has another zone than before, and what was spent today stands in several days of that one.
        merged: Option<MergedDays>,
    },
    /// A campaign has ended.
    Ended {
        /// Its number.
        number: u32,
        /// Who has ended it, likewise.
        by: Box<str>,
    },
    /// Ended campaigns were forgotten.
    Forgotten {
        /// Their numbers.
        campaigns: Vec<u32>,
        /// Their versions are remembered: in records of before they are not.
        is_noted: bool,
    },
    /// Money was leased; the ids of the leases count on from `first`.
    Opened {
        /// The first one's counter.
        first: u64,
        /// In their order. What was wanted at least is not written.
        leases: Vec<Opened>,
    },
    /// Bids have won.
    Won {
        /// Those that count.
        wins: Vec<WonBid>,
    },
    /// Bids were lost.
    Lost {
        /// Those that count.
        bids: Vec<LostBid>,
    },
    /// Nothing more is bid.
    Retired {
        /// On these, by their ids.
        leases: Vec<RetiredLease>,
    },
    /// No further win counts.
    Closed {
        /// Of these.
        leases: Vec<LeaseId>,
    },
    /// The ledger has what was spent.
    Settled {
        /// Of these.
        leases: Vec<LeaseId>,
    },
    /// The ledger has paid for leases of a campaign of which there is no other record.
    Regained(Regained),
    /// A process begins that will open leases.
    Began,
    /// The ledger has paid more than the wins of closed leases have cost.
    Corrected {
        /// Of these, by their ids.
        leases: Vec<PaidLease>,
    },
}

/// Days of the zone of before that count as one of the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergedDays {
    /// Days since 1970: the first one.
    pub first: i32,
    /// The last one.
    pub last: i32,
    /// As which they count.
    pub day: i32,
}

/// A lease that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Of this campaign.
    pub campaign: u32,
    /// What is leased.
    pub amount: BudgetMicros,
    /// The day for whose cap it counts.
    pub day: i32,
    /// When it is bid with. Records of before do not say it.
    pub life: Option<Life>,
}

/// A win that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WonBid {
    /// Of this lease.
    pub lease: LeaseId,
    /// Which bid.
    pub number: u32,
    /// What it costs.
    pub price: PriceMicros,
    /// What was bid above that.
    pub returned: PriceMicros,
}

/// A loss that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostBid {
    /// Of this lease.
    pub lease: LeaseId,
    /// Which bid.
    pub number: u32,
    /// What was bid.
    pub price: PriceMicros,
}

/// A lease on which nothing more is bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetiredLease {
    /// The lease.
    pub lease: LeaseId,
    /// What of it was never bid.
    pub left: BudgetMicros,
}

/// What the ledger has paid for leases of a campaign that a lost part of the log had opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regained {
    /// The number of the campaign.
    pub campaign: u32,
    /// The newest payment out of its account: all before it count.
    pub mark: Mark,
    /// What was paid of those leases, by the days for whose caps they count.
    pub days: Vec<PaidOnDay>,
}

/// Names a payment: of which lease, and when that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The lease.
    pub lease: LeaseId,
    /// When it was opened.
    pub opened: TimeMs,
}

/// What was paid of leases of one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaidOnDay {
    /// Days since 1970 in the campaign's zone.
    pub day: i32,
    /// So much.
    pub paid: BudgetMicros,
}

/// What the ledger has paid of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaidLease {
    /// The lease.
    pub lease: LeaseId,
    /// So much in all.
    pub paid: BudgetMicros,
}

impl WonBid {
    /// Of a win; `None` if it costs more than was bid.
    pub fn of(win: &Win) -> Option<WonBid> {
        let Win { bid: Bid { lease, number, price: bid, .. }, price, .. } = *win;
        let returned = PriceMicros(bid.0.checked_sub(price.0)?);
        Some(WonBid { lease, number, price, returned })
    }

    /// What was bid.
    pub fn reserved(&self) -> BudgetMicros {
        BudgetMicros::from(self.price) + self.returned.into()
    }
}

impl From<&Bid> for LostBid {
    fn from(bid: &Bid) -> LostBid {
        LostBid { lease: bid.lease, number: bid.number, price: bid.price }
    }
}

impl Opened {
    /// So much of what was wanted.
    pub fn of(wanted: &LeaseWanted, amount: BudgetMicros) -> Opened {
        Opened { campaign: wanted.campaign, amount, day: wanted.day, life: Some(wanted.life) }
    }
}

const PUT: u8 = 1;
const ENDED: u8 = 2;
const FORGOTTEN: u8 = 3;
const OPENED: u8 = 4;
const WON: u8 = 5;
const CLOSED: u8 = 6;
const SETTLED: u8 = 7;
const LOST: u8 = 8;
const RETIRED: u8 = 9;
const REGAINED: u8 = 10;
const CORRECTED: u8 = 11;
const BEGAN: u8 = 12;
/// As `FORGOTTEN`, and what is left of them is noted.
const NOTED: u8 = 13;

impl Event {
    /// Appends its bytes.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let mut begin = |kind: u8| {
            into.push(kind);
            put_number(into, self.at.0);
        };
        match &self.what {
            What::Put { number, id, plan, by, merged } => {
                begin(PUT);
                put_number(into, (*number).into());
                put_bytes(into, id.as_bytes());
                put_bytes(into, &form::write(plan));
                match merged {
                    None => put_name(into, by),
                    // Something stands behind it.
                    Some(_) => put_bytes(into, by.as_bytes()),
                }
                if let Some(MergedDays { first, last, day }) = merged {
                    [first, last, day].into_iter().for_each(|number| put_number(into, zigzag(*number)));
                }
            }
            What::Ended { number, by } => {
                begin(ENDED);
                put_number(into, (*number).into());
                put_name(into, by);
            }
            What::Forgotten { campaigns, is_noted } => {
                begin(if *is_noted { NOTED } else { FORGOTTEN });
                put_number(into, campaigns.len() as u64);
                campaigns.iter().for_each(|number| put_number(into, (*number).into()));
            }
            What::Opened { first, leases } => {
                begin(OPENED);
                put_number(into, *first);
                put_number(into, leases.len() as u64);
                for Opened { campaign, amount, day, .. } in leases {
                    put_number(into, (*campaign).into());
                    put_number(into, amount.0);
                    put_number(into, zigzag(*day));
                }
                leases.iter().filter_map(|opened| opened.life).for_each(|life| put_life(into, life));
            }
            What::Won { wins } => {
                begin(WON);
                put_number(into, wins.len() as u64);
                for WonBid { lease, number, price, returned } in wins {
                    let numbers = [lease.0, (*number).into(), price.0.into(), returned.0.into()];
                    numbers.into_iter().for_each(|number| put_number(into, number));
                }
            }
            What::Lost { bids } => {
                begin(LOST);
                put_number(into, bids.len() as u64);
                for LostBid { lease, number, price } in bids {
                    let numbers = [lease.0, (*number).into(), price.0.into()];
                    numbers.into_iter().for_each(|number| put_number(into, number));
                }
            }
            What::Retired { leases } => {
                begin(RETIRED);
                put_number(into, leases.len() as u64);
                for RetiredLease { lease, left } in leases {
                    put_number(into, lease.0);
                    put_number(into, left.0);
                }
            }
            What::Closed { leases } => {
                begin(CLOSED);
                put_leases(into, leases);
            }
            What::Settled { leases } => {
                begin(SETTLED);
                put_leases(into, leases);
            }
            What::Began => begin(BEGAN),
            What::Regained(Regained { campaign, mark, days }) => {
                begin(REGAINED);
                put_number(into, (*campaign).into());
                put_mark(into, *mark);
                put_number(into, days.len() as u64);
                for PaidOnDay { day, paid } in days {
                    put_number(into, zigzag(*day));
                    put_number(into, paid.0);
                }
            }
            What::Corrected { leases } => {
                begin(CORRECTED);
                put_number(into, leases.len() as u64);
                for PaidLease { lease, paid } in leases {
                    put_number(into, lease.0);
                    put_number(into, paid.0);
                }
            }
        }
    }

    /// Reads exactly what [`encode`](Event::encode) writes.
    pub fn decode(bytes: &[u8]) -> Result<Event, Malformed> {
        let mut reader = Reader::new(bytes);
        let kind = reader.byte()?;
        let at = TimeMs(reader.number()?);
        let what = match kind {
            PUT => {
                let number = reader.small()?;
                let id = reader.text()?.into();
                let plan = Box::new(form::read(reader.bytes()?)?);
                let is_at_end = reader.is_at_end();
                let by: Box<str> = if is_at_end { "".into() } else { reader.text()?.into() };
                let merged = if reader.is_at_end() { None } else { Some(read_merged(&mut reader)?) };
                if by.is_empty() && merged.is_none() && !is_at_end {
                    return Err(Malformed);
                }
                What::Put { number, id, plan, by, merged }
            }
            ENDED => What::Ended { number: reader.small()?, by: reader.name()? },
            FORGOTTEN => What::Forgotten { campaigns: reader.many(Reader::small)?, is_noted: false },
            NOTED => What::Forgotten { campaigns: reader.many(Reader::small)?, is_noted: true },
            OPENED => {
                let first = reader.number()?;
                let mut leases = reader.many(|reader| {
                    let (campaign, amount) = (reader.small()?, BudgetMicros(reader.number()?));
                    Ok(Opened { campaign, amount, day: unzigzag(reader.small()?), life: None })
                })?;
                if !reader.is_at_end() {
                    for opened in &mut leases {
                        opened.life = Some(read_life(&mut reader)?);
                    }
                }
                What::Opened { first, leases }
            }
            WON => {
                let wins = reader.many(|reader| {
                    let (lease, number) = (LeaseId(reader.number()?), reader.small()?);
                    let (price, returned) = (PriceMicros(reader.small()?), PriceMicros(reader.small()?));
                    Ok(WonBid { lease, number, price, returned })
                })?;
                What::Won { wins }
            }
            LOST => {
                let bids = reader.many(|reader| {
                    let (lease, number) = (LeaseId(reader.number()?), reader.small()?);
                    Ok(LostBid { lease, number, price: PriceMicros(reader.small()?) })
                })?;
                What::Lost { bids }
            }
            RETIRED => {
                let leases = reader.many(|reader| {
                    let (lease, left) = (LeaseId(reader.number()?), BudgetMicros(reader.number()?));
                    Ok(RetiredLease { lease, left })
                })?;
                What::Retired { leases }
            }
            CLOSED => What::Closed { leases: reader.many(|reader| reader.number().map(LeaseId))? },
            SETTLED => What::Settled { leases: reader.many(|reader| reader.number().map(LeaseId))? },
            BEGAN => What::Began,
            REGAINED => {
                let (campaign, mark) = (reader.small()?, read_mark(&mut reader)?);
                let days = reader.many(|reader| {
                    Ok(PaidOnDay { day: unzigzag(reader.small()?), paid: BudgetMicros(reader.number()?) })
                })?;
                What::Regained(Regained { campaign, mark, days })
            }
            CORRECTED => {
                let leases = reader.many(|reader| {
                    let (lease, paid) = (LeaseId(reader.number()?), BudgetMicros(reader.number()?));
                    Ok(PaidLease { lease, paid })
                })?;
                What::Corrected { leases }
            }
            _ => return Err(Malformed),
        };
        reader.end()?;
        Ok(Event { at, what })
    }
}

fn read_merged(reader: &mut Reader<'_>) -> Result<MergedDays, Malformed> {
    let mut day = || reader.small().map(unzigzag);
    Ok(MergedDays { first: day()?, last: day()?, day: day()? })
}

fn put_leases(into: &mut Vec<u8>, leases: &[LeaseId]) {
    put_number(into, leases.len() as u64);
    leases.iter().for_each(|lease| put_number(into, lease.0));
}

/// A payment.
pub(super) fn put_mark(into: &mut Vec<u8>, mark: Mark) {
    put_number(into, mark.lease.0);
    put_number(into, mark.opened.0);
}

/// What [`put_mark`] has appended.
pub(super) fn read_mark(reader: &mut Reader<'_>) -> Result<Mark, Malformed> {
    Ok(Mark { lease: LeaseId(reader.number()?), opened: TimeMs(reader.number()?) })
}

/// When leases are bid with: the opening, and for how long.
pub(super) fn put_life(into: &mut Vec<u8>, life: Life) {
    put_number(into, life.opened.0);
    put_number(into, life.ms());
}

/// What [`put_life`] has appended.
pub(super) fn read_life(reader: &mut Reader<'_>) -> Result<Life, Malformed> {
    let (opened, ms) = (reader.number()?, reader.number()?);
    opened.checked_add(ms).map(|until| Life { opened: TimeMs(opened), until: TimeMs(until) }).ok_or(Malformed)
}

/// A signed number, so that small ones are short.
pub(super) fn zigzag(number: i32) -> u64 {
    u64::from((number << 1 ^ number >> 31) as u32)
}

pub(super) fn unzigzag(number: u32) -> i32 {
    (number >> 1) as i32 ^ -((number & 1) as i32)
}
