//! One file of the fake disk: what reads see, what is on stable storage, and the sector writes in between.

use std::collections::BTreeMap;

use super::SplitMix;

/// What a disk writes whole; within it, a crash tears at most between old and new.
const SECTOR_BYTES: usize = 512;

type Sector = [u8; SECTOR_BYTES];
const ZEROS: Sector = [0; SECTOR_BYTES];

/// Bytes of a file, in sectors; those that are missing are zeros.
#[derive(Clone, Default)]
struct Image {
    sectors: BTreeMap<u64, Sector>,
    len: u64,
}

impl Image {
    fn sector(&self, index: u64) -> &Sector {
        self.sectors.get(&index).unwrap_or(&ZEROS)
    }

    /// Cuts or extends; what is behind the end is zeros, should it come back.
    fn set_len(&mut self, len: u64) {
        let within = (len % SECTOR_BYTES as u64) as usize;
        self.sectors.split_off(&len.div_ceil(SECTOR_BYTES as u64));
        if let (1.., Some(last)) = (within, self.sectors.get_mut(&(len / SECTOR_BYTES as u64))) {
            last[within..].fill(0);
        }
        self.len = len;
        self.check();
    }

    /// Nothing is kept behind the end: it would come back when the file grows.
    fn check(&self) {
        let behind = self.sectors.keys().next_back().is_none_or(|last| *last < self.len.div_ceil(SECTOR_BYTES as u64));
        assert!(behind, "a file of {} bytes has sectors behind its end", self.len);
    }
}

/// A file.
#[derive(Default)]
pub(super) struct Inode {
    cache: Image,
    platter: Image,
    /// Sector writes since the last sync, oldest first, each as the sector then was.
    unsynced: Vec<(u64, Sector)>,
    /// The shortest the file has been since the last sync.
    cut_to: Option<u64>,
    /// Bytes for which room was claimed.
    allocated: u64,
}

/// How a crash treats what was not synced. Disks reorder, so each sector may have a fate of its own.
enum Fate {
    AllLost,
    AllKept,
    /// Kept up to some write, which is torn.
    Prefix(u64),
    EachByChance,
}

impl Inode {
    pub fn len(&self) -> u64 {
        self.cache.len
    }

    pub fn used_bytes(&self) -> u64 {
        self.allocated.max(self.cache.len)
    }

    pub fn read_at(&self, into: &mut [u8], offset: u64) -> usize {
        let readable = into.len().min(usize::try_from(self.cache.len.saturating_sub(offset)).unwrap_or(usize::MAX));
        for (at, len, filled) in pieces(offset, readable) {
            let sector = self.cache.sector(at / SECTOR_BYTES as u64);
            let within = (at % SECTOR_BYTES as u64) as usize;
            assert!(within + len <= SECTOR_BYTES, "a piece is in one sector");
            into[filled..filled + len].copy_from_slice(&sector[within..within + len]);
        }
        assert!(readable <= into.len(), "a read fills no more than it was given");
        readable
    }

    pub fn write_at(&mut self, bytes: &[u8], offset: u64) {
        for (at, len, taken) in pieces(offset, bytes.len()) {
            let index = at / SECTOR_BYTES as u64;
            let within = (at % SECTOR_BYTES as u64) as usize;
            let sector = self.cache.sectors.entry(index).or_insert(ZEROS);
            sector[within..within + len].copy_from_slice(&bytes[taken..taken + len]);
            self.unsynced.push((index, *sector));
        }
        self.cache.len = self.cache.len.max(offset + bytes.len() as u64);
        self.cache.check();
    }

    pub fn allocate(&mut self, len: u64) {
        self.allocated = self.allocated.max(len);
        self.cache.len = self.cache.len.max(len);
    }

    pub fn set_len(&mut self, len: u64) {
        self.cache.set_len(len);
        self.allocated = self.allocated.min(len);
        self.cut_to = Some(self.cut_to.map_or(len, |cut_to| cut_to.min(len)));
    }

    /// Only what was written since the last sync: pages that a failed sync called clean are not written again.
    pub fn sync(&mut self) {
        let cut_to = self.cut_to.take().unwrap_or(u64::MAX).min(self.platter.len);
        self.platter.set_len(cut_to);
        for (index, _) in std::mem::take(&mut self.unsynced) {
            self.platter.sectors.insert(index, *self.cache.sector(index));
        }
        self.platter.set_len(self.cache.len);
        assert!(self.unsynced.is_empty() && self.cut_to.is_none(), "nothing is left to sync");
    }

    /// The pages count as clean from now on; each reached the platter or did not.
    pub fn fail_sync(&mut self, random: &mut SplitMix) {
        let kept = self.kept_writes(random);
        self.write_to_platter(kept);
    }

    pub fn crash(&mut self, random: &mut SplitMix) {
        let kept = self.kept_writes(random);
        self.write_to_platter(kept);
        let len = if random.below(2) == 0 { self.cache.len } else { self.platter.len };
        self.platter.set_len(len);
        self.cut_to = None;
        self.allocated = len;
        self.cache = self.platter.clone();
        assert!(self.unsynced.is_empty(), "what a crash took is not synced later");
        assert!(self.cache.len == len && self.allocated == len, "a crash leaves a file of one length");
    }

    pub fn flip_bit(&mut self, offset: u64, bit: u8) -> bool {
        if offset >= self.cache.len {
            return false;
        }
        for image in [&mut self.cache, &mut self.platter] {
            let sector = image.sectors.entry(offset / SECTOR_BYTES as u64).or_insert(ZEROS);
            sector[(offset % SECTOR_BYTES as u64) as usize] ^= 1 << (bit % 8);
        }
        true
    }

    /// Whether this byte is so, in the cache and on the platter.
    pub fn has_byte(&self, offset: u64, byte: u8) -> bool {
        let (index, within) = (offset / SECTOR_BYTES as u64, (offset % SECTOR_BYTES as u64) as usize);
        [&self.cache, &self.platter].iter().all(|image| image.sector(index)[within] == byte)
    }

    /// Makes this byte so for good, whatever becomes of writes that were not synced.
    pub fn put_byte(&mut self, offset: u64, byte: u8) {
        let (index, within) = (offset / SECTOR_BYTES as u64, (offset % SECTOR_BYTES as u64) as usize);
        for image in [&mut self.cache, &mut self.platter] {
            if offset < image.len {
                image.sectors.entry(index).or_insert(ZEROS)[within] = byte;
            }
        }
        self.unsynced.iter_mut().filter(|(at, _)| *at == index).for_each(|(_, sector)| sector[within] = byte);
    }

    /// Chooses what becomes of the unsynced writes; the result is in an order in which later ones win.
    fn kept_writes(&mut self, random: &mut SplitMix) -> Vec<(u64, Sector)> {
        let unsynced = std::mem::take(&mut self.unsynced);
        let fate = match random.below(4) {
            0 => Fate::AllLost,
            1 => Fate::AllKept,
            2 => Fate::Prefix(random.below(unsynced.len() as u64 + 1)),
            _ => Fate::EachByChance,
        };
        match fate {
            Fate::AllLost => Vec::new(),
            Fate::AllKept => unsynced,
            Fate::Prefix(whole) => {
                let mut kept = unsynced;
                let torn = kept.get(whole as usize).copied();
                kept.truncate(whole as usize);
                if let Some((index, sector)) = torn {
                    let before = kept.iter().rev().find(|(at, _)| *at == index).map(|(_, sector)| *sector);
                    let before = before.unwrap_or(*self.platter.sector(index));
                    kept.push((index, tear(&before, &sector, random)));
                }
                kept
            }
            Fate::EachByChance => {
                let mut versions: BTreeMap<u64, Vec<Sector>> = BTreeMap::new();
                for (index, sector) in unsynced {
                    versions.entry(index).or_default().push(sector);
                }
                versions.iter().filter_map(|(index, versions)| self.one_fate(*index, versions, random)).collect()
            }
        }
    }

    /// A sector is lost, keeps one of the versions written to it, or is torn between the old and such a version.
    fn one_fate(&self, index: u64, versions: &[Sector], random: &mut SplitMix) -> Option<(u64, Sector)> {
        assert!(!versions.is_empty(), "a sector with a fate was written");
        let version = versions[random.below(versions.len() as u64) as usize];
        match random.below(4) {
            0 | 1 => None,
            2 => Some((index, version)),
            _ => Some((index, tear(self.platter.sector(index), &version, random))),
        }
    }

    fn write_to_platter(&mut self, kept: Vec<(u64, Sector)>) {
        for (index, sector) in kept {
            self.platter.sectors.insert(index, sector);
            let end = ((index + 1) * SECTOR_BYTES as u64).min(self.cache.len);
            self.platter.len = self.platter.len.max(end);
        }
    }
}

fn tear(old: &Sector, new: &Sector, random: &mut SplitMix) -> Sector {
    let mut torn = *old;
    let at = random.below(SECTOR_BYTES as u64 + 1) as usize;
    torn[..at].copy_from_slice(&new[..at]);
    torn
}

/// Splits a range of a file at sector bounds: (file offset, bytes, offset in the range).
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let piece = (SECTOR_BYTES - (at % SECTOR_BYTES as u64) as usize).min(len - done);
        done += piece;
        Some((at, piece, done - piece))
    })
}
