//! Checks of a request that do not depend on the state: the same answer at every retry, so never journaled.
//!
//! An account id that the ledger knows was checked when it was opened, so the hot path checks ids only if it finds no
//! account.
//!
//! What a record has was valid when it was decided: records, snapshots and requests that are repeated are held to the
//! rules of the past (`is_known_…`), so that a stricter rule never makes a journal unreadable or a retry fail.

use super::limits::{
    ACCOUNT_ID_BYTES_MAX, ASSET_BYTES_MAX, HOLD_EXPIRES_IN_MS_MAX, MEMO_BYTES_MAX, TRANSFER_ID_BYTES_MAX,
    USER_DATA_BYTES_MAX,
};
use super::outcome::Refusal;
use super::request::{Hold, Label, Transfer};
use super::visible::{is_visible, was_visible};
use crate::Amount;
use crate::text_words::is_printable_ascii;
use crate::{ID_SPACE_BYTES_MAX, IdSpace};

/// Whether a transfer's form is right: everything that can be refused without knowing any account.
pub fn check_transfer(transfer: &Transfer<'_>) -> Result<(), Refusal> {
    check_form(transfer.id, false, transfer.debit, transfer.credit, transfer.amount, transfer.memo)?;
    check_label(&transfer.label)?;
    check_accounts(transfer.debit, transfer.credit)
}

/// Whether a hold's form is right: everything that can be refused without knowing any account.
pub fn check_hold(hold: &Hold<'_>) -> Result<(), Refusal> {
    check_form(hold.id, false, hold.debit, hold.credit, hold.amount, hold.memo)?;
    check_label(&hold.label)?;
    check_expiry(hold.expires_in_ms)?;
    check_accounts(hold.debit, hold.credit)
}

/// Everything but the form of account ids. An id that `is_known` has a record already. Returns the amount.
#[inline]
pub(super) fn check_form(
    id: &str,
    is_known: bool,
    debit: &str,
    credit: &str,
    amount: u64,
    memo: &str,
) -> Result<Amount, Refusal> {
    if !(is_transfer_id(id) || is_known && is_known_id(id)) {
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

/// As [`check_accounts`], for a request whose id has a record already.
#[cold]
pub(super) fn check_known_accounts(debit: &str, credit: &str) -> Result<(), Refusal> {
    let are_ids = is_known_account_id(debit) && is_known_account_id(credit);
    if are_ids { Ok(()) } else { Err(Refusal::AccountIdInvalid) }
}

/// Whether a client can write `id` as one part of an address. Browsers and most libraries take `.` and `..` out of a
/// path, also as `%2e`: nobody could read what has such an id.
#[inline]
fn is_addressable(id: &str) -> bool {
    !matches!(id, "." | "..")
}

/// 1 to 64 bytes, printable, not `.` or `..`; before it, the name of an [id space](crate::IdSpace) and the separator,
/// or nothing.
#[inline]
pub fn is_transfer_id(id: &str) -> bool {
    let is_plain = is_plain_id(id, TRANSFER_ID_BYTES_MAX) && is_addressable(id);
    is_plain || in_space(id, is_printable) && is_addressable(IdSpace::split(id).1)
}

/// What [`is_transfer_id`] was when a transfer or hold of an older journal was decided.
pub(super) fn is_known_id(id: &str) -> bool {
    is_transfer_id(id) || in_space(id, was_printable)
}

#[cold]
fn in_space(id: &str, is_text: fn(&str) -> bool) -> bool {
    let (space, id) = IdSpace::split(id);
    let is_space = space.is_empty() || space.len() <= ID_SPACE_BYTES_MAX && is_text(space);
    is_space && !id.is_empty() && id.len() <= TRANSFER_ID_BYTES_MAX && is_text(id)
}

/// 1 to `bytes_max` bytes, printable.
#[inline]
pub(super) fn is_plain_id(id: &str, bytes_max: usize) -> bool {
    !id.is_empty() && id.len() <= bytes_max && is_printable(id)
}

/// 1 to 128 bytes, printable, not `.` or `..`, without `/`, which separates levels of a topic, and without `*`, which
/// ends a pattern of many ids: an id with it and a pattern could not be told apart.
pub fn is_account_id(id: &str) -> bool {
    let is_plain = is_plain_id(id, ACCOUNT_ID_BYTES_MAX) && is_addressable(id);
    is_plain && !id.as_bytes().iter().any(|byte| matches!(byte, b'/' | b'*'))
}

/// What [`is_account_id`] was when an account of an older journal was opened.
pub(super) fn is_known_account_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= ACCOUNT_ID_BYTES_MAX && !id.as_bytes().contains(&b'/') && was_printable(id)
}

/// 1 to 32 bytes, printable.
pub fn is_asset(asset: &str) -> bool {
    is_plain_id(asset, ASSET_BYTES_MAX)
}

/// What [`is_asset`] was when an account of an older journal was opened.
pub(super) fn is_known_asset(asset: &str) -> bool {
    !asset.is_empty() && asset.len() <= ASSET_BYTES_MAX && was_printable(asset)
}

/// Only characters that a person sees, and no space at an end: two ids that look the same to a person who compares them
/// must not differ in one of those.
#[inline]
pub fn is_printable(text: &str) -> bool {
    let is_visible = is_printable_ascii(text.as_bytes()) || (!text.is_ascii() && text.chars().all(is_visible));
    is_visible && !text.starts_with(' ') && !text.ends_with(' ')
}

pub(super) fn was_printable(text: &str) -> bool {
    // Each account that is opened or replayed comes here.
    is_printable_ascii(text.as_bytes()) || text.chars().all(was_visible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_printable() {
        for good in ["a", "wallet:dave", "ünïcode", "with space", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "票"] {
            assert!(is_account_id(good) && is_transfer_id(good), "{good:?}");
        }
        for bad in [" a", "a ", "\u{a0}a", "a\u{3164}", "\u{2800}", "a\u{fe0f}", "a\u{e0041}", "a\u{2003}b"] {
            assert!(!is_account_id(bad) && !is_transfer_id(bad) && !is_asset(bad), "{bad:?}");
        }
        for bad in ["", "a\nb", "\0", "a\u{7f}", "a\u{80}", "a\u{200b}b", "\u{202e}abc", "\u{2028}", "\u{feff}a"] {
            assert!(!is_account_id(bad) && !is_transfer_id(bad), "{bad:?}");
        }
        for bad in ["a/b", "*", "wallet:*", "a*b"] {
            assert!(!is_account_id(bad) && is_transfer_id(bad), "{bad:?}");
        }
        for unaddressable in [".", ".."] {
            assert!(!is_account_id(unaddressable) && !is_transfer_id(unaddressable), "{unaddressable:?}");
            assert!(!is_transfer_id(&format!("space\u{1f}{unaddressable}")) && is_asset(unaddressable));
            assert!(is_known_id(&format!("space\u{1f}{unaddressable}")));
        }
        assert!(["...", ".a", "a."].iter().all(|good| is_account_id(good) && is_transfer_id(good)));
    }

    #[test]
    fn what_older_journals_have_stays_known() {
        assert!(is_known_account_id("wallet:*"));
        for known in [".", "..", " a", "a ", "a\u{a0}b", "\u{3164}", "\u{2800}", "a\u{fe0f}", "a\u{e0041}"] {
            assert!(is_known_id(known) && is_known_account_id(known) && is_known_asset(known), "{known:?}");
        }
        for never in ["", "a\nb", "\u{202e}abc", "a\u{1f}b\u{1f}c", "\u{1f}"] {
            assert!(!is_known_id(never) && !is_known_account_id(never), "{never:?}");
        }
    }

    #[test]
    fn ids_have_their_longest_length() {
        assert!(is_transfer_id(&"x".repeat(64)) && !is_transfer_id(&"x".repeat(65)));
        assert!(is_account_id(&"x".repeat(128)) && !is_account_id(&"x".repeat(129)));
        assert!(is_account_id(&"é".repeat(64)) && !is_account_id(&"é".repeat(65)));
        assert!(is_asset(&"x".repeat(32)) && !is_asset(&"x".repeat(33)));
    }
}
