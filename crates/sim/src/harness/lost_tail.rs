//! A log loses its end although a snapshot of a later state is there: a disk that forgot what it had confirmed, or an
//! operator who put back an older copy of the journal and nothing else.
//!
//! ```text
//!   segments │ … │ … ┊ cut │ gone │        snapshot stands behind the cut ─▶ the start is refused, names the loss,
//!                                                                            and changes nothing of the log
//! ```
//!
//! Done in one piece, between two operations of the process, so that no other fault takes the proof away.

use std::path::{Path, PathBuf};

use tidegate_journal::disk::{Disk, DiskFile, FakeDisk};
use tidegate_journal::segment::{SEGMENT_HEADER_BYTES, parse_segment_name};

use super::store::{End, Store, StoreName};
use super::workload::Workload;
use super::{Site, World, data};
use crate::note;
use crate::violation::{Violation, must};

/// Where a snapshot's header has the position that it stands at; see `docs/formats/snapshot.md`.
const POSITION_OFFSET: usize = 24;

type Files = Vec<(PathBuf, Vec<u8>)>;

impl<S: Store> Site<S> {
    /// A snapshot that is good: the folder's name of its log, and the position that it stands at.
    fn draw_proof(&mut self) -> Option<(String, u64)> {
        let files = self.disk.files().into_iter().map(|(path, _)| path);
        let is_snapshot = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "tgs");
        let snapshots: Vec<PathBuf> = files
            .filter(|path| path.starts_with(data().join("snapshots")) && is_snapshot(path))
            .filter(|path| !self.names_harmed_snapshot(&path.to_string_lossy()))
            .collect();
        if snapshots.is_empty() {
            return None;
        }
        let path = self.chance.one_of(&snapshots).clone();
        let header = self.disk.contents(&path).ok()?;
        let position = header.get(POSITION_OFFSET..POSITION_OFFSET + 8)?.try_into().ok()?;
        let log = path.parent()?.file_name()?.to_string_lossy().into_owned();
        Some((log, u64::from_le_bytes(position))).filter(|(_, position)| *position > 0)
    }
}

fn files_of(disk: &FakeDisk, folder: &Path) -> Files {
    let paths = disk.files().into_iter().map(|(path, _)| path).filter(|path| path.parent() == Some(folder));
    paths.filter_map(|path| disk.contents(&path).ok().map(|bytes| (path, bytes))).collect()
}

fn segment_at(path: &Path) -> Option<u64> {
    Some(parse_segment_name(&path.file_name()?.to_string_lossy())?.0)
}

/// Takes everything from position `cut` on out of the segments.
fn cut_at(disk: &FakeDisk, files: &Files, cut: u64) -> std::io::Result<()> {
    for (path, bytes) in files {
        let Some(first) = segment_at(path) else { continue };
        if first > cut {
            disk.remove(path)?;
            continue;
        }
        let from = ((cut - first) as usize).saturating_add(SEGMENT_HEADER_BYTES);
        if from < bytes.len() {
            disk.overwrite(path, from as u64, &vec![0; bytes.len() - from])?;
        }
    }
    files.first().and_then(|(path, _)| path.parent()).map_or(Ok(()), |folder| disk.sync_dir(folder))
}

fn put_back(disk: &FakeDisk, files: &Files) -> std::io::Result<()> {
    for (path, bytes) in files {
        match disk.exists(path)? {
            true => disk.overwrite(path, 0, bytes)?,
            false => {
                disk.create_new(path).and_then(|file| file.write_all_at(bytes, 0).and_then(|()| file.sync_data()))?
            }
        }
    }
    files.first().and_then(|(path, _)| path.parent()).map_or(Ok(()), |folder| disk.sync_dir(folder))
}

impl<W: Workload<S>, S: Store> World<W, S> {
    /// The process is killed, a log loses what a snapshot has, the start is tried, and the log is put back.
    pub(super) fn lose_a_tail(&mut self) -> Result<(), Violation> {
        let site = &mut self.site;
        // Nothing is ever cut from a stream.
        let unfit =
            S::NAME != StoreName::Local || site.disk.has_stopped() || site.may_refuse_for_damage() || site.is_full();
        if unfit || self.node.is_none() {
            return Ok(());
        }
        let Some((log, proven)) = site.draw_proof() else { return Ok(()) };
        let folder = data().join("journal").join(&log);
        self.end(End::Kill)?;
        let site = &mut self.site;
        if site.disk.has_stopped() {
            return Ok(());
        }
        let files = files_of(&site.disk, &folder);
        let begins = files.iter().filter_map(|(path, _)| segment_at(path)).min();
        let Some(begins) = begins.filter(|begins| *begins < proven) else { return Ok(()) };
        let cut = site.chance.within(begins..=proven - 1);
        note!(site.trace, "{log} loses all from position {cut} on, and a snapshot stands at {proven}");
        let failed = |cause: std::io::Error| Violation::of("the fake disk can be tampered with", cause.to_string());
        cut_at(&site.disk, &files, cut).map_err(failed)?;
        let before = files_of(&site.disk, &folder);
        site.process_starts();
        let started = self.load.start(site);
        let after = files_of(&site.disk, &folder);
        site.store.ended(End::Kill);
        let refusal = match started {
            Ok(_) => return Err(Violation::of("a log that has lost its end is never served", log)),
            Err(refusal) => refusal,
        };
        note!(site.trace, "the start is refused: {refusal}");
        let named = refusal.contains(" lost") && refusal.contains(&log) || refusal.contains("no snapshot can be used");
        must(named, "who has lost records is told which log, and that they are lost", || refusal.clone())?;
        must(before == after, "a refused start changes nothing of a log that has lost its end", || log.clone())?;
        site.disk.kill();
        put_back(&site.disk, &files).map_err(failed)?;
        site.tally.add("a lost tail that was refused", 1);
        Ok(())
    }
}
