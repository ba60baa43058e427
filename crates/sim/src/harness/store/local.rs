//! Logs in files of the fake disk, without the threads that write them on a real node: their work is stepped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_journal::disk::FakeDisk;
use tidegate_journal::segment::{SEGMENT_HEADER_BYTES, parse_segment_name};
use tidegate_journal::{
    Cursor, Family, JournalError, LogId, LogStore, Logs, MendedByte, Mending, Notice, Opened, Options, Position,
    RecoveryReport, Step, StepHandle, StepLog, StepLogs,
};

use super::{DATA, End, Rot, Stepped, Store, StoreName, family_of};
use crate::chance::Chance;

/// Bytes of a segment's header that mean anything.
const HEADER_BYTES_USED: u64 = 76;

/// Of so many worlds, one puts wrong bytes right.
const MENDS_ONE_IN: u64 = 3;

/// By family and shard.
type Handles = Arc<Mutex<BTreeMap<(u8, u16), StepHandle<FakeDisk>>>>;

/// The local store.
#[derive(Clone)]
pub struct LocalStore {
    disk: FakeDisk,
    families: Vec<Family>,
    logs: LocalStepLogs,
    /// Bytes that were put right, in a world where they are.
    mended: Option<Arc<AtomicU64>>,
}

/// Its logs. Each that is opened is stepped by the store from then on.
#[derive(Clone)]
pub struct LocalStepLogs {
    logs: StepLogs<FakeDisk>,
    handles: Handles,
}

impl Logs for LocalStepLogs {
    type Log = StepLog<FakeDisk>;

    fn open(&self, id: LogId, since: Cursor, options: Options) -> Result<Opened<Self::Log>, JournalError> {
        let opened = self.logs.open(id, since, options)?;
        self.handles.lock().expect("no panic").insert((id.family, id.shard), opened.log.handle());
        Ok(opened)
    }

    fn reader(&self, id: LogId) -> Result<<Self::Log as LogStore>::Reader, JournalError> {
        self.logs.reader(id)
    }

    fn inspect(&self, id: LogId, since: Cursor) -> Result<RecoveryReport, JournalError> {
        self.logs.inspect(id, since)
    }

    fn create(&self, id: LogId) -> Result<(), JournalError> {
        self.logs.create(id)
    }

    fn append_notice(
        &self,
        id: LogId,
        since: Cursor,
        options: Options,
        notice: &Notice,
    ) -> Result<Cursor, JournalError> {
        self.logs.append_notice(id, since, options, notice)
    }
}

impl LocalStore {
    fn handle(&self, log: LogId) -> Option<StepHandle<FakeDisk>> {
        self.logs.handles.lock().expect("no panic").get(&(log.family, log.shard)).cloned()
    }
}

impl Store for LocalStore {
    const NAME: StoreName = StoreName::Local;
    type Logs = LocalStepLogs;
    type Log = StepLog<FakeDisk>;

    fn new(chance: &mut Chance, disk: &FakeDisk, families: &[Family]) -> LocalStore {
        let logs = StepLogs::new(disk.clone(), Path::new(DATA), families);
        let logs = LocalStepLogs { logs, handles: Handles::default() };
        // Where none is, one flipped bit is damage like any other.
        let mends = chance.clone().below(MENDS_ONE_IN) == 0;
        LocalStore { disk: disk.clone(), families: families.to_vec(), logs, mended: mends.then(Arc::default) }
    }

    fn logs(&self) -> LocalStepLogs {
        self.logs.clone()
    }

    fn served(&self) -> LocalStepLogs {
        let Some(mended) = self.mended.clone() else { return self.logs() };
        let count = move |byte: MendedByte| {
            mended.fetch_add(byte.is_durable.into(), Ordering::Relaxed);
        };
        LocalStepLogs { logs: self.logs.logs.clone().mending(Mending::new(count)), ..self.logs() }
    }

    fn mended(&self) -> Option<u64> {
        Some(self.mended.as_ref()?.load(Ordering::Relaxed))
    }

    fn step(&self, log: LogId) -> Stepped {
        match self.handle(log).map(|handle| handle.step()) {
            None | Some(Ok(Step::Idle)) => Stepped::Idle,
            Some(Ok(step)) => Stepped::Did(Some(format!("{step:?}"))),
            Some(Err(error)) => Stepped::Failed(error.to_string()),
        }
    }

    fn ended(&self, _end: End) {
        // A handle that outlived its log would still write what was submitted.
        self.logs.handles.lock().expect("no panic").clear();
    }

    fn set_calm(&self, _calm: bool) {}

    fn stall(&self, _log: LogId, _ticks: u64) -> bool {
        true
    }

    fn take_over(&self, _log: LogId) -> bool {
        false
    }

    fn strays(&self) -> u64 {
        0
    }

    fn refuse_next_open(&self) -> bool {
        false
    }

    fn is_refused_open(&self, _words: &str) -> bool {
        false
    }

    fn rot(&self, log: LogId, chance: &mut Chance) -> Option<Rot> {
        let proven = self.handle(log)?.proven_up_to();
        if proven == Position(0) {
            return None;
        }
        let at = Position(chance.within(0..=proven.0 - 1));
        let name = format!("{}-{}", family_of(&self.families, log).name, log.shard);
        let folder = Path::new(DATA).join("journal").join(name);
        let segments = self.disk.files().into_iter().filter(|(path, _)| path.parent() == Some(folder.as_path()));
        let first = |path: &PathBuf| path.file_name().and_then(|name| parse_segment_name(&name.to_string_lossy()));
        let within =
            segments.filter_map(|(path, _)| first(&path).filter(|first| *first <= at).map(|first| (first, path)));
        let (first, path) = within.max_by_key(|(first, _)| *first)?;
        let offset = match chance.happens(100) {
            true => chance.below(HEADER_BYTES_USED),
            false => at.0 - first.0 + SEGMENT_HEADER_BYTES as u64,
        };
        let bit = chance.below(8) as u8;
        let written = self.disk.contents(&path).ok()?[offset as usize];
        let name = path.file_name()?.to_string_lossy().into_owned();
        let rot = Rot { log, name, path: path.to_string_lossy().into_owned(), number: 0, offset, bit, written };
        self.disk.flip_bit(&path, offset, bit).then_some(rot)
    }

    fn is_rotten(&self, rot: &Rot) -> bool {
        let bytes = self.disk.contents(Path::new(&rot.path));
        bytes.is_ok_and(|bytes| bytes.get(rot.offset as usize) != Some(&rot.written))
    }

    fn heal(&self, rot: &Rot) {
        self.disk.put_byte(Path::new(&rot.path), rot.offset, rot.written);
    }
}
