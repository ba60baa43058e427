//! Appends whole frames to and from the pacer to a buffer.

use super::{BidRequestRef, FAMILY, NoBidReason, NoticeOutcome, TOKEN_BYTES, WinRef};
use crate::limits::{PACER_HEAD_BYTES_MAX, PACER_ITEM_BYTES_MAX, PACER_ITEMS_MAX, PACER_LENGTH_BYTES};
use crate::room::ROOM;
use crate::varint;

/// A frame whose packet is being appended to a buffer, with gaps for its lengths:
///
/// ```text
///   length │ 08 correlation │ 7a length │ 08 05 │ 12 length │ case length │ items ...
/// ```
#[derive(Debug)]
struct OpenPacket {
    /// Where the frame begins.
    start: usize,
    /// Where the items begin.
    items: usize,
    count: usize,
}

/// A tag and its gap.
const NESTED_BYTES: usize = 1 + PACER_LENGTH_BYTES;

impl OpenPacket {
    /// Appends the head of a frame whose body is the case `case` of a request or a reply.
    #[inline]
    fn open(out: &mut Vec<u8>, correlation: u64, case: u8) -> OpenPacket {
        let start = out.len();
        out.reserve(PACER_HEAD_BYTES_MAX + 10 * PACER_ITEM_BYTES_MAX);
        out.extend_from_slice(&[0; PACER_LENGTH_BYTES]);
        if correlation != 0 {
            out.push(0x08);
            varint::write(out, correlation);
        }
        out.extend_from_slice(&[(ROOM as u8) << 3 | 2, 0, 0, 0x08, FAMILY as u8, 0x12, 0, 0, case << 3 | 2, 0, 0]);
        OpenPacket { start, items: out.len(), count: 0 }
    }

    /// Appends the item that `write` puts together. It is put together where it stays: the bytes of one that is copied
    /// were written one by one, and a processor waits before it reads such bytes as words.
    #[inline(always)]
    fn push(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut OpenItem<'_>)) {
        self.count += 1;
        let start = out.len();
        out.extend_from_slice(&[0; PACER_ITEM_BYTES_MAX]);
        let bytes = out[start..].first_chunk_mut().expect("they were appended");
        let mut item = OpenItem { bytes, length: 2 };
        write(&mut item);
        let length = item.length;
        item.bytes[..2].copy_from_slice(&[0x0a, length as u8 - 2]);
        out.truncate(start + length);
    }

    /// Writes all lengths. `out` must be the buffer that the packet was opened in, with nothing but its items appended.
    ///
    /// # Panics
    /// When the packet has no item, or more than [`PACER_ITEMS_MAX`].
    #[inline]
    fn close(self, out: &mut [u8]) {
        assert!((1..=PACER_ITEMS_MAX).contains(&self.count), "a packet of {} items", self.count);
        let room = self.items - 2 * NESTED_BYTES - 2;
        for content in [self.items, self.items - NESTED_BYTES, room, self.start + PACER_LENGTH_BYTES] {
            let length = out.len() - content;
            out[content - PACER_LENGTH_BYTES..content].copy_from_slice(&[length as u8 | 0x80, (length >> 7) as u8]);
        }
    }
}

/// An item that is being put together, behind the tag of field 1 and its length.
struct OpenItem<'o> {
    bytes: &'o mut [u8; PACER_ITEM_BYTES_MAX],
    length: usize,
}

impl OpenItem<'_> {
    /// A store of a known width: `copy_from_slice` becomes a call.
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        *self.bytes[self.length..].first_chunk_mut().expect("the longest item fits") = *bytes;
        self.length += N;
    }

    /// Zero is not written.
    #[inline(always)]
    fn fixed64(&mut self, tag: u8, value: u64) {
        if value != 0 {
            self.put(&[tag]);
            self.put(&value.to_le_bytes());
        }
    }

    /// Zero is not written.
    #[inline(always)]
    fn varint(&mut self, tag: u8, value: u32) {
        if value != 0 {
            let (bytes, width) = varint::spread(value);
            self.put(&[tag]);
            self.put(&bytes);
            self.length -= bytes.len() - width;
        }
    }
}

/// Appends a frame that asks for bids.
///
/// # Panics
/// When there is no request, or more than [`PACER_ITEMS_MAX`].
#[inline]
pub fn encode_bid_requests(out: &mut Vec<u8>, correlation: u64, requests: impl IntoIterator<Item = BidRequestRef>) {
    let mut packet = OpenPacket::open(out, correlation, 1);
    for request in requests {
        packet.push(out, |item| {
            item.fixed64(0x09, request.id);
            item.varint(0x10, request.campaign);
            item.fixed64(0x19, request.user);
            item.fixed64(0x21, request.key);
            item.varint(0x28, request.price_micros);
        });
    }
    packet.close(out);
}

/// Appends a frame that tells of wins.
///
/// # Panics
/// When there is no win, or more than [`PACER_ITEMS_MAX`], or a token is longer than [`TOKEN_BYTES`].
#[inline]
pub fn encode_wins<'a>(out: &mut Vec<u8>, correlation: u64, wins: impl IntoIterator<Item = WinRef<'a>>) {
    let mut packet = OpenPacket::open(out, correlation, 2);
    for win in wins {
        assert!(win.token.len() <= TOKEN_BYTES, "a token of {} bytes", win.token.len());
        packet.push(out, |item| {
            item.put(&[0x0a, win.token.len() as u8]);
            item.bytes[item.length..item.length + win.token.len()].copy_from_slice(win.token);
            item.length += win.token.len();
            item.varint(0x10, win.price_micros);
        });
    }
    packet.close(out);
}

/// Appends a frame that tells of bids that did not win.
///
/// # Panics
/// When there is no token, or more than [`PACER_ITEMS_MAX`], or one is longer than [`TOKEN_BYTES`].
#[inline]
pub fn encode_losses<'a>(out: &mut Vec<u8>, correlation: u64, tokens: impl IntoIterator<Item = &'a [u8]>) {
    let mut packet = OpenPacket::open(out, correlation, 3);
    for token in tokens {
        assert!(token.len() <= TOKEN_BYTES, "a token of {} bytes", token.len());
        packet.count += 1;
        out.extend_from_slice(&[0x0a, token.len() as u8]);
        out.extend_from_slice(token);
    }
    packet.close(out);
}

/// Writes the answer to bid requests, bid by bid, in the order of the requests.
///
/// ```
/// use tidegate_wire::pacer::{BidsWriter, NoBidReason};
///
/// let mut out = Vec::new();
/// let mut frame = BidsWriter::begin(&mut out, 7);
/// frame.bid(2_500, &[9; 32]);
/// frame.no_bid(NoBidReason::Throttled);
/// frame.finish();
/// ```
#[derive(Debug)]
#[must_use = "a frame is whole only after finish()"]
pub struct BidsWriter<'o> {
    out: &'o mut Vec<u8>,
    packet: OpenPacket,
}

impl<'o> BidsWriter<'o> {
    /// Opens a frame at the end of `out`. It must be finished: until then `out` ends in half a frame.
    #[inline]
    pub fn begin(out: &'o mut Vec<u8>, correlation: u64) -> BidsWriter<'o> {
        let packet = OpenPacket::open(out, correlation, 1);
        BidsWriter { out, packet }
    }

    /// Appends a bid.
    #[inline]
    pub fn bid(&mut self, price_micros: u32, token: &[u8; TOKEN_BYTES]) {
        self.packet.push(self.out, |item| {
            item.varint(0x08, price_micros);
            item.put(&[0x12, TOKEN_BYTES as u8]);
            item.put(token);
        });
    }

    /// Appends that there is no bid.
    #[inline]
    pub fn no_bid(&mut self, reason: NoBidReason) {
        self.packet.count += 1;
        self.out.extend_from_slice(&[0x0a, 2, 0x18, reason as u8]);
    }

    /// Completes the frame.
    ///
    /// # Panics
    /// When it has no answer, or more than [`PACER_ITEMS_MAX`].
    #[inline]
    pub fn finish(self) {
        self.packet.close(self.out);
    }
}

/// Writes the answer to wins or losses, outcome by outcome, in the order of the notices.
#[derive(Debug)]
#[must_use = "a frame is whole only after finish()"]
pub struct NoticeOutcomesWriter<'o> {
    out: &'o mut Vec<u8>,
    packet: OpenPacket,
}

impl<'o> NoticeOutcomesWriter<'o> {
    /// Opens a frame at the end of `out`. It must be finished: until then `out` ends in half a frame.
    #[inline]
    pub fn begin(out: &'o mut Vec<u8>, correlation: u64) -> NoticeOutcomesWriter<'o> {
        let packet = OpenPacket::open(out, correlation, 2);
        // The list of the outcomes, with a gap for its length.
        out.extend_from_slice(&[0x0a, 0, 0]);
        NoticeOutcomesWriter { out, packet }
    }

    /// Appends what became of one notice.
    #[inline]
    pub fn push(&mut self, outcome: NoticeOutcome) {
        self.packet.count += 1;
        self.out.push(outcome as u8);
    }

    /// Completes the frame.
    ///
    /// # Panics
    /// When it has no outcome, or more than [`PACER_ITEMS_MAX`].
    #[inline]
    pub fn finish(self) {
        let list = self.packet.items + NESTED_BYTES;
        let count = self.packet.count;
        self.out[list - PACER_LENGTH_BYTES..list].copy_from_slice(&[count as u8 | 0x80, (count >> 7) as u8]);
        self.packet.close(self.out);
    }
}
