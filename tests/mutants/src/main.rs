//! `mutants`: tries every mutant of cargo-mutants with one build for all of them.
//!
//! ```text
//! cargo mutants --list ─▶ weave: each mutant behind `if __mutant(number)` ─▶ one build
//!                           ─▶ reach: which tests get to which mutants ─▶ try: those tests alone, with each mutant
//! ```
//!
//! Why: cargo-mutants builds once for each mutant, and many mutants of the shard can only be seen by the simulator,
//! whose build takes a minute. The same mutants, chosen by an environment variable, cost one build and the tests alone.
#![deny(missing_docs)]

mod listed;
mod reach;
mod results;
mod running;
mod trial;
mod weave;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Tries the mutants that `cargo mutants --list --json` lists, with one build for all of them.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    act: Act,
}

#[derive(Subcommand)]
enum Act {
    /// Write every mutant into a copy of the tree, each behind its number
    Weave {
        /// What `cargo mutants --list --json` printed
        #[arg(long)]
        list: PathBuf,
        /// The root of what is copied
        #[arg(long)]
        root: PathBuf,
        /// The root of the copy; only files that differ are written
        #[arg(long)]
        tree: PathBuf,
        /// Numbers of mutants that do not build, one on a line; left out
        #[arg(long)]
        without: PathBuf,
    },
    /// Print the numbers of a new list whose mutants have these numbers in an old one
    Carry {
        /// The old list
        #[arg(long)]
        from: PathBuf,
        /// The new list
        #[arg(long)]
        to: PathBuf,
        /// Numbers of the old list, one on a line
        #[arg(long)]
        numbers: PathBuf,
    },
    /// Read the errors of `cargo check --message-format=json` and print the numbers of the mutants they stand in
    Blame {
        /// The root of the copy
        #[arg(long)]
        tree: PathBuf,
    },
    /// Run each test of a binary alone, without a mutant, and write which mutants it reaches
    Reach(reach::Options),
    /// Run the tests with each mutant; append a line for each, `NUMBER killed|timeout|survived SECONDS NAME TESTS`
    Try(trial::Options),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().act {
        Act::Weave { list, root, tree, without } => weave::weave(&list, &root, &tree, &without),
        Act::Carry { from, to, numbers } => listed::carry(&from, &to, &numbers),
        Act::Blame { tree } => weave::blame(&tree),
        Act::Reach(options) => reach::write(&options),
        Act::Try(options) => trial::run(&options),
    }
}
