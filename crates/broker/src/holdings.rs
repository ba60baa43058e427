//! Who pays for what is left behind: how much each principal holds of each thing, and how much it may.
//!
//! ```text
//!   CONNECT, SUBSCRIBE, PUBLISH ─▶ Holder::hold(thing, count, bytes) ─┬─ Paid ─ kept ─▶ released when it is gone
//!                                        │                            └─ dropped ─────▶ released at once
//!                                        └── over a bound: 0x97, and nothing is left
//! ```
//!
//! A thing is paid by the principal that made it, whichever connection, session or worker it came by. Three bounds
//! hold at once: that of its kind of principal (one that is known, or an address), that of all who are not known, which
//! is a part of it all, and that of it all. So whoever is not known cannot use up the room of those who are.
//!
//! Why one object for all workers: the sessions of a principal are spread over them, and the bound is the principal's.
//! A lock is taken only to find a principal by its name and to forget it, for the time of a look into a table; what it
//! holds are numbers without a lock. What the disk has at a start is paid without a question: it was let in before.

mod directory;
mod limits;
mod paid;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tidegate_machines::topic::Principal;

use directory::Directory;
pub use limits::{Bound, HoldingLimits, Thing, ThingLimits};
pub(crate) use paid::{DelayedBytes, Paid, PaidDelayed};

/// See the [module](self). For all workers of a node.
pub struct Holdings {
    directory: Arc<Directory>,
    totals: Arc<Totals>,
}

/// What all hold together, and what they may.
struct Totals {
    limits: HoldingLimits,
    all: Amounts,
    anonymous: Amounts,
}

/// A principal, and what it holds.
struct Held {
    principal: Principal,
    amounts: Amounts,
    totals: Arc<Totals>,
    directory: Weak<Directory>,
    /// How many [`Holder`]s there are.
    holders: AtomicUsize,
}

/// A principal as its sessions and messages know it. While there is one, what it holds is counted in one place.
pub(crate) struct Holder {
    /// `None` only while it is dropped.
    held: Option<Arc<Held>>,
}

/// A bound does not allow one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded(pub Thing);

/// How many, and how many bytes they are, of each thing.
#[derive(Default)]
struct Amounts([Amount; Thing::ALL.len()]);

#[derive(Default)]
struct Amount {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Holdings {
    /// Nobody holds anything, and these are the bounds.
    pub fn new(limits: HoldingLimits) -> Holdings {
        let totals = Totals { limits, all: Amounts::default(), anonymous: Amounts::default() };
        Holdings { directory: Arc::new(Directory::default()), totals: Arc::new(totals) }
    }

    /// How many there are of a thing, and how many bytes they are.
    pub fn held(&self, thing: Thing) -> (u64, u64) {
        self.totals.all.get(thing)
    }

    /// The bound of all principals together.
    pub fn bound(&self, thing: Thing) -> Bound {
        self.totals.limits[thing].all
    }

    /// How much of a thing a principal holds.
    pub fn held_by(&self, principal: &Principal, thing: Thing) -> (u64, u64) {
        self.directory.find(principal).map_or((0, 0), |held| held.amounts.get(thing))
    }

    /// How many principals hold something or are connected.
    pub fn principals(&self) -> usize {
        self.directory.len()
    }

    /// This principal.
    pub(crate) fn holder(&self, principal: &Principal) -> Holder {
        let directory = Arc::downgrade(&self.directory);
        let held = self.directory.find_or_add(principal, || Held {
            principal: principal.clone(),
            amounts: Amounts::default(),
            totals: self.totals.clone(),
            directory,
            holders: AtomicUsize::new(0),
        });
        Holder { held: Some(held) }
    }
}

impl Holder {
    /// Who it is.
    pub fn principal(&self) -> &Principal {
        &self.held().principal
    }

    /// So many more of a thing, with so many bytes in all, if the bounds allow it.
    pub fn hold(&self, thing: Thing, count: u64, bytes: u64) -> Result<Paid, Exceeded> {
        let most = self.bounds(thing);
        for (taken, (amounts, bound)) in most.iter().flatten().enumerate() {
            if !amounts.take(thing, count, bytes, *bound) {
                most.iter().flatten().take(taken).for_each(|(amounts, _)| amounts.give(thing, count, bytes));
                return Err(Exceeded(thing));
            }
        }
        Ok(Paid::new(self.clone(), thing, count, bytes))
    }

    /// What holds for it, and what is counted there.
    fn bounds(&self, thing: Thing) -> [Option<(&Amounts, Bound)>; 3] {
        let held = self.held();
        let limits = &held.totals.limits[thing];
        let is_anonymous = held.principal.is_anonymous();
        let own = if is_anonymous { limits.address } else { limits.principal };
        [
            Some((&held.amounts, own)),
            is_anonymous.then(|| (&held.totals.anonymous, limits.all.of_anonymous())),
            Some((&held.totals.all, limits.all)),
        ]
    }

    /// The same for what is there already.
    pub fn charge(&self, thing: Thing, count: u64, bytes: u64) -> Paid {
        self.each(|amounts| {
            let is_taken = amounts.take(thing, count, bytes, Bound::NONE);
            assert!(is_taken, "without a bound there is always room");
        });
        Paid::new(self.clone(), thing, count, bytes)
    }

    /// Whether there may be one more of a thing, with so many bytes, for now: it is counted by [`Holder::settle`].
    pub fn has_room(&self, thing: Thing, bytes: u64) -> bool {
        self.bounds(thing).iter().flatten().all(|(amounts, bound)| amounts.has_room(thing, bytes, *bound))
    }

    /// There were so many of a thing with so many bytes, and there are so many now.
    pub fn settle(&self, thing: Thing, before: (u64, u64), now: (u64, u64)) {
        if before != now {
            self.each(|amounts| amounts.change(thing, before, now));
        }
    }

    /// So many that were kept, with so many bytes, are to go: they are released when what this gives is dropped.
    pub fn take_back(&self, thing: Thing, count: u64, bytes: u64) -> Paid {
        Paid::new(self.clone(), thing, count, bytes)
    }

    /// So many are gone, with so many bytes.
    pub fn release(&self, thing: Thing, count: u64, bytes: u64) {
        self.each(|amounts| amounts.give(thing, count, bytes));
    }

    fn each(&self, change: impl Fn(&Amounts)) {
        let held = self.held();
        change(&held.amounts);
        if held.principal.is_anonymous() {
            change(&held.totals.anonymous);
        }
        change(&held.totals.all);
    }

    fn held(&self) -> &Arc<Held> {
        self.held.as_ref().expect("it is there until it is dropped")
    }
}

impl Amounts {
    fn get(&self, thing: Thing) -> (u64, u64) {
        let Amount { count, bytes } = &self.0[thing as usize];
        (count.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }

    /// Adds, unless it would be more than `bound`.
    fn take(&self, thing: Thing, count: u64, bytes: u64, bound: Bound) -> bool {
        let amount = &self.0[thing as usize];
        if !add(&amount.count, count, bound.count) {
            return false;
        }
        if !add(&amount.bytes, bytes, bound.bytes) {
            remove(&amount.count, count);
            return false;
        }
        true
    }

    fn has_room(&self, thing: Thing, bytes: u64, bound: Bound) -> bool {
        let now = self.get(thing);
        (bound.count == 0 || now.0 < bound.count) && (bound.bytes == 0 || now.1 + bytes <= bound.bytes)
    }

    fn give(&self, thing: Thing, count: u64, bytes: u64) {
        remove(&self.0[thing as usize].count, count);
        remove(&self.0[thing as usize].bytes, bytes);
    }

    fn change(&self, thing: Thing, before: (u64, u64), now: (u64, u64)) {
        let amount = &self.0[thing as usize];
        for (sum, before, now) in [(&amount.count, before.0, now.0), (&amount.bytes, before.1, now.1)] {
            match now.checked_sub(before) {
                Some(more) => _ = sum.fetch_add(more, Ordering::Relaxed),
                None => remove(sum, before - now),
            }
        }
    }

    fn are_none(&self) -> bool {
        Thing::ALL.iter().all(|thing| self.get(*thing) == (0, 0))
    }
}

/// Adds, if the sum is not above `most`; 0 is no bound.
fn add(sum: &AtomicU64, more: u64, most: u64) -> bool {
    let fits = |now: u64| Some(now + more).filter(|then| most == 0 || more == 0 || *then <= most);
    sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
}

fn remove(sum: &AtomicU64, less: u64) {
    let before = sum.fetch_sub(less, Ordering::Relaxed);
    assert!(before >= less, "what leaves was counted when it came");
}

impl Clone for Holder {
    fn clone(&self) -> Holder {
        let before = self.held().holders.fetch_add(1, Ordering::Relaxed);
        assert!(before > 0, "this is one of them");
        Holder { held: self.held.clone() }
    }
}

impl PartialEq for Holder {
    fn eq(&self, other: &Holder) -> bool {
        self.principal() == other.principal()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let held = self.held.take().expect("dropped once");
        // Who is not the last needs no lock. Of two at the same time one sees the other gone.
        let others = |holders: usize| (holders > 1).then(|| holders - 1);
        if held.holders.fetch_update(Ordering::AcqRel, Ordering::Acquire, others).is_ok() {
            return;
        }
        match held.directory.upgrade() {
            Some(directory) => directory.leave(&held),
            None => drop(held),
        }
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.principal(), f)
    }
}

impl fmt::Debug for Holdings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(Thing::ALL.iter().map(|thing| (thing.name(), self.held(*thing)))).finish()
    }
}
