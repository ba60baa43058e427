//! Decodes a request in place. Every string of a [`RequestRef`] is a part of the frame, checked to be UTF-8.
//!
//! Batches are read through a sink, item by item, so that the caller builds its own type directly:
//!
//! ```
//! use tidegate_wire::{BodyRef, Split, TransferRef, TransfersEncoder, decode_request, limits, split};
//!
//! let mut buffer = Vec::new();
//! let mut request = TransfersEncoder::begin(&mut buffer, 7, false);
//! let (debit, credit) = (b"wallet:dave", b"candidate:1");
//! request.push(&TransferRef { id: b"t1", debit, credit, amount: 5, ..Default::default() });
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

mod change;
mod holds;
mod opens;
mod transfers;

use super::number;
use crate::error::{BadFrame, DecodeError};
use crate::field::{Envelope, for_each};
use crate::proto::AccountKind;
use crate::room::{ROOM, RoomRef};

pub use change::{AccountChangeRef, ChangeAccountRef};
pub use holds::{HoldRef, HoldsRef, PostHoldsRef, VoidHoldsRef};
pub use opens::{OpenAccountsRef, OpenSpans};
pub use transfers::{TransferSpans, TransfersRef};

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
    ReadHistory { id: &'a str, before: &'a str, limit: u32, from_ms: Option<u64>, to_ms: Option<u64> },
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
            BodyRef::Transfers(TransfersRef::new(&frame[..begin + bytes.len()], begin))
        }
        number::OPEN_ACCOUNTS => {
            if frame.len() > u32::MAX as usize {
                return Err(DecodeError::FrameTooLong);
            }
            BodyRef::OpenAccounts(OpenAccountsRef::new(bytes, envelope.body_offset))
        }
        number::HOLDS => BodyRef::Holds(HoldsRef::new(bytes)),
        number::POST_HOLDS => BodyRef::PostHolds(PostHoldsRef::new(bytes)),
        number::VOID_HOLDS => BodyRef::VoidHolds(VoidHoldsRef::new(bytes)),
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
            let (from_ms, to_ms) = (optional(bytes, 4)?, optional(bytes, 5)?);
            BodyRef::ReadHistory { id, before, limit: number as u32, from_ms, to_ms }
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
        number::CHANGE_ACCOUNT => BodyRef::ChangeAccount(ChangeAccountRef::new(bytes)),
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

/// A kind that is specified and known.
fn kind_of(number: u64) -> Option<AccountKind> {
    AccountKind::try_from(number as i32).ok().filter(|kind| *kind != AccountKind::Unspecified)
}

/// An optional number of a message.
fn optional(message: &[u8], number: u32) -> Result<Option<u64>, DecodeError> {
    let mut found = None;
    for_each(message, |field, value| {
        if field == number {
            found = Some(value.varint()?);
        }
        Ok(())
    })?;
    Ok(found)
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
