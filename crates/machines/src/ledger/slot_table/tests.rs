use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// Mixes bits, so that tests have hashes that look random.
fn mixed(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n ^ n >> 29
}

#[test]
fn a_million_are_found_and_no_insertion_moves_many() {
    let mut table = SlotTable::default();
    for slot in 0..1_000_000u32 {
        table.insert(mixed(slot.into()), slot);
    }
    table.assert_sound();
    for slot in 0..1_000_000u32 {
        assert_eq!(table.find(mixed(slot.into()), |found| found == slot), Some(slot));
    }
    assert_eq!(table.find(mixed(1_000_001), |_| true), None);
    let largest = table.segments.iter().map(|segment| segment.entries()).max().expect("one at least");
    assert!(largest <= ENTRIES_MAX * 5 / 4, "a segment of {largest} entries");
    let entries: usize = table.segments.iter().map(|segment| segment.entries()).sum();
    let bytes = (entries * 8 + table.directory.len() * 4) as f64 / 1e6;
    assert!((10.0..13.5).contains(&bytes), "{bytes} bytes a slot");
}

#[test]
fn hashes_that_are_all_alike_are_found_too() {
    let mut table = SlotTable::default();
    for slot in 0..8_000 {
        table.insert(7, slot);
    }
    table.assert_sound();
    for slot in [0, 4_999, 7_999] {
        assert_eq!(table.find(7, |found| found == slot), Some(slot));
    }
    assert_eq!(table.find(8, |_| true), None);
}

/// The directory is deep where many tags begin alike. A segment beside them that is split late has many places in it.
#[test]
fn segments_of_very_different_depths_are_split_too() {
    let factor = 0x9e37_79b9_7f4a_7c15_u64;
    let inverse = (0..6).fold(factor, |it, _| it.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(it))));
    let hash_of = |tag: u32| (u64::from(tag) << 32).wrapping_mul(inverse);
    assert_eq!(tag_of(hash_of(0x1234_5678)), 0x1234_5678);
    let near = (0..20_000u32).map(|slot| (hash_of(mixed(slot.into()) as u32 >> 4), slot));
    let far = (20_000..50_000u32).map(|slot| (hash_of(mixed(slot.into()) as u32), slot));
    let mut table = SlotTable::default();
    near.clone().for_each(|(hash, slot)| table.insert(hash, slot));
    far.clone().for_each(|(hash, slot)| table.insert(hash, slot));
    table.assert_sound();
    for (hash, slot) in near.chain(far) {
        assert_eq!(table.find(hash, |found| found == slot), Some(slot));
    }
}

#[test]
fn the_same_insertions_make_the_same_table() {
    let made = || {
        let mut table = SlotTable::default();
        (0..50_000u32).for_each(|slot| table.insert(mixed(slot.into()), slot));
        let entries: Vec<(u32, u32)> =
            table.segments.iter().flat_map(|segment| segment.taken().map(|entry| (entry.tag, entry.slot))).collect();
        (table.directory, entries)
    };
    assert_eq!(made(), made());
}

proptest! {
    /// As a map. Few distinct hashes: many are alike.
    #[test]
    fn finds_what_a_map_finds(hashes in proptest::collection::vec((0u64..4, any::<u16>()), 1..40_000)) {
        let (mut table, mut model) = (SlotTable::default(), HashMap::new());
        for (slot, (front, back)) in (0u32..).zip(&hashes) {
            let hash = mixed(front << 20 | u64::from(back % 64));
            table.insert(hash, slot);
            model.entry(hash).or_insert_with(Vec::new).push(slot);
        }
        table.assert_sound();
        for (hash, slots) in model {
            for slot in slots {
                prop_assert_eq!(table.find(hash, |found| found == slot), Some(slot));
            }
            prop_assert_eq!(table.find(hash, |_| false), None);
        }
    }
}
