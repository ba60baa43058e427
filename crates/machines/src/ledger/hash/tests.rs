use std::hash::Hasher;

use super::*;

/// The key 00 01 .. 0f of the reference implementation's vectors.
const REFERENCE_KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

#[test]
fn siphash_1_3_is_the_standard_librarys() {
    for length in 0..70 {
        let bytes: Vec<u8> = (0..length).collect();
        #[allow(deprecated)]
        let mut std = std::collections::hash_map::DefaultHasher::new();
        std.write(&bytes);
        assert_eq!(sip_64(&bytes, [0, 0]), std.finish(), "of {length} bytes");
        if let Ok(id) = std::str::from_utf8(&bytes) {
            assert_eq!([id_hash(id), id_hash_keyed(id, [0, 0])], [std.finish(); 2]);
            assert_ne!(id_hash_keyed(id, [1, 2]), std.finish());
        }
    }
}

#[test]
fn siphash_2_4_agrees_with_the_papers_vector() {
    // Appendix A of the SipHash paper: 15 bytes 00..0e give a129ca6149be45e5.
    let mut sip = SipHasher::<2, 4>::new(REFERENCE_KEY, false);
    sip.write(&(0..15).collect::<Vec<u8>>());
    assert_eq!(sip.finish_64(), 0xa129_ca61_49be_45e5);
}

#[test]
fn siphash_2_4_128_agrees_with_the_reference_vector() {
    // vectors_sip128[0] of the reference implementation: no bytes.
    let sip = SipHasher::<2, 4>::new(REFERENCE_KEY, true);
    assert_eq!(
        sip.finish_128(),
        [0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93]
    );
}

#[test]
fn writes_in_pieces_are_one_write() {
    let bytes: Vec<u8> = (0..50).collect();
    let mut whole = SipHasher::<2, 4>::new([1, 2], true);
    whole.write(&bytes);
    let mut pieces = SipHasher::<2, 4>::new([1, 2], true);
    for piece in bytes.chunks(3) {
        pieces.write(piece);
    }
    assert_eq!(whole.finish_128(), pieces.finish_128());
}

#[test]
fn a_tag_decides_the_shard_alone() {
    assert_eq!(tag("wallet:{dave}:a"), "dave");
    assert_eq!(tag("{}wallet"), "{}wallet");
    assert_eq!(tag("wallet{"), "wallet{");
    assert_eq!(tag("a}b{c}d}"), "c");
    assert_eq!(shard_of("wallet:{dave}:a", 64), shard_of("hold:{dave}", 64));
}

/// Printed values are part of the format: a change here moves every account of every data directory.
#[test]
fn shards_of_keys_never_change() {
    let shards: Vec<u16> =
        ["wallet:dave", "candidate:1", "candidate:2", "source:shop", ""].map(|key| shard_of(key, 64).0).into();
    expect_test::expect!["[39, 36, 5, 12, 52]"].assert_eq(&format!("{shards:?}"));
}

#[test]
fn keys_spread_over_shards() {
    let mut counts = [0u32; 7];
    for n in 0..70_000 {
        counts[shard_of(&format!("wallet:{n}"), 7).0 as usize] += 1;
    }
    assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
}

#[test]
fn every_field_counts_in_a_digest() {
    let transfer = Transfer { id: "x", debit: "a", credit: "b", amount: 1, memo: "", label: Default::default() };
    let digests = [
        content_digest(&transfer),
        content_digest(&Transfer { debit: "ab", credit: "", ..transfer }),
        content_digest(&Transfer { amount: 2, ..transfer }),
        content_digest(&Transfer { memo: "m", ..transfer }),
        content_digest(&Hold {
            id: "x",
            debit: "a",
            credit: "b",
            amount: 1,
            expires_in_ms: 0,
            memo: "",
            label: Default::default(),
        }),
        content_digest(&Hold {
            id: "x",
            debit: "a",
            credit: "b",
            amount: 1,
            expires_in_ms: 1,
            memo: "",
            label: Default::default(),
        }),
    ];
    for (i, a) in digests.iter().enumerate() {
        for b in &digests[i + 1..] {
            assert_ne!(a, b);
        }
    }
    assert_eq!(content_digest(&transfer), content_digest(&Transfer { id: "y", ..transfer }), "the id is not content");
}

/// Claims and remembered refusals keep these: with others, a request that is repeated after an update would be refused
/// as another one. Computed by a program of its own.
#[test]
fn digests_of_contents_never_change() {
    let hex = |digest: ContentDigest| digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let transfer =
        Transfer { id: "t", debit: "shop", credit: "wallet:dave", amount: 250, memo: "welcome", label: Label::NONE };
    assert_eq!(hex(content_digest(&transfer)), "cd8184947dd73ad9a5ee378662c1503d");
    let labelled = Transfer { label: Label { code: 7, user_data: "order-7" }, ..transfer };
    assert_eq!(hex(content_digest(&labelled)), "1eb8f908b206c40e1e826bca191308e8");
    let (debit, credit, memo) = ("wallet:dave", "shop", "seat 4");
    let hold = Hold { id: "h", debit, credit, amount: 250, expires_in_ms: 60_000, memo, label: Label::NONE };
    assert_eq!(hex(content_digest(&hold)), "16749557ab1d584277e0350741406d41");
    for other in [Label { code: 8, ..labelled.label }, Label { user_data: "order-8", ..labelled.label }] {
        assert_ne!(content_digest(&Transfer { label: other, ..transfer }), content_digest(&labelled));
    }
}
