//! The file of what was learned of campaigns: `DATA/pacer-learned`, written as a whole every few minutes and at the
//! end, read at the next start.
//!
//! Promise: bidding never waits for it, and what is wrong with it is said and costs nothing but what was learned.

use std::cell::RefCell;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_journal::disk::{Disk, RealDisk, replace_file};

use crate::control::{Control, LEARNED_HEAD, Learned, read_learned};

/// Campaigns that are looked at without a pause.
const CAMPAIGNS_AT_ONCE: usize = 100;
/// Bytes of what was learned of one campaign, at most.
const CAMPAIGN_BYTES_MAX: u64 = 6 << 10;
/// Such a pause.
const PAUSE: Duration = Duration::from_millis(5);

/// The file.
#[derive(Clone, Debug)]
pub(crate) struct LearnedFile {
    path: PathBuf,
    /// Held by who writes.
    writing: Arc<Mutex<()>>,
}

impl LearnedFile {
    /// Of a data directory.
    pub fn of(data: &Path) -> LearnedFile {
        LearnedFile { path: data.join("pacer-learned"), writing: Arc::default() }
    }

    /// What an earlier process has learned, of so many campaigns at most: what is longer is damaged, and would keep
    /// bids waiting.
    pub fn read(&self, campaigns_max: usize) -> Vec<Learned> {
        let path = self.path.display();
        let bytes_max = campaigns_max as u64 * CAMPAIGN_BYTES_MAX;
        let read = self.bytes(bytes_max).and_then(|(bytes, unread)| {
            let unknown = || io::Error::new(io::ErrorKind::InvalidData, "no file of a layout that this program knows");
            read_learned(&bytes).map(|(learned, damaged)| (learned, damaged as u64 + unread)).ok_or_else(unknown)
        });
        match read {
            Ok((learned, 0)) => learned,
            Ok((learned, unread_bytes)) => {
                let known = learned.len();
                tracing::warn!(
                    %path, known, unread_bytes,
                    "what was learned of campaigns' days is damaged; of those behind the damage it is learned anew"
                );
                learned
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                tracing::warn!(%path, %error, "what was learned of campaigns' days is not known; it is learned anew");
                Vec::new()
            }
        }
    }

    /// The first bytes of the file, and how many are behind them; of one that is none of ours, those of its head.
    fn bytes(&self, bytes_max: u64) -> io::Result<(Vec<u8>, u64)> {
        let mut file = RealDisk.open(&self.path)?;
        let metadata = file.metadata()?;
        // To read a pipe would wait for ever.
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no file"));
        }
        let mut bytes = Vec::new();
        file.by_ref().take(LEARNED_HEAD.len() as u64).read_to_end(&mut bytes)?;
        if bytes == LEARNED_HEAD {
            file.take(bytes_max).read_to_end(&mut bytes)?;
        }
        let unread = metadata.len().saturating_sub(bytes.len() as u64);
        Ok((bytes, unread))
    }

    /// Puts the file in the place of the one before.
    pub fn write(&self, bytes: &[u8]) {
        if let Err(error) = self.try_write(bytes) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "what was learned of campaigns' days is not saved; bidding goes on");
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<()> {
        let _alone = self.writing.lock().expect("nobody panics with it");
        replace_file(&RealDisk, &self.path, &self.path.with_extension("unfinished"), bytes)
    }
}

/// The bytes of a file of all that is known now.
pub(crate) fn all(control: &Control) -> Vec<u8> {
    let mut file = LEARNED_HEAD.to_vec();
    append(control, 0, usize::MAX, &mut file);
    file
}

/// The same, gathered in parts: nobody waits for all of ten thousand campaigns.
pub(crate) async fn gathered(control: &RefCell<Control>) -> Vec<u8> {
    let mut file = LEARNED_HEAD.to_vec();
    let mut from = Some(0);
    while let Some(number) = from {
        from = append(&control.borrow(), number, CAMPAIGNS_AT_ONCE, &mut file);
        tokio::time::sleep(PAUSE).await;
    }
    file
}

/// Appends what was learned of campaigns from this number on. Returns with which one to go on.
fn append(control: &Control, from: u32, limit: usize, file: &mut Vec<u8>) -> Option<u32> {
    let (learned, next) = control.learned(from, limit);
    learned.iter().for_each(|learned| learned.append(file));
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{DayCurve, Point, Profile, SLOTS};
    use crate::strategy::{Horizon, Memory, QUARTERS};
    use crate::units::BudgetMicros;
    use tidegate_machines::TimeMs;

    fn learned(number: u32) -> Learned {
        let profile = Profile { weights: [1.0; QUARTERS], now: Some((3, 5.0)) };
        Learned { number, version: 1, memory: Memory::default(), profile, curve: None }
    }

    #[test]
    fn what_is_learned_of_a_campaign_has_a_bound() {
        let mut curve = DayCurve::new(Horizon { begins: TimeMs(1), ends: TimeMs(u64::MAX) });
        let most = BudgetMicros(u64::MAX);
        (0..=SLOTS).for_each(|slot| curve.put(slot, Point { spent: most, planned: Some(most), share: 1.0 }));
        let profile = Profile { weights: [1e300; QUARTERS], now: Some((QUARTERS - 1, 1e300)) };
        let (number, version, curve) = (u32::MAX, u64::MAX, Some(curve));
        let mut bytes = LEARNED_HEAD.to_vec();
        Learned { number, version, memory: Memory([1e300; 4]), profile, curve }.append(&mut bytes);
        assert!(bytes.len() as u64 <= CAMPAIGN_BYTES_MAX, "{}", bytes.len());
    }

    #[test]
    fn a_file_is_read_as_far_as_its_campaigns_can_reach() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let file = LearnedFile::of(folder.path());
        let mut bytes = LEARNED_HEAD.to_vec();
        (0..3).for_each(|number| learned(number).append(&mut bytes));
        file.write(&bytes);
        assert_eq!(file.read(3).len(), 3);
        let longer = std::fs::OpenOptions::new().write(true).open(&file.path).expect("it was written");
        longer.set_len(1 << 30).expect("a hole takes no room");
        let (read, unread) = file.bytes(bytes.len() as u64).expect("it is a file");
        assert!(read.len() < 2 * bytes.len() && unread > 1 << 29, "{} bytes, and {unread} unread", read.len());
        assert_eq!(file.read(3).len(), 3, "what is behind them is no loss");
        assert!(read_learned(&read).is_some_and(|(learned, _)| learned.len() == 3));
    }
}
