//! Remembers over a restart that the index is damaged: a start reads no pages and would not see it.

use std::path::Path;

use tidegate_disk::{Disk, DiskFile};

use super::IdsError;

/// The file that says why the index is to be built again.
pub(super) const CONDEMNED: &str = "condemned";
/// Of the reason, at most.
const REASON_BYTES_MAX: usize = 4096;

/// Notes `error` if it is damage. As far as the disk lets us: whoever met it stops in any case.
pub(super) fn condemn<D: Disk>(disk: &D, dir: &Path, error: &IdsError) {
    if !matches!(error, IdsError::Damaged { .. }) {
        return;
    }
    let reason = error.to_string();
    let write = || {
        let file = disk.create_new(&dir.join(CONDEMNED))?;
        file.write_all_at(&reason.as_bytes()[..reason.len().min(REASON_BYTES_MAX)], 0)?;
        file.sync_data()?;
        disk.sync_dir(dir)
    };
    // Perhaps another thread has noted it before.
    let _ = write();
}

/// Why the index is condemned, if it is.
pub(super) fn condemned<D: Disk>(disk: &D, dir: &Path) -> Result<Option<String>, IdsError> {
    let path = dir.join(CONDEMNED);
    if !disk.exists(&path).map_err(IdsError::io("look for", &path))? {
        return Ok(None);
    }
    let file = disk.open(&path).map_err(IdsError::io("open", &path))?;
    let len = file.len().map_err(IdsError::io("read the length of", &path))?;
    let mut bytes = vec![0; REASON_BYTES_MAX.min(len as usize)];
    file.read_exact_at(&mut bytes, 0).map_err(IdsError::io("read", &path))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
