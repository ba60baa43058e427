//! Sections of several owners: what files may write, and what errors say.

use expect_test::{Expect, expect};

use crate::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mood {
    Calm,
    Wild,
}

words! {
    struct MoodWord(Mood) { "calm" => Mood::Calm, "wild" => Mood::Wild }
}

config! {
    struct LimitKeys in "limits" {
        workers: Count<u16> = 2, 1..=64, restart, "threads";
        body_bytes_max: Bytes<u32> = 1 << 20, 1024..=(4 << 20), restart, "bytes of a body";
        idle_timeout_ms: Milliseconds = 500, 10..=60_000, live, "milliseconds of silence";
        connects_per_s: PerSecond = 0, 0..=1_000, live, "connections taken per second";
    }
}

config! {
    /// Another owner of the same section.
    struct MoodKeys in "limits" {
        mood: MoodWord = "calm", .., live, "how it is";
    }
}

config! {
    struct DoorKeys in "door" {
        listen: Address = "127.0.0.1:80", .., restart, "where it listens";
        other: Address = "off", .., restart, "where it listens, too";
        open: Flag = true, .., restart, "whether it is open";
        key_file: Optional<FilePath> = NoDefault, .., live, "its key";
        names: Texts = &["front", "main"], .., live, "what it is called";
    }
}

config! {
    /// A section inside a section.
    struct GuestKeys in [["door.guest"]] {
        name: Required<Text> = NoDefault, .., live, "who comes";
        mood: Required<MoodWord> = NoDefault, .., live, "how they are";
        friends: Required<Texts> = NoDefault, .., live, "whom they bring";
        stay_s: Seconds = 60, 1..=100, restart, "seconds that they stay";
    }
}

config! {
    struct LampKeys in "lamp.left" | "lamp.right" {
        on: Flag = false, .., live, "whether it shines";
    }
}

const OWNERS: &[&[Section]] =
    &[LimitKeys::SECTIONS, MoodKeys::SECTIONS, DoorKeys::SECTIONS, GuestKeys::SECTIONS, LampKeys::SECTIONS];

fn document(text: &str) -> Result<Document, ConfigError> {
    Document::of("test.toml", text, &Schema::of(OWNERS, "the manual"))
}

/// What a reader of the whole file is told.
fn check(text: &str, expected: Expect) {
    let read = || {
        let document = document(text)?;
        document.section::<LimitKeys>()?;
        document.section::<MoodKeys>()?;
        document.section::<DoorKeys>()?;
        document.list::<GuestKeys>()?;
        document.section_at::<LampKeys>("lamp.left")?;
        document.section_at::<LampKeys>("lamp.right")
    };
    let outcome = read().map_or_else(|error| error.to_string(), |_| "good".to_owned());
    expected.assert_eq(&outcome);
}

#[test]
fn what_is_not_written_has_its_default() {
    let document = document("").unwrap();
    let limits: LimitKeys = document.section().unwrap();
    assert_eq!(limits, LimitKeys { workers: 2, body_bytes_max: 1 << 20, idle_timeout_ms: 500, connects_per_s: 0 });
    let door: DoorKeys = document.section().unwrap();
    assert_eq!((door.listen, door.other), (Some("127.0.0.1:80".parse().unwrap()), None));
    assert_eq!((door.open, door.key_file, door.names), (true, None, vec!["front".into(), "main".into()]));
    assert_eq!(document.section::<MoodKeys>().unwrap().mood, Mood::Calm);
    assert!(document.list::<GuestKeys>().unwrap().is_empty());
}

#[test]
fn what_is_written_holds() {
    let document = document(
        "[limits]\nworkers = 0x10\nmood = \"wild\"\n[door]\nlisten = \"off\"\nkey_file = \"k\"\nnames = []\n\
         [[door.guest]]\nname = \"ann\"\nmood = \"calm\"\nfriends = [\"bob\"]\n\
         [[door.guest]]\nname = \"eve\"\nmood = \"wild\"\nfriends = [\"ann\", \"bob\"]\nstay_s = 9\n\
         [lamp.right]\non = true",
    )
    .unwrap();
    assert_eq!(document.section::<LimitKeys>().unwrap().workers, 16);
    assert_eq!(document.section::<MoodKeys>().unwrap().mood, Mood::Wild);
    let door: DoorKeys = document.section().unwrap();
    assert_eq!((door.listen, door.key_file, door.names.len()), (None, Some("k".into()), 0));
    let guests: Vec<GuestKeys> = document.list().unwrap();
    assert_eq!((&*guests[0].name, guests[0].stay_s, guests[0].mood), ("ann", 60, Mood::Calm));
    assert_eq!((&*guests[1].name, guests[1].stay_s, guests[1].friends.len()), ("eve", 9, 2));
    let lamp = |path| document.section_at::<LampKeys>(path).unwrap().on;
    assert_eq!((lamp("lamp.left"), lamp("lamp.right")), (false, true));
}

#[test]
fn unknown_names_are_errors_that_name_the_nearest_known_one() {
    check("[limit]", expect![[r#"test.toml:1: unknown key "limit"; did you mean "limits"?"#]]);
    check("[limits]\nworker = 1", expect![[r#"test.toml:2: unknown key "limits.worker"; did you mean "workers"?"#]]);
    // A key of another owner of the section, and a section inside a section.
    check("[limits]\nmod = 1", expect![[r#"test.toml:2: unknown key "limits.mod"; did you mean "mood"?"#]]);
    check("[[door.gest]]", expect![[r#"test.toml:1: unknown key "door.gest"; did you mean "guest"?"#]]);
    check("[[door.guest]]\nnaem = 1", expect![[r#"test.toml:2: unknown key "door.guest.naem"; did you mean "name"?"#]]);
    check("[lamp]\nxyzzy = 1", expect![[r#"test.toml:2: unknown key "lamp.xyzzy"; the manual documents every key"#]]);
}

#[test]
fn values_of_another_type_are_errors() {
    let cases = [
        ("workers", "-1"),
        ("workers", "\"four\""),
        ("workers", "1.5"),
        ("workers", "9223372036854775808"),
        ("mood", "[\"calm\"]"),
    ];
    let mut told = String::new();
    for (key, value) in cases {
        let error = document(&format!("[limits]\n{key} = {value}")).unwrap_err();
        told += &format!("{error}\n");
    }
    for text in
        ["[door]\nnames = [1]", "[door]\nopen = 1", "[[limits]]", "[door.guest]", "lamp = 1", "door.guest = [1]"]
    {
        told += &format!("{}\n", document(text).unwrap_err());
    }
    expect![[r#"
        test.toml:2: limits.workers = -1: expected an integer, zero or more: threads
        test.toml:2: limits.workers = "four": expected an integer, zero or more: threads
        test.toml:2: limits.workers = 1.5: expected an integer, zero or more: threads
        test.toml:2: limits.workers = 9223372036854775808: expected an integer, zero or more: threads
        test.toml:2: limits.mood = ["calm"]: expected a quoted text: how it is
        test.toml:2: door.names = [1]: expected a list of quoted texts: what it is called
        test.toml:2: door.open = 1: expected true or false: whether it is open
        test.toml:1: limits: expected a section, [limits]
        test.toml:1: door.guest: expected [[door.guest]], in two brackets, as there may be several
        test.toml:1: lamp: expected a section, [lamp]
        test.toml:1: door.guest: expected sections, [[door.guest]]
    "#]]
    .assert_eq(&told);
}

#[test]
fn values_out_of_range_and_missing_ones_are_errors_at_their_line() {
    check("[limits]\nworkers = 65", expect!["test.toml:2: limits.workers = 65: expected 1 to 64"]);
    check("[limits]\n\nmood = \"mad\"", expect![[r#"test.toml:3: limits.mood = "mad": expected "calm" or "wild""#]]);
    check(
        "[door]\nlisten = \"here\"",
        expect![[
            r#"test.toml:2: door.listen = "here": expected an IP address and port such as "127.0.0.1:80", or "off""#
        ]],
    );
    check("[door]\nkey_file = \"\"", expect![[r#"test.toml:2: door.key_file = "": expected a path"#]]);
    let guest = "[[door.guest]]\nname = \"ann\"\nmood = \"calm\"\nfriends = [\"bob\"]\n";
    check(guest, expect!["good"]);
    check(
        &format!("{guest}[[door.guest]]\nname = \"\""),
        expect!["test.toml:6: door.guest[1].name is missing: who comes"],
    );
    check(
        "[[door.guest]]\nname = \"eve\"",
        expect![[r#"test.toml:1: door.guest[0].mood is missing: how they are; expected "calm" or "wild""#]],
    );
    check(&guest.replace("\"bob\"", ""), expect!["test.toml:4: door.guest[0].friends is missing: whom they bring"]);
    check(&format!("{guest}{guest}stay_s = 0"), expect!["test.toml:9: door.guest[1].stay_s = 0: expected 1 to 100"]);
}

#[test]
fn changes_are_named_by_key_and_lists_by_section() {
    let changes = |old: &str, new: &str| {
        let changes = document(old).unwrap().changes(&document(new).unwrap());
        let shown = changes.iter().map(|changed| format!("{} {:?}", changed.path, changed.change));
        shown.collect::<Vec<_>>().join(", ")
    };
    let guest = "[[door.guest]]\nname = \"ann\"\n";
    for (old, new, expected) in [
        ("", "[limits]\nworkers = 2", ""),
        ("[limits]\nworkers = 3", "", "limits.workers Restart"),
        ("[lamp.left]\non = true", "[lamp.right]\non = true", "lamp.left.on Live, lamp.right.on Live"),
        ("[door]\nnames = [\"front\"]", "[door]\nkey_file = \"k\"", "door.key_file Live, door.names Live"),
        (guest, &guest.replace("ann", "eve"), "door.guest Live"),
        (guest, &format!("{guest}stay_s = 2"), "door.guest Restart"),
        (guest, &format!("{guest}{guest}"), "door.guest Restart"),
    ] {
        assert_eq!(changes(old, new), expected, "{old:?} to {new:?}");
    }
}

#[test]
fn the_text_of_a_file_is_in_no_debug_output() {
    let document = document("[door]\nkey_file = \"secret\"").unwrap();
    assert_eq!(format!("{document:?}"), "Document { name: \"test.toml\", .. }");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Document::read("no/such.toml".as_ref(), &Schema::of(OWNERS, "the manual")).unwrap_err();
    assert!(error.to_string().starts_with("no/such.toml: cannot be read: "), "{error}");
}

#[test]
#[should_panic(expected = "limits.mood is declared twice")]
fn a_key_has_one_owner() {
    Schema::of(&[MoodKeys::SECTIONS, MoodKeys::SECTIONS], "the manual");
}

#[test]
#[should_panic(expected = "owners of [limits] disagree whether it is repeated")]
fn a_section_is_repeated_for_all_its_owners_or_for_none() {
    config! { struct Others in [["limits"]] { more: Flag = false, .., live, "more"; } }
    Schema::of(&[MoodKeys::SECTIONS, Others::SECTIONS], "the manual");
}

#[test]
#[should_panic(expected = "limits.mood: the default \"mad\" is no word of it")]
fn a_default_is_one_of_the_words() {
    config! { struct Mad in "limits" { mood: MoodWord = "mad", .., live, "how it is"; } }
    Schema::of(&[Mad::SECTIONS], "the manual");
}

#[test]
#[should_panic(expected = "the keys of [door] are not in the schema")]
fn a_section_that_was_not_handed_in_cannot_be_read() {
    let document = Document::of("test.toml", "", &Schema::of(&[MoodKeys::SECTIONS], "the manual")).unwrap();
    drop(document.section::<DoorKeys>());
}

#[test]
fn a_derived_default_holds_where_nothing_is_written() {
    let derived = |text: &str| {
        let mut document = document(text).unwrap();
        document.derive_default("limits.workers", 1);
        document
    };
    let (silent, written) = (derived(""), derived("[limits]\nworkers = 2"));
    assert_eq!((silent.written_number("limits.workers"), written.written_number("limits.workers")), (None, Some(2)));
    assert_eq!(silent.changes(&written).len(), 1, "it is another value than what is written");
    assert_eq!(silent.changes(&derived("[limits]\nworkers = 1")).len(), 0, "and the same as if it were");
}

#[test]
#[should_panic(expected = "limits.nothing is no key of a number that stands once")]
fn only_a_number_that_stands_once_has_a_derived_default() {
    document("").unwrap().derive_default("limits.nothing", 1);
}
