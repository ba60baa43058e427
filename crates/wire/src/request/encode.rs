//! Appends whole request frames to a buffer. Batches are written directly from borrowed strings; the rest goes through
//! the generated types.

use super::number;
use crate::frame::OpenFrame;
use crate::proto::{RequestFrame, request_frame};
use crate::{proto, varint};
use prost::Message;

/// Appends a frame with any body.
pub fn encode_request(out: &mut Vec<u8>, correlation: u64, body: request_frame::Body) {
    let frame = RequestFrame { correlation, body: Some(body) };
    frame.encode_length_delimited(out).expect("a Vec grows as needed");
}

/// A transfer to be encoded. The server refuses texts that are not UTF-8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferRef<'a> {
    /// Chosen by the client, 1 to 64 bytes, never reused. A retry carries the same one.
    pub id: &'a [u8],
    /// Account to debit.
    pub debit: &'a [u8],
    /// Account to credit.
    pub credit: &'a [u8],
    /// Minor units.
    pub amount: u64,
    /// Memo, at most 256 bytes; empty for none.
    pub memo: &'a [u8],
    /// Code; 0 for none.
    pub code: u32,
    /// User data, at most 64 bytes; empty for none.
    pub user_data: &'a [u8],
}

impl<'a> From<&'a proto::Transfer> for TransferRef<'a> {
    fn from(transfer: &'a proto::Transfer) -> TransferRef<'a> {
        TransferRef {
            id: transfer.id.as_bytes(),
            debit: transfer.debit.as_bytes(),
            credit: transfer.credit.as_bytes(),
            amount: transfer.amount,
            memo: transfer.memo.as_bytes(),
            code: transfer.code,
            user_data: transfer.user_data.as_bytes(),
        }
    }
}

/// Writes a Transfers frame, transfer by transfer.
///
/// ```
/// use tidegate_wire::{TransferRef, TransfersEncoder};
///
/// let mut out = Vec::new();
/// let mut frame = TransfersEncoder::begin(&mut out, 7, false);
/// frame.push(&TransferRef { id: b"t1", debit: b"wallet:dave", credit: b"candidate:1", amount: 1, ..Default::default() });
/// frame.finish();
/// ```
#[derive(Debug)]
#[must_use = "a frame is whole only after finish()"]
pub struct TransfersEncoder<'o>(Batch<'o>);

impl<'o> TransfersEncoder<'o> {
    /// Opens a frame at the end of `out`. Dropped without `finish`, it takes back what it appended.
    pub fn begin(out: &'o mut Vec<u8>, correlation: u64, linked: bool) -> TransfersEncoder<'o> {
        let batch = Batch::begin(out, correlation, number::TRANSFERS);
        if linked {
            batch.out.extend_from_slice(&[0x10, 1]);
        }
        TransfersEncoder(batch)
    }

    /// Appends one transfer. The server takes [`crate::limits::TRANSFERS_MAX`] in a frame.
    #[inline]
    pub fn push(&mut self, transfer: &TransferRef<'_>) {
        let length = text_width(transfer.id)
            + text_width(transfer.debit)
            + text_width(transfer.credit)
            + number_width(transfer.amount)
            + text_width(transfer.memo)
            + number_width(transfer.code.into())
            + text_width(transfer.user_data);
        let out = self.0.item(length);
        write_text(out, 0x0a, transfer.id);
        write_text(out, 0x12, transfer.debit);
        write_text(out, 0x1a, transfer.credit);
        write_number(out, 0x20, transfer.amount);
        write_text(out, 0x2a, transfer.memo);
        write_number(out, 0x30, transfer.code.into());
        write_text(out, 0x3a, transfer.user_data);
    }

    /// How long the frame is so far, in bytes. The server reads up to [`crate::limits::FRAME_BYTES_MAX`].
    pub fn frame_bytes(&self) -> usize {
        self.0.frame_bytes()
    }

    /// Completes the frame.
    pub fn finish(self) {
        self.0.finish();
    }
}

/// Writes a Holds frame, hold by hold.
#[derive(Debug)]
#[must_use = "a frame is whole only after finish()"]
pub struct HoldsEncoder<'o>(Batch<'o>);

impl<'o> HoldsEncoder<'o> {
    /// Opens a frame at the end of `out`. Dropped without `finish`, it takes back what it appended.
    pub fn begin(out: &'o mut Vec<u8>, correlation: u64, linked: bool) -> HoldsEncoder<'o> {
        let batch = Batch::begin(out, correlation, number::HOLDS);
        if linked {
            batch.out.extend_from_slice(&[0x10, 1]);
        }
        HoldsEncoder(batch)
    }

    /// Appends one hold: `transfer` once it is posted, reserved until then or until `expires_in_ms` has passed.
    #[inline]
    pub fn push(&mut self, transfer: &TransferRef<'_>, expires_in_ms: u64) {
        let length = text_width(transfer.id)
            + text_width(transfer.debit)
            + text_width(transfer.credit)
            + number_width(transfer.amount)
            + number_width(expires_in_ms)
            + text_width(transfer.memo)
            + number_width(transfer.code.into())
            + text_width(transfer.user_data);
        let out = self.0.item(length);
        write_text(out, 0x0a, transfer.id);
        write_text(out, 0x12, transfer.debit);
        write_text(out, 0x1a, transfer.credit);
        write_number(out, 0x20, transfer.amount);
        write_number(out, 0x28, expires_in_ms);
        write_text(out, 0x32, transfer.memo);
        write_number(out, 0x38, transfer.code.into());
        write_text(out, 0x42, transfer.user_data);
    }

    /// How long the frame is so far, in bytes.
    pub fn frame_bytes(&self) -> usize {
        self.0.frame_bytes()
    }

    /// Completes the frame.
    pub fn finish(self) {
        self.0.finish();
    }
}

/// Writes an OpenAccounts frame, account by account.
#[derive(Debug)]
#[must_use = "a frame is whole only after finish()"]
pub struct OpenAccountsEncoder<'o>(Batch<'o>);

impl<'o> OpenAccountsEncoder<'o> {
    /// Opens a frame at the end of `out`. Dropped without `finish`, it takes back what it appended.
    pub fn begin(out: &'o mut Vec<u8>, correlation: u64) -> OpenAccountsEncoder<'o> {
        OpenAccountsEncoder(Batch::begin(out, correlation, number::OPEN_ACCOUNTS))
    }

    /// Appends one account: its id, unit of measure and kind.
    #[inline]
    pub fn push(&mut self, id: &[u8], asset: &[u8], kind: proto::AccountKind) {
        let kind = kind as u64;
        let out = self.0.item(text_width(id) + text_width(asset) + number_width(kind));
        write_text(out, 0x0a, id);
        write_text(out, 0x12, asset);
        write_number(out, 0x18, kind);
    }

    /// How long the frame is so far, in bytes.
    pub fn frame_bytes(&self) -> usize {
        self.0.frame_bytes()
    }

    /// Completes the frame.
    pub fn finish(self) {
        self.0.finish();
    }
}

/// Writes a PostHolds frame, post by post.
#[derive(Debug)]
#[must_use = "a frame is whole only after finish()"]
pub struct PostHoldsEncoder<'o>(Batch<'o>);

impl<'o> PostHoldsEncoder<'o> {
    /// Opens a frame at the end of `out`. Dropped without `finish`, it takes back what it appended.
    pub fn begin(out: &'o mut Vec<u8>, correlation: u64) -> PostHoldsEncoder<'o> {
        PostHoldsEncoder(Batch::begin(out, correlation, number::POST_HOLDS))
    }

    /// Appends one post, of the whole hold if `amount` is `None`.
    #[inline]
    pub fn push(&mut self, id: &[u8], amount: Option<u64>) {
        let amount_width = amount.map_or(0, |amount| 1 + varint::width(amount));
        let out = self.0.item(text_width(id) + amount_width);
        write_text(out, 0x0a, id);
        if let Some(amount) = amount {
            // An optional number is written even when it is zero.
            out.push(0x10);
            varint::write(out, amount);
        }
    }

    /// Says that the holds are of another id space than the sender's.
    pub fn in_space(&mut self, id_space: &[u8]) {
        let out = &mut *self.0.out;
        // An optional text is written even when it is empty.
        out.push(0x12);
        varint::write(out, id_space.len() as u64);
        out.extend_from_slice(id_space);
    }

    /// How long the frame is so far, in bytes.
    pub fn frame_bytes(&self) -> usize {
        self.0.frame_bytes()
    }

    /// Completes the frame.
    pub fn finish(self) {
        self.0.finish();
    }
}

/// A frame whose body is a list of messages in field 1.
#[derive(Debug)]
struct Batch<'o> {
    out: &'o mut Vec<u8>,
    frame: Option<OpenFrame>,
    start: usize,
}

impl<'o> Batch<'o> {
    fn begin(out: &'o mut Vec<u8>, correlation: u64, body_number: u32) -> Batch<'o> {
        let start = out.len();
        let frame = OpenFrame::open(out, correlation, body_number as u8);
        Batch { out, frame: Some(frame), start }
    }

    /// Opens an item of `length` bytes, which the caller appends.
    #[inline(always)]
    fn item(&mut self, length: usize) -> &mut Vec<u8> {
        self.out.reserve(1 + varint::VARINT_BYTES_MAX + length);
        self.out.push(0x0a);
        varint::write(self.out, length as u64);
        self.out
    }

    fn frame_bytes(&self) -> usize {
        self.out.len() - self.start
    }

    fn finish(mut self) {
        if let Some(frame) = self.frame.take() {
            frame.close(self.out);
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if self.frame.is_some() {
            self.out.truncate(self.start);
        }
    }
}

#[inline(always)]
fn text_width(text: &[u8]) -> usize {
    if text.is_empty() { 0 } else { 1 + varint::width(text.len() as u64) + text.len() }
}

#[inline(always)]
fn number_width(value: u64) -> usize {
    if value == 0 { 0 } else { 1 + varint::width(value) }
}

#[inline(always)]
fn write_text(out: &mut Vec<u8>, tag: u8, text: &[u8]) {
    if !text.is_empty() {
        out.push(tag);
        varint::write(out, text.len() as u64);
        out.extend_from_slice(text);
    }
}

#[inline(always)]
fn write_number(out: &mut Vec<u8>, tag: u8, value: u64) {
    if value != 0 {
        out.push(tag);
        varint::write(out, value);
    }
}
