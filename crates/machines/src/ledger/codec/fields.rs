//! The fields that records of several kinds have, one pair of functions each: how it is written, how it is read.
//!
//! Reading accepts exactly what writing produces.

use super::{KIND_MASK, LABEL, MEMO, OUTBOUND};
use crate::encoding::{Malformed, Parsed, Reader, put_text, put_varint, put_zigzag, require};
use crate::ledger::account::AccountSlot;
use crate::ledger::event::{AccountStep, CreditStep, HoldFacts};
use crate::ledger::limits::{
    ACCOUNT_ID_BYTES_MAX, ASSET_BYTES_MAX, ASSET_DECIMALS_MAX, MEMO_BYTES_MAX, TIME_MS_MAX, USER_DATA_BYTES_MAX,
    WHOLE_ID_BYTES_MAX,
};
use crate::ledger::outcome::Refusal;
use crate::ledger::request::{AccountKind, Label};
use crate::{Amount, TimeMs};

pub(in crate::ledger) fn get_decimals(reader: &mut Reader<'_>) -> Parsed<u8> {
    let decimals = reader.byte("decimals")?;
    require(decimals <= ASSET_DECIMALS_MAX, "decimals")?;
    Ok(decimals)
}

pub(super) fn allow_flags(tag: u8, flags: u8) -> Parsed<()> {
    if tag & !KIND_MASK & !flags == 0 { Ok(()) } else { Err(Malformed { what: "flags" }) }
}

#[inline]
pub(super) fn put_head(out: &mut Vec<u8>, tag: u8, time: TimeMs) {
    debug_assert!(time.0 <= TIME_MS_MAX, "a time that no record can carry");
    // Tag and 48 bits of time in one piece.
    let head = (u64::from(tag) | time.0 << 8).to_le_bytes();
    out.extend_from_slice(&head[..7]);
}

pub(super) fn put_time(out: &mut Vec<u8>, time: TimeMs) {
    out.extend_from_slice(&time.0.min(TIME_MS_MAX).to_le_bytes()[..6]);
}

#[inline]
pub(super) fn get_time(reader: &mut Reader<'_>) -> Parsed<TimeMs> {
    let [a, b, c, d, e, f] = reader.array("time")?;
    Ok(TimeMs(u64::from_le_bytes([a, b, c, d, e, f, 0, 0])))
}

#[inline]
pub(super) fn get_id<'a>(reader: &mut Reader<'a>) -> Parsed<&'a str> {
    reader.text(1, WHOLE_ID_BYTES_MAX, "id")
}

pub(super) fn memo_flag(memo: &str) -> u8 {
    if memo.is_empty() { 0 } else { MEMO }
}

pub(super) fn outbound_flag(credit: CreditStep) -> u8 {
    match credit {
        CreditStep::Here(_) => 0,
        CreditStep::Outbound { .. } => OUTBOUND,
    }
}

#[inline]
pub(super) fn put_memo(out: &mut Vec<u8>, memo: &str) {
    debug_assert!(memo.len() <= MEMO_BYTES_MAX, "a memo of {} bytes", memo.len());
    if !memo.is_empty() {
        put_text(out, memo);
    }
}

#[inline]
pub(super) fn get_memo<'a>(reader: &mut Reader<'a>, tag: u8) -> Parsed<&'a str> {
    if tag & MEMO == 0 { Ok("") } else { reader.text(1, MEMO_BYTES_MAX, "memo") }
}

#[inline]
pub(super) fn label_flag(label: Label<'_>, flag: u8) -> u8 {
    if label.is_none() { 0 } else { flag }
}

#[inline]
pub(super) fn put_label(out: &mut Vec<u8>, label: Label<'_>) {
    debug_assert!(label.user_data.len() <= USER_DATA_BYTES_MAX, "user data of {} bytes", label.user_data.len());
    if !label.is_none() {
        put_varint(out, label.code.into());
        put_text(out, label.user_data);
    }
}

#[inline]
pub(super) fn get_label<'a>(reader: &mut Reader<'a>, is_there: bool) -> Parsed<Label<'a>> {
    if !is_there {
        return Ok(Label::NONE);
    }
    let label = Label { code: reader.u32("code")?, user_data: reader.text(0, USER_DATA_BYTES_MAX, "user data")? };
    require(!label.is_none(), "label")?;
    Ok(label)
}

#[inline]
pub(super) fn get_amount(reader: &mut Reader<'_>) -> Parsed<Amount> {
    Amount::new(reader.varint("amount")?).ok_or(Malformed { what: "amount" })
}

#[inline]
pub(super) fn get_slot(reader: &mut Reader<'_>) -> Parsed<AccountSlot> {
    reader.u32("account slot").map(AccountSlot)
}

/// An account's previous record and its balance after.
#[inline]
pub(super) fn put_link(out: &mut Vec<u8>, step: AccountStep) {
    put_varint(out, step.prev.0);
    put_zigzag(out, step.after);
}

#[inline]
pub(super) fn get_link(reader: &mut Reader<'_>, slot: AccountSlot) -> Parsed<AccountStep> {
    Ok(AccountStep { slot, prev: reader.position("previous record")?, after: reader.zigzag("balance after")? })
}

#[inline]
pub(super) fn put_step(out: &mut Vec<u8>, step: AccountStep) {
    put_varint(out, step.slot.0.into());
    put_link(out, step);
}

#[inline]
pub(super) fn get_step(reader: &mut Reader<'_>) -> Parsed<AccountStep> {
    let slot = get_slot(reader)?;
    get_link(reader, slot)
}

#[inline]
pub(super) fn put_credit(out: &mut Vec<u8>, credit: CreditStep) {
    match credit {
        CreditStep::Here(step) => put_step(out, step),
        CreditStep::Outbound { slot, number } => {
            put_varint(out, slot.0.into());
            put_varint(out, number.0);
        }
    }
}

#[inline]
pub(super) fn get_credit(reader: &mut Reader<'_>, tag: u8, slot: AccountSlot) -> Parsed<CreditStep> {
    if tag & OUTBOUND == 0 {
        get_link(reader, slot).map(CreditStep::Here)
    } else {
        Ok(CreditStep::Outbound { slot, number: reader.number("number")? })
    }
}

pub(super) fn put_hold(out: &mut Vec<u8>, tag: u8, time: TimeMs, hold: &HoldFacts<'_>, debit: AccountStep) {
    debug_assert!(!hold.id.is_empty() && hold.id.len() <= WHOLE_ID_BYTES_MAX, "an id of {} bytes", hold.id.len());
    put_head(out, tag | memo_flag(hold.memo) | label_flag(hold.label, LABEL), time);
    put_text(out, hold.id);
    put_step(out, debit);
    put_varint(out, hold.credit.0.into());
    put_varint(out, hold.amount.get());
    put_varint(out, hold.expires_in_ms);
    put_memo(out, hold.memo);
    put_label(out, hold.label);
}

pub(super) fn get_hold<'a>(reader: &mut Reader<'a>, tag: u8) -> Parsed<(HoldFacts<'a>, AccountStep)> {
    let id = get_id(reader)?;
    let debit = get_step(reader)?;
    let credit = get_slot(reader)?;
    let amount = get_amount(reader)?;
    let expires_in_ms = reader.varint("lifetime")?;
    let memo = get_memo(reader, tag)?;
    let label = get_label(reader, tag & LABEL != 0)?;
    Ok((HoldFacts { id, credit, amount, expires_in_ms, memo, label }, debit))
}

pub(super) fn put_account(out: &mut Vec<u8>, slot: AccountSlot, id: &str, asset: &str, kind: AccountKind) {
    assert!(!id.is_empty() && id.len() <= ACCOUNT_ID_BYTES_MAX, "an account id of {} bytes", id.len());
    assert!(!asset.is_empty() && asset.len() <= ASSET_BYTES_MAX, "an asset of {} bytes", asset.len());
    put_varint(out, slot.0.into());
    out.push(kind as u8);
    put_text(out, id);
    put_text(out, asset);
}

pub(super) fn get_account<'a>(reader: &mut Reader<'a>) -> Parsed<(AccountSlot, &'a str, &'a str, AccountKind)> {
    let slot = get_slot(reader)?;
    let kind = get_account_kind(reader)?;
    let id = reader.text(1, ACCOUNT_ID_BYTES_MAX, "account id")?;
    let asset = reader.text(1, ASSET_BYTES_MAX, "asset")?;
    Ok((slot, id, asset, kind))
}

pub(in crate::ledger) fn get_account_kind(reader: &mut Reader<'_>) -> Parsed<AccountKind> {
    match reader.byte("account kind")? {
        1 => Ok(AccountKind::Wallet),
        2 => Ok(AccountKind::Source),
        3 => Ok(AccountKind::Collector),
        _ => Err(Malformed { what: "account kind" }),
    }
}

pub(super) fn put_refusal(out: &mut Vec<u8>, refusal: Refusal) {
    out.push(match refusal {
        Refusal::InsufficientFunds { .. } => 1,
        Refusal::DebitAccountNotFound => 2,
        Refusal::CreditAccountNotFound => 3,
        Refusal::AssetMismatch => 4,
        Refusal::CollectorCreditOnly => 5,
        Refusal::Overflow => 6,
        Refusal::LinkedFailed => 7,
        Refusal::DebitAccountFrozen => 8,
        Refusal::CreditAccountFrozen => 9,
        Refusal::DebitAccountClosed => 10,
        Refusal::CreditAccountClosed => 11,
        Refusal::BalanceBelowMin => 12,
        Refusal::BalanceAboveMax => 13,
        Refusal::LimitAcrossShards => 14,
        Refusal::TooManyHolds => 16,
        other => panic!("{} is never journaled", other.code()),
    });
    if let Refusal::InsufficientFunds { available } = refusal {
        put_varint(out, available);
    }
}

pub(super) fn get_refusal(reader: &mut Reader<'_>) -> Parsed<Refusal> {
    Ok(match reader.byte("refusal")? {
        1 => Refusal::InsufficientFunds { available: reader.varint("available")? },
        2 => Refusal::DebitAccountNotFound,
        3 => Refusal::CreditAccountNotFound,
        4 => Refusal::AssetMismatch,
        5 => Refusal::CollectorCreditOnly,
        6 => Refusal::Overflow,
        7 => Refusal::LinkedFailed,
        8 => Refusal::DebitAccountFrozen,
        9 => Refusal::CreditAccountFrozen,
        10 => Refusal::DebitAccountClosed,
        11 => Refusal::CreditAccountClosed,
        12 => Refusal::BalanceBelowMin,
        13 => Refusal::BalanceAboveMax,
        14 => Refusal::LimitAcrossShards,
        16 => Refusal::TooManyHolds,
        _ => return Err(Malformed { what: "refusal" }),
    })
}
