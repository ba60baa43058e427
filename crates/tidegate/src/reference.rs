//! `tidegate completions` and `tidegate man`: made from the command line itself, so that they name what there is.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;

use crate::output;

/// Prints the completions of a shell.
pub fn completions(mut command: Command, shell: Shell) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "tidegate", &mut script);
    // A reader that stops reading is no failure; what else goes wrong is remembered, and the exit code says it.
    let _ = output::write(&String::from_utf8(script).context("the script is no text")?);
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for each command into `folder`.
pub fn manual(command: Command, folder: &Path) -> Result<ExitCode> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    pages(&command, folder)?;
    Ok(ExitCode::SUCCESS)
}

fn pages(command: &Command, folder: &Path) -> Result<()> {
    let man = clap_mangen::Man::new(command.clone()).source(concat!("tidegate ", env!("CARGO_PKG_VERSION")));
    let file = folder.join(man.get_filename());
    let mut page = Vec::new();
    man.render(&mut page)?;
    fs::write(&file, page).with_context(|| format!("cannot write {}", file.display()))?;
    command.get_subcommands().try_for_each(|inner| pages(inner, folder))
}
