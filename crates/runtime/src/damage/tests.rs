use super::*;

fn log(shard: u16) -> LogId {
    LogId { directory: 1, family: 1, shard }
}

fn place(file: &str, offset: u64) -> DamagedPlace {
    DamagedPlace { file: file.into(), offset, what: "rot".into(), lost: "records 1 to 2".into(), is_away: false }
}

#[test]
fn a_place_is_kept_once_and_taken_back_when_its_file_was_read_again_without_damage() {
    let damages = Damages::default();
    let (own, other) = (Owner::Log(log(0)), Owner::Log(log(1)));
    let one = damages.note(own, 0, place("a", 1));
    assert!(std::ptr::eq(one, damages.note(own, 0, place("a", 1))), "interned");
    damages.note(own, 0, place("b", 1));
    damages.note(other, 1, place("c", 1));
    assert_eq!((damages.count(), damages.of(own).len(), damages.of(other).len()), (3, 2, 1));

    // A pass finds another place of `a`, and nothing in `b`.
    let pass = damages.begin_pass();
    damages.note(own, 0, place("a", 7));
    damages.mend(own, pass, Position(u64::MAX));
    let left: Vec<_> = damages.of(own).iter().map(|place| (&*place.file, place.offset)).collect();
    assert_eq!((left, damages.of(other).len(), damages.count()), (vec![("a", 1), ("a", 7)], 1, 3));
    assert_eq!(damages.find("b", 1), None);

    let pass = damages.begin_pass();
    damages.mend(own, pass, Position(u64::MAX));
    assert_eq!((damages.of(own).len(), damages.count()), (0, 1));
    assert!(std::ptr::eq(one, damages.note(own, 0, place("a", 1))), "found again, it is the same");
}

#[test]
fn more_places_than_are_told_apart_are_one() {
    let damages = Damages::default();
    let owner = Owner::Ids(log(0));
    (0..PLACES_MAX as u64 + 10).for_each(|offset| _ = damages.note(owner, 0, place("a", offset)));
    assert_eq!(damages.count(), PLACES_MAX);
    assert!(damages.note(owner, 0, place("a", u64::MAX)).what.contains("more places"));
}

#[test]
fn a_file_is_named_from_the_data_directory_on_or_from_its_archive_on() {
    let local = "segment-00000000000268427008.tgj";
    assert_eq!(file_of("ledger", log(2), local), format!("journal/ledger-2/{local}"));
    assert_eq!(
        file_of("ledger", log(2), &format!("/srv/a/journal/ledger-2/{local}")),
        format!("journal/ledger-2/{local}")
    );
    assert_eq!(file_of("ledger", log(2), "/srv/a/ARCHIVE"), "ARCHIVE");
    assert_eq!(file_of("ledger", log(2), "/srv/a/journal/ledger-2"), "journal/ledger-2", "no segment is made up");
    let moved = "00aa/ledger-2/segment-00000000000268427008-0123456789abcdef.tgj";
    for place in ["/mnt/far", "s3://bucket/prefix"] {
        assert_eq!(file_of("ledger", log(2), &format!("{place}/{moved}")), format!("archive: {moved}"));
    }
}

#[test]
fn of_one_file_a_line_a_minute_is_logged() {
    let (damages, now) = (Damages::default(), Instant::now());
    assert!(damages.tell(0, &place("a", 1), now), "the first at once");
    for offset in 2..100 {
        assert!(!damages.tell(0, &place("a", offset), now + Duration::from_secs(59)), "{offset}");
    }
    assert!(damages.tell(0, &place("b", 1), now + Duration::from_secs(1)), "another file");
    assert!(damages.tell(0, &place("a", 100), now + Duration::from_secs(60)));
    assert_eq!(damages.told.lock().unwrap().get("a").map(|(_, more)| *more), Some(0), "98 were told with it");
}
