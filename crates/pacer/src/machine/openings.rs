//! Which leases a log has opened: by their numbers and by when they were opened.
//!
//! ```text
//!   this log    1 ── process ── 40 │ 41 ── process ── 90          numbers
//!               t0              t1 │ t2               t3          openings
//!   another one 1 ── process ── 40 ── 41 ── 100, before t2: none of this log, though the number 50 is
//! ```
//!
//! Promise: a lease that was opened here is one of it. One of another log (the lost end of this one, or what another
//! backup of it has gone on to) is none, unless a clock went back by as much as a process took.
//!
//! Why parts, one of each process that has opened something: behind a restore, numbers are given again, later.

use tidegate_machines::TimeMs;

/// As many parts are told apart: the oldest ones are one, of more.
const PARTS_MAX: usize = 4_096;

/// The leases that a process has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The numbers of its first and its last one.
    pub first: u64,
    pub last: u64,
    /// The least and the greatest time at which one was opened.
    pub began: TimeMs,
    pub ended: TimeMs,
}

/// Which leases a log has opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Openings {
    /// In the order of their numbers, without gaps from 1 on.
    parts: Vec<Part>,
    /// A process has begun, and has opened nothing yet.
    is_begun: bool,
}

impl Openings {
    /// As a snapshot has them; `None` if they cannot be.
    pub(super) fn of(parts: Vec<Part>, is_begun: bool) -> Option<Openings> {
        let mut next = 1;
        for part in &parts {
            if part.first != next || part.last < part.first || part.ended < part.began {
                return None;
            }
            next = part.last.checked_add(1)?;
        }
        (parts.len() <= PARTS_MAX).then_some(Openings { parts, is_begun })
    }

    /// Of a log of which nothing else is known.
    pub(super) fn of_one(opened: u64, until: TimeMs) -> Openings {
        let part = Part { first: 1, last: opened, began: TimeMs(0), ended: until };
        Openings { parts: if opened == 0 { Vec::new() } else { vec![part] }, is_begun: false }
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether a process has begun, and has opened nothing yet.
    pub(super) fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// A process begins.
    pub(crate) fn begin(&mut self) {
        self.is_begun = true;
    }

    /// How many leases were opened.
    pub fn opened(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.last)
    }

    /// The next lease was opened then.
    pub(crate) fn add(&mut self, at: TimeMs) {
        let number = self.opened() + 1;
        let is_new = std::mem::take(&mut self.is_begun);
        match self.parts.last_mut().filter(|_| !is_new) {
            Some(part) => {
                (part.last, part.began, part.ended) = (number, part.began.min(at), part.ended.max(at));
            }
            None => self.parts.push(Part { first: number, last: number, began: at, ended: at }),
        }
        if self.parts.len() > PARTS_MAX {
            let Part { last, began, ended, .. } = self.parts.remove(1);
            let oldest = &mut self.parts[0];
            (oldest.last, oldest.began, oldest.ended) = (last, oldest.began.min(began), oldest.ended.max(ended));
        }
    }

    /// Whether the lease of this number, which was opened then, is one of these.
    pub fn has(&self, number: u64, opened: TimeMs) -> bool {
        let at = self.parts.partition_point(|part| part.last < number);
        let part = self.parts.get(at).filter(|part| part.first <= number);
        part.is_some_and(|part| (part.began..=part.ended).contains(&opened))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(openings: &mut Openings, times: std::ops::Range<u64>) {
        openings.begin();
        times.for_each(|at| openings.add(TimeMs(at)));
    }

    #[test]
    fn numbers_that_were_given_again_are_told_apart() {
        let mut backup = Openings::default();
        add(&mut backup, 100..140);
        let (mut first, mut second) = (backup.clone(), backup.clone());
        // The first goes on, without a process that begins; the second is put back later.
        (140..200).for_each(|at| first.add(TimeMs(at)));
        add(&mut second, 300..350);
        assert_eq!((first.opened(), second.opened()), (100, 90));
        for number in 1..=90 {
            let opened = TimeMs(99 + number);
            assert!(first.has(number, opened));
            assert_eq!(second.has(number, opened), number <= 40, "{number}");
            let again = TimeMs(259 + number);
            assert!(!first.has(number, again));
            assert_eq!(second.has(number, again), number > 40, "{number}");
        }
        assert!(!second.has(91, TimeMs(350)) && !second.has(0, TimeMs(100)));
    }

    #[test]
    fn a_clock_that_goes_back_hides_nothing() {
        let mut openings = Openings::default();
        add(&mut openings, 500..510);
        openings.add(TimeMs(90));
        assert!(openings.has(11, TimeMs(90)) && openings.has(3, TimeMs(502)));
    }

    #[test]
    fn of_too_many_the_oldest_are_one() {
        let mut openings = Openings::default();
        for at in 0..PARTS_MAX as u64 + 10 {
            add(&mut openings, at..at + 1);
        }
        assert_eq!((openings.parts().len(), openings.parts()[0].last), (PARTS_MAX, 11));
        assert!((0..PARTS_MAX as u64 + 10).all(|at| openings.has(at + 1, TimeMs(at))));
        assert!(!openings.has(12, TimeMs(3)));
    }

    #[test]
    fn what_cannot_be_is_not_read() {
        let part = |first, last, began, ended| Part { first, last, began: TimeMs(began), ended: TimeMs(ended) };
        assert!(Openings::of(vec![part(1, 4, 0, 9), part(5, 5, 3, 3)], true).is_some());
        for parts in [vec![part(2, 4, 0, 9)], vec![part(1, 0, 0, 9)], vec![part(1, 4, 9, 8)]] {
            assert_eq!(Openings::of(parts, false), None);
        }
        assert_eq!(Openings::of(vec![part(1, 4, 0, 9), part(6, 7, 10, 12)], false), None, "a gap");
        assert_eq!(Openings::of(vec![part(1, u64::MAX, 0, 9)], false), None);
        assert!(Openings::of_one(0, TimeMs(5)).parts().is_empty() && Openings::of_one(7, TimeMs(5)).has(7, TimeMs(5)));
    }
}
