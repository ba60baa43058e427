//! What an SMSC delivers: receipts, for the trails of messages, and messages of phones, for a queue.

use std::rc::Rc;

use tidegate_queue::machine::limits::{PRIORITY_DEFAULT, REFERENCE_BYTES_MAX};
use tidegate_queue::machine::{Message, shortened};
use tidegate_smpp::{Delivered, Receipt, Status, decoded, receipt_of, response_to};

use super::keys::ReceiptId;
use super::session::{DELIVER_SM, Shared};
use crate::attributes::written;

impl Shared {
    /// Serves a `deliver_sm`, and answers it.
    pub async fn serve_delivery(self: &Rc<Self>, sequence: u32, delivered: &Delivered) {
        let served = match receipt_of(delivered) {
            Some(receipt) => self.note(&receipt).await,
            None => self.take_message(delivered).await,
        };
        let status = match served {
            Ok(()) => Status::OK,
            Err((status, why)) => {
                self.tell_strange("what the SMSC delivers is turned away", &why);
                status
            }
        };
        self.send(response_to(DELIVER_SM, sequence, status)).await;
    }

    /// Writes a receipt into the trail of its message. One that fits no message is answered all the same: it would
    /// come for ever.
    async fn note(&self, receipt: &Receipt) -> Result<(), (Status, String)> {
        let mut text = format!("{}: {}", self.link.link.consumer(), receipt.state);
        if !receipt.error.is_empty() {
            text.push_str(&format!(" (error {})", receipt.error));
        }
        let by_tlv = receipt.tlv_id.as_deref().map(|id| self.reference_of(id));
        let by_text = receipt.text_id.as_deref().map(|id| self.reference_in_receipt(id));
        for reference in by_tlv.into_iter().chain(by_text) {
            self.until_noted(&reference).await;
            let noted = self.queue.note(self.link.link.from.clone(), reference, &text).await;
            if noted.map_err(|why| (Status::TEMPORARY, why))? {
                self.metrics.receipts.increment();
                return Ok(());
            }
        }
        self.metrics.unmatched.increment();
        Ok(())
    }

    /// Puts a message of a phone into the queue for them.
    async fn take_message(&self, delivered: &Delivered) -> Result<(), (Status, String)> {
        let Some(inbound) = &self.link.inbound else {
            return Err((Status::PERMANENT, "there is no queue for messages of phones".to_owned()));
        };
        let text = decoded(delivered.data_coding, &delivered.text);
        let mut attributes = vec![("from", delivered.source.written()), ("to", delivered.destination.written())];
        if text.is_none() {
            attributes.push(("data_coding", delivered.data_coding.to_string()));
        }
        if let Some(segment) = delivered.segment {
            attributes.push(("concat_reference", segment.reference.to_string()));
            attributes.push(("concat_parts", segment.all.to_string()));
            attributes.push(("concat_part", segment.number.to_string()));
        }
        let body = text.map_or_else(|| delivered.text.clone(), String::into_bytes);
        let message = Message {
            priority: PRIORITY_DEFAULT,
            attributes: written(&attributes),
            body: body.into(),
            ..Message::default()
        };
        self.queue.send(inbound.clone(), message).await.map_err(|why| (Status::TEMPORARY, why))?;
        self.metrics.inbound.increment();
        Ok(())
    }

    /// The reference of a message by the id in the response to its submission.
    pub fn reference_of(&self, id: &str) -> Box<str> {
        match self.link.receipt_id {
            ReceiptId::Same => plain(id),
            ReceiptId::Decimal => number(id, 16),
            ReceiptId::Hex => number(id, 10),
        }
    }

    /// The same, by the id in the text of a receipt.
    fn reference_in_receipt(&self, id: &str) -> Box<str> {
        match self.link.receipt_id {
            ReceiptId::Same => plain(id),
            ReceiptId::Decimal => number(id, 10),
            ReceiptId::Hex => number(id, 16),
        }
    }
}

/// An id as a decimal number; as it is, if it is none.
fn number(id: &str, base: u32) -> Box<str> {
    u128::from_str_radix(id, base).map_or_else(|_| plain(id), |number| number.to_string().into())
}

/// An id as a queue takes it for a reference: without control characters, and not too long.
fn plain(id: &str) -> Box<str> {
    let plain: String = id.chars().filter(|letter| !letter.is_control()).collect();
    shortened(&plain, REFERENCE_BYTES_MAX).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_another_base_are_one_number() {
        assert_eq!((number("0A1b", 16), number("2587", 10)), ("2587".into(), "2587".into()));
        assert_eq!((number("abc-1", 16), number("", 10)), ("abc-1".into(), "".into()));
        assert_eq!((plain("a\tb"), number("a\n", 16)), ("ab".into(), "a".into()));
    }

    /// One that a queue refuses would keep others of its batch from being told, too.
    #[test]
    fn ids_that_are_too_long_for_a_reference_are_cut() {
        for id in ["x".repeat(300), "\u{fffd}".repeat(40), "0".repeat(101) + "1"] {
            let found = [plain(&id), number(&id, 10)];
            assert!(found.iter().all(|id| !id.is_empty() && id.len() <= REFERENCE_BYTES_MAX), "{found:?}");
        }
    }
}
