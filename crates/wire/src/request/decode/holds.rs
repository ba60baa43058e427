//! Holds, and the posts and voids that settle them.

use super::id_space;
use crate::error::DecodeError;
use crate::field::{for_each, for_each_item};

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
    /// Of this body.
    pub(super) fn new(bytes: &'a [u8]) -> HoldsRef<'a> {
        HoldsRef { bytes }
    }

    /// Gives each hold to `sink`, in order, and returns whether they are linked. After an error, what the sink was
    /// given must be dropped.
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

/// The posts of a request, not read yet.
#[derive(Clone, Copy, Debug)]
pub struct PostHoldsRef<'a> {
    bytes: &'a [u8],
}

impl<'a> PostHoldsRef<'a> {
    /// Of this body.
    pub(super) fn new(bytes: &'a [u8]) -> PostHoldsRef<'a> {
        PostHoldsRef { bytes }
    }

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

/// The voids of a request, not read yet.
#[derive(Clone, Copy, Debug)]
pub struct VoidHoldsRef<'a> {
    bytes: &'a [u8],
}

impl<'a> VoidHoldsRef<'a> {
    /// Of this body.
    pub(super) fn new(bytes: &'a [u8]) -> VoidHoldsRef<'a> {
        VoidHoldsRef { bytes }
    }

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
