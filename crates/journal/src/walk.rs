//! All good groups of one segment, from its beginning to the first place where there is none.

use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::folder::Folder;
use crate::group::GroupFault;
use crate::mend::WrongByte;
use crate::scan::SegmentScan;
use crate::{Cursor, JournalError, Position};

/// What was found on the way.
pub(crate) struct Walk {
    pub scan: SegmentScan,
    /// Behind the last good group.
    pub end: Cursor,
    pub groups: u64,
    /// Up to here, a group says that everything was durable.
    pub claimed: Position,
    /// Why there is no further good group.
    pub fault: GroupFault,
    /// Bytes that were wrong, by their places in the file. They are right in what was read, and only there.
    pub wrong: Vec<WrongByte>,
}

impl Walk {
    pub fn through<D: Disk>(folder: &Folder<D>, file: Arc<dyn DiskFile>, begins: Cursor) -> Result<Walk, JournalError> {
        let failed = |cause| JournalError::io("read", &folder.segment_place(begins.position), cause);
        let limit = file.len().map_err(failed)?;
        let mut scan = SegmentScan::new(file, folder.log, begins.position);
        let (mut end, mut groups, mut claimed) = (begins, 0, begins.position);
        let mut wrong = Vec::new();
        loop {
            match scan.group_after(&end, limit).map_err(failed)? {
                Ok(found) => {
                    assert!(found.header.end().position > end.position, "a group has records");
                    end = found.header.end();
                    claimed = claimed.max(found.header.synced_up_to);
                    groups += 1;
                }
                Err(fault) => {
                    let mended = if folder.mends() { scan.mend_after(&end, limit).map_err(failed)? } else { None };
                    match mended {
                        Some(byte) => wrong.push(byte),
                        None => return Ok(Walk { scan, end, groups, claimed, fault, wrong }),
                    }
                }
            }
        }
    }
}
