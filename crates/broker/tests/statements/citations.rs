//! A comment that cites a statement of MQTT also says what the statement demands: `[MQTT-3.3.1-4]: QoS is not 3.`
//!
//! Why a test: a reader knows the demand and not the number, and a bare number looks complete to its author.

use std::fs;
use std::path::Path;

use crate::table::collect;

/// Crates whose comments cite statements.
const CRATES: [&str; 5] = ["broker", "client", "doors", "storm", "wire"];

#[test]
fn beside_each_citation_stands_what_it_demands() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for name in CRATES {
        collect(&root.join(name), &mut files);
    }
    let mut bare = Vec::new();
    let mut citations = 0;
    for file in files.iter().filter(|file| !file.ends_with("statements/citations.rs")) {
        let text = fs::read_to_string(file).expect("a source file can be read");
        let (found, without) = check(&text);
        citations += found;
        bare.extend(without.iter().map(|line| format!("{}:{line}", file.display())));
    }
    assert!(citations > 200, "only {citations} citations were found: the search is broken");
    assert!(bare.is_empty(), "citations without what they demand:\n{}", bare.join("\n"));
}

#[test]
fn a_bare_citation_is_found() {
    let text = "//! [MQTT-3.3.1-4]: QoS is not 3.\n/// The QoS `[MQTT-3.3.1-4]`.\n\
                let qos; // [MQTT-3.3.1-4]\nlet text = \"[MQTT-1]\";";
    assert_eq!(check(text), (3, vec![2, 3]));
}

/// The number of citations in comments, and the lines of those that are not followed by a colon and a demand.
fn check(text: &str) -> (usize, Vec<usize>) {
    let mut citations = 0;
    let mut bare = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some((_, comment)) = line.split_once("//") else { continue };
        for (start, _) in comment.match_indices("[MQTT-") {
            citations += 1;
            let demand =
                comment[start..].split_once(']').and_then(|(_, rest)| rest.trim_start_matches('`').strip_prefix(": "));
            let words =
                demand.map_or(0, |demand| demand.split("[MQTT-").next().unwrap_or("").split_whitespace().count());
            if words < 2 {
                bare.push(index + 1);
            }
        }
    }
    (citations, bare)
}
