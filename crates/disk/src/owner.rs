//! Whose a file is, in words: for whoever may not use it.
//!
//! Why: "permission denied" alone makes an operator guess which file, whose it is, and as whom the program runs. Mostly
//! a tool was once run as another user, and its files are that user's. And where a folder or a link stands instead of a
//! file, an error number is nothing that an operator can act on.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The user that this process runs as.
pub fn this_user() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// A user, by name if the host has one for the number: `tidegate (uid 998)`, or `uid 998`.
pub fn user(uid: u32) -> String {
    match name_of(uid) {
        Some(name) => format!("{name} (uid {uid})"),
        None => format!("uid {uid}"),
    }
}

/// What `sudo -u` takes for a user: a name, or `#998` in quotes.
pub fn sudo_name(uid: u32) -> String {
    name_of(uid).unwrap_or_else(|| format!("'#{uid}'"))
}

fn name_of(uid: u32) -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let of = |line: &str| {
        let mut parts = line.split(':');
        let (name, number) = (parts.next()?, parts.nth(1)?);
        (number.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    };
    users.lines().find_map(of)
}

/// What the system said about `path`; where it denied something, with whose that is, and who asked; where something
/// else stands there, with what that is.
pub fn cause_words(path: &Path, cause: &io::Error) -> String {
    if let Some(found) = something_else(path, cause) {
        return format!("{cause}: {found}");
    }
    if cause.kind() != io::ErrorKind::PermissionDenied {
        return cause.to_string();
    }
    // What cannot even be looked at is in a folder that denies it.
    let Some((at, found)) = path.ancestors().find_map(|at| Some((at, fs::metadata(at).ok()?))) else {
        return cause.to_string();
    };
    let which = if at == path { "it".to_owned() } else { at.display().to_string() };
    let (owner, mode, asks) = (user(found.uid()), found.mode() & 0o777, user(this_user()));
    format!("{cause}: {which} belongs to {owner} with mode {mode:o}, and this is run by {asks}")
}

/// What stands at `path` instead of what was wanted, and what to do, if the system's words leave that open.
fn something_else(path: &Path, cause: &io::Error) -> Option<String> {
    match cause.kind() {
        io::ErrorKind::IsADirectory => {
            Some("a folder stands where a file should be: move it away, and put the file itself here".into())
        }
        io::ErrorKind::NotADirectory => {
            Some("a file stands where a folder should be: move it away, and put the folder itself here".into())
        }
        io::ErrorKind::NotFound => {
            let target = fs::read_link(path).ok()?;
            let target = target.display();
            Some(format!("it is a link to {target}, which is not there: mount its disk, or put what is wanted here"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_denied_is_said_with_the_owner_and_who_asks() {
        assert_eq!(user(0), "root (uid 0)");
        assert_eq!((user(3_999_999_999), sudo_name(3_999_999_999)), ("uid 3999999999".into(), "'#3999999999'".into()));
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let words = cause_words(Path::new("/etc/passwd"), &denied);
        assert!(words.starts_with(&format!("{denied}: it belongs to root (uid 0) with mode 644")), "{words}");
        assert!(words.ends_with(&format!("and this is run by {}", user(this_user()))), "{words}");
        let words = cause_words(Path::new("/etc/passwd/none"), &denied);
        assert!(words.contains(": /etc/passwd belongs to root"), "{words}");
        let other = io::Error::from(io::ErrorKind::NotFound);
        assert_eq!(cause_words(Path::new("/etc/passwd"), &other), other.to_string());
    }
}
