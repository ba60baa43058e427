//! `tidegate archive`: moves sealed segments out of a data directory.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use tidegate_backup::{ArchiveTarget, DirectoryTarget, archive, destination, looks_like_url};

use crate::extension::{Extension, KnownFamily};
use crate::object_storage::Bucket;
use crate::output::{say, with_bytes_bar};

/// Moves all sealed segments of `data` but the newest `keep` of each log to `to`, a directory or a URL.
pub fn run<P>(data: &Path, to: &str, keep: usize, extensions: &[&dyn Extension<P>]) -> Result<ExitCode> {
    let known: Vec<_> = KnownFamily::all(extensions).iter().map(|known| known.copied).collect();
    let target = target(data, to)?;
    // A command is as fast as it can be.
    let moved =
        with_bytes_bar("archiving", |progress| archive(data, &known, &*target, keep, &mut |_| Ok(()), progress))?;
    let bytes = indicatif::HumanBytes(moved.bytes);
    if moved.segments == 0 {
        let data = data.display();
        say(format_args!(
            "nothing to move: {data} has no sealed segments but the newest {keep} of each log, which stay"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    say(format_args!("{} segments ({bytes}) of {} are now in {to}", moved.segments, data.display()));
    Ok(ExitCode::SUCCESS)
}

/// The archive that a text names: a URL, or a directory, which is made when the first segment is moved.
fn target(data: &Path, to: &str) -> Result<Box<dyn ArchiveTarget>> {
    match bucket(to)? {
        Some(bucket) => Ok(Box::new(bucket)),
        None => Ok(Box::new(DirectoryTarget(destination(Path::new(to), data)?))),
    }
}

/// The bucket that a URL names; `None` for a path.
fn bucket(to: &str) -> Result<Option<Bucket>> {
    let bucket = Bucket::of(to);
    if bucket.is_none() && looks_like_url(to.as_ref()) {
        bail!(
            "{to}: segments are archived in a directory, or at s3://bucket/prefix. A directory of this name is ./{to}"
        );
    }
    Ok(bucket)
}

/// That a text names an archive, which need not be there now: its disk may be mounted later.
pub fn check_target(to: &str) -> Result<()> {
    if to.is_empty() {
        bail!("expected a directory, or s3://bucket/prefix: it is empty");
    }
    bucket(to).map(drop)
}

/// What is to be said of an archive that is a directory and is not there now; `None` if nothing is.
pub fn absent_target(to: &str) -> Option<String> {
    let is_absent = bucket(to).is_ok_and(|bucket| bucket.is_none()) && !Path::new(to).is_dir();
    is_absent.then(|| {
        format!(
            "archive.to: there is no directory {to}. A server starts without it, and moves nothing before it is there: \
             mount its disk, or make it; it is not made by itself"
        )
    })
}

/// The archive that a text names: a URL, or a directory that is there.
pub fn target_that_exists(to: &str) -> Result<Box<dyn ArchiveTarget>> {
    if let Some(bucket) = bucket(to)? {
        return Ok(Box::new(bucket));
    }
    let path = fs::canonicalize(to)
        .with_context(|| format!("{to}: there is no such directory. Is its disk mounted? It is not made by itself"))?;
    Ok(Box::new(DirectoryTarget(path)))
}
