//! Tells a connection that it gives way to a new one, and what it says to its client then.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::json::{Problem, codes};

/// What a client is told that has shown no token when others need its place.
const GAVE_WAY: &str = "the server has as many connections as it may, and this one has shown no token: it gives way to \
                        a new one; try again in a second";

/// Shared by whoever serves a connection and whoever lets others in.
#[derive(Debug, Default)]
pub struct Parting {
    is_told: AtomicBool,
    told: Notify,
}

impl Parting {
    /// The connection is to end, at once.
    pub fn tell(&self) {
        self.is_told.store(true, Ordering::Release);
        self.told.notify_one();
    }

    /// Whether it was told so.
    pub fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Acquire)
    }

    /// Waits until it is told so.
    pub async fn wait(&self) {
        // It keeps a word that comes before somebody waits for it.
        self.told.notified().await;
    }
}

/// The last answer of a connection that gives way.
pub(super) fn last_answer() -> String {
    busy(GAVE_WAY)
}

/// "Busy" as one packet that fits any socket's buffer; the connection ends behind it.
pub(super) fn busy(detail: &'static str) -> String {
    let problem = Problem::new(codes::BUSY, detail);
    let (status, body) = (codes::BUSY.status(), String::from_utf8(problem.body()).expect("JSON is text"));
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}
