//! The places of an edge thread's connections: who gives way to a new one, how it is told, and what it says to its
//! client then.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::admission::{Addresses, Connections, Crowded, Entered, LetIn};
use crate::json::{Problem, codes};
use crate::turns::CallerName;

/// What a client is told that has shown no token when others need its place.
const GAVE_WAY: &str = "the server has as many connections as it may, and this one has shown no token: it gives way to \
                        a new one; try again in a second";

/// The connections of one edge thread. Only that thread locks the mutex. It is there because hyper's services must be
/// `Send`.
#[derive(Clone)]
pub(super) struct EdgePlaces(Arc<Mutex<Connections<Arc<Parting>>>>);

/// The place of one connection, until it is dropped.
pub(super) struct EdgePlace {
    of: EdgePlaces,
    entered: Mutex<Entered>,
    /// Tells that it gives way.
    pub parting: Arc<Parting>,
}

impl EdgePlaces {
    /// None taken, of so many.
    pub fn new(connections_max: usize, addresses: Arc<Addresses>) -> EdgePlaces {
        EdgePlaces(Arc::new(Mutex::new(Connections::new(connections_max, addresses))))
    }

    /// A place for one more of this address, and whether another gives way, which has been told so.
    pub fn enter(&self, address: IpAddr) -> Result<(EdgePlace, bool), Crowded> {
        let parting = Arc::new(Parting::default());
        let LetIn { entered, gives_way } = self.lock().enter(address, parting.clone())?;
        let place = EdgePlace { of: self.clone(), entered: Mutex::new(entered), parting };
        Ok((place, gives_way.map(|other| other.tell()).is_some()))
    }

    fn lock(&self) -> MutexGuard<'_, Connections<Arc<Parting>>> {
        self.0.lock().expect("no thread panics while it holds the places")
    }
}

impl EdgePlace {
    /// Whether a good token was shown on the connection, so that it stays.
    pub fn is_known(&self) -> bool {
        self.entered().is_known()
    }

    /// `caller` has shown a good token on the connection.
    pub fn show(&self, caller: &CallerName) {
        self.of.lock().show(&mut self.entered(), caller);
    }

    /// The connection, which was counted at a load balancer's address, comes from this one. As [`EdgePlaces::enter`].
    pub fn come_from(&self, address: IpAddr) -> Result<bool, Crowded> {
        let gives_way = self.of.lock().come_from(&mut self.entered(), address)?;
        Ok(gives_way.map(|other| other.tell()).is_some())
    }

    fn entered(&self) -> MutexGuard<'_, Entered> {
        self.entered.lock().expect("no thread panics while it holds the place")
    }
}

impl Drop for EdgePlace {
    fn drop(&mut self) {
        self.of.lock().leave(&mut self.entered());
    }
}

/// Shared by whoever serves a connection and whoever lets others in.
#[derive(Debug, Default)]
pub(super) struct Parting {
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
