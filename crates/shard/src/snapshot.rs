//! Snapshots: the state of one ledger at one place of its journal, so that a restart need not fold all of history.
//!
//! ```text
//!   snapshots/shard-0/snapshot-00000000000010000000.tgs
//!   ┌────────┬─────────┬───────┬──────────────────────────────┬──────────┬─────────────┬──────┐
//!   │ magic 8│version 4│shard 2│cursor: position 8 sequence 8 │chain 32  │body length 8│body …│ blake3 of all before: 32
//!   └────────┴─────────┴───────┴──────────────────────────────┴──────────┴─────────────┴──────┘
//! ```
//!
//! Promise: a snapshot is used only if its hash verifies and the journal's chain goes on from its cursor. A damaged or cut one is
//! passed over for an older one, or for the whole journal; it is a copy, never the truth.

use std::path::{Path, PathBuf};

use tidegate_journal::disk::{Disk, DiskFile};
use tidegate_journal::{ChainHash, Cursor, Position, Sequence};
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::Ledger;

const MAGIC: [u8; 8] = *b"TGSNAP\r\n";
const FORMAT_VERSION: u32 = 1;
const HEADER_BYTES: usize = 8 + 4 + 2 + 8 + 8 + 32 + 8;
const HASH_BYTES: usize = 32;
/// Snapshots kept per shard: the newest, and two to fall back to or to start the id index from.
const SNAPSHOTS_KEPT: usize = 3;

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
pub fn folder(data: &Path, shard: ShardIndex) -> PathBuf {
    data.join("snapshots").join(format!("shard-{shard}"))
}

/// Writes the state that the journal gives up to `cursor`, durably, and removes all but the newest snapshots.
pub fn write<D: Disk>(
    disk: &D,
    data: &Path,
    shard: ShardIndex,
    cursor: Cursor,
    ledger: &Ledger,
) -> Result<PathBuf, SnapshotError> {
    let folder = folder(data, shard);
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
    let bytes = encode(shard, cursor, ledger);
    file.write_all_at(&bytes, 0).and_then(|()| file.sync_data()).map_err(io(&unfinished))?;
    disk.rename(&unfinished, &path).map_err(io(&path))?;
    disk.sync_dir(&folder).map_err(io(&folder))?;
    for old in names(disk, &folder)?.into_iter().rev().skip(SNAPSHOTS_KEPT) {
        disk.remove(&folder.join(&old)).map_err(io(&folder))?;
    }
    Ok(path)
}

/// All snapshots of `shard` by age, newest first; damaged ones are errors in their place.
pub fn newest_first<'a, D: Disk>(
    disk: &'a D,
    data: &Path,
    shard: ShardIndex,
) -> Result<impl Iterator<Item = Result<(Cursor, Ledger), SnapshotError>> + 'a, SnapshotError> {
    let folder = folder(data, shard);
    let names = names(disk, &folder)?;
    Ok(names.into_iter().rev().map(move |name| read(disk, &folder.join(name), shard)))
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

fn encode(shard: ShardIndex, cursor: Cursor, ledger: &Ledger) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&shard.0.to_le_bytes());
    bytes.extend_from_slice(&cursor.position.0.to_le_bytes());
    bytes.extend_from_slice(&cursor.sequence.0.to_le_bytes());
    bytes.extend_from_slice(&cursor.chain.0);
    bytes.extend_from_slice(&[0; 8]);
    debug_assert_eq!(bytes.len(), HEADER_BYTES);
    ledger.write_snapshot(&mut |part| bytes.extend_from_slice(part));
    let body = (bytes.len() - HEADER_BYTES) as u64;
    bytes[HEADER_BYTES - 8..HEADER_BYTES].copy_from_slice(&body.to_le_bytes());
    let hash = blake3::hash(&bytes);
    bytes.extend_from_slice(hash.as_bytes());
    bytes
}

fn read<D: Disk>(disk: &D, path: &Path, shard: ShardIndex) -> Result<(Cursor, Ledger), SnapshotError> {
    let io = |cause| SnapshotError::Io { path: path.to_path_buf(), cause };
    let file = disk.open(path).map_err(io)?;
    let mut bytes = vec![0; file.len().map_err(io)? as usize];
    file.read_exact_at(&mut bytes, 0).map_err(io)?;
    decode(&bytes, shard).map_err(|what| SnapshotError::Damaged { path: path.to_path_buf(), what })
}

/// The state in a snapshot's bytes; `Err` says in words why there is none. Takes any bytes.
pub fn decode(bytes: &[u8], shard: ShardIndex) -> Result<(Cursor, Ledger), String> {
    let hashed = bytes.len().checked_sub(HASH_BYTES).filter(|hashed| *hashed >= HEADER_BYTES).ok_or("cut short")?;
    let (content, hash) = bytes.split_at(hashed);
    let (header, body) = content.split_at(HEADER_BYTES);
    if header[..8] != MAGIC {
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
    let cursor = Cursor {
        position: Position(u64::from_le_bytes(array(header, 14))),
        sequence: Sequence(u64::from_le_bytes(array(header, 22))),
        chain: ChainHash(array(header, 30)),
    };
    let ledger = Ledger::decode_snapshot(body).map_err(|error| error.to_string())?;
    Ok((cursor, ledger))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the header has a fixed length")
}
