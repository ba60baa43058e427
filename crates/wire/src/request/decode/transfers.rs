//! Transfers: the hot path. Their texts are left in the frame, and each is named by its place there.

use super::TextSpan;
use crate::error::DecodeError;
use crate::field::{Fields, Value};
use crate::limits::TRANSFERS_MAX;
use crate::{text, varint};

/// One transfer: where its texts stand in the frame, each checked to be UTF-8 and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferSpans {
    /// Transfer id.
    pub id: TextSpan,
    /// Account to debit.
    pub debit: TextSpan,
    /// Account to credit.
    pub credit: TextSpan,
    /// Memo; empty for none.
    pub memo: TextSpan,
    /// Minor units.
    pub amount: u64,
    /// Code; 0 for none.
    pub code: u32,
    /// User data; empty for none.
    pub user_data: TextSpan,
}

/// The transfers of a request, not read yet.
#[derive(Clone, Copy, Debug)]
pub struct TransfersRef<'a> {
    /// The frame up to the end of the body.
    bytes: &'a [u8],
    /// Where in it the body begins.
    begin: usize,
}

impl<'a> TransfersRef<'a> {
    /// Those in `bytes` from `begin` on.
    pub(super) fn new(bytes: &'a [u8], begin: usize) -> TransfersRef<'a> {
        TransfersRef { bytes, begin }
    }

    /// Gives each transfer to `sink`, in order, and returns whether they are linked. After an error, what the sink was
    /// given is not a request and must be dropped.
    #[inline]
    pub fn read(self, mut sink: impl FnMut(TransferSpans)) -> Result<bool, DecodeError> {
        let bytes = self.bytes;
        let mut at = self.begin;
        let mut linked = false;
        let mut items = 0;
        while at < bytes.len() {
            let (begin, end);
            if bytes[at] == 0x0a {
                at += 1;
                end = end_of(bytes, &mut at)?;
                begin = at;
            } else {
                match other_field(bytes, &mut at)? {
                    (1, value) => (begin, end) = (at - value.bytes()?.len(), at),
                    (2, value) => {
                        linked = value.varint()? != 0;
                        continue;
                    }
                    _ => continue,
                }
            }
            if items == TRANSFERS_MAX {
                return Err(DecodeError::TooManyItems);
            }
            items += 1;
            sink(transfer(&bytes[..end], begin)?);
            at = end;
        }
        Ok(linked)
    }
}

/// Reads the transfer that fills `bytes` from `at` to the end.
#[inline(always)]
fn transfer(bytes: &[u8], mut at: usize) -> Result<TransferSpans, DecodeError> {
    let mut item = TransferSpans::default();
    while at < bytes.len() {
        let tag = bytes[at];
        match tag {
            0x0a | 0x12 | 0x1a | 0x2a | 0x3a => {
                at += 1;
                let end = end_of(bytes, &mut at)?;
                text::check(&bytes[at..end])?;
                let span = TextSpan { offset: at as u32, length: (end - at) as u32 };
                at = end;
                match tag {
                    0x0a => item.id = span,
                    0x12 => item.debit = span,
                    0x1a => item.credit = span,
                    0x2a => item.memo = span,
                    _ => item.user_data = span,
                }
            }
            0x20 => {
                at += 1;
                item.amount = varint::read(bytes, &mut at)?;
            }
            0x30 => {
                at += 1;
                item.code = varint::read(bytes, &mut at)? as u32;
            }
            // Not one of ours as ours are written: unknown, of the wrong type, or with a padded tag.
            _ => padded_field(bytes, &mut at, &mut item)?,
        }
    }
    Ok(item)
}

#[cold]
fn padded_field(bytes: &[u8], at: &mut usize, item: &mut TransferSpans) -> Result<(), DecodeError> {
    let (number, value) = other_field(bytes, at)?;
    let slot = match number {
        1 => &mut item.id,
        2 => &mut item.debit,
        3 => &mut item.credit,
        5 => &mut item.memo,
        7 => &mut item.user_data,
        6 => {
            item.code = value.varint()? as u32;
            return Ok(());
        }
        4 => {
            item.amount = value.varint()?;
            return Ok(());
        }
        _ => return Ok(()),
    };
    let length = value.text()?.len();
    *slot = TextSpan { offset: (*at - length) as u32, length: length as u32 };
    Ok(())
}

/// Reads the length of a field at `*at`, moves `*at` behind it and returns where the field ends.
#[inline(always)]
fn end_of(bytes: &[u8], at: &mut usize) -> Result<usize, DecodeError> {
    let length = varint::read(bytes, at)?;
    if length > (bytes.len() - *at) as u64 { Err(DecodeError::Truncated) } else { Ok(*at + length as usize) }
}

/// Reads a field in any form at `*at` and moves `*at` behind it.
#[cold]
fn other_field<'a>(bytes: &'a [u8], at: &mut usize) -> Result<(u32, Value<'a>), DecodeError> {
    let mut fields = Fields::of(&bytes[*at..]);
    let Some(field) = fields.next()? else { return Err(DecodeError::Truncated) };
    *at += fields.offset();
    Ok(field)
}
