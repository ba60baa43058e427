//! Decodes a request in place. Every string of a [`RequestRef`] is a part of the frame, checked to be UTF-8.
//!
//! Batches are read through a sink, item by item, so that the caller builds its own type directly:
//!
//! ```
//! use tidegate_wire::{BodyRef, Split, TransferRef, TransfersEncoder, decode_request, limits, split};
//!
//! let mut buffer = Vec::new();
//! let mut request = TransfersEncoder::begin(&mut buffer, 7, false);
//! request.push(&TransferRef { id: b"t1", debit: b"wallet:dave", credit: b"candidate:1", amount: 5, ..Default::default() });
//! request.finish();
//!
//! let Split::Frame(range) = split(&buffer, limits::FRAME_BYTES_MAX)? else { panic!("a whole frame") };
//! let frame = &buffer[range];
//! let request = decode_request(frame)?;
//! let BodyRef::Transfers(transfers) = request.body else { panic!("transfers") };
//! let mut items = Vec::new();
//! let linked = transfers.read(|item| items.push((item.id.of(frame), item.amount)))?;
//! assert_eq!((request.correlation, linked, items), (7, false, vec![("t1", 5)]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::number;
use crate::error::{BadFrame, DecodeError};
use crate::field::{Envelope, Fields, Value, for_each, for_each_item};
use crate::limits::TRANSFERS_MAX;
use crate::proto::AccountKind;
use crate::room::{ROOM, RoomRef};
use crate::{text, varint};

/// A request, its texts borrowed from the frame.
#[derive(Clone, Copy, Debug)]
pub struct RequestRef<'a> {
    /// To be returned with the reply.
    pub correlation: u64,
    /// What is asked.
    pub body: BodyRef<'a>,
}

/// What a request asks; one case for each body of `RequestFrame`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The fields are those of the schema.
pub enum BodyRef<'a> {
    /// First frame of a connection.
    Hello { token: &'a str },
    /// `kind` is `None` when it is unspecified or unknown.
    OpenAccount { id: &'a str, asset: &'a str, kind: Option<AccountKind> },
    /// Still to be [read](OpenAccountsRef::read).
    OpenAccounts(OpenAccountsRef<'a>),
    /// Still to be [read](TransfersRef::read).
    Transfers(TransfersRef<'a>),
    /// Still to be [read](HoldsRef::read).
    Holds(HoldsRef<'a>),
    /// Still to be [read](PostHoldsRef::read).
    PostHolds(PostHoldsRef<'a>),
    /// Still to be [read](VoidHoldsRef::read).
    VoidHolds(VoidHoldsRef<'a>),
    /// One account.
    ReadAccount { id: &'a str },
    /// A page of accounts.
    ListAccounts { prefix: &'a str, after: &'a str, limit: u32 },
    /// A page of an account's history.
    ReadHistory { id: &'a str, before: &'a str, limit: u32 },
    /// The last reconciliations.
    ReadAudit,
    /// Are you there?
    Ping,
    /// What became of a transfer.
    ReadTransfer { id: &'a str, id_space: Option<&'a str> },
    /// A hold and its state.
    ReadHold { id: &'a str, id_space: Option<&'a str> },
    /// A page of the open holds on an account.
    ListHolds { account: &'a str, after: &'a str, limit: u32 },
    /// Still to be [read](ChangeAccountRef::read).
    ChangeAccount(ChangeAccountRef<'a>),
    /// Decimals of an asset.
    DeclareAsset { asset: &'a str, decimals: u32 },
    /// All assets.
    ListAssets,
    /// For a room that this schema does not know.
    Room(RoomRef<'a>),
}

/// Reads a frame, as [`crate::split`] cut it, in time that grows with its length; batches are left for their `read`.
///
/// Unknown fields are passed over; of a repeated scalar the last one counts. Stricter than protobuf must be: a second
/// body is refused instead of merged, and so are groups.
#[inline]
pub fn decode_request(frame: &[u8]) -> Result<RequestRef<'_>, BadFrame> {
    let mut envelope = Envelope::default();
    let body = match envelope.read(frame, ROOM, number::READ_TRANSFER..=number::LIST_ASSETS) {
        Ok(()) => body(frame, &envelope),
        Err(error) => Err(error),
    };
    match body {
        Ok(body) => Ok(RequestRef { correlation: envelope.correlation, body }),
        Err(error) => Err(BadFrame { correlation: envelope.correlation, error }),
    }
}

fn body<'a>(frame: &'a [u8], envelope: &Envelope<'a>) -> Result<BodyRef<'a>, DecodeError> {
    let bytes = envelope.body;
    Ok(match envelope.number {
        number::TRANSFERS => {
            if frame.len() > u32::MAX as usize {
                return Err(DecodeError::FrameTooLong);
            }
            let begin = envelope.body_offset;
            BodyRef::Transfers(TransfersRef { bytes: &frame[..begin + bytes.len()], begin })
        }
        number::OPEN_ACCOUNTS => {
            if frame.len() > u32::MAX as usize {
                return Err(DecodeError::FrameTooLong);
            }
            BodyRef::OpenAccounts(OpenAccountsRef { bytes, begin: envelope.body_offset })
        }
        number::HOLDS => BodyRef::Holds(HoldsRef { bytes }),
        number::POST_HOLDS => BodyRef::PostHolds(PostHoldsRef { bytes }),
        number::VOID_HOLDS => BodyRef::VoidHolds(VoidHoldsRef { bytes }),
        number::HELLO => BodyRef::Hello { token: Plain::read(bytes, &[1], &[])?.texts[0] },
        number::OPEN_ACCOUNT => {
            let plain = Plain::read(bytes, &[1, 2], &[3])?;
            BodyRef::OpenAccount { id: plain.texts[0], asset: plain.texts[1], kind: kind_of(plain.number) }
        }
        number::READ_ACCOUNT => BodyRef::ReadAccount { id: Plain::read(bytes, &[1], &[])?.texts[0] },
        number::LIST_ACCOUNTS => {
            let Plain { texts: [prefix, after], number } = Plain::read(bytes, &[1, 2], &[3])?;
            BodyRef::ListAccounts { prefix, after, limit: number as u32 }
        }
        number::READ_HISTORY => {
            let Plain { texts: [id, before], number } = Plain::read(bytes, &[1, 2], &[3])?;
            BodyRef::ReadHistory { id, before, limit: number as u32 }
        }
        number::READ_AUDIT => Plain::read(bytes, &[], &[]).map(|_| BodyRef::ReadAudit)?,
        number::PING => Plain::read(bytes, &[], &[]).map(|_| BodyRef::Ping)?,
        number::READ_TRANSFER => {
            BodyRef::ReadTransfer { id: Plain::read(bytes, &[1], &[])?.texts[0], id_space: id_space(bytes)? }
        }
        number::READ_HOLD => {
            BodyRef::ReadHold { id: Plain::read(bytes, &[1], &[])?.texts[0], id_space: id_space(bytes)? }
        }
        number::LIST_HOLDS => {
            let Plain { texts: [account, after], number } = Plain::read(bytes, &[1, 2], &[3])?;
            BodyRef::ListHolds { account, after, limit: number as u32 }
        }
        number::CHANGE_ACCOUNT => BodyRef::ChangeAccount(ChangeAccountRef { bytes }),
        number::DECLARE_ASSET => {
            let Plain { texts: [asset, _], number } = Plain::read(bytes, &[1], &[2])?;
            BodyRef::DeclareAsset { asset, decimals: number as u32 }
        }
        number::LIST_ASSETS => Plain::read(bytes, &[], &[]).map(|_| BodyRef::ListAssets)?,
        ROOM => BodyRef::Room(RoomRef::read(bytes)?),
        _ => return Err(DecodeError::BodyMissing),
    })
}

/// The small requests all have the same shape: up to two texts and a number.
#[derive(Default)]
struct Plain<'a> {
    texts: [&'a str; 2],
    number: u64,
}

impl<'a> Plain<'a> {
    /// `texts` and `numbers` say which field numbers carry what.
    fn read(message: &'a [u8], texts: &[u32], numbers: &[u32]) -> Result<Plain<'a>, DecodeError> {
        let mut plain = Plain::default();
        for_each(message, |field, value| {
            if let Some(index) = texts.iter().position(|text| *text == field) {
                plain.texts[index] = value.text()?;
            } else if numbers.contains(&field) {
                plain.number = value.varint()?;
            }
            Ok(())
        })?;
        Ok(plain)
    }
}

/// A text inside the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextSpan {
    /// First byte, counted from the frame's first (behind the length prefix).
    pub offset: u32,
    /// Length in bytes.
    pub length: u32,
}

impl TextSpan {
    /// The text in `frame`, which must be the frame this span was read from.
    ///
    /// # Panics
    /// When the span is not a text of `frame`.
    pub fn of(self, frame: &[u8]) -> &str {
        let bytes = &frame[self.offset as usize..][..self.length as usize];
        std::str::from_utf8(bytes).expect("the span was read from this frame")
    }
}

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

impl TransfersRef<'_> {
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

/// A kind that is specified and known.
fn kind_of(number: u64) -> Option<AccountKind> {
    AccountKind::try_from(number as i32).ok().filter(|kind| *kind != AccountKind::Unspecified)
}

/// One account to open: where its texts stand in the frame, each checked to be UTF-8 and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenSpans {
    /// Account id.
    pub id: TextSpan,
    /// Unit of measure.
    pub asset: TextSpan,
    /// `None` when it is unspecified or unknown.
    pub kind: Option<AccountKind>,
}

/// The accounts of a request, not read yet.
#[derive(Clone, Copy, Debug)]
pub struct OpenAccountsRef<'a> {
    bytes: &'a [u8],
    /// Where in the frame they begin.
    begin: usize,
}

impl OpenAccountsRef<'_> {
    /// Gives each account to `sink`, in order. After an error, what the sink was given must be dropped.
    pub fn read(self, mut sink: impl FnMut(OpenSpans)) -> Result<(), DecodeError> {
        let origin = self.bytes.as_ptr().addr();
        let span = |text: &str| TextSpan {
            offset: (self.begin + text.as_ptr().addr() - origin) as u32,
            length: text.len() as u32,
        };
        for_each_item(self.bytes, |item| {
            let mut open = OpenSpans::default();
            for_each(item.bytes()?, |number, value| {
                match number {
                    1 => open.id = span(value.text()?),
                    2 => open.asset = span(value.text()?),
                    3 => open.kind = kind_of(value.varint()?),
                    _ => {}
                }
                Ok(())
            })?;
            sink(open);
            Ok(())
        })
    }
}

/// A hold, its texts borrowed from the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldRef<'a> {
    /// Hold id.
    pub id: &'a str,
    /// Account to reserve on.
    pub debit: &'a str,
    /// Account that a post credits.
    pub credit: &'a str,
    /// Minor units.
    pub amount: u64,
    /// Lifetime in milliseconds.
    pub expires_in_ms: u64,
    /// Memo; empty for none.
    pub memo: &'a str,
    /// Code; 0 for none.
    pub code: u32,
    /// User data; empty for none.
    pub user_data: &'a str,
}

/// The holds of a request, not read yet.
#[derive(Clone, Copy, Debug)]
pub struct HoldsRef<'a> {
    bytes: &'a [u8],
}

impl<'a> HoldsRef<'a> {
    /// Gives each hold to `sink`, in order, and returns whether they are linked. After an error, what the sink was given
    /// must be dropped.
    pub fn read(self, mut sink: impl FnMut(HoldRef<'a>)) -> Result<bool, DecodeError> {
        let mut linked = false;
        for_each(self.bytes, |number, value| {
            if number == 2 {
                linked = value.varint()? != 0;
            }
            Ok(())
        })?;
        for_each_item(self.bytes, |item| {
            let mut hold = HoldRef::default();
            for_each(item.bytes()?, |number, value| {
                match number {
                    1 => hold.id = value.text()?,
                    2 => hold.debit = value.text()?,
                    3 => hold.credit = value.text()?,
                    4 => hold.amount = value.varint()?,
                    5 => hold.expires_in_ms = value.varint()?,
                    6 => hold.memo = value.text()?,
                    7 => hold.code = value.varint()? as u32,
                    8 => hold.user_data = value.text()?,
                    _ => {}
                }
                Ok(())
            })?;
            sink(hold);
            Ok(())
        })?;
        Ok(linked)
    }
}

/// A change of an account, its texts borrowed from the frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountChangeRef<'a> {
    /// Account id.
    pub id: &'a str,
    /// Revision that the account must be at.
    pub if_revision: Option<u64>,
    /// The number of an `AccountStatus`, known or not; 0 to leave it.
    pub status: i32,
    /// New lower limit.
    pub balance_min: Option<i64>,
    /// New upper limit.
    pub balance_max: Option<i64>,
    /// Whether the lower limit goes.
    pub remove_balance_min: bool,
    /// Whether the upper limit goes.
    pub remove_balance_max: bool,
    /// Keys and values to set, as they came.
    pub metadata: Vec<(&'a str, &'a str)>,
    /// Keys to remove.
    pub remove_metadata: Vec<&'a str>,
}

/// A change of an account, not read yet.
#[derive(Clone, Copy, Debug)]
pub struct ChangeAccountRef<'a> {
    bytes: &'a [u8],
}

impl<'a> ChangeAccountRef<'a> {
    /// Reads it. Memory grows with the frame.
    pub fn read(self) -> Result<AccountChangeRef<'a>, DecodeError> {
        let mut change = AccountChangeRef::default();
        for_each(self.bytes, |number, value| {
            match number {
                1 => change.id = value.text()?,
                2 => change.if_revision = Some(value.varint()?),
                3 => change.status = value.varint()? as i32,
                4 => change.balance_min = Some(zigzag(value.varint()?)),
                5 => change.balance_max = Some(zigzag(value.varint()?)),
                6 => change.remove_balance_min = value.varint()? != 0,
                7 => change.remove_balance_max = value.varint()? != 0,
                8 => {
                    let Plain { texts: [key, text], .. } = Plain::read(value.bytes()?, &[1, 2], &[])?;
                    change.metadata.push((key, text));
                }
                9 => change.remove_metadata.push(value.text()?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(change)
    }
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The posts of a request, not read yet.
#[derive(Clone, Copy, Debug)]
pub struct PostHoldsRef<'a> {
    bytes: &'a [u8],
}

impl<'a> PostHoldsRef<'a> {
    /// The id space of the holds; `None` for the sender's own.
    pub fn id_space(self) -> Result<Option<&'a str>, DecodeError> {
        id_space(self.bytes)
    }

    /// Gives each hold's id and amount (`None` for all of it) to `sink`, in order. After an error, what the sink was
    /// given must be dropped.
    pub fn read(self, mut sink: impl FnMut(&'a str, Option<u64>)) -> Result<(), DecodeError> {
        for_each_item(self.bytes, |item| {
            let (mut id, mut amount) = ("", None);
            for_each(item.bytes()?, |number, value| {
                match number {
                    1 => id = value.text()?,
                    2 => amount = Some(value.varint()?),
                    _ => {}
                }
                Ok(())
            })?;
            sink(id, amount);
            Ok(())
        })
    }
}

/// The field behind a list of holds.
fn id_space(bytes: &[u8]) -> Result<Option<&str>, DecodeError> {
    let mut found = None;
    for_each(bytes, |number, value| {
        if number == 2 {
            found = Some(value.text()?);
        }
        Ok(())
    })?;
    Ok(found)
}

/// The voids of a request, not read yet.
#[derive(Clone, Copy, Debug)]
pub struct VoidHoldsRef<'a> {
    bytes: &'a [u8],
}

impl<'a> VoidHoldsRef<'a> {
    /// The id space of the holds; `None` for the sender's own.
    pub fn id_space(self) -> Result<Option<&'a str>, DecodeError> {
        id_space(self.bytes)
    }

    /// Gives each hold's id to `sink`, in order. After an error, what the sink was given must be dropped.
    pub fn read(self, mut sink: impl FnMut(&'a str)) -> Result<(), DecodeError> {
        for_each_item(self.bytes, |item| {
            sink(item.text()?);
            Ok(())
        })
    }
}
