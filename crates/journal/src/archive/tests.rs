use std::fs;
use std::io::Write;

use super::*;

/// A segment of a log of which each has a hundred records, in an archive whose path has a space.
pub(crate) fn segment(number: u64) -> Archived {
    let cursor = |at: u64| Cursor { position: Position(at), sequence: Sequence(at), chain: ChainHash([at as u8; 32]) };
    Archived {
        log: "ledger-0".into(),
        first: cursor(number * 100),
        end: cursor(number * 100 + 100),
        bytes: 4_096,
        hash: [number as u8; 32],
        at: format!("/archive with a space/ledger-0/{number}.tgj"),
    }
}

#[test]
fn an_archive_is_read_as_it_was_written_and_any_changed_byte_is_found() {
    let archive = Archive { segments: vec![segment(0), segment(1)] };
    let text = archive.text();
    assert_eq!(Archive::parse(&text), Some(archive));
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        let Ok(changed) = String::from_utf8(bytes) else { continue };
        assert_eq!(Archive::parse(&changed), None, "byte {at}");
    }
}

/// Gives the same bytes for each URL.
struct Fixed(Vec<u8>);

impl ArchiveSource for Fixed {
    fn fetch(&self, _url: &str, into: &mut File) -> Result<(), String> {
        into.write_all(&self.0).map_err(|cause| cause.to_string())
    }
}

#[test]
fn what_is_fetched_is_verified_and_kept_for_a_while() {
    let data = tempfile::tempdir().unwrap();
    let good = vec![7; 5_000];
    serve_with(Box::new(Fixed(good.clone())));
    let at = |number: u64| Archived {
        at: "s3://bucket/x".into(),
        bytes: 5_000,
        hash: *blake3::hash(&good).as_bytes(),
        ..segment(number)
    };
    for number in 0..CACHED_MAX as u64 + 3 {
        let path = local_path(data.path(), &at(number)).unwrap();
        assert_eq!(fs::read(path).unwrap(), good);
        let cached = fs::read_dir(data.path().join(CACHE_FOLDER)).unwrap().count();
        assert!(cached <= CACHED_MAX, "{cached}");
    }
    let bad = Archived { hash: [1; 32], ..at(99) };
    let refused = local_path(data.path(), &bad).unwrap_err().to_string();
    assert!(refused.contains("s3:/") && refused.contains("not what was moved"), "{refused}");
    let cached = fs::read_dir(data.path().join(CACHE_FOLDER)).unwrap().count();
    assert!(cached <= CACHED_MAX, "nothing is left of it");
}
