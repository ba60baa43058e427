//! The security log: who logged in, who was refused, what was denied, who took over a session, whose rights changed.
//!
//! ```text
//!   doors ── tell ─▶ permit: so many of an address, so many of all ─▶ queue ─▶ thread `security` ─▶ tidegate::security
//!                     └── over it, or the queue is full: counted ──────────────▶ left_out=N of the next line
//! ```
//!
//! Promise: a flood of refusals costs its sender's own lines, and no worker waits for the log: what does not fit is
//! counted, and the count is written. Names that clients choose are quoted and stand behind the address, so that none
//! of them can look like a line of another address (`deploy/fail2ban`).
//!
//! Why for the process and not for a door: like the log itself, it is the same for all threads.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use tidegate_telemetry::{Registry, metrics};

metrics! {
    /// What is counted of them, also where the log leaves lines out.
    pub struct SecurityMetrics() {
        events: SharedCounterFamily(event: "logged_in" "login_refused" "token_refused" "denied" "took_over"
                "rights_changed" "handshake_refused" "handshake_failed" "proxy_not_trusted" "proxy_header_missing"
                "gave_way")
            "tidegate_security_events_total" "Events of the security log, with those that it left out, by event.";
        left_out: SharedCounter
            "tidegate_security_lines_left_out_total" "Events that the security log has only as a count.";
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityEvent {
    /// Somebody showed a good password, token or certificate.
    LoggedIn,
    /// A user name with a wrong password, too many of them, or no credentials where some are needed.
    LoginRefused,
    /// A token that is none, or no good any more.
    TokenRefused,
    /// Somebody who is known asked for what they may not do.
    Denied,
    /// A client took over the session of a connection with the same client id.
    TookOver,
    /// The configuration, or an operator through the API, gave or took away rights.
    RightsChanged,
    /// An address begins too many TLS handshakes.
    HandshakeRefused,
    /// A TLS handshake failed: a certificate that is no good, or no TLS at all.
    HandshakeFailed,
    /// A connection began with a header of the PROXY protocol, and its address is not trusted to say whose it is.
    ProxyNotTrusted,
    /// A connection of a load balancer did not begin with the header that the configuration wants of it.
    ProxyHeaderMissing,
    /// A connection that had not shown who it is gave way to a new one.
    GaveWay,
}

impl SecurityEvent {
    const ALL: [SecurityEvent; 11] = [
        SecurityEvent::LoggedIn,
        SecurityEvent::LoginRefused,
        SecurityEvent::TokenRefused,
        SecurityEvent::Denied,
        SecurityEvent::TookOver,
        SecurityEvent::RightsChanged,
        SecurityEvent::HandshakeRefused,
        SecurityEvent::HandshakeFailed,
        SecurityEvent::ProxyNotTrusted,
        SecurityEvent::ProxyHeaderMissing,
        SecurityEvent::GaveWay,
    ];

    /// As metrics and lines name it.
    pub fn name(self) -> &'static str {
        match self {
            SecurityEvent::LoggedIn => "logged_in",
            SecurityEvent::LoginRefused => "login_refused",
            SecurityEvent::TokenRefused => "token_refused",
            SecurityEvent::Denied => "denied",
            SecurityEvent::TookOver => "took_over",
            SecurityEvent::RightsChanged => "rights_changed",
            SecurityEvent::HandshakeRefused => "handshake_refused",
            SecurityEvent::HandshakeFailed => "handshake_failed",
            SecurityEvent::ProxyNotTrusted => "proxy_not_trusted",
            SecurityEvent::ProxyHeaderMissing => "proxy_header_missing",
            SecurityEvent::GaveWay => "gave_way",
        }
    }
}

/// Lines of one event and address in one window.
const OF_ADDRESS_MAX: u32 = 10;
/// Lines of one event in one window.
const OF_ALL_MAX: u32 = 1_000;
/// The length of a window.
const WINDOW: Duration = Duration::from_secs(10);
/// Lines that wait to be written.
const WAITING_MAX: usize = 1_024;
/// Places of addresses. Two of one place share their lines.
const PLACES: usize = 4_096;
/// Longest name or detail that a line has, in bytes.
const WORDS_BYTES_MAX: usize = 256;

static LOG: OnceLock<SecurityLog> = OnceLock::new();

struct SecurityLog {
    lines: SyncSender<Line>,
    permits: Permits,
    metrics: SecurityMetrics,
}

/// One line to be written.
struct Line {
    event: SecurityEvent,
    door: &'static str,
    address: Option<IpAddr>,
    principal: Box<str>,
    detail: Box<str>,
}

/// Begins the security log of this process, and registers its metrics; to be called once. Without it nothing is said.
pub fn begin(registry: &Registry) {
    let (lines, waiting) = sync_channel(WAITING_MAX);
    let log = SecurityLog { lines, permits: Permits::new(), metrics: SecurityMetrics::register(registry) };
    if LOG.set(log).is_ok() {
        let write = move || write(&waiting, &LOG.get().expect("it was just set").permits);
        // Without the thread, all lines are left out and counted.
        let _ = std::thread::Builder::new().name("security".into()).spawn(write);
    }
}

/// Says that `event` happened at `door`, to somebody at `address` who is, or claims to be, `principal`.
pub fn tell(event: SecurityEvent, door: &'static str, address: IpAddr, principal: &str, detail: &str) {
    let Some(log) = LOG.get() else { return };
    log.metrics.events.increment(event.name());
    let address = address.to_canonical();
    let line = || Line { event, door, address: Some(address), principal: cut(principal), detail: cut(detail) };
    if !log.permits.take(event, address, Instant::now()) || log.lines.try_send(line()).is_err() {
        log.left_out(event, 1);
    }
}

/// Says that the configuration changed rights.
pub fn tell_of_configuration(detail: &str) {
    let Some(log) = LOG.get() else { return };
    let event = SecurityEvent::RightsChanged;
    log.metrics.events.increment(event.name());
    let line = Line { event, door: "configuration", address: None, principal: "".into(), detail: cut(detail) };
    if log.lines.try_send(line).is_err() {
        log.left_out(event, 1);
    }
}

/// So many more happened that nobody knows anything of.
pub fn count_left_out(event: SecurityEvent, count: u64) {
    if let Some(log) = LOG.get().filter(|_| count > 0) {
        log.metrics.events.add(event.name(), count);
        log.left_out(event, count);
    }
}

impl SecurityLog {
    fn left_out(&self, event: SecurityEvent, count: u64) {
        self.metrics.left_out.add(count);
        self.permits.left_out[event as usize].fetch_add(count, Ordering::Relaxed);
    }
}

/// At most so many bytes of a text, whole characters.
fn cut(text: &str) -> Box<str> {
    let mut end = text.len().min(WORDS_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].into()
}

/// Who may still have a line. Without a lock: a window and a count in one number.
struct Permits {
    began: Instant,
    hasher: RandomState,
    of_addresses: Box<[AtomicU64]>,
    of_all: [AtomicU64; SecurityEvent::ALL.len()],
    left_out: [AtomicU64; SecurityEvent::ALL.len()],
}

impl Permits {
    fn new() -> Permits {
        Permits {
            began: Instant::now(),
            hasher: RandomState::new(),
            of_addresses: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            of_all: Default::default(),
            left_out: Default::default(),
        }
    }

    /// Whether there may be one more line of `event` about `address`.
    fn take(&self, event: SecurityEvent, address: IpAddr, now: Instant) -> bool {
        let window = (now.saturating_duration_since(self.began).as_nanos() / WINDOW.as_nanos()) as u32 + 1;
        let place = self.hasher.hash_one((event as u8, address)) as usize % PLACES;
        // The address first: one that floods does not use up the lines of all.
        one_more(&self.of_addresses[place], window, OF_ADDRESS_MAX)
            && one_more(&self.of_all[event as usize], window, OF_ALL_MAX)
    }

    fn take_left_out(&self, event: SecurityEvent) -> u64 {
        self.left_out[event as usize].swap(0, Ordering::Relaxed)
    }
}

/// Counts one more in this window, unless there are `most`.
fn one_more(counted: &AtomicU64, window: u32, most: u32) -> bool {
    let next = |before: u64| {
        let in_window = if (before >> 32) as u32 == window { before as u32 } else { 0 };
        (in_window < most).then(|| u64::from(window) << 32 | u64::from(in_window + 1))
    };
    counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
}

/// Writes lines as they come, and now and then how many were left out.
fn write(lines: &Receiver<Line>, permits: &Permits) {
    let mut told = Instant::now();
    loop {
        match lines.recv_timeout(WINDOW) {
            Ok(line) => line.write(permits.take_left_out(line.event)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if told.elapsed() >= WINDOW {
            told = Instant::now();
            for event in SecurityEvent::ALL {
                let left_out = permits.take_left_out(event);
                if left_out > 0 {
                    tracing::warn!(target: "tidegate::security", left_out, event = event.name(), "lines were left out");
                }
            }
        }
    }
}

impl Line {
    fn write(&self, left_out: u64) {
        macro_rules! line {
            ($level:ident, $words:literal) => {
                tracing::$level!(
                    target: "tidegate::security",
                    address = self.address.map(tracing::field::display),
                    door = self.door,
                    detail = &*self.detail,
                    principal = &*self.principal,
                    left_out,
                    event = self.event.name(),
                    $words
                )
            };
        }
        match self.event {
            SecurityEvent::LoggedIn => line!(info, "logged in"),
            SecurityEvent::LoginRefused => line!(warn, "log-in refused"),
            SecurityEvent::TokenRefused => line!(warn, "token refused"),
            SecurityEvent::Denied => line!(warn, "denied"),
            SecurityEvent::TookOver => line!(info, "session taken over"),
            SecurityEvent::RightsChanged => line!(info, "rights changed"),
            SecurityEvent::HandshakeRefused => line!(warn, "TLS handshake refused"),
            SecurityEvent::HandshakeFailed => line!(warn, "TLS handshake failed"),
            SecurityEvent::ProxyNotTrusted => line!(warn, "PROXY header not trusted"),
            SecurityEvent::ProxyHeaderMissing => line!(warn, "PROXY header missing"),
            SecurityEvent::GaveWay => line!(warn, "connection gave way"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_address_uses_up_its_own_lines() {
        let permits = Permits::new();
        let address = |n: u8| IpAddr::from([192, 0, 2, n]);
        let take = |n, event, at: Duration| permits.take(event, address(n), permits.began + at);
        let refused = SecurityEvent::LoginRefused;
        let first = (0..10_000).filter(|_| take(1, refused, Duration::ZERO)).count();
        assert_eq!(first, OF_ADDRESS_MAX as usize);
        assert!(take(1, SecurityEvent::Denied, Duration::ZERO), "another event has lines of its own");
        let others = (2..=200).filter(|n| take(*n, refused, Duration::ZERO)).count();
        assert!(others >= 180, "some may share a place: {others}");
        assert!(take(1, refused, WINDOW), "and later there are lines again");
        let floods = (0..=255u8).flat_map(|n| std::iter::repeat_n(n, 20));
        let all = floods.filter(|n| take(*n, refused, 5 * WINDOW)).count();
        assert_eq!(all, OF_ALL_MAX as usize, "in all");
    }

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!((&*cut("dave"), cut(&"ü".repeat(1_000)).len()), ("dave", WORDS_BYTES_MAX));
        assert_eq!(cut(&format!("x{}", "ü".repeat(1_000))).len(), WORDS_BYTES_MAX - 1);
        assert_eq!(SecurityEvent::ALL.map(|event| event as usize), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }
}
