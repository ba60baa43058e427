//! `tidegate serve --check`: says what is wrong with a configuration, and changes nothing.
//!
//! Promise: what a start would read before it makes something is read here, by the same code. No address is bound, no
//! directory is made, and no key is created.

use std::process::ExitCode;

use anyhow::Result;
use tidegate_doors::auth::{Secret, SecretError};

use super::reload::Files;
use crate::compose;
use crate::config::Config;
use crate::extension::Extension;
use crate::openness;
use crate::output::say;

/// Reads what `config` names; the first thing that is wrong is the error. What is open is said, and is none.
pub fn run<P>(config: &Config, extensions: &[&dyn Extension<P>]) -> Result<ExitCode> {
    let files = Files::read(config)?;
    for extension in extensions {
        extension.open(config.document())?;
    }
    // Without a look at what there is: of a directory in use, only what the seeds say themselves is known.
    let is_new = !config.data.dir.join("journal").exists();
    tidegate_ledger::room::check_seeds(&compose::seeds(&config.seed), config.data.shards, is_new)?;
    let secret = &config.auth.jwt_secret_file;
    // A start makes one that is not there.
    if secret.exists() {
        let at = |error: SecretError| {
            config.document().error_at("auth.jwt_secret_file", format!("auth.jwt_secret_file: {error:#}"))
        };
        Secret::load(secret).map_err(at)?;
    }
    let warnings = openness::warnings(config).into_iter().chain(config.memory.excess.clone());
    for warning in warnings.chain(files.list_over()) {
        say(format_args!("warning: {warning}"));
    }
    say(format_args!("ok"));
    Ok(ExitCode::SUCCESS)
}
