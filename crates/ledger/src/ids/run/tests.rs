use super::*;
use crate::ids::run_filter::FilterRoom;

fn header(entries: u64) -> RunHeader {
    RunHeader {
        number: 7,
        tier: 0,
        entries,
        first: Position(1),
        last: Position(2),
        ordered: 0,
        times: (0, 0),
        random_filter: FilterShape::default(),
        ordered_filter: FilterShape::default(),
    }
}

fn key(key: u64) -> RunKey {
    RunKey { key, tail: 0 }
}

#[test]
fn a_run_of_any_size_has_few_fences_and_room_for_its_checksum() {
    let billions = header(PAGE_ENTRIES as u64 * (2 * FENCES_MAX + 1));
    assert_eq!((billions.stride(), billions.fences()), (3, (2 * FENCES_MAX + 1).div_ceil(3)));
    // Fences that fill a page leave no room for a checksum in it.
    for (pages, more) in [(511, 1), (512, 2)] {
        let run = header(PAGE_ENTRIES as u64 * pages);
        assert_eq!(run.file_bytes(), run.tail_offset() + more * PAGE_BYTES as u64, "{pages} pages");
    }
}

#[test]
fn the_checksum_of_a_header_page_covers_all_before_it() {
    let page = header(9).encode_page();
    let (covered, sum) = page.split_at(PAGE_BYTES - 4);
    assert_eq!(sum, crc_fast::crc32_iscsi(covered).to_le_bytes());
}

#[test]
fn where_pages_share_a_fence_a_search_begins_and_goes_on_at_the_right_ones() {
    let fences = Fences { keys: vec![10, 20, 30], stride: 4 };
    let begins = [5, 10, 11, 20, 25, 30, 31].map(|wanted| fences.first_page(key(wanted)));
    assert_eq!(begins, [0, 0, 0, 0, 4, 4, 8]);
    let goes_on = |page: u64, wanted: u64| fences.goes_on(page, key(wanted));
    assert!(goes_on(4, 20) && goes_on(4, 25) && !goes_on(4, 19) && goes_on(8, 30) && !goes_on(8, 29));
    assert!(
        goes_on(5, 1) && !goes_on(12, u64::MAX >> 32),
        "without a fence the page is asked; behind all there is none"
    );
}

#[test]
fn an_entry_is_had_where_its_filter_and_its_fence_have_it() {
    let entries = PAGE_ENTRIES as u64 * 2;
    let shape = FilterShape::best(entries, FilterRoom::beside(0, 1 << 20));
    let mut index = RunIndex::new(&RunHeader { random_filter: shape, ..header(entries) });
    let of = |number: u64, odd: u64| key(number << 53 | odd << 52 | number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 13);
    let present = |number: u64| of(number, 0);
    for number in 0..entries {
        let page = number / PAGE_ENTRIES as u64;
        index.note(page, number.is_multiple_of(PAGE_ENTRIES as u64), present(number));
    }
    assert!((0..entries).all(|number| index.has(number / PAGE_ENTRIES as u64, present(number))));
    let strangers = (0..entries).filter(|number| index.has(1, of(*number, 1))).count();
    assert!(strangers < entries as usize / 2, "{strangers}");
    // An entry of the second page stands on the first one: a search would not begin there.
    let early = (0..entries).filter(|number| index.has(0, present(*number))).count();
    assert!(early <= PAGE_ENTRIES + 1, "{early}");
}

#[test]
fn a_page_of_another_place_or_file_is_no_page_of_ours() {
    let mut bytes = [0; PAGE_BYTES];
    Page::seal(&mut bytes, 7, 3);
    let verify = |run: u64, page: u64| {
        let run = RunHeader { number: run, ..header(PAGE_ENTRIES as u64 * 9) };
        Page::verify(&bytes, &run, page, Path::new("run")).is_ok()
    };
    assert_eq!([verify(7, 3), verify(7, 4), verify(8, 3), verify(8, 4)], [true, false, false, false]);
}
