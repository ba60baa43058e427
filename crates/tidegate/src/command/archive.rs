//! `tidegate archive`: moves sealed segments out of a data directory.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use tidegate_backup::{ArchiveTarget, DirectoryTarget, archive};

use crate::extension::{Extension, KnownFamily};
use crate::object_storage::Bucket;
use crate::output::{say, with_bytes_bar};

/// Moves all sealed segments of `data` but the newest `keep` of each log to `to`, a directory or a URL.
pub fn run<P>(data: &Path, to: &str, keep: usize, extensions: &[&dyn Extension<P>]) -> Result<ExitCode> {
    let known: Vec<_> = KnownFamily::all(extensions).iter().map(|known| known.copied).collect();
    let target = target(to)?;
    let moved = with_bytes_bar("archiving", |progress| archive(data, &known, &*target, keep, progress))?;
    let bytes = indicatif::HumanBytes(moved.bytes);
    say(format_args!("{} segments ({bytes}) of {} are now in {to}", moved.segments, data.display()));
    Ok(ExitCode::SUCCESS)
}

fn target(to: &str) -> Result<Box<dyn ArchiveTarget>> {
    if let Some(bucket) = Bucket::of(to) {
        return Ok(Box::new(bucket));
    }
    if to.contains("://") {
        bail!("{to}: segments are archived in a directory, or at s3://bucket/prefix");
    }
    fs::create_dir_all(to).with_context(|| format!("{to}: cannot create"))?;
    let path = fs::canonicalize(to).with_context(|| format!("{to}: cannot look at"))?;
    Ok(Box::new(DirectoryTarget(path)))
}
