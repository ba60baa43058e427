//! Open holds. A closed hold is removed from memory: its closing event, found by the hold's id, has everything that
//! later requests need.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::Bound;

use hashbrown::{HashMap, HashTable};

use super::account::AccountSlot;
use super::limits::WHOLE_ID_BYTES_MAX;
use crate::{Amount, RecordPosition, TimeMs};

/// A hold id kept in place: holds come and go 400,000 times a second, and an allocation each would be most of their
/// cost.
#[derive(Clone, Debug)]
pub(super) struct HoldId {
    bytes: [u8; WHOLE_ID_BYTES_MAX],
    length: u8,
}

impl HoldId {
    /// Takes an id of at most [`WHOLE_ID_BYTES_MAX`] bytes.
    pub fn new(id: &str) -> HoldId {
        assert!(!id.is_empty() && id.len() <= WHOLE_ID_BYTES_MAX, "an id of {} bytes", id.len());
        let mut bytes = [0; WHOLE_ID_BYTES_MAX];
        bytes[..id.len()].copy_from_slice(id.as_bytes());
        HoldId { bytes, length: id.len() as u8 }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("made from a str")
    }
}

/// What an open hold reserves, and until when.
#[derive(Clone, Debug)]
pub(super) struct OpenHold {
    pub id: HoldId,
    pub debit: AccountSlot,
    pub credit: AccountSlot,
    pub amount: Amount,
    pub expires_in_ms: u64,
    /// Placement time plus lifetime, moved with the shard's time when that was mended.
    pub expires_at: TimeMs,
    /// The record that placed it; orders holds that expire in the same millisecond.
    pub placed: RecordPosition,
}

impl OpenHold {
    /// Its place in the order of expiry.
    pub fn key(&self) -> (TimeMs, RecordPosition) {
        (self.expires_at, self.placed)
    }
}

/// All open holds, by id and by expiry.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenHolds {
    entries: Vec<OpenHold>,
    /// Entries that are empty, to be used again.
    free: Vec<u32>,
    /// Entries by id; never iterated, as for accounts.
    by_id: HashTable<u32>,
    hasher: foldhash::fast::RandomState,
    by_expiry: BTreeMap<(TimeMs, RecordPosition), u32>,
    /// Entries by debited account, in the order of their placement. A page continues after a record, which stays where
    /// it is when holds around it are closed.
    by_account: BTreeMap<(AccountSlot, RecordPosition), u32>,
    /// How many each account has; only accounts that have some.
    by_debit: HashMap<AccountSlot, u32, foldhash::fast::RandomState>,
}

impl OpenHolds {
    pub fn len(&self) -> usize {
        self.by_expiry.len()
    }

    #[inline]
    pub fn find(&self, id: &str) -> Option<&OpenHold> {
        let hash = self.hasher.hash_one(id.as_bytes());
        let entry = self.by_id.find(hash, |&entry| self.entries[entry as usize].id.as_bytes() == id.as_bytes())?;
        Some(&self.entries[*entry as usize])
    }

    /// How many open holds reserve money of this account.
    pub fn count_of(&self, debit: AccountSlot) -> u32 {
        self.by_debit.get(&debit).copied().unwrap_or(0)
    }

    /// Adds a hold whose id is not open.
    pub fn insert(&mut self, hold: OpenHold) {
        let hash = self.hasher.hash_one(hold.id.as_bytes());
        let key = hold.key();
        let place = (hold.debit, hold.placed);
        *self.by_debit.entry(hold.debit).or_insert(0) += 1;
        let entry = match self.free.pop() {
            Some(entry) => {
                self.entries[entry as usize] = hold;
                entry
            }
            None => {
                self.entries.push(hold);
                (self.entries.len() - 1) as u32
            }
        };
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_id.insert_unique(hash, entry, |&entry| hasher.hash_one(entries[entry as usize].id.as_bytes()));
        let before = self.by_expiry.insert(key, entry);
        assert!(before.is_none(), "one record placed two holds");
        self.by_account.insert(place, entry);
        self.assert_counts();
    }

    /// Each hold is in both indices, each entry either a hold's or free.
    #[inline]
    fn assert_counts(&self) {
        assert!(self.by_id.len() == self.by_expiry.len(), "a hold is in one index only");
        assert!(self.by_id.len() == self.by_account.len(), "a hold is not among those of its account");
        assert!(self.by_id.len() + self.free.len() == self.entries.len(), "an entry is neither a hold's nor free");
    }

    /// Walks all and panics if the two indices and the entries do not fit each other.
    pub fn assert_sound(&self) {
        self.assert_counts();
        let counted: usize = self.by_debit.values().map(|&count| count as usize).sum();
        assert!(counted == self.len(), "{counted} holds are counted for accounts, of {}", self.len());
        for (key, &entry) in &self.by_expiry {
            let hold = &self.entries[entry as usize];
            assert_eq!(hold.key(), *key, "hold {} stands elsewhere in the order of expiry", hold.id.as_str());
            let of_account = self.by_account.get(&(hold.debit, hold.placed));
            assert_eq!(of_account, Some(&entry), "hold {} is not among those of its account", hold.id.as_str());
            let found = self.find(hold.id.as_str()).map(std::ptr::from_ref);
            assert_eq!(found, Some(std::ptr::from_ref(hold)), "hold {} is not found where it is", hold.id.as_str());
        }
    }

    /// Forgets a hold that is open.
    pub fn remove(&mut self, id: &str) {
        let hash = self.hasher.hash_one(id.as_bytes());
        let entries = &self.entries;
        let found = self
            .by_id
            .find_entry(hash, |&entry| entries[entry as usize].id.as_bytes() == id.as_bytes())
            .expect("only an open hold is removed");
        let (entry, _) = found.remove();
        let hold = &self.entries[entry as usize];
        let by_expiry = self.by_expiry.remove(&hold.key());
        assert!(by_expiry == Some(entry), "an open hold is in the order of expiry");
        let (debit, place) = (hold.debit, (hold.debit, hold.placed));
        assert!(self.by_account.remove(&place) == Some(entry), "an open hold is among those of its account");
        let count = self.by_debit.get_mut(&debit).expect("an open hold is counted for its account");
        *count -= 1;
        if *count == 0 {
            self.by_debit.remove(&debit);
        }
        self.free.push(entry);
        self.assert_counts();
    }

    /// Gives each open hold another time at which it expires.
    pub fn move_expiry(&mut self, moved: impl Fn(&OpenHold) -> TimeMs) {
        for (_, entry) in std::mem::take(&mut self.by_expiry) {
            let hold = &mut self.entries[entry as usize];
            hold.expires_at = moved(hold);
            self.by_expiry.insert(hold.key(), entry);
        }
        self.assert_counts();
    }

    /// All open holds, those that expire first in front.
    pub fn by_expiry(&self) -> impl Iterator<Item = &OpenHold> {
        self.by_expiry.values().map(|&entry| &self.entries[entry as usize])
    }

    /// Those on one account that were placed after a record, in the order of their placement.
    pub fn of_account(&self, account: AccountSlot, after: RecordPosition) -> impl Iterator<Item = &OpenHold> {
        let range = (Bound::Excluded((account, after)), Bound::Included((account, RecordPosition(u64::MAX))));
        self.by_account.range(range).map(|(_, &entry)| &self.entries[entry as usize])
    }

    /// Those that expire behind `after` in that order.
    pub fn by_expiry_after(&self, after: Option<(TimeMs, RecordPosition)>) -> impl Iterator<Item = &OpenHold> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_expiry.range((from, Bound::Unbounded)).map(|(_, &entry)| &self.entries[entry as usize])
    }

    /// The hold that expires first.
    pub fn first(&self) -> Option<&OpenHold> {
        self.by_expiry.first_key_value().map(|(_, &entry)| &self.entries[entry as usize])
    }

    /// The hold that expires last.
    pub fn last(&self) -> Option<&OpenHold> {
        self.by_expiry.last_key_value().map(|(_, &entry)| &self.entries[entry as usize])
    }

    /// All, in order of expiry.
    pub fn iter(&self) -> impl Iterator<Item = &OpenHold> {
        self.by_expiry.values().map(|&entry| &self.entries[entry as usize])
    }
}
