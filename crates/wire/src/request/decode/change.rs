//! Changes of accounts.

use super::Plain;
use crate::error::DecodeError;
use crate::field::for_each;

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
    /// Of this body.
    pub(super) fn new(bytes: &'a [u8]) -> ChangeAccountRef<'a> {
        ChangeAccountRef { bytes }
    }

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
