//! Appends whole reply frames to a buffer.

use super::{BARE, number};
use crate::frame::OpenFrame;
use crate::proto::{OutcomeKind, ReplyFrame, reply_frame};
use crate::varint;
use prost::Message;

/// Appends a frame with any body.
pub fn encode_reply(out: &mut Vec<u8>, correlation: u64, body: reply_frame::Body) {
    let frame = ReplyFrame { correlation, body: Some(body) };
    frame.encode_length_delimited(out).expect("a Vec grows as needed");
}

/// Writes an Outcomes frame, outcome by outcome, in the order the request asked.
///
/// ```
/// let mut out = Vec::new();
/// let mut frame = tidegate_wire::OutcomesEncoder::begin(&mut out, 7, 2);
/// frame.applied();
/// frame.refused("insufficient_funds", 3);
/// frame.finish();
/// ```
#[derive(Debug)]
#[must_use = "a frame is whole only after finish()"]
pub struct OutcomesEncoder<'o> {
    out: &'o mut Vec<u8>,
    frame: OpenFrame,
}

impl<'o> OutcomesEncoder<'o> {
    /// Opens a frame at the end of `out`, with room for `expected` outcomes that are not refused. It must be finished:
    /// until then `out` ends in half a frame.
    pub fn begin(out: &'o mut Vec<u8>, correlation: u64, expected: usize) -> OutcomesEncoder<'o> {
        // 32 bytes hold any head: two gaps, two tags, a correlation.
        out.reserve(32 + 4 * expected);
        let frame = OpenFrame::open(out, correlation, number::OUTCOMES as u8);
        OutcomesEncoder { out, frame }
    }

    /// Appends "done, and durable".
    #[inline(always)]
    pub fn applied(&mut self) {
        self.bare(OutcomeKind::Applied);
    }

    /// Appends "done before by the same id with the same content".
    #[inline(always)]
    pub fn duplicate(&mut self) {
        self.bare(OutcomeKind::Duplicate);
    }

    #[inline(always)]
    fn bare(&mut self, kind: OutcomeKind) {
        self.out.extend_from_slice(&[BARE[0], BARE[1], BARE[2], kind as u8]);
    }

    /// Appends a refusal with its stable name, and for `insufficient_funds` what was available (zero otherwise).
    #[inline]
    pub fn refused(&mut self, code: &str, available: u64) {
        self.refusal(code, available, None);
    }

    /// Appends a refusal that was decided at `decided_at_ms`, milliseconds since the epoch, for an earlier request.
    pub fn refused_before(&mut self, code: &str, available: u64, decided_at_ms: u64) {
        self.refusal(code, available, Some(decided_at_ms));
    }

    #[inline]
    fn refusal(&mut self, code: &str, available: u64, decided_at_ms: Option<u64>) {
        let code_width = if code.is_empty() { 0 } else { 1 + varint::width(code.len() as u64) + code.len() };
        let width = |number: u64| if number == 0 { 0 } else { 1 + varint::width(number) };
        let remembered_width = decided_at_ms.map_or(0, |decided_at_ms| 2 + width(decided_at_ms));
        self.out.push(BARE[0]);
        varint::write(self.out, (2 + code_width + width(available) + remembered_width) as u64);
        self.out.extend_from_slice(&[BARE[2], OutcomeKind::Refused as u8]);
        if !code.is_empty() {
            self.out.push(0x1a);
            varint::write(self.out, code.len() as u64);
            self.out.extend_from_slice(code.as_bytes());
        }
        self.number(0x20, available);
        if let Some(decided_at_ms) = decided_at_ms {
            self.number(0x28, 1);
            self.number(0x30, decided_at_ms);
        }
    }

    fn number(&mut self, tag: u8, number: u64) {
        if number != 0 {
            self.out.push(tag);
            varint::write(self.out, number);
        }
    }

    /// Completes the frame.
    pub fn finish(self) {
        self.frame.close(self.out);
    }
}
