//! Snapshots: the state of one shard at one place of its journal, so that a restart need not fold all of history.
//!
//! ```text
//!   snapshots/shard-0/snapshot-00000000000010000000.tgs         a ledger's; those of topics are in snapshots/topics-0
//!   ┌────────┬─────────┬───────┬──────────────────────────────┬──────────┬─────────────┬──────┐
//!   │ magic 8│version 4│shard 2│cursor: position 8 sequence 8 │chain 32  │body length 8│body …│ blake3 of all before: 32
//!   └────────┴─────────┴───────┴──────────────────────────────┴──────────┴─────────────┴──────┘
//! ```
//!
//! Promise: a snapshot is used only if its hash verifies and the journal's chain goes on from its cursor. A damaged or cut one is
//! passed over for an older one, or for the whole journal. A ledger's is a copy, never the truth; one of topics is the truth about
//! what their log has forgotten, which is never more than the oldest one kept has.

use std::path::{Path, PathBuf};

use tidegate_journal::disk::{Disk, DiskFile};
use tidegate_journal::{ChainHash, Cursor, Position, Sequence};
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::Ledger;

const FORMAT_VERSION: u32 = 1;
const HEADER_BYTES: usize = 8 + 4 + 2 + 8 + 8 + 32 + 8;
const HASH_BYTES: usize = 32;
/// How much is written at a time, so that writing needs no second copy of the state.
const WRITE_BYTES: usize = 1 << 20;

/// A state that snapshots hold.
pub trait Snapshotted: Sized {
    /// The first bytes of its files.
    const MAGIC: [u8; 8];
    /// What its shards are called in the data directory, before `-<n>`.
    const FOLDER: &'static str;
    /// Snapshots kept per shard.
    const KEPT: usize;

    /// Hands its bytes to `part`, piece by piece; the same each time, until it changes.
    fn write_body(&self, part: &mut dyn FnMut(&[u8]));

    /// Reads and checks a body; `Err` says in words why it is none.
    fn read_body(body: &[u8]) -> Result<Self, String>;
}

impl Snapshotted for Ledger {
    const MAGIC: [u8; 8] = *b"TGSNAP\r\n";
    const FOLDER: &'static str = "shard";
    /// The newest, and two to fall back to or to start the id index from.
    const KEPT: usize = 3;

    fn write_body(&self, part: &mut dyn FnMut(&[u8])) {
        self.write_snapshot(&mut |bytes| part(bytes));
    }

    fn read_body(body: &[u8]) -> Result<Ledger, String> {
        Ledger::decode_snapshot(body).map_err(|error| error.to_string())
    }
}

/// Why a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The disk.
    #[error("{}: {cause}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The bytes.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// File.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// Where snapshots of `shard` are kept.
pub fn folder<S: Snapshotted>(data: &Path, shard: ShardIndex) -> PathBuf {
    data.join("snapshots").join(format!("{}-{shard}", S::FOLDER))
}

/// Writes the state that the journal gives up to `cursor`, durably, and removes all but the newest snapshots.
pub fn write<D: Disk, S: Snapshotted>(
    disk: &D,
    data: &Path,
    shard: ShardIndex,
    cursor: Cursor,
    state: &S,
) -> Result<PathBuf, SnapshotError> {
    let folder = folder::<S>(data, shard);
    let path = folder.join(file_name(cursor.sequence));
    let unfinished = folder.join("unfinished");
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |cause| SnapshotError::Io { path, cause }
    };
    disk.create_dir_all(&folder).map_err(io(&folder))?;
    if disk.exists(&unfinished).map_err(io(&unfinished))? {
        disk.remove(&unfinished).map_err(io(&unfinished))?;
    }
    let file = disk.create_new(&unfinished).map_err(io(&unfinished))?;
    write_to(&file, shard, cursor, state).and_then(|()| file.sync_data()).map_err(io(&unfinished))?;
    disk.rename(&unfinished, &path).map_err(io(&path))?;
    disk.sync_dir(&folder).map_err(io(&folder))?;
    for old in names(disk, &folder)?.into_iter().rev().skip(S::KEPT) {
        disk.remove(&folder.join(&old)).map_err(io(&folder))?;
    }
    Ok(path)
}

/// All snapshots of `shard` by age, newest first; damaged ones are errors in their place. Each is read when it is asked for.
pub fn newest_first<'a, D: Disk, S: Snapshotted + 'a>(
    disk: &'a D,
    data: &Path,
    shard: ShardIndex,
) -> Result<impl Iterator<Item = Result<(Cursor, S), SnapshotError>> + use<'a, D, S>, SnapshotError> {
    let folder = folder::<S>(data, shard);
    let names = names(disk, &folder)?;
    Ok(names.into_iter().rev().map(move |name| read(disk, &folder.join(name), shard)))
}

/// Where the newest snapshot of `shard` says that it stands, whether or not the rest of it is good: for whoever wonders if it is
/// time for another one. `None` if there is none, or not even that can be read.
pub fn newest_cursor<D: Disk, S: Snapshotted>(
    disk: &D,
    data: &Path,
    shard: ShardIndex,
) -> Result<Option<Cursor>, SnapshotError> {
    let folder = folder::<S>(data, shard);
    let Some(path) = names(disk, &folder)?.pop().map(|name| folder.join(name)) else { return Ok(None) };
    let io = |cause| SnapshotError::Io { path: path.clone(), cause };
    let file = disk.open(&path).map_err(io)?;
    let mut header = [0; HEADER_BYTES];
    if file.len().map_err(io)? < HEADER_BYTES as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut header, 0).map_err(io)?;
    Ok((header[..8] == S::MAGIC).then(|| cursor_in(&header)))
}

fn file_name(sequence: Sequence) -> String {
    format!("snapshot-{:020}.tgs", sequence.0)
}

fn names<D: Disk>(disk: &D, folder: &Path) -> Result<Vec<String>, SnapshotError> {
    let io = |cause| SnapshotError::Io { path: folder.to_path_buf(), cause };
    if !disk.exists(folder).map_err(io)? {
        return Ok(Vec::new());
    }
    let names = disk.list(folder).map_err(io)?;
    Ok(names.into_iter().filter(|name| name.starts_with("snapshot-") && name.ends_with(".tgs")).collect())
}

fn header<S: Snapshotted>(shard: ShardIndex, cursor: Cursor, body_bytes: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(&S::MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&shard.0.to_le_bytes());
    bytes.extend_from_slice(&cursor.position.0.to_le_bytes());
    bytes.extend_from_slice(&cursor.sequence.0.to_le_bytes());
    bytes.extend_from_slice(&cursor.chain.0);
    bytes.extend_from_slice(&body_bytes.to_le_bytes());
    debug_assert_eq!(bytes.len(), HEADER_BYTES);
    bytes
}

/// The body is made twice, once for its length: a copy of it all would double the memory that a shard takes.
fn write_to<S: Snapshotted>(file: &impl DiskFile, shard: ShardIndex, cursor: Cursor, state: &S) -> std::io::Result<()> {
    let mut body_bytes = 0;
    state.write_body(&mut |part| body_bytes += part.len() as u64);
    let mut writer = HashedWriter { file, offset: 0, waiting: Vec::new(), hasher: blake3::Hasher::new(), done: Ok(()) };
    writer.write(&header::<S>(shard, cursor, body_bytes));
    state.write_body(&mut |part| writer.write(part));
    writer.finish()
}

/// Writes pieces, in order, in large steps, and behind them the hash of all.
struct HashedWriter<'a, F: DiskFile> {
    file: &'a F,
    offset: u64,
    waiting: Vec<u8>,
    hasher: blake3::Hasher,
    /// The first error ends the writing; whoever hands over pieces cannot hear of it.
    done: std::io::Result<()>,
}

impl<F: DiskFile> HashedWriter<'_, F> {
    fn write(&mut self, part: &[u8]) {
        self.waiting.extend_from_slice(part);
        if self.waiting.len() >= WRITE_BYTES {
            self.hasher.update(&self.waiting);
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.done.is_ok() {
            self.done = self.file.write_all_at(&self.waiting, self.offset);
        }
        self.offset += self.waiting.len() as u64;
        self.waiting.clear();
    }

    fn finish(mut self) -> std::io::Result<()> {
        self.hasher.update(&self.waiting);
        let hash = self.hasher.finalize();
        self.waiting.extend_from_slice(hash.as_bytes());
        self.flush();
        self.done
    }
}

fn read<D: Disk, S: Snapshotted>(disk: &D, path: &Path, shard: ShardIndex) -> Result<(Cursor, S), SnapshotError> {
    let io = |cause| SnapshotError::Io { path: path.to_path_buf(), cause };
    let file = disk.open(path).map_err(io)?;
    let mut bytes = vec![0; file.len().map_err(io)? as usize];
    file.read_exact_at(&mut bytes, 0).map_err(io)?;
    decode(&bytes, shard).map_err(|what| SnapshotError::Damaged { path: path.to_path_buf(), what })
}

/// The state in a snapshot's bytes; `Err` says in words why there is none. Takes any bytes.
pub fn decode<S: Snapshotted>(bytes: &[u8], shard: ShardIndex) -> Result<(Cursor, S), String> {
    let hashed = bytes.len().checked_sub(HASH_BYTES).filter(|hashed| *hashed >= HEADER_BYTES).ok_or("cut short")?;
    let (content, hash) = bytes.split_at(hashed);
    let (header, body) = content.split_at(HEADER_BYTES);
    if header[..8] != S::MAGIC {
        return Err("not a snapshot".into());
    }
    let version = u32::from_le_bytes(array(header, 8));
    if version != FORMAT_VERSION {
        return Err(format!("format version {version} is unknown: this program knows version {FORMAT_VERSION}"));
    }
    if blake3::hash(content).as_bytes() != hash {
        return Err("its hash does not verify".into());
    }
    if u16::from_le_bytes(array(header, 12)) != shard.0 {
        return Err("it belongs to another shard".into());
    }
    if u64::from_le_bytes(array(header, HEADER_BYTES - 8)) != body.len() as u64 {
        return Err("its length is not what its header says".into());
    }
    Ok((cursor_in(header), S::read_body(body)?))
}

fn cursor_in(header: &[u8]) -> Cursor {
    Cursor {
        position: Position(u64::from_le_bytes(array(header, 14))),
        sequence: Sequence(u64::from_le_bytes(array(header, 22))),
        chain: ChainHash(array(header, 30)),
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the header has a fixed length")
}
