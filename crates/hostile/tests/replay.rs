//! Runs every seed and every earlier finding through the same checks, on stable Rust.

use std::fs;
use std::path::Path;
use tidegate_hostile::TARGETS;

/// Bytes that every decoder should meet besides its own corpus.
const RUDE: [&[u8]; 6] = [b"", b"\0", b"\xff", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"{", &[0x80; 300]];

#[test]
fn every_corpus_passes() {
    for (name, check) in TARGETS {
        let mut seeds = 0;
        for seed in RUDE {
            check(seed);
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            println!("{}", path.display());
            check(&bytes);
            // What a torn write or a cut connection leaves of it.
            for cut in 0..bytes.len().min(200) {
                check(&bytes[..cut]);
            }
            seeds += 1;
        }
        assert!(
            seeds >= 3,
            "{name} has {seeds} seeds; `cargo test -p tidegate-hostile -- --ignored write_seeds` writes them"
        );
        println!("{name}: {seeds} seeds");
    }
}
