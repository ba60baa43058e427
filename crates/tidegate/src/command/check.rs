//! `tidegate serve --check`: says what is wrong with a configuration, and changes nothing.
//!
//! Promise: what a start would read before it makes something is read here, by the same code. No address is bound, no
//! directory is made, and no key is created. What a start does without for a while (the disk of an archive, the keys of
//! an identity provider) is a warning.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use tidegate_doors::auth::{Secret, SecretError};
use tidegate_journal::Family;
use tidegate_journal::directory::{Directory, ShardCount, Wanted};
use tidegate_journal::disk::RealDisk;
use tidegate_journal::witness::{check_folder, check_folder_of_new};

use super::archive::{absent_target, check_target};
use super::reload::Files;
use crate::compose;
use crate::config::Config;
use crate::extension::{self, Extension, KnownFamily};
use crate::identity_keys::unread_files;
use crate::openness;
use crate::output::say;

/// Reads what `config` names; the first thing that is wrong is the error. What is open is said, and is none.
pub fn run<P>(config: &Config, extensions: &[&dyn Extension<P>]) -> Result<ExitCode> {
    let files = Files::read(config)?;
    let mut wanted = vec![compose::wanted_of_ledger(config)];
    for extension in extensions {
        wanted.extend(extension.open(config.document())?.logs);
    }
    let families: Vec<Family> = KnownFamily::all(extensions).iter().map(|known| known.family).collect();
    let is_new = check_directory(config, &families, &wanted)?;
    if let Some(archive) = &config.archive {
        check_target(&archive.to)
            .map_err(|error| config.document().error_at("archive.to", format!("archive.to: {error:#}")))?;
    }
    // Without a look at what there is: of a directory in use, only what the seeds say themselves is known.
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
    let warnings = warnings.chain(extension::warnings(extensions, config.document())?);
    let absent = config.archive.as_ref().and_then(|archive| absent_target(&archive.to));
    let unread = unread_files(&config.identity_providers);
    for warning in warnings.chain(files.complaints()).chain(absent).chain(unread) {
        say(format_args!("warning: {warning}"));
    }
    say(format_args!("ok"));
    Ok(ExitCode::SUCCESS)
}

/// Whether a start would make the data directory; an error if it could not, or would refuse the one that is there or
/// its witnesses. One that is in use is as good as one that is not.
fn check_directory(config: &Config, families: &[Family], wanted: &[Wanted]) -> Result<bool> {
    let (data, document) = (&config.data, config.document());
    if data.dir.exists() && !data.dir.is_dir() {
        return Err(document.error_at("data.dir", format!("data.dir: {} is no directory", data.dir.display())).into());
    }
    let is_new = Directory::would_be_new(&data.dir)?;
    if let Some(folder) = &data.witness {
        let checked = match is_new {
            true => check_folder_of_new(&RealDisk, folder, &data.dir),
            false => check_folder(&RealDisk, folder),
        };
        checked.map_err(|error| document.error_at("data.witness", format!("data.witness: {error}")))?;
    }
    if is_new {
        check_may_be_made(&data.dir).map_err(|why| {
            document.error_at("data.dir", format!("data.dir: cannot make {}: {why}", data.dir.display()))
        })?;
        return Ok(true);
    }
    let directory = Directory::look_at(&data.dir, families)?;
    for Wanted { family, shards, count } in wanted {
        let (ShardCount::Fixed { setting }, found) = (count, directory.shards(*family)) else { continue };
        // A start adds a family that is not there.
        if found != *shards && found > 0 {
            let dir = data.dir.display();
            let message = format!(
                "{setting} = {shards}: {dir} was made with {found}, and a start with another number is refused; set \
                 {setting} = {found}, or begin another directory"
            );
            return Err(document.error_at(setting, message).into());
        }
    }
    Ok(false)
}

/// That this user may make a folder at `path`, or fill it if it is there; else why not.
fn check_may_be_made(path: &Path) -> Result<(), String> {
    let absolute = std::path::absolute(path).map_err(|error| error.to_string())?;
    let is_there = |path: &&Path| path.symlink_metadata().is_ok();
    let nearest = absolute.ancestors().find(is_there).unwrap_or(Path::new("/"));
    let named = CString::new(nearest.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the text ends with a zero byte and outlives the call.
    let may_write = unsafe { libc::access(named.as_ptr(), libc::W_OK | libc::X_OK) } == 0;
    let cause = std::io::Error::last_os_error();
    match (nearest.is_dir(), may_write) {
        (false, _) => Err(format!("{} is no directory", nearest.display())),
        (true, false) => Err(format!("{} may not be written: {cause}", nearest.display())),
        (true, true) => Ok(()),
    }
}
