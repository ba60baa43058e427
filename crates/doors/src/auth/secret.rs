//! The key that signs tokens: random, in a file of its own that only its owner can read, made once per data directory.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Least length of a secret, in bytes: HS256 is no stronger than its key.
const SECRET_BYTES_MIN: usize = 32;

/// A signing key. Its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// Why a secret could not be had. Whoever asked for it names the file.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read or made.
    #[error("{cause}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The file holds too little.
    #[error(
        "{length} bytes are too few, at least {SECRET_BYTES_MIN} are needed; make one with `head -c 32 /dev/urandom | \
         base64`"
    )]
    TooShort {
        /// How long it is.
        length: usize,
    },
}

impl Secret {
    /// A key from these bytes (tests); at least 32.
    pub fn from_bytes(bytes: &[u8]) -> Option<Secret> {
        (bytes.len() >= SECRET_BYTES_MIN).then(|| Secret(bytes.to_vec()))
    }

    /// Reads the key at `path`; white space around it is not part of it.
    pub fn load(path: &Path) -> Result<Secret, SecretError> {
        let text = fs::read(path).map_err(|cause| SecretError::File { path: path.to_owned(), cause })?;
        let key = text.trim_ascii();
        Secret::from_bytes(key).ok_or(SecretError::TooShort { length: key.len() })
    }

    /// Reads the key at `path`, or makes one there with mode 0600.
    pub fn load_or_create(path: &Path) -> Result<Secret, SecretError> {
        match create(path) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
                Err(SecretError::File { path: path.to_owned(), cause })
            }
            _ => Secret::load(path),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Makes the file whole or not at all: a crash between creating and writing must not leave a key that is too short.
fn create(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let mut key = [0u8; SECRET_BYTES_MIN];
    getrandom::fill(&mut key).map_err(io::Error::from)?;
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    // `hard_link` fails if the name is taken, where `rename` would replace another process's key.
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    linked?;
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::File::open(parent)?.sync_all()?;
    }
    Ok(())
}
