//! The fields of a message, in their order. Each decoder takes those it knows and skips the rest.

use std::ops::RangeInclusive;

use crate::error::DecodeError;
use crate::limits::TRANSFERS_MAX;
use crate::text::text;
use crate::varint;

/// The content of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 2.
    Bytes(&'a [u8]),
    /// Wire type 1.
    Fixed64(u64),
    /// Wire type 5: no field of a schema, so only passed over.
    Fixed32,
}

impl<'a> Value<'a> {
    pub(crate) fn varint(self) -> Result<u64, DecodeError> {
        match self {
            Value::Varint(value) => Ok(value),
            _ => Err(DecodeError::WireTypeMismatch),
        }
    }

    pub(crate) fn fixed64(self) -> Result<u64, DecodeError> {
        match self {
            Value::Fixed64(value) => Ok(value),
            _ => Err(DecodeError::WireTypeMismatch),
        }
    }

    pub(crate) fn bytes(self) -> Result<&'a [u8], DecodeError> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(DecodeError::WireTypeMismatch),
        }
    }

    pub(crate) fn text(self) -> Result<&'a str, DecodeError> {
        text(self.bytes()?)
    }
}

/// Walks over the fields of a message.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Fields<'a> {
        Fields { message, at: 0 }
    }

    /// Where the next field begins.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// Passes over `bytes` that the caller has seen to be whole fields.
    #[inline(always)]
    pub(crate) fn skip(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.message.len() - self.at);
        self.at += bytes;
    }

    /// The next field's number and content; `None` at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, DecodeError> {
        if self.at == self.message.len() {
            return Ok(None);
        }
        let tag = varint::read(self.message, &mut self.at)?;
        if tag < 8 || tag > u64::from(u32::MAX) {
            return Err(DecodeError::TagInvalid);
        }
        let value = match tag & 7 {
            0 => Value::Varint(varint::read(self.message, &mut self.at)?),
            1 => Value::Fixed64(self.fixed64()?),
            2 => {
                let length = varint::read(self.message, &mut self.at)?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed32)?,
            // Groups nest without a length; skipping one would need its own bound, and current encoders do not write
            // them.
            _ => return Err(DecodeError::TagInvalid),
        };
        Ok(Some(((tag >> 3) as u32, value)))
    }

    fn fixed64(&mut self) -> Result<u64, DecodeError> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes were taken")))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], DecodeError> {
        let rest = &self.message[self.at..];
        if length > rest.len() as u64 {
            return Err(DecodeError::Truncated);
        }
        self.at += length as usize;
        Ok(&rest[..length as usize])
    }
}

/// Calls `visit` with each field.
#[inline]
pub(crate) fn for_each<'a>(
    message: &'a [u8],
    mut visit: impl FnMut(u32, Value<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        visit(number, value)?;
    }
    Ok(())
}

/// Calls `visit` with each field number 1, of which there may be [`TRANSFERS_MAX`].
#[inline]
pub(crate) fn for_each_item<'a>(
    message: &'a [u8],
    mut visit: impl FnMut(Value<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut items = 0;
    for_each(message, |number, value| match number {
        1 if items == TRANSFERS_MAX => Err(DecodeError::TooManyItems),
        1 => {
            items += 1;
            visit(value)
        }
        _ => Ok(()),
    })
}

/// What both kinds of frame have in common: a correlation, and one body.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Envelope<'a> {
    pub(crate) correlation: u64,
    /// Field number of the body; zero while none was seen.
    pub(crate) number: u32,
    pub(crate) body: &'a [u8],
    /// Where in the frame the body begins.
    pub(crate) body_offset: usize,
}

impl<'a> Envelope<'a> {
    /// Reads `frame`, whose bodies have the field numbers 2 to `last_body` and those of `others`. On an error, `self`
    /// has what was read before it.
    pub(crate) fn read(
        &mut self,
        frame: &'a [u8],
        last_body: u32,
        others: RangeInclusive<u32>,
    ) -> Result<(), DecodeError> {
        let mut fields = Fields::of(frame);
        while let Some((number, value)) = fields.next()? {
            if number == 1 {
                self.correlation = value.varint()?;
            } else if number <= last_body || others.contains(&number) {
                if self.number != 0 {
                    return Err(DecodeError::BodyRepeated);
                }
                self.number = number;
                self.body = value.bytes()?;
                self.body_offset = fields.offset() - self.body.len();
            }
        }
        if self.number == 0 { Err(DecodeError::BodyMissing) } else { Ok(()) }
    }
}
