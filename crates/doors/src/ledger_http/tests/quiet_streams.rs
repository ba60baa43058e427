//! Answers in parts that say nothing for as long as anybody reads: what becomes of one whose client closes its
//! connection.

use std::io::Read;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::routing::get;
use utoipa::OpenApi;

use super::history_lines::until;
use super::server::{SERVICE, TestServer};
use crate::http::{Door, HttpLimits, HttpRoom, OfConnection, Part, Parts, Routes};
use crate::json::{Problem, ProblemCode};

const PATH: &str = "/v1/quiet";

/// What a test and its room share.
#[derive(Clone, Default)]
struct Quiet {
    /// Streams that have begun and not ended.
    open: Arc<AtomicUsize>,
    /// They are to say their last part.
    ends: Arc<AtomicBool>,
}

struct QuietParts(Quiet);

impl Parts for QuietParts {
    async fn next(&mut self) -> Result<Part, Problem> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(match self.0.ends.load(Ordering::Relaxed) {
            true => Part { bytes: b"the end\n".to_vec(), is_last: true },
            false => Part { bytes: Vec::new(), is_last: false },
        })
    }

    fn last_word(&self, problem: Option<&Problem>) -> Vec<u8> {
        problem.map(Problem::body).unwrap_or_default()
    }
}

impl Drop for QuietParts {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn stream(State((door, quiet)): State<(Door, Quiet)>, OfConnection(silence): OfConnection) -> Response<Body> {
    quiet.open.fetch_add(1, Ordering::Relaxed);
    let first = Part { bytes: Vec::new(), is_last: false };
    Response::new(door.body_in_parts(first, QuietParts(quiet), silence))
}

#[derive(OpenApi)]
#[openapi(info(description = "Says nothing."))]
struct Document;

impl HttpRoom for Quiet {
    fn name(&self) -> &'static str {
        "quiet"
    }

    fn openapi(&self) -> utoipa::openapi::OpenApi {
        Document::openapi()
    }

    fn codes(&self) -> Vec<ProblemCode> {
        Vec::new()
    }

    fn routes(self: Box<Self>, door: &Door) -> Routes {
        Routes::new().hidden(PATH, get(stream).with_state((door.clone(), *self)))
    }
}

/// A server with the room, and a client that reads a stream of it.
fn reading(quiet: &Quiet) -> (TestServer, std::net::TcpStream) {
    let rooms: Vec<Box<dyn HttpRoom>> = vec![Box::new(quiet.clone())];
    let server = TestServer::with_rooms(HttpLimits::default(), None, rooms).unwrap();
    let mut client = server.connect();
    client.send(&format!("GET {PATH} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {SERVICE}\r\n\r\n"));
    until("the stream is open", || quiet.open.load(Ordering::Relaxed) == 1);
    (server, client.stream)
}

#[test]
fn a_stream_that_says_nothing_ends_when_its_client_closes() {
    let quiet = Quiet::default();
    let (server, client) = reading(&quiet);
    drop(client);
    until("the stream ends", || quiet.open.load(Ordering::Relaxed) == 0);
    server.stop();
}

#[test]
fn who_only_sends_no_more_gets_blank_lines_and_the_end() {
    let quiet = Quiet::default();
    let (server, mut client) = reading(&quiet);
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 4_096];
    while !answer.ends_with(b"\r\n\n\r\n") {
        let length = client.read(&mut piece).unwrap();
        assert!(length > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..length]);
    }
    quiet.ends.store(true, Ordering::Relaxed);
    client.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.ends_with("8\r\nthe end\n\r\n0\r\n\r\n"), "{answer}");
    server.stop();
}

#[test]
fn a_stream_says_that_the_server_stops_and_breaks_off() {
    let quiet = Quiet::default();
    let (server, mut client) = reading(&quiet);
    server.begin_stop();
    let mut answer = Vec::new();
    // The connection breaks, with an error or without.
    let _ = client.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.contains("\"stopping\"") && !answer.ends_with("0\r\n\r\n"), "{answer}");
    server.stop();
}
