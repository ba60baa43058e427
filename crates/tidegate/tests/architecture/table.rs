//! Reads the rules from the tables of `ARCHITECTURE.md`, one row for each part of the workspace.

/// What one part may know.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// A crate, `shard`, or a module of one, `doors::http`.
    pub part: String,
    /// The crates of this workspace that it may depend on; `None` for a module, or where all are allowed.
    pub stands_on: Option<Vec<String>>,
    /// What it must not say.
    pub forbidden: Vec<Forbidden>,
}

/// A word or a piece of code that must not stand in a part.
#[derive(Debug, PartialEq, Eq)]
pub struct Forbidden {
    pub pattern: String,
    /// Paths below the part's crate's `src/` that may.
    pub but_in: Vec<String>,
}

/// Code that stands in one file only.
#[derive(Debug, PartialEq, Eq)]
pub struct Only {
    pub pattern: String,
    /// Below `crates/`.
    pub file: String,
}

const RULES: &str = "| Part | stands on | must not know | so nowhere in it |";
const ONLY: &str = "| Code | stands only in |";

/// The rules for parts.
pub fn rules(architecture: &str) -> Vec<Rule> {
    rows(architecture, RULES).map(|cells| rule(&cells)).collect()
}

/// What stands in one file only.
pub fn only(architecture: &str) -> Vec<Only> {
    let only = |cells: Vec<&str>| Only { pattern: quoted(cells[0]).remove(0), file: quoted(cells[1]).remove(0) };
    rows(architecture, ONLY).map(only).collect()
}

/// The cells of the rows of the table with this head.
fn rows<'a>(text: &'a str, head: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
    let mut lines =
        text.lines().skip_while(move |line| *line != head).skip(2).take_while(|line| line.starts_with('|')).peekable();
    assert!(lines.peek().is_some(), "ARCHITECTURE.md has no table {head:?}");
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

fn rule(cells: &[&str]) -> Rule {
    let [part, stands_on, _, forbidden] = cells else { panic!("a rule has four cells: {cells:?}") };
    let stands_on = match *stands_on {
        "" | "all" => None,
        "nothing" => Some(Vec::new()),
        crates => Some(quoted(crates)),
    };
    let forbidden = forbidden.split(", ").filter(|item| !item.is_empty()).map(|item| {
        let mut quoted = quoted(item).into_iter();
        let pattern = quoted.next().unwrap_or_else(|| panic!("{item:?} names nothing in backticks"));
        let but_in: Vec<String> = quoted.collect();
        assert_eq!(item.contains("but in"), !but_in.is_empty(), "{item:?}: `word` or `word` but in `path`");
        Forbidden { pattern, but_in }
    });
    Rule { part: quoted(part).remove(0), stands_on, forbidden: forbidden.collect() }
}

/// What stands in backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_becomes_a_rule() {
        let text = "| Part | stands on | must not know | so nowhere in it |\n|---|---|---|---|\n\
            | `wire` | nothing | sockets | `mio`, `std::net` but in `a.rs` and `b/` |\n\
            | `a::b` |  | all |  |\n\n| `c` | | | |";
        let forbidden = |pattern: &str, but_in: &[&str]| Forbidden {
            pattern: pattern.into(),
            but_in: but_in.iter().map(|path| path.to_string()).collect(),
        };
        let wire = vec![forbidden("mio", &[]), forbidden("std::net", &["a.rs", "b/"])];
        let expected = [
            Rule { part: "wire".into(), stands_on: Some(Vec::new()), forbidden: wire },
            Rule { part: "a::b".into(), stands_on: None, forbidden: Vec::new() },
        ];
        assert_eq!(rules(text), expected);
    }
}
