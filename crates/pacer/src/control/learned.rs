//! What was learned of a campaign from its days, in a form that outlives the process.
//!
//! ```text
//!   Control ── learned ──▶ file DATA/pacer-learned ── read at the next start ──▶ Control::relearn
//! ```
//!
//! No money depends on it. Without it a strategy that follows the day's traffic would begin each time with a flat day,
//! one with feedback with no memory, and the page with an empty curve.

use tidegate_machines::TimeMs;
use tidegate_shard::form::Malformed;

use super::Control;
use super::curve::{DayCurve, Point, SLOTS};
use super::pace::DayProfile;
use super::tracked::Tracked;
use crate::frame::{self, HEAD_BYTES, Payloads};
use crate::machine::codec::{Reader, put_float, put_number};
use crate::strategy::{Horizon, Memory, QUARTERS};
use crate::units::BudgetMicros;

const LAYOUT: u8 = 1;
/// What a file of it begins with.
pub const HEAD: [u8; HEAD_BYTES] = frame::head(*b"tgpaclrn", LAYOUT);

/// What was learned of one campaign.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// The campaign.
    pub number: u32,
    /// The version of the plan by which its strategy decided last.
    pub version: u64,
    /// What its strategy remembers.
    pub memory: Memory,
    /// How its requests are spread over the day.
    pub profile: Profile,
    /// Its day so far.
    pub curve: Option<DayCurve>,
}

/// How requests are spread over the day, as far as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// What each quarter of an hour has, in proportion.
    pub weights: [f64; QUARTERS],
    /// The quarter that is under way, and its requests so far.
    pub now: Option<(usize, f64)>,
}

impl Learned {
    /// Appends it to the bytes of a file.
    pub fn append(&self, file: &mut Vec<u8>) {
        frame::append(file, 0, |into| self.encode(into));
    }

    /// Appends the payload.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let Learned { number, version, memory, profile: Profile { weights, now }, curve } = self;
        put_number(into, u64::from(*number));
        put_number(into, *version);
        memory.0.iter().for_each(|number| put_float(into, *number));
        weights.iter().for_each(|weight| put_float(into, *weight));
        put_number(into, now.map_or(0, |(quarter, _)| quarter as u64 + 1));
        if let Some((_, requests)) = now {
            put_float(into, *requests);
        }
        let span = curve.as_ref().map_or(Horizon { begins: TimeMs(0), ends: TimeMs(0) }, |curve| curve.span);
        put_number(into, span.begins.0);
        put_number(into, span.ends.0);
        let points = curve.iter().flat_map(|curve| curve.points().iter().enumerate());
        let points: Vec<_> = points.filter_map(|(slot, point)| Some((slot, (*point)?))).collect();
        put_number(into, points.len() as u64);
        for (slot, Point { spent, planned, share }) in points {
            put_number(into, slot as u64);
            put_number(into, spent.0);
            into.push(planned.is_some().into());
            put_number(into, planned.map_or(0, |planned| planned.0));
            put_float(into, share.into());
        }
    }

    /// Reads exactly what [`encode`](Learned::encode) writes.
    pub fn decode(payload: &[u8]) -> Result<Learned, Malformed> {
        let mut reader = Reader::new(payload);
        let (number, version) = (reader.small()?, reader.number()?);
        let memory = reader.memory()?;
        let mut weights = [0.0; QUARTERS];
        for weight in &mut weights {
            *weight = reader.float()?;
        }
        let now = match reader.number()? {
            0 => None,
            quarter if quarter <= QUARTERS as u64 => Some((quarter as usize - 1, reader.float()?)),
            _ => return Err(Malformed),
        };
        let curve = read_curve(&mut reader)?;
        reader.end()?;
        Ok(Learned { number, version, memory, profile: Profile { weights, now }, curve })
    }
}

fn read_curve(reader: &mut Reader<'_>) -> Result<Option<DayCurve>, Malformed> {
    let span = Horizon { begins: TimeMs(reader.number()?), ends: TimeMs(reader.number()?) };
    let count = reader.number()?;
    if span.begins >= span.ends {
        let is_none = (span.begins, span.ends, count) == (TimeMs(0), TimeMs(0), 0);
        return if is_none { Ok(None) } else { Err(Malformed) };
    }
    let mut curve = DayCurve::new(span);
    let mut least = 0;
    for _ in 0..count {
        let slot = reader.number()? as usize;
        if slot < least || slot > SLOTS {
            return Err(Malformed);
        }
        least = slot + 1;
        let spent = BudgetMicros(reader.number()?);
        let planned = match (reader.is()?, reader.number()?) {
            (true, planned) => Some(BudgetMicros(planned)),
            (false, 0) => None,
            (false, _) => return Err(Malformed),
        };
        let share = reader.float()?;
        if f64::from(share as f32) != share {
            return Err(Malformed);
        }
        curve.put(slot, Point { spent, planned, share: share as f32 });
    }
    Ok(Some(curve))
}

/// What a file says, of campaigns one after the other, and how many bytes behind that are torn or damaged; `None` if it
/// is no such file.
pub fn read_learned(file: &[u8]) -> Option<(Vec<Learned>, usize)> {
    let mut payloads = Payloads::of(file, &HEAD)?;
    let learned = std::iter::from_fn(|| payloads.next(Learned::decode)).collect();
    Some((learned, payloads.unread_bytes()))
}

impl Control {
    /// What was learned of at most `limit` campaigns, from this number on, and the number of the next one behind them.
    pub fn learned(&self, from: u32, limit: usize) -> (Vec<Learned>, Option<u32>) {
        let mut campaigns = self.campaigns.from(from);
        let learned = campaigns.by_ref().take(limit).filter_map(|(_, tracked)| tracked.learned()).collect();
        (learned, campaigns.next().map(|(number, _)| *number))
    }

    /// An earlier process has learned it. Of a campaign that is not known any more it is of no use.
    pub fn relearn(&mut self, learned: Learned) {
        if let Some(tracked) = self.campaigns.get_mut(&learned.number) {
            tracked.relearn(learned);
        }
    }
}

impl Tracked {
    fn learned(&self) -> Option<Learned> {
        let (version, profile) = (self.view.plan.version, self.profile.learned());
        // Nobody has asked for it.
        if profile.now.is_none() && self.curve.is_none() {
            return None;
        }
        let curve = self.curve.as_deref().cloned();
        Some(Learned { number: self.view.number, version, memory: self.memory, profile, curve })
    }

    fn relearn(&mut self, learned: Learned) {
        let Learned { version, memory, profile, curve, .. } = learned;
        if self.view.plan.version == version {
            self.memory = memory;
        }
        *self.profile = DayProfile::of(profile);
        self.curve = curve.map(Into::into);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn curve() -> impl Strategy<Value = Option<DayCurve>> {
        let point = (0..=SLOTS, any::<u64>(), any::<Option<u64>>(), 0.0..=1.0_f32);
        let points = prop::collection::vec(point, 0..30);
        prop::option::of((0..1_u64 << 42, 1..1_u64 << 30, points).prop_map(|(begins, length, points)| {
            let mut curve = DayCurve::new(Horizon { begins: TimeMs(begins), ends: TimeMs(begins + length) });
            for (slot, spent, planned, share) in points {
                curve.put(slot, Point { spent: BudgetMicros(spent), planned: planned.map(BudgetMicros), share });
            }
            curve
        }))
    }

    fn learned() -> impl Strategy<Value = Learned> {
        let weights = prop::array::uniform32(0.0..1e12);
        let now = prop::option::of((0..QUARTERS, 0.0..1e12));
        (any::<u32>(), any::<u64>(), prop::array::uniform4(-1e9..1e9), weights, now, curve()).prop_map(
            |(number, version, memory, some, now, curve)| {
                let weights = std::array::from_fn(|quarter| some[quarter % some.len()]);
                Learned { number, version, memory: Memory(memory), profile: Profile { weights, now }, curve }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_damage_ends_the_file(
            all in prop::collection::vec(learned(), 0..4),
            at in any::<prop::sample::Index>(),
            bit in 0..8,
        ) {
            let mut file = HEAD.to_vec();
            all.iter().for_each(|learned| learned.append(&mut file));
            prop_assert_eq!(read_learned(&file), Some((all.clone(), 0)));
            let place = at.index(file.len());
            let (torn, _) = read_learned(&file[..place]).expect("torn, and a file");
            prop_assert!(all.starts_with(&torn));
            file[place] ^= 1_u8 << bit;
            let damaged = read_learned(&file);
            prop_assert_eq!(damaged.is_none(), place < HEAD_BYTES);
            if let Some((damaged, unread_bytes)) = damaged {
                prop_assert!(all.starts_with(&damaged) && damaged.len() < all.len());
                prop_assert!(unread_bytes > 0);
            }
        }
    }
}
