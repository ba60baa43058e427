//! Which directories are made for copies and for what is restored of them, and which names are taken for a slip.
//!
//! ```text
//!   /backups/shop  ./shop  ../cold/shop   used if it is there; made if only the folder around it is there
//!   shop                                  used if it is there; else refused: ./shop is made
//!   s3:/bucket  nas:shop  ftp://x         refused: a URL, or the slip of one
//! ```
//!
//! Promise: whoever is refused here has created nothing.
//!
//! Why: a folder that a slip has made fills up with copies where nobody looks for them, and the disk that they were
//! meant for stays empty.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::BackupError;

/// The absolute path of the directory that `to` names, for copies of the data directory `data`. Creates nothing: a
/// directory that is not there may be created at that path.
///
/// # Errors
///
/// [`BackupError::Refused`], with what to write instead, by the rules above, and if the directory is inside of `data`.
pub fn destination(to: &Path, data: &Path) -> Result<PathBuf, BackupError> {
    let path = place(to, false)?;
    if fs::canonicalize(data).is_ok_and(|data| path.starts_with(data)) {
        let what = "copies belong on another disk than the data, and never inside of it";
        return Err(BackupError::Refused(format!("{}: {what}", to.display())));
    }
    Ok(path)
}

/// The absolute path of the data directory `data` that is to be restored from the directory of backups `from`, by the
/// same rules; only that a plain name is made where the command runs, as a server does it.
pub(crate) fn target(data: &Path, from: &Path) -> Result<PathBuf, BackupError> {
    let path = place(data, true)?;
    if let Ok(from) = fs::canonicalize(from)
        && path.starts_with(&from)
    {
        return Err(BackupError::Refused(format!(
            "{}: it is inside of the directory of backups {}, where only backups belong: give a directory elsewhere",
            data.display(),
            from.display()
        )));
    }
    Ok(path)
}

/// The directory that a name means.
fn place(to: &Path, makes_plain_names: bool) -> Result<PathBuf, BackupError> {
    let refused = |what: String| BackupError::Refused(format!("{}: {what}", to.display()));
    let text = to.as_os_str().as_encoded_bytes();
    if text.is_empty() {
        return Err(BackupError::Refused(
            "the name of a directory is empty: give a path, such as /backups/shop".into(),
        ));
    }
    if looks_like_url(to.as_os_str()) {
        let path = to.display();
        return Err(refused(format!("it looks like a URL: expected a path. A directory of this name is ./{path}")));
    }
    let path = match fs::canonicalize(to) {
        Ok(path) if path.is_dir() => path,
        Ok(_) => return Err(refused("it is no directory".into())),
        Err(_) if !text.contains(&b'/') && !makes_plain_names => {
            let name = to.display();
            return Err(refused(format!("there is no such directory. Write ./{name} to have it made here")));
        }
        Err(cause) => {
            let around = around(to);
            let folder = fs::canonicalize(around).ok().filter(|folder| folder.is_dir());
            let (Some(name), Some(folder)) = (to.file_name(), folder) else {
                let around = around.display();
                return Err(refused(format!("{cause}. Make {around} first, or mount its disk, if this is meant")));
            };
            folder.join(name)
        }
    };
    Ok(path)
}

/// Whether a text begins as URLs do, with a scheme and a colon: `s3://bucket`, `s3:/bucket`, `nas:shop`.
pub fn looks_like_url(text: &OsStr) -> bool {
    let text = text.as_encoded_bytes();
    let Some(colon) = text.iter().position(|byte| *byte == b':') else { return false };
    let scheme = &text[..colon];
    scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
}

/// The folder that a path stands in.
pub(crate) fn around(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) => Path::new("."),
        None => Path::new("/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_refused_with_what_to_write_and_creates_nothing() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(root.path().join("file"), "text").unwrap();
        let at = |name: &str| root.path().join(name);
        for (to, words) in [
            (PathBuf::new(), "the name of a directory is empty"),
            ("s3:/bucket".into(), "A directory of this name is ./s3:/bucket"),
            ("S3://bucket".into(), "it looks like a URL"),
            ("no-such-directory".into(), "Write ./no-such-directory to have it made here"),
            (at("far/off"), "far first, or mount its disk"),
            (at("file"), "it is no directory"),
            (at("file/inside"), "Make "),
            (data.clone(), "never inside of it"),
            (data.join("copies"), "never inside of it"),
            (at("data/../data/copies"), "never inside of it"),
        ] {
            let refused = destination(&to, &data).unwrap_err().to_string();
            assert!(refused.contains(words), "{}: {refused}", to.display());
            assert!(refused.starts_with(&to.display().to_string()), "{refused}");
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    }

    #[test]
    fn what_is_restored_goes_where_it_was_meant_and_never_among_backups() {
        let root = fs::canonicalize(tempfile::tempdir().unwrap().keep()).unwrap();
        let from = root.join("bk");
        fs::create_dir_all(from.join("backups")).unwrap();
        for (data, words) in [
            (from.clone(), "it is inside of the directory of backups"),
            (from.join("r"), "give a directory elsewhere"),
            (from.join("backups/20261122T045012.123Z"), "give a directory elsewhere"),
            (root.join("x/../bk/r"), "first, or mount its disk"),
            (root.join("a/b/c"), "a/b first, or mount its disk"),
            ("s3:/bucket".into(), "it looks like a URL"),
        ] {
            let refused = target(&data, &from).unwrap_err().to_string();
            assert!(refused.contains(words), "{}: {refused}", data.display());
        }
        assert_eq!(target(&root.join("data"), &from).unwrap(), root.join("data"));
        assert_eq!(target(Path::new("no-such"), &from).unwrap(), fs::canonicalize(".").unwrap().join("no-such"));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_is_clearly_a_path_is_made_where_the_folder_around_it_is() {
        let root = fs::canonicalize(tempfile::tempdir().unwrap().keep()).unwrap();
        let data = root.join("data");
        fs::create_dir(&data).unwrap();
        assert_eq!(destination(&root.join("copies"), &data).unwrap(), root.join("copies"));
        assert_eq!(destination(&root.join("copies/"), &data).unwrap(), root.join("copies"));
        assert_eq!(destination(&root.join("a:b"), &data).unwrap(), root.join("a:b"));
        let here = fs::canonicalize(".").unwrap();
        assert_eq!(destination(Path::new("./no-such-directory"), &data).unwrap(), here.join("no-such-directory"));
        assert_eq!(destination(Path::new("src"), &data).unwrap(), here.join("src"), "it is there");
        fs::remove_dir_all(root).unwrap();
    }
}
