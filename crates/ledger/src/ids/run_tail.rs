//! The end of a run's file: its fences and filters, so that a start reads these and no pages.
//!
//! ```text
//!   [ ... | last page ][ fences | filter of random ids | filter of ordered ids | zeros | checksum ]
//! ```

use std::path::Path;

use crc_fast::{CrcAlgorithm, Digest};
use tidegate_disk::DiskFile;

use super::IdsError;
use super::run::{RunHeader, RunIndex, read_exact};

/// Bytes of one read or write.
const PIECE_BYTES: usize = 1 << 20;
pub(super) const CHECKSUM_BYTES: usize = 4;
const WRONG: &str = "its fences and filters have a wrong checksum";

/// Writes fences and filters behind the pages.
pub(super) fn write<F: DiskFile>(file: &F, path: &Path, header: &RunHeader, index: &RunIndex) -> Result<(), IdsError> {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    let mut offset = header.tail_offset();
    let put = |bytes: &[u8], offset: &mut u64| {
        file.write_all_at(bytes, *offset).map_err(IdsError::io("write", path))?;
        *offset += bytes.len() as u64;
        Ok(())
    };
    let filters = [&index.filters.random, &index.filters.ordered];
    let filters = filters.into_iter().filter_map(|part| part.filter()).map(|filter| filter.words());
    for words in std::iter::once(&index.fences.keys[..]).chain(filters) {
        for piece in words.chunks(PIECE_BYTES / 8) {
            let bytes: Vec<u8> = piece.iter().flat_map(|word| word.to_le_bytes()).collect();
            digest.update(&bytes);
            put(&bytes, &mut offset)?;
        }
    }
    let mut end = vec![0; zero_bytes(header)];
    digest.update(&end);
    end.extend_from_slice(&(digest.finalize() as u32).to_le_bytes());
    put(&end, &mut offset)?;
    assert_eq!(offset, header.file_bytes(), "ids: a run is as long as its header says");
    Ok(())
}

/// Between filters and checksum, which ends the file.
fn zero_bytes(header: &RunHeader) -> usize {
    (header.file_bytes() - header.tail_offset() - header.tail_bytes()) as usize - CHECKSUM_BYTES
}

/// Reads them back.
pub(super) fn read<F: DiskFile>(file: &F, path: &Path, header: &RunHeader) -> Result<RunIndex, IdsError> {
    let mut index = RunIndex::new(header);
    let fences = index.fences.keys.capacity();
    let mut reader = Reader { file, path, offset: header.tail_offset(), digest: Digest::new(CrcAlgorithm::Crc32Iscsi) };
    let wanted = header.fences() as usize;
    assert!(fences >= wanted, "ids: room for the fences of {header:?}");
    index.fences.keys.resize(wanted, 0);
    reader.fill(&mut index.fences.keys)?;
    for part in [&mut index.filters.random, &mut index.filters.ordered] {
        if let Some(filter) = part.filter_mut() {
            reader.fill(filter.words_mut())?;
        }
    }
    let mut end = vec![0; zero_bytes(header) + CHECKSUM_BYTES];
    read_exact(file, path, &mut end, reader.offset)?;
    let (zeros, sum) = end.split_at(end.len() - CHECKSUM_BYTES);
    reader.digest.update(zeros);
    if sum != (reader.digest.finalize() as u32).to_le_bytes() || !index.fences.keys.is_sorted() {
        return Err(IdsError::damaged(path, WRONG));
    }
    Ok(index)
}

/// Checks the end of a file against its checksum, a piece at a time, and keeps nothing of it.
pub(super) struct TailCheck {
    offset: u64,
    end: u64,
    digest: Digest,
    is_over: bool,
}

impl TailCheck {
    pub(super) fn new(header: &RunHeader) -> TailCheck {
        let digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        let end = header.file_bytes() - CHECKSUM_BYTES as u64;
        TailCheck { offset: header.tail_offset(), end, digest, is_over: false }
    }

    /// Reads the next piece, of at most `bytes_max` before the checksum. How many bytes it had; none when all is read
    /// and checked.
    pub(super) fn read_on<F: DiskFile>(&mut self, file: &F, path: &Path, bytes_max: u64) -> Result<u64, IdsError> {
        if self.is_over {
            return Ok(0);
        }
        let piece_bytes = bytes_max.min(PIECE_BYTES as u64);
        assert!(piece_bytes > 0, "ids: a piece has bytes, else the end of a run is never reached");
        let mut bytes = vec![0; (self.end - self.offset).min(piece_bytes) as usize];
        read_exact(file, path, &mut bytes, self.offset)?;
        self.digest.update(&bytes);
        self.offset += bytes.len() as u64;
        if self.offset < self.end {
            return Ok(bytes.len() as u64);
        }
        let mut sum = [0; CHECKSUM_BYTES];
        read_exact(file, path, &mut sum, self.end)?;
        if sum != (self.digest.clone().finalize() as u32).to_le_bytes() {
            return Err(IdsError::damaged(path, WRONG));
        }
        self.is_over = true;
        Ok((bytes.len() + CHECKSUM_BYTES) as u64)
    }
}

struct Reader<'a, F> {
    file: &'a F,
    path: &'a Path,
    offset: u64,
    digest: Digest,
}

impl<F: DiskFile> Reader<'_, F> {
    fn fill(&mut self, words: &mut [u64]) -> Result<(), IdsError> {
        let mut bytes = vec![0; PIECE_BYTES.min(words.len() * 8)];
        for piece in words.chunks_mut(PIECE_BYTES / 8) {
            let bytes = &mut bytes[..piece.len() * 8];
            read_exact(self.file, self.path, bytes, self.offset)?;
            self.digest.update(bytes);
            self.offset += bytes.len() as u64;
            for (word, bytes) in piece.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
