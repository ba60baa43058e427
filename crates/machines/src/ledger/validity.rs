//! Checks of a request that do not depend on the state: the same answer at every retry, so never journaled.
//!
//! An account id that the ledger knows was checked when it was opened, so the hot path checks ids only if it finds no
//! account.

use super::limits::{
    ACCOUNT_ID_BYTES_MAX, ASSET_BYTES_MAX, HOLD_EXPIRES_IN_MS_MAX, MEMO_BYTES_MAX, TRANSFER_ID_BYTES_MAX,
    USER_DATA_BYTES_MAX,
};
use super::outcome::Refusal;
use super::request::{Hold, Label, Transfer};
use crate::Amount;

/// Whether a transfer's form is right: everything that can be refused without knowing any account.
pub fn check_transfer(transfer: &Transfer<'_>) -> Result<(), Refusal> {
    check_form(transfer.id, transfer.debit, transfer.credit, transfer.amount, transfer.memo)?;
    check_label(&transfer.label)?;
    check_accounts(transfer.debit, transfer.credit)
}

/// Whether a hold's form is right: everything that can be refused without knowing any account.
pub fn check_hold(hold: &Hold<'_>) -> Result<(), Refusal> {
    check_form(hold.id, hold.debit, hold.credit, hold.amount, hold.memo)?;
    check_label(&hold.label)?;
    check_expiry(hold.expires_in_ms)?;
    check_accounts(hold.debit, hold.credit)
}

/// Everything but the form of account ids. Returns the amount, which is one.
#[inline]
pub(super) fn check_form(id: &str, debit: &str, credit: &str, amount: u64, memo: &str) -> Result<Amount, Refusal> {
    if !is_transfer_id(id) {
        return Err(Refusal::IdInvalid);
    }
    let Some(amount) = Amount::new(amount) else { return Err(Refusal::AmountInvalid) };
    if memo.len() > MEMO_BYTES_MAX {
        return Err(Refusal::MemoTooLong);
    }
    if debit == credit {
        return Err(Refusal::SameAccount);
    }
    Ok(amount)
}

#[inline]
pub(super) fn check_label(label: &Label<'_>) -> Result<(), Refusal> {
    if label.user_data.len() > USER_DATA_BYTES_MAX { Err(Refusal::UserDataTooLong) } else { Ok(()) }
}

pub(super) fn check_expiry(expires_in_ms: u64) -> Result<(), Refusal> {
    if expires_in_ms == 0 || expires_in_ms > HOLD_EXPIRES_IN_MS_MAX { Err(Refusal::ExpiryInvalid) } else { Ok(()) }
}

#[cold]
pub(super) fn check_accounts(debit: &str, credit: &str) -> Result<(), Refusal> {
    if is_account_id(debit) && is_account_id(credit) { Ok(()) } else { Err(Refusal::AccountIdInvalid) }
}

/// 1 to 64 bytes, printable.
#[inline]
pub(super) fn is_transfer_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= TRANSFER_ID_BYTES_MAX && is_printable(id)
}

/// 1 to 128 bytes, printable, without `/`.
pub fn is_account_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= ACCOUNT_ID_BYTES_MAX && !id.contains('/') && is_printable(id)
}

/// 1 to 32 bytes, printable.
pub(super) fn is_asset(asset: &str) -> bool {
    !asset.is_empty() && asset.len() <= ASSET_BYTES_MAX && is_printable(asset)
}

/// No control characters, and none that are invisible or turn text around: two ids that look the same to a person who
/// compares them must not differ in one of those.
#[inline]
pub(super) fn is_printable(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) || (!text.is_ascii() && text.chars().all(is_visible))
}

#[cold]
fn is_visible(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        && !matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_printable() {
        for good in ["a", "wallet:dave", "ünïcode", "with space", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "票"] {
            assert!(is_account_id(good) && is_transfer_id(good), "{good:?}");
        }
        for bad in ["", "a\nb", "\0", "a\u{7f}", "a\u{80}", "a\u{200b}b", "\u{202e}abc", "\u{2028}", "\u{feff}a"] {
            assert!(!is_account_id(bad) && !is_transfer_id(bad), "{bad:?}");
        }
        assert!(!is_account_id("a/b") && is_transfer_id("a/b"));
    }

    #[test]
    fn ids_have_their_longest_length() {
        assert!(is_transfer_id(&"x".repeat(64)) && !is_transfer_id(&"x".repeat(65)));
        assert!(is_account_id(&"x".repeat(128)) && !is_account_id(&"x".repeat(129)));
        assert!(is_account_id(&"é".repeat(64)) && !is_account_id(&"é".repeat(65)));
        assert!(is_asset(&"x".repeat(32)) && !is_asset(&"x".repeat(33)));
    }
}
