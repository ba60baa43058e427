//! Checks the rules of `ARCHITECTURE.md`: what each part of the workspace must not know.

mod code;
mod layers;
mod table;
mod tree;

use std::path::Path;

use table::{only, rules};
use tree::Tree;

const ARCHITECTURE: &str = include_str!("../../../../ARCHITECTURE.md");

/// The crates of this workspace, and the rooms outside of it.
fn tree() -> Tree {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Tree::read(&[&root.join("crates"), &root.join("examples")])
}

#[track_caller]
fn nothing_wrong(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "ARCHITECTURE.md, \"What each crate must not know\":\n  {}", wrong.join("\n  "));
}

#[test]
fn no_part_knows_what_it_must_not_know() {
    let tree = tree();
    nothing_wrong(rules(ARCHITECTURE).iter().flat_map(|rule| tree.violations(rule)).collect());
}

#[test]
fn there_is_a_rule_for_each_crate() {
    let rules = rules(ARCHITECTURE);
    let tree = tree();
    let without = tree.names().filter(|name| !rules.iter().any(|rule| rule.part == *name));
    nothing_wrong(without.map(|name| format!("{name}: the table has no row for it")).collect());
}

#[test]
fn what_belongs_into_one_file_stands_in_no_other() {
    let tree = tree();
    nothing_wrong(only(ARCHITECTURE).iter().flat_map(|only| tree.strays(only)).collect());
}

#[test]
fn the_name_of_a_metric_stands_once() {
    nothing_wrong(tree().repeated_metrics());
}

#[test]
fn modules_know_only_what_stands_below_them() {
    let tree = tree();
    let (with_table, wrong) = tree.out_of_order();
    assert!(!with_table.is_empty(), "no crate has a table of its modules any more");
    assert!(wrong.is_empty(), "the table at the head of lib.rs:\n  {}", wrong.join("\n  "));
}
