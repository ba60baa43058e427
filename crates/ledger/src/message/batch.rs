//! Transfers and accounts of one request: its bytes once, and where in them each text stands.

use bytes::Bytes;
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::{AccountKind, Label, Transfer};

/// A piece of text inside the bytes of the request it came with: offset and length, checked when it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub offset: u32,
    /// Length in bytes.
    pub length: u32,
}

/// One transfer of a [`TransferBatch`], its texts as spans of the batch's `text`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferItem {
    /// Transfer id.
    pub id: Span,
    /// Account to debit.
    pub debit: Span,
    /// Account to credit.
    pub credit: Span,
    /// Memo, empty for none.
    pub memo: Span,
    /// Minor units, not yet validated.
    pub amount: u64,
}

/// Code and user data of one transfer of a [`TransferBatch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemLabel {
    /// Code; 0 for none.
    pub code: u32,
    /// User data, empty for none.
    pub user_data: Span,
}

/// Transfers as they arrived: the bytes of the request once, and where in them each text stands. Nothing is copied on
/// the way from the socket to the journal.
#[derive(Clone, Debug, Default)]
pub struct TransferBatch {
    text: Bytes,
    items: Vec<TransferItem>,
    /// One for each item, or none at all: most batches have no labels and carry none.
    labels: Vec<ItemLabel>,
}

impl TransferBatch {
    /// Takes the bytes and the spans into them; `labels` has one for each item, or none at all. `Err` with the index of
    /// the first item that has a span outside `text` or not on valid UTF-8.
    pub fn new(text: Bytes, items: Vec<TransferItem>, labels: Vec<ItemLabel>) -> Result<TransferBatch, usize> {
        assert!(labels.is_empty() || labels.len() == items.len(), "a label for each item, or for none");
        let whole_is_text = std::str::from_utf8(&text).is_ok();
        for (index, item) in items.iter().enumerate() {
            let user_data = labels.get(index).map_or_else(Span::default, |label| label.user_data);
            for span in [item.id, item.debit, item.credit, item.memo, user_data] {
                let end = span.offset as usize + span.length as usize;
                let Some(bytes) = text.get(span.offset as usize..end) else { return Err(index) };
                let valid = if whole_is_text {
                    std::str::from_utf8(bytes).is_ok()
                } else {
                    bytes.is_ascii() || std::str::from_utf8(bytes).is_ok()
                };
                if !valid {
                    return Err(index);
                }
            }
        }
        Ok(TransferBatch { text, items, labels })
    }

    /// Copies transfers into a batch of its own (JSON requests, tests).
    pub fn copy_of<'a>(transfers: impl IntoIterator<Item = Transfer<'a>>) -> TransferBatch {
        let mut text = Vec::new();
        let mut span = |s: &str| {
            let offset = text.len() as u32;
            text.extend_from_slice(s.as_bytes());
            Span { offset, length: s.len() as u32 }
        };
        let (mut items, mut labels) = (Vec::new(), Vec::new());
        for t in transfers {
            if !t.label.is_none() {
                labels.resize(items.len(), ItemLabel::default());
                labels.push(ItemLabel { code: t.label.code, user_data: span(t.label.user_data) });
            }
            items.push(TransferItem {
                id: span(t.id),
                debit: span(t.debit),
                credit: span(t.credit),
                memo: span(t.memo),
                amount: t.amount,
            });
        }
        if !labels.is_empty() {
            labels.resize(items.len(), ItemLabel::default());
        }
        TransferBatch { text: text.into(), items, labels }
    }

    /// The same batch; of an id that names an id space nothing is left.
    pub(crate) fn without_spaces(mut self) -> TransferBatch {
        if !IdSpace::may_be_named_in(&self.text) {
            return self;
        }
        for index in 0..self.items.len() {
            let id = self.str(self.items[index].id);
            if IdSpace::checked(id).len() != id.len() {
                self.items[index].id = Span::default();
            }
        }
        self
    }

    /// Whether there is a code or user data in it.
    pub(crate) fn has_labels(&self) -> bool {
        !self.labels.is_empty()
    }

    /// How many transfers.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The transfer at `index`; panics beyond the end.
    pub fn get(&self, index: usize) -> Transfer<'_> {
        let item = &self.items[index];
        Transfer {
            id: self.str(item.id),
            debit: self.str(item.debit),
            credit: self.str(item.credit),
            amount: item.amount,
            memo: self.str(item.memo),
            label: if self.labels.is_empty() { Label::NONE } else { self.label(index) },
        }
    }

    #[cold]
    fn label(&self, index: usize) -> Label<'_> {
        let ItemLabel { code, user_data } = self.labels[index];
        Label { code, user_data: self.str(user_data) }
    }

    /// Bytes of all texts together, an upper bound.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// All transfers in order.
    pub fn iter(&self) -> impl Iterator<Item = Transfer<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    fn str(&self, span: Span) -> &str {
        let bytes = &self.text[span.offset as usize..(span.offset + span.length) as usize];
        // SAFETY: `new` checked every span to be valid UTF-8 and `copy_of` took it from a `str`; `text` is immutable.
        unsafe { std::str::from_utf8_unchecked(bytes) }
    }
}

/// One account of an [`OpenBatch`], its texts as spans of the batch's `text`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenItem {
    /// Account id.
    pub id: Span,
    /// Unit of measure.
    pub asset: Span,
    /// Kind.
    pub kind: AccountKind,
}

/// Accounts to open, as they arrived: like a [`TransferBatch`], without a copy of each text.
#[derive(Clone, Debug, Default)]
pub struct OpenBatch {
    text: Bytes,
    items: Vec<OpenItem>,
}

impl OpenBatch {
    /// Takes the bytes and the spans into them. `Err` with the index of the first item that has a span outside `text`
    /// or not on valid UTF-8.
    pub fn new(text: Bytes, items: Vec<OpenItem>) -> Result<OpenBatch, usize> {
        let is_text = |span: Span| {
            let bytes = text.get(span.offset as usize..span.offset as usize + span.length as usize);
            bytes.is_some_and(|bytes| std::str::from_utf8(bytes).is_ok())
        };
        match items.iter().position(|item| !is_text(item.id) || !is_text(item.asset)) {
            Some(index) => Err(index),
            None => Ok(OpenBatch { text, items }),
        }
    }

    /// Copies accounts (id, asset, kind) into a batch of its own.
    pub fn copy_of<'a>(accounts: impl IntoIterator<Item = (&'a str, &'a str, AccountKind)>) -> OpenBatch {
        let mut text = Vec::new();
        let mut span = |s: &str| {
            let offset = text.len() as u32;
            text.extend_from_slice(s.as_bytes());
            Span { offset, length: s.len() as u32 }
        };
        let items = accounts.into_iter().map(|(id, asset, kind)| OpenItem { id: span(id), asset: span(asset), kind });
        let items = items.collect();
        OpenBatch { text: text.into(), items }
    }

    /// How many accounts.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Id, asset and kind of the account at `index`; panics beyond the end.
    pub fn get(&self, index: usize) -> (&str, &str, AccountKind) {
        let item = &self.items[index];
        (self.str(item.id), self.str(item.asset), item.kind)
    }

    /// All ids in order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|item| self.str(item.id))
    }

    /// Bytes of all texts together, an upper bound.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    fn str(&self, span: Span) -> &str {
        let bytes = &self.text[span.offset as usize..(span.offset + span.length) as usize];
        // SAFETY: `new` checked every span to be valid UTF-8 and `copy_of` took it from a `str`; `text` is immutable.
        unsafe { std::str::from_utf8_unchecked(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer<'a>(id: &'a str, label: Label<'a>) -> Transfer<'a> {
        Transfer { id, debit: "from", credit: "to", amount: 3, memo: "memo", label }
    }

    #[test]
    fn a_batch_gives_back_what_was_put_into_it() {
        let label = Label { code: 7, user_data: "order" };
        let all = [transfer("a", Label::NONE), transfer("b", label), transfer("c", Label::NONE)];
        for (transfers, has_labels) in [(&all[..], true), (&all[..1], false), (&all[..0], false)] {
            let batch = TransferBatch::copy_of(transfers.iter().copied());
            assert_eq!(batch.iter().collect::<Vec<_>>(), transfers);
            assert_eq!((batch.len(), batch.is_empty()), (transfers.len(), transfers.is_empty()));
            assert_eq!(batch.has_labels(), has_labels, "one without labels is not a byte longer for them");
            let texts: usize = transfers.iter().map(|of| of.id.len() + 4 + 2 + 4 + of.label.user_data.len()).sum();
            assert_eq!(batch.text_bytes(), texts);
        }
        let accounts = [("a", "credit", AccountKind::Wallet), ("b", "gold", AccountKind::Source)];
        for accounts in [&accounts[..], &accounts[..0]] {
            let batch = OpenBatch::copy_of(accounts.iter().copied());
            assert_eq!((0..batch.len()).map(|at| batch.get(at)).collect::<Vec<_>>(), accounts);
            assert_eq!((batch.len(), batch.is_empty()), (accounts.len(), accounts.is_empty()));
        }
    }
}
