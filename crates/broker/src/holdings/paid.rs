//! What was paid for and is not there yet, or is there as long as this.

use std::fmt;

use super::{Holder, Thing};

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
