//! What stands behind a place at which no good group was found: the evidence by which recovery judges.
//!
//! ```text
//!   … good │ bad at P │ ? │ group, synced_up_to = S │ ? │ mark at M │ 0 0 0
//!            S > P or M > P: bytes at P were durable, so this is damage.    Neither: a crash tore an unsynced write.
//! ```
//!
//! Why this is exact: a group says what was durable when it was written, and a write is acknowledged only after it was.
//! So whatever stands behind P without such a claim was, like P itself, part of the last batch, which nobody was told
//! about.

use std::io;

use memchr::memmem;

use crate::disk::DiskFile;
use crate::folder::read_up_to;
use crate::group::{GROUP_HEADER_BYTES, GROUP_MAGIC, GroupHeader};
use crate::limits::READ_AHEAD_BYTES;
use crate::segment::{MARK_MAGIC, Mark, MarkKind, SEGMENT_HEADER_BYTES, offset_of};
use crate::{Cursor, LogId, Position};

/// The bytes with which headers of groups and marks begin.
const BOTH_BEGIN: &[u8] = b"TG";

const _: () = {
    let (group, mark) = (GROUP_MAGIC, MARK_MAGIC);
    assert!(group[0] == BOTH_BEGIN[0] && group[1] == BOTH_BEGIN[1], "a group begins so");
    assert!(mark[0] == BOTH_BEGIN[0] && mark[1] == BOTH_BEGIN[1], "a mark begins so");
};

/// The evidence behind a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Aftermath {
    /// The highest position that anything behind the place claims to be durable; the place itself when nothing does.
    pub durable_up_to: Position,
    /// Sequence of the last record known to have been durable, by a mark; a group only tells its own beginning.
    pub marked: Option<Mark>,
    /// The first group header behind the place whose checksum and place are right.
    pub next_group: Option<GroupHeader>,
    /// File offset behind the last byte that is not zero; the offset of the place when all are.
    pub zeros_from: u64,
}

impl Aftermath {
    /// Examines a segment from `place` to the end of its file.
    pub fn examine(file: &dyn DiskFile, log: LogId, first: Position, place: Position) -> io::Result<Aftermath> {
        Aftermath::examine_until(file, log, (first, place), |_| false)
    }

    /// The next group behind `place` whose header is right. What is behind it is not read.
    pub fn next_group(
        file: &dyn DiskFile,
        log: LogId,
        first: Position,
        place: Position,
    ) -> io::Result<Option<GroupHeader>> {
        Ok(Aftermath::examine_until(file, log, (first, place), |found| found.next_group.is_some())?.next_group)
    }

    fn examine_until(
        file: &dyn DiskFile,
        log: LogId,
        (first, place): (Position, Position),
        is_enough: impl Fn(&Aftermath) -> bool,
    ) -> io::Result<Aftermath> {
        let start = offset_of(first, place);
        let mut found = Aftermath { durable_up_to: place, marked: None, next_group: None, zeros_from: start };
        // Chunks overlap by a header, so that one that straddles two chunks is seen whole in the second.
        let mut buffer = vec![0; READ_AHEAD_BYTES];
        let mut offset = start;
        loop {
            let got = read_up_to(file, &mut buffer, offset)?;
            let chunk = &buffer[..got];
            let last = got < buffer.len();
            assert!(offset >= start, "only what is behind the place is examined");
            if let Some(nonzero) = last_nonzero(chunk) {
                found.zeros_from = offset + nonzero as u64 + 1;
                let scanned = if last { got } else { got - GROUP_HEADER_BYTES };
                found.take_claims(chunk, scanned, offset, log, first);
            }
            if last || is_enough(&found) {
                assert!(found.durable_up_to >= place && found.zeros_from >= start, "evidence is behind the place");
                return Ok(found);
            }
            offset += (got - GROUP_HEADER_BYTES) as u64;
        }
    }

    fn take_claims(&mut self, chunk: &[u8], scanned: usize, offset: u64, log: LogId, first: Position) {
        // Most bytes begin neither: only where both would begin is one looked for.
        for at in memmem::find_iter(&chunk[..chunk.len().min(scanned + 1)], BOTH_BEGIN) {
            let bytes = &chunk[at..];
            let here = Position(offset + at as u64 - SEGMENT_HEADER_BYTES as u64 + first.0);
            let group = GroupHeader::decode(bytes).ok().filter(|group| group.log == log && group.base == here);
            if let Some(group) = group {
                self.durable_up_to = self.durable_up_to.max(group.synced_up_to);
                self.next_group.get_or_insert(group);
            }
            let mark = Mark::decode(bytes).ok().filter(|mark| mark.log == log && mark.end.position == here);
            if let Some(mark) = mark {
                self.durable_up_to = self.durable_up_to.max(here);
                self.marked = Some(mark);
            }
        }
    }

    /// Whether something durable is lost between `place` and the evidence.
    pub fn shows_damage_at(&self, place: Position) -> bool {
        self.durable_up_to > place
    }

    /// The mark that stands exactly at `end`, if it is of this kind and of this chain.
    pub fn mark_at(&self, end: &Cursor, kind: MarkKind) -> bool {
        self.marked.is_some_and(|mark| mark.kind == kind && mark.end == *end)
    }

    /// Which records are lost, for a person; `before` is the place behind the last good group.
    pub fn lost(&self, before: &Cursor, segment_ends: Option<&Cursor>) -> String {
        let from = before.sequence.0 + 1;
        let until = self
            .next_group
            .filter(|group| group.base > before.position)
            .map(|group| (group.first_sequence.0 - 1, group.base))
            .or(self
                .marked
                .filter(|mark| mark.end.position > before.position)
                .map(|mark| (mark.end.sequence.0, mark.end.position)))
            .or(segment_ends.map(|end| (end.sequence.0, end.position)));
        match until {
            Some((to, end)) if to >= from => {
                format!("records {from} to {to} (positions {} to {end})", before.position)
            }
            _ => format!("records from {from} (position {}) on", before.position),
        }
    }
}

fn last_nonzero(bytes: &[u8]) -> Option<usize> {
    // Mostly zeros: whole words first.
    let mut end = bytes.len();
    while end >= 64 && bytes[end - 64..end].iter().fold(0, |any, byte| any | byte) == 0 {
        end -= 64;
    }
    bytes[..end].iter().rposition(|byte| *byte != 0)
}

#[cfg(test)]
mod tests;
