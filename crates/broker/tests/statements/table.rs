//! Checks that `docs/mqtt-statements.md` names the tests of each statement.
//!
//! The list of statements and what they say is written by hand; the last column is made from the tests: those whose
//! description, or whose case in `wire`, names the statement. `UPDATE_EXPECT=1 cargo test -p tidegate-broker --test
//! statements table` writes it anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where tests are, below the root of the tree, and what the table calls them.
const PLACES: [(&str, &str); 5] = [
    ("crates/wire/src/mqtt", "codec"),
    ("crates/wire/src/websocket", "codec"),
    ("crates/broker/tests/statements", "broker"),
    ("crates/doors/src", "doors"),
    ("crates/tidegate/tests", "doors"),
];

/// Statement to the places where it is tested: `broker: connect`.
type Tested = BTreeMap<String, Vec<String>>;

#[test]
fn the_table_says_where_each_statement_is_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = root.join("docs/mqtt-statements.md");
    let written = fs::read_to_string(&table).expect("the table is there");
    let mut tested = tested(&root);
    let mut open = Vec::new();
    let made: String = written.lines().map(|line| row(line, &mut tested, &mut open) + "\n").collect();
    assert!(open.is_empty(), "neither tested nor explained: {open:?}");
    assert!(tested.is_empty(), "tests name what is no statement: {tested:?}");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&table, made).expect("the table can be written");
        return;
    }
    for (written, made) in written.lines().zip(made.lines()) {
        // A test that the table does not list yet is no error; one that it lists must exist.
        let is_there = |place: &str| place.starts_with('—') || made.contains(place);
        let places = written.rsplit('|').nth(1).unwrap_or_default();
        let is_true =
            places.split(", ").all(|place| is_there(place.trim())) && !(places.trim().is_empty() && made != written);
        assert!(is_true, "out of date: {written}\nUPDATE_EXPECT=1 writes the table anew");
    }
}

/// A line of the table with its last column made anew; other lines as they are. A column that explains why there is no
/// test stays, unless there is one.
fn row(line: &str, tested: &mut Tested, open: &mut Vec<String>) -> String {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let ["", statement, who, what, places, ""] = columns[..] else { return line.to_owned() };
    if !statement.starts_with("MQTT-") {
        return line.to_owned();
    }
    let places = match tested.remove(statement) {
        Some(places) => places.join(", "),
        None if places.starts_with("— ") => places.to_owned(),
        None if who == "client" => "— the client's".to_owned(),
        None => {
            open.push(statement.to_owned());
            places.to_owned()
        }
    };
    format!("| {statement} | {who} | {what} | {places} |")
}

fn tested(root: &Path) -> Tested {
    let mut tested = Tested::new();
    for (folder, called) in PLACES {
        let mut files = Vec::new();
        collect(&root.join(folder), &mut files);
        for file in files {
            let path = file.to_string_lossy();
            let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
            if !is_test || path.ends_with("statements/table.rs") {
                continue;
            }
            let name = file.file_stem().expect("a file has a name").to_string_lossy();
            for statement in statements(&fs::read_to_string(&file).expect("a test can be read")) {
                let places = tested.entry(statement).or_default();
                let place = format!("{called}: {name}");
                if !places.contains(&place) {
                    places.push(place);
                }
            }
        }
    }
    tested
}

pub fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder can be read").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// All `MQTT-1.2.3-4` and `MQTT-3.1.1 1.2.3-4` in a text.
fn statements(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (start, _) in text.match_indices("MQTT-") {
        let rest = &text[start + "MQTT-".len()..];
        let (version, number) = match rest.strip_prefix("3.1.1 ") {
            Some(number) => ("3.1.1 ", number),
            None => ("", rest),
        };
        let end = number.find(|letter: char| !matches!(letter, '0'..='9' | '.' | '-')).unwrap_or(number.len());
        let number = &number[..end];
        if number.split('-').count() == 2 && number.split('.').count() == 3 {
            found.push(format!("MQTT-{version}{number}"));
        }
    }
    found
}
