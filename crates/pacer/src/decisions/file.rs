//! The files: a thread that writes them, and who reads them.
//!
//! ```text
//!   DATA/pacer-decisions/decisions-1795824000000.log       milliseconds since 1970 at which it begins
//! ```
//!
//! Promise: a disk that is full or slow holds up nobody. What cannot be written is dropped and counted; the log says so
//! once, and again when it goes on. While the disk has less than twice `data.disk_reserve_bytes` free, nothing is
//! written: the journals need it. Nothing is synced: what a crash of the machine takes is not missed by any money.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use tidegate_journal::disk::{Disk, DiskFile, RealDisk};
use tidegate_machines::TimeMs;

/// Batches that may wait for the disk, some seconds' worth.
const BATCHES_WAITING_MAX: usize = 256;
/// After this, it is tried again to write.
const AGAIN: Duration = Duration::from_secs(10);
/// How often it is looked how much room the disk has, in bytes written.
const LOOK_BYTES: u64 = 1 << 20;

/// Bytes for the end of the file, or for another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// They are the first of a file that begins then.
    pub begins: Option<TimeMs>,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How many records they are.
    pub records: u64,
}

/// Gives batches to the thread that writes.
pub struct DecisionWriter {
    to: SyncSender<Batch>,
    /// Records that the thread could not write.
    lost: Arc<AtomicU64>,
    /// A batch was lost: what belongs behind it is lost, too.
    is_broken: bool,
}

/// Where the files are.
#[derive(Clone, Debug)]
pub struct Files {
    /// The folder, made when the first file is.
    pub folder: PathBuf,
    /// Bytes of all files.
    pub bytes_max: u64,
    /// Bytes of the disk that are left free.
    pub reserve_bytes: u64,
}

/// Why the files cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", path.display())]
pub struct FolderError {
    /// The file or folder.
    pub path: PathBuf,
    /// What the system says.
    pub cause: io::Error,
}

/// A writer, and the work of its thread, which ends with the writer.
pub fn open_writer(files: Files) -> (DecisionWriter, impl FnOnce() + Send) {
    let (to, from) = sync_channel(BATCHES_WAITING_MAX);
    let lost = Arc::new(AtomicU64::new(0));
    let writing = Writing::new(files, lost.clone());
    (DecisionWriter { to, lost, is_broken: false }, move || writing.run(&from))
}

impl DecisionWriter {
    /// Gives batches to the thread, without waiting. Returns how many records were lost of late, these or earlier ones:
    /// the next one is to begin a file.
    pub fn write(&mut self, batches: Vec<Batch>) -> u64 {
        let mut lost = self.lost.swap(0, Ordering::Relaxed);
        for batch in batches {
            self.is_broken &= batch.begins.is_none();
            let records = batch.records;
            if self.is_broken || self.to.try_send(batch).is_err() {
                self.is_broken = true;
                lost += records;
            }
        }
        lost
    }
}

/// The thread's state.
struct Writing {
    files: Files,
    lost: Arc<AtomicU64>,
    open: Option<<RealDisk as Disk>::File>,
    /// The files that there are, the oldest first, and their bytes.
    known: VecDeque<(PathBuf, u64)>,
    unlooked: u64,
    failed: Option<Instant>,
}

impl Writing {
    fn new(files: Files, lost: Arc<AtomicU64>) -> Writing {
        Writing { files, lost, open: None, known: VecDeque::new(), unlooked: LOOK_BYTES, failed: None }
    }

    fn run(mut self, from: &Receiver<Batch>) {
        // Files of earlier processes count.
        let known = read_folder(&self.files.folder).unwrap_or_default().into_iter();
        let bytes_of = |path: &Path| RealDisk.open(path).and_then(|file| DiskFile::len(&file)).unwrap_or(0);
        self.known = known.map(|(_, path)| (path.clone(), bytes_of(&path))).collect();
        while let Ok(batch) = from.recv() {
            self.write(&batch);
        }
    }

    fn write(&mut self, batch: &Batch) {
        if self.failed.is_some_and(|at| at.elapsed() < AGAIN) || batch.begins.is_none() && self.open.is_none() {
            self.lost.fetch_add(batch.records, Ordering::Relaxed);
            return;
        }
        match self.try_write(batch) {
            Ok(()) if self.failed.take().is_some() => tracing::info!("decisions of the pacer are recorded again"),
            Ok(()) => {}
            Err(error) => {
                if self.failed.is_none() {
                    let folder = self.files.folder.display();
                    tracing::warn!(%folder, %error, "decisions of the pacer are not recorded; bidding goes on");
                }
                (self.open, self.failed) = (None, Some(Instant::now()));
                self.lost.fetch_add(batch.records, Ordering::Relaxed);
            }
        }
    }

    fn try_write(&mut self, batch: &Batch) -> io::Result<()> {
        if let Some(begins) = batch.begins {
            self.begin(begins)?;
        }
        self.unlooked += batch.bytes.len() as u64;
        if self.unlooked >= LOOK_BYTES {
            self.unlooked = 0;
            let free = RealDisk.space(&self.files.folder)?.map_or(u64::MAX, |space| space.free_bytes);
            if free < self.files.reserve_bytes.saturating_mul(2) {
                return Err(io::Error::new(
                    io::ErrorKind::StorageFull,
                    "less than twice data.disk_reserve_bytes is free",
                ));
            }
        }
        self.open.as_mut().expect("a batch of no file is lost").write_all(&batch.bytes)?;
        if let Some((_, bytes)) = self.known.back_mut() {
            *bytes += batch.bytes.len() as u64;
        }
        self.delete_oldest();
        Ok(())
    }

    fn begin(&mut self, begins: TimeMs) -> io::Result<()> {
        self.open = None;
        RealDisk.create_dir_all(&self.files.folder)?;
        // The clock may have been set back: a name is used once.
        for at in begins.0.. {
            let path = self.files.folder.join(format!("decisions-{at:013}.log"));
            match RealDisk.create_new(&path) {
                Ok(file) => {
                    self.open = Some(file);
                    self.known.push_back((path, 0));
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Deletes files until all of them have no more bytes than they may. The newest one stays.
    fn delete_oldest(&mut self) {
        let mut bytes: u64 = self.known.iter().map(|(_, bytes)| bytes).sum();
        while bytes > self.files.bytes_max && self.known.len() > 1 {
            let Some((path, of_oldest)) = self.known.pop_front() else { break };
            bytes -= of_oldest;
            // One that is gone, or that somebody else keeps from being deleted, is no reason to stop.
            if let Err(error) = RealDisk.remove(&path) {
                tracing::debug!(path = %path.display(), %error, "an old file of decisions stays");
            }
        }
    }
}

/// The files of a folder in the order of their times; none if there is no folder.
///
/// # Errors
///
/// If the folder cannot be listed.
pub fn read_folder(folder: &Path) -> Result<Vec<(TimeMs, PathBuf)>, FolderError> {
    let names = match RealDisk.list(folder) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(FolderError { path: folder.to_owned(), cause }),
    };
    let begins = |name: &str| name.strip_prefix("decisions-")?.strip_suffix(".log")?.parse().ok();
    let files = names.iter().filter_map(|name| Some((TimeMs(begins(name)?), folder.join(name))));
    let mut files: Vec<_> = files.collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn batch(begins: Option<u64>, bytes: usize) -> Batch {
        Batch { begins: begins.map(TimeMs), bytes: vec![7; bytes], records: 3 }
    }

    fn writing(folder: &Path, bytes_max: u64) -> Writing {
        Writing::new(Files { folder: folder.to_owned(), bytes_max, reserve_bytes: 0 }, Arc::default())
    }

    fn lengths(folder: &Path) -> Vec<(u64, u64)> {
        let files = read_folder(folder).unwrap().into_iter();
        files.map(|(begins, path)| (begins.0, fs::metadata(path).unwrap().len())).collect()
    }

    #[test]
    fn the_oldest_files_are_deleted_where_there_are_too_many_bytes() {
        let folder = std::env::temp_dir().join(format!("tidegate-decisions-{}", std::process::id()));
        let mut files = writing(&folder, 250);
        for (begins, bytes) in [(Some(10), 60), (None, 40), (Some(20), 90), (Some(20), 50), (None, 20)] {
            files.write(&batch(begins, bytes));
        }
        assert_eq!(lengths(&folder), [(20, 90), (21, 70)]);
        assert_eq!(files.lost.load(Ordering::Relaxed), 0);
        files.files.reserve_bytes = u64::MAX / 4;
        files.unlooked = LOOK_BYTES;
        files.write(&batch(None, 10));
        files.write(&batch(None, 10));
        assert_eq!((files.lost.load(Ordering::Relaxed), lengths(&folder).len()), (6, 2), "the disk is full");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_belongs_behind_a_lost_batch_is_lost_too() {
        let files = Files { folder: "nowhere".into(), bytes_max: 0, reserve_bytes: 0 };
        let (mut writer, _thread) = open_writer(files);
        let many = std::iter::once(batch(Some(1), 1)).chain((0..300).map(|_| batch(None, 1)));
        assert_eq!(writer.write(many.collect()), 45 * 3);
        assert_eq!(writer.write(vec![batch(None, 1)]), 3);
    }
}
