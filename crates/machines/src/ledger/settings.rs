//! What can be set on an account after it was opened: its status, limits of its balance, metadata.
//!
//! ```text
//!   home       ChangeAccount ─▶ revision n+1 ─▶ AccountChanged
//!                                                    │ told to all shards before the request is answered
//!   others     AdoptChange   ─▶ revision newer? ─▶ AccountChanged (status and limits, no metadata)
//! ```
//!
//! Promise: once a change is answered, no shard decides anything that it forbids. A credit that another shard decided
//! before is still taken in, because the debit decides and is final.
//!
//! Why a table beside the accounts: of ten million accounts few have settings, and the others pay one bit.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::account::AccountSlot;
use super::limits::{METADATA_BYTES_MAX, METADATA_KEY_BYTES_MAX, METADATA_KEYS_MAX, METADATA_VALUE_BYTES_MAX};
use super::outcome::Refusal;
use super::request::AccountKind;
use super::validity::{is_printable, was_printable};
use crate::encoding::{Malformed, Parsed, Reader, put_text, put_varint, put_zigzag, require};

/// Which movements an account takes part in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AccountStatus {
    /// All.
    #[default]
    Open = 0,
    /// Nothing leaves it: no transfer, hold or post debits it. It can be credited.
    DebitsFrozen = 1,
    /// Nothing leaves it and nothing enters it. Its open holds can be voided, and expire.
    Frozen = 2,
    /// As frozen, and it was empty when it was closed. It can be opened again.
    Closed = 3,
}

impl AccountStatus {
    /// From the number that stands for it in records.
    pub const fn from_number(number: u8) -> Option<AccountStatus> {
        match number {
            0 => Some(AccountStatus::Open),
            1 => Some(AccountStatus::DebitsFrozen),
            2 => Some(AccountStatus::Frozen),
            3 => Some(AccountStatus::Closed),
            _ => None,
        }
    }

    /// Why nothing may leave the account; `None` if it may.
    pub const fn forbids_debit(self) -> Option<Refusal> {
        match self {
            AccountStatus::Open => None,
            AccountStatus::DebitsFrozen | AccountStatus::Frozen => Some(Refusal::DebitAccountFrozen),
            AccountStatus::Closed => Some(Refusal::DebitAccountClosed),
        }
    }

    /// Why nothing may enter the account; `None` if it may.
    pub const fn forbids_credit(self) -> Option<Refusal> {
        match self {
            AccountStatus::Open | AccountStatus::DebitsFrozen => None,
            AccountStatus::Frozen => Some(Refusal::CreditAccountFrozen),
            AccountStatus::Closed => Some(Refusal::CreditAccountClosed),
        }
    }
}

/// The rules that a change leaves on an account. All that other shards learn of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountRules {
    /// Which movements it takes part in.
    pub status: AccountStatus,
    /// A debit or hold that would leave less available than this is refused, minor units.
    pub balance_min: Option<i64>,
    /// A credit that would leave a larger balance than this is refused, also a hold for one, minor units.
    pub balance_max: Option<i64>,
}

impl AccountRules {
    /// Whether there is anything to check when money moves.
    pub fn restrict(&self) -> bool {
        *self != AccountRules::default()
    }

    /// Whether they make sense for this kind of account.
    pub fn check(&self, kind: AccountKind) -> Result<(), Refusal> {
        let limited = self.balance_min.is_some() || self.balance_max.is_some();
        match kind {
            // Its balance is in parts, which no shard sees together.
            AccountKind::Collector if limited || self.status == AccountStatus::Closed => {
                return Err(Refusal::SettingNotAllowed);
            }
            AccountKind::Wallet if self.balance_min.is_some_and(|min| min < 0) => return Err(Refusal::LimitsInvalid),
            _ => {}
        }
        match (self.balance_min, self.balance_max) {
            (Some(min), Some(max)) if min > max => Err(Refusal::LimitsInvalid),
            (_, Some(max)) if kind == AccountKind::Wallet && max < 0 => Err(Refusal::LimitsInvalid),
            _ => Ok(()),
        }
    }
}

/// Everything that was set on one account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountSettings {
    /// How often it was changed; a shard that is not the account's home knows the newest that it was told.
    pub revision: u64,
    /// Status and limits.
    pub rules: AccountRules,
    /// Keys and values of the client's, in byte order of the keys. Only at the account's home.
    pub metadata: BTreeMap<Box<str>, Box<str>>,
}

impl std::ops::Deref for AccountSettings {
    type Target = AccountRules;
    fn deref(&self) -> &AccountRules {
        &self.rules
    }
}

/// What to change on an account; what is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountChange<'a> {
    /// Refuse unless the account is at this revision (0: never changed).
    pub if_revision: Option<u64>,
    /// The new status.
    pub status: Option<AccountStatus>,
    /// The new lower limit, or none.
    pub balance_min: Option<Option<i64>>,
    /// The new upper limit, or none.
    pub balance_max: Option<Option<i64>>,
    /// Keys to set and to remove.
    pub metadata: MetadataPatch<'a>,
}

/// Keys of metadata to set or to remove, as its record has them: entries in byte order of the keys, each the key, then
/// 0 (removed) or 1 and the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetadataPatch<'a> {
    bytes: &'a [u8],
}

impl<'a> MetadataPatch<'a> {
    /// Nothing changes.
    pub const NONE: MetadataPatch<'static> = MetadataPatch { bytes: &[] };

    /// Writes a patch into `out`, which must be empty; `None` removes a key. Refused: too many keys, too many bytes, a
    /// key that is empty, too long or not printable, a value that is too long.
    pub fn write(changes: &BTreeMap<Box<str>, Option<Box<str>>>, out: &'a mut Vec<u8>) -> Result<Self, Refusal> {
        assert!(out.is_empty(), "a patch is all of its bytes");
        for (key, value) in changes {
            if !is_printable(key) {
                return Err(Refusal::MetadataInvalid);
            }
            put_text(out, key);
            match value {
                None => out.push(0),
                Some(value) => {
                    out.push(1);
                    put_text(out, value);
                }
            }
        }
        MetadataPatch::read(out).map_err(|_| Refusal::MetadataInvalid)
    }

    /// Takes bytes that are a patch.
    pub(super) fn read(bytes: &'a [u8]) -> Parsed<MetadataPatch<'a>> {
        let (mut reader, mut keys, mut total, mut before) = (Reader::new(bytes), 0, 0, "");
        while !reader.is_empty() {
            let (key, value) = get_entry(&mut reader)?;
            keys += 1;
            total += key.len() + value.map_or(0, str::len);
            require(before < key, "order of metadata keys")?;
            before = key;
        }
        require(keys <= METADATA_KEYS_MAX && total <= METADATA_BYTES_MAX, "size of metadata")?;
        Ok(MetadataPatch { bytes })
    }

    /// Takes bytes that [`MetadataPatch::bytes`] gave; `None` if they are not a patch.
    pub fn from_bytes(bytes: &'a [u8]) -> Option<MetadataPatch<'a>> {
        MetadataPatch::read(bytes).ok()
    }

    /// The bytes of the record.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Keys with their new values; `None` for a key that is removed.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Option<&'a str>)> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        std::iter::from_fn(move || {
            (!reader.is_empty()).then(|| get_entry(&mut reader).expect("a patch was checked when it was made"))
        })
    }

    /// The metadata that it makes of `before`; refused if that is too much.
    fn apply(&self, before: &BTreeMap<Box<str>, Box<str>>) -> Result<BTreeMap<Box<str>, Box<str>>, Refusal> {
        let mut after = before.clone();
        for (key, value) in self.iter() {
            match value {
                Some(value) => after.insert(key.into(), value.into()),
                None => after.remove(key),
            };
        }
        if is_too_much(&after) { Err(Refusal::MetadataInvalid) } else { Ok(after) }
    }
}

fn is_too_much(metadata: &BTreeMap<Box<str>, Box<str>>) -> bool {
    let bytes: usize = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    metadata.len() > METADATA_KEYS_MAX || bytes > METADATA_BYTES_MAX
}

fn get_entry<'a>(reader: &mut Reader<'a>) -> Parsed<(&'a str, Option<&'a str>)> {
    let key = reader.text(1, METADATA_KEY_BYTES_MAX, "metadata key")?;
    // The rule of the past, so that a stricter one never makes a journal unreadable.
    require(was_printable(key), "metadata key")?;
    match reader.byte("metadata value")? {
        0 => Ok((key, None)),
        1 => Ok((key, Some(reader.text(0, METADATA_VALUE_BYTES_MAX, "metadata value")?))),
        _ => Err(Malformed { what: "metadata value" }),
    }
}

impl AccountSettings {
    /// What `change` makes of these settings, at the next revision. The same settings, with the same revision, if
    /// nothing is different.
    pub(super) fn changed(&self, kind: AccountKind, change: &AccountChange<'_>) -> Result<AccountSettings, Refusal> {
        let rules = AccountRules {
            status: change.status.unwrap_or(self.rules.status),
            balance_min: change.balance_min.unwrap_or(self.rules.balance_min),
            balance_max: change.balance_max.unwrap_or(self.rules.balance_max),
        };
        rules.check(kind)?;
        let metadata = change.metadata.apply(&self.metadata)?;
        let revision = self.revision + u64::from(rules != self.rules || metadata != self.metadata);
        Ok(AccountSettings { revision, rules, metadata })
    }
}

/// The settings of the accounts that have any.
#[derive(Clone, Debug, Default)]
pub(super) struct SettingsTable {
    by_slot: BTreeMap<AccountSlot, Arc<AccountSettings>>,
}

impl SettingsTable {
    pub fn get(&self, slot: AccountSlot) -> Option<&Arc<AccountSettings>> {
        self.by_slot.get(&slot)
    }

    /// The rules of an account, none if it has no settings.
    pub fn rules(&self, slot: AccountSlot) -> AccountRules {
        self.get(slot).map_or_else(AccountRules::default, |settings| settings.rules)
    }

    /// The settings of an account; the default if it has none.
    pub fn or_default(&self, slot: AccountSlot) -> AccountSettings {
        self.get(slot).map_or_else(AccountSettings::default, |settings| (**settings).clone())
    }

    pub fn set(&mut self, slot: AccountSlot, settings: AccountSettings) {
        assert!(settings.revision > 0, "settings begin with the first change");
        self.by_slot.insert(slot, Arc::new(settings));
    }

    pub fn len(&self) -> usize {
        self.by_slot.len()
    }

    /// The last account in the order of slots.
    pub fn last_slot(&self) -> Option<AccountSlot> {
        self.by_slot.last_key_value().map(|(slot, _)| *slot)
    }

    /// In the order of slots.
    pub fn iter(&self) -> impl Iterator<Item = (AccountSlot, &AccountSettings)> {
        self.by_slot.iter().map(|(slot, settings)| (*slot, &**settings))
    }
}

const HAS_MIN: u8 = 0x10;
const HAS_MAX: u8 = 0x20;
const STATUS_MASK: u8 = 0x0f;

/// Status and limits, as records and snapshots have them: a byte with the status and which limits follow.
pub(super) fn put_rules(out: &mut Vec<u8>, rules: &AccountRules) {
    let min = if rules.balance_min.is_some() { HAS_MIN } else { 0 };
    let max = if rules.balance_max.is_some() { HAS_MAX } else { 0 };
    out.push(rules.status as u8 | min | max);
    for limit in [rules.balance_min, rules.balance_max].into_iter().flatten() {
        put_zigzag(out, limit);
    }
}

pub(super) fn get_rules(reader: &mut Reader<'_>) -> Parsed<AccountRules> {
    let head = reader.byte("account status")?;
    require(head & !(STATUS_MASK | HAS_MIN | HAS_MAX) == 0, "account status")?;
    let status = AccountStatus::from_number(head & STATUS_MASK).ok_or(Malformed { what: "account status" })?;
    let balance_min = if head & HAS_MIN != 0 { Some(reader.zigzag("balance limit")?) } else { None };
    let balance_max = if head & HAS_MAX != 0 { Some(reader.zigzag("balance limit")?) } else { None };
    Ok(AccountRules { status, balance_min, balance_max })
}

/// As a snapshot has them.
pub(super) fn put_settings(out: &mut Vec<u8>, slot: AccountSlot, settings: &AccountSettings) {
    put_varint(out, slot.0.into());
    put_varint(out, settings.revision);
    put_rules(out, &settings.rules);
    put_varint(out, settings.metadata.len() as u64);
    for (key, value) in &settings.metadata {
        put_text(out, key);
        put_text(out, value);
    }
}

pub(super) fn get_settings(reader: &mut Reader<'_>) -> Parsed<(AccountSlot, AccountSettings)> {
    let slot = AccountSlot(reader.u32("account of settings")?);
    let revision = reader.varint("revision")?;
    require(revision > 0, "revision")?;
    let rules = get_rules(reader)?;
    let mut metadata: BTreeMap<Box<str>, Box<str>> = BTreeMap::new();
    for _ in 0..reader.varint("count of metadata keys")? {
        let key = reader.text(1, METADATA_KEY_BYTES_MAX, "metadata key")?;
        let value = reader.text(0, METADATA_VALUE_BYTES_MAX, "metadata value")?;
        let in_order = metadata.last_key_value().is_none_or(|(last, _)| **last < *key);
        require(was_printable(key) && in_order, "metadata key")?;
        metadata.insert(key.into(), value.into());
    }
    require(!is_too_much(&metadata), "size of metadata")?;
    Ok((slot, AccountSettings { revision, rules, metadata }))
}
