//! The last settlement that the ledger of another server has answered: by it that ledger is known again.
//!
//! ```text
//!   settled ──▶ Receipts ── at most once a second ──▶ DATA/pacer-ledger
//!                  │
//!   connected ──▶ asked: post far more than this hold ever had ─┬─ refused because it is settled ──▶ the same ledger
//!                                                               └─ refused for another reason ─────▶ another one
//! ```
//!
//! Promise: nothing is held, paid or given back in a ledger that does not know what the one before has settled. To ask
//! moves no money there, whatever it knows, and needs no other right than to settle. Of a ledger with several shards,
//! it says something of the shard of that settlement.
//!
//! Why a settlement, and not a name of the ledger: a copy of its directory has its name too, and one that was put back
//! from a backup, or has lost its end, has forgotten what it has said. The newest settlement is among what it forgets
//! first.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tidegate_client::{ClientError, Outcome};
use tidegate_journal::disk::{RealDisk, replace_file};
use tidegate_link::Connected;

/// More than any hold has, and an amount nevertheless.
const MORE_THAN_HELD: u64 = i64::MAX as u64;
/// How often the file is written while leases are settled.
const SAVE: Duration = Duration::from_secs(1);
/// What the file begins with, before its layout.
const NAME: &str = "tidegate pacer-ledger";
/// The layout.
const LAYOUT: u32 = 1;
/// Bytes of the longest file: more is none of ours.
const FILE_BYTES_MAX: u64 = 256;

/// A hold of which the ledger has said how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its id.
    pub hold: Box<str>,
    /// How it ended.
    pub ended: Ended,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Something was paid.
    Posted,
    /// All was given back.
    Voided,
}

/// What a ledger says when it is asked for a receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// It has it.
    Known,
    /// It has it not, and this is what it knows of the hold.
    Unknown {
        /// What it was asked for.
        receipt: Receipt,
        /// The stable name of a refusal.
        says: String,
    },
    /// It says something else, so nobody knows.
    Unsaid {
        /// This.
        says: String,
    },
}

/// The receipts of one pacer, of which the last counts.
pub struct Receipts {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    last: Option<Receipt>,
    /// When it was tried to write the file.
    tried: Option<Instant>,
    is_unsaved: bool,
    /// Why the file could not be written.
    failed: Option<String>,
}

impl Ended {
    /// What a ledger refuses a post with.
    fn refusal(self) -> &'static str {
        match self {
            Ended::Posted => "hold_posted",
            Ended::Voided => "hold_voided",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Ended::Posted => "posted",
            Ended::Voided => "voided",
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Why a ledger refuses a post of a hold that did not end as it says: it never had the hold, has it still, or has
/// another end of it. What else it says is no word about the hold.
const OTHERWISE: [&str; 5] = ["hold_not_found", "post_exceeds_hold", "hold_expired", "hold_posted", "hold_voided"];

impl Receipts {
    /// Those of a data directory.
    pub fn of(data: &Path) -> Receipts {
        let path = file_of(data);
        let last = match read(&path) {
            Ok(last) => last,
            Err(error) => {
                let path = path.display();
                tracing::warn!(
                    %path, %error,
                    "what the ledger has settled last is not known: it is not looked at whether it is the same one"
                );
                None
            }
        };
        Receipts { path, state: Mutex::new(State { last, tried: None, is_unsaved: false, failed: None }) }
    }

    /// Whether the server that is connected has what the ledger before has settled last.
    pub fn check(&self, server: &mut Connected) -> Result<Shown, ClientError> {
        let Some(receipt) = self.state().last.clone() else { return Ok(Shown::Known) };
        let outcome = server.posts(&[(&receipt.hold, Some(MORE_THAN_HELD))])?.into_iter().next();
        Ok(match outcome {
            Some(Outcome::Refused { code, .. }) if code == receipt.ended.refusal() => Shown::Known,
            Some(Outcome::Refused { code, .. }) if OTHERWISE.contains(&&*code) => {
                Shown::Unknown { receipt, says: code }
            }
            other => Shown::Unsaid { says: format!("{other:?}") },
        })
    }

    /// The ledger has said how this hold ended.
    pub fn keep(&self, hold: &str, ended: Ended) {
        let mut state = self.state();
        if state.last.is_none() {
            tracing::info!(hold, "the ledger of the other server is known again by what it settles from now on");
        }
        state.last = Some(Receipt { hold: hold.into(), ended });
        state.is_unsaved = true;
    }

    /// Writes the file, if it is not of the last receipt and was not written just now. May wait for the disk.
    pub fn save_in_time(&self) {
        let mut state = self.state();
        if state.is_unsaved && state.tried.is_none_or(|at| at.elapsed() >= SAVE) {
            self.save(&mut state);
        }
    }

    /// Why the file has not the last receipt, if it cannot be written.
    pub fn unsaved(&self) -> Option<String> {
        self.state().failed.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    fn save(&self, state: &mut State) {
        let Some(receipt) = &state.last else { return };
        let written = write(&self.path, receipt);
        state.tried = Some(Instant::now());
        state.is_unsaved = written.is_err();
        state.failed = written.err().map(|error| {
            format!("{}: {error}. An older state of the ledger would be taken for it", self.path.display())
        });
    }
}

impl Drop for Receipts {
    fn drop(&mut self) {
        let mut state = self.state();
        if state.is_unsaved {
            self.save(&mut state);
        }
    }
}

/// Where a data directory has its last receipt.
pub fn file_of(data: &Path) -> PathBuf {
    data.join("pacer-ledger")
}

/// The receipt that a file has; `None` if there is no file.
pub fn read(path: &Path) -> io::Result<Option<Receipt>> {
    let length = match fs::metadata(path) {
        Ok(of) if of.is_file() => of.len(),
        Ok(_) => return Err(io::Error::new(ErrorKind::InvalidInput, "no file")),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let unknown =
        || io::Error::new(ErrorKind::InvalidData, "it is damaged, or of a layout that this program knows not");
    if length > FILE_BYTES_MAX {
        return Err(unknown());
    }
    decode(&fs::read(path)?).map(Some).ok_or_else(unknown)
}

fn write(path: &Path, receipt: &Receipt) -> io::Result<()> {
    replace_file(&RealDisk, path, &path.with_extension("unfinished"), encode(receipt).as_bytes())
}

fn encode(receipt: &Receipt) -> String {
    let Receipt { hold, ended } = receipt;
    let said = format!("{NAME} {LAYOUT}\n{ended} {hold}\n");
    format!("{said}{:08x}\n", checksum(&said))
}

fn decode(bytes: &[u8]) -> Option<Receipt> {
    let text = str::from_utf8(bytes).ok()?;
    let (word, hold) = text.lines().nth(1)?.split_once(' ')?;
    let ended = [Ended::Posted, Ended::Voided].into_iter().find(|ended| ended.word() == word)?;
    let receipt = Receipt { hold: hold.into(), ended };
    // What is not written exactly so was not written here.
    (encode(&receipt) == text).then_some(receipt)
}

fn checksum(text: &str) -> u32 {
    crc_fast::crc32_iscsi(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt() -> Receipt {
        Receipt { hold: "01jdyz8p9nkq4r5s6t7v8w9x0y".into(), ended: Ended::Posted }
    }

    #[test]
    fn a_receipt_is_read_as_it_was_written() {
        let text = encode(&receipt());
        assert_eq!(decode(text.as_bytes()), Some(receipt()));
        assert!(text.starts_with("tidegate pacer-ledger 1\nposted 01jdyz8p9nkq4r5s6t7v8w9x0y\n"), "{text}");
        let folder = tempfile::tempdir().expect("a folder for the test");
        let receipts = Receipts::of(folder.path());
        receipts.save_in_time();
        assert_eq!(read(&file_of(folder.path())).unwrap(), None);
        receipts.keep("a", Ended::Posted);
        receipts.save_in_time();
        // The second one of a moment is written later, or at the end.
        receipts.keep("b", Ended::Voided);
        receipts.save_in_time();
        assert_eq!(read(&file_of(folder.path())).unwrap().map(|it| it.hold), Some("a".into()));
        drop(receipts);
        let last = Receipt { hold: "b".into(), ended: Ended::Voided };
        assert_eq!(Receipts::of(folder.path()).state().last, Some(last));
    }

    #[test]
    fn no_damage_is_read_as_another_receipt() {
        let text = encode(&receipt()).into_bytes();
        for length in 0..text.len() {
            assert_eq!(decode(&text[..length]), None, "the first {length} bytes");
        }
        for bit in 0..8 * text.len() {
            let mut damaged = text.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged), None, "bit {bit}");
        }
        let folder = tempfile::tempdir().expect("a folder for the test");
        fs::write(file_of(folder.path()), vec![b'x'; 1 << 20]).expect("a file for the test");
        assert!(read(&file_of(folder.path())).is_err());
        let receipts = Receipts::of(folder.path());
        assert_eq!(receipts.state().last, None, "and bidding goes on");
        fs::remove_file(file_of(folder.path())).expect("it is there");
        fs::create_dir(file_of(folder.path())).expect("a folder in its place");
        receipts.keep("a", Ended::Posted);
        assert_eq!(receipts.unsaved(), None);
        receipts.save_in_time();
        assert!(receipts.unsaved().is_some_and(|why| why.contains("pacer-ledger: ")), "an operator is told");
        fs::remove_dir(file_of(folder.path())).expect("it is there");
        receipts.save(&mut receipts.state());
        assert_eq!(receipts.unsaved(), None);
    }
}
