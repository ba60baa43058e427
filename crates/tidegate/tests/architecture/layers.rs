//! The order of a crate's modules, as the table at the head of its `lib.rs` has it.
//!
//! ```text
//!   //! | Module | What it is |
//!   //! |---|---|
//!   //! | `json` | … |                      knows no other module of the crate
//!   //! | `http` | … |                      may know `json`
//!   //! | `node`, `worker` | … |            may know both, and each other
//! ```
//!
//! A module knows only modules in rows above its own, so no two know each other in a circle; those of one row are taken
//! for one.

use std::collections::BTreeMap;

use crate::code::Code;

/// The rows of the table, the lowest module first; `None` for a crate without the table.
pub fn rows(lib: &str) -> Option<Vec<Vec<String>>> {
    let mut lines = lib.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    lines.find(|line| line.starts_with("| Module |"))?;
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    let first_cell = |row: &str| row.split('|').nth(1).unwrap_or_default().to_owned();
    let modules = |cell: String| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    Some(rows.map(|row| modules(first_cell(row))).collect())
}

/// What the sources of crate `name`, by their paths below `src/`, do that the rows do not allow.
pub fn violations(name: &str, rows: &[Vec<String>], sources: &BTreeMap<String, Code>) -> Vec<String> {
    let place = |module: &str| rows.iter().position(|row| row.iter().any(|of| of == module));
    let mut wrong = Vec::new();
    for (path, code) in sources.iter().filter(|(path, _)| !matches!(&***path, "lib.rs" | "main.rs")) {
        let module = path.split('/').next().expect("a path has a part").trim_end_matches(".rs");
        let Some(own) = place(module) else {
            wrong.push(format!("crates/{name}/src/lib.rs: the table of modules has no row for {module}"));
            continue;
        };
        for known in code.modules_known(depth(path)) {
            if known != module && place(&known).is_some_and(|other| other > own) {
                wrong.push(format!("crates/{name}/src/{path} knows {known}, which stands above {module}"));
            }
        }
    }
    for module in rows.iter().flatten() {
        let is_file = |path: &String| *path == format!("{module}.rs") || path.starts_with(&format!("{module}/"));
        if !sources.keys().any(is_file) {
            wrong.push(format!("crates/{name}/src/lib.rs: the table has a row for {module}, which is not there"));
        }
    }
    wrong.dedup();
    wrong
}

/// How many `super` lead from a file to the root of its crate.
fn depth(path: &str) -> usize {
    let parts = path.split('/').count();
    if path.ends_with("/mod.rs") { parts - 1 } else { parts }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "\
//! A crate.
//!
//! | Module | What it is |
//! |---|---|
//! | `json` | bodies |
//! | `http` | a door |
//! | `node`, `worker` | threads, which know `json` |
//!
//! More.
pub mod json;";

    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let good =
            [("json.rs", ""), ("http/mod.rs", ""), ("node.rs", ""), ("worker.rs", ""), ("lib.rs", "use crate::node;")];
        let files = good.iter().chain(files).map(|(path, source)| ((*path).to_owned(), Code::of(source))).collect();
        violations("doors", &rows(LIB).unwrap(), &files)
    }

    #[test]
    fn the_table_is_read() {
        assert_eq!(rows(LIB).unwrap(), [vec!["json"], vec!["http"], vec!["node", "worker"]]);
        assert_eq!(rows("//! A crate without it.\n"), None);
    }

    #[test]
    fn modules_know_what_stands_below_them() {
        let fine = [
            ("http/mod.rs", "use crate::json::Problem; pub(crate) mod door;"),
            ("http/door.rs", "use super::super::json; use super::node;"),
            ("node.rs", "use crate::{worker, json::{decode, Problem}};"),
            ("worker.rs", "use super::node::Node; fn f() { crate::http::serve() }"),
        ];
        assert_eq!(check(&fine), [""; 0]);
    }

    #[test]
    fn what_stands_above_is_found_however_it_is_named() {
        for (path, source, words) in [
            ("json.rs", "use crate::http::Door;", "crates/doors/src/json.rs knows http, which stands above json"),
            (
                "json.rs",
                "fn f() { crate::http::serve() }",
                "crates/doors/src/json.rs knows http, which stands above json",
            ),
            ("json.rs", "use super::http;", "crates/doors/src/json.rs knows http, which stands above json"),
            (
                "json.rs",
                "use crate::{self, http::Door};",
                "crates/doors/src/json.rs knows http, which stands above json",
            ),
            (
                "http/a/b.rs",
                "use super::super::super::node;",
                "crates/doors/src/http/a/b.rs knows node, which stands above http",
            ),
            ("extra.rs", "", "crates/doors/src/lib.rs: the table of modules has no row for extra"),
        ] {
            assert_eq!(check(&[(path, source)]), [words], "{source}");
        }
        let files = [("json.rs", ""), ("http.rs", ""), ("node.rs", "")];
        let files = files.map(|(path, source)| (path.to_owned(), Code::of(source))).into();
        let missing = "crates/doors/src/lib.rs: the table has a row for worker, which is not there";
        assert_eq!(violations("doors", &rows(LIB).unwrap(), &files), [missing]);
    }
}
