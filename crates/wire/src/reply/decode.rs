//! Decodes replies. Outcomes are iterated in place; the other bodies are small or rare and become generated types.

use super::{BARE, OutcomeRef, number};
use crate::error::{BadFrame, DecodeError};
use crate::field::{Envelope, Fields, Value, for_each, for_each_item};
use crate::limits::TRANSFERS_MAX;
use crate::proto::{self, OutcomeKind, reply_frame};
use crate::room::{ROOM, RoomRef};
use prost::Message;

/// A reply.
#[derive(Clone, Debug)]
pub struct ReplyRef<'a> {
    /// The request's.
    pub correlation: u64,
    /// What is answered.
    pub body: ReplyBodyRef<'a>,
}

/// What a reply answers.
#[derive(Clone, Debug)]
pub enum ReplyBodyRef<'a> {
    /// Outcomes, still in the frame.
    Outcomes(OutcomesRef<'a>),
    /// Of a room that this schema does not know, still in the frame.
    Room(RoomRef<'a>),
    /// Any other body; neither [`reply_frame::Body::Outcomes`] nor [`reply_frame::Body::Room`].
    Other(reply_frame::Body),
}

/// Reads a frame, as [`crate::split`] cut it. Memory is bounded as in requests: no list of more than 8,190 items
/// becomes types.
pub fn decode_reply(frame: &[u8]) -> Result<ReplyRef<'_>, BadFrame> {
    let mut envelope = Envelope::default();
    let body = match envelope.read(frame, ROOM, number::TRANSFER_STATE..=number::ASSETS) {
        Ok(()) => body(&envelope),
        Err(error) => Err(error),
    };
    match body {
        Ok(body) => Ok(ReplyRef { correlation: envelope.correlation, body }),
        Err(error) => Err(BadFrame { correlation: envelope.correlation, error }),
    }
}

fn body<'a>(envelope: &Envelope<'a>) -> Result<ReplyBodyRef<'a>, DecodeError> {
    use reply_frame::Body;
    let bytes = envelope.body;
    Ok(ReplyBodyRef::Other(match envelope.number {
        number::OUTCOMES => return Ok(ReplyBodyRef::Outcomes(OutcomesRef { fields: Fields::of(bytes), bytes })),
        ROOM => return Ok(ReplyBodyRef::Room(RoomRef::read(bytes)?)),
        number::WELCOME => Body::Welcome(generated(bytes)?),
        number::ACCOUNT_OPENED => Body::AccountOpened(generated(bytes)?),
        number::ACCOUNT => Body::Account(generated(bytes)?),
        number::ACCOUNTS => {
            for_each_item(bytes, |_| Ok(()))?;
            Body::Accounts(generated(bytes)?)
        }
        number::HISTORY => {
            for_each_item(bytes, |_| Ok(()))?;
            Body::History(generated(bytes)?)
        }
        number::AUDIT => {
            check_audit(bytes)?;
            Body::Audit(generated(bytes)?)
        }
        number::PONG => Body::Pong(generated(bytes)?),
        number::ERROR => Body::Error(generated(bytes)?),
        number::TRANSFER_STATE => Body::TransferState(generated(bytes)?),
        number::HOLD_STATE => Body::HoldState(generated(bytes)?),
        number::OPEN_HOLDS => {
            for_each_item(bytes, |_| Ok(()))?;
            Body::OpenHolds(generated(bytes)?)
        }
        number::ACCOUNT_CHANGED => Body::AccountChanged(generated(bytes)?),
        number::ASSET_DECLARED => Body::AssetDeclared(generated(bytes)?),
        number::ASSETS => {
            for_each_item(bytes, |_| Ok(()))?;
            Body::Assets(generated(bytes)?)
        }
        _ => return Err(DecodeError::BodyMissing),
    }))
}

/// Bounds the differences of all shards together.
fn check_audit(audit: &[u8]) -> Result<(), DecodeError> {
    const DIFFERENCES: u32 = 5;
    let mut differences = 0;
    for_each_item(audit, |report| {
        for_each(report.bytes()?, |number, _| {
            differences += usize::from(number == DIFFERENCES);
            if differences > TRANSFERS_MAX { Err(DecodeError::TooManyItems) } else { Ok(()) }
        })
    })
}

/// Through prost, whose errors say no more than ours once the bytes are known to be in a frame.
fn generated<M: Message + Default>(bytes: &[u8]) -> Result<M, DecodeError> {
    // First by our own rules, so that prost meets neither groups nor truncated fields, and the error is a precise one.
    for_each(bytes, |_, _| Ok(()))?;
    M::decode(bytes).map_err(|_| DecodeError::WireTypeMismatch)
}

/// The outcomes of a reply, in the order the request asked. Iterating allocates nothing; after an error it ends.
#[derive(Clone, Debug)]
pub struct OutcomesRef<'a> {
    bytes: &'a [u8],
    fields: Fields<'a>,
}

impl<'a> OutcomesRef<'a> {
    /// All outcomes as generated types, with the bound of [`TRANSFERS_MAX`].
    pub fn to_proto(&self) -> Result<proto::Outcomes, DecodeError> {
        let mut outcomes = Vec::new();
        for outcome in self.clone() {
            let OutcomeRef { outcome, code, available, remembered, decided_at_ms } = outcome?;
            if outcomes.len() == TRANSFERS_MAX {
                return Err(DecodeError::TooManyItems);
            }
            outcomes.push(proto::Outcome {
                id: String::new(),
                outcome: outcome as i32,
                code: code.to_owned(),
                available,
                remembered,
                decided_at_ms,
            });
        }
        Ok(proto::Outcomes { outcomes })
    }
}

impl<'a> Iterator for OutcomesRef<'a> {
    type Item = Result<OutcomeRef<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // What nearly all of a batch look like, see `reply`.
        if let Some(&[a, b, c, kind @ (1 | 2)]) = self.bytes[self.fields.offset()..].first_chunk::<4>()
            && [a, b, c] == BARE
        {
            self.fields.skip(4);
            let outcome = if kind == 1 { OutcomeKind::Applied } else { OutcomeKind::Duplicate };
            return Some(Ok(OutcomeRef { outcome, ..OutcomeRef::default() }));
        }
        let next = self.next_of_any_form();
        if let Some(Err(_)) = next {
            self.fields = Fields::of(&[]);
            self.bytes = &[];
        }
        next
    }
}

impl<'a> OutcomesRef<'a> {
    fn next_of_any_form(&mut self) -> Option<Result<OutcomeRef<'a>, DecodeError>> {
        loop {
            match self.fields.next() {
                Ok(Some((1, value))) => return Some(outcome(value)),
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn outcome(item: Value<'_>) -> Result<OutcomeRef<'_>, DecodeError> {
    let mut outcome = OutcomeRef::default();
    for_each(item.bytes()?, |number, value| {
        match number {
            2 => outcome.outcome = OutcomeKind::try_from(value.varint()? as i32).unwrap_or_default(),
            3 => outcome.code = value.text()?,
            4 => outcome.available = value.varint()?,
            5 => outcome.remembered = value.varint()? != 0,
            6 => outcome.decided_at_ms = value.varint()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(outcome)
}
