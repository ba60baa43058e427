//! Accounts to open, in batches.

use super::{TextSpan, kind_of};
use crate::error::DecodeError;
use crate::field::{for_each, for_each_item};
use crate::proto::AccountKind;

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

impl<'a> OpenAccountsRef<'a> {
    /// Those in `bytes`, which begin at `begin` of the frame.
    pub(super) fn new(bytes: &'a [u8], begin: usize) -> OpenAccountsRef<'a> {
        OpenAccountsRef { bytes, begin }
    }

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
