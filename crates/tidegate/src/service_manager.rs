//! What a service manager is told over `NOTIFY_SOCKET`, as systemd's `Type=notify` asks for: that the server serves,
//! how far its start is, that it stops, and that it still turns.
//!
//! ```text
//!   start ─▶ STATUS, EXTEND_TIMEOUT_USEC ─▶ READY=1 ─▶ WATCHDOG=1 … ─▶ STOPPING=1 ─▶ exit
//! ```
//!
//! Promise: nothing here delays the server or ends it. A message that cannot be sent is left out.
//!
//! Why not a crate: it is one datagram of text, `sd_notify(3)`.

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// How much more time a start asks for while it gets on, and how often it asks.
const EXTENSION: Duration = Duration::from_secs(60);
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// The service manager that started this process, if one did.
pub struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
    asked: Option<Instant>,
}

impl ServiceManager {
    /// The one that the environment names.
    pub fn of_environment() -> ServiceManager {
        let socket = env::var_os("NOTIFY_SOCKET").and_then(|name| open(name.as_bytes()));
        let micros = env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok()).filter(|micros| *micros > 0);
        // The variables of a parent are not for this process.
        let meant = env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string());
        let watchdog = micros.filter(|_| meant).map(Duration::from_micros);
        ServiceManager { socket, watchdog, asked: None }
    }

    /// How often [`alive`](ServiceManager::alive) must be called at least: twice in each turn of the watchdog.
    pub fn pace(&self) -> Duration {
        self.watchdog.map_or(Duration::MAX, |turn| turn / 2)
    }

    /// It replays `done` of `total` records, and may take longer than `TimeoutStartSec`.
    pub fn replaying(&mut self, done: u64, total: u64) {
        if self.asked.is_some_and(|asked| asked.elapsed() < ASKED_EVERY) {
            return;
        }
        self.asked = Some(Instant::now());
        let micros = EXTENSION.as_micros();
        self.send(&format!("STATUS=replaying: {done} of {total} records\nEXTEND_TIMEOUT_USEC={micros}"));
    }

    /// It serves.
    pub fn ready(&self) {
        self.send("READY=1\nSTATUS=serving");
    }

    /// It still turns.
    pub fn alive(&self) {
        if self.watchdog.is_some() {
            self.send("WATCHDOG=1");
        }
    }

    /// A journal has failed: nothing of what it has is decided any more, and whoever asks is told why.
    pub fn failed(&self) {
        self.send("STATUS=a journal failed: nothing of what it has is decided any more");
    }

    /// It finishes what was accepted.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping: finishing what was accepted");
    }

    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}

/// A socket, and the address of this name: a path, or `@` and a name that is in no folder.
fn open(name: &[u8]) -> Option<(UnixDatagram, SocketAddr)> {
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)),
    };
    let socket = UnixDatagram::unbound().ok()?;
    // A manager that does not read must not stop the server.
    socket.set_nonblocking(true).ok()?;
    Some((socket, address.ok()?))
}
