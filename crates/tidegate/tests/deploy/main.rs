//! What `deploy/` says of the server: the metrics of its dashboard and its alerts exist, and so do the files that a
//! package and an image are made of. The versions of `docs/upgrading.md` are those of the sources.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Each metric of the page: its kind, and its labels.
fn listed() -> BTreeMap<String, (String, Vec<String>)> {
    let page = read("docs/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let labels = cells[3].split(", ").filter(|label| !label.is_empty()).map(|label| label.trim_matches('`').into());
        (cells[1].trim_matches('`').to_owned(), (cells[2].to_owned(), labels.collect()))
    })
    .collect()
}

/// Names that begin as metrics do.
fn names(text: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter: char| !is_part(letter));
    words.filter(|word| word.starts_with("tidegate_") || word.starts_with("process_")).map(str::to_owned).collect()
}

fn check(path: &str) {
    let (listed, text) = (listed(), read(path));
    let names = names(&text);
    assert!(names.len() > 10, "{path} uses metrics: {names:?}");
    for name in names {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
        let histogram = of_histogram.filter(|name| listed.get(*name).is_some_and(|(kind, _)| kind == "histogram"));
        let is_known = match (listed.get(&name), histogram) {
            // Only the parts of a histogram have values.
            (Some((kind, _)), None) => kind != "histogram",
            (None, Some(_)) => true,
            _ => false,
        };
        assert!(is_known, "{path} uses {name}, which docs/metrics.md does not list");
    }
}

#[test]
fn the_dashboard_uses_metrics_that_exist() {
    check("deploy/grafana/tidegate.json");
    let dashboard: serde_json::Value = serde_json::from_str(&read("deploy/grafana/tidegate.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    assert!(panels.iter().filter(|panel| panel["type"] != "row").all(|panel| panel["targets"][0]["expr"].is_string()));
}

#[test]
fn the_alerts_use_metrics_that_exist() {
    check("deploy/prometheus/tidegate.rules.yml");
    let rules = read("deploy/prometheus/tidegate.rules.yml");

    for part in ["alert:", "expr:", "summary:", "action:", "severity:"] {
        assert_eq!(rules.matches(part).count(), rules.matches("- alert:").count(), "each alert has its {part}");
    }
}

/// The rule of the Makefile that makes a package makes this file of it, too.
fn is_made(source: &str) -> bool {
    let makefile = read("Makefile");
    let after = makefile.split_once("\ndeb:").map_or("", |(_, after)| after);
    let rule = after.split("\n\n").next().unwrap_or_default();
    let made = source.strip_prefix("target/release/").map(|file| file.split('/').next().unwrap_or(file));
    made.is_some_and(|made| made == "tidegate" || rule.contains(&format!("$(TARGET)/release/{made}")))
}

#[test]
fn a_package_is_made_of_files_that_exist() {
    let manifest: toml::Table = read("crates/tidegate/Cargo.toml").parse().expect("cargo reads it, too");
    let package = &manifest["package"]["metadata"]["deb"];
    let of_package = |path: &str| root().join("crates/tidegate").join(path);
    for asset in package["assets"].as_array().expect("a list") {
        let source = asset[0].as_str().expect("text");
        assert!(is_made(source) || of_package(source).is_file(), "{source}");
    }
    let configuration = package["conf-files"][0].as_str().expect("text").trim_start_matches('/');
    let installed = |asset: &toml::Value| asset[1].as_str() == Some(configuration);
    assert!(package["assets"].as_array().expect("a list").iter().any(installed), "{configuration}");
    let unit = of_package(package["systemd-units"]["unit-scripts"].as_str().expect("text")).join("tidegate.service");
    let unit = std::fs::read_to_string(&unit).unwrap_or_else(|error| panic!("{}: {error}", unit.display()));
    assert!(unit.contains(&format!("--config /{configuration}")), "the unit reads what the package brings");
    let script = of_package(package["maintainer-scripts"].as_str().expect("text")).join("postinst");
    let script = std::fs::read_to_string(&script).unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    assert!(script.contains("useradd") && unit.contains("User=tidegate"), "it makes the user of the unit");
}

#[test]
fn an_image_is_made_of_files_that_exist_and_serves_what_the_package_serves() {
    let image = read("deploy/docker/Dockerfile");
    let copied = image.lines().filter_map(|line| line.strip_prefix("COPY ")).filter(|line| !line.starts_with("--"));
    for source in copied.filter_map(|line| line.split(' ').next()) {
        assert!(root().join(source).exists(), "{source}");
    }
    let workspace: toml::Table = read("Cargo.toml").parse().expect("cargo reads it, too");
    let rust = workspace["workspace"]["package"]["rust-version"].as_str().expect("text");
    assert!(image.contains(&format!("FROM rust:{rust}-")), "the image is built by Rust {rust}");
    assert!(image.contains("CMD [\"serve\", \"--config\", \"/etc/tidegate/tidegate.toml\"]"), "{image}");
    assert!(image.lines().any(|line| line == "USER tidegate"), "not root");
}

/// The number of a constant of a source.
fn constant(path: &str, name: &str) -> String {
    let (source, mark) = (read(path), format!("const {name}: "));
    let found = source.lines().find_map(|line| line.split_once(&mark)?.1.split_once("= ")?.1.strip_suffix(';'));
    found.unwrap_or_else(|| panic!("{path} has no {name}")).to_owned()
}

#[test]
fn the_versions_that_upgrading_names_are_those_of_the_sources() {
    let page = read("docs/upgrading.md");
    let rows = page.lines().filter(|line| line.starts_with("| ["));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split('|').map(str::trim).collect()).collect();
    let of = |path: &str, name: &str| constant(&format!("crates/{path}.rs"), name);
    let topics = |name| of("machines/src/topic/snapshot", name);
    let notices = of("journal/src/group", "NOTICE_GROUP_VERSION");
    let groups = of("journal/src/group", "FORMAT_VERSION");
    let ids = of("ledger/src/ids/manifest", "VERSION");
    let of_topics = format!("{} to {}", topics("VERSION"), topics("VERSION_WITH_WILLS"));
    let expected = [
        ("`DIRECTORY`", of("journal/src/directory", "DIRECTORY_VERSION"), None),
        ("groups of a journal", groups.clone(), Some(format!("{groups}, and {notices} for notices"))),
        ("files of snapshots", of("shard/src/snapshot/format", "FORMAT_VERSION"), None),
        ("the ledger in a snapshot", of("machines/src/ledger/snapshot", "VERSION"), None),
        ("topics in a snapshot", of_topics, None),
        ("runs of ids", of("ledger/src/ids/run", "VERSION"), None),
        (
            "manifest of ids",
            ids.clone(),
            Some(format!("{} and {ids}", of("ledger/src/ids/manifest", "VERSION_WITHOUT_LOG"))),
        ),
        ("backups", of("backup/src/manifest", "MANIFEST_VERSION"), None),
        ("archives", of("journal/src/archive", "ARCHIVE_VERSION"), None),
        ("record of the pacer's decisions", of("pacer/src/decisions/record", "LAYOUT"), None),
        ("what the pacer has learned", of("pacer/src/control/learned", "LAYOUT"), None),
        ("what a ledger has settled last", of("tidegate/src/pacing/receipt", "LAYOUT"), None),
        ("cursors of changes", of("ledger/src/changes/cursor", "VERSION"), None),
    ];
    assert_eq!(rows.len(), expected.len(), "each row is checked");
    for (row, (what, written, read)) in rows.iter().zip(expected) {
        assert!(row[1].starts_with(&format!("[{what}](formats/")), "{what}: {}", row[1]);
        assert_eq!((row[2], row[3]), (&*written, read.as_deref().unwrap_or(&written)), "{what}");
    }
}
