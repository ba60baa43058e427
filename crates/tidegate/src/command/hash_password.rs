//! `tidegate hash-password`

use std::io::BufRead;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::output::say;

/// Reads one line and prints its hash. From standard input, so that no password stands in a shell's history.
pub fn run() -> Result<ExitCode> {
    let mut password = String::new();
    std::io::stdin().lock().read_line(&mut password).context("cannot read a password from standard input")?;
    let password = password.trim_end_matches(['\r', '\n']);
    ensure!(!password.is_empty(), "no password on standard input; try: printf '%s' PASSWORD | tidegate hash-password");
    say(format_args!("{}", tidegate_doors::auth::hash_password(password).as_str()));
    Ok(ExitCode::SUCCESS)
}
