//! What all benches have: the server that is measured, where files go, and how results are published.

use crate::machine;
use crate::report::Report;
use crate::tidegate::server::{Configuration, Paths, Tidegate};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The flags of every bench.
#[derive(clap::Args)]
pub struct Subject {
    /// The server to measure.
    #[arg(long, default_value = "target/release/tidegate")]
    tidegate: PathBuf,
    /// Where results, logs and the servers' data go: on a real disk, as syncs are part of what is measured.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
}

impl Subject {
    /// The folder for files, which is made if it is not there.
    pub fn out(&self) -> Result<PathBuf> {
        std::fs::create_dir_all(&self.out)?;
        self.out.canonicalize().with_context(|| format!("no folder {}", self.out.display()))
    }

    /// The server's program.
    pub fn program(&self) -> Result<PathBuf> {
        program(&self.tidegate, "server: `make release` builds it;")
    }

    /// What the server says it is.
    pub fn version(&self) -> Result<String> {
        Tidegate::version(&self.tidegate)
    }

    /// Starts the server with no data; its files go to `directory`.
    pub fn start(&self, directory: &Path, configuration: Configuration) -> Result<Tidegate> {
        let (program, directory) = (self.program()?, directory.to_owned());
        Tidegate::start_fresh(&Paths { program, directory, configuration })
    }

    /// Prints the table, and writes it to `NAME.txt` and the medians to `NAME.json`.
    pub fn publish(&self, name: &str, versions: &[String], report: &Report) -> Result<()> {
        let text = format!(
            "machine: {}\nversions: {}\ncommand: storm {}\n\n{}",
            machine::describe(),
            versions.join(", "),
            std::env::args().skip(1).collect::<Vec<_>>().join(" "),
            report.table()
        );
        print!("{text}");
        let out = self.out()?;
        std::fs::write(out.join(format!("{name}.txt")), text)?;
        report.write_json(&out.join(format!("{name}.json")))
    }
}

/// The program at a path, which must be there.
pub fn program(path: &Path, what: &str) -> Result<PathBuf> {
    path.canonicalize().with_context(|| format!("no {what} at {}", path.display()))
}
