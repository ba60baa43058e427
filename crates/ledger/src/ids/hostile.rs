//! Decodes hostile bytes as the files of an index: for fuzzing. Nothing else needs the decoders from outside.
//!
//! ```text
//!   bytes ─▶ manifest, as they are, and under a right checksum
//!       └──▶ fields of a run's header │ its pages and tail ─▶ sealed, so that what is behind the checksums is reached
//! ```

use std::path::Path;

use tidegate_disk::{Disk, DiskFile, FakeDisk};

use super::manifest::Manifest;
use super::run::{PAGE_BYTES, Page, Run, RunHeader, verify_header};
use super::run_reader::RunReader;
use super::{IdHash, run_tail};

/// Runs longer than this are not tried: the bytes decide how long one says to be.
const RUN_BYTES_MAX: u64 = 1 << 18;

/// Decodes `bytes` in all ways. Panics where a decoder does, or takes for true what cannot be written.
pub fn decode(bytes: &[u8]) {
    manifest(bytes);
    let sealed = [bytes, &crc_fast::crc32_iscsi(bytes).to_le_bytes()].concat();
    manifest(&sealed);
    if let Some((fields, content)) = bytes.split_first_chunk::<{ RunHeader::BYTES }>()
        && let Some(header) = RunHeader::decode_fields(fields)
        && header.file_bytes() <= RUN_BYTES_MAX
    {
        run(&header, content);
    }
}

fn manifest(bytes: &[u8]) {
    // One of the earlier version is read, and never written again.
    if let Ok(manifest) = Manifest::decode(bytes)
        && manifest.stands_on.is_some()
    {
        assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest), "what was read can be written and read again");
    }
}

/// Reads a run whose checksums are right and whose content is `content`, as far as that reaches.
fn run(header: &RunHeader, content: &[u8]) {
    let mut image = vec![0; header.file_bytes() as usize];
    let reaches = content.len().min(image.len() - PAGE_BYTES);
    image[PAGE_BYTES..][..reaches].copy_from_slice(&content[..reaches]);
    image[..PAGE_BYTES].copy_from_slice(&header.encode_page());
    for page in 0..header.pages() {
        let at = RunHeader::page_offset(page) as usize;
        Page::seal(&mut image[at..at + PAGE_BYTES], header.number, page);
    }
    let (tail, sum) = (header.tail_offset() as usize, image.len() - run_tail::CHECKSUM_BYTES);
    let right = crc_fast::crc32_iscsi(&image[tail..sum]);
    image[sum..].copy_from_slice(&right.to_le_bytes());

    let (disk, path) = (FakeDisk::new(1), Path::new("/ids/a.run"));
    disk.create_dir_all(Path::new("/ids")).expect("the disk is new");
    let file = disk.create_new(path).expect("the disk is new");
    file.write_all_at(&image, 0).expect("the disk works");
    verify_header(&file, path, header).expect("it was written so");
    let Ok(index) = run_tail::read(&file, path, header) else { return };
    let mut reader = RunReader::new(*header);
    let mut read = 0;
    let whole = loop {
        match reader.next(&file, path) {
            Ok(Some(_)) => read += 1,
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    assert!(!whole || read == header.entries, "a run has as many entries as it says");
    let run = Run::new(file, path.to_owned(), *header, index);
    for hash in content.as_chunks::<8>().0.iter().take(8).map(|bytes| IdHash::of(u64::from_le_bytes(*bytes))) {
        for key in run.keys(hash) {
            let (mut page, mut bytes, mut found) = (run.first_page(key), [0; PAGE_BYTES], Vec::new());
            while page < header.pages() && run.read_page(page, &mut bytes).is_ok() {
                let Ok(verified) = run.verify(&bytes, page) else { break };
                if !run.search(verified, page, key, &mut found) {
                    break;
                }
                page += 1;
            }
        }
    }
}

/// A well-formed manifest and a well-formed run, from which a fuzzer may start.
pub fn samples() -> Vec<Vec<u8>> {
    let (disk, dir) = (FakeDisk::new(1), Path::new("/ids"));
    let log = tidegate_journal::LogId { directory: 7, family: 1, shard: 0 };
    let options =
        super::IdsOptions { freeze_at: 300, fan_out: 2, ..super::IdsOptions::new(super::IdSeed([1, 2]), log) };
    let position = tidegate_journal::Position(10_000);
    let end = tidegate_journal::Cursor { position, ..tidegate_journal::Cursor::START };
    let maker = super::make::Maker::begin(disk.clone(), dir, options, 2_000, end).expect("the disk works");
    let made = maker.make(|n, gathering| {
        let id = if n % 2 == 0 { format!("order-{n}") } else { format!("till:19700102:1:{n}") };
        let (position, now) = (tidegate_journal::Position(n + 1), 86_400);
        gathering.add(n, super::make::MadeId { id: id.as_bytes(), position, now });
    });
    made.expect("the disk works");
    let contents = |path: &Path| disk.contents(path).expect("it is listed");
    let manifest = contents(&dir.join(super::manifest::MANIFEST));
    let mut samples = vec![manifest.clone(), manifest[..manifest.len() - 4].to_vec()];
    for (path, _) in disk.files().into_iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "run")) {
        let run = contents(&path);
        samples.push([&run[12..12 + RunHeader::BYTES], &run[PAGE_BYTES..]].concat());
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_taken_and_what_was_changed_breaks_nothing() {
        let samples = super::samples();
        let (manifests, runs) = samples.split_at(2);
        assert!(manifests.iter().zip([true, false]).all(|(bytes, whole)| Manifest::decode(bytes).is_ok() == whole));
        assert!(runs.len() >= 2, "{} runs", runs.len());
        for sample in runs {
            let header =
                RunHeader::decode_fields(sample.first_chunk().expect("it has fields")).expect("they are sound");
            assert_eq!(
                (header.file_bytes(), header.file_bytes() <= RUN_BYTES_MAX),
                (sample.len() as u64 + 4_008, true)
            );
        }
        for sample in samples {
            super::decode(&sample);
            for at in (0..sample.len().min(400)).chain((400..sample.len()).step_by(511)) {
                let mut changed = sample.clone();
                changed[at] ^= 1 << (at % 8);
                super::decode(&changed);
            }
            for len in (0..sample.len()).step_by(97) {
                super::decode(&sample[..len]);
            }
        }
    }
}
