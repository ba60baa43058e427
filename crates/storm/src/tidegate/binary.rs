//! Transfers over the binary port, in requests of a fixed number of transfers.

use super::session;
use crate::load::{Answer, Dialect, Outcomes};
use crate::workload::{Names, Parties, Payment, Workload};
use anyhow::{Result, bail};
use std::net::TcpStream;
use std::time::Instant;
use tidegate_wire::proto::{OutcomeKind, reply_frame};
use tidegate_wire::{ReplyBodyRef, Split, TransferRef, TransfersEncoder, decode_reply, limits, split};

/// Sends a workload as requests of `batch` transfers.
pub struct Transfers<'a> {
    names: &'a Names,
    work: Workload,
    batch: usize,
    linked: bool,
    until: Option<Instant>,
}

impl<'a> Transfers<'a> {
    /// Takes on `work`.
    pub fn new(names: &'a Names, work: Workload, batch: usize) -> Transfers<'a> {
        assert!((1..=limits::TRANSFERS_MAX).contains(&batch), "a request carries 1 to 8,190 transfers");
        Transfers { names, work, batch, linked: false, until: None }
    }

    /// The transfers of a request are applied together or not at all.
    pub fn linked(self, linked: bool) -> Self {
        Transfers { linked, ..self }
    }

    /// Asks nothing more from then on.
    pub fn until(self, until: Instant) -> Self {
        Transfers { until: Some(until), ..self }
    }

    /// Sum of all amounts sent.
    pub fn paid(&self) -> u128 {
        self.work.paid()
    }
}

impl Dialect for Transfers<'_> {
    const IN_ORDER: bool = false;

    fn greet(&mut self, socket: &mut TcpStream) -> Result<()> {
        session::log_in(socket)
    }

    fn transfers_left(&self) -> u64 {
        self.work.left()
    }

    fn ask(&mut self, tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        if self.work.left() == 0 || self.until.is_some_and(|until| Instant::now() >= until) {
            return Ok(false);
        }
        let mut frame = TransfersEncoder::begin(out, u64::from(tag), self.linked);
        for _ in 0..self.batch {
            let Some(payment) = self.work.next() else { break };
            frame.push(&transfer(&payment, &self.names.parties(&payment)));
        }
        frame.finish();
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some((correlation, answer)) = outcomes(bytes)? else { return Ok(None) };
        Ok(Some(Answer { tag: correlation as u32, ..answer }))
    }
}

/// A payment as the wire wants it.
#[inline]
pub fn transfer<'a>(payment: &'a Payment, parties: &'a Parties) -> TransferRef<'a> {
    TransferRef {
        id: payment.id.as_str().as_bytes(),
        debit: parties.debit.as_bytes(),
        credit: parties.credit.as_bytes(),
        amount: payment.amount,
        memo: b"",
        ..TransferRef::default()
    }
}

/// The reply at the front of `bytes`, which must be outcomes: its correlation and their count.
pub fn outcomes(bytes: &[u8]) -> Result<Option<(u64, Answer)>> {
    let Split::Frame(range) = split(bytes, limits::FRAME_BYTES_MAX)? else { return Ok(None) };
    let end = range.end;
    let reply = decode_reply(&bytes[range])?;
    let mut count = Outcomes::default();
    match reply.body {
        ReplyBodyRef::Outcomes(outcomes) => {
            for outcome in outcomes {
                match outcome?.outcome {
                    OutcomeKind::Applied => count.applied += 1,
                    OutcomeKind::Duplicate => count.duplicate += 1,
                    _ => count.refused += 1,
                }
            }
        }
        // Nothing of it was done: a case that knows how much it sent finds that it is missing.
        ReplyBodyRef::Other(reply_frame::Body::Error(error)) if error.code == "busy" => {}
        ReplyBodyRef::Other(reply_frame::Body::Error(error)) => {
            bail!("the server said {}: {}", error.code, error.detail)
        }
        ReplyBodyRef::Other(other) => bail!("outcomes were expected, not {other:?}"),
        ReplyBodyRef::Room(room) => bail!("outcomes were expected, not {room:?}"),
    }
    Ok(Some((reply.correlation, Answer { bytes: end, tag: 0, outcomes: count })))
}
