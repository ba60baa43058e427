use super::*;

fn cursor(position: u64) -> Cursor {
    Cursor { position: Position(position), sequence: Sequence(position / 50), chain: ChainHash([position as u8; 32]) }
}

fn manifest() -> Manifest {
    let file = |name: &str| FileCopy { name: name.into(), bytes: 237, hash: blake3::hash(name.as_bytes()) };
    let segment = |first, end, sealed| SegmentCopy {
        first: Position(first),
        end: cursor(end),
        bytes: end - first + 4096,
        hash: blake3::hash(&[1]),
        sealed,
    };
    let ledger = LogCopy {
        name: "ledger-0".into(),
        end: cursor(900),
        snapshot: None,
        segments: vec![segment(0, 500, true), segment(500, 900, false)],
    };
    let topics = LogCopy {
        name: "topics-0".into(),
        end: cursor(700),
        snapshot: Some((cursor(650), file("topics-0.tgs"))),
        segments: vec![segment(600, 700, false)],
    };
    Manifest {
        directory: 0xfeed,
        created_at_ms: 17,
        files: vec![file("DIRECTORY"), file("KEY")],
        logs: vec![ledger, topics],
    }
}

#[test]
fn a_manifest_is_read_as_it_was_written() {
    let text = manifest().text();
    assert!(text.starts_with("tidegate backup\nformat_version = 1\ndirectory = 000000000000feed\n"), "{text}");
    assert_eq!(Manifest::parse(&text), Ok(manifest()));
}

#[test]
fn any_changed_byte_is_found() {
    let text = manifest().text();
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        let Ok(changed) = String::from_utf8(bytes) else { continue };
        assert!(Manifest::parse(&changed).is_err(), "byte {at}");
    }
    assert!(Manifest::parse(&text[..text.len() - 1]).is_err());
    assert!(Manifest::parse(&(text + "\n")).is_err());
}

#[test]
fn another_version_is_named() {
    let text = manifest().text().replace("format_version = 1", "format_version = 2");
    assert!(Manifest::parse(&text).unwrap_err().contains("format version 2 is unknown"));
}

#[test]
fn a_name_that_leads_elsewhere_is_refused() {
    let mut manifest = manifest();
    manifest.files[0].name = "../DIRECTORY".into();
    assert!(Manifest::parse(&manifest.text()).is_err());
}
