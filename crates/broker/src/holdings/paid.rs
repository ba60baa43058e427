//! What was paid for and is not there yet, or is there as long as this.

use std::fmt;

use super::{Exceeded, Holder, Thing};

/// A part of what a principal holds. Dropped, it is released; kept, whoever removes the thing releases it.
#[must_use = "dropped, it is released at once"]
pub(crate) struct Paid {
    by: Holder,
    thing: Thing,
    count: u32,
    bytes: u32,
}

const _: () = assert!(size_of::<Paid>() == 24);

impl Paid {
    pub(super) fn new(by: Holder, thing: Thing, count: u64, bytes: u64) -> Paid {
        let small = |number: u64| u32::try_from(number).expect("what is paid for at once is small");
        Paid { by, thing, count: small(count), bytes: small(bytes) }
    }

    /// Who pays.
    pub fn by(&self) -> &Holder {
        &self.by
    }

    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.into()
    }

    /// The thing is there now, and is released where it is removed.
    pub fn keep(mut self) {
        (self.count, self.bytes) = (0, 0);
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        if self.count > 0 || self.bytes > 0 {
            self.by.release(self.thing, self.count.into(), self.bytes.into());
        }
    }
}

impl fmt::Debug for Paid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} pays for {} {} of {} bytes", self.by, self.count, self.thing.name(), self.bytes)
    }
}

/// What a message takes while it waits for its time, and if it is to be retained then, what it takes there.
pub(crate) type DelayedBytes = (u64, Option<u64>);

/// What is paid for a message that waits for its time: that it waits, and if it is to be retained then, its place among
/// the retained ones. Who was told that it is accepted must not learn later that there is no place.
#[derive(Debug)]
#[must_use = "dropped, it is released at once"]
pub(crate) struct PaidDelayed {
    waits: Paid,
    place: Option<Paid>,
}

impl PaidDelayed {
    /// For a message that takes so many bytes while it waits, and so many in its place, if the bounds allow it.
    pub fn hold(payer: &Holder, (bytes, in_place): DelayedBytes) -> Result<PaidDelayed, Exceeded> {
        let waits = payer.hold(Thing::Delayed, 1, bytes)?;
        let place = in_place.map(|bytes| payer.hold(Thing::Retained, 1, bytes)).transpose()?;
        Ok(PaidDelayed { waits, place })
    }

    /// For one that is there already.
    pub fn charge(payer: &Holder, (bytes, in_place): DelayedBytes) -> PaidDelayed {
        let place = in_place.map(|bytes| payer.charge(Thing::Retained, 1, bytes));
        PaidDelayed { waits: payer.charge(Thing::Delayed, 1, bytes), place }
    }

    /// What was paid for one that was kept and is to go.
    pub fn take_back(payer: &Holder, (bytes, in_place): DelayedBytes) -> PaidDelayed {
        let place = in_place.map(|bytes| payer.take_back(Thing::Retained, 1, bytes));
        PaidDelayed { waits: payer.take_back(Thing::Delayed, 1, bytes), place }
    }

    /// Who pays.
    pub fn by(&self) -> &Holder {
        self.waits.by()
    }

    /// Whether its place among the retained messages is paid for.
    pub fn has_place(&self) -> bool {
        self.place.is_some()
    }

    /// See [`Paid::keep`].
    pub fn keep(self) {
        self.waits.keep();
        self.place.into_iter().for_each(Paid::keep);
    }
}
