//! All accounts of a shard by slot, found by id.
//!
//! ```text
//!   id ─hash─▶ SlotTable ─▶ slot ─▶ chunk, place in it ─▶ Account, 72 bytes
//!                                                     └─▶ turns: only of those whose debits have passed 64 bits
//! ```
//!
//! Promise: to open an account moves no other account, and as many entries of the table as one segment has. So opening
//! the ten millionth takes no longer than the first.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use tidegate_memory::{Pages, Reserved, prefetch};

use super::account::{Account, AccountSlot};
use super::limits::ACCOUNTS_MAX;
use super::slot_table::SlotTable;

/// Accounts of the first chunk, as a power of two: 288 KiB. Each further one has twice as many as the one before it.
const FIRST_CHUNK_BITS: u32 = 12;
/// How much memory is touched ahead of the accounts, in accounts: 16 MiB, opened in 0.2 s at a million a second...
const TOUCHED_AHEAD_MAX: u32 = (16 << 20) / size_of::<Account>() as u32;
/// ... or this part of what they have, if that is less.
const TOUCHED_AHEAD_PART: u32 = 8;
/// Accounts whose memory is touched at once: a huge page.
const TOUCHED_AT_ONCE: u32 = (2 << 20) / size_of::<Account>() as u32;
/// A slot that no account has: all are below [`ACCOUNTS_MAX`].
const NOWHERE: AccountSlot = AccountSlot(u32::MAX);

/// Where the accounts of a transfer most likely are, so that its decision need not search them again. A wrong one
/// costs a search, and changes nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess {
    pub(super) debit: AccountSlot,
    pub(super) credit: AccountSlot,
}

impl Guess {
    /// Nothing is known.
    pub const NONE: Guess = Guess { debit: NOWHERE, credit: NOWHERE };
}

/// An account that is about to be looked for: the hash of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sought(u64);

/// Both accounts of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoughtPair {
    pub(super) debit: Sought,
    pub(super) credit: Sought,
}

/// Where an account is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    chunk: usize,
    at: usize,
}

impl Place {
    #[inline(always)]
    fn of(AccountSlot(slot): AccountSlot) -> Place {
        // Counted from one first chunk on, every chunk begins at a power of two.
        let counted = u64::from(slot) + (1 << FIRST_CHUNK_BITS);
        let bits = counted.ilog2();
        Place { chunk: (bits - FIRST_CHUNK_BITS) as usize, at: (counted ^ 1 << bits) as usize }
    }
}

/// Accounts whose places are loaded ahead by who looks at all.
const LOOK_AHEAD: usize = 16;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    /// Full ones, the one that fills, and sometimes a vacant one behind it. They have their addresses from the start,
    /// and take memory as they fill.
    chunks: Vec<Reserved<Account>>,
    len: u32,
    /// Slots by id. Never iterated: its random seed, which keeps hostile ids from colliding, shows in no decision.
    by_id: SlotTable,
    hasher: foldhash::fast::RandomState,
    /// How often the debits of an account have passed 2^64.
    turns: BTreeMap<AccountSlot, u64>,
}

impl Accounts {
    /// How many, so the next slot.
    pub fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub fn find(&self, id: &str) -> Option<AccountSlot> {
        let hash = self.hasher.hash_one(id.as_bytes());
        let is = |slot| self.get(AccountSlot(slot)).is_some_and(|account| account.id.as_bytes() == id.as_bytes());
        self.by_id.find(hash, is).map(AccountSlot)
    }

    /// As [`Accounts::find`], looking first at the slot that [`Accounts::touch`] told.
    #[inline]
    pub fn find_near(&self, id: &str, guess: AccountSlot) -> Option<AccountSlot> {
        match self.get(guess) {
            Some(account) if account.id.as_bytes() == id.as_bytes() => Some(guess),
            _ => self.find(id),
        }
    }

    /// Asks for the memory where the search for `id` will begin.
    #[inline]
    pub fn seek(&self, id: &str) -> Sought {
        let hash = self.hasher.hash_one(id.as_bytes());
        self.by_id.prefetch(hash);
        Sought(hash)
    }

    /// Asks for the memory of the account that was sought (or of another with the same tag), and tells its slot. Call
    /// it some accounts after [`Accounts::seek`] and some before the slot is used.
    #[inline]
    pub fn touch(&self, Sought(hash): Sought) -> AccountSlot {
        let Some(slot) = self.by_id.find(hash, |_| true) else { return NOWHERE };
        self.expect(AccountSlot(slot));
        AccountSlot(slot)
    }

    /// Asks for the memory of the account in a slot, if there is one.
    #[inline]
    pub fn expect(&self, slot: AccountSlot) {
        if let Some(account) = self.get(slot) {
            // An account ends in another line than it begins in, mostly.
            prefetch(account);
            prefetch(&account.kind);
        }
    }

    #[inline]
    pub fn get(&self, slot: AccountSlot) -> Option<&Account> {
        let place = Place::of(slot);
        self.chunks.get(place.chunk)?.get(place.at)
    }

    #[inline]
    pub fn get_mut(&mut self, slot: AccountSlot) -> Option<&mut Account> {
        let place = Place::of(slot);
        self.chunks.get_mut(place.chunk)?.get_mut(place.at)
    }

    /// The bytes of the id in a slot that is taken.
    pub fn id_bytes(&self, slot: AccountSlot) -> &[u8] {
        self.get(slot).expect("a slot that is taken").id.as_bytes()
    }

    /// Gross credits and debits of the account in a slot that is taken, minor units.
    pub fn gross(&self, slot: AccountSlot) -> (u128, u128) {
        let account = self.get(slot).expect("a slot that is taken");
        let turns = self.turns.get(&slot).copied().unwrap_or(0);
        account.gross(turns)
    }

    /// The debits of an account have passed 2^64 once more (or `times`, when a snapshot says so).
    #[cold]
    pub fn add_turns(&mut self, slot: AccountSlot, times: u64) {
        assert!(slot.0 < self.len, "an account that is debited is there");
        if times > 0 {
            *self.turns.entry(slot).or_default() += times;
        }
    }

    /// Adds an account whose id is new.
    pub fn push(&mut self, account: Account) -> AccountSlot {
        debug_assert!(self.find(&account.id).is_none(), "account {} is there", &*account.id);
        let slot = self.len;
        assert!(slot < ACCOUNTS_MAX, "there is no slot left");
        self.by_id.insert(self.hasher.hash_one(account.id.as_bytes()), slot);
        let place = Place::of(AccountSlot(slot));
        // The next chunk is there before its first account, so that its memory can be touched ahead, too.
        let ahead = Place::of(AccountSlot(slot + slot / TOUCHED_AHEAD_PART));
        for chunk in self.chunks.len()..=ahead.chunk {
            self.chunks.push(Reserved::with_capacity(1 << (FIRST_CHUNK_BITS as usize + chunk)));
        }
        self.chunks[place.chunk].push(account);
        self.len += 1;
        assert!(self.by_id.len() == self.len as usize, "every account is found by its id");
        AccountSlot(slot)
    }

    /// Memory that the accounts opened next will take, for another thread to touch before: the kernel may need
    /// milliseconds to find a huge page, and whoever opens accounts would wait for it. `asked` is the first slot whose
    /// memory was not asked for yet. `None` if there is too little for it to be worth it.
    pub fn pages_ahead(&self, asked: &mut u32) -> Option<Pages> {
        let ahead = (self.len / TOUCHED_AHEAD_PART).min(TOUCHED_AHEAD_MAX);
        let first = self.len.max(*asked);
        if self.len + ahead < first + TOUCHED_AT_ONCE {
            return None;
        }
        let place = Place::of(AccountSlot(first));
        let chunk = &self.chunks[place.chunk];
        let until = chunk.capacity().min(place.at + TOUCHED_AT_ONCE as usize);
        *asked = first + (until - place.at) as u32;
        Some(chunk.pages(place.at..until))
    }

    /// Walks all and panics if slots and ids do not fit each other.
    pub fn assert_sound(&self) {
        self.by_id.assert_sound();
        assert_eq!(self.by_id.len(), self.len as usize, "every account is found by its id");
        assert_eq!(self.iter().count(), self.len as usize, "chunks are filled without a gap");
        let mut ahead = self.iter().skip(LOOK_AHEAD);
        for (slot, account) in (0..).map(AccountSlot).zip(self.iter()) {
            if let Some(next) = ahead.next() {
                self.seek(&next.id);
            }
            let id = &*account.id;
            assert_eq!(self.find(id), Some(slot), "account {id} is not found where it is");
            account.assert_sound();
        }
        let are_there = |slot: &AccountSlot| slot.0 < self.len;
        assert!(self.turns.keys().all(are_there), "an account that is not there was debited");
    }

    /// All, in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = &Account> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Those from slot `first` on, at most `count`.
    pub fn range(&self, first: u32, count: u32) -> impl Iterator<Item = (AccountSlot, &Account)> {
        let end = first.saturating_add(count).min(self.len);
        (first.min(end)..end).map(AccountSlot).map(|slot| (slot, self.get(slot).expect("slots have no gap")))
    }
}

#[cfg(test)]
mod tests;
