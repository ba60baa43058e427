//! Reads the crates from the disk, and finds what breaks the rules.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::code::{Code, is_word};
use crate::layers;
use crate::table::{Forbidden, Only, Rule};

/// All crates, by the names of their folders.
#[derive(Debug, Default)]
pub struct Tree {
    crates: BTreeMap<String, Crate>,
}

/// One crate.
#[derive(Debug, Default)]
struct Crate {
    /// As other manifests name it.
    package: Option<String>,
    dependencies: Vec<String>,
    /// The order of its modules, if `lib.rs` tells it.
    layers: Option<Vec<Vec<String>>>,
    /// Sources that are not tests, by their paths below `src/`.
    sources: BTreeMap<String, Code>,
}

impl Tree {
    /// Reads all crates in `folders`.
    pub fn read(folders: &[&Path]) -> Tree {
        let mut tree = Tree::default();
        let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("the crates are there"));
        for entry in entries {
            let path = entry.expect("the crates can be listed").path();
            let Ok(manifest) = fs::read_to_string(path.join("Cargo.toml")) else { continue };
            let mut sources = Vec::new();
            read_sources(&path.join("src"), "", &mut sources);
            let name = path.file_name().expect("a folder").to_string_lossy();
            tree.add(&name, &manifest, sources.iter().map(|(path, source)| (&**path, &**source)));
        }
        tree
    }

    /// Adds a crate: its manifest, and its sources by their paths below `src/`.
    pub fn add<'a>(&mut self, name: &str, manifest: &str, sources: impl Iterator<Item = (&'a str, &'a str)>) {
        let sources: Vec<_> = sources.collect();
        let lib = sources.iter().find(|(path, _)| *path == "lib.rs");
        let layers = lib.and_then(|(_, source)| layers::rows(source));
        let mut sources: BTreeMap<String, Code> =
            sources.into_iter().map(|(path, source)| (path.to_owned(), Code::of(source))).collect();
        let of_tests: Vec<String> = sources
            .iter()
            .flat_map(|(path, code)| code.test_modules.iter().map(|module| format!("{}{module}", folder_of(path))))
            .collect();
        sources.retain(|path, _| !of_tests.iter().any(|module| is_of_module(path, module)));
        let manifest: toml::Table = manifest.parse().expect("cargo reads it, too");
        let package = manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
        let package = package.map(str::to_owned);
        let dependencies = dependencies(&manifest);
        self.crates.insert(name.to_owned(), Crate { package, dependencies, layers, sources });
    }

    /// The crates' names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.crates.keys().map(String::as_str)
    }

    /// What breaks a rule, in words. A crate that does not exist breaks none.
    pub fn violations(&self, rule: &Rule) -> Vec<String> {
        let (name, module) = match rule.part.split_once("::") {
            Some((name, module)) => (name, Some(module.replace("::", "/"))),
            None => (&*rule.part, None),
        };
        let Some(found) = self.crates.get(name) else { return Vec::new() };
        let mut wrong = Vec::new();
        let is_part = |path: &str| module.as_ref().is_none_or(|module| is_of_module(path, module));
        let sources: Vec<_> = found.sources.iter().filter(|(path, _)| is_part(path)).collect();
        if sources.is_empty() {
            wrong.push(format!("{}: the table has a row for it, and no file belongs to it", rule.part));
        }
        for dependency in &found.dependencies {
            let in_workspace = self.of_workspace(dependency);
            let allowed = rule.stands_on.as_deref();
            if let (Some(known), Some(allowed)) = (in_workspace, allowed)
                && !allowed.iter().any(|allowed| allowed == known)
            {
                wrong.push(format!("{name} depends on {known}, and may stand on {allowed:?} only"));
            }
            let is_refused = |forbidden: &Forbidden| forbidden.pattern == *dependency && forbidden.but_in.is_empty();
            if module.is_none() && rule.forbidden.iter().any(is_refused) {
                wrong.push(format!("{name} depends on {dependency}, which it must not know"));
            }
        }
        for Forbidden { pattern, but_in } in &rule.forbidden {
            let excuse = |path: &str| but_in.iter().find(|excused| path.starts_with(excused.as_str()));
            let said_in: Vec<&str> =
                sources.iter().filter(|(_, code)| code.mentions(pattern)).map(|(path, _)| path.as_str()).collect();
            for path in said_in.iter().filter(|path| excuse(path).is_none()) {
                let what = if is_word(pattern) { "the word " } else { "" };
                wrong.push(format!("{name}/src/{path} says {what}{pattern}, which {} must not", rule.part));
            }
            for excused in
                but_in.iter().filter(|excused| !said_in.iter().any(|path| path.starts_with(excused.as_str())))
            {
                wrong.push(format!("{}: {excused} says {pattern} no more; take the exception out", rule.part));
            }
        }
        wrong
    }

    /// The folder of the crate that a manifest calls `dependency`; `None` for one of somebody else's.
    fn of_workspace<'a>(&'a self, dependency: &'a str) -> Option<&'a str> {
        let is_it = |found: &Crate| found.package.as_deref() == Some(dependency);
        let by_package = || self.crates.iter().find(|(_, found)| is_it(found)).map(|(name, _)| &**name);
        dependency.strip_prefix("tidegate-").or_else(by_package)
    }

    /// The crates whose `lib.rs` tells the order of its modules, and what breaks it.
    pub fn out_of_order(&self) -> (Vec<&str>, Vec<String>) {
        let with_table = self.crates.iter().filter_map(|(name, found)| Some((&**name, found.layers.as_ref()?, found)));
        let wrong = with_table.clone().flat_map(|(name, rows, found)| layers::violations(name, rows, &found.sources));
        (with_table.clone().map(|(name, ..)| name).collect(), wrong.collect())
    }

    /// Where code stands that belongs into one file.
    pub fn strays(&self, only: &Only) -> Vec<String> {
        let files = self.files().filter(|(_, code)| code.mentions(&only.pattern)).map(|(path, _)| path);
        files.filter(|path| *path != only.file).map(|path| format!("{path} says {}", only.pattern)).collect()
    }

    /// Names of metrics that are written down more than once.
    pub fn repeated_metrics(&self) -> Vec<String> {
        let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (path, code) in self.files() {
            for name in code.texts().filter(|text| is_metric(text)) {
                places.entry(name.to_owned()).or_default().push(path.clone());
            }
        }
        let repeated = places.into_iter().filter(|(_, places)| places.len() > 1);
        repeated.map(|(name, places)| format!("{name} stands in {}", places.join(" and "))).collect()
    }

    /// All sources, by their crates' names and their paths below `src/`.
    fn files(&self) -> impl Iterator<Item = (String, &Code)> {
        self.crates.iter().flat_map(|(name, found)| {
            found.sources.iter().map(move |(path, code)| (format!("{name}/src/{path}"), code))
        })
    }
}

/// Whether a file belongs to a module of its crate, `a/b` for `a::b`.
fn is_of_module(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// Where the modules lie that the file at `path` declares.
fn folder_of(path: &str) -> String {
    let (folder, file) = path.rsplit_once('/').map_or(("", path), |(folder, file)| (folder, file));
    let own = match file.trim_end_matches(".rs") {
        "lib" | "main" | "mod" => String::new(),
        own => format!("{own}/"),
    };
    if folder.is_empty() { own } else { format!("{folder}/{own}") }
}

/// `tidegate_` and lower case; names of crates stand in no string.
fn is_metric(text: &str) -> bool {
    let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    text.strip_prefix("tidegate_").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_lower))
}

/// What a manifest says that the crate cannot do without: also for building it and on some targets, but not for its
/// tests.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let tables =
        [manifest].into_iter().chain(targets.into_iter().flatten().filter_map(|(_, target)| target.as_table()));
    let lists = tables.flat_map(|table| ["dependencies", "build-dependencies"].map(|list| table.get(list)));
    lists.flatten().filter_map(toml::Value::as_table).flat_map(|list| list.keys().cloned()).collect()
}

fn read_sources(folder: &Path, prefix: &str, into: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a crate has sources") {
        let path = entry.expect("a folder can be listed").path();
        let name = path.file_name().expect("it was listed").to_string_lossy().into_owned();
        if path.is_dir() {
            read_sources(&path, &format!("{prefix}{name}/"), into);
        } else if name.ends_with(".rs") {
            into.push((format!("{prefix}{name}"), fs::read_to_string(&path).expect("a source is text")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{only, rules};

    const TABLE: &str = "\
| Part | stands on | must not know | so nowhere in it |
|---|---|---|---|
| `machines` | nothing | I/O | `std::fs`, `rand` |
| `shard` | `machines` | threads | `std::thread` but in `ids/worker.rs` |
| `shard::commit` | | | `topic` |
| `missing` | nothing | anything | `std` |

| Code | stands only in |
|---|---|
| `Durable(` | `shard/src/commit.rs` |
";

    /// What the rules find wrong with a workspace that keeps them but for `change`.
    fn problems_after(
        change: impl Fn(&mut Vec<(&'static str, &'static str, Vec<(&'static str, &'static str)>)>),
    ) -> Vec<String> {
        let mut crates = vec![
            (
                "machines",
                "[dev-dependencies]\nrand = '1'\ntidegate-shard = '1'",
                vec![
                    ("lib.rs", "//! No std::fs here.\n#[cfg(test)] mod tests; #[cfg(test)] mod chance;"),
                    ("tests.rs", "use std::fs;"),
                    ("chance.rs", "use rand::random;"),
                    ("chance/more.rs", "use rand::random;"),
                ],
            ),
            (
                "shard",
                "[dependencies]\ntidegate-machines = '1'",
                vec![
                    ("lib.rs", "pub mod commit; pub mod ids;"),
                    ("commit.rs", "fn f() { Durable(1) }"),
                    ("ids/worker.rs", "use std::thread;"),
                ],
            ),
        ];
        change(&mut crates);
        let mut tree = Tree::default();
        for (name, manifest, sources) in crates {
            tree.add(name, manifest, sources.into_iter());
        }
        let mut wrong: Vec<String> = rules(TABLE).iter().flat_map(|rule| tree.violations(rule)).collect();
        wrong.extend(only(TABLE).iter().flat_map(|only| tree.strays(only)));
        wrong.extend(tree.repeated_metrics());
        wrong
    }

    #[test]
    fn a_workspace_that_keeps_the_rules_is_left_in_peace() {
        assert_eq!(problems_after(|_| {}), [""; 0]);
    }

    #[test]
    fn each_kind_of_rule_can_be_broken() {
        let in_file = |place: usize, path: &'static str, source: &'static str| {
            problems_after(move |crates| crates[place].2.push((path, source)))
        };
        let manifest = |place: usize, manifest: &'static str| problems_after(move |crates| crates[place].1 = manifest);
        for (wrong, words) in [
            (
                in_file(0, "a.rs", "fn f() { std::fs::read() }"),
                "machines/src/a.rs says std::fs, which machines must not",
            ),
            (in_file(0, "a.rs", "use rand::random;"), "machines/src/a.rs says the word rand, which machines must not"),
            (in_file(1, "a.rs", "use std::{io, thread};"), "shard/src/a.rs says std::thread, which shard must not"),
            (
                in_file(1, "commit/a.rs", "struct TopicShard;"),
                "shard/src/commit/a.rs says the word topic, which shard::commit must not",
            ),
            (in_file(1, "a.rs", "fn f() { Durable(2) }"), "shard/src/a.rs says Durable("),
            (
                manifest(0, "[dependencies]\ntidegate-shard = '1'"),
                "machines depends on shard, and may stand on [] only",
            ),
            (
                manifest(0, "[target.'cfg(unix)'.dependencies]\nrand = '1'"),
                "machines depends on rand, which it must not know",
            ),
            (
                problems_after(|crates| {
                    crates.push(("outside", "[package]\nname = 'outside'", vec![("lib.rs", "")]));
                    crates[1].1 = "[dependencies]\noutside = '1'";
                }),
                "shard depends on outside, and may stand on [\"machines\"] only",
            ),
            (
                problems_after(|crates| {
                    crates[1].2.pop();
                }),
                "shard: ids/worker.rs says std::thread no more; take the exception out",
            ),
            (
                problems_after(|crates| {
                    crates[1].2.remove(1);
                }),
                "shard::commit: the table has a row for it, and no file belongs to it",
            ),
            (
                problems_after(|crates| crates.push(("missing", "", vec![("lib.rs", "use std::io;")]))),
                "missing/src/lib.rs says the word std, which missing must not",
            ),
            (
                problems_after(|crates| {
                    crates[0].2.push(("a.rs", r#"const A: &str = "tidegate_a_total";"#));
                    crates[1].2.push(("a.rs", r#"const A: &str = "tidegate_a_total";"#));
                }),
                "tidegate_a_total stands in machines/src/a.rs and shard/src/a.rs",
            ),
        ] {
            assert_eq!(wrong, [words]);
        }
    }
}
