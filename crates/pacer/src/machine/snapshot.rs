//! The state as a snapshot. The bytes are described in `docs/formats/pacer.md`.

use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_shard::form::{self, Malformed};

use super::Campaigns;
use super::campaign::{Campaign, LastChange};
use super::codec::{Reader, put_bytes, put_number};
use super::days::{Day, Days};
use super::event::{put_life, put_mark, read_life, read_mark, unzigzag, zigzag};
use super::forgotten::{Forgotten, Last};
use super::lease::{Bids, Lease, LeaseId, LeaseStage, Life};
use super::openings::{Openings, Part};
use super::owners::Owners;
use super::summed::Summed;
use crate::units::{BudgetMicros, Impressions, Losses};

/// The first byte: which layout it is.
const LAYOUT: u8 = 6;
/// One of before: without the campaigns that are forgotten.
const WITHOUT_FORGOTTEN: u8 = 5;
/// The one before that: nothing says which leases were opened by one process, and campaigns have no marks.
const WITHOUT_OPENINGS: u8 = 4;
/// The one before that one: also, a lease has the time of its record, and does not say until when it is bid with; of a
/// campaign's days there is the last one.
const WITHOUT_LIVES: u8 = 3;
/// And the first of these: also without who has changed a campaign last.
const WITHOUT_NAMES: u8 = 2;

impl Campaigns {
    pub(super) fn write(&self, part: &mut dyn FnMut(&[u8])) {
        let mut bytes = vec![LAYOUT];
        let counts = [self.shard.0.into(), self.shards.into(), self.sequence, self.time.0, self.numbered.into()];
        counts.into_iter().for_each(|number| put_number(&mut bytes, number));
        write_openings(&self.openings, &mut bytes);
        put_number(&mut bytes, self.campaigns.len() as u64);
        for (number, campaign) in self.campaigns.iter() {
            put_number(&mut bytes, (*number).into());
            write_campaign(campaign, &mut bytes);
            part(&bytes);
            bytes.clear();
        }
        put_number(&mut bytes, self.leases.len() as u64);
        for (id, lease) in self.leases.iter() {
            put_number(&mut bytes, id.counter());
            write_lease(lease, &mut bytes);
            part(&bytes);
            bytes.clear();
        }
        put_number(&mut bytes, self.forgotten.iter().len() as u64);
        for (id, Last { number, version }) in self.forgotten.iter() {
            put_bytes(&mut bytes, id.as_bytes());
            [number.into(), version].into_iter().for_each(|number| put_number(&mut bytes, number));
        }
        part(&bytes);
    }

    pub(super) fn read(body: &[u8]) -> Result<Campaigns, Malformed> {
        let mut reader = Reader::new(body);
        let layout = reader.byte()?;
        if !(WITHOUT_NAMES..=LAYOUT).contains(&layout) {
            return Err(Malformed);
        }
        let shard = ShardIndex(reader.number()?.try_into().map_err(|_| Malformed)?);
        let shards = reader.number()?.try_into().map_err(|_| Malformed)?;
        let (sequence, time) = (reader.number()?, TimeMs(reader.number()?));
        let numbered = reader.small()?;
        let openings = match layout {
            ..=WITHOUT_OPENINGS => Err(reader.number()?),
            _ => Ok(read_openings(&mut reader)?),
        };
        let opened = openings.as_ref().map_or_else(|opened| *opened, Openings::opened);
        let campaigns = reader.many(|reader| Ok((reader.small()?, read_campaign(reader, layout)?)))?;
        if opened >= (1 << 48) - 1 {
            return Err(Malformed);
        }
        let leases = reader.many(|reader| {
            let counter = reader.number()?;
            if counter > opened {
                return Err(Malformed);
            }
            Ok((LeaseId::new(shard, counter), read_lease(reader, layout)?))
        })?;
        let forgotten = match layout {
            ..=WITHOUT_FORGOTTEN => Vec::new(),
            _ => reader.many(|reader| {
                let id = reader.text()?.into();
                Ok((id, Last { number: reader.small()?, version: reader.number()? }))
            })?,
        };
        reader.end()?;
        let forgotten = Forgotten::of(forgotten).ok_or(Malformed)?;
        if !is_ascending(&campaigns) || !is_ascending(&leases) {
            return Err(Malformed);
        }
        let newest = leases.iter().map(|(_, lease): &(LeaseId, Lease)| lease.life.opened).max();
        let openings = openings.unwrap_or_else(|opened| Openings::of_one(opened, time.max(newest.unwrap_or_default())));
        let mut campaigns: Summed = campaigns.into_iter().collect();
        for (_, lease) in &leases {
            let mut campaign = campaigns.get_mut(lease.campaign).ok_or(Malformed)?;
            let sum = campaign.unreleased.0.checked_add(lease.unreleased().0).ok_or(Malformed)?;
            campaign.unreleased = BudgetMicros(sum);
            if layout <= WITHOUT_LIVES {
                campaign.days.remember(lease.exposed(), lease.day);
            }
        }
        let ids = campaigns.iter().map(|(number, campaign)| (campaign.id.clone(), *number)).collect();
        let known =
            leases.iter().filter(|(_, lease): &&(LeaseId, Lease)| lease.is_known()).map(|(id, _)| *id).collect();
        let changes = campaigns.iter().map(|(number, campaign)| (campaign.changed, *number)).collect();
        let owners = Owners::of(&campaigns);
        Ok(Campaigns {
            shard,
            shards,
            sequence,
            time,
            campaigns,
            ids,
            changes,
            owners,
            forgotten,
            numbered,
            leases: leases.into_iter().collect(),
            known,
            openings,
        })
    }
}

fn is_ascending<K: Ord, V>(all: &[(K, V)]) -> bool {
    all.windows(2).all(|pair| pair[0].0 < pair[1].0)
}

fn write_campaign(campaign: &Campaign, into: &mut Vec<u8>) {
    put_bytes(into, campaign.id.as_bytes());
    put_bytes(into, &form::write(&campaign.plan));
    put_number(into, campaign.changed);
    put_bytes(into, campaign.last_change.by.as_bytes());
    put_number(into, campaign.last_change.at.0);
    into.push(campaign.is_ended.into());
    let numbers = [
        campaign.leases.into(),
        campaign.spent.0,
        campaign.exposed.0,
        campaign.impressions.0,
        campaign.losses.0,
        zigzag(campaign.days.last().number),
        campaign.days.known().len() as u64,
    ];
    numbers.into_iter().for_each(|number| put_number(into, number));
    for Day { number, spent, exposed } in campaign.days.known() {
        [zigzag(*number), spent.0, exposed.0].into_iter().for_each(|number| put_number(into, number));
    }
    into.push(campaign.mark.is_some().into());
    campaign.mark.iter().for_each(|mark| put_mark(into, *mark));
}

fn write_openings(openings: &Openings, into: &mut Vec<u8>) {
    into.push(openings.is_begun().into());
    put_number(into, openings.parts().len() as u64);
    for Part { first, last, began, ended } in openings.parts() {
        [*first, *last, began.0, ended.0].into_iter().for_each(|number| put_number(into, number));
    }
}

fn read_openings(reader: &mut Reader<'_>) -> Result<Openings, Malformed> {
    let is_begun = reader.is()?;
    let parts = reader.many(|reader| {
        let (first, last) = (reader.number()?, reader.number()?);
        Ok(Part { first, last, began: TimeMs(reader.number()?), ended: TimeMs(reader.number()?) })
    })?;
    Openings::of(parts, is_begun).ok_or(Malformed)
}

fn read_campaign(reader: &mut Reader<'_>, layout: u8) -> Result<Campaign, Malformed> {
    Ok(Campaign {
        id: reader.text()?.into(),
        plan: form::read(reader.bytes()?)?,
        changed: reader.number()?,
        last_change: match layout {
            WITHOUT_NAMES => LastChange::default(),
            _ => LastChange { by: reader.text()?.into(), at: TimeMs(reader.number()?) },
        },
        is_ended: reader.is()?,
        leases: reader.small()?,
        spent: BudgetMicros(reader.number()?),
        exposed: BudgetMicros(reader.number()?),
        // It follows from the leases.
        unreleased: BudgetMicros::ZERO,
        impressions: Impressions(reader.number()?),
        losses: Losses(reader.number()?),
        days: match layout {
            WITHOUT_NAMES | WITHOUT_LIVES => Days::of_last(read_day(reader)?),
            _ => {
                let last = unzigzag(reader.small()?);
                Days::of(reader.many(read_day)?, last).ok_or(Malformed)?
            }
        },
        mark: match layout {
            WITHOUT_NAMES..=WITHOUT_OPENINGS => None,
            _ => {
                if reader.is()? {
                    Some(read_mark(reader)?)
                } else {
                    None
                }
            }
        },
    })
}

fn read_day(reader: &mut Reader<'_>) -> Result<Day, Malformed> {
    let number = unzigzag(reader.small()?);
    Ok(Day { number, spent: BudgetMicros(reader.number()?), exposed: BudgetMicros(reader.number()?) })
}

fn write_lease(lease: &Lease, into: &mut Vec<u8>) {
    let Lease { campaign, amount, day, life, stage, spent, returned, won, lost } = lease;
    [u64::from(*campaign), amount.0, zigzag(*day)].into_iter().for_each(|number| put_number(into, number));
    put_life(into, *life);
    [spent.0, returned.0].into_iter().for_each(|number| put_number(into, number));
    into.push(match stage {
        LeaseStage::Open => 0,
        LeaseStage::Retired => 1,
        LeaseStage::Closed => 2,
    });
    for bids in [won, lost] {
        put_number(into, bids.words().len() as u64);
        bids.words().iter().for_each(|word| put_number(into, *word));
    }
}

fn read_lease(reader: &mut Reader<'_>, layout: u8) -> Result<Lease, Malformed> {
    let (campaign, amount, day) = (reader.small()?, BudgetMicros(reader.number()?), unzigzag(reader.small()?));
    let life = match layout {
        WITHOUT_NAMES | WITHOUT_LIVES => Life::unsaid(TimeMs(reader.number()?)),
        _ => read_life(reader)?,
    };
    let (spent, returned) = (BudgetMicros(reader.number()?), BudgetMicros(reader.number()?));
    if spent.0.checked_add(returned.0).is_none_or(|sum| sum > amount.0) {
        return Err(Malformed);
    }
    let stage = match reader.byte()? {
        0 => LeaseStage::Open,
        1 => LeaseStage::Retired,
        2 => LeaseStage::Closed,
        _ => return Err(Malformed),
    };
    let mut bids = || Bids::from_words(reader.many(Reader::number)?).ok_or(Malformed);
    let (won, lost) = (bids()?, bids()?);
    Ok(Lease { campaign, amount, day, life, stage, spent, returned, won, lost })
}
