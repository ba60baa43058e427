//! Delivery receipts: a `deliver_sm` that says what became of a message.

use crate::coding::decoded;
use crate::incoming::Delivered;

/// Bits of `esm_class` that say what a `deliver_sm` is.
const TYPE_BITS: u8 = 0b0011_1100;
/// They are not zero for receipts, acknowledgements and notifications: a receipt of the SMSC, of the phone, of its
/// user, an end of a dialogue, and an intermediate notification.
const MESSAGE: u8 = 0;

/// What a receipt says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// The id of the message in `receipted_message_id`: as the response to its submission had it.
    pub tlv_id: Option<Box<str>>,
    /// The id in the text, which some SMSCs write in another base.
    pub text_id: Option<Box<str>>,
    /// `DELIVRD`, `UNDELIV`, `EXPIRED` …; empty if it does not say.
    pub state: Box<str>,
    /// What the network said; empty if it does not say.
    pub error: Box<str>,
}

/// The receipt that a `deliver_sm` is; `None` if it is a message.
pub fn receipt_of(delivered: &Delivered) -> Option<Receipt> {
    if delivered.esm_class & TYPE_BITS == MESSAGE && delivered.receipted_id.is_none() {
        return None;
    }
    // Receipts are ASCII, whatever the alphabet; those of UCS-2 are rare, and read as such.
    let coding = if delivered.data_coding == 8 { 8 } else { 1 };
    let text = decoded(coding, &delivered.text).unwrap_or_default();
    let state = word_behind(&text, "stat:").map(Box::from);
    Some(Receipt {
        tlv_id: delivered.receipted_id.clone(),
        text_id: word_behind(&text, "id:").map(Box::from),
        state: state.or_else(|| delivered.message_state.map(state_of)).unwrap_or_default(),
        error: word_behind(&text, "err:").map(Box::from).unwrap_or_default(),
    })
}

/// The word behind a key, in any case. The key begins the text or stands behind a space.
fn word_behind<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let lower = text.to_ascii_lowercase();
    let begins = |at: &usize| *at == 0 || lower.as_bytes()[at - 1].is_ascii_whitespace();
    let at = lower.match_indices(key).map(|(at, _)| at).find(begins)?;
    let word = text[at + key.len()..].split_ascii_whitespace().next()?;
    // Without a value, the next key follows.
    (!word.contains(':')).then_some(word)
}

/// The word of `message_state` (SMPP 5.0, 4.7.15).
fn state_of(state: u8) -> Box<str> {
    let words =
        ["SCHEDLD", "ENROUTE", "DELIVRD", "EXPIRED", "DELETED", "UNDELIV", "ACCEPTD", "UNKNOWN", "REJECTD", "SKIPPED"];
    words.get(usize::from(state)).copied().unwrap_or("UNKNOWN").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(esm_class: u8, text: &str) -> Delivered {
        Delivered { esm_class, text: text.as_bytes().to_vec(), ..Delivered::default() }
    }

    #[test]
    fn receipts_are_told_from_messages() {
        let text =
            "id:0A1b sub:001 dlvrd:001 submit date:2601021504 done date:2601021505 stat:DELIVRD err:000 text:Id:7";
        let receipt = receipt_of(&delivered(4, text)).unwrap();
        assert_eq!((receipt.text_id.as_deref(), &*receipt.state, &*receipt.error), (Some("0A1b"), "DELIVRD", "000"));
        assert_eq!(receipt_of(&delivered(0, text)), None);
        assert_eq!(receipt_of(&delivered(0x40, text)), None);
        let by_tlv = Delivered { receipted_id: Some("77".into()), message_state: Some(5), ..delivered(0, "") };
        let receipt = receipt_of(&by_tlv).unwrap();
        assert_eq!((receipt.tlv_id.as_deref(), receipt.text_id, &*receipt.state), (Some("77"), None, "UNDELIV"));
    }

    #[test]
    fn receipts_with_holes_are_read_as_far_as_they_go() {
        let read = |text: &str| receipt_of(&delivered(4, text)).unwrap();
        assert_eq!(read("ID:9 Stat:REJECTD").text_id.as_deref(), Some("9"));
        assert_eq!(read("void:9").text_id, None);
        assert_eq!(read("id: sub:001 stat:EXPIRED"), Receipt { state: "EXPIRED".into(), ..Receipt::default() });
        assert_eq!(read("id:"), Receipt::default());
        assert_eq!(read("\u{e9} id:1").text_id.as_deref(), Some("1"));
    }
}
