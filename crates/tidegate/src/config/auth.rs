//! `[auth]`, and the bounds of log-ins.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_config::{ConfigError, Count, Document, FilePath, NoDefault, Optional, Seconds, Texts, config};
use tidegate_doors::auth::LoginLimits;

config! {
    /// `[limits]`, as far as log-ins go.
    pub struct LoginKeys in "limits" {
        logins_concurrent_max: Count<usize> = 1, 1..=64, restart,
            "threads that check passwords; a log-in takes 19 MiB and some 30 ms of a core";
        logins_waiting_max: Count<usize> = 64, 1..=10_000, restart,
            "log-ins that wait for such a thread; more are answered 503";
    }
}

config! {
    /// `[auth]`
    pub struct AuthKeys in "auth" {
        jwt_secret_file: Optional<FilePath> = NoDefault, .., restart,
            "file with the key that signs tokens, at least 32 bytes; made with mode 0600 if it does not exist. \
             Without this key it is jwt.key in data.dir";
        token_ttl_s: Seconds = 86_400, 60..=31_536_000, live,
            "seconds that a log-in is good for; a connection that is open then stays so";
        open_paths: Texts = &[], .., restart,
            "paths served without a token, of \"/openapi.json\", \"/metrics\" and \"/demo\" (the voting page)";
    }
}

/// Who gets a token, and what is served without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// File with the key that signs tokens.
    pub jwt_secret_file: PathBuf,
    /// How long a log-in is good for.
    pub token_ttl: Duration,
    /// Paths served without a token.
    pub open_paths: Vec<Box<str>>,
}

/// The bounds of log-ins.
pub fn logins(document: &Document) -> Result<LoginLimits, ConfigError> {
    let keys: LoginKeys = document.section()?;
    Ok(LoginLimits { concurrent_max: keys.logins_concurrent_max, waiting_max: keys.logins_waiting_max })
}

/// `data` is the data directory, where the key lies if the file names no other place.
pub fn settle(document: &Document, data: &Path) -> Result<Auth, ConfigError> {
    let keys: AuthKeys = document.section()?;
    let is_known = |path: &str| matches!(path, "/openapi.json" | "/metrics" | "/demo");
    if let Some(path) = keys.open_paths.iter().find(|path| !is_known(path)) {
        let message = format!(
            "auth.open_paths: {path:?} cannot be opened; only \"/openapi.json\", \"/metrics\" and \"/demo\" can"
        );
        return Err(document.error_at("auth.open_paths", message));
    }
    Ok(Auth {
        jwt_secret_file: keys.jwt_secret_file.unwrap_or_else(|| data.join("jwt.key")),
        token_ttl: Duration::from_secs(keys.token_ttl_s),
        open_paths: keys.open_paths,
    })
}
