//! How one log is sized, and what it keeps in memory.

use crate::group::{GROUP_HEADER_BYTES, RECORD_HEADER_BYTES};
use crate::limits;
use crate::segment::{MARK_BYTES, SEGMENT_HEADER_BYTES};

/// What a segment has beside its groups.
const SEGMENT_OVERHEAD_BYTES: u64 = (SEGMENT_HEADER_BYTES + MARK_BYTES) as u64;

/// Sizes of one log. They may differ from start to start: what is on disk is read whatever it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size of a segment file in bytes; at least four of the largest groups.
    pub segment_bytes: u64,
    /// How much of a segment is claimed from the file system at a time.
    pub allocation_step_bytes: u64,
    /// Largest group that will be submitted, header and records; at most [`limits::GROUP_BYTES_MAX`].
    pub group_bytes_max: usize,
    /// Largest record that will be appended, without its header; at most [`limits::RECORD_BYTES_MAX`], and one fits a
    /// group.
    pub record_bytes_max: usize,
    /// Memory for the groups that became durable last, which [`crate::LogStore::peek`] then finds; 0 where nothing is
    /// looked up.
    pub recent_bytes_max: usize,
    /// Whether zeros are written ahead of small batches: their syncs become faster, and what follows them is written
    /// twice.
    pub zero_ahead: bool,
    /// Bytes of the disk that are left free, so that what makes room has some: a snapshot is written before what it
    /// covers is forgotten. At most a part of the disk, see [`Options::reserve_of`]; 0 for none.
    pub reserve_bytes: u64,
    /// Bytes of what was claimed ahead that nothing new may use: what makes room must still find some (see
    /// [`crate::RecordClass`]). A group beside them fits a segment.
    pub note_bytes: u64,
}

/// The sizes of [`limits`], for a log whose recent records are looked up.
impl Default for Options {
    fn default() -> Self {
        Options {
            segment_bytes: limits::SEGMENT_BYTES,
            allocation_step_bytes: limits::ALLOCATION_STEP_BYTES,
            group_bytes_max: limits::GROUP_BYTES_MAX,
            record_bytes_max: limits::RECORD_BYTES_MAX,
            recent_bytes_max: limits::RECENT_BYTES_MAX,
            zero_ahead: true,
            reserve_bytes: 0,
            note_bytes: 0,
        }
    }
}

impl Options {
    /// Bytes that are left free of a disk of so many.
    pub const fn reserve_of(&self, disk_bytes: u64) -> u64 {
        let most = disk_bytes / limits::RESERVE_PART;
        if self.reserve_bytes < most { self.reserve_bytes } else { most }
    }

    /// A log with segments of this size, claimed a quarter at a time, in which nothing is looked up. Groups and records
    /// are as large as fits it, and nothing new uses the room for the last two groups. Where there are many logs, or
    /// what is forgotten should go in small pieces; simulators roll often with it.
    pub const fn small(segment_bytes: u64) -> Options {
        let group_bytes_max = match segment_bytes / 4 {
            quarter if quarter < limits::GROUP_BYTES_MAX as u64 => quarter as usize,
            _ => limits::GROUP_BYTES_MAX,
        };
        assert!(group_bytes_max > GROUP_HEADER_BYTES + RECORD_HEADER_BYTES, "a group holds a record");
        let record_bytes_max = match group_bytes_max - GROUP_HEADER_BYTES - RECORD_HEADER_BYTES {
            alone if alone < limits::RECORD_BYTES_MAX => alone,
            _ => limits::RECORD_BYTES_MAX,
        };
        let kept = 2 * group_bytes_max as u64;
        let beside = segment_bytes - SEGMENT_OVERHEAD_BYTES - group_bytes_max as u64;
        Options {
            segment_bytes,
            allocation_step_bytes: segment_bytes / 4,
            group_bytes_max,
            record_bytes_max,
            recent_bytes_max: 0,
            zero_ahead: true,
            reserve_bytes: 0,
            note_bytes: if kept < beside { kept } else { beside },
        }
    }

    /// The relations between the sizes, as between those of [`crate::limits`]; a violation is a bug of the caller.
    pub(crate) fn check(&self) {
        assert!(self.group_bytes_max <= limits::GROUP_BYTES_MAX, "readers accept groups up to GROUP_BYTES_MAX");
        assert!(self.record_bytes_max <= limits::RECORD_BYTES_MAX, "readers accept records up to RECORD_BYTES_MAX");
        assert!(self.record_bytes_max > 0, "a record has at least a byte");
        let largest_alone = GROUP_HEADER_BYTES + RECORD_HEADER_BYTES + self.record_bytes_max;
        assert!(largest_alone <= self.group_bytes_max, "a group holds the largest record");
        assert!(self.group_bytes_max as u64 <= self.segment_bytes / 4, "a segment holds several of the largest groups");
        assert!(self.allocation_step_bytes > 0, "room is claimed in steps");
        let new_bytes = self.note_bytes + self.group_bytes_max as u64;
        assert!(new_bytes <= self.segment_bytes - SEGMENT_OVERHEAD_BYTES, "a new segment has room for what is new");
    }
}

#[cfg(test)]
mod tests;
