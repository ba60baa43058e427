//! The page that explains the strategies, which is written from their table.
//!
//! `UPDATE_EXPECT=1 cargo test -p tidegate-pacer page` writes it.

use std::collections::BTreeSet;

use expect_test::expect_file;

use super::*;

#[test]
fn each_strategy_and_parameter_has_one_name_and_is_explained() {
    let mut names = BTreeSet::new();
    for row in STRATEGIES {
        assert!(names.insert(row.name), "{} is there twice", row.name);
        assert_eq!(find(row.name).map(|found| found.name), Some(row.name));
        let texts = [row.meaning, row.use_when, row.source];
        assert!(texts.iter().all(|text| text.len() > 20 && text.ends_with('.')), "{}: no sentence", row.name);
        let parameters: BTreeSet<_> = row.parameters.iter().map(|parameter| parameter.name).collect();
        assert_eq!(parameters.len(), row.parameters.len(), "{} has a parameter twice", row.name);
        for Parameter { name, meaning, unit, .. } in row.parameters {
            let has_unit = ["_s", "_permille", "_ppm"].iter().any(|end| name.ends_with(end));
            assert!(has_unit, "{name}: the unit comes last");
            assert!(meaning.ends_with('.') && !meaning.contains('|') && !unit.contains('|'), "{name}");
        }
    }
}

#[test]
fn the_page_says_what_the_table_says() {
    let page = format!("{}{}", include_str!("page.md"), STRATEGIES.iter().map(section).collect::<String>());
    expect_file!["../../../../../docs/pacing-strategies.md"].assert_eq(&page);
}

fn section(row: &StrategyRow) -> String {
    let properties: Vec<_> = row.properties.iter().map(|property| in_words(*property)).collect();
    let mut text =
        format!("\n## `{}`\n\n{}\n\n* Use: {}\n", row.name, wrapped(row.meaning, ""), wrapped(row.use_when, "  "));
    text += &format!("* Source: {}\n* Plan: {}\n", wrapped(row.source, "  "), curve(row.follows));
    text += &format!("* Holds: {}.\n", wrapped(&properties.join("; "), "  "));
    if row.parameters.is_empty() {
        return text + "* Parameters: none.\n";
    }
    text += "\n| parameter | default | range | unit |\n|---|---:|---|---|\n";
    for Parameter { name, default, min, max, unit, .. } in row.parameters {
        text += &format!("| `{name}` | {default} | {min} to {max} | {unit} |\n");
    }
    text += "\n";
    for Parameter { name, meaning, .. } in row.parameters {
        text += &format!("* `{name}`: {}\n", wrapped(meaning, "  "));
    }
    text
}

fn curve(follows: Follows) -> &'static str {
    match follows {
        Follows::Nothing => "none.",
        Follows::Time => "the same in each second.",
        Follows::Day => "by the learned day.",
    }
}

fn in_words(property: Property) -> &'static str {
    match property {
        Property::FallsWithSpent => "the more is spent or reserved, the less it bids",
        Property::RisesWithBudget => "the higher the budget, the more it bids",
        Property::ScaleFree => "the unit of money does not matter",
        Property::Stateless => "it keeps nothing from one answer to the next",
        Property::KeepsPrice => "it never lowers the price",
    }
}

/// Lines that fit the width of the project.
fn wrapped(text: &str, indent: &str) -> String {
    let (mut lines, mut width) = (String::new(), 20);
    for word in text.split(' ') {
        if width + word.len() > 118 {
            lines += &format!("\n{indent}");
            width = indent.len();
        } else if !lines.is_empty() {
            lines.push(' ');
        }
        lines += word;
        width += word.len() + 1;
    }
    lines
}
