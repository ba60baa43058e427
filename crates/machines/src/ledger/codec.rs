//! Encodes and decodes events. The byte diagrams are in `docs/formats/events.md`.
//!
//! One encoding per event: decoding accepts exactly what encoding produces, so decoded bytes encode to themselves
//! again, and anything else is an error.

mod fields;

use super::event::{CreditStep, Event};
use super::limits::{ACCOUNT_ID_BYTES_MAX, ASSET_BYTES_MAX, EVENT_BYTES_MAX, TIME_MS_MAX, WHOLE_ID_BYTES_MAX};
use super::loss::LossSide;
use super::settings::{MetadataPatch, get_rules, put_rules};
use crate::TimeMs;
use crate::encoding::{Malformed, Parsed, Reader, put_bytes, put_text, put_varint};
use fields::{
    allow_flags, get_account, get_amount, get_credit, get_hold, get_id, get_label, get_memo, get_refusal, get_slot,
    get_step, get_time, label_flag, memo_flag, outbound_flag, put_account, put_credit, put_head, put_hold, put_label,
    put_link, put_memo, put_refusal, put_step, put_time,
};

pub(super) use fields::{get_account_kind, get_decimals};

/// A record that is not an event of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an event of the ledger: malformed {part}")]
pub struct EventError {
    /// Which part of it.
    pub part: &'static str,
}

impl From<Malformed> for EventError {
    fn from(malformed: Malformed) -> Self {
        EventError { part: malformed.what }
    }
}

const KIND_MASK: u8 = 0x1f;
/// The event carries a memo.
const MEMO: u8 = 0x20;
/// The credit goes to another shard.
const OUTBOUND: u8 = 0x40;
/// The transfer or hold carries a label.
const LABEL: u8 = 0x80;
/// The received credit is that of a posted hold.
const POSTED: u8 = 0x80;
/// The received credit carries a label. A credit that was received is not outbound.
const RECEIVED_LABEL: u8 = 0x40;

const ACCOUNT_OPENED: u8 = 1;
const ACCOUNT_ADOPTED: u8 = 2;
const TRANSFERRED: u8 = 3;
const HOLD_PLACED: u8 = 4;
const HOLD_POSTED: u8 = 5;
const HOLD_VOIDED: u8 = 6;
const HOLD_EXPIRED: u8 = 7;
const REFUSED: u8 = 8;
const ID_CLAIMED: u8 = 9;
const CREDIT_RECEIVED: u8 = 10;
const CREDITS_CONFIRMED: u8 = 11;
const ACCOUNT_CHANGED: u8 = 12;
const TIME_MENDED: u8 = 13;
const LOSS_BOOKED: u8 = 14;
const ASSET_DECLARED: u8 = 15;

const _: () = assert!(ASSET_DECLARED <= KIND_MASK && KIND_MASK ^ MEMO ^ OUTBOUND ^ POSTED == u8::MAX);
const _: () = assert!(LABEL == POSTED && RECEIVED_LABEL == OUTBOUND);
// The time of an event is six bytes after its tag.
const _: () = assert!(TIME_MS_MAX >> 48 == 0);

impl<'a> Event<'a> {
    /// Appends the event's bytes to `out`: at most [`EVENT_BYTES_MAX`].
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(EVENT_BYTES_MAX);
        let start = out.len();
        match *self {
            Event::Transferred { time, id, debit, credit, amount, memo, label } => {
                debug_assert!(!id.is_empty() && id.len() <= WHOLE_ID_BYTES_MAX, "an id of {} bytes", id.len());
                let flags = memo_flag(memo) | outbound_flag(credit) | label_flag(label, LABEL);
                put_head(out, TRANSFERRED | flags, time);
                put_text(out, id);
                put_step(out, debit);
                put_credit(out, credit);
                put_varint(out, amount.get());
                put_memo(out, memo);
                put_label(out, label);
            }
            ref other => other.encode_other(out),
        }
        assert!(out.len() - start <= EVENT_BYTES_MAX, "an event of {} bytes", out.len() - start);
    }

    fn encode_other(&self, out: &mut Vec<u8>) {
        match *self {
            Event::AccountOpened { time, slot, id, asset, kind } => {
                put_head(out, ACCOUNT_OPENED, time);
                put_account(out, slot, id, asset, kind);
            }
            Event::AccountAdopted { time, slot, id, asset, kind, home } => {
                put_head(out, ACCOUNT_ADOPTED, time);
                put_account(out, slot, id, asset, kind);
                put_varint(out, home.0.into());
            }
            Event::HoldPlaced { time, hold, debit } => put_hold(out, HOLD_PLACED, time, &hold, debit),
            Event::HoldVoided { time, hold, debit } => put_hold(out, HOLD_VOIDED, time, &hold, debit),
            Event::HoldExpired { time, hold, debit } => put_hold(out, HOLD_EXPIRED, time, &hold, debit),
            Event::HoldPosted { time, hold, posted, debit, credit } => {
                put_hold(out, HOLD_POSTED | outbound_flag(credit), time, &hold, debit);
                put_varint(out, posted.get());
                // The slot is the hold's.
                match credit {
                    CreditStep::Here(step) => put_link(out, step),
                    CreditStep::Outbound { number, .. } => put_varint(out, number.0),
                }
            }
            Event::Refused { time, id, digest, refusal } => {
                put_head(out, REFUSED, time);
                put_text(out, id);
                out.extend_from_slice(&digest);
                put_refusal(out, refusal);
            }
            Event::IdClaimed { time, id, owner, digest } => {
                put_head(out, ID_CLAIMED, time);
                put_text(out, id);
                out.extend_from_slice(&digest);
                put_varint(out, owner.0.into());
            }
            Event::CreditReceived {
                time,
                from,
                number,
                posted,
                id,
                debit,
                credit,
                amount,
                memo,
                label,
                debit_position,
                decided_at,
            } => {
                let posted = if posted { POSTED } else { 0 };
                put_head(out, CREDIT_RECEIVED | memo_flag(memo) | posted | label_flag(label, RECEIVED_LABEL), time);
                put_text(out, id);
                put_varint(out, from.0.into());
                put_varint(out, number.0);
                put_time(out, decided_at);
                put_varint(out, debit_position.0);
                put_text(out, debit);
                put_step(out, credit);
                put_varint(out, amount.get());
                put_memo(out, memo);
                put_label(out, label);
            }
            Event::CreditsConfirmed { time, to, number } => {
                put_head(out, CREDITS_CONFIRMED, time);
                put_varint(out, to.0.into());
                put_varint(out, number.0);
            }
            Event::AccountChanged { time, slot, id, home, revision, rules, metadata } => {
                put_head(out, ACCOUNT_CHANGED, time);
                put_varint(out, slot.0.into());
                put_text(out, id);
                put_varint(out, home.0.into());
                put_varint(out, revision);
                put_rules(out, &rules);
                put_bytes(out, metadata.bytes());
            }
            Event::AssetDeclared { time, asset, decimals } => {
                put_head(out, ASSET_DECLARED, time);
                put_text(out, asset);
                out.push(decimals);
            }
            Event::TimeMended { time, was, memo } => {
                put_head(out, TIME_MENDED | memo_flag(memo), time);
                put_time(out, was);
                put_memo(out, memo);
            }
            Event::LossBooked { time, peer, side, number, account, amount } => {
                put_head(out, LOSS_BOOKED, time);
                put_varint(out, peer.0.into());
                out.push(if side == LossSide::Sent { 1 } else { 2 });
                put_varint(out, number.0);
                put_step(out, account);
                put_varint(out, amount.get());
            }
            Event::Transferred { .. } => unreachable!("encoded by its own arm"),
        }
    }

    /// Reads one event from exactly these bytes. Takes time in proportion to them, allocates nothing, never panics.
    pub fn decode(bytes: &'a [u8]) -> Result<Event<'a>, EventError> {
        let mut reader = Reader::new(bytes);
        let tag = reader.byte("kind")?;
        let time = get_time(&mut reader)?;
        let event = match tag & KIND_MASK {
            TRANSFERRED => get_transferred(&mut reader, tag, time)?,
            kind => get_other(&mut reader, tag, kind, time)?,
        };
        reader.end("end")?;
        Ok(event)
    }
}

#[inline]
fn get_transferred<'a>(reader: &mut Reader<'a>, tag: u8, time: TimeMs) -> Parsed<Event<'a>> {
    allow_flags(tag, MEMO | OUTBOUND | LABEL)?;
    let id = get_id(reader)?;
    let debit = get_step(reader)?;
    let slot = get_slot(reader)?;
    let credit = get_credit(reader, tag, slot)?;
    let amount = get_amount(reader)?;
    let memo = get_memo(reader, tag)?;
    let label = get_label(reader, tag & LABEL != 0)?;
    Ok(Event::Transferred { time, id, debit, credit, amount, memo, label })
}

fn get_other<'a>(reader: &mut Reader<'a>, tag: u8, kind: u8, time: TimeMs) -> Parsed<Event<'a>> {
    let flags = match kind {
        HOLD_PLACED | HOLD_VOIDED | HOLD_EXPIRED => MEMO | LABEL,
        HOLD_POSTED => MEMO | OUTBOUND | LABEL,
        CREDIT_RECEIVED => MEMO | POSTED | RECEIVED_LABEL,
        TIME_MENDED => MEMO,
        _ => 0,
    };
    allow_flags(tag, flags)?;
    Ok(match kind {
        ACCOUNT_OPENED => {
            let (slot, id, asset, kind) = get_account(reader)?;
            Event::AccountOpened { time, slot, id, asset, kind }
        }
        ACCOUNT_ADOPTED => {
            let (slot, id, asset, kind) = get_account(reader)?;
            Event::AccountAdopted { time, slot, id, asset, kind, home: reader.shard("home")? }
        }
        HOLD_PLACED => {
            let (hold, debit) = get_hold(reader, tag)?;
            Event::HoldPlaced { time, hold, debit }
        }
        HOLD_VOIDED => {
            let (hold, debit) = get_hold(reader, tag)?;
            Event::HoldVoided { time, hold, debit }
        }
        HOLD_EXPIRED => {
            let (hold, debit) = get_hold(reader, tag)?;
            Event::HoldExpired { time, hold, debit }
        }
        HOLD_POSTED => {
            let (hold, debit) = get_hold(reader, tag)?;
            let posted = get_amount(reader)?;
            let credit = get_credit(reader, tag, hold.credit)?;
            Event::HoldPosted { time, hold, posted, debit, credit }
        }
        REFUSED => {
            let (id, digest) = (get_id(reader)?, reader.array("digest")?);
            Event::Refused { time, id, digest, refusal: get_refusal(reader)? }
        }
        ID_CLAIMED => {
            let (id, digest) = (get_id(reader)?, reader.array("digest")?);
            Event::IdClaimed { time, id, owner: reader.shard("owner")?, digest }
        }
        CREDIT_RECEIVED => Event::CreditReceived {
            time,
            id: get_id(reader)?,
            from: reader.shard("sender")?,
            number: reader.number("number")?,
            posted: tag & POSTED != 0,
            decided_at: get_time(reader)?,
            debit_position: reader.position("debit position")?,
            debit: reader.text(1, ACCOUNT_ID_BYTES_MAX, "debit account")?,
            credit: get_step(reader)?,
            amount: get_amount(reader)?,
            memo: get_memo(reader, tag)?,
            label: get_label(reader, tag & RECEIVED_LABEL != 0)?,
        },
        CREDITS_CONFIRMED => {
            Event::CreditsConfirmed { time, to: reader.shard("receiver")?, number: reader.number("number")? }
        }
        ACCOUNT_CHANGED => Event::AccountChanged {
            time,
            slot: get_slot(reader)?,
            id: reader.text(1, ACCOUNT_ID_BYTES_MAX, "account id")?,
            home: reader.shard("home")?,
            revision: reader.varint("revision")?,
            rules: get_rules(reader)?,
            metadata: MetadataPatch::read(reader.bytes("metadata")?)?,
        },
        ASSET_DECLARED => Event::AssetDeclared {
            time,
            asset: reader.text(1, ASSET_BYTES_MAX, "asset")?,
            decimals: get_decimals(reader)?,
        },
        TIME_MENDED => Event::TimeMended { time, was: get_time(reader)?, memo: get_memo(reader, tag)? },
        LOSS_BOOKED => Event::LossBooked {
            time,
            peer: reader.shard("other shard")?,
            side: match reader.byte("side")? {
                1 => LossSide::Sent,
                2 => LossSide::Received,
                _ => return Err(Malformed { what: "side" }),
            },
            number: reader.number("number")?,
            account: get_step(reader)?,
            amount: get_amount(reader)?,
        },
        _ => return Err(Malformed { what: "kind" }),
    })
}
