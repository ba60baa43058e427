//! Records that were read and not passed yet, of several groups.

use std::collections::VecDeque;

use tidegate_journal::Cursor;

/// The records of some groups, one behind the other, of which the first ones were passed.
#[derive(Default)]
pub(super) struct AtHand {
    /// Their bytes.
    bytes: Vec<u8>,
    /// Where each ends in `bytes`.
    ends: Vec<u32>,
    /// Of each group that was not passed whole: the records that are at hand up to its end, and the place behind it.
    groups: VecDeque<(usize, Cursor)>,
    /// Records that were passed.
    passed: usize,
}

impl AtHand {
    /// Adds the records of a group, of which so many were passed before. [`AtHand::end_with`] follows.
    pub fn add<'a>(&mut self, records: impl Iterator<Item = &'a [u8]>, passed: u32) {
        for record in records {
            self.bytes.extend_from_slice(record);
            self.ends.push(self.bytes.len() as u32);
        }
        self.passed += passed as usize;
        assert!(self.passed <= self.ends.len(), "what was passed is at hand");
    }

    /// Says which place is behind the group that was added.
    pub fn end_with(&mut self, behind: Cursor) {
        self.groups.push_back((self.ends.len(), behind));
    }

    /// Whether all groups were passed whole.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Records that were not passed.
    pub fn rest(&self) -> usize {
        self.ends.len() - self.passed
    }

    /// The record so many behind the next one.
    pub fn record(&self, ahead: usize) -> Option<&[u8]> {
        let number = self.passed + ahead;
        let end = *self.ends.get(number)? as usize;
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some(&self.bytes[begin..end])
    }

    /// Passes the next record.
    pub fn pass_one(&mut self) {
        self.passed += 1;
        let end = self.groups.front().expect("what is at hand is of a group").0;
        assert!(self.passed <= end, "only what is at hand is passed");
    }

    /// The place behind the first group, if nothing of it is left. Then the next one is the first.
    pub fn end_group(&mut self) -> Option<Cursor> {
        let (end, behind) = *self.groups.front()?;
        (end == self.passed).then(|| {
            self.groups.pop_front();
            behind
        })
    }

    /// Bytes of memory that it takes, about.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<u32>()
    }

    /// Bytes of all records, passed or not.
    pub fn record_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets what was passed, which is all.
    pub fn clear(&mut self) {
        assert!(self.rest() == 0 && self.is_empty(), "only what was passed is forgotten");
        self.bytes.clear();
        self.ends.clear();
        self.passed = 0;
    }
}
