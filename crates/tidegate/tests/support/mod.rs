//! A Tidegate process for one test: its configuration, data directory, addresses, log, and exit.
//!
//! ```text
//!   Settings ─write─▶ config.toml ─▶ `tidegate serve` ─▶ Server { addresses, log } ─▶ killed, terminated, or exited
//! ```
//!
//! Invariant: tests wait for what the process logs or does, never for a fixed time. A wait that lasts longer than
//! [`PATIENCE`] fails and shows the log.

#![allow(dead_code, reason = "each test target uses its own part of these modules")]

pub mod chance;
pub mod http;
pub mod server;
pub mod settings;
pub mod stream;

use std::time::{Duration, Instant};

/// The token of the configuration's service that may do everything.
pub const SERVICE: &str = "test-service-token";

/// How long a condition may take to come true before the test fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks until there is an answer; panics with `what` when patience ends.
pub fn wait_for<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, ask).unwrap_or_else(|| panic!("waited {} s in vain: {what}", PATIENCE.as_secs()))
}

/// Asks until there is an answer or `patience` ends.
pub fn within<T>(patience: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let since = Instant::now();
    loop {
        let answer = ask();
        if answer.is_some() || since.elapsed() >= patience {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A folder on the disk that holds the build, not in memory: what is synced here is synced.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build's folder takes another one")
}
