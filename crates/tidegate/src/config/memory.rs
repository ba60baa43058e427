//! `limits.memory_bytes_max`: what the bounds share that hold for all clients together.
//!
//! ```text
//!   memory of the machine, or of its cgroup ─ three quarters ─▶ memory_bytes_max
//!     ├─ what the file sets itself ─▶ stands
//!     ├─ the rest ─ by parts ─▶ kept.all.*_bytes_max, mqtt.waiting_bytes_max, ids_filter_bytes_max,
//!     │                        http_bodies_bytes_max
//!     └─ kept free ─▶ connections, accounts, journals
//! ```
//!
//! Promise: whatever of these a file leaves out, they add up to no more than the memory allows; one that is written
//! stands as it is written. What one principal or one address may have of a thing stays a part of what all may.
//!
//! Why a division and not one pool: a pool is used up by whoever comes first, and then all things are refused to all.

use tidegate_config::{Bytes, ConfigError, Document, NoDefault, Optional, config};

use super::http::HttpKeys;
use super::kept::{AddressKeptKeys, AllKeptKeys, PrincipalKeptKeys};
use super::ledger::LedgerKeys;
use crate::host::Host;

config! {
    /// `[limits]`, as far as all memory goes.
    pub struct MemoryKeys in "limits" {
        memory_bytes_max: Optional<Bytes> = NoDefault, .., restart,
            "bytes of memory that are divided among kept.all.*_bytes_max, mqtt.waiting_bytes_max, \
             ids_filter_bytes_max and http_bodies_bytes_max, in place of their defaults, as far as they are not \
             written; what is written stands, and if it is more than this, a start is refused. 37748736 (36 MiB) at \
             least where none of them is written: 4 MiB for each. Without this key: three quarters of what the \
             machine or its cgroup has, and a start that finds more written warns. 0 for no division. `tidegate \
             doctor --config FILE` shows all of it";
    }
}

/// Without the key, so many quarters of the memory.
const QUARTERS: u64 = 3;
/// Memory is divided into so many parts...
const PARTS: u64 = 32;
/// ... and a bound that is not written gets as much as this at least, on a machine that has too little for all.
const SHARE_BYTES_MIN: u64 = 4 << 20;
/// The bounds that share, in words.
const SHARING: &str = "kept.all.*_bytes_max, mqtt.waiting_bytes_max, ids_filter_bytes_max and http_bodies_bytes_max";
/// One principal may have one of so many parts of what all may have of a thing, ...
const PRINCIPAL_PART: u64 = 4;
/// ... and those of one address so many.
const ADDRESS_PART: u64 = 16;

/// One bound that has a part of the memory.
struct Share {
    path: &'static str,
    parts: u64,
    /// Each byte of the bound is so many bytes of memory: what each worker or each edge thread has.
    times: u64,
    /// It gets no more, however much there is.
    bytes_max: u64,
}

/// What holds for all memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What the bounds share; `None` if nothing is divided.
    pub bytes_max: Option<u64>,
    /// What the machine has, if it says so.
    pub host_bytes: Option<u64>,
    /// What is written is more than that: what to do about it.
    pub excess: Option<String>,
}

/// The bounds that share, with their parts; the rest of [`PARTS`] is for what is bounded otherwise.
fn shares(workers: u64, edges: u64, filter_bytes_max: u64) -> [Share; 9] {
    let share = |path, parts, times| Share { path, parts, times, bytes_max: u64::MAX };
    [
        // As large as there are ids, and not as there is memory: with its default, a billion fit a gigabyte.
        Share { bytes_max: filter_bytes_max, ..share("limits.ids_filter_bytes_max", 2, 1) },
        share("limits.http_bodies_bytes_max", 1, edges),
        share("kept.all.sessions_bytes_max", 3, 1),
        // Each worker has all filters.
        share("kept.all.filters_bytes_max", 4, workers),
        share("kept.all.retained_bytes_max", 5, 1),
        share("kept.all.delayed_bytes_max", 1, 1),
        share("kept.all.queued_bytes_max", 7, 1),
        share("kept.all.unread_bytes_max", 1, 1),
        // Of each worker's clients.
        share("mqtt.waiting_bytes_max", 4, workers),
    ]
}

/// Gives the bounds that `document` does not write their parts of the memory.
pub fn divide(document: &mut Document, workers: usize, host: Host) -> Result<Memory, ConfigError> {
    let edges = document.section::<HttpKeys>()?.edge_threads;
    let written = document.section::<MemoryKeys>()?.memory_bytes_max;
    let host_bytes = host.memory_bytes;
    let bytes_max = match written {
        Some(0) => None,
        Some(bytes) => Some(bytes),
        None => host_bytes.map(|bytes| bytes / 4 * QUARTERS),
    };
    let Some(bytes_max) = bytes_max else { return Ok(Memory { bytes_max: None, host_bytes, excess: None }) };
    let filter_bytes_max = document.section::<LedgerKeys>()?.ids_filter_bytes_max as u64;
    let shares = shares(workers as u64, edges.into(), filter_bytes_max);
    let (mut fixed, mut parts, mut open) = (0u64, 0, Vec::new());
    for share in &shares {
        match document.written_number(share.path) {
            Some(bytes) => fixed = fixed.saturating_add(bytes.saturating_mul(share.times)),
            None => {
                parts += share.parts;
                open.push(share);
            }
        }
    }
    let all_parts: u64 = shares.iter().map(|share| share.parts).sum();
    let divided = bytes_max / PARTS * all_parts;
    let left = divided.saturating_sub(fixed);
    for share in &open {
        // Not more than if nothing were written: what one leaves is not for the others.
        let bytes = (left / parts * share.parts).min(bytes_max / PARTS * share.parts).max(SHARE_BYTES_MIN);
        let bytes = bytes.min(share.bytes_max);
        document.derive_default(share.path, (bytes / share.times).max(1));
    }
    parts_of_one(document)?;
    let least = fixed.saturating_add(open.len() as u64 * SHARE_BYTES_MIN);
    let excess = (least > bytes_max).then(|| {
        let of_what = if written.is_none() { ", three quarters of the memory here" } else { "" };
        let (what, lower) = match fixed {
            0 => (format!("it is divided among {SHARING}, and {SHARE_BYTES_MIN} bytes for each are"), ""),
            _ => (format!("the bounds that are written, of {SHARING}, are"), "lower them or leave them out, or "),
        };
        let others = if fixed > 0 && !open.is_empty() { ", with the least for the others" } else { "" };
        format!(
            "limits.memory_bytes_max = {bytes_max}{of_what}: {what} {least} bytes together{others}: {lower}write a \
             memory_bytes_max that holds them; 0 for no division. `tidegate doctor --config FILE` shows which is the \
             largest"
        )
    });
    match excess {
        Some(message) if written.is_some() => Err(document.error_at("limits.memory_bytes_max", message)),
        excess => Ok(Memory { bytes_max: Some(bytes_max), host_bytes, excess }),
    }
}

/// What one principal and one address may have stays below what all may, where neither is written.
fn parts_of_one(document: &mut Document) -> Result<(), ConfigError> {
    let all: AllKeptKeys = document.section()?;
    let principal: PrincipalKeptKeys = document.section()?;
    let address: AddressKeptKeys = document.section()?;
    macro_rules! cap {
        ($($key:ident)*) => {$(
            if all.$key > 0 {
                let (of_principal, of_address) = ((all.$key / PRINCIPAL_PART).max(1), (all.$key / ADDRESS_PART).max(1));
                let paths = [concat!("kept.principal.", stringify!($key)), concat!("kept.address.", stringify!($key))];
                document.derive_default(paths[0], principal.$key.min(of_principal));
                document.derive_default(paths[1], address.$key.min(of_address));
            }
        )*};
    }
    cap! {
        sessions_bytes_max filters_bytes_max retained_bytes_max delayed_bytes_max queued_bytes_max unread_bytes_max
    }
    Ok(())
}
